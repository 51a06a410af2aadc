package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"parley/agent"
	"parley/agent/tool"
	"parley/agent/tool/plugin"
	"parley/config"
)

// asking is a plugin in sh with the tool name, which sends the request of its argument
// and answers with the answer to that. The requests in whenOver are sent once it is told
// that a call is over; what comes of them lies in the file answers.
func asking(t *testing.T, dir, name, whenOver string) {
	t.Helper()
	folder := filepath.Join(dir, "plugins", name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	manifest := "name: " + name + "\ndescription: asks\nlanguage: exec\nentrypoint: run.sh\n"
	program := `#!/bin/sh
read -r line; echo '{"id":1,"result":{"tools":[{"name":"` + name + `","parameters":{"type":"object"}}]}}'
while read -r line; do
  case "$line" in
    *'"execute"'*)
      id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
      ask=$(printf '%s' "$line" | sed 's/.*"params":{"ask":{\([^}]*\)}.*/\1/')
      call=$(printf '%s' "$line" | sed 's/.*"session_id":"\([^"]*\)".*/\1/')
      echo "{\"id\":\"sdk-1\",\"method\":\"tools/call\",\"params\":{$ask,\"session_id\":\"$call\"}}"
      while read -r answer; do
        case "$answer" in *sdk-1*) break ;; esac
        printf '%s\n' "$answer" >> events
      done
      echo "{\"id\":$id,\"result\":$answer}" ;;
    *) printf '%s\n' "$line" >> events
      case "$line" in *call_ended*) ` + whenOver + ` ;; esac ;;
  esac
done
`
	for file, text := range map[string]string{"plugin.yaml": manifest, "run.sh": program} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// conversation is an agent.Session of a test.
type conversation struct {
	agent.Session
	run func(context.Context) error
}

func (c *conversation) Run(ctx context.Context) error { return c.run(ctx) }

// opener opens what open returns.
type opener struct {
	agent.Opener
	open func(agent.Call) (agent.Session, error)
}

func (o *opener) Open(_ context.Context, c agent.Call) (agent.Session, error) { return o.open(c) }

// A plugin reaches what the agent of the call has, and nothing else, whoever talks a
// model into it: not the tools of other agents, not those that the caller must agree to,
// not those on the call itself, and nothing for a conversation that is over.
func TestPluginsReachOnlyTheAgentsTools(t *testing.T) {
	dir := t.TempDir()
	asking(t, dir, "crm_ask", ":")
	saying(t, dir, "crm_find", "found")
	saying(t, dir, "payout", "a million")
	saying(t, dir, "crm_pay", "paid")
	manifest := filepath.Join(dir, "plugins", "crm_pay", "plugin.yaml")
	text, err := os.ReadFile(manifest)
	if err == nil {
		err = os.WriteFile(manifest, append(text, "confirmation_required: true\n"...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Plugins.Directory = dir
	crm, all := cfg.Assistant, cfg.Assistant
	crm.Tools.Allow, crm.Tools.HangUp = []string{"crm_*"}, true
	w := newWorkshop(&cfg)
	defer w.close()
	few, every := w.box(&crm), w.box(&all)
	if err := w.open(t.Context(), zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))); err != nil {
		t.Fatal(err)
	}
	call := func(b *toolbox, session, ask string) string {
		ctx, cancel := context.WithTimeout(tool.WithSession(t.Context(), session), patience)
		defer cancel()
		got, err := b.registry.Call(ctx, "crm_ask", map[string]any{"ask": map[string]any{"tool": ask}})
		if err != nil {
			return err.Error()
		}
		if failed, ok := got["error"].(map[string]any); ok {
			return fmt.Sprint(failed["message"])
		}
		return fmt.Sprint(got["result"])
	}
	hold := func(a *config.Assistant, session string, during func()) {
		t.Helper()
		o := w.attend(a, &opener{open: func(agent.Call) (agent.Session, error) {
			return &conversation{run: func(context.Context) error { during(); return nil }}, nil
		}})
		s, err := o.Open(t.Context(), agent.Call{SessionID: session, Emit: func(agent.Event) {}})
		if err == nil {
			err = s.Run(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}
	hold(&crm, "s1", func() {
		hold(&all, "s2", func() {
			for _, c := range []struct {
				b                  *toolbox
				session, ask, want string
			}{
				{few, "s1", "crm_find", "map[result:found]"},
				{few, "s1", "payout", `unknown tool: "payout"`},
				{few, "s1", "crm_pay", "needs the caller's confirmation"},
				{few, "s1", "hang_up", "unknown tool"},
				{few, "s1", "transfer_to_number", "unknown tool"},
				{few, "s1", "crm_ask", "own tools"},
				{every, "s2", "payout", "map[result:a million]"},
				{every, "s2", "crm_pay", "needs the caller's confirmation"},
				{every, "s3", "payout", "not at work"}, // a call that nobody holds
			} {
				if got := call(c.b, c.session, c.ask); !strings.Contains(got, c.want) {
					t.Errorf("%s asks for %s: %q, want %q", c.session, c.ask, got, c.want)
				}
			}
		})
		if got := call(every, "s2", "payout"); !strings.Contains(got, "not at work") {
			t.Errorf("after the end of the call: %q", got)
		}
	})
	if len(w.calls) != 0 {
		t.Errorf("still held: %v", w.calls)
	}
	o := w.attend(&crm, &opener{open: func(agent.Call) (agent.Session, error) { return nil, errors.New("busy") }})
	if _, err := o.Open(t.Context(), agent.Call{SessionID: "s4", Emit: func(agent.Event) {}}); err == nil || len(w.calls) != 0 {
		t.Errorf("an agent that is not opened: %v, held %v", err, w.calls)
	}
}

// Plugins of which the agent has a tool are told what happens in its calls, without what
// other tools are called with; others are told nothing.
func TestPluginsAttendCalls(t *testing.T) {
	dir := t.TempDir()
	asking(t, dir, "crm_ask", "touch over")
	asking(t, dir, "other", "touch over")
	cfg := config.Default()
	cfg.Plugins.Directory = dir
	a := cfg.Assistant
	a.Tools.Allow = []string{"crm_*"}
	w := newWorkshop(&cfg)
	defer w.close()
	w.box(&a)
	if err := w.open(t.Context(), zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var passed []agent.EventType
	o := w.attend(&a, &opener{open: func(c agent.Call) (agent.Session, error) {
		return &conversation{run: func(context.Context) error {
			c.Emit(agent.Event{Type: agent.EventUserStarted})
			c.Emit(agent.Event{Type: agent.EventUserStopped, Text: "Hello."})
			c.Emit(agent.Event{Type: agent.EventToolCall, Text: `{"card":"4711"}`})
			c.Emit(agent.Event{Type: agent.EventAgentStopped, Text: "Good day to you.", Heard: "Good day", Interrupted: true})
			return nil
		}}, nil
	}})
	s, err := o.Open(t.Context(), agent.Call{SessionID: "s1", Direction: "inbound", Emit: func(e agent.Event) {
		mu.Lock()
		defer mu.Unlock()
		passed = append(passed, e.Type)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "plugins", "crm_ask")
	until(t, func() bool { _, err := os.Stat(filepath.Join(folder, "over")); return err == nil })
	text, err := os.ReadFile(filepath.Join(folder, "events"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`"params":{"type":"call_started","session_id":"s1","data":{"direction":"inbound"}}}`,
		`"params":{"type":"user_started","session_id":"s1","turn_id":"s1-1","turn_seq":1}}`,
		`"params":{"type":"user_stopped","session_id":"s1","turn_id":"s1-1","turn_seq":1,"data":{"text":"Hello."}}}`,
		`"params":{"type":"agent_stopped","session_id":"s1","turn_id":"s1-1","turn_seq":1,"data":{"heard":"Good day","interrupted":true,"text":"Good day to you."}}}`,
		`"params":{"type":"call_ended","session_id":"s1","turn_id":"s1-1","turn_seq":1}}`,
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), `{"jsonrpc":"2.0","method":"event",`); ok {
			got = append(got, rest)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(passed) != 4 {
		t.Errorf("the call's own: %v", passed)
	}
	others, err := os.ReadFile(filepath.Join(dir, "plugins", "other", "events"))
	if strings.Contains(string(others), `"event"`) {
		t.Errorf("a plugin of another agent: %s %v", others, err)
	}
}

// What plugins ask of models and documents is asked of the agent of the call.
func TestPluginsAskTheAgentsModel(t *testing.T) {
	cfg := config.Default()
	w := newWorkshop(&cfg)
	defer w.close()
	b := w.box(&cfg.Assistant)
	host := w.host(nil)
	ask := func() string {
		text, err := host.Complete(t.Context(), plugin.Completion{Session: "s1"})
		found, err2 := host.Search(t.Context(), plugin.Search{Session: "s1"})
		return fmt.Sprint(text, found, errors.Join(err, err2))
	}
	if got := ask(); !strings.Contains(got, errNoModel.Error()) || !strings.Contains(got, errNoDocuments.Error()) {
		t.Error(got)
	}
	b.complete = func(context.Context, plugin.Completion) (string, error) { return "mine", nil }
	b.search = func(context.Context, plugin.Search) (any, error) { return "found", nil }
	if got := ask(); !strings.Contains(got, errNoModel.Error()) || strings.Contains(got, "mine") {
		t.Errorf("of a call that nobody holds: %s", got)
	}
	w.hold("s1", b)
	if got := ask(); got != "minefound<nil>" {
		t.Error(got)
	}
}
