package main

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/call"
	"parley/config"
	"parley/test/phone"
)

// registrar is a registrar on loopback that takes whoever proves a password, or
// refuses everybody.
type registrar struct {
	conn   *net.UDPConn
	refuse int
	seen   chan string // the Expires of REGISTERs that had credentials, or were refused
}

func newRegistrar(t *testing.T, refuse int) *registrar {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &registrar{conn: conn, refuse: refuse, seen: make(chan string, 64)}
	done := make(chan struct{})
	go func() { defer close(done); r.serve() }()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return r
}

func (r *registrar) serve() {
	buf := make([]byte, 65536)
	for {
		n, from, err := r.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		m, err := phone.ParseMessage(buf[:n])
		if err != nil || m.Method != "REGISTER" {
			continue // keep-alives
		}
		status := "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\",nonce=\"n\",qop=\"auth\",algorithm=SHA-256"
		switch {
		case r.refuse != 0:
			status = fmt.Sprintf("%d No", r.refuse)
			r.seen <- m.Get("Expires")
		case strings.Contains(m.Get("Authorization"), `username="gw"`):
			status = "200 OK\r\nContact: " + m.Get("Contact")
			r.seen <- m.Get("Expires")
		}
		text := "SIP/2.0 " + status + "\r\nVia: " + m.Get("Via") + "\r\nFrom: " + m.Get("From") + "\r\nTo: " + m.Get("To") +
			";tag=r\r\nCall-ID: " + m.Get("Call-ID") + "\r\nCSeq: " + m.Get("CSeq") + "\r\nContent-Length: 0\r\n\r\n"
		_, _ = r.conn.WriteToUDPAddrPort([]byte(text), from)
	}
}

func (r *registrar) trunk(name string) config.Trunk {
	c := config.Trunk{Register: true, SRTP: "off", Password: config.NewSecret("secret")}
	c.Name, c.Trunk.Hosts, c.User, c.Transport = name, []string{r.conn.LocalAddr().String()}, "gw", "udp"
	c.Expires, c.Backoff, c.MaxBackoff = time.Hour, time.Minute, time.Hour
	return c
}

