// Package tooltest shows that tools behave, whatever they are made of: functions,
// processes or servers. Whoever makes a new kind of tool runs Run on four of them.
package tooltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent/tool"
)

// patience is how long anything may take on a busy machine.
const patience = 20 * time.Second

// Run shows what every kind of tool owes to calls. open makes four tools, with names of
// which the last part is
//
//	echo  takes a required string "text", and returns it somewhere in its result
//	wait  takes nothing and returns nothing before its call is cancelled
//	fail  always fails, with "out of stock" in the text of its error
//	big   returns more than 100,000 bytes
//
// It ends what it opened by t.Cleanup. close, which may be nil, ends them before that:
// calls after it, and those in flight, must fail and not hang.
func Run(t *testing.T, open func(t *testing.T) (tools []tool.Tool, close func())) {
	t.Helper()
	tools, closing := open(t)
	f := &fixture{registry: tool.NewRegistry(), names: map[string]string{}, tools: map[string]tool.Tool{}, close: closing}
	for _, one := range tools {
		if err := f.registry.Register(one); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"echo", "wait", "fail", "big"} {
			if strings.HasSuffix(one.Name(), kind) {
				f.names[kind], f.tools[kind] = one.Name(), one
			}
		}
	}
	if len(f.names) != 4 {
		t.Fatalf("tools: %v, want echo, wait, fail and big", f.names)
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, *fixture)
	}{
		{"Definitions", definitions},
		{"EveryCallItsOwn", everyCallItsOwn},
		{"SlowHoldsNobodyUp", slowHoldsNobodyUp},
		{"CancelledIsSilent", cancelledIsSilent},
		{"LateIsAnswered", lateIsAnswered},
		{"FailureIsTold", failureIsTold},
		{"ArgumentsAreChecked", argumentsAreChecked},
		{"ArgumentsStay", argumentsStay},
		{"ResultIsBounded", resultIsBounded},
		{"EndOfConversation", endOfConversation},
		{"ContextOfInvokeEnds", contextOfInvokeEnds},
		{"ConversationsApart", conversationsApart},
		{"AnsweredExactlyOnce", answeredExactlyOnce},
		{"CallOutsideOfAModels", callOutside},
		{"ClosedFailsAtOnce", closedFailsAtOnce}, // the last: nothing works after it
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}

// fixture is the four tools.
type fixture struct {
	registry *tool.ToolRegistry
	names    map[string]string
	tools    map[string]tool.Tool
	close    func()
}

// answers gathers what a Dispatcher responds.
type answers struct {
	mu  sync.Mutex
	got map[string][]tool.ToolResponse
	c   chan struct{}
}

// dispatcher runs the fixture's tools for one conversation.
func (f *fixture) dispatcher(t *testing.T, session string, timeout time.Duration) (*tool.Dispatcher, *answers) {
	t.Helper()
	a := &answers{got: map[string][]tool.ToolResponse{}, c: make(chan struct{}, 1000)}
	d := tool.NewDispatcher(context.WithoutCancel(t.Context()), tool.DispatcherConfig{
		Session: session, Registry: f.registry, Timeout: timeout,
		Respond: func(_ context.Context, r tool.ToolResponse) error {
			a.mu.Lock()
			a.got[r.ID] = append(a.got[r.ID], r)
			a.mu.Unlock()
			a.c <- struct{}{}
			return nil
		},
	})
	t.Cleanup(func() { shut(t, d) })
	return d, a
}

func shut(t *testing.T, d *tool.Dispatcher) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer stop()
	if err := d.Close(ctx); err != nil {
		t.Error(err)
	}
}

// wait waits for n answers.
func (a *answers) wait(t *testing.T, n int) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for range n {
		select {
		case <-a.c:
		case <-late.C:
			t.Fatal("no answer")
		}
	}
}

