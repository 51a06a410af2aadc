package failover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	stttest.Run(t, stttest.Subject{New: func(t *testing.T) stt.Recognizer {
		first := stttest.NewFake()
		first.OpenErr = errors.New("down")
		second := stttest.NewFake()
		for range 20 {
			second.Add(stttest.Utterance{Interims: []string{"hel"}, Text: "hello", Confidence: 0.9})
		}
		r, err := New(DefaultConfig(), Choice{"first", first}, Choice{"second", second})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}, Scripted: true, Speech: make([]int16, 16000), Text: "hello"})
}

// call is a stream of two fakes, what it said, and how it switched.
type call struct {
	first, second *stttest.Fake
	stream        stt.Stream

	mu       sync.Mutex
	results  []stt.Result
	switched []string
}

func begin(t *testing.T, change func(*Config)) *call {
	t.Helper()
	c := &call{first: stttest.NewFake(), second: stttest.NewFake()}
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	cfg.OnSwitch = func(failed, next string, _ error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.switched = append(c.switched, failed+">"+next)
	}
	r, err := New(cfg, Choice{"first", c.first}, Choice{"second", c.second})
	if err != nil {
		t.Fatal(err)
	}
	c.stream, err = r.Open(t.Context(), stt.Options{Language: "en"}, func(res stt.Result) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.results = append(c.results, res)
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *call) said() (texts []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.results {
		if r.Err != nil {
			err = errors.Join(err, r.Err)
			continue
		}
		texts = append(texts, r.Text)
	}
	return texts, err
}

func (c *call) write(t *testing.T, from, n int16) {
	t.Helper()
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = from + int16(i)
	}
	if err := c.stream.Write(pcm); err != nil {
		t.Fatal(err)
	}
}

// BR-125: a socket drops within an utterance; nothing of it is lost.
func TestTheNextHearsTheUtterance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, nil)
		c.first.Add(stttest.Utterance{Text: "never said"})
		c.second.Add(stttest.Utterance{Text: "book a table", Confidence: 0.8})
		c.write(t, 0, 1000)
		c.stream.Begin()
		if err := c.stream.Expect(stt.Expect{Grammar: "#JSGF"}); err != nil {
			t.Fatal(err)
		}
		c.first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		synctest.Wait()
		c.write(t, 1000, 500)
		c.stream.Finalize()
		synctest.Wait()
		if got, err := c.said(); err != nil || !slices.Equal(got, []string{"book a table"}) {
			t.Errorf("heard %v, %v", got, err)
		}
		s := c.second.Streams()[0]
		pcm := s.PCM()
		if begins, finals := s.Counts(); len(pcm) != 1500 || pcm[0] != 0 || pcm[1499] != 1499 || begins != 1 || finals != 1 {
			t.Errorf("the second heard %d samples, %d begins, %d ends", len(pcm), begins, finals)
		}
		// Of what is written before Begin, recognisers of whole utterances take a pre-roll.
		if at := s.Begins(); at[0] != 0 {
			t.Errorf("the voice begins behind %d samples of it", at[0])
		}
		if o := s.Options(); o.Language != "en" || o.Expect.Grammar != "#JSGF" {
			t.Errorf("it was told %+v", o)
		}
		if !c.first.Streams()[0].Closed() || !slices.Equal(c.switched, []string{"first>second"}) {
			t.Errorf("switched %v", c.switched)
		}
		if err := c.stream.Close(); err != nil {
			t.Error(err)
		}
		if !s.Closed() {
			t.Error("a stream is left")
		}
	})
}

func TestWhatIsFinalIsNotHeardAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, nil)
		c.first.Add(stttest.Utterance{Text: "one"})
		c.write(t, 0, 1000)
		c.stream.Begin()
		c.stream.Finalize()
		synctest.Wait()
		c.write(t, 1000, 10)
		c.first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		synctest.Wait()
		if pcm := c.second.Streams()[0].PCM(); len(pcm) != 10 || pcm[0] != 1000 {
			t.Errorf("heard again: %d samples", len(pcm))
		}
		if begins, finals := c.second.Streams()[0].Counts(); begins != 0 || finals != 0 {
			t.Errorf("%d begins, %d ends", begins, finals)
		}
		_ = c.stream.Close()
	})
}

func TestOnlyTheLastSecondsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, func(cfg *Config) { cfg.Replay = time.Second })
		for range 100 {
			c.write(t, 0, 1600)
		}
		c.first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		synctest.Wait()
		if n := len(c.second.Streams()[0].PCM()); n < 16000 || n > 32000 {
			t.Errorf("%d samples are heard again, want one to two seconds of 16000", n)
		}
		_ = c.stream.Close()
	})
}

