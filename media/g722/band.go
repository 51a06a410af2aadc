package g722

// band is the ADPCM state of one band: the scale of its quantizer and the
// predictor, two poles and six zeros. Encoder and decoder keep it alike, since
// both move it only by what is on the wire. Values are 16 bit as in the
// Recommendation, held in 32 so that sums can be limited afterwards.
type band struct {
	s     int32 // predicted sample
	sz    int32 // the part of it from the zeros
	scale int32 // of the quantizer (DET)
	log   int32 // its logarithm (NB)

	a1, a2 int32    // poles
	b      [6]int32 // zeros
	d      [6]int32 // quantized differences doubled, newest first
	r1, r2 int32    // reconstructed samples doubled, newest first
	p1, p2 int32    // partly reconstructed samples, newest first
}

func newLow() band  { return band{scale: 32} }
func newHigh() band { return band{scale: 8} }

// scaleLow adapts the lower quantizer to a code of four bits (LOGSCL, SCALEL).
func (n *band) scaleLow(code int32) {
	n.log = min(max(n.log*127>>7+lowLog[lowRow[code]], 0), 18432)
	n.scale = antilog(n.log, 8)
}

// scaleHigh adapts the higher quantizer to a code of two bits (LOGSCH, SCALEH).
func (n *band) scaleHigh(code int32) {
	n.log = min(max(n.log*127>>7+highLog[code], 0), 22528)
	n.scale = antilog(n.log, 10)
}

// antilog turns the logarithm of a scale into the scale.
func antilog(log, shift int32) int32 {
	v, by := antilogs[log>>6&31], shift-log>>11
	if by < 0 {
		return v << -by << 2
	}
	return v >> by << 2
}

// adapt takes a quantized difference into the predictor and predicts the next
// sample (block 4 of the Recommendation).
func (n *band) adapt(d int32) {
	r := clamp16(n.s + d)  // RECONS
	p := clamp16(n.sz + d) // PARREC
	n.poles(p)
	n.zeros(d)
	n.r2, n.r1 = n.r1, clamp16(2*r)
	n.p2, n.p1 = n.p1, p
	poles := clamp16(n.a1*n.r1>>15 + n.a2*n.r2>>15) // FILTEP
	n.s = clamp16(poles + n.sz)                     // PREDIC
}

// poles adapts the pole coefficients to the partly reconstructed sample p (UPPOL2,
// UPPOL1).
func (n *band) poles(p int32) {
	second, first := clamp16(n.a1<<2), int32(-192)
	if (p^n.p1)>>31 == 0 {
		second, first = min(-second, 32767), 192
	}
	second = second>>7 + n.a2*32512>>15
	if (p^n.p2)>>31 == 0 {
		second += 128
	} else {
		second -= 128
	}
	n.a2 = min(max(second, -12288), 12288)
	limit := clamp16(15360 - n.a2)
	n.a1 = min(max(n.a1*32640>>15+first, -limit), limit)
}

// zeros adapts the zero coefficients to d, moves the differences on and sums up
// what the zeros predict (UPZERO, DELAYA, FILTEZ), in one pass from the oldest.
func (n *band) zeros(d int32) {
	newest := clamp16(2 * d)
	by := int32(128)
	if d == 0 {
		by = 0
	}
	sum := int32(0)
	for i := len(n.b) - 1; i >= 0; i-- {
		differ := (n.d[i] ^ newest) >> 31 // -1 when the signs do, else 0
		b := clamp16(n.b[i]*32640>>15 + (by ^ differ) - differ)
		n.b[i] = b
		next := newest
		if i > 0 {
			next = n.d[i-1]
		}
		n.d[i] = next
		sum = clamp16(sum + b*next>>15)
	}
	n.sz = sum
}

// quantizeLow is the code of six bits for a difference (QUANTL).
func quantizeLow(e, scale int32) int32 {
	size := e
	if e < 0 {
		size = -(e + 1)
	}
	// The level is the number of thresholds at or below size: bisection over 29.
	lo, hi := 1, 30
	for lo < hi {
		mid := (lo + hi) / 2
		if size < thresholds[mid]*scale>>12 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if e < 0 {
		if lo <= 2 {
			return int32(64 - lo)
		}
		return int32(34 - lo)
	}
	return int32(62 - lo)
}

// quantizeHigh is the code of two bits for a difference (QUANTH).
func quantizeHigh(e, scale int32) int32 {
	size, code := e, int32(3)
	if e < 0 {
		size, code = -(e + 1), 1
	}
	if size >= 564*scale>>12 {
		code--
	}
	return code
}

// lowStep is the difference that four bits stand for (INVQAL).
func lowStep(code, scale int32) int32 { return scale * coarse[code] >> 15 }

// highStep is the difference that two bits stand for (INVQAH).
func highStep(code, scale int32) int32 { return scale * highSteps[code] >> 15 }
