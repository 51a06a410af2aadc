package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/stt/stttest"
	"parley/test/audio"
	"parley/test/phone"
)

// TestTheShapesOfAReply: JSON, plain text and server-sent events are spoken the
// same, to the last word.
func TestTheShapesOfAReply(t *testing.T) {
	reply := numbered("word", 4, 3, 5)
	shapes := []struct {
		name  string
		write func(w http.ResponseWriter)
	}{
		{"JSON", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = fmt.Fprintf(w, `{"text": %q, "mood": 7}`, reply)
		}},
		{"JSON with response", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"response": %q}`, reply)
		}},
		{"text at once", func(w http.ResponseWriter) { say(w, reply) }},
		{"text byte by byte", func(w http.ResponseWriter) {
			for i := range len(reply) {
				say(w, reply[i:i+1])
				flush(w)
			}
		}},
		{"events with deltas", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i, word := range strings.SplitAfter(reply, " ") {
				_, _ = fmt.Fprintf(w, ": comment %d\r\ndata: {\"delta\":%q}\r\n\r\n", i, word)
				flush(w)
			}
			_, _ = io.WriteString(w, "data: [DONE]\r\n\r\n")
		}},
		{"events as OpenAI has them", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, word := range strings.SplitAfter(reply, " ") {
				_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", word)
			}
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
		}},
		{"events of raw words", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, word := range strings.SplitAfter(reply, " ") {
				_, _ = fmt.Fprintf(w, "data: %s\n\n", word)
			}
		}},
	}
	g := startGateway(t, nil)
	together(t, 8, len(shapes), func(i int) string { return shapes[i].name }, func(t *testing.T, i int) {
		a := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ turn, _ int) { shapes[i].write(w) })
		p, name := newParts(a.URL, "hello"), fmt.Sprint("shape", i)
		p.plug(t, g, name)
		c := dial(t, newPhone(t, phone.Config{}), g.uri(name))
		asks(t, c, human(t, "hello"))
		hangUp(t, c)
		_, events := g.ended(t, c)
		if errs := of(events, agent.EventError); len(errs) > 0 {
			t.Errorf("complaints %+v", errs)
		}
		stopped := of(events, agent.EventAgentStopped)
		if len(stopped) != 1 || stopped[0].Heard != reply || stopped[0].Text != reply || stopped[0].Interrupted {
			t.Errorf("stopped %+v, want all of %q heard", stopped, reply)
		}
		sound := capture(t, c, 0, time.Hour)
		if heard, err := sound.heard(reply); !sound.torn && (err != nil || heard != reply) {
			t.Errorf("the capture holds %q, %v; want %q", heard, err, reply)
		}
	})
}

// TestWhoIsCalling: the session is the same for all turns of a call and another in
// the next one; the caller is the same in both, and nobody when the number is hidden.
func TestWhoIsCalling(t *testing.T) {
	a := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ turn, _ int) { say(w, "Yes.") })
	g := startGateway(t, nil)
	callers := []struct {
		name, number string
		headers      []phone.Header
		resource     string
	}{
		{name: "E164", number: "+14155550100", resource: "+14155550100"},
		{name: "national", number: "4155550100", resource: "+14155550100"},
		{name: "anonymous"},
		{name: "privacy", number: "+14155550100", headers: []phone.Header{{Name: "Privacy", Value: "id"}}},
	}
	sessions := make([]string, len(callers))
	together(t, len(callers), len(callers), func(i int) string { return callers[i].name }, func(t *testing.T, i int) {
		who := callers[i]
		p, name := newParts(a.URL, "one", "two"), "who"+who.name
		p.plug(t, g, name)
		on := newPhone(t, phone.Config{Number: who.number})
		var c *phone.Call
		wait(t, "the answer", patience, func(ctx context.Context) (err error) {
			c, err = on.Dial(ctx, g.uri(name), who.headers...)
			return err
		})
		t.Cleanup(func() { hangUp(t, c) })
		asks(t, c, human(t, "hello"))
		asks(t, c, human(t, "number"))
		hangUp(t, c)
		record, _ := g.ended(t, c)
		turns := a.asked(record.CallID)
		if len(turns) != 2 {
			t.Fatalf("asked %+v, want two turns with the X-Call-Id of the record", turns)
		}
		for n, got := range turns {
			if got.Type != "chat" || got.Text != []string{"one", "two"}[n] {
				t.Errorf("turn %d: %+v", n, got)
			}
			if got.SessionID == "" || got.SessionID != record.SessionID {
				t.Errorf("session_id %q, want that of the record, %q", got.SessionID, record.SessionID)
			}
			if _, there := got.raw["resource_id"]; got.ResourceID != who.resource || there != (who.resource != "") {
				t.Errorf("resource_id %s (present: %v), want %q", got.raw["resource_id"], there, who.resource)
			}
			for _, field := range []string{"interrupted_text", "system", "context", "summary"} {
				if v, there := got.raw[field]; there {
					t.Errorf("%s is %s, want it left out", field, v)
				}
			}
		}
		sessions[i] = record.SessionID
	})
	if slices.Sort(sessions); len(slices.Compact(sessions)) != len(callers) {
		t.Errorf("sessions %q: two calls share one", sessions)
	}
}

// TestABargeInCancelsTheRequest: an agent that still writes its reply sees the
// connection close as soon as it is clear that it is interrupted: at a command, here.
func TestABargeInCancelsTheRequest(t *testing.T) {
	a := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ turn, before int) {
		if before > 0 {
			say(w, "Yes.")
			return
		}
		say(w, numbered("word", 9)+" ")
		flush(w)
		<-r.Context().Done() // it thinks about what comes next
	})
	g, probe := startGateway(t, nil), newProbe(t)
	p := newParts(a.URL, "tell me")
	p.hears.Add(stttest.Utterance{Interims: []string{"stop"}, Text: "stop there", Confidence: 0.9})
	p.plug(t, g, "cancels")
	on := newPhone(t, phone.Config{Number: "+14155550177"})
	c := dial(t, on, g.uri("cancels"))
	wait(t, "saying hello", patience, c.Say(human(t, "hello")).Wait)
	wait(t, "the reply", patience, func(ctx context.Context) error { return c.WaitAgentSpeaking(ctx, 600*time.Millisecond) })
	u := c.Say(human(t, "one-moment-please"))
	eventually(t, patience, "the agent sees its request cancelled", func() bool { return len(a.cancelled()) == 1 })
	wait(t, "saying it", patience, u.Wait)
	began, _, _ := u.Loud()
	cancelled := a.cancelled()[0]
	if took := cancelled.Sub(on.Wall(began)); took-probe.taken(on.Wall(began), cancelled) > 250*time.Millisecond+busy {
		t.Errorf("the request was cancelled %v after the first loud packet", took)
	}
	eventually(t, patience, "the next turn", func() bool { return len(a.asked("")) == 2 })
	hangUp(t, c)
	_, events := g.ended(t, c)
	if errs := of(events, agent.EventError); len(errs) > 0 {
		t.Errorf("a barge-in is no error: %+v", errs)
	}
	if spans := audio.Utterances(c.Log().Marks(phone.Heard), audio.DefaultRule()); len(spans) == 0 {
		t.Error("the phone heard nothing")
	}
}
