package g722

import "parley/media"

var _ media.Idler = (*Encoder)(nil)

// signs are 80 signs, half of each kind, whose products with themselves shifted by
// one to eight places sum up to zero. A predictor that sees them learns nothing.
//
// That matters because the predictors of both sides adapt to the signs of what was
// sent. Silence as an encoder makes it is balanced only by what follows: a piece
// of it repeated drives a decoder's predictor to its stops within a second, and the
// next word comes out as a roar at full scale.
const signs = "10010111000010010001001011000101100001101111111100110101000100011101111010001110"

// The idle codes, in turn: the least difference of the higher band either way, and
// in the lower one the two least differences. The smallest alone, with a scale at
// its own smallest, would drown in the rounding of the predictor, which leans to
// one side.
const (
	idleUp   = 3<<6 | 14<<2 | 1
	idleDown = 1<<6 | 7<<2 | 1
)

// Idle implements media.Idler: soft noise, at -66 dBFS as quiet as a telephone line.
func (e *Encoder) Idle(dst []byte, samples int) []byte {
	for i := range samples / 2 {
		code := byte(idleDown)
		if signs[i%len(signs)] == '1' {
			code = idleUp
		}
		dst = append(dst, code-byte(i%2)<<2) // one step larger
	}
	return dst
}

// Follow implements media.Idler.
func (e *Encoder) Follow(payload []byte) {
	for _, c := range payload {
		e.take(int32(c&0x3f), int32(c>>6))
	}
}
