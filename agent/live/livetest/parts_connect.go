package livetest

import (
	"context"
	"errors"
	"io"
	"reflect"
	"time"

	"parley/agent/live"
)

// notConnected: nothing is sent, nothing blocks, before Connect.
func notConnected(r *rig) {
	ctx, cancel := r.within()
	defer cancel()
	p := r.provider
	if p.Name() == "" {
		r.Error("the provider has no name")
	}
	for name, err := range map[string]error{
		"SendAudio":        p.SendAudio(ctx, make([]byte, 640)),
		"EndAudioStream":   p.EndAudioStream(ctx),
		"SendText":         p.SendText(ctx, "hello"),
		"SendToolResponse": p.SendToolResponse(ctx, live.ToolResponse{ID: "x", Name: "y", Response: map[string]any{}}),
	} {
		if !errors.Is(err, live.ErrClosed) {
			r.Errorf("%s before Connect: %v, want ErrClosed", name, err)
		}
	}
	if _, err := p.Receive(ctx); err == nil {
		r.Error("Receive before Connect gives a message")
	}
}

// refused: why a service refuses is told by the error, and Connect may be tried again.
func refused(r *rig, why error) {
	r.said(r.service.Refuse(why))
	ctx, cancel := r.within()
	defer cancel()
	err := r.provider.Connect(ctx, r.suite.Config)
	if !errors.Is(err, why) {
		r.Fatalf("Connect: %v, want it to wrap %v", err, why)
	}
	if got, want := live.Reconnectable(err), live.Reconnectable(why); got != want {
		r.Errorf("Reconnectable is %v, want %v", got, want)
	}
	r.said(r.service.Refuse(nil))
	r.open(nil)
}

// connectCancelled: a caller who hangs up while the provider connects waits for
// nobody.
func connectCancelled(r *rig) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	time.AfterFunc(50*time.Millisecond, cancel) // nobody accepts
	before := time.Now()
	err := r.provider.Connect(ctx, r.suite.Config)
	if err == nil {
		r.Skip("the provider needs no answer of its service to be connected")
	}
	if took := time.Since(before); took > patience/2 {
		r.Errorf("Connect came back %v after its context ended", took)
	}
}

// definition is a tool as sessions of the suite are told of it.
func definition(name string) live.ToolDefinition {
	return live.ToolDefinition{
		Name: name, Description: "does " + name,
		ParametersJSONSchema: live.Schema{
			"type":       "object",
			"properties": map[string]any{"day": map[string]any{"type": "string"}},
			"required":   []any{"day"},
		},
	}
}

// setUp: the session is set up with everything that it was asked for.
func setUp(r *rig) {
	temperature := 0.7
	c := r.open(func(cfg *live.LiveConfig) {
		cfg.Voice, cfg.Instructions, cfg.Language = "some-voice", "You answer the telephone.", "de-DE"
		cfg.Temperature = &temperature
		cfg.Tools = []live.ToolDefinition{definition("book"), definition("cancel")}
		cfg.LocalCuts = true
	})
	got := c.Setup()
	want := got
	want.Voice, want.Instructions, want.Transcribe = "some-voice", "You answer the telephone.", true
	want.LocalTurns, want.LocalCuts, want.Resumed, want.History = false, true, false, nil
	if got.Language != "" {
		want.Language = "de-DE"
	}
	if got.Temperature != nil {
		want.Temperature = &temperature
	}
	want.Tools = nil
	if len(got.Tools) == 2 {
		for i, name := range []string{"book", "cancel"} {
			d := definition(name)
			if got.Tools[i].Name != d.Name || got.Tools[i].Description != d.Description {
				r.Errorf("tool %d: %+v, want %+v", i, got.Tools[i], d)
			}
			if p := got.Tools[i].ParametersJSONSchema; p != nil && !sameSchema(p, d.ParametersJSONSchema) {
				r.Errorf("parameters of %s: %v, want %v", name, p, d.ParametersJSONSchema)
			}
		}
	} else {
		r.Errorf("%d tools, want 2", len(got.Tools))
	}
	got.Tools, got.Model, want.Model = nil, "", ""
	if !reflect.DeepEqual(got, want) {
		r.Errorf("set-up\n %+v\nwant\n %+v", got, want)
	}
}