// of is the answer to a call, as JSON.
func (a *answers) of(t *testing.T, id string) string {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.got[id]) != 1 {
		t.Fatalf("%s has %d answers, want 1", id, len(a.got[id]))
	}
	text, err := json.Marshal(a.got[id][0].Response)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (f *fixture) dispatch(t *testing.T, d *tool.Dispatcher, id, kind string, args map[string]any) {
	t.Helper()
	if err := d.Dispatch(tool.ToolCall{ID: id, Name: f.names[kind], Args: args}); err != nil {
		t.Fatal(err)
	}
}

func definitions(t *testing.T, f *fixture) {
	for _, d := range f.registry.Definitions() {
		if !tool.ValidName(d.Name) || d.Description == "" {
			t.Errorf("%q: name or description missing", d.Name)
		}
	}
	if s := f.tools["echo"].InputSchema(); s["type"] != "object" {
		t.Errorf("echo's schema: %v", s)
	}
}

func everyCallItsOwn(t *testing.T, f *fixture) {
	d, a := f.dispatcher(t, "one", patience)
	const n = 40
	for i := range n {
		f.dispatch(t, d, fmt.Sprint(i), "echo", map[string]any{"text": fmt.Sprintf("word%03d", i)})
	}
	a.wait(t, n)
	for i := range n {
		if got := a.of(t, fmt.Sprint(i)); !strings.Contains(got, fmt.Sprintf("word%03d", i)) {
			t.Errorf("call %d was answered %s", i, got)
		}
	}
}

func slowHoldsNobodyUp(t *testing.T, f *fixture) {
	d, a := f.dispatcher(t, "one", patience)
	f.dispatch(t, d, "slow", "wait", nil)
	f.dispatch(t, d, "quick", "echo", map[string]any{"text": "hello"})
	a.wait(t, 1)
	if got := a.of(t, "quick"); !strings.Contains(got, "hello") {
		t.Error(got)
	}
	if d.Running() == 0 {
		t.Error("the slow call has ended")
	}
}

func cancelledIsSilent(t *testing.T, f *fixture) {
	d, a := f.dispatcher(t, "one", patience)
	f.dispatch(t, d, "slow", "wait", nil)
	d.Cancel("slow")
	f.dispatch(t, d, "next", "echo", map[string]any{"text": "hello"})
	a.wait(t, 1)
	shut(t, d) // which waits for the cancelled call
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.got["slow"]) != 0 {
		t.Errorf("a cancelled call was answered: %v", a.got["slow"])
	}
}

func lateIsAnswered(t *testing.T, f *fixture) {
	d, a := f.dispatcher(t, "one", 50*time.Millisecond)
	f.dispatch(t, d, "slow", "wait", nil)
	a.wait(t, 1)
	if got := a.of(t, "slow"); !strings.Contains(got, `"error"`) {
		t.Error(got)
	}
}

func failureIsTold(t *testing.T, f *fixture) {
	d, a := f.dispatcher(t, "one", patience)
	f.dispatch(t, d, "bad", "fail", nil)
	a.wait(t, 1)
	if got := a.of(t, "bad"); !strings.Contains(got, `"error"`) || !strings.Contains(got, "out of stock") {
		t.Error(got)
	}
	f.dispatch(t, d, "good", "echo", map[string]any{"text": "still here"})
	a.wait(t, 1)
	if got := a.of(t, "good"); !strings.Contains(got, "still here") {
		t.Error(got)
	}
}

func argumentsAreChecked(t *testing.T, f *fixture) {
	d, a := f.dispatcher(t, "one", patience)
	for id, args := range map[string]map[string]any{"none": nil, "kind": {"text": 7}} {
		f.dispatch(t, d, id, "echo", args)
		a.wait(t, 1)
		if got := a.of(t, id); !strings.Contains(got, "invalid arguments") {
			t.Errorf("%s: %s", id, got)
		}
	}
}

