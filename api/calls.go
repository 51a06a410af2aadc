package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/call"
	"parley/identity"
)

// Calls are the calls of the gateway; *call.Server is one. Its methods may be
// called from any goroutine.
type Calls interface {
	Calls() []call.Status
	Call(id string) (call.Status, bool)
	Dial(ctx context.Context, o call.Outgoing) (id string, err error)
	HangUp(id, cause string) error
	Transfer(ctx context.Context, id string, t agent.Transfer) error
	SendDigits(ctx context.Context, id, digits string) error
	Hold(ctx context.Context, id string) error
	Resume(ctx context.Context, id string) error
	Say(ctx context.Context, id, text string) error
	Record(id string, on bool) error
	Events(id string) (past []agent.Event, live <-chan agent.Event, stop func(), err error)
}

var _ Calls = (*call.Server)(nil)

// The bounds of one page of calls.
const (
	pageSize = 50
	maxPage  = 200
)

// page is an answer of GET /calls.
type page struct {
	Calls []call.Status `json:"calls"`
	// Next is the cursor of the next page, absent on the last.
	Next string `json:"next,omitempty"`
}

// filter is what GET /calls is asked for.
type filter struct {
	states []string
	equal  []func(call.Status) bool
	limit  int
	after  position
}

// position is a place in the list, which has the newest calls first.
type position struct {
	began int64
	id    string
}

// positionOf is where a call stands.
func positionOf(c call.Status) position { return position{c.Began.UnixNano(), c.ID} }

// compare orders positions as the list does.
func (p position) compare(q position) int {
	switch {
	case p.began > q.began:
		return -1
	case p.began < q.began:
		return 1
	}
	return strings.Compare(p.id, q.id)
}

// cursor writes p for clients, who are not to read it.
func (p position) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.began, 36) + "." + p.id))
}

// parseCursor reads what cursor wrote.
func parseCursor(s string) (position, bool) {
	text, err := base64.RawURLEncoding.DecodeString(s)
	began, id, ok := strings.Cut(string(text), ".")
	n, err2 := strconv.ParseInt(began, 36, 64)
	return position{n, id}, err == nil && err2 == nil && ok && id != ""
}

// listCalls is GET /calls.
func (s *Server) listCalls(w http.ResponseWriter, r *http.Request, _ client) error {
	f, err := parseFilter(r.URL.RawQuery)
	if err != nil {
		return err
	}
	var list []call.Status
	for _, c := range s.parts.Calls.Calls() {
		if f.takes(c) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b call.Status) int { return positionOf(a).compare(positionOf(b)) })
	p := page{Calls: []call.Status{}} // an empty list, not null
	if len(list) > f.limit {
		list = list[:f.limit]
		p.Next = positionOf(list[f.limit-1]).cursor()
		query, err := parseQuery(r.URL.RawQuery)
		if err != nil {
			return err
		}
		query.Set("cursor", p.Next)
		w.Header().Set("Link", "</calls?"+query.Encode()+`>; rel="next"`)
	}
	p.Calls = append(p.Calls, list...)
	give(w, http.StatusOK, p)
	return nil
}

// takes says whether c is asked for.
func (f *filter) takes(c call.Status) bool {
	if len(f.states) > 0 && !slices.Contains(f.states, c.State) || f.after.id != "" && f.after.compare(positionOf(c)) >= 0 {
		return false
	}
	for _, equal := range f.equal {
		if !equal(c) {
			return false
		}
	}
	return true
}

// states are the states of calls.
func states() []string {
	return []string{call.StateDialling, call.StateRinging, call.StateAnswered, call.StateHeld, call.StateEnding, call.StateEnded}
}

// parseQuery reads a query. A plus sign in one is a space, but nobody who asks for a
// number means that.
func parseQuery(raw string) (url.Values, error) {
	query, err := url.ParseQuery(strings.ReplaceAll(raw, "+", "%2B"))
	if err != nil {
		return nil, trouble(http.StatusBadRequest, "bad_query", "The query cannot be read.", "Escape it as RFC 3986 says.")
	}
	return query, nil
}