// sameSchema compares what matters to a model.
func sameSchema(a, b live.Schema) bool {
	properties := func(s live.Schema) int {
		p, _ := s["properties"].(map[string]any)
		return len(p)
	}
	return properties(a) == properties(b)
}

// setUpLocal: the service's own turn detection is off when we take the turns.
func setUpLocal(r *rig) {
	if _, ok := r.provider.(live.TurnTaker); !ok {
		r.Skip("the provider takes no turns of ours")
	}
	c := r.open(func(cfg *live.LiveConfig) { cfg.LocalTurns = true })
	if !c.Setup().LocalTurns {
		r.Error("the service detects turns by itself")
	}
}

// goAway: a service that is about to end the connection is heard in time, and the
// connection still works.
func goAway(r *rig) {
	c := r.open(nil)
	r.tell(c, live.Message{GoAway: &live.GoAway{TimeLeft: 5 * time.Second}})
	all := r.got("GoAway", until(func(m live.Message) bool { return m.GoAway != nil }))
	if left := all[len(all)-1].GoAway.TimeLeft; left > 5*time.Second {
		r.Errorf("%v are left, the service said 5s", left)
	}
	r.try("SendText", func(ctx context.Context) error { return r.provider.SendText(ctx, "still there?") })
	r.sent(c, SentText)
}

// warning: an error of the service that does not end the session is told, and ends
// nothing.
func warning(r *rig) {
	c := r.open(nil)
	r.tell(c, live.Message{Warning: errors.New("the item is not known")})
	r.got("the warning", until(func(m live.Message) bool { return m.Warning != nil }))
	r.stillWorks(c)
}

// stillWorks has a reply come through.
func (r *rig) stillWorks(c Conn) {
	r.Helper()
	r.reply(c, "item-still", "I am here.", tone(400, live.OutputRate, 200*time.Millisecond))
	r.got("a reply", until(turnDone))
}

// garbage: what nobody knows ends nothing.
func garbage(r *rig) {
	c := r.open(nil)
	for range 3 {
		r.said(c.Garble())
	}
	r.reply(c, "item-1", "I am here.", tone(400, live.OutputRate, 200*time.Millisecond))
	r.got("a reply after garbage", until(turnDone))
}

// lost: a connection that is dropped is told, once, as one to connect anew, and
// sending to it does not hang.
func lost(r *rig) {
	c := r.open(nil)
	c.Drop()
	err := r.lost()
	if ended(err) || !live.Reconnectable(err) {
		r.Errorf("Receive on a lost connection: %v, want one that is Reconnectable and not io.EOF", err)
	}
	if !errors.Is(err, live.ErrLost) {
		r.Errorf("Receive: %v, want it to wrap ErrLost", err)
	}
	ctx, cancel := r.within()
	defer cancel()
	for range 50 { // the first may still fit a buffer
		if err = r.provider.SendAudio(ctx, make([]byte, 640)); err != nil {
			break
		}
	}
	if err == nil {
		r.Error("audio is sent over a lost connection")
	}
}

// history holds what came with a new connection against what was said before.
func (r *rig) history(c Conn, want []live.Said) {
	r.Helper()
	s := c.Setup()
	if s.Resumed {
		return // the service has kept it
	}
	got := s.History
	for len(got) < len(want) {
		got = append(got, r.sent(c, SentHistory).Said)
	}
	for i, w := range want {
		g := got[i]
		if g.Role != w.Role || g.Text != w.Text {
			r.Errorf("history %d: %+v, want %+v", i, g, w)
		}
		if w.Call != nil && (g.Call == nil || g.Call.ID != w.Call.ID || g.Call.Name != w.Call.Name) {
			r.Errorf("history %d: call %+v, want %+v", i, g.Call, w.Call)
		}
		if w.Response != nil && (g.Response == nil || g.Response.ID != w.Response.ID) {
			r.Errorf("history %d: response %+v, want %+v", i, g.Response, w.Response)
		}
	}
}