// A connection that stands still.
func TestASilentRecogniserIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, nil)
		c.first.Add(stttest.Utterance{Text: "too late", Delay: time.Hour})
		c.second.Add(stttest.Utterance{Text: "in time"})
		c.stream.Begin()
		began := time.Now()
		c.stream.Finalize()
		for texts, _ := c.said(); len(texts) == 0; texts, _ = c.said() {
			time.Sleep(100 * time.Millisecond)
		}
		if got, err := c.said(); err != nil || got[0] != "in time" || time.Since(began) > 3200*time.Millisecond {
			t.Errorf("heard %v after %v, %v", got, time.Since(began), err)
		}
		_ = c.stream.Close()
	})
}

func TestNobodyIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, nil)
		refused := errors.New("refused")
		c.first.OpenErr, c.second.OpenErr = refused, refused
		c.first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		synctest.Wait()
		if _, err := c.said(); !errors.Is(err, stt.ErrLost) || !errors.Is(err, refused) {
			t.Errorf("told %v", err)
		}
		if !slices.Equal(c.switched, []string{"second>first", "first>"}) {
			t.Errorf("switched %v", c.switched)
		}
		if err := c.stream.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The first one is asked again once its time is over.
func TestTheFirstComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := stttest.NewFake(), stttest.NewFake()
		first.OpenErr = errors.New("down")
		r, err := New(DefaultConfig(), Choice{"first", first}, Choice{"second", second})
		if err != nil {
			t.Fatal(err)
		}
		open := func() {
			s, err := r.Open(t.Context(), stt.Options{}, func(stt.Result) {})
			if err != nil {
				t.Fatal(err)
			}
			_ = s.Close()
		}
		open()
		first.OpenErr = nil
		open() // still down
		time.Sleep(31 * time.Second)
		open()
		if len(first.Streams()) != 1 || len(second.Streams()) != 2 {
			t.Errorf("%d and %d streams", len(first.Streams()), len(second.Streams()))
		}
	})
}

// hanging is a recogniser whose opening hangs until its context ends.
type hanging struct{ stt.Recognizer }

func (h hanging) Open(ctx context.Context, _ stt.Options, _ func(stt.Result)) (stt.Stream, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestAnOpeningThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(DefaultConfig(), Choice{"hangs", hanging{stttest.NewFake()}}, Choice{"second", stttest.NewFake()})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		s, err := r.Open(t.Context(), stt.Options{}, func(stt.Result) {})
		if err != nil || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		_ = s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		only, _ := New(DefaultConfig(), Choice{"hangs", hanging{stttest.NewFake()}})
		if _, err := only.Open(ctx, stt.Options{}, func(stt.Result) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's own bound: %v", err)
		}
	})
}

// One of another rate hears the same sound at its own.
func TestOneRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &call{first: stttest.NewFake(), second: &stttest.Fake{SampleRate: 8000}}
		r, err := New(DefaultConfig(), Choice{"first", c.first}, Choice{"second", c.second})
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Open(t.Context(), stt.Options{}, func(stt.Result) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(make([]int16, 16000)); err != nil {
			t.Fatal(err)
		}
		c.first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		synctest.Wait()
		if n := len(c.second.Streams()[0].PCM()); n < 7900 || n > 8000 {
			t.Errorf("a second is %d samples at 8000 Hz", n)
		}
		_ = s.Close()
	})
}

// Losses at random instants: the call always has a recogniser, or is told.
func TestLossesWhileEverythingHappens(t *testing.T) {
	c := begin(t, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				for _, f := range []*stttest.Fake{c.first, c.second} {
					if all := f.Streams(); len(all) > 0 {
						all[len(all)-1].Emit(stt.Result{Err: stt.ErrLost})
					}
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 200 {
		if err := c.stream.Write(make([]int16, 320)); err != nil {
			t.Fatal(err)
		}
		c.stream.Begin()
		c.stream.Finalize()
		time.Sleep(time.Millisecond / 2)
	}
	wg.Wait()
	before, _ := c.said()
	c.stream.Finalize()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if got, _ := c.said(); len(got) > len(before) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody hears the call any more")
		}
	}
	if err := c.stream.Close(); err != nil {
		t.Error(err)
	}
	if err := c.stream.Write(nil); !errors.Is(err, errClosed) {
		t.Errorf("write after close: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.OpenTimeout = 0 }, func(c *Config) { c.Cooldown = -1 },
		func(c *Config) { c.Replay = time.Hour }, func(c *Config) { c.Silent = -1 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if _, err := New(cfg, Choice{"x", stttest.NewFake()}); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	if _, err := New(DefaultConfig()); err == nil {
		t.Error("no recogniser is taken")
	}
	if _, err := New(DefaultConfig(), Choice{"x", nil}); err == nil {
		t.Error("a choice of nothing is taken")
	}
	if _, err := New(DefaultConfig(), Choice{"x", stttest.NewFake()}, Choice{"odd", &stttest.Fake{SampleRate: 12345}}); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("a rate that cannot be changed: %v", err)
	}
}
