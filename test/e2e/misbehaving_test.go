package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
	"parley/test/audio"
	"parley/test/phone"
)

// What the gateway says by itself in these tests.
const (
	fallback = "Sorry that failed"
	reprompt = "Anybody there now"
	goodbye  = "Goodbye then"
)

// misbehaviour is what an agent does wrong, and what must come of it.
type misbehaviour struct {
	name  string
	reply func(w http.ResponseWriter, r *http.Request)
	// says is what the caller hears in answer, in order.
	says []string
	// complains are parts of the error in the journal; none: there must be none.
	complains []string
	// within is how long the caller may wait for the first sound after the turn.
	within time.Duration
	// gone: nobody listens at the address.
	gone bool
}

var misbehaviours = []misbehaviour{
	{name: "unreachable", gone: true, says: []string{fallback},
		complains: []string{"is the agent running", "url"}},
	{name: "a page of HTML", says: []string{fallback},
		reply: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html><body>Please log in</body></html>")
		},
		complains: []string{"HTML", "text/plain"}},
	{name: "status 500", says: []string{fallback},
		reply:     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom in line 7", 500) },
		complains: []string{"500", "look into the agent's own log", "boom in line 7"}},
	{name: "status 404", says: []string{fallback},
		reply:     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", 404) },
		complains: []string{"404", "check the path in [agent] url"}},
	{name: "status 401", says: []string{fallback},
		reply:     func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", 401) },
		complains: []string{"401", "check [agent] api_key"}},
	{name: "nothing to say", says: []string{reprompt}, within: 1700 * time.Millisecond,
		reply: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
	{name: "hangs for ever", says: []string{fallback}, within: 1500 * time.Millisecond,
		reply:     func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		complains: []string{"too slow", "first word"}},
	{name: "hangs after the headers", says: []string{fallback}, within: 1500 * time.Millisecond,
		reply: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			flush(w)
			<-r.Context().Done()
		},
		complains: []string{"too slow", "first word"}},
	{name: "dies in the second sentence", says: []string{"The first is whole.", fallback},
		reply: func(w http.ResponseWriter, _ *http.Request) {
			say(w, "The first is whole. The second is")
			flush(w)
			drop(w)
		},
		complains: []string{"closed the connection before the reply was complete", "look into the agent's own log"}},
	{name: "a stream that reports an error", says: []string{"One moment please.", fallback},
		reply: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"delta\":\"One moment please. \"}\n\nevent: error\ndata: the model is overloaded\n\n")
		},
		complains: []string{"the model is overloaded"}},
	{name: "slow but in time", says: []string{"Here I am."}, within: 1200 * time.Millisecond,
		reply: func(w http.ResponseWriter, r *http.Request) {
			think(r, 700*time.Millisecond)
			say(w, "Here I am.")
		}},
	{name: "2 MiB of JSON", says: []string{fallback},
		reply: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"text":%q}`, strings.Repeat("many words ", 200_000))
		},
		complains: []string{"larger than 1 MiB"}},
	{name: "garbage as JSON", says: []string{fallback},
		reply: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("\x00\xff\xfe[1,2"))
		},
		complains: []string{"not one object such as"}},
	{name: "garbage of no known kind", says: []string{fallback},
		reply: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write([]byte{0, 1, 2, 255, 254})
		},
		complains: []string{"Content-Type", "application/octet-stream"}},
	{name: "bad bytes in text", says: []string{"Good \ufffd\ufffd bytes follow."},
		reply: func(w http.ResponseWriter, _ *http.Request) { say(w, "Good \xff\xfe bytes follow.") }},
	{name: "no HTTP at all", says: []string{fallback},
		reply: func(w http.ResponseWriter, _ *http.Request) {
			if conn, rest, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = rest.WriteString("SSH-2.0-OpenSSH_9.2\r\n")
				_ = rest.Flush()
				_ = conn.Close()
			}
		},
		complains: []string{"malformed HTTP"}},
}

// drop closes the connection under a reply that is not complete.
func drop(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// TestAMisbehavingAgent: whatever one's own agent does, the caller hears something
// soon, is not left in silence, and the operator is told what to do.
func TestAMisbehavingAgent(t *testing.T) {
	g, probe := startGateway(t, nil), newProbe(t)
	together(t, 8, len(misbehaviours), func(i int) string { return misbehaviours[i].name },
		func(t *testing.T, i int) { misbehaviours[i].run(t, g, probe, i) })
}

func (m misbehaviour) run(t *testing.T, g *gateway, probe *probe, i int) {
	agentServer := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ turn, _ int) { m.reply(w, r) })
	p := newParts(agentServer.URL, "hello")
	if m.gone {
		agentServer.Close()
	}
	if p.model.FirstTokenTimeout = 4 * time.Second; m.within > 0 { // it is the time that ends it
		p.model.FirstTokenTimeout = time.Second
	}
	c := &p.cascade
	c.FirstToken, c.Fallback, c.Goodbye = 5*time.Second, fallback, goodbye
	c.Turn.Idle, c.Turn.Reprompts, c.Reprompts = time.Second, 1, []string{reprompt}
	name := fmt.Sprint("bad", i)
	p.plug(t, g, name)
	on := newPhone(t, phone.Config{Number: fmt.Sprintf("+141555503%02d", i)})
	began := time.Now()
	caller := dial(t, on, g.uri(name))
	u := caller.Say(human(t, "hello"))
	wait(t, "saying hello", patience, u.Wait)
	_, said, _ := u.Loud()

	// From here on the caller says nothing: the gateway ends the call by itself.
	wait(t, "the end of the call", 15*time.Second, func(ctx context.Context) error {
		end, err := caller.WaitEnd(ctx)
		if err == nil && !end.ByPeer {
			err = fmt.Errorf("ended by %+v", end)
		}
		return err
	})
	took := time.Since(began)
	taken := func(from, to time.Duration) time.Duration { return probe.taken(on.Wall(from), on.Wall(to)) }
	m.judge(t, g, caller, said, took-probe.taken(began, began.Add(took)), taken)
}

// judge holds the call against what is wanted. What the machine has taken of a stretch of
// the phone's clock does not count.
func (m misbehaviour) judge(t *testing.T, g *gateway, caller *phone.Call, said, took time.Duration, taken func(from, to time.Duration) time.Duration) {
	record, _ := g.ended(t, caller)
	events, record2 := g.journal(t, record.CallID)
	if record.Cause != call.CauseAgentHungUp || record2.Cause != record.Cause || record.Error != "" {
		t.Errorf("the call ended by %q (%s), in the journal %q; want %q", record.Cause, record.Error, record2.Cause, call.CauseAgentHungUp)
	}

	// What was heard, and when.
	spans := audio.Utterances(caller.Log().Marks(phone.Heard), audio.DefaultRule())
	within := m.within
	if within == 0 {
		within = 300 * time.Millisecond
	}
	const turn = 650 * time.Millisecond // until the gateway takes the caller's turn to be over
	if len(spans) == 0 {
		t.Fatal("the caller heard nothing")
	}
	if waited := spans[0].Start - said; waited-taken(said, spans[0].Start) > turn+within+busy {
		t.Errorf("the caller heard %v; want the first sound within %v of %v", spans, turn+within, said)
	}
	var silence time.Duration
	for i, s := range spans[1:] {
		silence = max(silence, s.Start-spans[i].End-taken(spans[i].End, s.Start))
	}
	if silence > 1500*time.Millisecond+busy {
		t.Errorf("the caller heard nothing for %v: %v", silence, spans)
	}
	if took > 12*time.Second+busy {
		t.Errorf("the call took %v", took)
	}
	var spoken []string
	for _, e := range of(events, agent.EventAgentText) {
		spoken = append(spoken, e.Text)
	}
	want := slices.Clone(m.says)
	if want[len(want)-1] != reprompt {
		want = append(want, reprompt)
	}
	want = append(want, goodbye)
	if !slices.Equal(spoken, want) {
		t.Errorf("spoken %q, want %q", spoken, want)
	}
	sound := capture(t, caller, 0, time.Hour)
	total := 0
	for _, s := range want {
		total += len(words(s))
	}
	// A slow phone may take the BYE before the last packets.
	if heard := len(sound.pcm) / at(toneTime); !sound.torn && heard != total && !(raced && heard == total-1) {
		t.Errorf("the caller heard %d words, want %d", heard, total)
	}

	// What the operator is told.
	complaints := of(events, agent.EventError)
	if len(m.complains) == 0 {
		if len(complaints) > 0 {
			t.Errorf("complaints %+v, want none", complaints)
		}
		return
	}
	if len(complaints) != 1 {
		t.Fatalf("complaints %+v, want one", complaints)
	}
	for _, part := range m.complains {
		if !strings.Contains(complaints[0].Reason, part) {
			t.Errorf("the complaint %q does not say %q", complaints[0].Reason, part)
		}
	}
}

// busy is what a busy machine may add to the times that callers wait.
const busy = 300 * time.Millisecond

// TestAHugeReplyIsSpokenAtItsPace: the agent's words wait for the voice, in bounds,
// and a hang-up ends them.
func TestAHugeReplyIsSpokenAtItsPace(t *testing.T) {
	g := startGateway(t, nil)
	written := make(chan int, 1)
	a := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ turn, _ int) {
		w.Header().Set("Content-Type", "text/plain")
		out := bufio.NewWriterSize(w, 4<<10)
		n := 0
		for r.Context().Err() == nil { // for ever
			size, err := out.WriteString("Some more words for you to hear. ")
			if n += size; err != nil {
				break
			}
		}
		written <- n
	})
	p := newParts(a.URL, "go on")
	p.plug(t, g, "huge")
	c := dial(t, newPhone(t, phone.Config{}), g.uri("huge"))
	wait(t, "saying hello", patience, c.Say(human(t, "hello")).Wait)
	wait(t, "two seconds of the reply", patience, func(ctx context.Context) error { return c.WaitAgentSpeaking(ctx, 2*time.Second) })
	hangUp(t, c)
	select {
	case n := <-written:
		// The kernel's and HTTP's buffers hold some; the gateway must not take more.
		if n > 16<<20 {
			t.Errorf("%d bytes were taken of a reply of which seconds were heard", n)
		}
		t.Logf("%d bytes were taken", n)
	case <-time.After(patience):
		t.Error("the request still runs")
	}
	record, events := g.ended(t, c)
	if errs := of(events, agent.EventError); record.Cause != call.CauseCallerHungUp || len(errs) > 0 {
		t.Errorf("ended by %q with %+v", record.Cause, errs)
	}
}
