package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/call"
)

// operation is a request that is right.
type operation struct{ method, path, body string }

// rightRequests has one right request for each operation that needs a login. %s is
// the id of a call that is up.
var rightRequests = []operation{
	{"GET", "/metrics", ""},
	{"GET", "/trunks", ""},
	{"GET", "/calls", ""},
	{"POST", "/calls", `{"to":"+14155550123"}`},
	{"GET", "/calls/%s", ""},
	{"GET", "/calls/%s/events", ""},
	{"POST", "/calls/%s/hold", `{}`},
	{"POST", "/calls/%s/resume", `{}`},
	{"POST", "/calls/%s/dtmf", `{"digits":"12#"}`},
	{"POST", "/calls/%s/say", `{"text":"Hello."}`},
	{"POST", "/calls/%s/record", `{"on":true}`},
	{"POST", "/calls/%s/transfer", `{"to":"+14155550199"}`},
	{"DELETE", "/calls/%s", ""},
	{"POST", "/token", `{"subject":"+14155550123"}`},
}

// withMint lets tokens be minted.
func withMint(_ *Config, p *Parts) {
	p.Mint = func(subject, _ string, _ map[string]any, ttl time.Duration) (string, error) {
		return "token for " + subject + " " + ttl.String(), nil
	}
}

// up is a call that is up.
func (h *harness) up() string {
	return h.calls.add(call.Status{Direction: "inbound", State: call.StateAnswered, Caller: "+14155550100", Called: "100"})
}

// Every operation gives every status that is described for it, each answer is as
// described, and none gives another. The rows below are what brings it about.
func TestEveryOperationGivesEveryStatusDescribed(t *testing.T) {
	seen := map[string]bool{}
	merge := func(h *harness) { maps.Copy(seen, h.seen) }

	for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml", "/openapi.json"} {
		h := newHarness(t, nil)
		h.expect(h.ask("GET", path, "", ""), 200)
		merge(h)
	}
	h := newHarness(t, func(_ *Config, p *Parts) { p.Ready = func() error { return errors.New("draining") } })
	h.expect(h.ask("GET", "/readyz", "", ""), 503)
	merge(h)

	for _, op := range rightRequests {
		write := op.method != "GET"
		good := 200
		switch {
		case op.path == "/calls" && write:
			good = 202
		case op.path != "/token" && write:
			good = 204
		}
		rows := []struct {
			status int
			when   string
			change func(*Config, *Parts)
			prime  func(*harness)
			alter  func(*http.Request)
			id     string
		}{
			{status: good, when: "all is well"},
			{status: 401, when: "no login", alter: func(r *http.Request) { r.Header.Del("Authorization") }},
			{status: 403, when: "another scope", alter: func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+other(op)) }},
			{status: 429, when: "too fast", change: func(c *Config, _ *Parts) { c.RateBurst = 1 }, prime: func(h *harness) { h.ask("GET", "/trunks", fullKey, "") }},
			{status: 500, when: "a panic", change: func(_ *Config, p *Parts) {
				p.Metrics = NewMetrics(Sources{Trunks: func() []Trunk { panic("x") }})
				p.Mint = func(string, string, map[string]any, time.Duration) (string, error) { panic("x") }
			}, prime: func(h *harness) { h.calls.panics = true }},
			{status: 501, when: "no such part", change: func(_ *Config, p *Parts) { p.Calls, p.Mint = nil, nil }},
			{status: 404, when: "no such call", id: "0123456789abcdef"},
			{status: 400, when: "a wrong body or query", alter: func(r *http.Request) { spoil(r) }},
			{status: 413, when: "a large body", alter: func(r *http.Request) {
				r.Body = body(`{"x":"` + strings.Repeat("y", maxBody) + `"}`)
			}},
			{status: 415, when: "no JSON", alter: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }},
			{status: 409, when: "not in that state", prime: func(h *harness) { h.calls.err = call.ErrState }},
			{status: 503, when: "draining", prime: func(h *harness) { h.calls.err = call.ErrDraining }},
			{status: 504, when: "too late", prime: func(h *harness) { h.calls.err = context.DeadlineExceeded }},
		}
		for _, row := range rows {
			key := op.method + " " + strings.ReplaceAll(op.path, "%s", "{id}")
			if !describesStatus(t, key, row.status) {
				continue
			}
			if row.status == 503 && op.path == "/metrics" {
				continue // below
			}
			h := newHarness(t, func(c *Config, p *Parts) {
				withMint(c, p)
				if row.change != nil {
					row.change(c, p)
				}
			})
			id := h.up()
			if strings.HasSuffix(op.path, "/events") && row.status == 200 {
				id = h.over()
			}
			if row.id != "" {
				id = row.id
			}
			if row.prime != nil {
				row.prime(h)
			}
			r := request(op.method, strings.ReplaceAll(op.path, "%s", id), fullKey, op.body)
			if row.alter != nil {
				row.alter(r)
			}
			w := h.do(r)
			if w.Code != row.status {
				t.Errorf("%s: %s: %d %s, want %d", key, row.when, w.Code, w.Body, row.status)
			}
			merge(h)
		}
	}

	h = newHarness(t, nil)
	keyed := func(body string) *http.Request {
		r := request("POST", "/calls", fullKey, body)
		r.Header.Set("Idempotency-Key", "k")
		return r
	}
	h.expect(h.do(keyed(`{"to":"+14155550123"}`)), 202)
	h.expect(h.do(keyed(`{"to":"+14155550124"}`)), 422)
	h.expect(h.ask("POST", "/calls/"+h.up()+"/transfer", fullKey, `{"to":"+4860"}`), 502)
	merge(h)
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		h := newHarness(t, func(_ *Config, p *Parts) {
			p.Metrics = NewMetrics(Sources{Active: func() int { <-leave; return 0 }})
		})
		h.expect(h.ask("GET", "/metrics", fullKey, ""), 503)
		close(leave)
		merge(h)
	})

	d := describe(t)
	for key, at := range d.operations() {
		for _, code := range d.names(at + "/responses") {
			n, err := strconv.Atoi(code)
			if err != nil || !seen[key+" "+http.StatusText(n)] {
				t.Errorf("%s: %s is described and was not seen", key, code)
			}
		}
	}
}

