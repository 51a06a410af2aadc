package openai_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live"
	"parley/agent/live/openai"
	"parley/agent/live/socket/sockettest"
)

const key = "sk-secret-0123456789"

// rig is a provider and the script that it talks to, in a bubble of synctest.
type rig struct {
	*testing.T
	*openai.Provider
	server *sockettest.Server
}

// newRig makes a provider whose connections run script.
func newRig(t *testing.T, change func(*openai.Config), script func(*sockettest.Peer)) *rig {
	t.Helper()
	server := sockettest.Serve(t, script)
	cfg := openai.DefaultConfig()
	cfg.APIKey, cfg.BaseURL, cfg.Transport = key, server.URL, server.Transport
	if change != nil {
		change(&cfg)
	}
	p, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t, p, server}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

// connect connects, which must succeed.
func (r *rig) connect(s live.LiveConfig) {
	r.Helper()
	if err := r.Connect(r.Context(), s); err != nil {
		r.Fatal(err)
	}
}

// bubble runs a session: script is the service's part after the set-up, talk ours.
func bubble(t *testing.T, s live.LiveConfig, script func(*sockettest.Peer), talk func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		r := newRig(t, nil, func(p *sockettest.Peer) {
			defer close(done)
			greet(p)
			script(p)
			p.ExpectClose()
		})
		r.connect(s)
		talk(r)
		synctest.Wait()
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-done
	})
}

// greet is the service's part of the set-up.
func greet(p *sockettest.Peer) {
	p.Accept()
	p.Send(`{"type":"session.created","session":{"id":"sess_1"}}`)
	if m := p.Read(); m["type"] != "session.update" {
		p.Fail("not a session.update: %v", m)
	}
	p.Send(`{"type":"session.updated","session":{"id":"sess_1"}}`)
}

// next is the next message, which must come within a second.
func (r *rig) next() live.Message {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	m, err := r.Receive(ctx)
	if err != nil {
		r.Fatalf("Receive: %v", err)
	}
	return m
}

// drain is all that comes until the service has nothing more to say.
func (r *rig) drain() (all []live.Message) {
	r.Helper()
	for {
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Millisecond)
		m, err := r.Receive(ctx)
		cancel()
		if err != nil {
			return all
		}
		all = append(all, m)
	}
}

// quiet fails when there is a message within a second.
func (r *rig) quiet() {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if m, err := r.Receive(ctx); err == nil {
		r.Errorf("a message too many: %+v", m)
	}
}

// end is the error that Receive ends with.
func (r *rig) end() error {
	r.Helper()
	for range 1000 {
		if _, err := r.Receive(r.Context()); err != nil {
			return err
		}
	}
	r.Fatal("Receive does not end")
	return nil
}

// ok fails on an error.
func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// is fails unless err is want, and when it holds the key.
func (r *rig) is(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%v, want %v", err, want)
	}
	if err != nil && strings.Contains(err.Error(), key) {
		r.Errorf("the key in %q", err)
	}
}

// Parts of what services say.

func created(id string) string {
	return `{"type":"response.created","response":{"id":"` + id + `","status":"in_progress","output":[]}}`
}

// done ends a reply; output is the JSON of its items.
func done(id, status, reason, output string) string {
	return `{"type":"response.done","response":{"id":"` + id + `","status":"` + status + `","status_details":{"type":"` + status + `","reason":"` + reason +
		`"},"output":[` + output + `],"usage":{"input_tokens":7,"output_tokens":3}}}`
}

// call is a whole call of a tool.
func call(reply, id, name, arguments string) []string {
	item := `{"id":"fc_` + id + `","type":"function_call","status":"completed","call_id":"` + id + `","name":"` + name + `","arguments":` + arguments + `}`
	return []string{
		`{"type":"response.output_item.added","response_id":"` + reply + `","item":{"id":"fc_` + id + `","type":"function_call","call_id":"` + id + `","name":"` + name + `","arguments":""}}`,
		`{"type":"response.function_call_arguments.done","response_id":"` + reply + `","item_id":"fc_` + id + `","call_id":"` + id + `","arguments":` + arguments + `}`,
		`{"type":"response.output_item.done","response_id":"` + reply + `","item":` + item + `}`,
	}
}

// answer is a tool's.
func answer(id string) live.ToolResponse {
	return live.ToolResponse{ID: id, Name: "book", Response: map[string]any{"ok": true}}
}

// answered is how the service sees it.
func answered(id string) string {
	return `{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"` + id + `","output":"{\"ok\":true}"}}`
}

const ask = `{"type":"response.create"}`
