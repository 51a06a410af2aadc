package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"parley/config"
	"parley/sip"
	"parley/test/phone"
)

// patience bounds every wait of these tests; none is expected to take long.
const patience = 20 * time.Second

// testConfig is a server that echoes, on free ports of loopback.
func testConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Load("", []string{
		"PARLEY_SIP_LISTEN=udp://127.0.0.1:0,tcp://127.0.0.1:0", "PARLEY_RTP_ADDRESS=127.0.0.1", "PARLEY_RTP_PORTS=40000-40099",
		"PARLEY_RTP_QUARANTINE=0s", "PARLEY_CALL_MAX_CALLS=10",
		"PARLEY_LLM_PROVIDER=echo", "PARLEY_VAD_KIND=energy", "PARLEY_API_LISTEN=127.0.0.1:0", "PARLEY_SERVER_DRAIN_TIMEOUT=1h",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.RTP.Ports = "" // an empty variable would not count as set
	return cfg
}

// running is a gateway under test.
type running struct {
	*gateway
	signals chan os.Signal
	done    chan error
}

// launch starts a gateway; its end is checked for leaks.
func launch(t *testing.T, cfg *config.Config) *running {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	g, err := newGateway(cfg, zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)))
	if err != nil {
		t.Fatal(err)
	}
	r := &running{gateway: g, signals: make(chan os.Signal, 2), done: make(chan error, 1)}
	go func() {
		defer close(r.done)
		if err := g.run(context.Background(), r.signals); err != nil {
			r.done <- err
		}
	}()
	until(t, func() bool { return g.phase.Load() == serving })
	t.Cleanup(func() {
		for range cap(r.signals) { // the first drains, the second ends the calls
			select {
			case r.signals <- syscall.SIGTERM:
			default:
			}
		}
		r.wait(t)
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, leaks)
	})
	return r
}

// wait waits for the gateway's end.
func (r *running) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.done:
		if err != nil {
			t.Errorf("run: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the gateway does not end")
	}
}

func (r *running) uri() string { return "sip:hello@" + r.sip.Addrs()[0].Addr.String() }

// dial places a call that is up when dial returns.
func dial(t *testing.T, ctx context.Context, uri string) *phone.Call {
	t.Helper()
	p := newPhone(t)
	c, err := p.Dial(ctx, uri)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newPhone(t *testing.T) *phone.Phone {
	t.Helper()
	p, err := phone.New(phone.Config{Number: "+12025550143", T1: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestASignalEndsAnIdleGateway(t *testing.T) {
	r := launch(t, testConfig(t))
	r.signals <- syscall.SIGTERM
	r.wait(t)
	if err := r.ready(); !errors.Is(err, errDraining) {
		t.Errorf("ready: %v", err)
	}
}

func TestDrainLetsCallsEndByThemselves(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := launch(t, testConfig(t))
	c := dial(t, ctx, r.uri())
	r.signals <- syscall.SIGTERM
	until(t, func() bool { return errors.Is(r.ready(), errDraining) })

	// A new call is refused and told when to come back.
	_, err := newPhone(t).Dial(ctx, r.uri())
	if status, ok := errors.AsType[*phone.StatusError](err); !ok || status.Code != 503 {
		t.Errorf("a call while draining: %v", err)
	}
	// The one that is up goes on, also inside its dialog.
	if err := c.Hold(ctx); err != nil {
		t.Errorf("hold while draining: %v", err)
	}
	select {
	case err := <-r.done:
		t.Fatalf("the gateway did not wait for the call: %v", err)
	default:
	}
	if err := c.Hangup(ctx); err != nil {
		t.Errorf("hang up: %v", err)
	}
	r.wait(t)
}

func TestDrainEndsCallsWithByeAfterItsTimeout(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg := testConfig(t)
	cfg.Server.DrainTimeout = 100 * time.Millisecond
	r := launch(t, cfg)
	c := dial(t, ctx, r.uri())
	r.signals <- syscall.SIGINT
	if _, err := c.WaitEnd(ctx); err != nil {
		t.Errorf("no BYE: %v", err)
	}
	r.wait(t)
}

func TestASecondSignalEndsCallsAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := launch(t, testConfig(t))
	c := dial(t, ctx, r.uri())
	r.signals <- syscall.SIGTERM
	r.signals <- syscall.SIGTERM
	if _, err := c.WaitEnd(ctx); err != nil {
		t.Errorf("no BYE: %v", err)
	}
	r.wait(t)
}

func TestReadinessAndMetrics(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg := testConfig(t)
	cfg.Call.MaxCalls = 1
	cfg.API.Listen = "127.0.0.1:" + freeTCP(t)
	r := launch(t, cfg)
	until(t, func() bool { return r.ready() == nil })

	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + cfg.API.Listen + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode, string(body)
	}
	if code, body := get("/readyz"); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	c := dial(t, ctx, r.uri())
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "at the limit of 1 calls") {
		t.Errorf("at the limit: %d %s", code, body)
	}
	_, err := newPhone(t).Dial(ctx, r.uri())
	if status, ok := errors.AsType[*phone.StatusError](err); !ok || status.Code != 503 {
		t.Errorf("a call beyond the limit: %v", err)
	}
	if err := c.Hangup(ctx); err != nil {
		t.Error(err)
	}
	until(t, func() bool { return r.ready() == nil })
	until(t, func() bool {
		_, text := get("/metrics")
		return strings.Contains(text, `parley_calls_ended_total{cause="caller_hung_up"} 1`)
	})
	_, text := get("/metrics")
	for _, want := range []string{
		`parley_calls_started_total{codec="pcmu"} 1`, `parley_calls_refused_total{code="503",rule="max_calls"} 1`,
		`parley_calls_active 0`, `parley_calls_limit 1`, `parley_ready 1`, `parley_sip_requests_total{method="INVITE"}`, `parley_wheel_turns_total`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("missing %s", want)
		}
	}
	r.signals <- syscall.SIGTERM
	r.wait(t)
}

