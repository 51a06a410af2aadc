package tone

import "math"

// The bounds of a key's sound, near those of ITU-T Q.24: what telephones send is taken,
// speech is not.
const (
	keyFloor  = -45.0 // dBFS: the softer of the two tones
	twist     = 8.0   // dB: the low one may be so much louder,
	reverse   = 5.0   // and the high one
	keyPeak   = 7.0   // dB: how far each tone stands above the others of its group
	keyShare  = 0.7   // of all the sound is in the two
	keyBlock  = 102   // samples at 8 kHz, 12.75 ms: tells neighbours apart
	keyBegins = 2     // blocks of one key in a row: 26 to 38 ms
	keyEnds   = 2     // blocks without it
)

// Keys hears key tones (DTMF, ITU-T Q.23) in sound: a key once for each press, however
// long. A press lasts at least 40 ms, and so does the pause to the next. It is for one
// goroutine and allocates nothing once it is made.
type Keys struct {
	size   int // of a block
	filled int
	low    [4]bin
	high   [4]bin
	energy float64

	key   byte // that is down, or 0
	next  byte // seen in the last block
	hits  int  // how often in a row
	lacks int  // blocks without key
}

// bin is one frequency of a block, by Goertzel's algorithm.
type bin struct{ k, s1, s2 float64 }

func (b *bin) add(x float64) {
	b.s1, b.s2 = x+b.k*b.s1-b.s2, b.s1
}

// take is the power so far, and begins anew.
func (b *bin) take() float64 {
	p := b.s1*b.s1 + b.s2*b.s2 - b.k*b.s1*b.s2
	b.s1, b.s2 = 0, 0
	return p
}

// NewKeys makes one for sound of a rate, at least 8000 samples a second.
func NewKeys(rate int) *Keys {
	k := &Keys{size: rate * keyBlock / 8000}
	for i := range 4 {
		k.low[i].k = 2 * math.Cos(2*math.Pi*lowTones[i]/float64(rate))
		k.high[i].k = 2 * math.Cos(2*math.Pi*highTones[i]/float64(rate))
	}
	return k
}

// Hear appends the keys whose presses begin in pcm to dst. Sound may come in pieces of
// any length.
func (k *Keys) Hear(dst []byte, pcm []int16) []byte {
	for _, s := range pcm {
		x := float64(s) / 32768
		for i := range k.low {
			k.low[i].add(x)
			k.high[i].add(x)
		}
		k.energy += x * x
		if k.filled++; k.filled == k.size {
			if pressed := k.step(k.judge()); pressed != 0 {
				dst = append(dst, pressed)
			}
			k.filled, k.energy = 0, 0
		}
	}
	return dst
}

// step takes the key of a block, 0 for none, and returns the one whose press begins.
func (k *Keys) step(seen byte) (pressed byte) {
	if seen != k.next {
		k.next, k.hits = seen, 0
	}
	k.hits++
	if k.key != 0 {
		if k.lacks++; seen == k.key {
			k.lacks = 0
		}
		if k.lacks < keyEnds {
			return 0
		}
		k.key = 0
	}
	if seen != 0 && k.hits >= keyBegins {
		k.key, k.lacks = seen, 0
		return seen
	}
	return 0
}

// judge says which key a block holds.
func (k *Keys) judge() byte {
	row, low, lowOK := loudest(&k.low)
	column, high, highOK := loudest(&k.high)
	if !lowOK || !highOK {
		return 0
	}
	// A sine of the rms a has a power of (a*size)^2/2 here.
	whole := float64(k.size) * float64(k.size) / 2
	floor := whole * math.Pow(10, keyFloor/10)
	switch {
	case low < floor || high < floor:
	case low > high*math.Pow(10, twist/10), high > low*math.Pow(10, reverse/10):
	case low+high < keyShare*k.energy*float64(k.size)/2:
	default:
		return keys[4*row+column]
	}
	return 0
}

// loudest is the loudest tone of a group, and whether it stands out. The blocks begin
// anew.
func loudest(group *[4]bin) (at int, most float64, ok bool) {
	second := 0.0
	for i := range group {
		switch p := group[i].take(); {
		case p > most:
			at, most, second = i, p, most
		case p > second:
			second = p
		}
	}
	return at, most, most > second*math.Pow(10, keyPeak/10)
}
