package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"parley/agent"
	"parley/call"
)

// pageIn is the page that an answer holds.
func pageIn(t *testing.T, w *httptest.ResponseRecorder) (ids []string, next string) {
	t.Helper()
	var p page
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 200 {
		t.Fatalf("%d %s %v", w.Code, w.Body, err)
	}
	for _, c := range p.Calls {
		ids = append(ids, c.ID)
	}
	return ids, p.Next
}

func TestListCalls(t *testing.T) {
	h := newHarness(t, nil)
	if w := h.ask("GET", "/calls", readKey, ""); w.Body.String() != `{"calls":[]}`+"\n" {
		t.Errorf("without calls: %s", w.Body)
	}
	a := h.calls.add(call.Status{Direction: "inbound", State: call.StateAnswered, Trunk: "carrier", Caller: "+14155550100", Called: "100", Agent: "sales", ResourceID: "ann"})
	b := h.calls.add(call.Status{Direction: "outbound", State: call.StateRinging, Trunk: "pbx", Called: "+14155550123", Agent: "desk", ResourceID: "bob"})
	c := h.calls.add(call.Status{Direction: "inbound", State: call.StateHeld, Trunk: "carrier", Caller: "+14155550100", Called: "200"})
	for query, want := range map[string][]string{
		"":                                  {c, b, a},
		"?state=answered":                   {a},
		"?state=answered,held":              {c, a},
		"?state=answered&state=held":        {c, a},
		"?state=ended":                      nil,
		"?direction=outbound":               {b},
		"?trunk=carrier":                    {c, a},
		"?trunk=none":                       nil,
		"?agent=sales":                      {a},
		"?caller=+14155550100":              {c, a},
		"?caller=%2B14155550100&called=200": {c},
		"?called=+14155550123":              {b},
		"?resource_id=bob":                  {b},
		"?limit=200":                        {c, b, a},
		"?caller=":                          {b},
	} {
		if got, next := pageIn(t, h.ask("GET", "/calls"+query, readKey, "")); !slices.Equal(got, want) || next != "" {
			t.Errorf("%s: %v %q, want %v", query, got, next, want)
		}
	}
	for query, field := range map[string]string{
		"?state=up": "state", "?state=": "state", "?direction=up": "direction", "?limit=0": "limit", "?limit=201": "limit", "?limit=x": "limit", "?limit=1&limit=2": "limit",
		"?cursor=": "cursor", "?cursor=%21": "cursor", "?cursor=YQ": "cursor", "?offset=1": "offset", "?State=held": "State",
	} {
		w := h.ask("GET", "/calls"+query, readKey, "")
		if p := problemIn(t, w); w.Code != 400 || p.Field != field || p.Remedy == "" {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	if w := h.ask("GET", "/calls?x=%zz", readKey, ""); w.Code != 400 || problemIn(t, w).Rule != "bad_query" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Pages hold each call once, also when calls come and go between them, and those
// that began at the same moment.
func TestPages(t *testing.T) {
	h := newHarness(t, nil)
	var want []string
	for range 7 {
		want = append(want, h.up())
	}
	for _, id := range want[2:5] {
		h.calls.calls[id].status.Began = h.calls.began
	}
	slices.SortFunc(want, func(a, b string) int {
		return positionOf(h.calls.calls[a].status).compare(positionOf(h.calls.calls[b].status))
	})
	var got []string
	path := "/calls?limit=2&caller=+14155550100"
	for i := 0; path != ""; i++ {
		w := h.ask("GET", path, readKey, "")
		ids, next := pageIn(t, w)
		got = append(got, ids...)
		link := w.Header().Get("Link")
		if (link == "") != (next == "") || len(ids) > 2 || i > 10 {
			t.Fatalf("%v %q %q", ids, next, link)
		}
		path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if i == 0 { // a new call belongs before all that were seen
			h.up()
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestGetAndEndCall(t *testing.T) {
	h := newHarness(t, nil)
	id := h.up()
	if w := h.ask("GET", "/calls/"+id, readKey, ""); !strings.Contains(w.Body.String(), `"state":"answered"`) {
		t.Error(w.Body)
	}
	h.expect(h.ask("DELETE", "/calls/"+id, writeKey, ""), 204)
	if w := h.ask("GET", "/calls/"+id, readKey, ""); !strings.Contains(w.Body.String(), `"cause":"over HTTP by key:write"`) {
		t.Error(w.Body)
	}
	h.expect(h.ask("DELETE", "/calls/"+id, writeKey, ""), 409)
	for _, wrong := range []string{"0000000000000000", strings.Repeat("a", 65), "%0d%0a", "%2e%2e%2fx", "a%20b"} {
		h.expect(h.ask("GET", "/calls/"+wrong, readKey, ""), 404)
		h.expect(h.ask("DELETE", "/calls/"+wrong, writeKey, ""), 404)
		h.expect(h.ask("GET", "/calls/"+wrong+"/events", readKey, ""), 404)
		h.expect(h.ask("POST", "/calls/"+wrong+"/hold", writeKey, `{}`), 404)
	}
}

// A call that failed says exactly why.
func TestFailureCauses(t *testing.T) {
	h := newHarness(t, nil)
	id := h.calls.add(call.Status{Direction: "outbound", State: call.StateEnded, Called: "+14155550123", Cause: call.CauseBusy, Code: 486, Reason: "Busy Here", Q850: 17})
	h.calls.happen(id, agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionFailed, Code: 486, Q850: 17, Text: "Busy Here"})
	if w := h.ask("GET", "/calls/"+id, readKey, ""); !strings.Contains(w.Body.String(), `"cause":"busy","code":486,"reason":"Busy Here","q850":17`) {
		t.Error(w.Body)
	}
	if w := h.ask("GET", "/calls/"+id+"/events", readKey, ""); !strings.Contains(w.Body.String(), `"text":"Busy Here","reason":"failed","code":486,"q850":17`) {
		t.Error(w.Body)
	}
}

func TestPlaceCall(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	h := newHarness(t, func(_ *Config, p *Parts) { p.Log = zap.New(core) })
	w := h.ask("POST", "/calls", writeKey, `{"to":"+14155550123","headers":{"X-Secret":"hush"},"context":{"card":"hush"}}`)
	if w.Code != 202 || w.Header().Get("Location") != "/calls/0000000000000001" || !strings.Contains(w.Body.String(), `"events":"/calls/0000000000000001/events"`) {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := h.ask("GET", w.Header().Get("Location"), readKey, ""); !strings.Contains(w.Body.String(), `"state":"dialling"`) {
		t.Error(w.Body)
	}
	for _, c := range []struct {
		err    error
		status int
		rule   string
		retry  string
		text   string
	}{
		{&call.GuardError{Rule: "international", Text: "not abroad"}, 403, "guard_international", "", "not abroad"},
		{&call.GuardError{Rule: "Odd-Rule", Text: "x"}, 403, "guard_odd_rule", "", "x"},
		{fmt.Errorf("call: %w", agent.ErrForbidden), 403, "forbidden", "", ""},
		{call.ErrDraining, 503, "draining", "5", ""},
		{fmt.Errorf("call: no port: %w", call.ErrLimit), 503, "limit", "5", ""},
		{call.ErrNotSupported, 501, "not_supported", "", ""},
		{errors.New(`call: there is no agent "x"`), 400, "order", "", `there is no agent "x"`},
		{errors.New("rtp: a secret of the system"), 500, "internal", "", ""},
		{context.DeadlineExceeded, 504, "timeout", "", ""},
		{context.Canceled, 503, "shutdown", "5", ""},
	} {
		h.calls.err = c.err
		w := h.ask("POST", "/calls", writeKey, `{"to":"+14155550123"}`)
		p := problemIn(t, w)
		if w.Code != c.status || p.Rule != c.rule || w.Header().Get("Retry-After") != c.retry || c.text != "" && p.Detail != c.text || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v: %d %v %s", c.err, w.Code, w.Header(), w.Body)
		}
	}
	text := ""
	for _, e := range logs.All() {
		text += fmt.Sprintln(e.Level, e.Message, e.ContextMap())
	}
	if strings.Contains(text, "+14155550123") || strings.Contains(text, "hush") || !strings.Contains(text, "+141") || !strings.Contains(text, "rtp: a secret of the system") {
		t.Errorf("the log: %s", text)
	}
	h.calls.err = nil
	h.calls.draining = true
	h.expect(h.ask("POST", "/calls", writeKey, `{"to":"1"}`), 503)
	if text := h.ask("GET", "/metrics", readKey, "").Body.String(); !strings.Contains(text, `parley_outbound_refused_total{rule="guard_international"} 1`) || !strings.Contains(text, `parley_outbound_refused_total{rule="draining"} 2`) {
		t.Error("the refusals are not counted")
	}
	for rule, word := range map[string]string{"no_trunk": "GET /trunks", "international": "international = true", "not_allowed": "allow", "caller_id": "caller_ids", "max_per_hour": "max_per_hour"} {
		h.calls.err = &call.GuardError{Rule: rule, Text: "no"}
		if p := problemIn(t, h.ask("POST", "/calls", writeKey, `{"to":"+14155550123"}`)); !strings.Contains(p.Remedy, word) {
			t.Errorf("%s: the remedy is %q", rule, p.Remedy)
		}
	}
}

func TestIdempotencyKey(t *testing.T) {
	h := newHarness(t, nil)
	now := time.Unix(1000, 0)
	h.server.now = func() time.Time { return now }
	place := func(key, client, body string) *httptest.ResponseRecorder {
		r := request("POST", "/calls", client, body)
		r.Header.Set("Idempotency-Key", key)
		return h.do(r)
	}
	first := place("k1", fullKey, `{"to":"1"}`)
	again := place("k1", fullKey, `{"to":"1"}`)
	if first.Code != 202 || again.Code != 202 || first.Body.String() != again.Body.String() || again.Header().Get("Location") != first.Header().Get("Location") || len(h.calls.dialled) != 1 {
		t.Errorf("sent again: %d %s, %d calls", again.Code, again.Body, len(h.calls.dialled))
	}
	if w := place("k1", fullKey, `{"to":"2"}`); w.Code != 422 || problemIn(t, w).Field != "Idempotency-Key" {
		t.Errorf("another body: %d %s", w.Code, w.Body)
	}
	if place("k2", fullKey, `{"to":"1"}`); len(h.calls.dialled) != 2 {
		t.Error("another key is another call")
	}
	if place("k1", writeKey, `{"to":"2"}`); len(h.calls.dialled) != 3 {
		t.Error("another client's key is another key")
	}
	// What was refused may be sent again.
	h.calls.draining = true
	h.expect(place("k3", fullKey, `{"to":"1"}`), 503)
	h.calls.draining = false
	h.expect(place("k3", fullKey, `{"to":"1"}`), 202)
	// Also after a panic.
	h.calls.panics = true
	h.expect(place("k4", fullKey, `{"to":"1"}`), 500)
	h.calls.panics = false
	h.expect(place("k4", fullKey, `{"to":"1"}`), 202)

	now = now.Add(onceTime)
	calls := len(h.calls.dialled)
	if place("k1", fullKey, `{"to":"2"}`); len(h.calls.dialled) != calls+1 {
		t.Error("a key is remembered for ever")
	}
	for _, key := range []string{strings.Repeat("x", 256), "a\tb", "é"} {
		if w := place(key, fullKey, `{"to":"1"}`); w.Code != 400 || problemIn(t, w).Field != "Idempotency-Key" {
			t.Errorf("%q: %d %s", key, w.Code, w.Body)
		}
	}
	r := request("POST", "/calls", fullKey, `{"to":"1"}`)
	r.Header.Add("Idempotency-Key", "a")
	r.Header.Add("Idempotency-Key", "b")
	h.expect(h.do(r), 400)
}

// Two at the same time: one places the call, the other is told to wait.
func TestIdempotencyKeyAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		leave := make(chan struct{})
		h.calls.wait = func(context.Context) error { <-leave; return nil }
		place := func() *httptest.ResponseRecorder {
			r := request("POST", "/calls", fullKey, `{"to":"1"}`)
			r.Header.Set("Idempotency-Key", "k")
			w := newRecorder()
			h.handler.ServeHTTP(w, r)
			return w.ResponseRecorder
		}
		var first *httptest.ResponseRecorder
		var wg sync.WaitGroup
		wg.Go(func() { first = place() })
		synctest.Wait()
		if w := place(); w.Code != 409 || problemIn(t, w).Rule != "idempotency_key_busy" || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		close(leave)
		wg.Wait()
		if w := place(); first.Code != 202 || w.Code != 202 || len(h.calls.dialled) != 1 {
			t.Errorf("%d, then %d, %d calls", first.Code, w.Code, len(h.calls.dialled))
		}
	})
}

func TestOnceIsBounded(t *testing.T) {
	o, now := newOnce(), time.Unix(1000, 0)
	for i := range 2 * onceMax {
		_, end, err := o.begin(fmt.Sprint(i), nil, now)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			end("call")
		} else if i%2 > 0 {
			end("")
		}
		if len(o.order) > onceMax || len(o.done) > onceMax {
			t.Fatalf("%d and %d", len(o.order), len(o.done))
		}
	}
	_, end, _ := o.begin("late", nil, now)
	for i := range onceMax {
		_, _, _ = o.begin(fmt.Sprint("x", i), nil, now)
	}
	end("") // it was forgotten meanwhile: nothing to take back
	if len(o.done) > onceMax {
		t.Error(len(o.done))
	}
}

func TestActions(t *testing.T) {
	h := newHarness(t, nil)
	id := h.up()
	for _, c := range []struct{ action, body, want string }{
		{"dtmf", `{"digits":"1,a#*"}`, "dtmf 1,A#*"},
		{"hold", `{}`, "hold"},
		{"resume", ``, "resume"},
		{"say", `{"text":" One\n moment. "}`, "say One moment."},
		{"record", `{"on":true}`, "record true"},
		{"record", `{"on":false}`, "record false"},
		{"transfer", `{"to":"+1 415","attended":true,"trunk":"pbx","headers":{"x-a":"b"}}`, "transfer +1415 true pbx map[X-A:b]"},
	} {
		r := request("POST", "/calls/"+id+"/"+c.action, writeKey, c.body)
		r.Header.Set("Content-Type", "application/json")
		if w := h.do(r); w.Code != 204 || w.Body.Len() > 0 || h.calls.done[len(h.calls.done)-1] != c.want {
			t.Errorf("%s: %d %s, done %v", c.action, w.Code, w.Body, h.calls.done)
		}
	}
	id = h.up()
	w := h.ask("POST", "/calls/"+id+"/transfer", writeKey, `{"to":"+4860"}`)
	if p := problemIn(t, w); w.Code != 502 || p.Code != 486 || p.Reason != "Busy Here" || p.Rule != "transfer_failed" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	h.expect(h.ask("POST", "/calls/"+id+"/transfer", writeKey, `{"to":"+666"}`), 403)
	for err, status := range map[error]int{
		agent.ErrClosed: 409, agent.ErrStopped: 409, call.ErrNoRecording: 409, call.ErrNotSupported: 501, errStrange: 500,
	} {
		h.calls.err = err
		w := h.ask("POST", "/calls/"+id+"/say", writeKey, `{"text":"x"}`)
		if w.Code != status || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
	if text := h.ask("GET", "/metrics", readKey, "").Body.String(); !strings.Contains(text, `parley_outbound_refused_total{rule="forbidden"} 1`) || !strings.Contains(text, `parley_api_requests_total{code="502",operation="transferCall"} 1`) {
		t.Error("not counted")
	}
}

// What a client has begun goes on without it, but not for ever, and not after the
// server's end.
func TestActionsOutliveTheClient(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(h *harness, leave context.CancelFunc, done chan struct{})
		status int
	}{
		{"the client leaves", func(_ *harness, leave context.CancelFunc, done chan struct{}) { leave(); synctest.Wait(); close(done) }, 204},
		{"it takes too long", func(*harness, context.CancelFunc, chan struct{}) { time.Sleep(actionTimeout) }, 504},
		{"the server ends", func(h *harness, _ context.CancelFunc, _ chan struct{}) { h.server.end() }, 503},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, nil)
			done := make(chan struct{})
			h.calls.wait = func(ctx context.Context) error {
				select {
				case <-done:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			w := newRecorder()
			r := request("POST", "/calls/"+h.up()+"/hold", writeKey, `{}`).WithContext(ctx)
			var wg sync.WaitGroup
			wg.Go(func() { h.handler.ServeHTTP(w, r) })
			synctest.Wait()
			if w.deadline.Before(time.Now().Add(actionTimeout)) {
				t.Errorf("%s: the answer must be written by %v", c.name, w.deadline)
			}
			c.end(h, leave, done)
			wg.Wait()
			if w.Code != c.status {
				t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
			}
		})
	}
}

