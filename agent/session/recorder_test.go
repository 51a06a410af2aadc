package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"parley/agent/session"
)

var errDown = errors.New("the disk is full")

// flaky is a backend that fails as it is told.
type flaky struct {
	session.Backend

	mu     sync.Mutex
	before func(ctx context.Context, what string) error // nil: fine
	after  func(what string) error                      // the answer is lost
	calls  int
}

func (f *flaky) set(before func(context.Context, string) error, after func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *flaky) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *flaky) do(ctx context.Context, what string, work func() error) error {
	f.mu.Lock()
	before, after := f.before, f.after
	f.calls++
	f.mu.Unlock()
	if before != nil {
		if err := before(ctx, what); err != nil {
			return err
		}
	}
	if err := work(); err != nil {
		return err
	}
	if after != nil {
		return after(what)
	}
	return nil
}

func (f *flaky) Create(ctx context.Context, s session.Stored, set []session.Entry) (state map[string]json.RawMessage, err error) {
	err = f.do(ctx, "create", func() (err error) { state, err = f.Backend.Create(ctx, s, set); return err })
	return state, err
}

func (f *flaky) Append(ctx context.Context, k session.Key, c session.Change) (at time.Time, err error) {
	err = f.do(ctx, "append", func() (err error) { at, err = f.Backend.Append(ctx, k, c); return err })
	return at, err
}

// rig is a recorder on a store that can fail.
type rig struct {
	*session.Recorder
	store   *session.Store
	backend *flaky
	logs    *observer.ObservedLogs
}

func newRig(t *testing.T, c session.RecorderConfig) rig {
	t.Helper()
	backend := &flaky{Backend: session.NewMemory()}
	core, logs := observer.New(zap.InfoLevel)
	c.Logger = zap.New(core)
	store := session.NewStore(backend)
	r := rig{session.NewRecorder(store, c), store, backend, logs}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.Close(ctx) // the tests that want nothing lost close before
	})
	return r
}

