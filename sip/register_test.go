package sip

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

const (
	challengeA = `WWW-Authenticate: Digest realm="example.com",nonce="A",algorithm=MD5,qop="auth"`
	challengeB = "WWW-Authenticate: Digest realm=\"example.com\",\r\n nonce=\"B\",algorithm=MD5,qop=\"auth\"" // folded, BR-042
	challengeC = `WWW-Authenticate: Digest realm="example.com",nonce="C",stale=TRUE,algorithm=MD5,qop="auth,auth-int"`
)

func register(t *testing.T, b *bench, trunk Trunk) *Registration {
	t.Helper()
	r, err := b.Register(trunk)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func leave(t *testing.T, r *Registration) chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- r.Close(context.Background()) }()
	return result
}

// BR-072, BR-042, BR-075: the nonce of the last time is used again with the next
// count; a new one is taken up whether it is called stale or not.
func TestRegister(t *testing.T) {
	t.Parallel()
	b := start(t, quiet)
	p := listenPhone(t)
	r := register(t, b, trunkTo(p.addr))

	first := p.fresh("REGISTER")
	if first.start != "REGISTER sip:example.com SIP/2.0" || !strings.HasPrefix(first.get("From"), "<sip:gw1@example.com>;tag=") ||
		first.get("To") != "<sip:gw1@example.com>" || first.get("Authorization") != "" || first.get("Expires") != "3600" {
		t.Errorf("first:\n%s", first.raw)
	}
	contact := first.get("Contact")
	own, err := ParseAddress(contact)
	if err != nil || own.URI.User != "gw1" || own.URI.Host != "127.0.0.1" || own.URI.Port != int(b.udp.Port()) || own.URI.Params["line"] == "" {
		t.Errorf("Contact %q", contact)
	}
	p.respond(first, 401, "r", "", challengeA)
	second := p.fresh("REGISTER")
	if nonce, count := proves(t, second, "Authorization", "example.com", "gw1", "secret"); nonce != "A" || count != "00000001" {
		t.Errorf("nonce %s count %s", nonce, count)
	}
	if second.get("Call-ID") != first.get("Call-ID") || second.get("From") != first.get("From") || second.get("CSeq") != "2 REGISTER" {
		t.Errorf("second:\n%s", second.raw)
	}
	// Another device comes first and lasts longer; Expires is not ours either.
	others := []string{"Contact: <sip:gw1@192.0.2.1:5060>;expires=3600, " + contact[:strings.Index(contact, ">")+1] + ";expires=1", "Expires: 1800"}
	p.respond(second, 200, "r", "", others...)
	eventually(t, "registered", func() bool { return r.State().Registered })
	st := r.State()
	if left := time.Until(st.Expires); left > time.Second || st.Code != 200 || st.Registrar != p.addr || st.Err != nil || !strings.Contains(contact, st.Contact) {
		t.Errorf("state %+v", st)
	}
	if n := b.logs.FilterMessage("sip: registered").Len(); n != 1 {
		t.Errorf("%d log lines", n)
	}

	refresh := p.fresh("REGISTER")
	if nonce, count := proves(t, refresh, "Authorization", "example.com", "gw1", "secret"); nonce != "A" || count != "00000002" {
		t.Errorf("nonce %s count %s", nonce, count)
	}
	if time.Now().After(st.Expires) {
		t.Error("refreshed too late")
	}
	p.respond(refresh, 401, "r", "", challengeB) // not called stale
	again := p.fresh("REGISTER")
	if nonce, count := proves(t, again, "Authorization", "example.com", "gw1", "secret"); nonce != "B" || count != "00000001" {
		t.Errorf("nonce %s count %s", nonce, count)
	}
	p.respond(again, 401, "r", "", challengeC)
	last := p.fresh("REGISTER")
	if nonce, count := proves(t, last, "Authorization", "example.com", "gw1", "secret"); nonce != "C" || count != "00000001" {
		t.Errorf("nonce %s count %s", nonce, count)
	}
	p.respond(last, 200, "r", "", others...)
	eventually(t, "refreshed", func() bool { return r.State().Attempts == 2 && r.State().Code == 200 })

	result := leave(t, r)
	bye := p.fresh("REGISTER")
	if !strings.HasSuffix(bye.get("Contact"), ";expires=0") || bye.get("Expires") != "0" {
		t.Errorf("unregister:\n%s", bye.raw)
	}
	p.respond(bye, 200, "r", "")
	if err := wait(t, result, "Close"); err != nil {
		t.Error(err)
	}
	if r.State().Registered || len(b.Registrations()) != 0 {
		t.Error("still registered")
	}
}

func TestRegisterRefusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		answers [][]string // status and headers, for one round
		err     string
		code    int
		change  func(*Trunk)
	}{
		{"wrong password", [][]string{{"401", challengeA}, {"401", challengeB}, {"401", challengeA}}, `realm "example.com" refused the password of "gw1"`, 401, nil},
		{"same nonce again", [][]string{{"401", challengeA}, {"401", challengeA}}, "refused the password", 401, nil},
		{"endless stale", [][]string{{"401", challengeC}, {"401", challengeC}, {"401", challengeC}}, "refused the password", 401, nil},
		{"no challenge", [][]string{{"401"}}, "401 without a challenge", 401, nil},
		{"unknown algorithm", [][]string{{"401", `WWW-Authenticate: Digest realm="example.com",nonce="A",algorithm=AKAv1-MD5`}}, "without a challenge", 401, nil},
		{"another realm", [][]string{{"401", challengeA}}, `realm "example.com" is not among`, 401, func(t *Trunk) { t.Realms = []string{"asterisk"} }},
		{"no password", [][]string{{"407", "Proxy-" + challengeA[4:]}}, "the trunk has none", 407, func(t *Trunk) { t.Password = "" }},
		{"zero grant", [][]string{{"200", "Contact: <sip:gw1@192.0.2.1>;expires=60, <sip:gw1@127.0.0.1;line=LINE>;expires=0"}}, "granted no time", 200, nil},
		{"interval, twice", [][]string{{"423", "Min-Expires: 7200"}, {"423", "Min-Expires: 9000"}}, "answered 423", 423, nil},
		{"interval without header", [][]string{{"423"}}, "answered 423", 423, nil},
		{"forbidden", [][]string{{"403"}}, "answered 403", 403, nil},
		{"moved", [][]string{{"302", "Contact: <sip:example.net>"}}, "answered 302", 302, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, quiet)
			p := listenPhone(t)
			trunk := trunkTo(p.addr)
			if tt.change != nil {
				tt.change(&trunk)
			}
			r := register(t, b, trunk)
			for range 2 { // it tries again by itself
				for _, a := range tt.answers {
					m := p.fresh("REGISTER")
					code := 0
					for _, c := range a[0] {
						code = 10*code + int(c-'0')
					}
					var extra []string
					for _, e := range a[1:] {
						extra = append(extra, strings.ReplaceAll(e, "LINE", r.line))
					}
					p.respond(m, code, "r", "", extra...)
				}
			}
			eventually(t, "the second failure", func() bool { return r.State().Failures == 2 })
			if st := r.State(); st.Registered || st.Code != tt.code || st.Err == nil || !strings.Contains(st.Err.Error(), tt.err) {
				t.Errorf("state %+v", st)
			}
			go func() { r.Close(t.Context()) }()
		})
	}
}

// BR-075: 423 is met once, and remembered.
func TestRegisterInterval(t *testing.T) {
	b := start(t, quiet)
	p := listenPhone(t)
	trunk := trunkTo(p.addr)
	trunk.Expires = time.Minute
	r := register(t, b, trunk)
	p.respond(p.fresh("REGISTER"), 423, "r", "", "Min-Expires: 600")
	m := p.fresh("REGISTER")
	if m.get("Expires") != "600" || m.get("CSeq") != "2 REGISTER" {
		t.Errorf("again:\n%s", m.raw)
	}
	p.respond(m, 200, "r", "") // no Contact, no Expires: what was asked for
	eventually(t, "registered", func() bool { return r.State().Registered })
	if left := time.Until(r.State().Expires); left < 590*time.Second {
		t.Errorf("expires in %v", left)
	}
	if next := time.Until(r.State().Next); next < 380*time.Second || next > 460*time.Second {
		t.Errorf("refreshed in %v", next)
	}
	// Close does not wait for ever.
	ctx, cancel := context.WithTimeout(t.Context(), 2*testT1)
	defer cancel()
	if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
}

