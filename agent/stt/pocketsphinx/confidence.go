package pocketsphinx

import "math"

// The score per frame at which speech of the grammar and other sounds are equally
// likely, and how fast that changes. Measured on recordings of people over G.711:
// human_test.go holds on to it.
const (
	evenScore  = -60.0
	scoreScale = 5.0
)

// confidence turns a score per frame into a figure between 0 and 1.
func confidence(perFrame float64) float64 {
	return 1 / (1 + math.Exp((evenScore-perFrame)/scoreScale))
}
