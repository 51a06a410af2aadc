package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"parley/agent"
	"parley/call"
	"parley/identity"
)

// sent is one event of a stream as a client reads it.
type sent struct{ event, id, data string }

// readStream reads server-sent events as the HTML standard says, section 9.2.6.
func readStream(text string) (events []sent, comments int) {
	var e sent
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if e.data != "" {
				events = append(events, e)
			}
			e = sent{}
		case name == "":
			comments++
		case name == "event":
			e.event = value
		case name == "id":
			e.id = value
		case name == "data":
			e.data += value
		}
	}
	return events, comments
}

// checkStream holds what a stream sent against the description.
func checkStream(t testing.TB, events []sent) {
	t.Helper()
	for i, e := range events {
		schema := "Event"
		if e.event == "end" {
			schema = "Ending"
			if i != len(events)-1 {
				t.Errorf("%d events follow the end", len(events)-1-i)
			}
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(e.data))
		if err == nil {
			err = describe(t).matches("/components/schemas/"+schema, v)
		}
		if err != nil || (e.id == "") != (e.event == "end") {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// names are the events' names, and the types of their data.
func names(events []sent) string {
	var out []string
	for _, e := range events {
		_, kind, _ := strings.Cut(e.data, `:"`)
		kind, _, _ = strings.Cut(kind, `"`)
		out = append(out, e.event+":"+kind)
	}
	return strings.Join(out, " ")
}

func TestStreamOfThePast(t *testing.T) {
	h := newHarness(t, nil)
	id := h.up()
	for _, e := range []agent.Event{
		{Type: agent.EventConnection, Reason: agent.ConnectionAnswered},
		{Type: agent.EventState, Reason: "listening"},
		{Type: agent.EventTranscript, Text: "hello\nthere", Final: true},
		{Type: agent.EventUserStopped, Text: "hello there"},
		{Type: agent.EventTiming, Reason: "llm", Latency: time.Second},
		{Type: agent.EventAgentText, Text: "Hi."},
		{Type: agent.EventBargeIn, Reason: "voice"},
		{Type: agent.EventRecording, Reason: "on"},
	} {
		h.calls.happen(id, e)
	}
	if err := h.calls.HangUp(id, "caller hung up"); err != nil {
		t.Fatal(err)
	}
	get := func(query, last string) []sent {
		r := request("GET", "/calls/"+id+"/events"+query, readKey, "")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		w := h.do(r)
		if w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		events, _ := readStream(w.Body.String())
		checkStream(t, events)
		return events
	}
	all := get("", "")
	if got := names(all); got != "connection:connection state:state transcript:transcript transcript:user_stopped timing:timing response:agent_text state:barge_in state:recording connection:connection end:call_ended" {
		t.Errorf("all: %s", got)
	}
	ids := map[string]bool{}
	for _, e := range all[:len(all)-1] {
		if ids[e.id] {
			t.Errorf("the id %s is there twice", e.id)
		}
		ids[e.id] = true
	}
	if got := names(get("", all[5].id)); got != "state:barge_in state:recording connection:connection end:call_ended" {
		t.Errorf("after one that was seen: %s", got)
	}
	if got := names(get("", all[8].id)); got != "end:call_ended" {
		t.Errorf("after the last: %s", got)
	}
	if got := get("", "0-0"); len(got) != len(all) {
		t.Errorf("after one that is not known: %s", names(got))
	}
	if got := names(get("?topic=transcript,timing&topic=response", "")); got != "transcript:transcript transcript:user_stopped timing:timing response:agent_text end:call_ended" {
		t.Errorf("some: %s", got)
	}
	// Of a bounded past the first are dropped; the ids stay.
	h.calls.calls[id].past = h.calls.calls[id].past[4:]
	if got := names(get("", all[5].id)); got != "state:barge_in state:recording connection:connection end:call_ended" {
		t.Errorf("after the first were dropped: %s", got)
	}
	for query, field := range map[string]string{"?topic=all": "topic", "?topics=state": "topics", "?topic=": "topic"} {
		if w := h.ask("GET", "/calls/"+id+"/events"+query, readKey, ""); w.Code != 400 || problemIn(t, w).Field != field {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	h.expect(h.ask("GET", "/calls/"+id+"/events?%zz", readKey, ""), 400)
	if w := h.ask("HEAD", "/calls/"+id+"/events", readKey, ""); w.Code != 200 || w.Body.Len() > 0 {
		t.Errorf("HEAD: %d %s", w.Code, w.Body)
	}
}

// watching is a stream that is open.
type watching struct {
	w     *recorderWithDeadlines
	leave context.CancelFunc
	done  sync.WaitGroup
}

func (h *harness) watch(id, key string) *watching {
	ctx, leave := context.WithCancel(context.Background())
	s := &watching{w: newRecorder(), leave: leave}
	r := request("GET", "/calls/"+id+"/events", key, "").WithContext(ctx)
	s.done.Go(func() { h.handler.ServeHTTP(s.w, r) })
	synctest.Wait()
	return s
}

func TestStreamAsItHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		id := h.up()
		s := h.watch(id, readKey)
		if h.server.streams.Load() != 1 {
			t.Error("not counted")
		}
		h.calls.happen(id, agent.Event{Type: agent.EventTranscript, Text: "hello"})
		synctest.Wait()
		if events, _ := readStream(s.w.text()); names(events) != "transcript:transcript" || s.w.flushed < 2 {
			t.Errorf("%s, flushed %d times", names(events), s.w.flushed)
		}
		if got := time.Until(s.w.deadline); got != sendTimeout {
			t.Errorf("a write may take %v", got)
		}
		time.Sleep(keepAlive - time.Millisecond)
		if _, comments := readStream(s.w.text()); comments != 0 {
			t.Error("a comment too early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if _, comments := readStream(s.w.text()); comments != 1 {
			t.Errorf("no comment after %v: %q", keepAlive, s.w.text())
		}
		if err := h.calls.HangUp(id, "agent hung up"); err != nil {
			t.Fatal(err)
		}
		s.done.Wait()
		events, _ := readStream(s.w.text())
		if checkStream(t, events); names(events) != "transcript:transcript connection:connection end:call_ended" {
			t.Error(names(events))
		}
		if h.server.streams.Load() != 0 || len(h.calls.calls[id].readers) != 0 {
			t.Error("the reader is still there")
		}
	})
}

// A stream ends with the server, the token, the client, and for a reader that is too
// slow.
func TestStreamEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(h *harness, s *watching, id string)
		want string
	}{
		{"the server ends", func(h *harness, _ *watching, _ string) { h.server.end() }, "end:shutdown"},
		{"the token ends", func(*harness, *watching, string) { time.Sleep(time.Minute) }, "end:expired"},
		{"the client leaves", func(_ *harness, s *watching, _ string) { s.leave() }, ""},
		{"a write fails", func(h *harness, s *watching, id string) {
			s.w.breaks(errors.New("too late"))
			h.calls.happen(id, agent.Event{Type: agent.EventState})
		}, ""},
		{"the reader is too slow", func(h *harness, s *watching, id string) {
			s.w.mu.Lock() // its line is stuck
			for range 2*streamBuffer + 2 {
				h.calls.happen(id, agent.Event{Type: agent.EventState, Reason: "x"})
			}
			s.w.mu.Unlock()
		}, "lagged:lagged end:lagged"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, func(cfg *Config, p *Parts) {
				cfg.Tokens = true
				expires := time.Now().Add(time.Minute)
				p.Verify = func(string) (identity.Claims, error) {
					return identity.Claims{Subject: "a", Expires: expires, Private: map[string]any{"scope": "calls:read"}}, nil
				}
			})
			id := h.up()
			s := h.watch(id, "a.b.c")
			c.end(h, s, id)
			s.done.Wait()
			events, _ := readStream(s.w.text())
			checkStream(t, events)
			if got := names(events); !strings.HasSuffix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
			if n := len(h.calls.calls[id].readers); n != 0 {
				t.Errorf("%s: %d readers are still there", c.name, n)
			}
			s.leave()
		})
	}
}