// reconnect: after a loss Connect goes on with the conversation, and the model does
// not greet again by itself.
func reconnect(r *rig) {
	c := r.open(nil)
	r.reply(c, "item-1", "Hello there.", tone(400, live.OutputRate, 100*time.Millisecond))
	r.got("a reply", until(turnDone))
	c.Drop()
	_ = r.lost()
	said := []live.Said{
		{Role: "user", Text: "My name is Ada."}, {Role: "assistant", Text: "Hello there."},
		{Role: "tool", Call: &live.ToolCall{ID: "call-7", Name: "book", Args: map[string]any{"day": "Monday"}},
			Response: &live.ToolResponse{ID: "call-7", Name: "book", Response: map[string]any{"ok": true}}},
	}
	c = r.open(func(cfg *live.LiveConfig) { cfg.History = said })
	r.history(c, said)
	r.silent(c, "after a new connection nobody asked for a reply")
	r.try("SendText", func(ctx context.Context) error { return r.provider.SendText(ctx, "And now?") })
	if got := r.sent(c, SentText).Text; got != "And now?" {
		r.Errorf("text %q", got)
	}
	r.stillWorks(c)
}

// reconnectTool: a call of the connection before is answered over the new one.
func reconnectTool(r *rig) {
	c := r.open(func(cfg *live.LiveConfig) { cfg.Tools = []live.ToolDefinition{definition("book")} })
	call := live.ToolCall{ID: "call-1", Name: "book", Args: map[string]any{"day": "Monday"}}
	r.tell(c, live.Message{ToolCalls: []live.ToolCall{call}})
	got := r.got("the call", until(func(m live.Message) bool { return len(m.ToolCalls) > 0 }))
	call = got[len(got)-1].ToolCalls[0]
	c.Drop()
	_ = r.lost()
	said := []live.Said{{Role: "user", Text: "Book it."}, {Role: "tool", Call: &call}}
	c = r.open(func(cfg *live.LiveConfig) {
		cfg.Tools = []live.ToolDefinition{definition("book")}
		cfg.History = said
	})
	r.history(c, said)
	r.try("SendToolResponse", func(ctx context.Context) error {
		return r.provider.SendToolResponse(ctx, live.ToolResponse{ID: call.ID, Name: call.Name, Response: map[string]any{"ok": true}})
	})
	if s := r.sent(c, SentToolResponse); s.Response.ID != call.ID {
		r.Errorf("answered %+v, want call %s", s.Response, call.ID)
	}
}

// receiveCancelled: Receive returns when its context ends.
func receiveCancelled(r *rig) {
	r.dial(nil)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := r.provider.Receive(ctx); err != nil {
				done <- err
				return
			}
		}
	}()
	time.AfterFunc(20*time.Millisecond, cancel)
	select {
	case err := <-done:
		if ended(err) {
			r.Error("Receive says io.EOF though nobody closed")
		}
	case <-time.After(patience):
		r.Fatal("Receive does not return when its context is done")
	}
}

// closes: the service sees the connection close, and a closed provider sends nothing.
func closes(r *rig) {
	c := r.open(nil)
	r.close()
	if err := r.lost(); !ended(err) {
		r.Errorf("Receive after Close: %v, want io.EOF", err)
	}
	ctx, cancel := r.within()
	defer cancel()
	for {
		s, err := c.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.Fatalf("the service does not see the connection close: %v", err)
		}
		if s.Kind != SentAudio && s.Kind != SentAudioEnd {
			r.Errorf("sent while closing: %+v", s)
		}
	}
	if err := r.provider.SendText(ctx, "too late"); !errors.Is(err, live.ErrClosed) {
		r.Errorf("SendText after Close: %v, want ErrClosed", err)
	}
	r.close() // once more changes nothing
}

// closeReceiving: Close ends a Receive that waits, as often as it is tried.
func closeReceiving(r *rig) {
	for range 3 {
		r.open(nil)
		r.close()
		if err := r.lost(); !ended(err) {
			r.Errorf("Receive while closing: %v, want io.EOF", err)
		}
	}
}
