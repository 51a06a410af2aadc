package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/agent/internal/wire"
	"parley/agent/stt"
)

// maxText bounds what is taken of an utterance's words, in bytes.
const maxText = 8 << 10

// number is one that some services send as text, and null for none.
type number struct {
	value float64
	known bool
}

// UnmarshalJSON takes what it can: a number of no use is not worth a transcript.
func (n *number) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(string(bytes.Trim(b, `"`)), 64)
	*n = number{v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)}
	if !n.known {
		n.value = 0
	}
	return nil
}

// timed is a word of an answer.
type timed struct {
	Word        string `json:"word"`
	Text        string `json:"text"` // of some
	Start       number `json:"start"`
	End         number `json:"end"`
	Probability number `json:"probability"`
}

type segment struct {
	Text       string  `json:"text"`
	Start      number  `json:"start"`
	End        number  `json:"end"`
	AvgLogprob number  `json:"avg_logprob"`
	NoSpeech   number  `json:"no_speech_prob"`
	Words      []timed `json:"words"`
}

type token struct {
	Logprob number `json:"logprob"`
}

// answer is a whole answer, or an event of a stream of one.
type answer struct {
	Type     string          `json:"type"`
	Text     *string         `json:"text"`
	Delta    string          `json:"delta"`
	Segments []segment       `json:"segments"`
	Words    []timed         `json:"words"`
	Logprobs []token         `json:"logprobs"`
	Error    json.RawMessage `json:"error"`
	Choices  []struct {      // of vLLM
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
}

// transcript is what an answer says.
type transcript struct {
	text       string
	confidence float64
	words      []stt.Word
}

// failure is an answer's own account of what went wrong.
type failure struct{ said string }

func (f failure) Error() string { return f.said }

var errNoTranscript = errors.New("the answer holds no transcript")

// parseAnswer reads the body of an answer that is no stream.
func parseAnswer(body []byte, noSpeech float64) (transcript, error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	if len(body) > 0 && body[0] != '{' {
		return transcript{}, errNoTranscript
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return transcript{}, errNoTranscript
	}
	if said := wire.FailureText(a.Error); said != "" {
		return transcript{}, failure{said}
	}
	if a.Text == nil && a.Segments == nil {
		return transcript{}, errNoTranscript
	}
	return a.transcript(noSpeech), nil
}

// transcript leaves out what the model itself does not take for speech.
func (a answer) transcript(noSpeech float64) transcript {
	var t transcript
	kept, dropped := "", false
	sure, weight := 0.0, 0.0
	for _, s := range a.Segments {
		if !s.spoken(noSpeech) {
			dropped = true
			continue
		}
		kept = join(kept, s.Text)
		if p, known := s.confidence(); known {
			n := math.Max(s.End.value-s.Start.value, 0.1)
			sure += p * n
			weight += n
		}
		t.words = appendWords(t.words, s.Words)
	}
	switch {
	case dropped || a.Text == nil:
		t.text = kept
	default:
		t.text = *a.Text
	}
	if len(t.words) == 0 {
		t.words = appendWords(nil, a.within(noSpeech))
	}
	if weight == 0 {
		sure, weight = likelihood(a.Logprobs), 1
	}
	t.confidence = math.Min(1, math.Max(0, sure/weight))
	t.text = speech(t.text)
	if t.text == "" {
		t.words = nil
	}
	return t
}

// join puts b behind a, with a space between them unless they bring one, or are of a
// script that has none.
func join(a, b string) string {
	last, _ := utf8.DecodeLastRuneInString(a)
	first, _ := utf8.DecodeRuneInString(b)
	if a == "" || unicode.IsSpace(last) || unicode.IsSpace(first) || spaceless(last) || spaceless(first) {
		return a + b
	}
	return a + " " + b
}

func spaceless(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) ||
		r >= '\u3000' && r <= '\u303f' || r >= '\uff00' && r <= '\uff65' // their punctuation
}

// spoken says whether a segment is words, by the rule of Whisper, which looks at both
// figures: it is often sure that there is speech, and not what, and the other way round.
func (s segment) spoken(noSpeech float64) bool {
	if speech(s.Text) == "" {
		return false
	}
	if !s.NoSpeech.known || s.NoSpeech.value <= noSpeech {
		return true
	}
	const certain = -0.4 // two tokens of three
	return s.NoSpeech.value <= (1+noSpeech)/2 && s.AvgLogprob.known && s.AvgLogprob.value > certain
}

