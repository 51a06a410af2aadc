package live_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/agent/live"
	"parley/agent/live/livetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is what was called, in order.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) all() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// hold runs a test with a session under way.
func hold(t *testing.T, o live.Options, idle live.IdleConfig, run func(*testing.T, *live.Session, *livetest.Script, *log)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		script, l := livetest.NewScript(), &log{}
		s := live.NewSession(script.Provider(), live.Callbacks{
			OnMessage:      func(m live.Message) { l.add("message") },
			OnText:         func(text string) { l.add("text %s", text) },
			OnAgentMessage: func(text string) { l.add("agent %s", text) },
			OnTurnDone:     func() { l.add("turn done") },
			OnError:        func(err error) { l.add("error %v", err) },
			OnSessionEnd:   func() { l.add("end") },
		}, o)
		if err := s.Start(t.Context(), live.LiveConfig{Transcribe: true}, idle); err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		run(t, s, script, l)
	})
}

func tell(t *testing.T, s *livetest.Script, m live.Message) {
	t.Helper()
	if err := s.Last().Tell(m); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// The message comes first, then what follows from it, in the order of its fields.
func TestOrder(t *testing.T) {
	hold(t, live.Options{}, live.IdleConfig{}, func(t *testing.T, s *live.Session, script *livetest.Script, l *log) {
		tell(t, script, live.Message{Agent: live.Transcript{Delta: "Hello."}, TurnDone: true, Warning: errors.New("slow")})
		want := []string{"message", "text Hello.", "agent Hello.", "turn done", "error live: script: slow"}
		if got := l.all(); !slices.Equal(got, want) {
			t.Errorf("called %q, want %q", got, want)
		}
	})
}

// A host that hears tells what was heard: that, and nothing else, is the agent's
// message, here and for a connection to come.
func TestHostHears(t *testing.T) {
	hold(t, live.Options{HostHears: true}, live.IdleConfig{}, func(t *testing.T, s *live.Session, script *livetest.Script, l *log) {
		tell(t, script, live.Message{Audio: make([]byte, 48000), Agent: live.Transcript{Text: "One two three.", Done: true}, TurnDone: true})
		s.Heard("One two")
		s.Heard("") // nothing of the next
		script.Last().Drop()
		synctest.Wait()
		if h := script.Last().Config().History; len(h) != 1 || h[0].Text != "One two" {
			t.Errorf("history %+v", h)
		}
		s.Stop()
		if got := l.all(); !slices.Contains(got, "agent One two") || slices.Contains(got, "agent One two three.") {
			t.Errorf("called %q", got)
		}
	})
}

// A host that hears says when the agent is heard; the silence is counted from then.
func TestHostPlays(t *testing.T) {
	hold(t, live.Options{HostHears: true}, live.IdleConfig{DeactivateAfter: time.Minute}, func(t *testing.T, s *live.Session, _ *livetest.Script, l *log) {
		s.Playing(true)
		time.Sleep(10 * time.Minute)
		s.Playing(false)
		time.Sleep(59 * time.Second)
		if len(l.all()) != 0 {
			t.Fatalf("called %q", l.all())
		}
		time.Sleep(2 * time.Second)
		if got := l.all(); !slices.Equal(got, []string{"end"}) {
			t.Errorf("called %q", got)
		}
	})
}

// CallerSpoke ends the silence though the service has heard nothing yet.
func TestCallerSpoke(t *testing.T) {
	hold(t, live.Options{}, live.IdleConfig{DeactivateAfter: time.Minute}, func(t *testing.T, s *live.Session, _ *livetest.Script, l *log) {
		time.Sleep(50 * time.Second)
		s.CallerSpoke()
		time.Sleep(50 * time.Second)
		if s.State() == live.StateInactive {
			t.Error("it ended")
		}
	})
}

// A host that gets no answer has the connection made anew, at once.
func TestRenewNow(t *testing.T) {
	hold(t, live.Options{}, live.IdleConfig{}, func(t *testing.T, s *live.Session, script *livetest.Script, l *log) {
		tell(t, script, live.Message{Audio: make([]byte, 48000)})
		s.Renew(false) // not while it speaks
		if synctest.Wait(); len(script.Conns()) != 1 {
			t.Error("the agent was cut off")
		}
		s.Renew(true)
		time.Sleep(time.Millisecond)
		if synctest.Wait(); len(script.Conns()) != 2 || s.State() != live.StateListening {
			t.Errorf("%d connections, %s", len(script.Conns()), s.State())
		}
	})
}

// What a new connection is told is bounded, and no tool call among it has lost its
// answer.
func TestHistoryIsBounded(t *testing.T) {
	hold(t, live.Options{}, live.IdleConfig{}, func(t *testing.T, s *live.Session, script *livetest.Script, l *log) {
		for i := range 300 {
			tell(t, script, live.Message{User: live.Transcript{Text: fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000)), Done: true}})
		}
		tell(t, script, live.Message{ToolCalls: []live.ToolCall{{ID: "1", Name: "look"}}})
		if err := s.SendToolResponse(live.ToolResponse{ID: "1", Response: map[string]any{"a": 1}}); err != nil {
			t.Error(err)
		}
		script.Last().Drop()
		synctest.Wait()
		h := script.Last().Config().History
		size := 0
		for _, said := range h {
			size += len(said.Text)
		}
		last := h[len(h)-1]
		if len(h) > 200 || size > 128<<10 || last.Call == nil || last.Response == nil || !strings.HasPrefix(h[len(h)-2].Text, "299 ") {
			t.Errorf("%d entries, %d bytes, last %+v", len(h), size, last)
		}
	})
}