func TestActionsNeedDeadlines(t *testing.T) {
	for _, change := range []func(*recorderWithDeadlines){
		func(w *recorderWithDeadlines) { w.noRead = true }, func(w *recorderWithDeadlines) { w.noWrite = true },
	} {
		h := newHarness(t, nil)
		w := newRecorder()
		change(w)
		h.handler.ServeHTTP(w, request("POST", "/calls/"+h.up()+"/hold", writeKey, `{}`))
		if w.Code != 500 || len(h.calls.done) > 0 {
			t.Errorf("%d %v", w.Code, h.calls.done)
		}
	}
}

func TestMintToken(t *testing.T) {
	var got string
	h := newHarness(t, func(_ *Config, p *Parts) {
		p.TokenTTL = 10 * time.Minute
		p.Mint = func(subject, audience string, claims map[string]any, ttl time.Duration) (string, error) {
			got = fmt.Sprint(subject, " ", audience, " ", claims, " ", ttl)
			if subject == "fail" {
				return "", errStrange
			}
			return "a.b.c", nil
		}
	})
	w := h.ask("POST", "/token", fullKey, `{"subject":"+14155550123","audience":"shop","ttl_seconds":60,"claims":{"order":"47 11","vip":true,"n":2}}`)
	if got != "+14155550123 shop map[n:2 order:47 11 vip:true] 1m0s" || w.Body.String() != `{"access_token":"a.b.c","token_type":"Bearer","expires_in":60}`+"\n" {
		t.Errorf("%s: %s", got, w.Body)
	}
	if w := h.ask("POST", "/token", fullKey, `{"subject":"ann"}`); !strings.Contains(w.Body.String(), `"expires_in":600`) || !strings.HasSuffix(got, "10m0s") {
		t.Errorf("%s: %s", got, w.Body)
	}
	if w := h.ask("POST", "/token", fullKey, `{"subject":"fail"}`); w.Code != 500 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	h.expect(h.ask("POST", "/token", writeKey, `{"subject":"ann"}`), 403)
}

