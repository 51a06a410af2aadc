package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"parley/agent"
	"parley/agent/record"
	"parley/agent/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is an agent whose conversation is a function.
type fake struct {
	run  func(ctx context.Context, c agent.Call) error
	fail error

	mu    sync.Mutex
	heard int
}

func (f *fake) Format() agent.Format { return agent.Format{HearRate: 16000} }

func (f *fake) Open(_ context.Context, c agent.Call) (agent.Session, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	return &conversation{f, c}, nil
}

type conversation struct {
	f *fake
	c agent.Call
}

func (s *conversation) Hear([]int16)        { s.f.mu.Lock(); s.f.heard++; s.f.mu.Unlock() }
func (s *conversation) Notice(agent.Notice) {}
func (s *conversation) Run(ctx context.Context) error {
	if s.f.run == nil {
		return nil
	}
	return s.f.run(ctx, s.c)
}
func (s *conversation) Announce(context.Context, string) error { return errors.New("said") }

// quiet is an agent that cannot announce.
type quiet struct{ fake }

func (q *quiet) Open(ctx context.Context, c agent.Call) (agent.Session, error) {
	s, err := q.fake.Open(ctx, c)
	return struct{ agent.Session }{s}, err
}

// rig is a recorder over a store in memory.
type rig struct {
	store    *session.Store
	recorder *session.Recorder
	backend  *gate
	logs     *observer.ObservedLogs
	log      *zap.Logger
	n        int
}

// gate is a backend that can be shut.
type gate struct {
	session.Backend
	mu   sync.Mutex
	shut bool
}

var errShut = errors.New("the disk is away")

func (g *gate) set(shut bool) { g.mu.Lock(); defer g.mu.Unlock(); g.shut = shut }

func (g *gate) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return errShut
	}
	return nil
}

func (g *gate) Create(ctx context.Context, s session.Stored, set []session.Entry) (map[string]json.RawMessage, error) {
	if err := g.open(); err != nil {
		return nil, err
	}
	return g.Backend.Create(ctx, s, set)
}

func (g *gate) Append(ctx context.Context, k session.Key, c session.Change) (time.Time, error) {
	if err := g.open(); err != nil {
		return time.Time{}, err
	}
	return g.Backend.Append(ctx, k, c)
}

func newRig(t *testing.T) *rig {
	core, logs := observer.New(zap.DebugLevel)
	r := &rig{backend: &gate{Backend: session.NewMemory()}, logs: logs, log: zap.New(core)}
	r.store = session.NewStore(r.backend)
	r.recorder = session.NewRecorder(r.store, session.RecorderConfig{Logger: r.log})
	t.Cleanup(func() { r.close(t) })
	return r
}

func (r *rig) close(t *testing.T) {
	if r.recorder == nil {
		return
	}
	if err := r.recorder.Close(t.Context()); err != nil && t.Context().Err() == nil {
		t.Error(err)
	}
	_ = r.store.Close()
	r.recorder = nil
}

func (r *rig) opener(of agent.Opener) agent.Opener {
	return record.New(of, r.recorder, record.Config{Log: r.log})
}

// call makes a call of somebody; its agent's events go nowhere.
func (r *rig) call(who string) agent.Call {
	r.n++
	return agent.Call{
		ID: fmt.Sprintf("call%d", r.n), SessionID: fmt.Sprintf("session%d", r.n), Direction: "inbound", Called: "+12025550100",
		Caller: agent.Caller{ResourceID: who, Name: "Ann\r\n\x1b[31m Lee"}, Agent: "desk", Control: agent.NoControl{}, Emit: func(agent.Event) {},
	}
}

// hold opens and runs a call to its end.
func hold(t *testing.T, o agent.Opener, c agent.Call) {
	t.Helper()
	s, err := o.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Run(t.Context())
}