// confidence is how likely the words of a segment are.
func (s segment) confidence() (p float64, known bool) {
	switch {
	case s.AvgLogprob.known:
		p = math.Exp(math.Min(0, s.AvgLogprob.value))
	default:
		n := 0
		for _, w := range s.Words {
			if w.Probability.known {
				p += w.Probability.value
				n++
			}
		}
		if n == 0 {
			return 0, false
		}
		p /= float64(n)
	}
	return p, true
}

// within are the words of the answer that lie in no segment that was left out.
func (a answer) within(noSpeech float64) []timed {
	out := a.Words[:0:0]
next:
	for _, w := range a.Words {
		for _, s := range a.Segments {
			middle := (w.Start.value + w.End.value) / 2
			if !s.spoken(noSpeech) && middle >= s.Start.value && middle <= s.End.value {
				continue next
			}
		}
		out = append(out, w)
	}
	return out
}

// maxWords bounds the words of an utterance.
const maxWords = 1000

func appendWords(out []stt.Word, words []timed) []stt.Word {
	for _, w := range words {
		text := w.Word
		if text == "" {
			text = w.Text
		}
		if text = clean(text); text == "" || !w.Start.known || !w.End.known || len(text) > 200 || len(out) >= maxWords {
			continue
		}
		start := seconds(w.Start.value)
		out = append(out, stt.Word{Text: text, Start: start, End: max(start, seconds(w.End.value))})
	}
	return out
}

func seconds(s float64) time.Duration {
	return time.Duration(math.Min(math.Max(s, 0), 3600) * float64(time.Second))
}

// likelihood is the mean of tokens, 0 when there are none.
func likelihood(tokens []token) float64 {
	sum, n := 0.0, 0
	for _, t := range tokens {
		if t.Logprob.known {
			sum += math.Max(-20, math.Min(0, t.Logprob.value))
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return math.Exp(sum / float64(n))
}

// speech is text fit for a transcript: bounded, on one line, and empty when it only
// tells of a sound, as in "[BLANK_AUDIO]", "(music)" or "♪".
func speech(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	text = clean(text)
	rest := text
	for rest != "" {
		rest = strings.TrimLeft(rest, " .♪♫*-")
		if rest == "" {
			return ""
		}
		end, ok := map[byte]byte{'[': ']', '(': ')'}[rest[0]]
		i := strings.IndexByte(rest, end)
		if !ok || i < 0 {
			break
		}
		rest = rest[i+1:]
	}
	if rest == "" || strings.HasPrefix(text, "♪") && strings.HasSuffix(text, "♪") {
		return ""
	}
	return text
}

// gatherer puts the events of a stream together.
type gatherer struct {
	noSpeech float64
	text     string
	all      answer // what there is of segments and words
	whole    *transcript
}

// add takes an event's data, and says whether it was the last.
func (g *gatherer) add(data string) (last bool, err error) {
	data = strings.TrimSpace(data)
	if data == "[DONE]" {
		return true, nil
	}
	var a answer
	if !strings.HasPrefix(data, "{") {
		g.append(join(g.text, data)) // speaches in its early versions
		return false, nil
	}
	if err := json.Unmarshal([]byte(data), &a); err != nil {
		return false, fmt.Errorf("an event of the stream cannot be read: %w", errNoTranscript)
	}
	if said := wire.FailureText(a.Error); said != "" || a.Type == "error" {
		if said == "" {
			said = "an error without a word"
		}
		return false, failure{said}
	}
	switch {
	case strings.HasSuffix(a.Type, ".done") && a.Text != nil:
		t := a.transcript(g.noSpeech)
		g.whole = &t
		return true, nil
	case strings.HasSuffix(a.Type, ".delta"):
		g.append(g.text + a.Delta)
	case len(a.Choices) > 0:
		g.append(g.text + a.Choices[0].Delta.Content)
	case a.Text != nil: // speaches: one segment after the other, by itself or in a list
		g.all.Segments = append(g.all.Segments, a.Segments...)
		g.all.Words = append(g.all.Words, a.Words...)
		g.append(join(g.text, *a.Text))
	}
	return false, nil
}

// append takes the text with something behind it, unless that is too much.
func (g *gatherer) append(text string) {
	if len(text) <= maxText {
		g.text = text
	}
}

// transcript is what there is by now.
func (g *gatherer) transcript() transcript {
	if g.whole != nil {
		return *g.whole
	}
	a := g.all
	if g.text != "" || len(a.Segments) == 0 {
		a.Text = &g.text
	}
	return a.transcript(g.noSpeech)
}