// Nor do the results of tools make it more than a connection takes.
func TestToolsInHistoryAreBounded(t *testing.T) {
	hold(t, live.Options{}, live.IdleConfig{}, func(t *testing.T, s *live.Session, script *livetest.Script, l *log) {
		for i := range 100 {
			id := fmt.Sprint(i)
			tell(t, script, live.Message{ToolCalls: []live.ToolCall{{ID: id, Name: "look", Args: map[string]any{"at": strings.Repeat("x", 1000)}}}})
			if err := s.SendToolResponse(live.ToolResponse{ID: id, Response: map[string]any{"page": strings.Repeat("y", 60_000)}}); err != nil {
				t.Fatal(err)
			}
		}
		script.Last().Drop()
		synctest.Wait()
		h := script.Last().Config().History
		if len(h) < 5 || len(h) > 10 || h[len(h)-1].Call.ID != "99" || h[0].Response == nil {
			t.Errorf("%d entries", len(h))
		}
	})
}

// A message without end is bounded.
func TestMessageIsBounded(t *testing.T) {
	hold(t, live.Options{}, live.IdleConfig{}, func(t *testing.T, s *live.Session, script *livetest.Script, l *log) {
		for range 100 {
			tell(t, script, live.Message{Agent: live.Transcript{Delta: strings.Repeat("ä", 1000)}})
		}
		tell(t, script, live.Message{Agent: live.Transcript{Done: true}})
		tell(t, script, live.Message{Agent: live.Transcript{Done: true, Text: strings.Repeat("ä", 100_000)}})
		n := 0
		for _, line := range l.all() {
			if text, ok := strings.CutPrefix(line, "agent "); ok {
				n++
				if len(text) > 64<<10 || strings.Trim(text, "ä") != "" {
					t.Errorf("a message of %d bytes", len(text))
				}
			}
		}
		if n != 2 {
			t.Errorf("%d messages", n)
		}
	})
}

// A service that takes sessions and drops them, or sends them away, is not asked without
// end: ever more slowly, and then no more.
func TestConnectionsThatDoNotLast(t *testing.T) {
	for name, end := range map[string]func() (live.Message, error){
		"dropped":   func() (live.Message, error) { return live.Message{}, live.ErrLost },
		"sent away": func() (live.Message, error) { return live.Message{GoAway: &live.GoAway{}}, nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &log{}
			p := &fickle{Bare: livetest.NewScript().Bare(), end: end}
			s := live.NewSession(p, live.Callbacks{
				OnError: func(err error) { l.add("error %v", err) }, OnSessionEnd: func() { l.add("end") },
			}, live.Options{})
			began := time.Now()
			if err := s.Start(t.Context(), live.LiveConfig{}, live.IdleConfig{}); err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			time.Sleep(time.Minute)
			if got := l.all(); len(got) == 0 || !strings.Contains(got[0], "did not last") || got[len(got)-1] != "end" {
				t.Errorf("%s: called %q", name, got)
			}
			if p.made > 7 || p.last.Sub(began) < 2*time.Second {
				t.Errorf("%s: %d connections in %v", name, p.made, p.last.Sub(began))
			}
		})
	}
}

// fickle is a provider whose connections do not last.
type fickle struct {
	*livetest.Bare
	end  func() (live.Message, error)
	made int
	last time.Time
	told bool
}