func TestMethodsAndPathsThatAreNotThere(t *testing.T) {
	h := newHarness(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"PUT", "/calls", 405, "GET, HEAD, POST"},
		{"OPTIONS", "/calls", 405, "GET, HEAD, POST"},
		{"POST", "/calls/x", 405, "GET, HEAD, DELETE"},
		{"GET", "/calls/x/hold", 405, "POST"},
		{"POST", "/metrics", 405, "GET, HEAD"},
		{"GET", "/", 404, ""},
		{"GET", "/calls/x/fly", 404, ""},
		{"GET", "/debug/pprof/", 404, ""},
		{"HEAD", "/calls", 200, ""},
	} {
		w := h.ask(c.method, c.path, fullKey, "")
		if w.Code != c.status || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d %v", c.method, c.path, w.Code, w.Header())
		}
		if c.status >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %v", c.method, c.path, w.Header())
		}
	}
}

// A panic after the answer began cannot be told to the client, but to the log.
func TestLatePanic(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	h := newHarness(t, func(_ *Config, p *Parts) { p.Log = zap.New(core) })
	w := newRecorder()
	h.server.handle(route{name: "x", public: true, serve: func(w http.ResponseWriter, _ *http.Request, _ client) error {
		_, _ = w.Write([]byte("half"))
		panic("late")
	}}).ServeHTTP(w, request("GET", "/x", "", ""))
	if w.Body.String() != "half" || logs.Len() != 1 || !strings.Contains(fmt.Sprint(logs.All()[0].ContextMap()), "late") {
		t.Errorf("%s %v", w.Body, logs.All())
	}
	w = newRecorder()
	h.server.handle(route{name: "x", public: true, serve: func(http.ResponseWriter, *http.Request, client) error { return nil }}).ServeHTTP(w, request("GET", "/x", "", ""))
	if w.Code != 200 {
		t.Error(w.Code)
	}
}

func TestProblemIsAnError(t *testing.T) {
	if err := error(noCall()); err.Error() != "api: no_call: No call has this id, or no more." {
		t.Error(err)
	}
}