func (r rig) open(t *testing.T, id string, state map[string]any) *session.Recording {
	t.Helper()
	c, err := r.Open(t.Context(), &session.CreateRequest{AppName: "a", UserID: "u", SessionID: id, State: state})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stored are the texts in the store.
func (r rig) stored(t *testing.T, id string) []string {
	t.Helper()
	got, err := r.store.Get(t.Context(), &session.GetRequest{AppName: "a", UserID: "u", SessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	return words(got.Session)
}

func words(s session.Session) []string {
	out := []string{}
	for e := range s.Events().All() {
		out = append(out, e.Content.Parts[0].Text)
	}
	return out
}

func said(text string, delta map[string]any) *session.Event {
	e := session.NewEvent(context.Background(), "turn")
	e.Author, e.Content, e.Actions.StateDelta = "user", session.NewText("user", text), delta
	return e
}

func (r rig) messages() []string {
	var out []string
	for _, l := range r.logs.All() {
		out = append(out, l.Message)
	}
	return out
}

const (
	lineFails = "records of calls cannot be written; they are kept and tried again"
	lineGood  = "no record of a call waits for another attempt"
	lineLost  = "events of a call are missing in its record"
)

func (r rig) wantLines(t *testing.T, want ...string) {
	t.Helper()
	if got := r.messages(); !slices.Equal(got, want) {
		t.Errorf("logged\n got %q\nwant %q", got, want)
	}
}

func (r rig) wantStats(t *testing.T, want session.RecorderStats) {
	t.Helper()
	if got := r.Stats(); got != want {
		t.Errorf("stats\n got %+v\nwant %+v", got, want)
	}
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{})
		c := r.open(t, "1", map[string]any{"user:n": 1})
		if !c.Loaded() {
			t.Error("not loaded")
		}
		for i := range 40 {
			if err := c.Append(said(fmt.Sprint(i), map[string]any{"last": i, "temp:x": i})); err != nil {
				t.Error(err)
			}
			same(t, "seen at once", words(c.Session()), numbers(i+1)...)
		}
		partial := said("par", nil)
		partial.Partial = true
		if err := c.Append(partial); err != nil {
			t.Error(err)
		}
		if err := c.Append(nil); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("nil: %v", err)
		}
		if v, err := c.Session().State().Get("temp:x"); err != nil || v != 39.0 && v != 39 {
			t.Errorf("temp: %v, %v", v, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "stored", r.stored(t, "1"), numbers(40)...)
		if err := c.Append(said("late", nil)); !errors.Is(err, session.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		r.wantStats(t, session.RecorderStats{Written: 40, Lost: 1})
		r.wantLines(t, lineLost)
		if err := r.store.AppendEvent(t.Context(), c.Session(), said("x", nil)); !errors.Is(err, session.ErrStaleSession) {
			t.Errorf("the call's view in AppendEvent: %v", err)
		}
	})
}

func TestRecorderOpenRefuses(t *testing.T) {
	r := newRig(t, session.RecorderConfig{})
	r.open(t, "taken", nil)
	for name, c := range map[string]struct {
		r    *session.CreateRequest
		want error
	}{
		"nil":     {nil, session.ErrInvalid},
		"no user": {&session.CreateRequest{AppName: "a"}, session.ErrInvalid},
		"taken":   {&session.CreateRequest{AppName: "a", UserID: "u", SessionID: "taken"}, session.ErrExists},
	} {
		if _, err := r.Open(t.Context(), c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := r.Open(t.Context(), &session.CreateRequest{AppName: "a", UserID: "u"}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A store that hangs takes no time from a call, and no more memory than allowed.
func TestRecorderNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{Queue: 10})
		c := r.open(t, "1", nil)
		r.backend.set(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }, nil)
		began := time.Now()
		for i := range 15 {
			err := c.Append(said(fmt.Sprint(i), nil))
			if full := i >= 10; errors.Is(err, session.ErrQueueFull) != full {
				t.Errorf("append %d: %v", i, err)
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the call waited %v", d)
		}
		same(t, "seen", words(c.Session()), numbers(15)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush: %v", err)
		}
		if got := r.Stats(); got.Waiting != 10 || got.Lost != 5 || got.WaitingBytes == 0 {
			t.Errorf("%+v", got)
		}
		r.wantLines(t, lineLost)
		r.backend.set(nil, nil)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "stored", r.stored(t, "1"), numbers(10)...)
		if got := r.Stats(); got.Waiting != 0 || got.WaitingBytes != 0 || got.Written != 10 {
			t.Errorf("%+v", got)
		}
	})
}

func TestRecorderBoundsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{Bytes: 5000})
		a, b := r.open(t, "1", nil), r.open(t, "2", nil)
		r.backend.set(func(context.Context, string) error { return errDown }, nil)
		if err := a.Append(said(strings.Repeat("x", 4000), nil)); err != nil {
			t.Error(err)
		}
		if err := b.Append(said(strings.Repeat("x", 1000), nil)); !errors.Is(err, session.ErrQueueFull) {
			t.Errorf("another call: %v", err)
		}
		if err := b.Append(said("short", nil)); err != nil {
			t.Error(err)
		}
	})
}

