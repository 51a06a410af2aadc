package failover

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

// The answer to one turn comes while the next is being spoken: a loss right behind it must
// not lose the beginning of that.
func TestTheNextTurnOutlivesTheAnswerToTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, nil)
		c.first.Add(stttest.Utterance{Text: "one", Delay: time.Second}, stttest.Utterance{Text: "never said"})
		c.second.Add(stttest.Utterance{Text: "two"})
		c.stream.Begin()
		c.write(t, 0, 1000)
		c.stream.Finalize()
		c.stream.Begin()
		c.write(t, 1000, 500)
		time.Sleep(2 * time.Second)
		c.write(t, 1500, 100)
		c.first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		synctest.Wait()
		c.stream.Finalize()
		synctest.Wait()
		s := c.second.Streams()[0]
		if pcm := s.PCM(); len(pcm) != 600 || pcm[0] != 1000 {
			t.Errorf("the second heard %d samples", len(pcm))
		}
		if got, err := c.said(); err != nil || !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("heard %q, %v", got, err)
		}
		_ = c.stream.Close()
	})
}

// Each turn that waits for its final transcript gets one of its own from the next.
func TestTurnsThatWaitAreHeardOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, nil)
		c.first.Add(stttest.Utterance{Text: "late", Delay: time.Hour}, stttest.Utterance{})
		c.second.Add(stttest.Utterance{Text: "one"}, stttest.Utterance{Text: "two"})
		for from := int16(0); from < 2000; from += 1000 {
			c.stream.Begin()
			c.write(t, from, 1000)
			c.stream.Finalize()
		}
		c.stream.Begin()
		c.write(t, 2000, 10)
		time.Sleep(10 * time.Second) // it is silent: given up
		s := c.second.Streams()[0]
		if got, err := c.said(); err != nil || !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("heard %q, %v", got, err)
		}
		if at := s.Begins(); !slices.Equal(at, []int{0, 1000, 2000}) {
			t.Errorf("the voice begins behind %v samples", at)
		}
		_ = c.stream.Close()
	})
}

// One answer of two came, and then nothing: the second is waited for no longer than the
// first was.
func TestTheSecondAnswerIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, nil)
		c.first.Add(stttest.Utterance{Text: "one", Delay: 2 * time.Second}, stttest.Utterance{Text: "late", Delay: time.Hour})
		c.second.Add(stttest.Utterance{Text: "two"})
		for range 2 {
			c.stream.Begin()
			c.stream.Finalize()
		}
		time.Sleep(6 * time.Second)
		if got, err := c.said(); err != nil || !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("heard %q, %v", got, err)
		}
		_ = c.stream.Close()
	})
}

// A recogniser with endpointing of its own gives a final transcript in mid-turn: what the
// caller says behind it is still of a voice that has begun.
func TestATurnThatTheRecogniserCut(t *testing.T) {
	for _, test := range []struct {
		name  string
		words []stt.Word
		first int16 // sample that is heard again
	}{
		{"without times", nil, 16000},
		{"behind the last word", []stt.Word{{Text: "my", End: 100 * time.Millisecond}, {Text: "name", Start: 200 * time.Millisecond, End: 500 * time.Millisecond}}, 8000},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := begin(t, nil)
				c.second.Add(stttest.Utterance{Text: "is Ann"})
				c.stream.Begin()
				c.write(t, 0, 16000)
				c.first.Streams()[0].Emit(stt.Result{Final: true, Text: "my name", Words: test.words})
				synctest.Wait()
				c.write(t, 16000, 1000)
				c.first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
				synctest.Wait()
				c.stream.Finalize()
				synctest.Wait()
				if got, err := c.said(); err != nil || !slices.Equal(got, []string{"my name", "is Ann"}) {
					t.Errorf("heard %q, %v", got, err)
				}
				s := c.second.Streams()[0]
				if pcm := s.PCM(); len(pcm) != int(17000-test.first) || pcm[0] != test.first {
					t.Errorf("%d samples from %d", len(pcm), pcm[0])
				}
				_ = c.stream.Close()
			})
		})
	}
}

