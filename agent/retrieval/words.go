package retrieval

import (
	"context"
	"hash/fnv"
	"math"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// wordDimensions is the length of the vectors of Words: long enough that two of some
// thousand words seldom share a place.
const wordDimensions = 1024

// Words is an Embedder that needs no model, no network and no key: texts are similar
// when they share words, or parts of words ("booking", "booked"). It does not know that
// a car is an automobile; a model's embedder does. The zero value is ready.
type Words struct{}

// Embed implements Embedder.
func (Words) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = wordVector(text)
	}
	return out, nil
}

// wordVector counts words and their parts into places that their hashes choose. A count
// weighs less the higher it is, and so do words that are short, which in most languages
// are the ones that say little.
func wordVector(text string) []float32 {
	counts := map[string]float64{}
	for state, rest := -1, strings.ToLower(text); rest != ""; {
		var word string
		word, rest, state = uniseg.FirstWordInString(rest, state)
		if !strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			continue
		}
		runes := []rune(word)
		weight := 1.0
		if len(runes) < 4 && !unicode.IsDigit(runes[0]) && !unicode.In(runes[0], unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) {
			weight = 0.25
		}
		counts[word] += weight
		marked := []rune("\u0002" + word + "\u0003")
		for n := 0; n+4 <= len(marked); n++ {
			counts[string(marked[n:n+4])] += weight / 3
		}
	}
	v := make([]float32, wordDimensions)
	for word, count := range counts {
		h := fnv.New64a()
		_, _ = h.Write([]byte(word)) // never fails
		sum := h.Sum64()
		x := float32(math.Log1p(count))
		if sum>>63 == 1 { // so that words that share a place do not add up
			x = -x
		}
		v[sum%wordDimensions] += x
	}
	Normalize(v)
	return v
}

// Normalize gives v the length 1. One without a direction stays as it is.
func Normalize(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
}
