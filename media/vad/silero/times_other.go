//go:build !amd64

package silero

func (m matrix) times(out, x []float32) { m.timesPlain(out, x) }
