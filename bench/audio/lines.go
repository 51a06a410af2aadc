package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// packetTime is the length of the caller's packets.
const packetTime = 20 * time.Millisecond

// line is what the way from the caller does to packets.
type line struct {
	name string
	// loss is the share of packets lost: one by one, or in bursts of that mean length.
	loss, burst float64
	// jitter is up to how much each packet is held up, by itself: they overtake each
	// other when it is more than 20 ms.
	jitter time.Duration
	// reorder and duplicate are shares of packets that come 30 ms late, or twice.
	reorder, duplicate float64
	// skew is by how much the caller's clock is slow.
	skew float64
	// outage is how long every ten seconds nothing arrives; what was sent is lost, or
	// comes at its end when held is set.
	outage time.Duration
	held   bool
}

func lines() []line {
	const ms = time.Millisecond
	return []line{
		{name: "clean"},
		{name: "loss 1 %", loss: 0.01},
		{name: "loss 5 %", loss: 0.05},
		{name: "loss 10 %", loss: 0.10},
		{name: "loss 5 %, bursts of 3", loss: 0.05, burst: 3},
		{name: "loss 10 %, bursts of 3", loss: 0.10, burst: 3},
		{name: "jitter 20 ms", jitter: 20 * ms},
		{name: "jitter 60 ms", jitter: 60 * ms},
		{name: "jitter 60 ms, loss 5 %", jitter: 60 * ms, loss: 0.05},
		{name: "reordered 5 %", reorder: 0.05},
		{name: "duplicates 5 %", duplicate: 0.05},
		{name: "clock 0.5 % slow", skew: 0.005},
		{name: "clock 0.5 % fast", skew: -0.005},
		{name: "outage of 200 ms, lost", outage: 200 * ms},
		{name: "outage of 200 ms, held", outage: 200 * ms, held: true},
		{name: "all of it", jitter: 60 * ms, loss: 0.05, burst: 2, reorder: 0.02, duplicate: 0.02, skew: 0.002},
	}
}

// arrival is one packet's.
type arrival struct {
	at time.Duration
	i  int
}

// calm is how many packets at the beginning and the end are only as late as most: what is
// lost before the first packet or behind the last nobody can know of.
const calm = 5

// trace says when which of n packets arrives, and how far apart they are sent.
func (l line) trace(n int, seed uint64) (out []arrival, every time.Duration) {
	r := rand.New(rand.NewPCG(seed, 77))
	every = time.Duration(float64(packetTime) * (1 + l.skew))
	bad := false
	for i := range n {
		// All dice are thrown for every packet: lines of one seed have the same luck.
		lose, late, over, twice, gap := r.Float64(), r.Float64(), r.Float64(), r.Float64(), r.IntN(40)
		at := time.Duration(i) * every
		if i < calm || i >= n-calm {
			out = append(out, arrival{at + l.jitter/2, i})
			continue
		}
		if l.burst > 0 { // Gilbert's model: a bad state that loses all
			if bad {
				bad = lose >= 1/l.burst
			} else {
				bad = lose < l.loss/(1-l.loss)/l.burst
			}
		} else {
			bad = lose < l.loss
		}
		sent := at
		at += time.Duration(late * float64(l.jitter))
		if over < l.reorder {
			at += 30 * time.Millisecond
		}
		if out10 := sent % (10 * time.Second); l.outage > 0 && sent > 4*time.Second && out10 >= 5*time.Second && out10 < 5*time.Second+l.outage {
			if !l.held {
				continue
			}
			at = max(at, sent-out10+5*time.Second+l.outage)
		}
		if bad {
			continue
		}
		out = append(out, arrival{at, i})
		if twice < l.duplicate {
			out = append(out, arrival{at + time.Duration(gap)*time.Millisecond, i})
		}
	}
	slices.SortStableFunc(out, func(a, b arrival) int { return int(a.at - b.at) })
	return out, every
}
