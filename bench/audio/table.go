package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// same is by how much two scores may differ that mean the same.
const same = 0.003

func table(runs []*trial) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "codec\tline\tlost\tlate\tconcealed\tshift\tmean\tp95\tscore\t|\tnothing concealed\tno FEC\t|\tfixed: late\tmean\tp95\tscore\t")
	for _, t := range runs {
		fec := ""
		if t.codec.Name == "opus" {
			fec = fmt.Sprintf("%.3f", t.noFEC.score)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.1f %%\t%.0f ms\t%s\t%s\t%.3f\t|\t%.3f\t%s\t|\t%d\t%s\t%s\t%.3f\t\n", t.codec.Name, t.line.name,
			t.ours.lost, t.ours.late, 100*t.ours.concealed.Seconds()/(time.Duration(len(t.payloads))*packetTime).Seconds(), t.ours.shift,
			ms(t.ours.mean), ms(t.ours.percentile), t.ours.score, t.bare.score, fec, t.fixed.late, ms(t.fixed.mean), ms(t.fixed.percentile), t.fixed.score)
	}
	w.Flush()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

// bars prints what was asked for, and whether it was so, with the rows where not.
func bars(runs []*trial) {
	check := func(name, what string, rows func(*trial) bool, ok func(*trial) bool) {
		all, good := 0, 0
		var not []string
		for _, t := range runs {
			if !rows(t) {
				continue
			}
			all++
			if ok(t) {
				good++
				continue
			}
			not = append(not, t.codec.Name+" "+t.line.name)
		}
		verdict := "met"
		if good < all {
			verdict = "missed"
		}
		fmt.Printf("BAR %s %s %d of %d %s\n", name, what, good, all, verdict)
		for _, n := range not {
			fmt.Println("    not:", n)
		}
	}
	any_ := func(*trial) bool { return true }
	// A fixed buffer that has run dry is soon, and of no use.
	working := func(t *trial) bool { return t.fixed.late*20 < len(t.payloads) }
	loses := func(t *trial) bool { return t.line.loss > 0 || t.line.outage > 0 && !t.line.held }
	check("A1", "heard at least as well as without concealment, better where packets are lost:", any_, func(t *trial) bool {
		return t.ours.score >= t.bare.score-same && (!loses(t) || t.ours.score > t.bare.score)
	})
	check("A2", "heard at least as well as with a fixed buffer of 60 ms:", any_, func(t *trial) bool { return t.ours.score >= t.fixed.score-same })
	check("A3", "sooner than with a fixed buffer, mean:", working, func(t *trial) bool { return t.ours.mean < t.fixed.mean })
	check("A4", "sooner than with a fixed buffer, p95:", working, func(t *trial) bool { return t.ours.percentile <= t.fixed.percentile })
	check("A5", "no sound moved by more than 20 ms:", any_, func(t *trial) bool { return t.ours.shift <= 20 })
	check("A6", "Opus's FEC makes lost speech better:", func(t *trial) bool { return t.codec.Name == "opus" && loses(t) }, func(t *trial) bool {
		return t.ours.score > t.noFEC.score
	})
	check("A7", "clean line: mean at most 8 ms, p95 at most 15:", func(t *trial) bool { return t.line.name == "clean" }, func(t *trial) bool {
		return t.ours.mean <= 8*time.Millisecond && t.ours.percentile <= 15*time.Millisecond
	})
}