// A registration stands, one fails: both are shown. A call by the first carries its
// name. A signal takes the registration back while the call goes on (BR-179).
func TestTrunks(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	good, bad := newRegistrar(t, 0), newRegistrar(t, 403)
	cfg := testConfig(t)
	cfg.API.Listen = "127.0.0.1:" + freeTCP(t)
	cfg.Call.EventsDir = t.TempDir()
	cfg.Trunk = []config.Trunk{good.trunk("carrier"), bad.trunk("other")}
	r := launch(t, cfg)
	get := func(path string) string {
		resp, err := http.Get("http://" + cfg.API.Listen + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if e := receive(t, good.seen); e != "3600" {
		t.Errorf("registered for %s s", e)
	}
	receive(t, bad.seen)
	until(t, func() bool {
		list := get("/trunks")
		return strings.Contains(list, `"name":"carrier","state":"registered"`) && strings.Contains(list, `"name":"other","state":"failed"`)
	})
	if list := get("/trunks"); !strings.Contains(list, "answered 403") || !strings.Contains(list, `"since"`) || strings.Contains(list, "secret") {
		t.Error(list)
	}
	text := get("/metrics")
	for _, want := range []string{
		`parley_trunk_registered{trunk="carrier"} 1`, `parley_trunk_registered{trunk="other"} 0`,
		`parley_trunk_registration_failures_total{trunk="carrier"} 0`, `parley_trunk_registration_failures_total{trunk="other"} 1`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("missing %s", want)
		}
	}

	c := dial(t, ctx, r.uri()) // from the registrar's address
	r.signals <- syscall.SIGTERM
	if e := receive(t, good.seen); e != "0" {
		t.Errorf("registered for %s s while draining", e)
	}
	until(t, func() bool { return strings.Contains(get("/trunks"), `"name":"carrier","state":"closed"`) })
	if err := c.Hangup(ctx); err != nil {
		t.Error(err)
	}
	r.wait(t)
	if record := onlyRecord(t, cfg.Call.EventsDir); record.Trunk != "carrier" {
		t.Errorf("the record's trunk is %q", record.Trunk)
	}
}

// A registrar that has gone away does not keep the server from ending.
func TestTheEndDoesNotWaitForADeadRegistrar(t *testing.T) {
	dead := newRegistrar(t, 0)
	cfg := testConfig(t)
	cfg.Trunk = []config.Trunk{dead.trunk("carrier")}
	r := launch(t, cfg)
	receive(t, dead.seen)
	until(t, func() bool { return r.trunks()[0].State == "registered" })
	_ = dead.conn.Close()
	began := time.Now()
	r.signals <- syscall.SIGTERM
	r.wait(t)
	if took := time.Since(began); took > unregisterPatience+5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func receive(t *testing.T, c <-chan string) string {
	t.Helper()
	select {
	case s := <-c:
		return s
	case <-time.After(patience):
		t.Fatal("no REGISTER")
		return ""
	}
}

// onlyRecord is the record of the one call there was.
func onlyRecord(t *testing.T, dir string) call.Record {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var r call.Record
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Callers are asked, refused and let in, and neither an agent nor a port is taken
// for those who are not.
func TestCallersProveWhoTheyAre(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg := testConfig(t)
	cfg.API.Listen = "127.0.0.1:" + freeTCP(t)
	cfg.Auth.Required = "always"
	cfg.Auth.Users = map[string]*config.User{"alice": {Password: config.NewSecret("secret")}}
	r := launch(t, cfg)

	asked := refused(t, ctx, r.uri(), 401)
	challenges := strings.SplitAfter(strings.Join(asked.All("WWW-Authenticate"), ","), "algorithm=SHA-256,") // All splits at commas
	if len(challenges) != 2 || !strings.Contains(challenges[0], "SHA-256") || !strings.Contains(challenges[1], "MD5") {
		t.Fatalf("%q", challenges)
	}
	refused(t, ctx, r.uri(), 401, answered(challenges[0], r.uri(), "alice", "guess", 1))
	refused(t, ctx, r.uri(), 401, answered(challenges[0], r.uri(), "mallory", "", 1))
	if s := r.wheel.Stats(); s.PortsInUse+s.PortsQuarantined != 0 || r.calls.Active() != 0 {
		t.Errorf("ports %d and %d, calls %d", s.PortsInUse, s.PortsQuarantined, r.calls.Active())
	}
	for i, challenge := range challenges { // both have one nonce, whose counts are good once
		c, err := newPhone(t).Dial(ctx, r.uri(), answered(challenge, r.uri(), "alice", "secret", i+1))
		if err != nil {
			t.Fatalf("%s: %v", challenge, err)
		}
		if err := c.Hangup(ctx); err != nil {
			t.Error(err)
		}
	}
	refused(t, ctx, r.uri(), 401, answered(challenges[0], r.uri(), "alice", "secret", 2))
	resp, err := http.Get("http://" + cfg.API.Listen + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for _, want := range []string{`parley_calls_refused_total{code="401",rule="credentials"}`, `parley_calls_refused_total{code="401",rule="password"} 2`} {
		if !strings.Contains(string(text), "\n"+want) {
			t.Errorf("missing %s", want)
		}
	}
}

// With the gate shut for everybody a call is refused for good.
func TestNobodyMayCall(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg := testConfig(t)
	cfg.Auth.Required = "always" // Load would not have it without users
	r := launch(t, cfg)
	m := refused(t, ctx, r.uri(), 403)
	if w := m.Get("Warning"); !strings.HasPrefix(w, "399 ") {
		t.Errorf("Warning %q", w)
	}
}

// refused places a call and returns the refusal, which must be of that code.
func refused(t *testing.T, ctx context.Context, uri string, code int, extra ...phone.Header) *phone.Message {
	t.Helper()
	_, err := newPhone(t).Dial(ctx, uri, extra...)
	status, ok := errors.AsType[*phone.StatusError](err)
	if !ok || status.Code != code {
		t.Fatalf("%v, want %d", err, code)
	}
	return status.Response
}

var quoted = regexp.MustCompile(`(\w+)="?([^",]+)"?`)

// answered is the Authorization for a challenge (RFC 7616), written here once more.
func answered(challenge, uri, user, password string, count int) phone.Header {
	c := map[string]string{}
	for _, m := range quoted.FindAllStringSubmatch(challenge, -1) {
		c[m[1]] = m[2]
	}
	algorithm := "MD5"
	hash := func(s string) string { return fmt.Sprintf("%x", md5.Sum([]byte(s))) }
	if strings.Contains(challenge, "SHA-256") {
		algorithm = "SHA-256"
		hash = func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	}
	nc := fmt.Sprintf("%08x", count)
	response := hash(strings.Join([]string{hash(user + ":" + c["realm"] + ":" + password), c["nonce"], nc, "abc", "auth", hash("INVITE:" + uri)}, ":"))
	return phone.Header{Name: "Authorization", Value: fmt.Sprintf(
		`Digest username=%q, realm=%q, nonce=%q, uri=%q, response=%q, algorithm=%s, qop=auth, nc=%s, cnonce="abc"`,
		user, c["realm"], c["nonce"], uri, response, algorithm, nc)}
}
