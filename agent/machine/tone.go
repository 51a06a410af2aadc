package machine

import "math"

const (
	// toneRate is the rate in Hz at which tones are looked for.
	toneRate = 8000
	// The heights of a machine's tone in Hz.
	lowest, highest = 350, 2500
	// quietest is the level of a tone, of full scale 32768: -42 dBFS.
	quietest = 260
	// purest is the least share of the power that one sine has in a tone: noise at
	// 10 dB leaves it 0.9, two tones have 0.5 each.
	purest = 0.85
	// reach is how far noise may lead the first guess of a height astray, in Hz.
	reach = 40.0
	// drift is how far a tone's height may wander in Hz.
	drift = 25
	// shortest is how many samples a tone lasts at least: 160 ms.
	shortest = toneRate * 16 / 100
)

// tone finds a pure tone that lasts.
type tone struct {
	step   int     // samples of the input for one at toneRate
	height float64 // of the tone that is on
	length int     // samples of it
}

// hear takes a frame and says whether a tone that was long enough has just ended.
//
// Of a sine, two samples around a third tell its height: x[n-1]+x[n+1] = 2 cos(w) x[n].
// That is the guess; around it is looked for the sine that has the most of the power.
func (t *tone) hear(pcm []int16) (ended bool) {
	height, n := t.measure(pcm)
	if height > 0 && (t.length == 0 || math.Abs(height-t.height) <= drift) {
		if t.length == 0 {
			t.height = height
		}
		t.length += n
		return false
	}
	ended = t.length >= shortest
	t.length = 0
	return ended
}

// measure says how high the one tone of a frame is, 0 when it is none, and how many
// samples at toneRate the frame has.
func (t *tone) measure(pcm []int16) (height float64, samples int) {
	at := func(i int) float64 { return float64(pcm[i*t.step]) }
	n := len(pcm) / t.step
	if n < 16 {
		return 0, n
	}
	var both, power float64
	for i := 1; i < n-1; i++ {
		x := at(i)
		both += x * (at(i-1) + at(i+1))
		power += x * x
	}
	if power < quietest*quietest*float64(n-2) {
		return 0, n
	}
	c := both / power
	if c <= -2 || c >= 2 {
		return 0, n
	}
	guess := math.Acos(c/2) * toneRate / (2 * math.Pi)
	if guess < lowest-reach || guess > highest+reach {
		return 0, n
	}
	best := 0.0
	for f := guess - reach; f <= guess+reach; f += reach / 4 {
		if share := t.share(pcm, n, f); share > best {
			height, best = f, share
		}
	}
	if best < purest || height < lowest || height > highest {
		return 0, n
	}
	return height, n
}

// share is how much of a frame's power is a sine of a height (Goertzel).
func (t *tone) share(pcm []int16, n int, height float64) float64 {
	w := 2 * math.Pi * height / toneRate
	c := 2 * math.Cos(w)
	var s1, s2, power float64
	for i := range n {
		x := float64(pcm[i*t.step])
		s1, s2 = x+c*s1-s2, s1
		power += x * x
	}
	return (s1*s1 + s2*s2 - c*s1*s2) * 2 / (power * float64(n))
}