// BR-073: the first registrar is dead, the second says when to come back, the
// third takes us.
func TestRegistrarFailover(t *testing.T) {
	t.Parallel()
	dead, busy, good := listenPhone(t), listenPhone(t), listenPhone(t)
	port := func(p *phone) uint16 { return uint16(p.conn.(*socket).LocalAddr().(*net.UDPAddr).Port) }
	b := start(t, quiet, func(c *Config) {
		c.Resolver = names{
			srv: map[string][]*net.SRV{"_sip._udp.sip.example.com": {
				{Target: "a.example.com.", Port: port(dead)}, {Target: "b.example.com.", Port: port(busy)}, {Target: "gone.example.com.", Port: 5060}}},
			addrs: map[string]string{"a.example.com": "127.0.0.1", "b.example.com": "127.0.0.1", "c.example.com": "127.0.0.1"},
		}
	})
	r := register(t, b, trunkTo("sip.example.com", "c.example.com:"+good.addr[10:], "127.0.0.1:"+good.addr[10:]))
	dead.fresh("REGISTER")
	p := busy.fresh("REGISTER")
	busy.respond(p, 503, "r", "", "Retry-After: 5")
	m := good.fresh("REGISTER")
	good.respond(m, 200, "r", "", "Expires: 1")
	eventually(t, "registered", func() bool { return r.State().Registered })
	if got := r.State().Registrar; got != good.addr {
		t.Errorf("registered at %s", got)
	}
	// The refresh goes to the one that took us.
	again := good.fresh("REGISTER")
	good.respond(again, 503, "r", "", "Retry-After: 1 (busy)")
	// Of those that are left one is dead; after it Retry-After holds, not the
	// backoff.
	busy.respond(busy.fresh("REGISTER"), 480, "r", "")
	eventually(t, "the failure", func() bool { return r.State().Failures == 1 })
	if next := time.Until(r.State().Next); next < 500*time.Millisecond {
		t.Errorf("again in %v", next)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A lost connection is replaced at once.
func TestRegisterConnectionLost(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := start(t, quiet)
	trunk := trunkTo(l.Addr().String())
	trunk.Transport, trunk.KeepAlive = "tcp", testT1
	r := register(t, b, trunk)
	for range 2 {
		p := acceptPhone(t, l)
		m := p.fresh("REGISTER")
		if !strings.Contains(m.get("Contact"), b.tcp.String()+";transport=tcp") {
			t.Errorf("Contact %q", m.get("Contact"))
		}
		p.respond(m, 200, "r", "", "Expires: 600")
		eventually(t, "registered", func() bool { return r.State().Registered })
		// Line ends keep it open, and are not answered when the server sends some.
		ping := make([]byte, 4)
		p.conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := p.conn.Read(ping); err != nil || string(ping) != "\r\n\r\n" {
			t.Errorf("keep-alive %q %v", ping, err)
		}
		p.write("\r\n\r\n")
		time.Sleep(2 * trunk.Backoff)
		p.conn.(*net.TCPConn).SetLinger(0) // RST
		p.conn.Close()
		eventually(t, "the loss", func() bool { return !r.State().Registered })
		if !errors.Is(r.State().Err, ErrTransport) {
			t.Errorf("error %v", r.State().Err)
		}
	}
	p := acceptPhone(t, l)
	p.fresh("REGISTER")
	result := leave(t, r)
	m := p.fresh("REGISTER") // begun, so it is taken back
	if m.get("Expires") != "0" {
		t.Errorf("not taken back:\n%s", m.raw)
	}
	p.respond(m, 200, "r", "")
	if err := wait(t, result, "Close"); err != nil {
		t.Error(err)
	}
}

// A registrar that loses each connection at once does not make us hurry.
func TestRegisterConnectionAlwaysLost(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := start(t, quiet)
	trunk := trunkTo(l.Addr().String())
	trunk.Transport, trunk.Backoff, trunk.MaxBackoff = "tcp", 10*testT1, 10*testT1
	register(t, b, trunk)
	began := time.Now()
	for range 3 {
		p := acceptPhone(t, l)
		p.respond(p.fresh("REGISTER"), 200, "r", "", "Expires: 600")
		p.conn.Close()
	}
	if took := time.Since(began); took < 18*testT1 {
		t.Errorf("three times in %v", took)
	}
}

// With Probe a registrar that does not answer is taken for gone.
func TestRegisterProbe(t *testing.T) {
	t.Parallel()
	b := start(t, quiet)
	p := listenPhone(t)
	trunk := trunkTo(p.addr)
	trunk.Probe, trunk.KeepAlive = true, 2*testT1
	r := register(t, b, trunk)
	p.respond(p.fresh("REGISTER"), 200, "r", "")
	p.respond(p.fresh("OPTIONS"), 200, "o", "")
	p.respond(p.fresh("OPTIONS"), 401, "o", "", challengeA) // an answer all the same
	p.fresh("OPTIONS")
	eventually(t, "the loss", func() bool { return !r.State().Registered })
	if m := p.fresh("REGISTER"); m.get("Expires") != "3600" {
		t.Errorf("again:\n%s", m.raw)
	}
}

func TestRegisterOverTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue("registrar", false, "sip.example.com")
	a.issue("gw1", false, "gw1.example.com")
	cfg := a.client("registrar")
	cfg.ClientAuth, cfg.ClientCAs = tls.RequireAndVerifyClientCert, cfg.RootCAs
	sni := make(chan string, 4)
	cfg.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) { sni <- h.ServerName; return nil, nil }
	l, err := tls.Listen("tcp4", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := start(t, quiet, func(c *Config) {
		c.Resolver = names{addrs: map[string]string{"sip.example.com": "127.0.0.1", "other.example.com": "127.0.0.1"}}
	})
	port := l.Addr().String()[len("127.0.0.1"):]
	trunk := trunkTo("sip.example.com" + port)
	trunk.Transport, trunk.TLS = "tls", a.files("gw1")
	r := register(t, b, trunk)
	p := acceptPhone(t, l)
	m := p.fresh("REGISTER")
	if got := wait(t, sni, "the SNI"); got != "sip.example.com" {
		t.Errorf("SNI %q", got)
	}
	if !strings.HasPrefix(m.get("Via"), "SIP/2.0/TLS ") || !strings.Contains(m.get("Contact"), ";transport=tls;") {
		t.Errorf("REGISTER:\n%s", m.raw)
	}
	p.respond(m, 200, "r", "", "Expires: 600")
	eventually(t, "registered", func() bool { return r.State().Registered })

	for name, change := range map[string]func(*Trunk){
		"the certificate is for sip.example.com, not for other.example.com": func(t *Trunk) { t.Hosts = []string{"other.example.com" + port} },
		"unknown authority": func(t *Trunk) { t.TLS.CAFile = "" },
		"no such file":      func(t *Trunk) { t.TLS.CAFile = "missing.pem" },
		"cert_file":         func(t *Trunk) { t.TLS.CertFile = "missing.pem" },
	} {
		other := trunk
		other.Name = "other"
		change(&other)
		go func() {
			if conn, err := l.Accept(); err == nil {
				conn.(*tls.Conn).Handshake()
				conn.Close()
			}
		}()
		r := register(t, b, other)
		eventually(t, "the failure", func() bool { return r.State().Failures > 0 })
		if err := r.State().Err; !errors.Is(err, ErrTransport) || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
		r.Close(t.Context())
	}
	// A name of its own for the certificate.
	l.Close()
}

func TestCallByRegistration(t *testing.T) {
	got := make(chan *Invite, 1)
	b := start(t, func(_ context.Context, inv *Invite) {
		got <- inv
		inv.Reject(&RejectError{Code: 486})
	})
	p := listenPhone(t)
	r := register(t, b, trunkTo(p.addr))
	m := p.fresh("REGISTER")
	p.respond(m, 200, "r", "", "Expires: 600")
	eventually(t, "registered", func() bool { return r.State().Registered })
	elsewhere := r.Trunk()
	elsewhere.Name, elsewhere.Hosts = "elsewhere", []string{"127.0.0.2:5060"}
	r2 := register(t, b, elsewhere)

	for uri, want := range map[string]*Registration{
		"sip:gw1@192.0.2.99:5060;line=" + r.line:  r,
		"sip:gw1@192.0.2.99:5060;line=" + r2.line: r2,
		"sip:gw1@wherever.example.net":            r,
		"sip:+15550100@wherever.example.net":      r,
	} {
		inv := newInvite()
		inv.uri = uri
		p.write(p.text(inv)) // from the registrar's address
		p.final("INVITE")
		if found := wait(t, got, "the call").Registration(); found != want {
			t.Errorf("%s: %v", uri, found)
		}
	}
}

func TestRegisterRefused(t *testing.T) {
	s, err := NewServer(DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(trunkTo("127.0.0.1")); err == nil || !strings.Contains(err.Error(), "before Listen") {
		t.Errorf("before Listen: %v", err)
	}
	b := start(t, quiet)
	if _, err := b.Register(Trunk{}); err == nil {
		t.Error("an empty trunk")
	}
	r := register(t, b, trunkTo("nowhere.invalid"))
	if _, err := b.Register(r.Trunk()); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("twice: %v", err)
	}
	b.stop()
	if _, err := b.Register(trunkTo("127.0.0.1")); err == nil {
		t.Error("after the end")
	}
}

func TestTrunkConfig(t *testing.T) {
	good := trunkTo("sip.example.com:5060", "[::1]")
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Trunk){
		"trunk.name":         func(t *Trunk) { t.Name = "two words" },
		"hosts: at least":    func(t *Trunk) { t.Hosts = nil },
		"trunk.hosts[0]":     func(t *Trunk) { t.Hosts = []string{"a b"} },
		"trunk.domain":       func(t *Trunk) { t.Domain = "example.com:5060" },
		"trunk.transport":    func(t *Trunk) { t.Transport = "ws" },
		"trunk.user:":        func(t *Trunk) { t.User = "a\r\nX: y" },
		"trunk.username":     func(t *Trunk) { t.User = "" },
		"trunk.expires":      func(t *Trunk) { t.Expires = time.Second },
		"trunk.keep_alive":   func(t *Trunk) { t.KeepAlive = -1 },
		"trunk.backoff":      func(t *Trunk) { t.Backoff = 0 },
		"trunk.tls: cert_fi": func(t *Trunk) { t.TLS.CertFile = "x" },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, c := range [][3]string{{"", "[::1]:5060", "sip:gw1@[::1]"}, {"[::2]", "x", "sip:gw1@[::2]"}, {"", "a.example.com:5", "sip:gw1@a.example.com"}} {
		trunk := Trunk{Domain: c[0], Hosts: []string{c[1]}}
		if got := trunk.aor("gw1"); got != c[2] {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// BR-167: in a call that came from the registrar its challenges are answered, but
// only where a request really goes there.
func TestCredentialsOfRegistration(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		h := answering(&script{})
		b := start(t, h.handle)
		p := listenPhone(t)
		r := register(t, b, trunkTo(p.addr))
		p.respond(p.fresh("REGISTER"), 200, "r", "", "Expires: 600")
		eventually(t, "registered", func() bool { return r.State().Registered })
		other, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)})
		if err != nil {
			t.Skip(err)
		}
		defer other.Close()
		inv := newInvite()
		if elsewhere {
			inv.contact = "<sip:a@" + other.LocalAddr().String() + ">"
		}
		p.send(inv)
		c := &call{p: p, inv: inv, ok: p.expect("INVITE", 200), n: 1}
		c.ack(1, "")
		d := wait(t, h.calls, "the call")
		go d.Bye(context.Background(), Reason{})
		at := p
		if elsewhere {
			at = &phone{t: t, conn: &socket{UDPConn: other}}
		}
		at.respond(at.fresh("BYE"), 407, "", "", `Proxy-Authenticate: Digest realm="example.com",nonce="1",qop="auth"`)
		if !elsewhere {
			bye := p.fresh("BYE")
			proves(t, bye, "Proxy-Authorization", "example.com", "gw1", "secret")
			p.reply(bye, 200)
			continue
		}
		for m := at.read(4 * testT1); m != nil; m = at.read(4 * testT1) {
			if strings.Contains(m.raw, "Proxy-Authorization") {
				t.Errorf("answered a stranger:\n%s", m.raw)
			}
		}
	}
}
