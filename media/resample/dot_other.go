//go:build !amd64

package resample

func dot(a, b []float32) float32 { return dotPlain(a, b) }