// read is a session as it is in the store.
func (r *rig) read(t *testing.T, user, id string) session.Session {
	t.Helper()
	got, err := r.store.Get(t.Context(), &session.GetRequest{AppName: "desk", UserID: user, SessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	return got.Session
}

// lines are the events of a session, one line each.
func lines(s session.Session) []string {
	var out []string
	for e := range s.Events().All() {
		line := e.InvocationID + " " + e.Author
		if e.Content != nil {
			for _, p := range e.Content.Parts {
				raw, _ := json.Marshal(p)
				line += " " + e.Content.Role + string(raw)
			}
		}
		if e.Interrupted {
			line += " interrupted"
		}
		if e.ErrorMessage != "" {
			line += " error:" + e.ErrorMessage
		}
		delete(e.CustomMetadata, record.MetaSeconds)
		if len(e.CustomMetadata) > 0 {
			raw, _ := json.Marshal(e.CustomMetadata)
			line += " " + string(raw)
		}
		for key, value := range e.Actions.StateDelta {
			if key != record.KeyLastCall {
				line += fmt.Sprintf(" %s=%v", key, value)
			}
		}
		out = append(out, line)
	}
	return out
}

func TestAConversationBecomesEventsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f := &fake{run: func(_ context.Context, c agent.Call) error {
			c.Emit(agent.Event{Type: agent.EventAgentStarted})
			c.Emit(agent.Event{Type: agent.EventAgentStopped, Text: "Hello, how can I help?", Heard: "Hello, how can I help?", Position: 2 * time.Second})
			c.Emit(agent.Event{Type: agent.EventUserStarted})
			c.Emit(agent.Event{Type: agent.EventTranscript, Text: "where is", Final: false})
			c.Emit(agent.Event{Type: agent.EventUserStopped, Text: "where is my parcel", Confidence: 0.75})
			c.Memory.Set("user:asked", "parcel")
			c.Emit(agent.Event{Type: agent.EventToolCall, ID: "1", Reason: "find", Text: `{"order":7}`})
			c.Emit(agent.Event{Type: agent.EventToolResult, ID: "1", Text: `"on its way"`})
			c.Emit(agent.Event{Type: agent.EventAgentStarted})
			c.Emit(agent.Event{Type: agent.EventAgentStopped, Text: "It is on its way to you.", Heard: "It is on", Interrupted: true, Position: 2500 * time.Millisecond})
			c.Emit(agent.Event{Type: agent.EventUserStarted})
			c.Emit(agent.Event{Type: agent.EventUserStopped, Reason: "noise"})
			c.Emit(agent.Event{Type: agent.EventUserStopped, Reason: "garbled"})
			c.Emit(agent.Event{Type: agent.EventError, Reason: "the model failed"})
			c.Emit(agent.Event{Type: agent.EventDigit, Text: "4"})
			c.Emit(agent.Event{Type: agent.EventDigit, Text: "2"})
			c.Emit(agent.Event{Type: agent.EventUserStopped, Text: "42", Reason: "digits"})
			c.Emit(agent.Event{Type: agent.EventUserStopped, Reason: "digits"}) // secret ones
			c.Emit(agent.Event{Type: agent.EventSummary, Reason: "requested"})
			c.Emit(agent.Event{Type: agent.EventSummary, Reason: "applied", Text: "A parcel."})
			c.Emit(agent.Event{Type: agent.EventUserStopped, Text: "mumble", Reason: "misheard"})
			c.Emit(agent.Event{Type: agent.EventUserStopped, Reason: "call ended"})
			return nil
		}}
		hold(t, r.opener(f), r.call("12025550143"))
		r.recorderIdle(t)
		got := lines(r.read(t, "12025550143", "session1"))
		want := []string{
			`turn-0 desk model{"text":"Hello, how can I help?"} {"played_ms":2000}`,
			`turn-1 user user{"text":"where is my parcel"} {"confidence":0.75}`,
			`turn-1 desk model{"functionCall":{"id":"1","name":"find","args":{"order":7}}} user:asked=parcel`,
			`turn-1 desk user{"functionResponse":{"id":"1","name":"find","response":{"result":"on its way"}}}`,
			`turn-1 desk model{"text":"It is on"} interrupted {"generated":"It is on its way to you.","played_ms":500}`,
			`turn-2 user {"garbled":true}`,
			`turn-2 desk error:the model failed`,
			`turn-3 user user{"text":"42"} {"digits":true}`,
			`turn-4 user {"digits":true,"secret":true}`,
			`turn-4 desk {"summary":"A parcel."}`,
			`turn-5 user user{"text":"mumble"} {"misheard":true}`,
			`turn-5 desk {"ended":"agent hung up"} user:calls=1`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		state := map[string]any{}
		for key, value := range r.read(t, "12025550143", "session1").State().All() {
			state[key] = value
		}
		if state["called"] != "+12025550100" || state["caller_name"] != "Ann  [31m Lee" || state["direction"] != "inbound" || state["call_id"] != "call1" {
			t.Errorf("state: %v", state)
		}
		r.close(t)
	})
}