// Times of words count from the stream's first sample, whoever hears them.
func TestTimesOfWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, func(cfg *Config) { cfg.Replay = time.Second })
		c.second.Add(stttest.Utterance{Text: "hello", Words: []stt.Word{{Text: "hello", Start: time.Second / 2, End: time.Second}}})
		for range 100 { // 10 s
			c.write(t, 0, 1600)
		}
		c.stream.Begin()
		c.first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		synctest.Wait()
		c.stream.Finalize()
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		want := stt.Word{Text: "hello", Start: 9500 * time.Millisecond, End: 10 * time.Second}
		if len(c.results) != 1 || len(c.results[0].Words) != 1 || c.results[0].Words[0] != want {
			t.Errorf("heard %+v, want %+v", c.results, want)
		}
		_ = c.stream.Close()
	})
}

// strange is a fake whose opening ends as a test wants.
type strange struct {
	*stttest.Fake
	open func(s *stttest.FakeStream) stt.Stream
}

func (s strange) Open(ctx context.Context, o stt.Options, out func(stt.Result)) (stt.Stream, error) {
	stream, err := s.Fake.Open(ctx, o, out)
	if err != nil {
		return nil, err
	}
	all := s.Streams()
	return s.open(all[len(all)-1]), stream.(*stttest.FakeStream).Expect(o.Expect)
}

// A connection breaks between the moment when there is one and when it is used.
func TestLostWhileItIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := strange{stttest.NewFake(), func(s *stttest.FakeStream) stt.Stream {
			s.Emit(stt.Result{Err: stt.ErrLost})
			synctest.Wait() // it was told
			return s
		}}
		second := stttest.NewFake("hello")
		var switched []string
		cfg := DefaultConfig()
		cfg.OnSwitch = func(failed, next string, _ error) { switched = append(switched, failed+">"+next) }
		r, err := New(cfg, Choice{"first", first}, Choice{"second", second})
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Open(t.Context(), stt.Options{}, func(stt.Result) {})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(second.Streams()) != 1 || !slices.Equal(switched, []string{"first>second"}) {
			t.Errorf("switched %v", switched)
		}
		_ = s.Close()
	})
}

// talkative is a stream that has something to say until it is closed.
type talkative struct {
	*stttest.FakeStream
	out  func()
	done chan struct{}
}

func (s talkative) Close() error {
	go func() { s.out(); close(s.done) }()
	<-s.done
	return s.FakeStream.Close()
}

// The call ends while the next recogniser is opened, and that has something to say.
func TestClosedWhileTheNextIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := stttest.NewFake()
		opening, open := make(chan struct{}), make(chan struct{})
		var r *Recognizer
		var s *stream
		second := strange{stttest.NewFake(), func(f *stttest.FakeStream) stt.Stream {
			close(opening)
			<-open
			return talkative{f, func() { s.heard(s.turn, 1, stt.Result{Text: "hello"}) }, make(chan struct{})}
		}}
		r, err := New(DefaultConfig(), Choice{"first", first}, Choice{"second", second})
		if err != nil {
			t.Fatal(err)
		}
		opened, err := r.Open(t.Context(), stt.Options{}, func(stt.Result) { t.Error("a result after Close") })
		if err != nil {
			t.Fatal(err)
		}
		s = opened.(*stream)
		first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		<-opening
		s.mu.Lock()
		s.over = true // as Close does first
		s.mu.Unlock()
		close(open)
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What is to be listened for changes while the next recogniser is opened.
func TestPhrasesChangeWhileTheNextIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := stttest.NewFake()
		opening, open := make(chan struct{}), make(chan struct{})
		second := strange{stttest.NewFake(), func(f *stttest.FakeStream) stt.Stream {
			close(opening)
			<-open
			return f
		}}
		r, err := New(DefaultConfig(), Choice{"first", first}, Choice{"second", second})
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Open(t.Context(), stt.Options{}, func(stt.Result) {})
		if err != nil {
			t.Fatal(err)
		}
		first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		<-opening
		if err := s.Expect(stt.Expect{Phrases: []string{"Ann"}}); err != nil {
			t.Error(err)
		}
		close(open)
		synctest.Wait()
		all := second.Streams()[0].Expected()
		if last := all[len(all)-1]; !slices.Equal(last.Phrases, []string{"Ann"}) {
			t.Errorf("it listens for %q", last.Phrases)
		}
		_ = s.Close()
	})
}
