package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live"
	"parley/agent/live/openai"
	"parley/agent/live/socket/sockettest"
)

// TestGoAway: the end of a session is told ahead of time, by the clock: the service
// need not say anything for it.
func TestGoAway(t *testing.T) {
	for name, c := range map[string]struct {
		expires string
		told    time.Duration
	}{
		"as the service says":   {`,"expires_at":%d`, 9 * time.Minute},
		"the service is silent": {"", 59 * time.Minute},
		"a time long ago":       {`,"expires_at":12`, 59 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				expires := c.expires
				if name == "as the service says" {
					expires = fmt.Sprintf(expires, time.Now().Add(10*time.Minute).Unix())
				}
				r := newRig(t, nil, func(p *sockettest.Peer) {
					p.Accept()
					p.Send(`{"type":"session.created","session":{"id":"s"` + expires + `}}`)
					p.Read()
					p.Send(`{"type":"session.updated","session":{"id":"s"}}`)
					p.Wait()
				})
				r.connect(live.LiveConfig{})
				began := time.Now()
				m, err := r.Receive(t.Context())
				if err != nil || m.GoAway == nil || m.GoAway.TimeLeft != time.Minute {
					t.Fatalf("%+v, %v", m.GoAway, err)
				}
				if took := time.Since(began); took != c.told {
					t.Errorf("after %v, want %v", took, c.told)
				}
				r.quiet() // once
				r.ok(r.SendText(t.Context(), "still there"))
			})
		})
	}
}

// closeAfter listens, and closes the connection in the end.
func closeAfter(p *sockettest.Peer, d time.Duration, code int, reason string) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.Sleep(d)
		p.Close(code, reason)
	}()
	p.Wait()
	<-closed
}