// recorderIdle waits until everything is written.
func (r *rig) recorderIdle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if n := r.recorder.Stats().Waiting; n != 0 {
		t.Errorf("%d events wait", n)
	}
}

func TestWhoRingsTwiceIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var seen []string
		f := &fake{run: func(_ context.Context, c agent.Call) error {
			calls, _ := c.Memory.Get("user:calls")
			name, _ := c.Memory.Get("user:name")
			seen = append(seen, fmt.Sprint(calls, name, c.Memory.Keys("user:")))
			c.Memory.Set("user:name", "Ann")
			c.Memory.Set("here", 1)
			if v, ok := c.Memory.Get("user:name"); !ok || v != "Ann" {
				t.Errorf("a value is not seen at once: %v", v)
			}
			return nil
		}}
		o := r.opener(f)
		for range 3 {
			hold(t, o, r.call("12025550143")) // at once after the last one: nobody waits for the store in between
		}
		hold(t, o, r.call("12025550144"))
		want := []string{
			"<nil> <nil> []", "1Ann[user:calls user:last_call_at user:name]", "2Ann[user:calls user:last_call_at user:name]", "<nil> <nil> []",
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		r.close(t)
	})
}

func TestAnonymousCallersAreNeverMixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		known := 0
		f := &fake{run: func(_ context.Context, c agent.Call) error {
			known += len(c.Memory.Keys("user:"))
			c.Memory.Set("user:name", c.ID)
			return nil
		}}
		o := r.opener(f)
		for range 3 {
			hold(t, o, r.call(""))
			synctest.Wait()
		}
		if known != 0 {
			t.Errorf("%d values of others were seen", known)
		}
		all, err := r.store.List(t.Context(), &session.ListRequest{AppName: "desk"})
		if err != nil || len(all.Sessions) != 3 {
			t.Fatalf("%v %v", all, err)
		}
		for i, s := range all.Sessions {
			if want := fmt.Sprintf("anonymous:session%d", i+1); s.UserID() != want {
				t.Errorf("user %q, want %q", s.UserID(), want)
			}
			if v, err := s.State().Get("user:calls"); err == nil {
				t.Errorf("somebody who cannot call again is counted: %v", v)
			}
		}
		r.close(t)
	})
}

// What ends a call, the record ends once, with the reason.
func TestEveryEndIsRecordedOnce(t *testing.T) {
	gone := errors.New("caller hung up")
	for name, c := range map[string]struct {
		agent  *fake
		ctx    func(context.Context) context.Context
		panics bool
		want   string
		counts bool
	}{
		"agent done":   {&fake{}, nil, false, "agent hung up", true},
		"agent failed": {&fake{run: func(context.Context, agent.Call) error { return errors.New("boom") }}, nil, false, "the agent failed", true},
		"panic":        {&fake{run: func(context.Context, agent.Call) error { panic("boom") }}, nil, true, "the agent failed", true},
		"caller gone": {&fake{run: func(ctx context.Context, _ agent.Call) error { <-ctx.Done(); return context.Cause(ctx) }},
			func(ctx context.Context) context.Context {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Second, func() { cancel(gone) })
				return ctx
			}, false, "caller hung up", true},
		"never answered": {&fake{run: func(ctx context.Context, _ agent.Call) error { return context.Cause(ctx) }},
			func(ctx context.Context) context.Context {
				ctx, cancel := context.WithCancelCause(ctx)
				cancel(gone)
				return ctx
			}, false, "caller hung up", false},
		"not opened": {&fake{fail: errors.New("no model")}, nil, false, "the agent could not be opened", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				ctx := t.Context()
				s, err := r.opener(c.agent).Open(ctx, r.call("12025550143"))
				if c.agent.fail != nil {
					if !errors.Is(err, c.agent.fail) {
						t.Errorf("%v", err)
					}
				} else {
					if c.ctx != nil {
						ctx = c.ctx(ctx)
					}
					func() {
						defer func() {
							if p := recover(); (p != nil) != c.panics {
								t.Errorf("panic: %v", p)
							}
						}()
						_ = s.Run(ctx)
					}()
				}
				synctest.Wait()
				got := lines(r.read(t, "12025550143", "session1"))
				want := `turn-0 desk {"ended":"` + c.want + `"}`
				if c.counts {
					want += " user:calls=1"
				}
				if len(got) != 1 || got[0] != want {
					t.Errorf("got %q\nwant %q", got, want)
				}
				r.close(t)
			})
		})
	}
}

