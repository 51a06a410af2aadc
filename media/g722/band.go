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

	a [3]int32 // poles, 1 and 2
	b [7]int32 // zeros, 1 to 6
	d [7]int32 // quantized differences, newest first
	r [3]int32 // reconstructed samples, newest first
	p [3]int32 // partly reconstructed samples, newest first
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
	n.d[0] = d
	n.r[0] = clamp16(n.s + d)  // RECONS
	n.p[0] = clamp16(n.sz + d) // PARREC
	n.poles()
	n.zeros()
	n.r[2], n.r[1] = n.r[1], n.r[0] // DELAYA
	n.p[2], n.p[1] = n.p[1], n.p[0]
	n.predict()
}

// poles adapts the pole coefficients (UPPOL2, UPPOL1).
func (n *band) poles() {
	same1 := n.p[0]>>15 == n.p[1]>>15
	same2 := n.p[0]>>15 == n.p[2]>>15
	w := clamp16(n.a[1] << 2)
	if same1 {
		w = min(-w, 32767)
	}
	second := w >> 7
	if same2 {
		second += 128
	} else {
		second -= 128
	}
	second = min(max(second+n.a[2]*32512>>15, -12288), 12288)

	first := n.a[1] * 32640 >> 15
	if same1 {
		first += 192
	} else {
		first -= 192
	}
	limit := clamp16(15360 - second)
	n.a[1], n.a[2] = min(max(clamp16(first), -limit), limit), second
}

// zeros adapts the zero coefficients and moves the differences on (UPZERO).
func (n *band) zeros() {
	d0 := n.d[0]
	var by int32
	if d0 != 0 {
		by = 128
	}
	for i := 6; i >= 1; i-- {
		v := n.b[i] * 32640 >> 15
		if (n.d[i]^d0)>>15 == 0 {
			v += by
		} else {
			v -= by
		}
		n.b[i] = clamp16(v)
		// The place i-1 is looked at next and is still of before.
		if i < 6 {
			n.d[i+1] = n.d[i]
		}
	}
	n.d[1] = d0
}

// predict makes the next prediction (FILTEP, FILTEZ, PREDIC).
func (n *band) predict() {
	sp := clamp16(n.a[1]*clamp16(2*n.r[1])>>15 + n.a[2]*clamp16(2*n.r[2])>>15)
	var sz int32
	for i := 6; i >= 1; i-- {
		sz = clamp16(sz + n.b[i]*clamp16(2*n.d[i])>>15)
	}
	n.sz = sz
	n.s = clamp16(sp + sz)
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