// TestLosses: whatever happens to a connection, Receive says so, and a new one goes
// on, when the service has seen the end of the old one.
func TestLosses(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*sockettest.Peer)
		want error
		text string
	}{
		"dropped":     {func(p *sockettest.Peer) { p.Drop() }, live.ErrLost, ""},
		"closed 1011": {func(p *sockettest.Peer) { closeAfter(p, 5*time.Second, 1011, "internal") }, live.ErrLost, "openai: live: connection lost: the service closed it (1011: internal)"},
		"closed 1008": {func(p *sockettest.Peer) { closeAfter(p, 150*time.Second, 1008, "token expired") }, live.ErrLost, ""},
		"expired": {func(p *sockettest.Peer) {
			p.Send(`{"type":"error","error":{"type":"invalid_request_error","code":"session_expired","message":"60 minutes"}}`)
			p.Wait()
		}, live.ErrLost, "openai: live: connection lost: session_expired: 60 minutes"},
		"key revoked": {func(p *sockettest.Peer) {
			p.Send(`{"type":"error","error":{"code":"invalid_api_key","message":"` + key + `"}}`)
			p.Wait()
		}, live.ErrAuth, ""},
		"only noise": {func(p *sockettest.Peer) {
			for p.TrySend("?") {
			}
		}, live.ErrLost, ""},
		"stalled": {func(p *sockettest.Peer) { p.Stay() }, live.ErrLost, ""},
		"other formats": {func(p *sockettest.Peer) {
			p.Send(`{"type":"session.updated","session":{"audio":{"output":{"format":{"type":"audio/pcmu"}}}}}`)
			p.Wait()
		}, live.ErrRejected, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil, func(p *sockettest.Peer) {
					if p.Others != 0 {
						p.Fail("the old connection is still open")
					}
					greet(p)
					if p.Number > 1 {
						p.Expect(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}}`, ask)
						p.ExpectClose()
						return
					}
					c.end(p)
				})
				r.connect(live.LiveConfig{})
				stop := make(chan struct{})
				go func() { // the caller speaks all the time
					defer close(stop)
					for r.SendAudio(t.Context(), make([]byte, 640)) == nil {
						time.Sleep(20 * time.Millisecond)
					}
				}()
				err := r.end()
				r.is(err, c.want)
				if c.text != "" && err.Error() != c.text {
					t.Errorf("%v, want %s", err, c.text)
				}
				<-stop
				r.is(r.end(), c.want) // and again
				if name == "stalled" {
					return // its script is not to be had back
				}
				time.Sleep(time.Second) // until the script has seen its own end
				r.connect(live.LiveConfig{})
				r.ok(r.SendText(t.Context(), "hello"))
				synctest.Wait()
				r.ok(r.Close(t.Context()))
				if _, err := r.Receive(t.Context()); err != io.EOF {
					t.Error(err)
				}
				r.is(r.SendText(t.Context(), "hello"), live.ErrClosed)
			})
		})
	}
}

// TestReconnectWhileOpen is BR-138: a service that resumes nothing while the old
// socket is open. What was said before comes first, and nobody is greeted again.
func TestReconnectWhileOpen(t *testing.T) {
	item := func(o string) string { return `{"type":"conversation.item.create","item":` + o + `}` }
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(p *sockettest.Peer) {
			if p.Others != 0 {
				p.Refuse(409, "the old session is open")
				return
			}
			greet(p)
			if p.Number == 1 {
				p.Send(append(call("r1", "c1", "book", `"{\"day\":\"Monday\"}"`), call("r1", "c2", "book", `"{}"`)...)...)
				p.ExpectClose()
				return
			}
			p.Expect(
				item(`{"type":"message","role":"user","content":[{"type":"input_text","text":"I am Ada."}]}`),
				item(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello Ada."}]}`),
				item(`{"type":"function_call","call_id":"c0","name":"find","arguments":"{}"}`),
				item(`{"type":"function_call_output","call_id":"c0","output":"{\"n\":1}"}`),
				item(`{"type":"function_call","call_id":"lost","name":"find","arguments":"{}"}`),
				item(`{"type":"function_call_output","call_id":"lost","output":"{}"}`),
				item(`{"type":"function_call","call_id":"c1","name":"book","arguments":"{\"day\":\"Monday\"}"}`),
				// The host forgot about c2; the model does not.
				item(`{"type":"function_call","call_id":"c2","name":"book","arguments":"{}"}`),
				answered("c1"), answered("c2"), ask,
			)
			p.ExpectClose()
		})
		r.connect(live.LiveConfig{})
		first := r.next().ToolCalls[0]
		r.next()
		r.connect(live.LiveConfig{History: []live.Said{
			{Role: "user", Text: "I am Ada."},
			{Role: "assistant", Text: "Hello Ada."},
			{Role: "tool", Call: &live.ToolCall{ID: "c0", Name: "find"}, Response: &live.ToolResponse{ID: "c0", Response: map[string]any{"n": 1}}},
			{Role: "tool", Response: &live.ToolResponse{ID: "lost", Name: "find"}},
			{Role: "tool", Call: &first},
		}})
		r.ok(r.SendToolResponse(t.Context(), answer("c1")))
		r.ok(r.SendToolResponse(t.Context(), answer("c2")))
		synctest.Wait()
	})
}

// TestNotConnected: nothing is sent before Connect, and Close has nothing to do.
func TestNotConnected(t *testing.T) {
	p, err := openai.New(openai.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, err := range []error{
		p.SendAudio(ctx, nil), p.Truncate(ctx, "i", 0), p.ActivityStart(ctx), p.ActivityEnd(ctx), p.Instruct(ctx, "x"),
	} {
		if !errors.Is(err, live.ErrClosed) {
			t.Error(err)
		}
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := p.SendText(done, "x"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := p.Close(ctx); err != nil {
		t.Error(err)
	}
	if !p.Supports(live.PCMU) || !p.Supports(live.PCMA) || p.Supports("opus") {
		t.Error("what it supports")
	}
}

// TestCloseIsBounded: a service that does not answer holds nobody up.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(p *sockettest.Peer) {
			greet(p)
			p.Stay()
		})
		r.connect(live.LiveConfig{})
		_ = r.SendText(t.Context(), "nobody reads this")
		synctest.Wait()
		began := time.Now()
		r.ok(r.Close(t.Context()))
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}
