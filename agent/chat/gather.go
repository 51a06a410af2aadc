package chat

import "strings"

// FullResponse gathers a model's answer: for a transcript, a check, an evaluation. It
// belongs to one goroutine; the zero value is ready.
type FullResponse struct {
	// OnCompletion is told of each answer. It may be nil.
	OnCompletion func(Completion)

	open bool
	text strings.Builder
}

// Start begins an answer. One that has not ended counts as cut short.
func (f *FullResponse) Start() {
	f.finish(false)
	f.open = true
}

// Write takes the next bit. Outside of an answer it is dropped.
func (f *FullResponse) Write(text string) {
	if f.open {
		f.text.WriteString(text)
	}
}

// End ends the answer, as completed.
func (f *FullResponse) End() { f.finish(true) }

// Interrupt ends the answer where it is.
func (f *FullResponse) Interrupt() { f.finish(false) }

func (f *FullResponse) finish(completed bool) {
	if !f.open {
		return
	}
	c := Completion{f.text.String(), completed}
	f.open = false
	f.text.Reset()
	if f.OnCompletion != nil {
		f.OnCompletion(c)
	}
}

// Sentences gathers text into whole sentences. It belongs to one goroutine.
type Sentences struct{ splitter *Splitter }

// NewSentences returns a Sentences for a language, given as a BCP 47 tag; "": English.
func NewSentences(language string) *Sentences {
	return &Sentences{NewSplitterFor(language)}
}

// Write takes the next bit, of any length, and returns the sentences that it completed,
// without white space around them. What is not final is dropped: a guess that is
// revised would be said twice.
func (s *Sentences) Write(text string, final bool) []string {
	if !final {
		return nil
	}
	return trimmedPieces(s.splitter.Write(text))
}

// Flush returns the rest, and makes the Sentences ready for another text.
func (s *Sentences) Flush() []string { return trimmedPieces(s.splitter.Flush()) }

func trimmedPieces(pieces []string) []string {
	var out []string
	for _, p := range pieces {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}