func (f *fickle) Connect(context.Context, live.LiveConfig) error {
	if f.made++; f.made > 1000 {
		return live.ErrRejected // so that the test ends
	}
	f.last, f.told = time.Now(), false
	return nil
}

func (f *fickle) Receive(ctx context.Context) (live.Message, error) {
	if f.told {
		<-ctx.Done()
		return live.Message{}, context.Cause(ctx)
	}
	f.told = true
	return f.end()
}

func (f *fickle) Close(context.Context) error { return nil }

// A provider that panics ends the session as one that fails, and nothing else.
func TestProviderPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		s := live.NewSession(panicking{livetest.NewScript().Bare()}, live.Callbacks{
			OnError: func(err error) { l.add("error %v", err) }, OnSessionEnd: func() { l.add("end") },
		}, live.Options{})
		if err := s.Start(t.Context(), live.LiveConfig{Recovery: live.Recovery{Tries: -1}}, live.IdleConfig{}); err != nil {
			t.Fatal(err)
		}
		if err := s.SendText("x"); err == nil || !strings.Contains(err.Error(), "panic") {
			t.Errorf("SendText: %v", err)
		}
		s.Stop()
		if got := l.all(); !slices.Contains(got, "end") {
			t.Errorf("called %q", got)
		}
	})
}

type panicking struct{ *livetest.Bare }

func (panicking) SendText(context.Context, string) error { panic("ouch") }

// Every mistake in a configuration is named.
func TestValidate(t *testing.T) {
	hot := 3.0
	for want, c := range map[string]live.LiveConfig{
		"":            {Wire: live.PCMU},
		"wire":        {Wire: "mp3"},
		"negative":    {Recovery: live.Recovery{Budget: -1}},
		"no time":     {Recovery: live.Recovery{Renew: time.Second}},
		"temperature": {Temperature: &hot},
	} {
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, c := range map[string]live.IdleConfig{
		"":         live.DefaultIdle(),
		"negative": {ReminderAfter: -1},
		"too late": {ReminderAfter: time.Minute, DeactivateAfter: time.Second},
	} {
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for err, want := range map[error]bool{
		nil: false, live.ErrAuth: false, live.ErrRejected: false, live.ErrClosed: false, live.ErrBusy: true, live.ErrLost: true,
	} {
		if live.Reconnectable(err) != want {
			t.Errorf("Reconnectable(%v) is %v", err, !want)
		}
	}
}

// What was lost with a connection and is sent on the next one is over when Stop returns,
// also when the provider takes its time to give it up.
func TestStopWaitsForWhatIsSentLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &late{Bare: livetest.NewScript().Bare(), lost: make(chan struct{})}
		s := live.NewSession(p, live.Callbacks{}, live.Options{})
		if err := s.Start(t.Context(), live.LiveConfig{}, live.IdleConfig{}); err != nil {
			t.Fatal(err)
		}
		sent := make(chan error)
		go func() { sent <- s.SendText("hello") }()
		synctest.Wait()
		close(p.lost) // Receive sees it and connects anew; the send learns of it later
		if err := <-sent; err != nil {
			t.Error(err)
		}
		time.Sleep(100 * time.Millisecond)
		if n := p.sends.Load(); n != 2 {
			t.Fatalf("sent %d times", n)
		}
		s.Stop()
		if n := p.given.Load(); n != 1 {
			t.Errorf("%d sends are over when Stop returns", n)
		}
	})
}

// late is a provider that loses its first connection, tells who sends of it only when
// there is another, and gives up the second text slowly.
type late struct {
	*livetest.Bare
	lost                chan struct{}
	links, sends, given atomic.Int32
}

func (p *late) Connect(context.Context, live.LiveConfig) error { p.links.Add(1); return nil }

func (p *late) Receive(ctx context.Context) (live.Message, error) {
	if p.links.Load() == 1 {
		select {
		case <-p.lost:
			return live.Message{}, live.ErrLost
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return live.Message{}, context.Cause(ctx)
}

func (p *late) SendText(ctx context.Context, _ string) error {
	if p.sends.Add(1) == 1 {
		<-p.lost
		time.Sleep(50 * time.Millisecond)
		return live.ErrLost
	}
	<-ctx.Done()
	time.Sleep(time.Second)
	p.given.Add(1)
	return context.Cause(ctx)
}

func (p *late) Close(context.Context) error { return nil }
