package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"parley/agent/stt"
)

// How late a streaming service is with its words: an interim transcript has a word so
// long after it was said, a final one comes so long after the last, by itself or when it
// is asked for, and never sooner than atOnce after that.
const (
	interimLag = 300 * time.Millisecond
	finalLag   = 400 * time.Millisecond
	atOnce     = 50 * time.Millisecond
)

// witness is a recogniser that knows what one caller says, because it is told: it makes no
// mistakes, hears no noise, and is as late as a service over the internet is. What turn
// taking does with the words is measured, not whether they are right.
type witness struct {
	marks bool // what is said ends with a full stop

	mu    sync.Mutex
	words []heardWord // of all that was said, in order
}

// heardWord is a word by the wall clock.
type heardWord struct {
	text     string
	from, to time.Time
}

// says tells the witness what is said from a time on.
func (w *witness) says(u utterance, from time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, one := range u.words {
		text := one.text
		if w.marks && i == len(u.words)-1 {
			text += "."
		}
		w.words = append(w.words, heardWord{text, from.Add(one.from), from.Add(one.to)})
	}
}

func (w *witness) all() []heardWord {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.words
}

// Rate implements stt.Recognizer.
func (w *witness) Rate() int { return 16000 }

// Open implements stt.Recognizer.
func (w *witness) Open(_ context.Context, _ stt.Options, out func(stt.Result)) (stt.Stream, error) {
	t := &testimony{witness: w, out: out, quit: make(chan struct{}), done: make(chan struct{})}
	go t.run()
	return t, nil
}

// testimony is a stream of a witness. What it reports is a function of the words, the
// requests and the time.
type testimony struct {
	witness *witness
	out     func(stt.Result)
	quit    chan struct{}
	done    chan struct{}
	once    sync.Once

	mu    sync.Mutex
	asked time.Time // Finalize; zero: nobody waits

	told, shown int // words that were in a final transcript, and in an interim one
}

func (t *testimony) run() {
	defer close(t.done)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-t.quit:
			return
		case <-tick.C:
		}
		now := time.Now()
		t.mu.Lock()
		asked := t.asked
		t.mu.Unlock()
		for _, r := range t.at(now, asked) {
			if r.Final && !asked.IsZero() {
				t.mu.Lock()
				if t.asked.Equal(asked) {
					t.asked = time.Time{}
				}
				t.mu.Unlock()
				asked = time.Time{}
			}
			t.out(r)
		}
	}
}

// at is what is to be reported at a time; asked is when a final transcript was asked for.
func (t *testimony) at(now, asked time.Time) (out []stt.Result) {
	words := t.witness.all()
	begun, known := t.told, t.told
	for begun < len(words) && !words[begun].from.After(now) {
		begun++
	}
	for known < begun && !words[known].to.Add(interimLag).After(now) {
		known++
	}
	if known > max(t.shown, t.told) {
		t.shown = known
		out = append(out, stt.Result{Text: text(words[t.told:known])})
	}
	// By itself, when nothing has come for a while.
	if t.told < begun && known == begun && !words[begun-1].to.Add(finalLag).After(now) {
		out = append(out, t.final(words[t.told:begun]))
		t.told = begun
		return out
	}
	if asked.IsZero() || now.Before(asked.Add(atOnce)) {
		return out
	}
	wanted := t.told
	for wanted < begun && !words[wanted].from.After(asked) {
		wanted++
	}
	if wanted > t.told && words[wanted-1].to.Add(finalLag).After(now) {
		return out
	}
	out = append(out, t.final(words[t.told:wanted]))
	t.told = wanted
	return out
}

func (t *testimony) final(words []heardWord) stt.Result {
	if len(words) == 0 {
		return stt.Result{Final: true}
	}
	return stt.Result{Text: text(words), Final: true, Confidence: 0.9}
}

func text(words []heardWord) string {
	var all []string
	for _, w := range words {
		all = append(all, w.text)
	}
	return strings.Join(all, " ")
}

// Write implements stt.Stream.
func (t *testimony) Write([]int16) error { return nil }

// Begin implements stt.Stream.
func (t *testimony) Begin() {}

// Finalize implements stt.Stream.
func (t *testimony) Finalize() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = time.Now()
}

// Expect implements stt.Stream.
func (t *testimony) Expect(stt.Expect) error { return nil }

// Close implements stt.Stream.
func (t *testimony) Close() error {
	t.once.Do(func() { close(t.quit) })
	<-t.done
	return nil
}