func argumentsStay(t *testing.T, f *fixture) {
	args := map[string]any{"text": "hello"}
	if _, err := f.tools["echo"].Invoke(t.Context(), maps.Clone(args)); err != nil {
		t.Fatal(err)
	}
	d, a := f.dispatcher(t, "one", patience)
	f.dispatch(t, d, "1", "echo", args)
	a.wait(t, 1)
	if len(args) != 1 || args["text"] != "hello" {
		t.Errorf("the caller's arguments are %v now", args)
	}
}

func resultIsBounded(t *testing.T, f *fixture) {
	d, a := f.dispatcher(t, "one", patience)
	f.dispatch(t, d, "1", "big", nil)
	a.wait(t, 1)
	if got := a.of(t, "1"); len(got) > tool.DefaultMaxResult || len(got) < 1000 {
		t.Errorf("%d bytes", len(got))
	}
}

func endOfConversation(t *testing.T, f *fixture) {
	d, a := f.dispatcher(t, "one", patience)
	for i := range 3 {
		f.dispatch(t, d, fmt.Sprint(i), "wait", nil)
	}
	shut(t, d)
	if len(a.got) != 0 {
		t.Errorf("answered after the end: %v", a.got)
	}
	if err := d.Dispatch(tool.ToolCall{Name: f.names["echo"]}); !errors.Is(err, tool.ErrClosed) {
		t.Error(err)
	}
}

func contextOfInvokeEnds(t *testing.T, f *fixture) {
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := f.tools["wait"].Invoke(ctx, map[string]any{})
		done <- err
	}()
	cancel(tool.ErrCancelled)
	select {
	case err := <-done:
		if err == nil {
			t.Error("a cancelled call has no error")
		}
	case <-time.After(patience):
		t.Fatal("does not end with its context")
	}
}

func closedFailsAtOnce(t *testing.T, f *fixture) {
	if f.close == nil {
		t.Skip("nothing to close")
	}
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		_, err := f.tools["wait"].Invoke(context.WithoutCancel(t.Context()), map[string]any{})
		done <- err
	}()
	<-started
	f.close()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a call in flight has no error")
		}
	case <-time.After(patience):
		t.Fatal("a call in flight hangs")
	}
	began := time.Now()
	if _, err := f.tools["echo"].Invoke(t.Context(), map[string]any{"text": "x"}); err == nil {
		t.Error("works after it was closed")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("failed after %v", took)
	}
}

func conversationsApart(t *testing.T, f *fixture) {
	one, a := f.dispatcher(t, "one", patience)
	two, b := f.dispatcher(t, "two", patience)
	f.dispatch(t, one, "1", "wait", nil)
	f.dispatch(t, two, "1", "echo", map[string]any{"text": "for two"})
	b.wait(t, 1)
	one.Cancel("1")
	if got := b.of(t, "1"); !strings.Contains(got, "for two") {
		t.Error(got)
	}
	shut(t, one)
	if len(a.got) != 0 {
		t.Error(a.got)
	}
}

func answeredExactlyOnce(t *testing.T, f *fixture) {
	d, a := f.dispatcher(t, "one", patience)
	kinds := []string{"echo", "fail", "big", "echo"}
	for i := range 24 {
		f.dispatch(t, d, fmt.Sprint(i), kinds[i%len(kinds)], map[string]any{"text": "x"})
	}
	a.wait(t, 24)
	shut(t, d)
	for i := range 24 {
		a.of(t, fmt.Sprint(i))
	}
}

func callOutside(t *testing.T, f *fixture) {
	if _, err := f.registry.Call(t.Context(), f.names["fail"], map[string]any{}); err == nil || !strings.Contains(err.Error(), "out of stock") {
		t.Error(err)
	}
	got, err := f.registry.Call(t.Context(), f.names["echo"], map[string]any{"text": "hello"})
	if err != nil || !strings.Contains(fmt.Sprint(got), "hello") {
		t.Error(got, err)
	}
}
