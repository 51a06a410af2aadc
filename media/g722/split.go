package g722

// taps are the first half of the quadrature mirror filter's 24 coefficients; the
// second mirrors it (table 4 of the Recommendation).
var taps = [12]int32{3, -11, 12, 32, -210, 951, 3876, -805, 362, -156, 53, -11}

// split is the filter that takes two samples into two bands, and back. The past is
// held twice so that a window of it is always in one piece.
type split struct {
	even, odd [24]int32
	at        int
}

// push takes a pair into the past and returns the windows, oldest first.
func (q *split) push(a, b int32) (even, odd *[12]int32) {
	q.even[q.at], q.even[q.at+12] = a, a
	q.odd[q.at], q.odd[q.at+12] = b, b
	if q.at++; q.at == 12 {
		q.at = 0
	}
	return (*[12]int32)(q.even[q.at:]), (*[12]int32)(q.odd[q.at:])
}

// analyse is one sample of each band for two of sound (transmit QMF).
func (q *split) analyse(a, b int32) (low, high int32) {
	even, odd := q.push(a, b)
	var x, y int32
	for i, c := range taps {
		x += even[i] * c
		y += odd[11-i] * c
	}
	return (y + x) >> 14, (y - x) >> 14
}

// synthesise is two samples of sound for one of each band (receive QMF).
func (q *split) synthesise(low, high int32) (a, b int32) {
	even, odd := q.push(low+high, low-high)
	var x, y int32
	for i, c := range taps {
		x += odd[11-i] * c
		y += even[i] * c
	}
	return clamp16(x >> 11), clamp16(y >> 11)
}
