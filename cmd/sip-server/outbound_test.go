package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"parley/call"
	"parley/config"
	"parley/test/phone"
)

// A call is placed over HTTP with a key, through a trunk of the configuration, to the
// agent that was asked for; guardrails and drain refuse others.
func TestCallsArePlacedOverHTTP(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	callee := newPhone(t)
	answered := callee.AnswerAll()

	const key = "0123456789abcdef0123456789abcdef"
	cfg := testConfig(t)
	cfg.API.Listen = "127.0.0.1:" + freeTCP(t)
	cfg.API.Keys = map[string]*config.APIKey{"test": {Key: config.NewSecret(key)}}
	trunk := config.Trunk{SRTP: "off", Region: "US"}
	trunk.Name, trunk.Trunk.Hosts, trunk.Transport = "carrier", []string{callee.Local().String()}, "udp"
	trunk.Expires, trunk.Backoff, trunk.MaxBackoff, trunk.User = 3600e9, 1e9, 1e9, "gw"
	trunk.MaxCalls = 5
	cfg.Trunk = []config.Trunk{trunk}
	second := cfg.Assistant
	cfg.Agents = map[string]*config.Assistant{"second": &second}
	r := launch(t, cfg)

	do := func(method, path, body string, headers ...string) (int, string) {
		req, err := http.NewRequestWithContext(ctx, method, "http://"+cfg.API.Listen+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	login := "Authorization: Bearer " + key

	if code, text := do("POST", "/calls", `{"to": "+12025550123"}`); code != 401 {
		t.Errorf("without a key: %d %s", code, text)
	}
	if code, text := do("POST", "/calls", `{"to": "+4930901820"}`, login); code != 403 || !strings.Contains(text, "international") {
		t.Errorf("abroad: %d %s", code, text)
	}
	if code, text := do("POST", "/calls", `{"to": "+12025550123", "agent": "nobody"}`, login); code < 400 || code >= 500 {
		t.Errorf("no such agent: %d %s", code, text)
	}
	code, text := do("POST", "/calls", `{"to": "202-555-0123", "trunk": "carrier", "agent": "second"}`, login)
	var placed struct{ ID string }
	if err := json.Unmarshal([]byte(text), &placed); code != 202 || err != nil {
		t.Fatalf("%d %s", code, text)
	}
	c := <-answered
	until(t, func() bool {
		st, ok := r.calls.Call(placed.ID)
		return ok && st.State == call.StateAnswered
	})
	st, _ := r.calls.Call(placed.ID)
	if st.Direction != "outbound" || st.Trunk != "carrier" || st.Agent != "second" || st.Called != "+12025550123" {
		t.Errorf("%+v", st)
	}
	if code, text := do("GET", "/trunks", "", login); code != 200 || text != `[{"name":"carrier","state":"unregistered","failures":0}]`+"\n" {
		t.Errorf("%d %s", code, text)
	}
	if code, text := do("GET", "/metrics", "", login); code != 200 || strings.Contains(text, "parley_trunk_registered{") || !strings.Contains(text, `trunk="carrier"`) {
		t.Errorf("%d, the trunk's figures are not as they should be", code)
	}
	until(t, func() bool { return len(c.Log().Marks(phone.Heard)) > 5 })
	if code, text := do("DELETE", "/calls/"+placed.ID, "", login); code >= 300 {
		t.Errorf("hanging up: %d %s", code, text)
	}
	if _, err := c.WaitEnd(ctx); err != nil {
		t.Errorf("no BYE: %v", err)
	}
	until(t, func() bool { return r.calls.Active() == 0 })

	// While a call goes on the server drains and places no more.
	up := dial(t, ctx, r.uri())
	r.signals <- syscall.SIGTERM
	until(t, func() bool { return r.ready() != nil })
	if code, text := do("POST", "/calls", `{"to": "+12025550123"}`, login); code != 503 {
		t.Errorf("while draining: %d %s", code, text)
	}
	if err := up.Hangup(ctx); err != nil {
		t.Error(err)
	}
	r.wait(t)
}
