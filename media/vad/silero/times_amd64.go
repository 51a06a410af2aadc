package silero

import "golang.org/x/sys/cpu"

// wide is whether the processor has AVX2 and fused multiply-add.
var wide = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// timesWide puts the products of rows rows of v, a multiple of 4, with the
// columns values of x, a multiple of 8, into out.
//
//go:noescape
func timesWide(out, v, x *float32, rows, columns int)

// times is timesPlain on the widest units that the processor has. The assembly
// checks nothing, so all lengths are checked here.
func (m matrix) times(out, x []float32) {
	if !wide || m.rows < 4 || m.columns < 8 {
		m.timesPlain(out, x)
		return
	}
	out, x = out[:m.rows], x[:m.columns]
	v := m.v[:m.rows*m.columns]
	timesWide(&out[0], &v[0], &x[0], m.rows, m.columns)
}
