package stttest

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/agent/stt"
)

// ErrClosed is what Write and Expect of a Fake's stream return after Close.
var ErrClosed = errors.New("stttest: stream closed")

// Utterance is what a Fake makes of one utterance of the caller.
type Utterance struct {
	// Interims are reported when the utterance begins.
	Interims []string
	// Text is the final transcript.
	Text string
	// Confidence of the final transcript.
	Confidence float64
	// Words of the final transcript, if the test needs them.
	Words []stt.Word
	// Delay is waited between Finalize and the final transcript (a timer, which
	// also obeys testing/synctest).
	Delay time.Duration
	// Err, when set, is reported instead of the final transcript.
	Err error
}

// Fake is a recogniser that follows a script. Each Begin of any of its streams
// takes the next utterance off the script, and the Finalize that follows reports
// it. Begin within an utterance changes nothing. Finalize without Begin, and
// utterances after the script's end, give an empty final transcript. It is safe
// for concurrent use.
type Fake struct {
	// SampleRate in Hz; 0 means 16000.
	SampleRate int
	// OpenErr, when set, is what Open returns.
	OpenErr error
	// ExpectErr, when set, decides what Expect returns.
	ExpectErr func(stt.Expect) error

	mu      sync.Mutex
	script  []Utterance
	streams []*FakeStream
}

// NewFake returns a Fake that hears the texts in turn, each with confidence 0.9.
func NewFake(texts ...string) *Fake {
	f := &Fake{}
	for _, t := range texts {
		f.Add(Utterance{Text: t, Confidence: 0.9})
	}
	return f
}

// Add puts utterances at the end of the script, at any time.
func (f *Fake) Add(u ...Utterance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = append(f.script, u...)
}

// Left is the number of utterances still in the script.
func (f *Fake) Left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.script)
}

// Streams returns the streams opened so far, in order.
func (f *Fake) Streams() []*FakeStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*FakeStream(nil), f.streams...)
}

// Rate implements stt.Recognizer.
func (f *Fake) Rate() int {
	if f.SampleRate == 0 {
		return 16000
	}
	return f.SampleRate
}

// Open implements stt.Recognizer.
func (f *Fake) Open(ctx context.Context, o stt.Options, out func(stt.Result)) (stt.Stream, error) {
	if f.OpenErr != nil {
		return nil, f.OpenErr
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(ctx)
	s := &FakeStream{
		fake: f, out: out, options: o, expected: []stt.Expect{o.Expect},
		ctx: life, cancel: cancel, wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	f.mu.Lock()
	f.streams = append(f.streams, s)
	f.mu.Unlock()
	go s.run()
	return s, nil
}

func (f *Fake) next() Utterance {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.script) == 0 {
		return Utterance{}
	}
	u := f.script[0]
	f.script = f.script[1:]
	return u
}

// FakeStream is a stream of a Fake; tests ask it what it was given. Its methods
// are safe for concurrent use.
type FakeStream struct {
	fake    *Fake
	out     func(stt.Result)
	options stt.Options
	ctx     context.Context
	cancel  context.CancelFunc
	wake    chan struct{}
	done    chan struct{}

	mu        sync.Mutex
	queue     []report
	open      *Utterance
	pcm       []int16
	expected  []stt.Expect
	begins    []int // samples that were written before
	finalizes int
	closed    bool
}

type report struct {
	delay  time.Duration
	result stt.Result
}

// Write implements stt.Stream. Everything written is kept for PCM.
func (s *FakeStream) Write(pcm []int16) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.pcm = append(s.pcm, pcm...)
	return nil
}

// Begin implements stt.Stream.
func (s *FakeStream) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.begins = append(s.begins, len(s.pcm))
	if s.open != nil {
		return
	}
	u := s.fake.next()
	s.open = &u
	for _, t := range u.Interims {
		s.post(report{result: stt.Result{Text: t}})
	}
}

// Finalize implements stt.Stream.
func (s *FakeStream) Finalize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.finalizes++
	var u Utterance
	if s.open != nil {
		u = *s.open
	}
	s.open = nil
	if u.Err != nil {
		s.post(report{u.Delay, stt.Result{Err: u.Err}})
		return
	}
	s.post(report{u.Delay, stt.Result{Text: u.Text, Final: true, Confidence: u.Confidence, Words: u.Words}})
}

// Expect implements stt.Stream.
func (s *FakeStream) Expect(e stt.Expect) error {
	if f := s.fake.ExpectErr; f != nil {
		if err := f(e); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.expected = append(s.expected, e)
	return nil
}

// Emit reports r as if the recogniser had found it, after what is on its way.
func (s *FakeStream) Emit(r stt.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.post(report{result: r})
	}
}

// Close implements stt.Stream.
func (s *FakeStream) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	<-s.done
	return nil
}

// Options returns what the stream was opened with.
func (s *FakeStream) Options() stt.Options { return s.options }

// Expected returns what the stream was told to expect, that of Open first.
func (s *FakeStream) Expected() []stt.Expect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]stt.Expect(nil), s.expected...)
}

// PCM returns all that was written.
func (s *FakeStream) PCM() []int16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int16(nil), s.pcm...)
}

// Counts returns how often Begin and Finalize were called.
func (s *FakeStream) Counts() (begins, finalizes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.begins), s.finalizes
}

// Begins returns how many samples were written before each Begin.
func (s *FakeStream) Begins() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.begins...)
}

// Closed tells whether Close was called.
func (s *FakeStream) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// post is called with the lock held.
func (s *FakeStream) post(r report) {
	s.queue = append(s.queue, r)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *FakeStream) run() {
	defer close(s.done)
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		}
		for s.report() {
		}
	}
}

// report gives the oldest report to out; false when there is none or the stream
// is over.
func (s *FakeStream) report() bool {
	s.mu.Lock()
	if len(s.queue) == 0 || s.closed {
		s.mu.Unlock()
		return false
	}
	r := s.queue[0]
	s.queue = s.queue[1:]
	s.mu.Unlock()
	if r.delay > 0 {
		t := time.NewTimer(r.delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.ctx.Done():
			return false
		}
	}
	if s.ctx.Err() != nil {
		return false
	}
	s.out(r.result)
	return true
}
