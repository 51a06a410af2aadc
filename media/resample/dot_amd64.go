package resample

import "golang.org/x/sys/cpu"

// wide is whether the processor has AVX2 and fused multiply-add.
var wide = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// dotWide is dotPlain for n values, a multiple of 8, by AVX2.
//
//go:noescape
func dotWide(a, b *float32, n int) float32

func dot(a, b []float32) float32 {
	if wide && len(a) > 0 && len(a) <= len(b) {
		return dotWide(&a[0], &b[0], len(a)&^7)
	}
	return dotPlain(a, b)
}
