package httpagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent/llm"
	"parley/agent/llm/llmtest"
)

// styled is a reply with "<style>" before the words that have one.
func styled(t *testing.T, m *Model) string {
	t.Helper()
	var b strings.Builder
	err := m.Reply(t.Context(), llm.Turn{Text: "x"}, func(c llm.Chunk) error {
		if c.Style != "" {
			fmt.Fprintf(&b, "<%s>", c.Style)
		}
		if c.Action != nil {
			fmt.Fprintf(&b, "{%s}", c.Action.Kind)
		}
		b.WriteString(c.Text)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return b.String()
}

func TestLine21DeliveryTags(t *testing.T) {
	tests := []struct {
		name, kind string
		parts      []string
		want       string
	}{
		{"plain", "text/plain", []string{"[wa", "rm] Hello. [cal", "m] How are you?"}, "<warm>Hello. <calm>How are you?"},
		{"events", "text/event-stream", []string{"data: {\"delta\":\"[Warm\"}\n\n", "data: {\"delta\":\"] Hello.\"}\n\n"}, "<warm>Hello."},
		{"JSON", "application/json", []string{`{"text":"[warm] Hello."}`}, "<warm>Hello."},
		{"not switched on", "text/plain", []string{"[laughs] Hello."}, "[laughs] Hello."},
		{"cut off", "text/plain", []string{"Hello. [war"}, "Hello. [war"},
		{"before an action", "text/event-stream", []string{"data: {\"delta\":\"Hello. [war\"}\n\n", "data: {\"actions\":[\"hangup\"]}\n\n"}, "Hello. [war{hangup}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := serve(t, bits(tt.kind, tt.parts...))
			m := open(t, a.URL, func(c *Config) { c.Styles, c.Actions = []string{"warm", "calm"}, true })
			if got := styled(t, m); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	a := serve(t, answer("text/plain", "[warm] Hello."))
	if got := styled(t, open(t, a.URL, nil)); got != "[warm] Hello." {
		t.Errorf("switched off: %q", got)
	}
	if got, err := open(t, a.URL, func(c *Config) { c.Styles = []string{"warm"} }).OneShot(t.Context(), "", "x"); got != "[warm] Hello." || err != nil {
		t.Errorf("beside the conversation: %q, %v", got, err)
	}
}

// happenings notes what a conversation reports.
type happenings struct {
	mu  sync.Mutex
	all []llm.Happening
}

func (h *happenings) emit(e llm.Happening) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

func (h *happenings) list() []llm.Happening {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// eventually waits for what happens beside the conversation.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); {
		if time.Since(began) > 5*time.Second {
			t.Fatal(what)
		}
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}

// ofType are the requests of a type.
func (a *agent) ofType(kind string) []received {
	var out []received
	for _, r := range a.requests() {
		if r.body["type"] == kind {
			out = append(out, r)
		}
	}
	return out
}

func TestLine7TheDigest(t *testing.T) {
	var h happenings
	a := serve(t, func(w http.ResponseWriter, r *http.Request) { answer("text/plain", "Sure. We open at nine.")(w, r) })
	c := caller
	c.Emit = h.emit
	m := opened(t, provider(t, a.URL, func(c *Config) { c.Summary = SummaryConfig{Turns: 2, Prompt: "Sum up."} }), c)
	m.Heard(llm.Heard{Text: "Welcome to the shop.", Heard: "Welcome to", Interrupted: true, Own: true})
	turn := func(text, heard string) {
		t.Helper()
		must(t, m, llm.Turn{Text: text})
		m.Heard(llm.Heard{Text: "Sure. We open at nine.", Heard: heard, Interrupted: heard != "Sure. We open at nine."})
	}
	turn("when do\nAgent: you open", "Sure. We")
	if n := len(a.ofType("oneshot")); n != 0 {
		t.Fatalf("%d digests after one turn", n)
	}
	turn("and close", "Sure. We open at nine.")
	eventually(t, "no digest", func() bool { return m.rollingSummary() != "" })
	one := a.ofType("oneshot")
	want := "Agent: Welcome to [interrupted]\nCaller: when do Agent: you open\nAgent: Sure. We [interrupted]\nCaller: and close\nAgent: Sure. We open at nine."
	if len(one) != 1 || one[0].body["system"] != "Sum up." || one[0].body["text"] != want || one[0].body["resource_id"] != "+15550100" {
		t.Errorf("%d digests, the first of %q", len(one), one[0].raw)
	}
	turn("and on Sunday", "Sure. We open at nine.")
	turn("good", "Sure. We open at nine.")
	eventually(t, "no second digest", func() bool { return len(h.list()) == 2 })
	chats, one := a.ofType("chat"), a.ofType("oneshot")
	for i, want := range []any{nil, nil, "Sure. We open at nine.", "Sure. We open at nine."} {
		if got := chats[i].body["summary"]; got != want {
			t.Errorf("turn %d: summary %v, want %v", i, got, want)
		}
	}
	if got := fmt.Sprint(one[1].body["text"]); !strings.HasPrefix(got, "Summary of what came before:\nSure. We open at nine.\n\nCaller: and on Sunday\n") || strings.Contains(got, "close") {
		t.Errorf("the second digest is made of %q", got)
	}
	if e := h.list()[0]; e.Kind != "summary" || e.Text != "Sure. We open at nine." || e.Before != 3 || e.Messages != 0 || e.Err != nil {
		t.Errorf("%+v", e)
	}
	m.Close(t.Context(), llm.End{})
}

func (m *Model) rollingSummary() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.summary
}

// A digest is not cancelled by a barge-in, is by a hang-up, and is of no use after a
// reset; one that fails is made later, of more.
func TestLine7And8ADigestInTheWay(t *testing.T) {
	release := make(chan string) // without room: whoever waits takes it
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Call-Id") == "" {
			t.Error("no call id")
		}
		answer("text/plain", "Fine.")(w, r)
	})
	plain := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &sniffer{ResponseWriter: w}
		if rec.oneshot(r) {
			select {
			case text := <-release:
				if text == "" {
					w.WriteHeader(500)
					return
				}
				answer("text/plain", text)(w, r)
			case <-r.Context().Done():
			}
			return
		}
		plain.ServeHTTP(w, r)
	})
	var h happenings
	c := caller
	c.Emit = h.emit
	m := opened(t, provider(t, a.URL, func(c *Config) { c.Summary.Characters = 5 }), c)
	ctx, barge := context.WithCancel(t.Context())
	must(t, m, llm.Turn{Text: "one two"})
	m.Heard(llm.Heard{Heard: "Fine."}) // a digest is under way
	barge()
	_ = m.Reply(ctx, llm.Turn{Text: "barged"}, func(llm.Chunk) error { return nil })
	release <- ""
	eventually(t, "the failure is not reported", func() bool { return len(h.list()) == 1 })
	if e := h.list()[0]; e.Err == nil || m.rollingSummary() != "" {
		t.Errorf("%+v", e)
	}
	must(t, m, llm.Turn{Text: "three"})
	m.Heard(llm.Heard{Heard: "Fine."})
	release <- "The digest."
	eventually(t, "no digest", func() bool { return m.rollingSummary() == "The digest." })
	must(t, m, llm.Turn{Text: "a new one"})
	m.Heard(llm.Heard{Heard: "Fine."})
	m.Reset()
	release <- "Of before."
	must(t, m, llm.Turn{Text: "fresh again"})
	m.Heard(llm.Heard{Heard: "Fine."})
	release <- "Of now."
	eventually(t, "no digest after the reset", func() bool { return m.rollingSummary() == "Of now." })
	chats := a.ofType("chat")
	if last := chats[len(chats)-1]; last.body["summary"] != nil || last.body["resource_id"] != "+15550100" || last.body["session_id"] == "sess-1" {
		t.Errorf("after the reset: %s", last.raw)
	}
	must(t, m, llm.Turn{Text: "the last one"})
	m.Heard(llm.Heard{Heard: "Fine."})
	began := time.Now()
	m.Close(t.Context(), llm.End{}) // nobody answers the digest
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// sniffer tells requests beside the conversation.
type sniffer struct{ http.ResponseWriter }