// A store that is away does not hold a call up; when it is back the record is whole, and
// the count of calls goes on where it was.
func TestAStoreThatIsAwayLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		words := &fake{run: func(_ context.Context, c agent.Call) error {
			c.Emit(agent.Event{Type: agent.EventUserStopped, Text: "hello"})
			time.Sleep(5 * time.Second)
			return nil
		}}
		o := r.opener(words)
		hold(t, o, r.call("12025550143"))
		synctest.Wait()
		r.backend.set(true)
		began := time.Now()
		s, err := o.Open(t.Context(), r.call("12025550143"))
		if err != nil || time.Since(began) > time.Second {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		began = time.Now()
		time.AfterFunc(3*time.Second, func() { r.backend.set(false) })
		if _ = s.Run(t.Context()); time.Since(began) > 6*time.Second+time.Millisecond {
			t.Errorf("the end took %v", time.Since(began)-5*time.Second)
		}
		time.Sleep(time.Minute)
		got := lines(r.read(t, "12025550143", "session2"))
		if len(got) != 2 || !strings.Contains(got[1], "user:calls=2") {
			t.Errorf("%q", got)
		}
		if n := r.logs.FilterMessageSnippet("cannot be written").Len(); n != 1 {
			t.Errorf("logged %d times", n)
		}

		// Away for the whole call: it is not counted, rather than the count begun anew.
		r.backend.set(true)
		hold(t, o, r.call("12025550143"))
		time.Sleep(time.Minute)
		r.backend.set(false)
		time.Sleep(time.Minute)
		state := r.read(t, "12025550143", "session3").State()
		if n, err := state.Get("user:calls"); n != 2.0 || err != nil {
			t.Errorf("calls: %v %v", n, err)
		}
		if n := r.logs.FilterMessageSnippet("a call is not counted").Len(); n != 1 {
			t.Errorf("logged %d times", n)
		}
		r.close(t)
	})
}

// A call that cannot be recorded goes on, and is counted nowhere as if it were.
func TestACallGoesOnWithoutARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if err := r.recorder.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		ran := false
		hold(t, r.opener(&fake{run: func(_ context.Context, c agent.Call) error { ran = c.Memory == nil; return nil }}), r.call("1"))
		if !ran || r.logs.FilterMessage("a call is not recorded").Len() != 1 {
			t.Errorf("ran %v, logs %v", ran, r.logs.All())
		}
		r.close(t)
	})
}

func TestWhatCannotBeKeptIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hold(t, r.opener(&fake{run: func(_ context.Context, c agent.Call) error {
			c.Memory.Set("user:long", strings.Repeat("x", 70<<10))
			c.Memory.Set("user:odd", func() {})
			c.Memory.Set("", 1)
			c.Memory.Set("user:a\x00", 1)
			c.Memory.Set("temp:any", func() {})
			c.Memory.Set("user:gone", 1)
			c.Memory.Set("user:gone", nil)
			for i := range 20 { // more than one event holds
				c.Memory.Set(fmt.Sprintf("user:much%02d", i), strings.Repeat("x", 60<<10))
			}
			if keys := c.Memory.Keys("user:"); len(keys) != 20 {
				t.Errorf("%v", keys)
			}
			return nil
		}}), r.call("1"))
		synctest.Wait()
		if n := r.logs.FilterMessageSnippet("cannot be kept").Len(); n != 1 {
			t.Errorf("logged %d times", n)
		}
		for i := range 20 {
			if _, err := r.read(t, "1", "session1").State().Get(fmt.Sprintf("user:much%02d", i)); err != nil {
				t.Error(err)
			}
		}
		if st := r.recorder.Stats(); st.Lost != 0 {
			t.Errorf("%+v", st)
		}
		r.close(t)
	})
}

