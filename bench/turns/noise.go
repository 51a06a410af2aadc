package main

import (
	"math"
	"math/rand/v2"
	"time"

	"parley/test/audio"
)

// noiseLength is how long a noise is before it begins again.
const noiseLength = 30 * time.Second

// noises are what is around callers, each as loud as speech of callerLevel.
type noises map[string][]int16

// newNoises makes them. talk is what people say in the background.
func newNoises(talk [][]int16, seed uint64) noises {
	random := rand.New(rand.NewPCG(seed, 77))
	return noises{"babble": babble(talk, random), "street": street(random), "music": music(random)}
}

// room is the noise for a call: softer than speech by snr dB, from a place of its own.
func (n noises) room(name string, snr float64, random *rand.Rand) []int16 {
	whole := n[name]
	if len(whole) == 0 {
		return nil
	}
	at := random.IntN(len(whole))
	return louder(append(whole[at:len(whole):len(whole)], whole[:at]...), -snr)
}

// even is a noise whose root mean square is callerLevel.
func even(values []float64) []int16 {
	sum := 0.0
	for _, v := range values {
		sum += v * v
	}
	factor := 32768 * math.Pow(10, callerLevel/20) / math.Sqrt(sum/float64(len(values)))
	pcm := make([]int16, len(values))
	for i, v := range values {
		pcm[i] = clip(v * factor)
	}
	return pcm
}

// babble is six people who talk at once.
func babble(talk [][]int16, random *rand.Rand) []int16 {
	out := make([]float64, samples(noiseLength))
	if len(talk) == 0 {
		return nil
	}
	for range 6 {
		for at := -random.IntN(samples(2 * time.Second)); at < len(out); at += samples(time.Duration(50+random.IntN(250)) * time.Millisecond) {
			one := leveled(talk[random.IntN(len(talk))], -26)
			for i, v := range one {
				if at+i >= 0 && at+i < len(out) {
					out[at+i] += float64(v)
				}
			}
			at += len(one)
		}
	}
	return even(out)
}

// street is pink noise that comes and goes by some decibels, as traffic does.
func street(random *rand.Rand) []int16 {
	out := make([]float64, samples(noiseLength))
	var rows [12]float64
	sum := 0.0
	for i := range out {
		// Voss: row k changes every 2^k samples.
		for k := range rows {
			if i&(1<<k-1) == 0 {
				sum -= rows[k]
				rows[k] = random.NormFloat64()
				sum += rows[k]
			}
		}
		t := float64(i) / rate
		// Whole periods in noiseLength, so that no jump is heard where it begins again.
		swell := 2*math.Sin(2*math.Pi*t*4/30) + 2*math.Sin(2*math.Pi*t*7/30+1)
		out[i] = sum * math.Pow(10, swell/20)
	}
	return even(out)
}

// music is a song on hold: chords, a bass, a beat.
func music(random *rand.Rand) []int16 {
	out := make([]float64, samples(noiseLength))
	const beat = 0.5 // seconds
	chords := [][]float64{{262, 330, 392}, {220, 262, 330}, {175, 220, 262}, {196, 247, 294}}
	pluck := func(at, pitch, loud, decay float64) {
		from := int(at * rate)
		for i := from; i < min(len(out), from+rate); i++ {
			t := float64(i-from) / rate
			wave := 0.0
			for h := 1.0; h <= 4; h++ {
				wave += math.Sin(2*math.Pi*pitch*h*t) / (h * h)
			}
			out[i] += loud * wave * math.Exp(-t/decay) * min(1, t/0.004)
		}
	}
	for n := 0; float64(n)*beat < noiseLength.Seconds(); n++ {
		at, chord := float64(n)*beat, chords[n/4%len(chords)]
		pluck(at, chord[0]/2, 0.9, 0.4)
		for i, pitch := range chord {
			pluck(at+float64(i)*beat/3, pitch*2, 0.5, 0.25)
		}
		from := int((at + beat/2) * rate)
		for i := from; i < min(len(out), from+rate/10); i++ {
			out[i] += 0.5 * random.NormFloat64() * math.Exp(-float64(i-from)/rate/0.03)
		}
	}
	return even(out)
}

// snrOf is for the tests: by how many dB speech is louder than noise.
func snrOf(speech, noise []int16) float64 { return active(speech) - audio.Level(noise) }
