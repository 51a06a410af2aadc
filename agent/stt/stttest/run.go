package stttest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/stt"
)

// Subject is what Run tests.
type Subject struct {
	// New makes the recogniser; it is closed, if it needs to be, by t.Cleanup.
	New func(t *testing.T) stt.Recognizer
	// Options are what streams are opened with.
	Options stt.Options
	// Speech is one utterance at the recogniser's rate, with 300 ms or more of
	// silence before and behind.
	Speech []int16
	// Text is what Speech says; empty means that any text will do.
	Text string
	// Scripted says that the recogniser hears what its test told it, whatever was
	// written, and keeps what was written: tests of hearing are left out.
	Scripted bool
	// Patience is how long a result may take; 0 means 30 s.
	Patience time.Duration
}

// Run tests that a recogniser keeps the contract of stt.Recognizer.
func Run(t *testing.T, s Subject) {
	if s.Patience == 0 {
		s.Patience = 30 * time.Second
	}
	for _, c := range []struct {
		name   string
		hears  bool // not for Scripted
		verify func(*testing.T, Subject, stt.Recognizer)
	}{
		{"final", false, testFinal},
		{"finalize without begin", false, testFinalizeAlone},
		{"silence has no text", true, testSilence},
		{"utterances in a row", false, testInARow},
		{"begin twice", false, testBeginTwice},
		{"close", false, testClose},
		{"close midway", false, testCloseMidway},
		{"context", false, testContext},
		{"concurrent streams", false, testConcurrent},
		{"long silence", true, testLongSilence},
		{"flood", true, testFlood},
	} {
		if c.hears && s.Scripted {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			r := s.New(t)
			if rate := r.Rate(); rate < 8000 || rate > 48000 {
				t.Fatalf("Rate() = %d", rate)
			}
			c.verify(t, s, r)
			goleak.VerifyNone(t, before)
		})
	}
}

// listener is where a stream's results go.
type listener struct {
	t       *testing.T
	results chan stt.Result
	inside  atomic.Int32
	closed  atomic.Bool
}

func (l *listener) out(r stt.Result) {
	if l.inside.Add(1) != 1 {
		l.t.Error("two results at the same time")
	}
	if l.closed.Load() {
		l.t.Errorf("a result after Close: %+v", r)
	}
	if r.Text != strings.TrimSpace(r.Text) {
		l.t.Errorf("white space around %q", r.Text)
	}
	if r.Confidence < 0 || r.Confidence > 1 {
		l.t.Errorf("confidence %v", r.Confidence)
	}
	if r.Err != nil && (r.Text != "" || r.Final) {
		l.t.Errorf("an error with a transcript: %+v", r)
	}
	l.inside.Add(-1)
	select {
	case l.results <- r:
	default:
		l.t.Error("more than 1000 results")
	}
}

func open(ctx context.Context, t *testing.T, s Subject, r stt.Recognizer) (stt.Stream, *listener) {
	t.Helper()
	l := &listener{t: t, results: make(chan stt.Result, 1000)}
	st, err := r.Open(ctx, s.Options, l.out)
	if err != nil {
		t.Fatal(err)
	}
	return st, l
}

func (l *listener) close(st stt.Stream) {
	l.t.Helper()
	if err := st.Close(); err != nil {
		l.t.Errorf("Close: %v", err)
	}
	l.closed.Store(true)
}

// final waits for the next final result; interim results are skipped.
func (l *listener) final(patience time.Duration) stt.Result {
	l.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case r := <-l.results:
			if r.Err != nil {
				l.t.Errorf("error instead of a final result: %v", r.Err)
			}
			if r.Final {
				return r
			}
		case <-timeout.C:
			l.t.Fatalf("no final result after %v", patience)
		}
	}
}

// say writes pcm in frames of 20 ms with Begin and Finalize where a voice detector
// would put them: after 200 ms, and at the end.
func say(t *testing.T, st stt.Stream, rate int, pcm []int16) {
	t.Helper()
	n := rate / 50
	for i := 0; i < len(pcm); i += n {
		if i/n == 10 {
			st.Begin()
		}
		if err := st.Write(pcm[i:min(len(pcm), i+n)]); err != nil {
			t.Fatalf("Write: %v", err)
		}
	}
	st.Finalize()
}

func (s Subject) check(t *testing.T, r stt.Result) {
	t.Helper()
	if r.Text == "" || s.Text != "" && r.Text != s.Text {
		t.Errorf("heard %q with confidence %.2f, want %q", r.Text, r.Confidence, s.Text)
	}
}

func testFinal(t *testing.T, s Subject, r stt.Recognizer) {
	st, l := open(t.Context(), t, s, r)
	defer l.close(st)
	for _, n := range []int{0, 1, 7, 1000} { // any length will do
		if err := st.Write(make([]int16, n)); err != nil {
			t.Error(err)
		}
	}
	say(t, st, r.Rate(), s.Speech)
	s.check(t, l.final(s.Patience))
	select {
	case x := <-l.results:
		t.Errorf("a result after the final one: %+v", x)
	default:
	}
}