// Keys of an agent that does not say whose turn it is are gathered.
func TestKeysOfARawAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hold(t, r.opener(&fake{run: func(_ context.Context, c agent.Call) error {
			press := func(keys string) {
				for _, k := range keys {
					c.Emit(agent.Event{Type: agent.EventDigit, Text: string(k)})
					time.Sleep(100 * time.Millisecond)
				}
			}
			press("12#34")
			time.Sleep(2 * time.Second)
			press("5")
			return nil
		}}), r.call("1"))
		synctest.Wait()
		got := strings.Join(lines(r.read(t, "1", "session1")), "\n")
		want := `turn-1 user user{"text":"12#"} {"digits":true}
turn-2 user user{"text":"34"} {"digits":true}
turn-3 user user{"text":"5"} {"digits":true}
turn-3 desk {"ended":"agent hung up"} user:calls=1`
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		r.close(t)
	})
}

// The recorded session is the agent's own: sound goes straight through, and what the
// agent can do besides it still can.
func TestTheSessionIsTheAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f := &fake{}
		o := r.opener(f)
		if o.Format() != f.Format() {
			t.Error("another format")
		}
		s, err := o.Open(t.Context(), r.call("1"))
		if err != nil {
			t.Fatal(err)
		}
		frame := make([]int16, 320)
		if n := testing.AllocsPerRun(100, func() {
			s.Hear(frame)
			s.Notice(agent.Notice{Kind: agent.SpeechStarted, Position: 1})
		}); n != 0 || f.heard != 101 {
			t.Errorf("%v allocations, %d frames heard", n, f.heard)
		}
		if a, ok := s.(agent.Announcer); !ok || a.Announce(t.Context(), "x").Error() != "said" {
			t.Error("an agent that announces does not any more")
		}
		_ = s.Run(t.Context())
		q := &quiet{}
		s, err = r.opener(q).Open(t.Context(), r.call("1"))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.(agent.Announcer); ok {
			t.Error("an agent that does not announce does now")
		}
		_ = s.Run(t.Context())
		r.close(t)
	})
}

// What is played is told from where speech began, wherever the timeline is by then.
func TestPlayedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var s agent.Session
		f := &fake{run: func(_ context.Context, c agent.Call) error {
			s.Notice(agent.Notice{Kind: agent.SpeechStarted, Position: 3 * time.Second}) // after an announcement
			c.Emit(agent.Event{Type: agent.EventAgentStarted})
			s.Notice(agent.Notice{Kind: agent.SpeechStarted, Position: 4 * time.Second}) // after a gap in the reply
			c.Emit(agent.Event{Type: agent.EventAgentStopped, Text: "a", Heard: "a", Position: 5 * time.Second})
			c.Emit(agent.Event{Type: agent.EventAgentStarted}) // without a gap
			c.Emit(agent.Event{Type: agent.EventAgentStopped, Text: "b", Interrupted: true, Position: 5100 * time.Millisecond})
			c.Emit(agent.Event{Type: agent.EventAgentStopped, Text: "c", Interrupted: true, Position: 5100 * time.Millisecond})
			s.Notice(agent.Notice{Kind: agent.SpeechStarted, Position: 6 * time.Second}) // a tone before the reply
			c.Emit(agent.Event{Type: agent.EventAgentStarted, Position: 6300 * time.Millisecond})
			c.Emit(agent.Event{Type: agent.EventAgentStopped, Text: "d", Heard: "d", Position: 7 * time.Second})
			return nil
		}}
		var err error
		if s, err = r.opener(f).Open(t.Context(), r.call("1")); err != nil {
			t.Fatal(err)
		}
		_ = s.Run(t.Context())
		synctest.Wait()
		var got []string
		for e := range r.read(t, "1", "session1").Events().All() {
			got = append(got, fmt.Sprint(e.CustomMetadata[record.MetaPlayed]))
		}
		if want := "2000 100 0 700 <nil>"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
		r.close(t)
	})
}
