package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/agent"
	"parley/call"
)

// fakeCalls behaves as call.Server does, without telephones: calls have states,
// events and an end.
type fakeCalls struct {
	mu       sync.Mutex
	calls    map[string]*fakeCall
	next     int
	draining bool
	err      error // what the next methods return, whatever they are asked
	panics   bool
	dialled  []call.Outgoing
	done     []string                    // what was asked of calls
	wait     func(context.Context) error // how long actions take; nil: not at all
	began    time.Time
}

type fakeCall struct {
	status  call.Status
	past    []agent.Event
	readers []chan agent.Event
}

func newFake() *fakeCalls {
	return &fakeCalls{calls: map[string]*fakeCall{}, began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// add makes a call that is up.
func (f *fakeCalls) add(s call.Status) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.insert(s)
}

func (f *fakeCalls) insert(s call.Status) string {
	f.next++
	s.ID = fmt.Sprintf("%016x", f.next)
	s.SessionID = "session-" + s.ID
	s.Began = f.began.Add(time.Duration(f.next) * time.Second)
	f.calls[s.ID] = &fakeCall{status: s}
	return s.ID
}

// begin is what all methods begin with.
func (f *fakeCalls) begin(id string, states ...string) (*fakeCall, error) {
	if f.panics {
		panic("the fake was told to")
	}
	if f.err != nil {
		return nil, f.err
	}
	c := f.calls[id]
	switch {
	case c == nil:
		return nil, call.ErrNoCall
	case !slices.Contains(states, c.status.State):
		return nil, call.ErrState
	}
	return c, nil
}

func (f *fakeCalls) emit(c *fakeCall, e agent.Event) {
	e.At = f.began.Add(time.Duration(len(c.past)) * time.Millisecond)
	c.past = append(c.past, e)
	for i := 0; i < len(c.readers); i++ {
		select {
		case c.readers[i] <- e:
			continue
		default:
		}
		// Too slow: the last place is for saying so.
		<-c.readers[i]
		c.readers[i] <- agent.Event{Type: agent.EventLagged, At: e.At}
		close(c.readers[i])
		c.readers = slices.Delete(c.readers, i, i+1)
		i--
	}
}

// say lets something happen in a call.
func (f *fakeCalls) happen(id string, e agent.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.emit(f.calls[id], e)
}

func (f *fakeCalls) end(c *fakeCall, cause string) {
	at := f.began.Add(time.Hour)
	c.status.State, c.status.Ended, c.status.Cause = call.StateEnded, &at, cause
	f.emit(c, agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionEnded, Text: cause})
	for _, r := range c.readers {
		close(r)
	}
	c.readers = nil
}

func (f *fakeCalls) Calls() (out []call.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.begin(""); f.err != nil {
		panic(err)
	}
	for _, c := range f.calls {
		out = append(out, c.status)
	}
	return out
}

func (f *fakeCalls) Call(id string) (call.Status, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.begin(id); f.err != nil {
		panic(err)
	}
	c, ok := f.calls[id]
	if !ok {
		return call.Status{}, false
	}
	return c.status, true
}

func (f *fakeCalls) Dial(ctx context.Context, o call.Outgoing) (string, error) {
	if err := f.waits(ctx); err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.begin(""); f.err != nil {
		return "", err
	}
	switch {
	case f.draining:
		return "", call.ErrDraining
	case len(o.To) > 2 && o.To[:2] == "+8":
		return "", &call.GuardError{Rule: "international", Text: "calls to other countries are not allowed on this trunk"}
	}
	f.dialled = append(f.dialled, o)
	id := f.insert(call.Status{Direction: "outbound", State: call.StateDialling, Trunk: o.Trunk, Called: o.To, Caller: o.From, Agent: o.Agent, ResourceID: o.ResourceID})
	f.emit(f.calls[id], agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionDialling})
	return id, nil
}

func (f *fakeCalls) HangUp(id, cause string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.begin(id, call.StateDialling, call.StateRinging, call.StateAnswered, call.StateHeld, call.StateEnding)
	if err == nil {
		f.end(c, cause)
	}
	return err
}

// waits is how long something takes.
func (f *fakeCalls) waits(ctx context.Context) error {
	f.mu.Lock()
	wait := f.wait
	f.mu.Unlock()
	if wait == nil {
		return nil
	}
	return wait(ctx)
}

// act is what the methods on calls that are up have in common.
func (f *fakeCalls) act(ctx context.Context, id, what string, change func(*fakeCall) error) error {
	if err := f.waits(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.begin(id, call.StateAnswered, call.StateHeld)
	if err != nil {
		return err
	}
	f.done = append(f.done, what)
	if change == nil {
		return nil
	}
	return change(c)
}

func (f *fakeCalls) Transfer(ctx context.Context, id string, t agent.Transfer) error {
	return f.act(ctx, id, fmt.Sprintf("transfer %s %v %s %v", t.To, t.Attended, t.Trunk, t.Headers), func(c *fakeCall) error {
		switch t.To {
		case "+4860":
			return &agent.TransferError{Code: 486, Reason: "Busy Here"}
		case "+666":
			return fmt.Errorf("call: not a target for agents: %w", agent.ErrForbidden)
		}
		f.end(c, "transferred")
		return nil
	})
}

func (f *fakeCalls) SendDigits(ctx context.Context, id, digits string) error {
	return f.act(ctx, id, "dtmf "+digits, nil)
}

func (f *fakeCalls) Hold(ctx context.Context, id string) error {
	return f.act(ctx, id, "hold", func(c *fakeCall) error {
		c.status.State = call.StateHeld
		f.emit(c, agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionHeld})
		return nil
	})
}

func (f *fakeCalls) Resume(ctx context.Context, id string) error {
	return f.act(ctx, id, "resume", func(c *fakeCall) error {
		c.status.State = call.StateAnswered
		f.emit(c, agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionResumed})
		return nil
	})
}

func (f *fakeCalls) Say(ctx context.Context, id, text string) error {
	return f.act(ctx, id, "say "+text, nil)
}

func (f *fakeCalls) Record(id string, on bool) error {
	return f.act(context.Background(), id, fmt.Sprint("record ", on), func(c *fakeCall) error {
		c.status.Recording = on
		return nil
	})
}

// streamBuffer is how many events a reader of the fake may be behind.
const streamBuffer = 8

func (f *fakeCalls) Events(id string) ([]agent.Event, <-chan agent.Event, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.begin(id, call.StateDialling, call.StateRinging, call.StateAnswered, call.StateHeld, call.StateEnding, call.StateEnded)
	if err != nil {
		return nil, nil, nil, err
	}
	live := make(chan agent.Event, streamBuffer)
	if c.status.State == call.StateEnded {
		close(live)
	} else {
		c.readers = append(c.readers, live)
	}
	return slices.Clone(c.past), live, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if i := slices.Index(c.readers, live); i >= 0 {
			c.readers = slices.Delete(c.readers, i, i+1)
		}
	}, nil
}

var errStrange = errors.New("call: something with a secret in it")
