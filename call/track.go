package call

import (
	"time"

	"parley/media"
	"parley/media/resample"
)

// track is one side of a recording on its way into the file: blocks of sound are
// put where their time says.
//
//	file │ base ───── sound that waits ─────┤ end
//	                                        └ a block near its time follows directly;
//	                                          one far behind it leaves silence between
//
// Packets come with jitter, so a block that is not far from its time follows the
// one before without a seam, and what its clock differs from ours by is taken back
// a sample at a time: up to 1.25 %, which nobody hears.
type track struct {
	rate  int   // of the file, in Hz
	base  int64 // place in the file of wait[0]
	wait  []int16
	begun bool
	// early and late are how far before and behind the end of what there is a block
	// may belong and still follow directly.
	slack int64
	drift float64 // how far behind its end blocks belong, smoothed; in samples

	from  *resample.Resampler
	rates int // that from was made for
	pcm   []int16

	cut int64 // samples that came too early and were left out
}

// How far blocks may be from their time. The caller's follow one another over any
// gap that the ear does not fill, and a burst after it; the agent's slots are on
// schedule but for three that may go out at once after a stall.
const (
	callerSlack = quietAfter + 60*time.Millisecond
	agentSlack  = 70 * time.Millisecond
)

const (
	// driftSlack is how far a track may be from its time on average, and
	// driftStep after how many samples one is added or left out beyond that.
	driftSlack = 5 * time.Millisecond
	driftStep  = 80
)

func newTrack(rate int, base int64, slack time.Duration) track {
	return track{rate: rate, base: base, slack: int64(media.Samples(slack, rate))}
}

func (t *track) end() int64 { return t.base + int64(len(t.wait)) }

// put places pcm, which is at rate Hz and belongs at place of the file. torn says that
// it does not follow the block before.
func (t *track) put(place int64, pcm []int16, rate int, torn bool) error {
	if rate != t.rate {
		if t.from == nil || t.rates != rate {
			r, err := resample.New(rate, t.rate, resample.Voice)
			if err != nil {
				return err
			}
			t.from, t.rates = r, rate
		}
		t.pcm = t.from.Process(t.pcm[:0], pcm)
		pcm = t.pcm
	}
	d := place - t.end()
	switch {
	case !t.begun, d > t.slack, torn && d > 0:
		t.silence(d)
		t.begun, t.drift = true, 0
		if d < 0 { // it belongs before the beginning
			pcm = pcm[min(int64(len(pcm)), -d):]
		}
	case d < -t.slack:
		n := min(int64(len(pcm)), -d-t.slack)
		t.cut += n
		pcm = pcm[n:]
	}
	t.drift += (float64(place-t.end()) - t.drift) / 32
	t.append(pcm)
	return nil
}

// append adds pcm, a few samples longer or shorter when the track has drifted.
func (t *track) append(pcm []int16) {
	limit := float64(media.Samples(driftSlack, t.rate))
	late, early := t.drift > limit, t.drift < -limit
	for i, s := range pcm {
		seam := i%driftStep == driftStep/2
		if early && seam {
			t.drift++
			continue
		}
		t.wait = append(t.wait, s)
		if late && seam {
			t.drift--
			t.wait = append(t.wait, s)
		}
	}
}

func (t *track) silence(n int64) {
	for range n {
		t.wait = append(t.wait, 0)
	}
}

// take gives what belongs before place, with silence where nothing came. It is valid
// until the next put.
func (t *track) take(place int64) []int16 {
	t.silence(place - t.end())
	n := max(0, place-t.base)
	return t.wait[:n]
}

// taken forgets what take gave.
func (t *track) taken(n int) {
	t.base += int64(n)
	t.wait = t.wait[:copy(t.wait, t.wait[n:])]
}
