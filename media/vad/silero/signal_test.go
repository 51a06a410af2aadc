package silero

import "math"

// signal is four seconds of made-up sound at rate Hz that is computed alike
// everywhere: noise, then syllables of a buzzing voice through moving formants,
// then noise and clicks.
func signal(rate int) []int16 {
	n := 4 * rate
	source, out := make([]float64, n), make([]float64, n)
	seed, phase := uint32(1), 0.0
	for i := range source {
		t := float64(i) / float64(rate)
		seed = seed*1664525 + 1013904223
		hiss := float64(int32(seed)) / (1 << 31)
		phase += (118 + 14*math.Sin(2*math.Pi*0.9*t)) / float64(rate)
		if phase >= 1 {
			phase--
			source[i] = 1
		}
		source[i] += 0.01 * hiss
		out[i] = 40 * hiss
		if t > 3 && i%(rate/10) < rate/400 {
			out[i] += 6000 * hiss
		}
	}
	voice := source
	for k, hz := range []float64{560, 1500, 2500, 3400} {
		voice = resonate(voice, rate, hz, 60+30*float64(k), 0.25-0.05*float64(k))
	}
	peak := 0.0
	for _, v := range voice {
		peak = max(peak, math.Abs(v))
	}
	pcm := make([]int16, n)
	for i := range pcm {
		t := float64(i) / float64(rate)
		if t > 0.8 && t < 2.8 {
			s := math.Sin(2 * math.Pi * 2.2 * t)
			out[i] += 14000 * voice[i] / peak * s * s
		}
		pcm[i] = int16(math.Round(out[i]))
	}
	return pcm
}

// resonate is a formant that moves by depth around hz, three times a second.
func resonate(in []float64, rate int, hz, width, depth float64) []float64 {
	out := make([]float64, len(in))
	r := math.Exp(-math.Pi * width / float64(rate))
	var y1, y2 float64
	for i, x := range in {
		f := hz * (1 + depth*math.Sin(2*math.Pi*3*float64(i)/float64(rate)))
		y := x*(1-r) + 2*r*math.Cos(2*math.Pi*f/float64(rate))*y1 - r*r*y2
		y1, y2 = y, y1
		out[i] = y
	}
	return out
}