// An outage is logged when it begins and when it ends, whatever the number of calls, and
// costs no event.
func TestRecorderOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{})
		calls := []*session.Recording{r.open(t, "0", nil), r.open(t, "1", nil), r.open(t, "2", nil)}
		r.backend.set(func(context.Context, string) error { return errDown }, nil)
		before := r.backend.count()
		for i := range 20 {
			for _, c := range calls {
				if err := c.Append(said(fmt.Sprint(i), nil)); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(3 * time.Second)
		}
		if n := r.backend.count() - before; n < 3*5 || n > 3*15 {
			t.Errorf("%d attempts in a minute of three calls", n)
		}
		r.wantLines(t, lineFails)
		if f := r.logs.All()[0].ContextMap(); f["session_id"] == "" || f["error"] != errDown.Error() {
			t.Errorf("logged %v", f)
		}
		r.backend.set(nil, nil)
		for i, c := range calls {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			same(t, "stored", r.stored(t, fmt.Sprint(i)), numbers(20)...)
		}
		r.wantLines(t, lineFails, lineGood)
		if got := r.Stats(); got.Written != 60 || got.Lost != 0 || got.Failures == 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A call begins while the store is away: it is recorded all the same, and learns of its
// user later.
func TestRecorderOpensWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{})
		if _, err := r.store.Create(t.Context(), &session.CreateRequest{AppName: "a", UserID: "u", State: map[string]any{"user:calls": 7, "user:lang": "de"}}); err != nil {
			t.Fatal(err)
		}
		r.backend.set(func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) }, nil)
		began := time.Now()
		c := r.open(t, "1", map[string]any{"trunk": "t", "nothing": nil, "user:lang": "en"})
		if d := time.Since(began); d != 500*time.Millisecond {
			t.Errorf("Open took %v", d)
		}
		if c.Loaded() {
			t.Error("loaded from a store that did not answer")
		}
		if v, err := c.Session().State().Get("trunk"); err != nil || v != "t" {
			t.Errorf("its own state: %v, %v", v, err)
		}
		if err := c.Append(said("0", nil)); err != nil {
			t.Error(err)
		}
		r.backend.set(nil, nil)
		if err := c.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "stored", r.stored(t, "1"), "0")
		if v, err := c.Session().State().Get("user:calls"); err != nil || v != 7.0 || !c.Loaded() {
			t.Errorf("the user's state: %v, %v", v, err)
		}
		if v, err := c.Session().State().Get("user:lang"); err != nil || v != "en" {
			t.Errorf("what the call set: %v, %v", v, err)
		}
		r.wantLines(t, lineFails, lineGood)
	})
}

// The store does what it is told, but the answer is lost: nothing is stored twice.
func TestRecorderLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{})
		n := 0
		var mu sync.Mutex
		r.backend.set(nil, func(string) error {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%2 == 1 {
				return errDown
			}
			return nil
		})
		c := r.open(t, "1", map[string]any{"s": 1})
		for i := range 10 {
			if err := c.Append(said(fmt.Sprint(i), nil)); err != nil {
				t.Error(err)
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "stored", r.stored(t, "1"), numbers(10)...)
		if got := r.Stats(); got.Written != 10 || got.Lost != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// Somebody else writes to the session as well.
func TestRecorderIsNotAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{})
		c := r.open(t, "1", nil)
		got, err := r.store.Get(t.Context(), &session.GetRequest{AppName: "a", UserID: "u", SessionID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.store.AppendEvent(t.Context(), got.Session, said("note", nil)); err != nil {
			t.Fatal(err)
		}
		if err := c.Append(said("0", nil)); err != nil {
			t.Error(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "stored", r.stored(t, "1"), "note", "0")
		r.wantStats(t, session.RecorderStats{Written: 1})
		r.wantLines(t)
	})
}

// A user who is forgotten during a call stays forgotten.
func TestRecorderForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{})
		c := r.open(t, "1", nil)
		if _, err := r.store.Forget(t.Context(), "u"); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := c.Append(said(fmt.Sprint(i), map[string]any{"user:calls": 1})); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := r.store.Get(t.Context(), &session.GetRequest{AppName: "a", UserID: "u", SessionID: "1"}); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
		r.wantStats(t, session.RecorderStats{Forgotten: 3})
	})
}

func TestRecorderGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{GiveUp: time.Minute})
		c := r.open(t, "1", nil)
		r.backend.set(func(context.Context, string) error { return errDown }, nil)
		never := r.open(t, "2", nil) // its session cannot even be created
		_ = c.Append(said("old", nil))
		_ = never.Append(said("old", nil))
		time.Sleep(45 * time.Second)
		_ = c.Append(said("young", nil))
		if err := never.Close(t.Context()); err != nil { // nothing is left to write
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		r.backend.set(nil, nil)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "stored", r.stored(t, "1"), "young")
		if got := r.Stats(); got.Lost != 2 || got.Written != 1 || got.Waiting != 0 || got.WaitingBytes != 0 {
			t.Errorf("%+v", got)
		}
		if got := r.messages(); len(got) < 3 || len(got) > 4 || got[0] != lineFails || got[len(got)-1] != lineGood {
			t.Errorf("logged %q", got)
		}
	})
}

