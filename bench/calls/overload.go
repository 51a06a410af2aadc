package main

import (
	"fmt"
	"time"
)

// overload is P10: a gateway that takes n calls is offered half as many more while
// the n stand.
func (b *bench) overload() error {
	n, window := 100, 12*time.Second
	tableHead(fmt.Sprintf("overload: room for %d calls, %d are offered", n, n+n/2))
	var extra outcome
	var fault error
	done := make(chan struct{})
	out, err := b.run(b.parley("-max", itoa(n)), n, window, func(u *sut) {
		defer close(done)
		var l *load
		if l, fault = startLoad(b.dir, loadOf{scenario: "uac-refused.xml", addr: u.addr, calls: n / 2, rate: 10, limit: n, port: 5098}); fault == nil {
			l.wait()
			extra, fault = l.outcome()
		}
	})
	if err != nil {
		return err
	}
	<-done
	if fault != nil {
		return fault
	}
	out.row("parley", n)
	fmt.Printf("  %d taken, %d refused with 503 and Retry-After\n", out.Streams, extra.ok)
	b.atMost("P10-taken", float64(max(out.Streams-n, n-out.Streams)), 0, " off the limit")
	b.atMost("P10-not-refused", float64(n/2-extra.ok), 0, "")
	b.atMost("P10-lost", float64(out.Lost), 0, "")
	b.atMost("P10-skipped", float64(out.Skipped), 0, "")
	b.atMost("P10-pacing", out.DevP99, 1.5, "ms")
	return nil
}

// delays is P5 and P6, from the histograms that /metrics shows: what the gateway
// itself adds, the agent speaking now and then.
func (b *bench) delays() error {
	n, window := 100, 20*time.Second
	if b.quick {
		n, window = 20, 6*time.Second
	}
	tableHead("delays: an agent that speaks for 400 ms and is silent for a second")
	var d delays
	var last status
	out, err := b.run(b.parley("-turns"), n, window, func(u *sut) {
		time.Sleep(window - time.Second)
		last = u.status()
	})
	if err != nil {
		return err
	}
	out.row("parley", n)
	if d = last.Delays; d.Hear < 100 || d.Say < 100 {
		return fmt.Errorf("only %.0f and %.0f delays were counted", d.Hear, d.Say)
	}
	fmt.Printf("  upper bounds of histogram buckets, of %.0f packets heard and %.0f replies\n", d.Hear, d.Say)
	b.atMost("P5-p50", d.HearP50, 8, "ms")
	b.atMost("P5-p99", d.HearP99, 15, "ms")
	b.atMost("P6-p50", d.SayP50, 5, "ms")
	b.atMost("P6-p99", d.SayP99, 21, "ms")
	return nil
}