func TestAnAddressThatIsTakenEndsTheStart(t *testing.T) {
	r := launch(t, testConfig(t))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := dial(t, ctx, r.uri()) // all goroutines have started when a call is up
	if err := c.Hangup(ctx); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return r.calls.Active() == 0 })
	for name, change := range map[string]func(*config.Config){
		"sip": func(c *config.Config) { c.SIP.Listen = []string{"udp://" + r.sip.Addrs()[0].Addr.String()} },
		"api": func(c *config.Config) { c.API.Listen = takenTCP(t) },
	} {
		leaks := goleak.IgnoreCurrent()
		cfg := testConfig(t)
		change(cfg)
		if _, err := newGateway(cfg, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", name, err)
		}
		goleak.VerifyNone(t, leaks)
	}
	r.signals <- syscall.SIGTERM
	r.wait(t)
}

func TestDialHints(t *testing.T) {
	local := netip.MustParseAddr("192.0.2.7")
	bound := func(network, addr string) sip.Bound {
		return sip.Bound{Network: network, Addr: netip.MustParseAddrPort(addr)}
	}
	for _, c := range []struct {
		bound     []sip.Bound
		advertise []string
		want      string
	}{
		{[]sip.Bound{bound("udp", "0.0.0.0:5060"), bound("tcp", "0.0.0.0:5060"), bound("ws", "0.0.0.0:80")}, nil, "Dial sip:hello@192.0.2.7:5060 in a softphone (udp, tcp)."},
		{[]sip.Bound{bound("udp", "127.0.0.1:5070")}, []string{""}, "Dial sip:hello@127.0.0.1:5070 in a softphone (udp)."},
		{[]sip.Bound{bound("udp", "[::1]:5060")}, nil, "Dial sip:hello@[::1]:5060 in a softphone (udp)."},
		{[]sip.Bound{bound("udp", "10.0.0.1:5060")}, []string{"sip.example.com"}, "Dial sip:hello@sip.example.com in a softphone (udp)."},
		{[]sip.Bound{bound("udp", "10.0.0.1:5060"), bound("tcp", "10.0.0.1:5061")}, nil,
			"Dial sip:hello@10.0.0.1:5060 in a softphone (udp).\nDial sip:hello@10.0.0.1:5061 in a softphone (tcp)."},
	} {
		if got := strings.Join(dialHints(c.bound, c.advertise, local), "\n"); got != c.want {
			t.Errorf("got %s\nwant %s", got, c.want)
		}
	}
	if a := localAddr(); !a.Is4() {
		t.Errorf("local address %v", a)
	}
}

// until waits for cond.
func until(t *testing.T, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not happen")
		}
	}
}

func freeTCP(t *testing.T) string {
	t.Helper()
	addr := netip.MustParseAddrPort(listenTCP(t, true))
	return fmt.Sprint(addr.Port())
}

func takenTCP(t *testing.T) string { return listenTCP(t, false) }