// What the store can never take is lost by itself, not with all that comes after it.
func TestRecorderPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{})
		c := r.open(t, "1", nil)
		if err := c.Append(said("x", map[string]any{"f": func() {}})); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("no JSON: %v", err)
		}
		same(t, "seen", words(c.Session()))
		n := 0
		r.backend.set(func(context.Context, string) error {
			if n++; n == 1 {
				return session.ErrInvalid
			}
			return nil
		}, nil)
		_ = c.Append(said("0", nil))
		_ = c.Append(said("1", nil))
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		same(t, "stored", r.stored(t, "1"), "1")
		r.wantStats(t, session.RecorderStats{Written: 1, Lost: 2})
	})
}

func TestRecorderClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{})
		c, d := r.open(t, "1", nil), r.open(t, "2", nil)
		r.backend.set(func(context.Context, string) error { return errDown }, nil)
		for i := range 5 {
			_ = c.Append(said(fmt.Sprint(i), nil))
		}
		time.Sleep(time.Hour / 2) // the pauses are long by now
		began := time.Now()
		time.AfterFunc(2*time.Second, func() { r.backend.set(nil, nil) })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Close took %v after the store was back in 2 s", took)
		}
		same(t, "stored", r.stored(t, "1"), numbers(5)...)
		if err := d.Append(said("late", nil)); !errors.Is(err, session.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Errorf("twice: %v", err)
		}
		r.wantStats(t, session.RecorderStats{Written: 5, Lost: 1, Failures: r.Stats().Failures})
	})
}

func TestRecorderCloseLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, session.RecorderConfig{})
		c := r.open(t, "1", nil)
		r.backend.set(func(ctx context.Context, _ string) error { <-ctx.Done(); return context.Cause(ctx) }, nil)
		for i := range 5 {
			_ = c.Append(said(fmt.Sprint(i), nil))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); !errors.Is(err, session.ErrClosed) || !strings.Contains(err.Error(), "5 events") {
			t.Errorf("Close: %v", err)
		}
		if err := c.Flush(t.Context()); err != nil { // nobody waits for ever
			t.Error(err)
		}
		if got := r.Stats(); got.Lost != 5 || got.Waiting != 0 || got.WaitingBytes != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestRecorderManyCalls(t *testing.T) {
	r := newRig(t, session.RecorderConfig{RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond})
	n := 0
	r.backend.set(func(context.Context, string) error {
		r.backend.mu.Lock()
		defer r.backend.mu.Unlock()
		if n++; n%7 == 0 {
			return errDown
		}
		return nil
	}, nil)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			c := r.open(t, fmt.Sprint("call-", i), nil)
			for i := range 30 {
				if err := c.Append(said(fmt.Sprint(i), nil)); err != nil {
					t.Error(err)
				}
				if i%10 == 0 {
					if err := c.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for i := range 50 {
		same(t, "stored", r.stored(t, fmt.Sprint("call-", i)), numbers(30)...)
	}
	if got := r.Stats(); got.Written != 1500 || got.Lost != 0 {
		t.Errorf("%+v", got)
	}
}

func TestKeepSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := session.NewStore(session.NewMemory())
		if _, err := s.Create(t.Context(), &session.CreateRequest{AppName: "a", UserID: "u"}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var reports []session.Removed
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.KeepSwept(ctx, time.Hour, session.Retention{Sessions: 90 * time.Minute}, func(r session.Removed, err error) {
				if err != nil {
					t.Error(err)
				}
				reports = append(reports, r)
			})
		}()
		time.Sleep(3*time.Hour + time.Minute)
		cancel()
		<-done
		if want := []session.Removed{{}, {}, {Sessions: 1}, {}}; !slices.Equal(reports, want) {
			t.Errorf("removed %+v, want %+v", reports, want)
		}
	})
}
