package silero

// timesPlain puts the products of all rows of m with x into out. len(x) is the
// number of columns; out has room for all rows.
func (m matrix) timesPlain(out, x []float32) {
	for r := range m.rows {
		out[r] = dot(m.row(r), x)
	}
}

// dot is the sum of products of two slices of equal length, a multiple of 8. Four
// sums keep the processor from waiting for each addition.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0]*b[0] + a[4]*b[4]
		s1 += a[1]*b[1] + a[5]*b[5]
		s2 += a[2]*b[2] + a[6]*b[6]
		s3 += a[3]*b[3] + a[7]*b[7]
		a, b = a[8:], b[8:]
	}
	return (s0 + s1) + (s2 + s3)
}