// expect fails unless the answer has the status.
func (h *harness) expect(w *httptest.ResponseRecorder, status int) {
	h.t.Helper()
	if w.Code != status {
		h.t.Errorf("%d %s, want %d", w.Code, w.Body, status)
	}
}

// over is a call that is over.
func (h *harness) over() string {
	id := h.up()
	if err := h.calls.HangUp(id, "caller hung up"); err != nil {
		h.t.Fatal(err)
	}
	return id
}

// other is a key that is good for something else.
func other(op operation) string {
	if op.method == "GET" {
		return writeKey
	}
	return readKey
}

// spoil makes the request wrong.
func spoil(r *http.Request) {
	if r.Method == "GET" {
		r.URL.RawQuery = "nonsense=1"
		return
	}
	r.Body = body(`{"nonsense":1}`)
}

func describesStatus(t *testing.T, key string, status int) bool {
	t.Helper()
	d := describe(t)
	at, ok := d.operations()[key]
	if !ok {
		t.Fatalf("%s is not described", key)
	}
	node, _ := d.at(at + "/responses/" + strconv.Itoa(status))
	return node != nil
}

func TestRightRequestsAreAllThereAre(t *testing.T) {
	var there, tried []string
	for _, r := range newHarness(t, nil).server.routes() {
		if !r.public {
			there = append(there, r.method+" "+r.path)
		}
	}
	for _, op := range rightRequests {
		tried = append(tried, op.method+" "+strings.ReplaceAll(op.path, "%s", "{id}"))
	}
	slices.Sort(there)
	slices.Sort(tried)
	if !slices.Equal(there, tried) {
		t.Errorf("there are %v, tried are %v", there, tried)
	}
}