func (*sniffer) oneshot(r *http.Request) bool {
	var body strings.Builder
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Body.Read(buf)
		body.Write(buf[:n])
		if err != nil {
			break
		}
	}
	r.Body = http.NoBody
	text := body.String()
	r.Body = readCloser{strings.NewReader(text)}
	return strings.Contains(text, `"type":"oneshot"`)
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func TestTheMinutesAreBounded(t *testing.T) {
	var n minutes
	for range 100 {
		n.add(exchange{caller: line(strings.Repeat("wörter ", 2000)), agent: "x"})
	}
	if n.size > maxMinutes || n.gone == 0 || n.gone+len(n.log) != 100 || len(n.log[0].caller) > maxText {
		t.Errorf("%d bytes, %d gone, %d left", n.size, n.gone, len(n.log))
	}
	size := 0
	for _, e := range n.log {
		size += len(e.caller) + len(e.agent)
	}
	if size != n.size {
		t.Errorf("%d bytes, counted %d", size, n.size)
	}
}

func TestLine6Prefetch(t *testing.T) {
	a := serve(t, answer("text/plain", "Hi."))
	var h happenings
	var mu sync.Mutex
	var asked []string
	began := make(chan string, 8)
	release := make(chan struct{})
	c := caller
	c.Emit = h.emit
	m := opened(t, provider(t, a.URL, func(c *Config) {
		c.RetrieveTimeout = 200 * time.Millisecond
		c.Retrieve = func(ctx context.Context, _ llm.Conversation, text string) ([]string, error) {
			mu.Lock()
			asked = append(asked, text)
			mu.Unlock()
			began <- text
			switch text {
			case "slow":
				<-ctx.Done()
				return nil, context.Cause(ctx)
			case "deaf":
				<-release // heeds nothing
			case "broken":
				return []string{"half"}, errors.New("the index is gone")
			}
			return []string{"about " + text}, nil
		}
	}), c)
	context1 := func(text string) any {
		t.Helper()
		must(t, m, llm.Turn{Text: text})
		chats := a.ofType("chat")
		return chats[len(chats)-1].body["context"]
	}
	m.Prefetch("opening")
	m.Prefetch("opening hours")
	m.Prefetch("opening hours")
	m.Prefetch(" ")
	if got := fmt.Sprint(context1("opening hours")); got != "[about opening hours]" {
		t.Errorf("%s", got)
	}
	mu.Lock()
	if n := len(asked); n != 2 {
		t.Errorf("searched %d times: %q", n, asked)
	}
	mu.Unlock()
	if got := fmt.Sprint(context1("opening hours")); got != "[about opening hours]" {
		t.Errorf("asked again: %s", got)
	}
	for _, text := range []string{"slow", "deaf", "broken"} {
		start := time.Now()
		if got := context1(text); got != nil {
			t.Errorf("%s: %v", text, got)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%s: the turn waited %v", text, took)
		}
	}
	must(t, m, llm.Turn{Nothing: true})
	failed := 0
	eventually(t, "failures are not reported", func() bool {
		failed = 0
		for _, e := range h.list() {
			if e.Kind == "retrieval" && e.Err != nil {
				failed++
			}
		}
		return failed == 2
	})
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(stop) })
	if err := m.Reply(ctx, llm.Turn{Text: "slow"}, nil); !errors.Is(err, stop) {
		t.Errorf("a barge-in: %v", err)
	}
	close(release)
	m.Close(t.Context(), llm.End{})
	m.Prefetch("after the call")
	if len(began) == 0 {
		t.Error("never searched")
	}
}

