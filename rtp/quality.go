package rtp

import "time"

// The E-model of ITU-T G.107 with its default values, which leaves
//
//	R = 93.2 − Id − Ie,eff
//	Id = 0.024·d + 0.11·(d − 177.3)·[d > 177.3]      d: one way, mouth to ear, in ms
//	Ie,eff = Ie + (95 − Ie) · Ppl / (Ppl/BurstR + Bpl)
//
// Id is the linear form of Cole and Rosenbluth (2001). Ie 0 and Bpl 25.1 are those of
// G.711 with concealment (G.113, table I.4), BurstR 1 takes losses for random. G.722
// and Opus are judged by the same scale: it says what the network costs, not how wide
// the band is.
const (
	clearR     = 93.2
	robustness = 25.1
	worstIe    = 95
)

// rFactor is R for a share of packets lost (0 to 1) and a delay one way.
func rFactor(loss float64, delay time.Duration) float64 {
	d := float64(delay) / float64(time.Millisecond)
	id := 0.024 * d
	if d > 177.3 {
		id += 0.11 * (d - 177.3)
	}
	percent := 100 * min(1, max(0, loss))
	return min(100, max(0, clearR-id-worstIe*percent/(percent+robustness)))
}

// opinion is the MOS for an R factor (G.107, annex B): 1 to 4.5.
func opinion(r float64) float64 {
	switch {
	case r <= 0:
		return 1
	case r >= 100:
		return 4.5
	}
	return max(1, 1+0.035*r+r*(r-60)*(100-r)*7e-6)
}

// share is part of whole, between 0 and 1.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return min(1, float64(part)/float64(whole))
}
