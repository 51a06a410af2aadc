package pocketsphinx

import "math"

// The difference of score per frame at which speech of the grammar is as likely as
// other sounds, and how fast that changes. Tuned on the recordings of one person over
// G.711; human_test.go holds on to it.
const (
	evenScore  = 7.0
	scoreScale = 2.0
)

// leastFrames keeps a click from counting as a word that fits very well.
const leastFrames = 10

// confidence tells how likely the words are what was said, from the score of the
// words and the score of a loop of phones that fits any speech, over the loop's
// frames of speech. Of words that are not in the grammar, and of coughs, the loop
// makes much better sense. The score includes the silences: a grammar that cannot
// explain a sound calls it one.
func confidence(words, loop, frames int) float64 {
	perFrame := float64(words-loop) / float64(max(frames, leastFrames))
	return 1 / (1 + math.Exp((evenScore-perFrame)/scoreScale))
}
