package flite

import (
	"time"

	"parley/agent/tts"
)

// times is a token that flite made of the text: where its sound is, and the offset
// in the text just behind the token and the white space after it.
type times struct {
	behind     int
	start, end time.Duration
}

// place gives each word of the piece the sound of its tokens, shift earlier. A word
// is the last one that begins before the end of the token. Words without tokens are
// empty at the end of the word before.
func (p *piece) place(tokens []times, shift time.Duration) []tts.Word {
	out := make([]tts.Word, len(p.words))
	var at time.Duration
	t := 0
	for i, w := range p.words {
		next := len(p.text) + 1
		if i+1 < len(p.start) {
			next = p.start[i+1]
		}
		out[i] = tts.Word{Text: w.text, Start: at, End: at}
		for sounds := false; t < len(tokens) && (tokens[t].behind <= next || i == len(p.words)-1); t++ {
			if !sounds {
				out[i].Start, sounds = max(at, tokens[t].start-shift), true
			}
			out[i].End = max(out[i].Start, tokens[t].end-shift)
		}
		at = out[i].End
	}
	return out
}

// shifted is a copy of words, offset later; nil for none.
func shifted(words []tts.Word, offset time.Duration) []tts.Word {
	if len(words) == 0 {
		return nil
	}
	out := make([]tts.Word, len(words))
	for i, w := range words {
		out[i] = tts.Word{Text: w.Text, Start: w.Start + offset, End: w.End + offset}
	}
	return out
}
