package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"parley/agent/echo"
	"parley/call"
	"parley/identity"
	"parley/media"
	"parley/media/g711"
	"parley/media/vad"
	"parley/rtp"
	"parley/sip"
	"parley/test/phone"
)

// realCalls are the calls of a gateway with one trunk, which leads to callee.
func realCalls(t *testing.T, callee *phone.Phone, observer call.Observer) *call.Server {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wheels := rtp.DefaultConfig()
	wheels.Addr, wheels.PortMin, wheels.PortMax = netip.MustParseAddr("127.0.0.1"), 0, 0
	wheel, err := rtp.NewWheel(wheels)
	must(err)
	who, err := identity.New(identity.DefaultConfig())
	must(err)
	agent, err := echo.New(echo.DefaultConfig())
	must(err)
	trunk := call.Trunk{Name: "carrier", SIP: sip.DefaultTrunk(), Region: "US"}
	trunk.SIP.Name, trunk.SIP.Hosts, trunk.SIP.User = "carrier", []string{callee.Local().String()}, "+14155550000"
	cfg := call.DefaultConfig()
	cfg.Codecs = []string{"PCMU"}
	calls, err := call.NewServer(cfg, call.Parts{
		Wheel: wheel, Identity: who, Codecs: []media.Codec{g711.PCMU()}, Trunks: []call.Trunk{trunk}, Observer: observer,
		Voice: func(rate int) (vad.Detector, error) { return vad.NewEnergy(vad.DefaultEnergyConfig(rate)) },
		Route: func(call.Request) (call.Routed, bool) {
			return call.Routed{Route: "all", Agent: "echo", Opener: agent}, true
		},
	})
	must(err)
	signalling := sip.DefaultConfig()
	signalling.Listen = []sip.Listener{{Network: "udp", Addr: "127.0.0.1:0"}}
	server, err := sip.NewServer(signalling, nil)
	must(err)
	must(server.Listen())
	calls.Use(server)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, calls.Handle) }()
	t.Cleanup(func() {
		now, done := context.WithCancel(context.Background())
		done()
		calls.Shutdown(now)
		stop()
		must(<-served)
		must(calls.Close())
		must(wheel.Close())
	})
	return calls
}