func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(c *Config, _ *Parts) { c.MaxStreams = 2 })
		id := h.up()
		a, b := h.watch(id, readKey), h.watch(id, readKey)
		w := h.ask("GET", "/calls/"+id+"/events", readKey, "")
		if w.Code != 503 || problemIn(t, w).Rule != "streams" || w.Header().Get("Retry-After") != "5" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if text := h.ask("GET", "/metrics", readKey, "").Body.String(); !strings.Contains(text, "\nparley_api_streams 2\n") {
			t.Error("not counted")
		}
		a.leave()
		a.done.Wait()
		c := h.watch(id, readKey)
		if c.w.Code != 200 {
			t.Error("a place that became free is not given")
		}
		for _, s := range []*watching{b, c} {
			s.leave()
			s.done.Wait()
		}
	})
}

func TestStreamsWithoutDeadlinesAreNotServed(t *testing.T) {
	for _, change := range []func(*recorderWithDeadlines){
		func(w *recorderWithDeadlines) { w.noRead = true }, func(w *recorderWithDeadlines) { w.noWrite = true },
	} {
		h := newHarness(t, nil)
		w := newRecorder()
		change(w)
		h.handler.ServeHTTP(w, request("GET", "/calls/"+h.up()+"/events", readKey, ""))
		if w.Body.Len() > 0 {
			t.Error(w.Body)
		}
	}
}

