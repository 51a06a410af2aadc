package resample

import (
	"math"
	"sync"
)

// bank is the filter for one pair of rates, cut into phases. It is never changed
// after it was made.
type bank struct {
	up, down int
	taps     int       // of one phase, a multiple of 8
	coef     []float32 // phase after phase
}

// cache keeps the banks in use: 500 bytes for 8 to 16 kHz, 110 KB for 44.1 to
// 16 kHz, so each is made once and shared by all calls. It remembers nothing but
// pure results and is bounded by the square of Rates.
type cache struct {
	mu    sync.Mutex
	banks map[key]*bank
}

type key struct {
	in, out int
	q       Quality
}

var banks = cache{banks: map[key]*bank{}}

func (c *cache) of(in, out int, q Quality) *bank {
	k := key{in, out, q}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.banks[k]
	if b == nil {
		b = design(in, out, q)
		c.banks[k] = b
	}
	return b
}

// rejection is what the stop band is designed for, in dB. Rounding to 16 bits
// leaves about 98.
const rejection = 86.0

// design computes a bank. The formulas are Kaiser's: a window that stops by
// rejection needs a transition band of (rejection-7.95)/14.36 over its length.
func design(in, out int, q Quality) *bank {
	g := gcd(in, out)
	b := &bank{up: out / g, down: in / g}
	low := float64(min(in, out))
	half := float64(q.crossings()) / low // seconds on each side
	b.taps = (int(math.Ceil(2*half*float64(in))) + 7) &^ 7
	transition := (rejection - 7.95) / 14.36 / (2 * half)
	cut := low/2 - transition/2 // Hz, in the middle of the transition band
	if q == Fast {
		cut = low / 2
	}
	beta := 0.1102 * (rejection - 8.7)
	norm := bessel(beta)
	b.coef = make([]float32, b.up*b.taps)
	phase := make([]float64, b.taps)
	for p := range b.up {
		sum := 0.0
		for k := range phase {
			t := (float64(k-(b.taps/2-1)) - float64(p)/float64(b.up)) / float64(in)
			v := 0.0
			if w := t / half; w > -1 && w < 1 {
				v = sinc(2*cut*t) * bessel(beta*math.Sqrt(1-w*w)) / norm
			}
			phase[k] = v
			sum += v
		}
		for k, v := range phase {
			b.coef[p*b.taps+k] = float32(v / sum) // each phase leaves a constant unchanged
		}
	}
	return b
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}

// bessel is the modified Bessel function of the first kind, order zero.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > 1e-17*sum; k++ {
		f := x / (2 * k)
		term *= f * f
		sum += term
	}
	return sum
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