func testFinalizeAlone(t *testing.T, s Subject, r stt.Recognizer) {
	st, l := open(t.Context(), t, s, r)
	defer l.close(st)
	st.Finalize()
	if x := l.final(s.Patience); x.Text != "" {
		t.Errorf("heard %q before anything was written", x.Text)
	}
	say(t, st, r.Rate(), s.Speech)
	s.check(t, l.final(s.Patience))
	st.Finalize()
	if x := l.final(s.Patience); x.Text != "" {
		t.Errorf("heard %q again", x.Text)
	}
}

func testSilence(t *testing.T, s Subject, r stt.Recognizer) {
	st, l := open(t.Context(), t, s, r)
	defer l.close(st)
	say(t, st, r.Rate(), make([]int16, 2*r.Rate()))
	if x := l.final(s.Patience); x.Text != "" {
		t.Errorf("heard %q in silence", x.Text)
	}
	st.Begin()
	st.Finalize()
	if x := l.final(s.Patience); x.Text != "" {
		t.Errorf("heard %q in nothing", x.Text)
	}
}

// testInARow finds transcripts that run on from one utterance to the next, also
// when the next begins before the last was recognised.
func testInARow(t *testing.T, s Subject, r stt.Recognizer) {
	st, l := open(t.Context(), t, s, r)
	defer l.close(st)
	for range 2 {
		say(t, st, r.Rate(), s.Speech)
		s.check(t, l.final(s.Patience))
	}
	for range 2 {
		say(t, st, r.Rate(), s.Speech)
	}
	for range 2 {
		s.check(t, l.final(s.Patience))
	}
}

func testBeginTwice(t *testing.T, s Subject, r stt.Recognizer) {
	st, l := open(t.Context(), t, s, r)
	defer l.close(st)
	half := len(s.Speech) / 2
	st.Begin()
	if err := st.Write(s.Speech[:half]); err != nil {
		t.Error(err)
	}
	st.Begin()
	if err := st.Write(s.Speech[half:]); err != nil {
		t.Error(err)
	}
	st.Finalize()
	s.check(t, l.final(s.Patience))
}

func testClose(t *testing.T, s Subject, r stt.Recognizer) {
	st, l := open(t.Context(), t, s, r)
	say(t, st, r.Rate(), s.Speech)
	l.close(st)
	l.close(st)
	if err := st.Write(s.Speech); err == nil {
		t.Error("Write succeeds after Close")
	}
	if err := st.Expect(s.Options.Expect); err == nil {
		t.Error("Expect succeeds after Close")
	}
	st.Begin()
	st.Finalize()
	l.close(st)
}

func testCloseMidway(t *testing.T, s Subject, r stt.Recognizer) {
	st, l := open(t.Context(), t, s, r)
	st.Begin()
	if err := st.Write(s.Speech); err != nil {
		t.Error(err)
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for range 3 { // from any goroutine
		wg.Go(func() { l.close(st) })
	}
	wg.Wait()
	if d := time.Since(begin); d > s.Patience/2 {
		t.Errorf("Close took %v", d)
	}
}

func testContext(t *testing.T, s Subject, r stt.Recognizer) {
	ctx, cancel := context.WithCancel(t.Context())
	st, l := open(ctx, t, s, r)
	st.Begin()
	if err := st.Write(s.Speech); err != nil {
		t.Error(err)
	}
	cancel()
	st.Finalize()
	l.close(st)
	if st, err := r.Open(ctx, s.Options, l.out); err == nil {
		st.Close()
		t.Error("Open succeeds with a context that is over")
	}
}

func testConcurrent(t *testing.T, s Subject, r stt.Recognizer) {
	var wg sync.WaitGroup
	for range 4 {
		st, l := open(t.Context(), t, s, r)
		wg.Go(func() {
			defer l.close(st)
			say(t, st, r.Rate(), s.Speech)
			deadline := time.After(s.Patience)
			for {
				select {
				case x := <-l.results:
					if x.Final {
						s.check(t, x)
						return
					}
				case <-deadline:
					t.Errorf("no final result after %v", s.Patience)
					return
				}
			}
		})
	}
	wg.Wait()
}

// testLongSilence writes ten minutes in which nobody speaks: a stream must not keep
// them.
func testLongSilence(t *testing.T, s Subject, r stt.Recognizer) {
	st, l := open(t.Context(), t, s, r)
	defer l.close(st)
	frame := make([]int16, r.Rate()/50)
	before := heap()
	for range 10 * 60 * 50 {
		if err := st.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	// Ten minutes are 19 MB at 16 kHz. What a scripted service in the process has not read
	// yet counts too.
	if after := heap(); after > before+8<<20 {
		t.Errorf("the heap grew by %d bytes", after-before)
	}
	say(t, st, r.Rate(), s.Speech)
	s.check(t, l.final(s.Patience))
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// testFlood writes far more than real time has: Write must not wait for
// recognition, and what is lost must be told.
func testFlood(t *testing.T, s Subject, r stt.Recognizer) {
	st, l := open(t.Context(), t, s, r)
	begin := time.Now()
	st.Begin()
	frame := make([]int16, r.Rate()/50)
	for range 3 * 60 * 50 {
		if err := st.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(begin); d > s.Patience/4 {
		t.Errorf("three minutes of audio took %v to write", d)
	}
	l.close(st)
}