// A past that is long is sent in pieces, and an event that cannot be written ends
// the stream.
func TestStreamIsSentInPieces(t *testing.T) {
	w := newRecorder()
	o := &stream{w: w, control: http.NewResponseController(w)}
	var past []agent.Event
	for i := range 256 {
		past = append(past, agent.Event{Type: agent.EventAgentText, Text: strings.Repeat("x", 1000), At: time.Unix(int64(i), 0)})
	}
	if o.begin(past, ""); w.flushed < 4 || o.err != nil {
		t.Errorf("%d %v", w.flushed, o.err)
	}
	if events, _ := readStream(w.text()); len(events) != 256 {
		t.Errorf("%d events", len(events))
	}
	o.event(agent.Event{Type: agent.EventTranscript, Confidence: math.NaN()})
	if o.err == nil {
		t.Error("NaN was written")
	}
}

func TestEventID(t *testing.T) {
	at := time.Unix(1000, 5)
	a := agent.Event{Type: agent.EventState, At: at, Reason: "a"}
	b := agent.Event{Type: agent.EventState, At: at, Reason: "b"}
	if same := a; eventID(a) != eventID(same) || eventID(a) == eventID(b) || strings.ContainsAny(eventID(a), "\n\x00 ") {
		t.Error(eventID(a), eventID(b))
	}
}

func FuzzLastEventID(f *testing.F) {
	f.Add("", "transcript")
	f.Add("db8r1k1x1c00-1c9zj2k", "state,timing")
	f.Add("\n\nevent: x", "%zz")
	h := newHarness(f, nil)
	id := h.calls.add(call.Status{State: call.StateAnswered})
	h.calls.happen(id, agent.Event{Type: agent.EventState})
	if err := h.calls.HangUp(id, "x"); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, last, topic string) {
		r := request("GET", "/calls/"+id+"/events", "", "")
		r.URL.RawQuery = "topic=" + topic
		r.Header.Set("Last-Event-ID", last)
		w := newRecorder()
		if err := h.server.streamEvents(w, withID(r, id), client{}); err != nil {
			if p := problemOf(err); p.Status != 400 {
				t.Fatal(err)
			}
			return
		}
		events, _ := readStream(w.text())
		checkStream(t, events)
		if n := len(events); n < 1 || n > 3 || events[n-1].event != "end" {
			t.Fatalf("%q", w.text())
		}
	})
}

// withID sets what the router sets.
func withID(r *http.Request, id string) *http.Request {
	r.SetPathValue("id", id)
	return r
}

func ExampleConfig_Validate() {
	c := DefaultConfig()
	c.Listen = "0.0.0.0:8080"
	fmt.Println(c.Validate())
	// Output: api: listen: "0.0.0.0:8080" is open to others and there is no login: whoever reaches it could place calls; set keys (or tokens), or listen on 127.0.0.1
}

func TestTopicsOfTypes(t *testing.T) {
	for want, types := range map[string][]agent.EventType{
		"transcript": {agent.EventTranscript, agent.EventUserStopped, agent.EventStopTimeout},
		"response":   {agent.EventAgentText, agent.EventAgentStarted, agent.EventAgentStopped},
		"model": {
			agent.EventInference, agent.EventCompletion, agent.EventThought, agent.EventToolCall, agent.EventToolResult,
			agent.EventSummary, agent.EventRetrieval,
		},
		"state": {agent.EventUserStarted, agent.EventMuted, agent.EventIdle, agent.EventAnsweredBy, agent.EventState, agent.EventError},
	} {
		for _, e := range types {
			if got := topics(e); got != want {
				t.Errorf("%s is in %s, want %s", e, got, want)
			}
		}
	}
}
