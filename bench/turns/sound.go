package main

import (
	"math"
	"math/rand/v2"
	"time"

	"parley/media"
	"parley/media/resample"
	"parley/test/audio"
)

// rate is the one of everything that callers say, in Hz.
const rate = 8000

// Levels in dBFS of what is said, while it is said.
const (
	callerLevel = -22.0
	agentLevel  = -22.0
)

// samples is how many of them last d.
func samples(d time.Duration) int { return media.Samples(d, rate) }

// lasting is how long pcm lasts.
func lasting(pcm []int16) time.Duration { return media.Duration(len(pcm), rate) }

// narrow is pcm at the rate of telephones.
func narrow(pcm []int16, from int) ([]int16, error) {
	if from == rate {
		return pcm, nil
	}
	if from == 48000 { // the resampler's own steps
		var err error
		if pcm, err = resample.Convert(48000, 16000, resample.Voice, pcm); err != nil {
			return nil, err
		}
		from = 16000
	}
	return resample.Convert(from, rate, resample.Voice, pcm)
}

// active is the level of pcm where it sounds: of its 20 ms that are less than 30 dB below
// the loudest.
func active(pcm []int16) float64 {
	const step = rate / 50
	loudest := audio.Floor
	for rest := pcm; len(rest) >= step; rest = rest[step:] {
		loudest = max(loudest, audio.Level(rest[:step]))
	}
	var sum float64
	n := 0
	for rest := pcm; len(rest) >= step; rest = rest[step:] {
		if l := audio.Level(rest[:step]); l > loudest-30 {
			sum += math.Pow(10, l/10)
			n++
		}
	}
	if n == 0 {
		return audio.Floor
	}
	return 10 * math.Log10(sum/float64(n))
}

// leveled is pcm with its sound at a level.
func leveled(pcm []int16, dBFS float64) []int16 {
	return louder(pcm, dBFS-active(pcm))
}

// louder is pcm amplified.
func louder(pcm []int16, dB float64) []int16 {
	factor := math.Pow(10, dB/20)
	out := make([]int16, len(pcm))
	for i, v := range pcm {
		out[i] = clip(float64(v) * factor)
	}
	return out
}

func clip(v float64) int16 { return int16(math.Round(max(-32768, min(32767, v)))) }

// trimmed is pcm from its first to its last sound, so that whoever says it begins with
// the first packet and ends with the last. What lasts for less than 40 ms, or is 18 dB
// softer than the speech, is breath and the noise of the recording.
func trimmed(pcm []int16) []int16 {
	const step, most = rate / 100, 5
	limit := active(pcm) - 18
	var loud []bool
	for rest := pcm; len(rest) >= step; rest = rest[step:] {
		loud = append(loud, audio.Level(rest[:step]) > limit)
	}
	sounds := func(from int) bool { // four of five
		n := 0
		for _, l := range loud[max(0, from):min(len(loud), from+most)] {
			if l {
				n++
			}
		}
		return n >= most-1
	}
	first, last := -1, 0
	for i := range loud {
		if first < 0 && loud[i] && sounds(i) {
			first = i
		}
		if loud[i] && sounds(i-most+1) {
			last = i + 1
		}
	}
	if first < 0 {
		return nil
	}
	return pcm[first*step : last*step]
}

// The synthetic sounds that are no voice. They are as loud against speech as they are on
// telephones: a cough about as loud, a knock louder, a breath much softer.

// cough is two bursts of noise in the range of a throat.
func cough(random *rand.Rand) []int16 {
	pcm := make([]float64, samples(time.Duration(350+random.IntN(150))*time.Millisecond))
	second := len(pcm) * 55 / 100
	var low, lower float64
	for i := range pcm {
		low += 0.7 * (random.NormFloat64() - low)
		lower += 0.25 * (low - lower)
		after := i
		if i >= second {
			after = i - second
		}
		t := float64(after) / rate
		envelope := min(1, t/0.01) * math.Exp(-t/0.06)
		if i >= second {
			envelope *= 0.7
		}
		pcm[i] = (low - lower) * envelope
	}
	return scaled(pcm, callerLevel+2)
}

// click is a handset that is put down or knocked against: a few damped beats of 5 ms.
func click(random *rand.Rand) []int16 {
	pcm := make([]float64, samples(180*time.Millisecond))
	for range 2 + random.IntN(2) {
		at, pitch := random.IntN(len(pcm)*2/3), 600+1200*random.Float64()
		for i := at; i < len(pcm); i++ {
			t := float64(i-at) / rate
			pcm[i] += math.Exp(-t/0.005) * math.Sin(2*math.Pi*pitch*t)
		}
	}
	return scaled(pcm, callerLevel+4)
}

// breath is noise that swells and fades, 15 dB below speech.
func breath(random *rand.Rand) []int16 {
	pcm := make([]float64, samples(time.Duration(500+random.IntN(400))*time.Millisecond))
	var low float64
	for i := range pcm {
		low += 0.5 * (random.NormFloat64() - low)
		pcm[i] = low * math.Sin(math.Pi*float64(i)/float64(len(pcm)))
	}
	return scaled(pcm, callerLevel-15)
}

// scaled makes samples of values, at a level.
func scaled(values []float64, dBFS float64) []int16 {
	top := 0.0
	for _, v := range values {
		top = max(top, math.Abs(v))
	}
	pcm := make([]int16, len(values))
	for i, v := range values {
		pcm[i] = int16(20000 * v / top)
	}
	return leveled(pcm, dBFS)
}