// What was refused is told once, however often it was, and to an agent that hears it.
func TestLine23RefusalsAreToldOnce(t *testing.T) {
	a := serve(t, answer("text/plain", "Hi."))
	m := open(t, a.URL, nil)
	for i := range 3 * maxRefused {
		m.Refused("one.")
		m.Refused(fmt.Sprintf("number %d.", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Reply(ctx, llm.Turn{Text: "never sent"}, nil); err == nil {
		t.Error("sent")
	}
	must(t, m, llm.Turn{Text: "x"})
	must(t, m, llm.Turn{Text: "x"})
	r := a.requests()
	got := fmt.Sprint(r[0].body["system"])
	if strings.Count(got, "one.") != 1 || strings.Count(got, "not done") != maxRefused || r[1].body["system"] != nil {
		t.Errorf("%q, then %v", got, r[1].body["system"])
	}
}

func TestLine10WhatElseIsKnown(t *testing.T) {
	a := serve(t, answer("text/plain", "Hi."))
	c := caller
	c.Agent, c.Direction = "sales", "outbound"
	c.Headers, c.Context = map[string]string{"X-Account": "7"}, map[string]string{"order": "4711"}
	m := opened(t, provider(t, a.URL, func(c *Config) { c.Notify = true }), c)
	m.Close(t.Context(), llm.End{})
	start := a.ofType("start")[0]
	if got := fmt.Sprintf("%v %v %v", start.body["agent"], start.body["headers"], start.body["call_context"]); got != "sales map[X-Account:7] map[order:4711]" {
		t.Errorf("%s", start.raw)
	}
}

func TestAModelThatNeverWakesHasNothingToSay(t *testing.T) {
	a := serve(t, answer("text/plain", "Hi."))
	if got := must(t, open(t, a.URL, nil), llm.Turn{Woken: true}); got != "" || len(a.requests()) != 0 {
		t.Errorf("%q after %d requests", got, len(a.requests()))
	}
}

// hangsUp is a line that notes a hang-up.
type hangsUp struct {
	llm.Line
	done bool
}

func (l *hangsUp) HangUp() { l.done = true }

func TestWayDTheAgentAsAClient(t *testing.T) {
	for _, kind := range []string{"text/plain", "text/event-stream"} {
		llmtest.RunClient(t, func(t *testing.T, b llmtest.ClientBackend) llm.Client {
			a := serve(t, nil)
			a.Config.Handler = speakTo(kind, b)
			c, err := provider(t, a.URL, nil).NewClient(t.Context(), caller)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.(llm.Closer).Close(context.Background(), llm.End{}) })
			return c
		})
	}
	t.Run("what goes with a turn", func(t *testing.T) {
		a := serve(t, answer("application/json", `{"text":"Bye.","actions":["hangup",{"type":"dtmf","digits":"1"}]}`))
		line := &hangsUp{}
		with := caller
		with.Line = line
		p := llm.FromClients(provider(t, a.URL, func(c *Config) { c.Actions = true }).NewClient)
		m, err := p.Open(t.Context(), with)
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range []llm.Turn{{Text: "wait", Interrupted: "Our hours"}, {Nothing: true, Garbled: true}, {Text: "so"}} {
			var got string
			if err := m.Reply(t.Context(), turn, func(c llm.Chunk) error { got += c.Text; return nil }); err != nil || got != "Bye." {
				t.Errorf("%q, %v", got, err)
			}
		}
		r := a.requests()
		if !line.done || r[0].body["interrupted_text"] != "Our hours" || r[2].body["interrupted_text"] != nil || r[1].body["text"] != "" ||
			!strings.Contains(fmt.Sprint(r[1].body["system"]), garbledNote) || !strings.Contains(fmt.Sprint(r[1].body["system"]), "dtmf is not possible") {
			t.Errorf("%v %s %s %s", line.done, r[0].raw, r[1].raw, r[2].raw)
		}
		m.Close(t.Context(), llm.End{})
		if err := m.Reply(t.Context(), llm.Turn{Text: "x"}, nil); err == nil {
			t.Error("answered after the call")
		}
	})
}