// Over the gateway's own calls and a telephone: a call that is busy says so exactly,
// one that is answered is watched, held, resumed, given keys, and ended.
func TestOverRealCalls(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	callee, err := phone.New(phone.Config{Number: "+14155550123"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { callee.Close() }()
	h := newHarness(t, nil)
	calls := realCalls(t, callee, h.server.parts.Metrics)
	h.server.parts.Calls = calls
	h.handler = h.server.Handler()
	web := httptest.NewServer(h.handler)
	defer web.Close()

	place := func(number string) string {
		t.Helper()
		w := h.ask("POST", "/calls", writeKey, `{"to":"`+number+`","ring_timeout_seconds":20}`)
		if w.Code != 202 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return strings.TrimPrefix(w.Header().Get("Location"), "/calls/")
	}
	// watch reads a call's stream until an event is there, or to its end.
	watch := func(id, until string) (text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, "GET", web.URL+"/calls/"+id+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+readKey)
		resp, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			text += lines.Text() + "\n"
			if strings.Contains(lines.Text(), until) && until != "" {
				break
			}
		}
		events, _ := readStream(text)
		checkStream(t, events)
		return text
	}

	callee.Answer(func(i *phone.Incoming) {
		i.Ring()
		i.Refuse(486, "Busy Here", phone.Header{Name: "Reason", Value: `Q.850;cause=17;text="User busy"`})
	})
	id := place("+1 (415) 555-0123")
	text := watch(id, "")
	if !strings.Contains(text, `"reason":"failed","code":486,"q850":17`) || !strings.Contains(text, `"text":"busy","reason":"ended","code":486,"q850":17`) || !strings.Contains(text, `{"reason":"call_ended"}`) || !strings.Contains(text, `"reason":"ringing"`) {
		t.Errorf("a busy call: %s", text)
	}
	if w := h.ask("GET", "/calls/"+id, readKey, ""); !strings.Contains(w.Body.String(), `"cause":"busy","code":486`) || !strings.Contains(w.Body.String(), `"q850":17`) {
		t.Errorf("a busy call: %s", w.Body)
	}

	w := h.ask("POST", "/calls", writeKey, `{"targets":[{"to":"+14155550123"},{"to":"+14155550124","trunk":"carrier"}],"strategy":"serial"}`)
	h.expect(w, 202)
	id = strings.TrimPrefix(w.Header().Get("Location"), "/calls/")
	if text = watch(id, ""); strings.Count(text, `"reason":"target_failed","code":486,"q850":17`) != 2 {
		t.Errorf("two that are busy: %s", text)
	}
	if w := h.ask("GET", "/calls/"+id, readKey, ""); !strings.Contains(w.Body.String(), `"attempts":[{"to":"+14155550123","trunk":"carrier","cause":"busy","code":486,"reason":"User busy","q850":17},{"to":"+14155550124"`) {
		t.Errorf("two that are busy: %s", w.Body)
	}

	answered := callee.AnswerAll()
	id = place("+14155550123")
	<-answered
	watch(id, `"reason":"answered"`)
	if ids, _ := pageIn(t, h.ask("GET", "/calls?state=answered&trunk=carrier&called=+14155550123", readKey, "")); len(ids) != 1 || ids[0] != id {
		t.Errorf("calls: %v", ids)
	}
	if w := h.ask("GET", "/calls/"+id, readKey, ""); !strings.Contains(w.Body.String(), `"setup_ns":`) || strings.Contains(w.Body.String(), `"setup_ns":0,`) {
		t.Errorf("how long it took to answer is known by now: %s", w.Body)
	}
	for _, c := range []struct {
		action, body string
		status       int
		state        string
	}{
		{"hold", `{}`, 204, `"state":"held"`},
		{"resume", `{}`, 204, `"state":"answered"`},
		{"dtmf", `{"digits":"1#"}`, 204, `"state":"answered"`},
		{"say", `{"text":"hello"}`, 501, `"state":"answered"`}, // an echo has no voice
		{"record", `{"on":true}`, 409, `"state":"answered"`},
		{"transfer", `{"to":"+4930901820"}`, 403, `"state":"answered"`},
	} {
		if w := h.ask("POST", "/calls/"+id+"/"+c.action, writeKey, c.body); w.Code != c.status {
			t.Errorf("%s: %d %s", c.action, w.Code, w.Body)
		}
		if w := h.ask("GET", "/calls/"+id, readKey, ""); !strings.Contains(w.Body.String(), c.state) {
			t.Errorf("%s: %s", c.action, w.Body)
		}
	}
	h.expect(h.ask("DELETE", "/calls/"+id, writeKey, ""), 204)
	text = watch(id, "")
	for _, want := range []string{`"reason":"held"`, `"reason":"resumed"`, `"text":"operator hung up","reason":"ended"`, `{"reason":"call_ended"}`} {
		if !strings.Contains(text, want) {
			t.Errorf("the stream has no %s: %s", want, text)
		}
	}
	if w := h.ask("POST", "/calls", writeKey, `{"to":"+4930901820"}`); w.Code != 403 || problemIn(t, w).Rule != "guard_international" {
		t.Errorf("abroad: %d %s", w.Code, w.Body)
	}
	calls.Drain(true)
	h.expect(h.ask("POST", "/calls", writeKey, `{"to":"+14155550123"}`), 503)
	figures := h.ask("GET", "/metrics", readKey, "").Body.String()
	for _, want := range []string{
		"parley_outbound_calls_total 3", `parley_outbound_failures_total{cause="busy",code="486"} 2`,
		`parley_outbound_refused_total{rule="guard_international"} 2`, `parley_outbound_refused_total{rule="draining"} 1`,
	} {
		if !strings.Contains(figures, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		fmt.Println(figures)
	}
}