// parseFilter reads the query of GET /calls.
func parseFilter(raw string) (*filter, error) {
	query, err := parseQuery(raw)
	if err != nil {
		return nil, err
	}
	f := &filter{limit: pageSize}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := query[name]
		if name != "state" && len(values) > 1 {
			return nil, wrongField(shorten(name), "The parameter is there twice.", "Send it once.")
		}
		if err := f.read(name, values); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// read takes one parameter.
func (f *filter) read(name string, values []string) error {
	value := values[0]
	is := func(of func(call.Status) string) {
		f.equal = append(f.equal, func(c call.Status) bool { return of(c) == value })
	}
	switch name {
	case "state":
		for _, v := range values {
			f.states = append(f.states, strings.Split(v, ",")...)
		}
		for _, state := range f.states {
			if !slices.Contains(states(), state) {
				return wrongField(name, "There is no such state.", "Use "+strings.Join(states(), ", ")+".")
			}
		}
	case "direction":
		if value != "inbound" && value != "outbound" {
			return wrongField(name, "There is no such direction.", "Use inbound or outbound.")
		}
		is(func(c call.Status) string { return c.Direction })
	case "trunk":
		is(func(c call.Status) string { return c.Trunk })
	case "agent":
		is(func(c call.Status) string { return c.Agent })
	case "caller":
		is(func(c call.Status) string { return c.Caller })
	case "called":
		is(func(c call.Status) string { return c.Called })
	case "resource_id":
		is(func(c call.Status) string { return c.ResourceID })
	case "limit":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxPage {
			return wrongField(name, fmt.Sprintf("It must be a number between 1 and %d.", maxPage), "Follow next for more.")
		}
		f.limit = n
	case "cursor":
		p, ok := parseCursor(value)
		if !ok {
			return wrongField(name, "It is no cursor.", "Send next of the page before, as it is.")
		}
		f.after = p
	default:
		return trouble(http.StatusBadRequest, "unknown_field", "There is no such parameter.",
			"Use state, direction, trunk, agent, caller, called, resource_id, limit or cursor.").on(shorten(name))
	}
	return nil
}

// getCall is GET /calls/{id}.
func (s *Server) getCall(w http.ResponseWriter, r *http.Request, _ client) error {
	id, err := callID(r)
	if err != nil {
		return err
	}
	c, ok := s.parts.Calls.Call(id)
	if !ok {
		return noCall()
	}
	give(w, http.StatusOK, c)
	return nil
}

// order is the body of POST /calls.
type order struct {
	To          string            `json:"to"`
	Trunk       string            `json:"trunk"`
	Targets     []aim             `json:"targets"`
	Strategy    string            `json:"strategy"`
	From        string            `json:"from"`
	Name        string            `json:"name"`
	Agent       string            `json:"agent"`
	Headers     map[string]string `json:"headers"`
	RingTimeout *int              `json:"ring_timeout_seconds"`
	ResourceID  string            `json:"resource_id"`
	Context     map[string]string `json:"context"`
}

// aim is one of several who may take a call.
type aim struct {
	To    string `json:"to"`
	Trunk string `json:"trunk"`
}

// whom checks who is to be called.
func (o order) whom(out *call.Outgoing) (err error) {
	if len(o.Targets) == 0 {
		if out.To, err = target("to", o.To); err != nil {
			return err
		}
		if o.Strategy != "" {
			return wrongField("strategy", "It says how targets are called, and there are none.", "Send targets, or leave it out.")
		}
		out.Trunk, err = label("trunk", o.Trunk)
		return err
	}
	switch {
	case o.To != "" || o.Trunk != "":
		return wrongField("targets", "They stand instead of to and trunk.", "Put to and trunk into each target.")
	case len(o.Targets) > maxTargets:
		return wrongField("targets", fmt.Sprintf("There are more than %d.", maxTargets), "Send fewer.")
	case o.Strategy != "serial" && o.Strategy != "parallel":
		return wrongField("strategy", "It must be serial or parallel.", "Send serial to call one after the other, parallel to call all at the same time.")
	}
	out.Parallel = o.Strategy == "parallel"
	for i, a := range o.Targets {
		var t call.Target
		if t.To, err = target(fmt.Sprintf("targets[%d].to", i), a.To); err != nil {
			return err
		}
		if t.Trunk, err = label(fmt.Sprintf("targets[%d].trunk", i), a.Trunk); err != nil {
			return err
		}
		out.Targets = append(out.Targets, t)
	}
	return nil
}

// outgoing checks the order and cleans its texts.
func (o order) outgoing() (out call.Outgoing, err error) {
	if err = o.whom(&out); err != nil {
		return out, err
	}
	if out.From, err = callerID("from", o.From); err != nil {
		return out, err
	}
	if out.Name, err = line("name", o.Name, maxName); err != nil {
		return out, err
	}
	if out.Agent, err = label("agent", o.Agent); err != nil {
		return out, err
	}
	if out.Headers, err = headers("headers", o.Headers, true); err != nil {
		return out, err
	}
	if out.RingTimeout, err = ringTime("ring_timeout_seconds", o.RingTimeout); err != nil {
		return out, err
	}
	if out.ResourceID, err = person("resource_id", o.ResourceID, false); err != nil {
		return out, err
	}
	out.Context, err = notes("context", o.Context)
	return out, err
}

// placed is the answer of POST /calls.
type placed struct {
	ID     string `json:"id"`
	Call   string `json:"call"`
	Events string `json:"events"`
}

// dialCall is POST /calls. The call is accepted for dialling when it answers; how
// it goes on is in GET /calls/{id} and in the call's events.
func (s *Server) dialCall(w http.ResponseWriter, r *http.Request, c client) error {
	key := r.Header.Get("Idempotency-Key")
	if len(r.Header.Values("Idempotency-Key")) > 1 || len(key) > 255 || !every(key, func(b byte) bool { return b >= ' ' && b < 0x7f }) {
		return wrongField("Idempotency-Key", "It must be at most 255 printable ASCII characters.", "Send a UUID.")
	}
	var o order
	body, err := readBody(w, r, &o)
	if err != nil {
		return err
	}
	out, err := o.outgoing()
	if err != nil {
		return err
	}
	end := func(string) {}
	if key != "" {
		var id string
		if id, end, err = s.once.begin(c.id+"\x00"+key, body, s.now()); err != nil {
			return err
		}
		if id != "" {
			return accepted(w, id)
		}
	}
	id := ""
	defer func() { end(id) }() // also when Dial panics
	ctx, cancel := s.work(r, dialTimeout)
	defer cancel()
	if id, err = s.parts.Calls.Dial(ctx, out); err != nil {
		id = ""
		p := dialProblem(err)
		s.parts.Metrics.dialRefused(p.Rule)
		return p
	}
	s.log.Info("call placed", zap.String("call_id", id), zap.String("client", c.name), zap.String("trunk", out.Trunk), zap.String("agent", out.Agent), zap.String("to", identity.Mask(out.To)), zap.Int("targets", len(out.Targets)))
	return accepted(w, id)
}

// dialProblem is problemOf for Dial, whose other errors say what is wrong with the
// order.
func dialProblem(err error) *problem {
	p := problemOf(err)
	if text, ok := strings.CutPrefix(err.Error(), "call: "); ok && p.Rule == "internal" {
		return trouble(http.StatusBadRequest, "order", text, "Change the request, or the routes, agents and trunks of the configuration.")
	}
	return p
}

// accepted answers that a call is being placed.
func accepted(w http.ResponseWriter, id string) error {
	at := "/calls/" + id
	w.Header().Set("Location", at)
	give(w, http.StatusAccepted, placed{ID: id, Call: at, Events: at + "/events"})
	return nil
}

// endCall is DELETE /calls/{id}.
func (s *Server) endCall(w http.ResponseWriter, r *http.Request, c client) error {
	id, err := callID(r)
	if err != nil {
		return err
	}
	if err := s.parts.Calls.HangUp(id, "over HTTP by "+c.name); err != nil {
		return err
	}
	s.acted(r, id, c)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// acted leaves a line in the log about what a client did to a call.
func (s *Server) acted(r *http.Request, id string, c client) {
	s.log.Info("call changed by API", zap.String("call_id", id), zap.String("client", c.name), zap.String("request", r.Pattern))
}

// How long the gateway works on one request.
const (
	dialTimeout   = 15 * time.Second
	actionTimeout = 3 * time.Minute
)

// work is the context for what a request has begun: it ends with the server or
// after so long, not with the client's connection, because half a transfer is worse
// than one whose client left. It lets the answer be written as late.
func (s *Server) work(r *http.Request, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), limit)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}
