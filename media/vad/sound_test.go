package vad

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// sounds builds a stream piece by piece.
type sounds struct {
	rate   int
	pcm    []int16
	random *rand.Rand
	low    float64
}

func at(rate int) *sounds {
	return &sounds{rate: rate, random: rand.New(rand.NewPCG(11, 12))}
}

func (s *sounds) add(d time.Duration, f func(t float64) float64) *sounds {
	n := int(d.Seconds() * float64(s.rate))
	for i := range n {
		v := f(float64(i) / float64(s.rate))
		s.pcm = append(s.pcm, int16(max(-32768, min(32767, math.Round(v)))))
	}
	return s
}

func rmsOf(dBFS float64) float64 { return math.Sqrt(power(dBFS)) }

func (s *sounds) silence(d time.Duration) *sounds {
	return s.add(d, func(float64) float64 { return 0 })
}

func (s *sounds) noise(d time.Duration, dBFS float64) *sounds {
	a := rmsOf(dBFS)
	return s.add(d, func(float64) float64 { return a * s.random.NormFloat64() })
}

// rumble is noise that lives in the lowest 200 Hz: its loudness wavers.
func (s *sounds) rumble(d time.Duration, dBFS float64) *sounds {
	k := 1 - math.Exp(-2*math.Pi*200/float64(s.rate))
	a := rmsOf(dBFS) * math.Sqrt((2-k)/k)
	return s.add(d, func(float64) float64 {
		s.low += k * (a*s.random.NormFloat64() - s.low)
		return s.low
	})
}

func (s *sounds) tone(d time.Duration, hz, dBFS float64) *sounds {
	a := rmsOf(dBFS) * math.Sqrt2
	return s.add(d, func(t float64) float64 { return a * math.Sin(2*math.Pi*hz*t) })
}

// speech is syllables of 160 ms, 60 ms apart: harmonics of 120 Hz.
func (s *sounds) speech(d time.Duration, dBFS float64) *sounds {
	a := rmsOf(dBFS) * 1.2
	return s.add(d, func(t float64) float64 {
		in := math.Mod(t, 0.22)
		if in > 0.16 {
			return 0.003 * a * s.random.NormFloat64()
		}
		v := 0.0
		for k := 1.0; k <= 8; k++ {
			v += math.Sin(2*math.Pi*120*k*t+k*k) / math.Sqrt(k)
		}
		return a * v * min(1, in/0.02, (0.16-in)/0.02) * 0.7
	})
}

// mix adds the sound o to the end of s.
func (s *sounds) mix(o []int16) *sounds {
	tail := s.pcm[len(s.pcm)-len(o):]
	for i := range tail {
		tail[i] = int16(max(-32768, min(32767, int(tail[i])+int(o[i]))))
	}
	return s
}

func (s *sounds) offset(v int16) *sounds {
	for i := range s.pcm {
		s.pcm[i] = int16(max(-32768, min(32767, int(s.pcm[i])+int(v))))
	}
	return s
}

// seen is an edge and when it was reported.
type seen struct {
	Edge
	at time.Duration
}

func (s seen) String() string {
	return fmt.Sprintf("%v@%v-%v", s.Kind, s.at.Milliseconds(), s.Lag.Milliseconds())
}

func run(d Detector, pcm []int16, rate int, frame time.Duration) (out []seen) {
	n := int(int64(frame) * int64(rate) / int64(time.Second))
	for i := 0; i < len(pcm); i += n {
		end := min(i+n, len(pcm))
		if e := d.Process(pcm[i:end]); e.Kind != None {
			out = append(out, seen{e, time.Duration(end) * time.Second / time.Duration(rate)})
		}
	}
	return out
}

// grammar fails unless edges come in the order the package promises.
func grammar(t *testing.T, edges []seen) {
	t.Helper()
	last := Off
	for _, e := range edges {
		ok := false
		switch e.Kind {
		case Candidate:
			ok = last == Off || last == Rejected
		case On, Rejected:
			ok = last == Candidate
		case Off:
			ok = last == On
		}
		if !ok || e.Lag < 0 || e.Lag > e.at {
			t.Fatalf("%v after %v in %v", e, last, edges)
		}
		last = e.Kind
	}
}

func kinds(edges []seen) (out []Kind) {
	for _, e := range edges {
		out = append(out, e.Kind)
	}
	return out
}

func count(edges []seen, k Kind) (n int) {
	for _, e := range edges {
		if e.Kind == k {
			n++
		}
	}
	return n
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }
