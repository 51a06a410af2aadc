package main

import "time"

// tally is what is known of a stream whose packets are not kept.
type tally struct {
	first, last   arrival
	packets       int
	lost, skipped int
}

func (t *tally) add(a arrival) {
	if t.packets++; t.packets == 1 {
		t.first, t.last = a, a
		return
	}
	lost, skipped := between(t.last, a)
	t.lost += lost
	t.skipped += skipped
	t.last = a
}

// between is what is missing between two packets that came one after the other:
// numbers that never came, and slots that were not sent.
func between(a, b arrival) (lost, skipped int) {
	sent := int(int16(b.seq - a.seq))
	slots := int(int32(b.ts-a.ts)) / payload
	return max(0, sent-1), max(0, slots-sent)
}

// verdictOf judges the streams by all their packets, or by what was counted.
func verdictOf(streams []*stream, counted bool) verdict {
	if !counted {
		return judge(streams)
	}
	v := verdict{RateMin: 1e9}
	for _, s := range streams {
		t := &s.tally
		if t.packets < 10 {
			continue
		}
		v.Streams++
		v.Packets += t.packets
		v.Lost += t.lost
		v.Skipped += t.skipped
		rate := float64(t.packets-1) / time.Duration(t.last.at-t.first.at).Seconds()
		v.RateMin, v.RateMax = min(v.RateMin, rate), max(v.RateMax, rate)
	}
	return v
}
