package gemini_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live"
	"parley/agent/live/gemini"
	"parley/agent/live/socket/sockettest"
)

const key = "AIza-secret-0123456789"

// rig is a provider and the script that it talks to, in a bubble of synctest.
type rig struct {
	*testing.T
	*gemini.Provider
	server *sockettest.Server
}

func newRig(t *testing.T, change func(*gemini.Config), script func(*sockettest.Peer)) *rig {
	t.Helper()
	server := sockettest.Serve(t, script)
	cfg := gemini.DefaultConfig()
	cfg.APIKey, cfg.BaseURL, cfg.Transport = key, server.URL, server.Transport
	if change != nil {
		change(&cfg)
	}
	p, err := gemini.New(cfg)
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

// greet is the service's part of the set-up, which it returns.
func greet(p *sockettest.Peer) map[string]any {
	p.Accept()
	s, ok := p.Read()["setup"].(map[string]any)
	if !ok {
		p.Fail("no set-up")
	}
	p.SendBinary(`{"setupComplete":{}}`)
	return s
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

func content(o string) string { return `{"serverContent":{` + o + `}}` }

func audio(mimeType, data string) string {
	return content(`"modelTurn":{"parts":[{"inlineData":{"mimeType":"` + mimeType + `","data":"` + data + `"}}]}`)
}

func handle(name string) string {
	return `{"sessionResumptionUpdate":{"newHandle":"` + name + `","resumable":true}}`
}

func toolCall(id, name string) string {
	return `{"toolCall":{"functionCalls":[{"id":"` + id + `","name":"` + name + `","args":{"day":"Monday"}}]}}`
}

func answer(id string) live.ToolResponse {
	return live.ToolResponse{ID: id, Name: "book", Response: map[string]any{"ok": true}}
}

func answered(id, more string) string {
	return `{"toolResponse":{"functionResponses":[{"id":"` + id + `","name":"book","response":{"ok":true}` + more + `}]}}`
}

func texted(s string) string { return fmt.Sprintf(`{"realtimeInput":{"text":%q}}`, s) }
