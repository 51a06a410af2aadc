package api

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/agent"
)

// The times of a stream of events.
const (
	// keepAlive is how long a stream may be silent: proxies cut idle connections,
	// often after a minute.
	keepAlive = 15 * time.Second
	// sendTimeout is how long one write may take before the reader is given up.
	sendTimeout = 10 * time.Second
	// reconnect is when a reader that lost its connection comes back, in
	// milliseconds.
	reconnect = 2000
)

// topics groups the types of events under the names that streams have for them.
func topics(e agent.EventType) string {
	switch e {
	case agent.EventTranscript, agent.EventUserStopped, agent.EventStopTimeout:
		return "transcript"
	case agent.EventAgentText, agent.EventAgentStarted, agent.EventAgentStopped:
		return "response"
	case agent.EventInference, agent.EventCompletion, agent.EventThought, agent.EventToolCall, agent.EventToolResult,
		agent.EventSummary, agent.EventRetrieval:
		return "model"
	case agent.EventTiming:
		return "timing"
	case agent.EventConnection:
		return "connection"
	case agent.EventLagged:
		return "lagged"
	case agent.EventUserStarted, agent.EventBargeIn, agent.EventFalseBargeIn, agent.EventDigit,
		agent.EventAction, agent.EventState, agent.EventRecording, agent.EventMuted, agent.EventIdle,
		agent.EventAnsweredBy, agent.EventError:
	}
	return "state"
}

// ending is the last event of a stream.
type ending struct {
	// Reason is "call_ended", "lagged", "shutdown" or "expired".
	Reason string `json:"reason"`
}

// streamEvents is GET /calls/{id}/events: server-sent events (HTML standard section
// 9.2) until the call is over.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, c client) error {
	id, err := callID(r)
	if err != nil {
		return err
	}
	wanted, err := parseTopics(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if s.streams.Add(1) > int64(s.cfg.MaxStreams) {
		s.streams.Add(-1)
		return trouble(http.StatusServiceUnavailable, "streams", "Too many streams of events are open.", "Close some, or raise api.max_streams.").later(retryAfter)
	}
	s.parts.Metrics.streams.Inc()
	defer func() { s.streams.Add(-1); s.parts.Metrics.streams.Dec() }()
	past, live, stop, err := s.parts.Calls.Events(id)
	if err != nil {
		return err
	}
	defer stop()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out := &stream{w: w, control: http.NewResponseController(w), wanted: wanted}
	out.begin(past, r.Header.Get("Last-Event-ID"))
	s.follow(r, out, live, c.expires)
	return nil
}

// follow sends what happens until the call, the server, the client or its token
// ends, or the client is too slow.
func (s *Server) follow(r *http.Request, out *stream, live <-chan agent.Event, expires time.Time) {
	var expired <-chan time.Time
	if !expires.IsZero() {
		t := time.NewTimer(expires.Sub(s.now()))
		defer t.Stop()
		expired = t.C
	}
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for out.err == nil {
		select {
		case e, more := <-live:
			if !more {
				out.finish(out.why)
				return
			}
			out.event(e)
			if len(live) == 0 {
				out.flush()
			}
			tick.Reset(keepAlive)
		case <-tick.C:
			out.comment("still here")
			out.flush()
		case <-expired:
			out.finish("expired")
			return
		case <-s.life.Done():
			out.finish("shutdown")
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream writes server-sent events. After the first error it writes nothing.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	wanted  []string // topics, empty for all
	buf     bytes.Buffer
	why     string // why it ends when the call's events do
	err     error
}

// begin sends what is still known of the past: after the event that the client saw
// last, all of it when that one is not known any more.
func (o *stream) begin(past []agent.Event, last string) {
	o.why = "call_ended"
	o.buf.WriteString("retry: " + strconv.Itoa(reconnect) + "\n\n")
	from := 0
	for i, e := range past {
		if last != "" && eventID(e) == last {
			from = i + 1
		}
	}
	if last != "" && from == 0 && len(past) > 0 {
		o.comment("the event named in Last-Event-ID is not known any more")
	}
	for _, e := range past[from:] {
		o.event(e)
	}
	o.flush()
}

// event writes e when it is wanted.
func (o *stream) event(e agent.Event) {
	topic := topics(e.Type)
	if topic == "lagged" {
		o.why = "lagged"
	} else if len(o.wanted) > 0 && !slices.Contains(o.wanted, topic) {
		return
	}
	o.write(topic, eventID(e), e)
}

// write writes one event; JSON has no line ends in it.
func (o *stream) write(topic, id string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		o.err = err
		return
	}
	o.buf.WriteString("event: " + topic + "\n")
	if id != "" {
		o.buf.WriteString("id: " + id + "\n")
	}
	o.buf.WriteString("data: ")
	o.buf.Write(data)
	o.buf.WriteString("\n\n")
	if o.buf.Len() >= maxBody {
		o.flush()
	}
}

// comment writes a line that readers skip.
func (o *stream) comment(text string) { o.buf.WriteString(": " + text + "\n\n") }

// finish writes the last event.
func (o *stream) finish(reason string) {
	o.write("end", "", ending{Reason: reason})
	o.flush()
}

// flush sends what was written, within sendTimeout.
func (o *stream) flush() {
	if o.err == nil {
		o.err = o.control.SetReadDeadline(time.Time{}) // there is nothing more to read
	}
	if o.err == nil {
		o.err = o.control.SetWriteDeadline(time.Now().Add(sendTimeout))
	}
	if o.err == nil {
		_, o.err = o.w.Write(o.buf.Bytes())
	}
	if o.err == nil {
		o.err = o.control.Flush()
	}
	o.buf.Reset()
}

// eventID names an event by when it happened and what it is: the same for every
// reader and whatever became of the events before it.
func eventID(e agent.Event) string {
	h := fnv.New32a()
	data, err := json.Marshal(e)
	if err != nil { // as for a confidence that is no number
		data = []byte(e.Type)
	}
	_, _ = h.Write(data) // never fails
	return strconv.FormatInt(e.At.UnixNano(), 36) + "-" + strconv.FormatUint(uint64(h.Sum32()), 36)
}

// streamTopics are what a stream may be narrowed to.
func streamTopics() []string {
	return []string{"transcript", "response", "model", "state", "timing", "connection"}
}

// parseTopics reads the query of a stream.
func parseTopics(raw string) ([]string, error) {
	query, err := parseQuery(raw)
	if err != nil {
		return nil, err
	}
	var out []string
	for name, values := range query {
		if name != "topic" {
			return nil, trouble(http.StatusBadRequest, "unknown_field", "There is no such parameter.", "Use topic.").on(shorten(name))
		}
		for _, v := range values {
			out = append(out, strings.Split(v, ",")...)
		}
	}
	for _, topic := range out {
		if !slices.Contains(streamTopics(), topic) {
			return nil, wrongField("topic", "There is no such topic.", "Use "+strings.Join(streamTopics(), ", ")+".")
		}
	}
	return out, nil
}
