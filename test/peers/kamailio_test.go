package peers

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"parley/sip"
)

// registrarConfig makes Kamailio a registrar and a proxy for whoever is registered.
// It asks for digest credentials on REGISTER and INVITE alike; its nonces do not
// live as long as registrations do, so that every refresh meets a stale one.
const registrarConfig = `
debug=1
log_stderror=yes
children=2
tcp_children=2
dns=no
rev_dns=no
auto_aliases=no
listen=udp:127.0.0.1:%[1]d
listen=tcp:127.0.0.1:%[1]d
#!ifdef WITH_TLS
enable_tls=yes
listen=tls:127.0.0.1:%[2]d
loadmodule "tls.so"
modparam("tls", "config", "%[3]s/tls.cfg")
#!endif
loadmodule "sl.so"
loadmodule "tm.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "sanity.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
loadmodule "auth.so"
loadmodule "xlog.so"
modparam("usrloc", "db_mode", 0)
modparam("registrar", "min_expires", 5)
modparam("registrar", "max_expires", 12)
modparam("registrar", "max_contacts", 4)
modparam("auth", "nonce_expire", 3)
modparam("auth", "nonce_count", 1)
modparam("auth", "qop", "auth")

request_route {
	if (!mf_process_maxfwd_header("10")) { sl_send_reply("483", "Too Many Hops"); exit; }
	if (!sanity_check("1511", "7")) { xlog("L_ERR", "insane: $rm\n"); exit; }
	if (is_method("OPTIONS") && uri==myself) { sl_send_reply("200", "OK"); exit; }
	if (is_method("CANCEL")) { if (t_check_trans()) { t_relay(); } exit; }
	if (has_totag()) {
		if (loose_route()) { t_relay(); exit; }
		if (is_method("ACK") && t_check_trans()) { t_relay(); }
		exit;
	}
	if (is_method("REGISTER")) {
		if (!pv_www_authenticate("$fd", "secret", "0")) {
			xlog("L_ERR", "challenged $fU code $rc\n");
			www_challenge("$fd", "1");
			exit;
		}
		consume_credentials();
		if (!save("location")) { sl_reply_error(); }
		xlog("L_ERR", "registered $fU\n");
		exit;
	}
	if (is_method("INVITE")) {
		if (!pv_proxy_authenticate("$fd", "secret", "0")) { proxy_challenge("$fd", "1"); exit; }
		consume_credentials();
		record_route();
	}
	if (!lookup("location")) { sl_send_reply("404", "Not Found"); exit; }
	t_relay();
}
`

// registrarTLS has Kamailio show a certificate and ask for those of clients.
const registrarTLS = `
[server:default]
method = TLSv1.2+
certificate = %[1]s/kamailio.pem
private_key = %[1]s/kamailio.key
ca_list = %[1]s/ca.pem
verify_certificate = yes
require_certificate = yes
[client:default]
method = TLSv1.2+
certificate = %[1]s/kamailio.pem
private_key = %[1]s/kamailio.key
ca_list = %[1]s/ca.pem
verify_certificate = yes
require_certificate = yes
`

// startRegistrar runs Kamailio on a free port and returns that address.
func startRegistrar(t *testing.T, port int, args ...string) (*Process, string) {
	t.Helper()
	return startRegistrarIn(t, t.TempDir(), port, FreePort(t), args...)
}

// startRegistrarIn is the same in a folder, which holds the files for TLS, with a
// port for that.
func startRegistrarIn(t *testing.T, dir string, port, secure int, args ...string) (*Process, string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "tls.cfg"), fmt.Appendf(nil, registrarTLS, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	return startKamailio(t, dir, fmt.Sprintf(registrarConfig, port, secure, dir), port, args...)
}

// startKamailio runs Kamailio with that configuration, by which it listens for TCP on
// the port, and returns the address.
func startKamailio(t *testing.T, dir, config string, port int, args ...string) (*Process, string) {
	t.Helper()
	Need(t, "kamailio", "kamailio")
	file := filepath.Join(dir, "kamailio.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-f", file, "-DD", "-E", "-w", dir, "-Y", dir, "-P", filepath.Join(dir, "pid"), "-m", "64", "-M", "8"}, args...)
	p := Start(t, dir, os.Environ(), "kamailio", args...)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	up := func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	if !Eventually(10*time.Second, up) {
		t.Fatalf("kamailio does not listen:\n%s", p.Output())
	}
	return p, addr
}

// userAgent is a SIP server of ours alone.
func userAgent(t *testing.T, h sip.Handler) *sip.Server {
	t.Helper()
	cfg := sip.DefaultConfig()
	cfg.Listen = []sip.Listener{{Network: "udp", Addr: "127.0.0.1:0"}, {Network: "tcp", Addr: "127.0.0.1:0"}}
	s, err := sip.NewServer(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, h) }()
	t.Cleanup(func() {
		cancel()
		if err, ok := take(done); !ok {
			t.Error("the user agent does not end: a handler of a call is stuck")
		} else if err != nil {
			t.Error(err)
		}
	})
	return s
}

// take receives what is due at once, and waits 40 s for it at the most: longer than
// any timer of SIP.
func take[T any](from <-chan T) (v T, ok bool) {
	select {
	case v, ok = <-from:
		return v, ok
	case <-time.After(40 * time.Second):
		return v, false
	}
}

// must is take, and fails the test when nothing came.
func must[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	v, ok := take(from)
	if !ok {
		t.Fatalf("%s did not come", what)
	}
	return v
}

func account(name, addr, transport string) sip.Trunk {
	t := sip.DefaultTrunk()
	t.Name, t.User, t.Password, t.Transport = name, name, "secret", transport
	t.Hosts, t.Domain, t.Expires = []string{addr}, "127.0.0.1", 10*time.Second
	t.Backoff, t.MaxBackoff = 200*time.Millisecond, time.Second
	return t
}

func register(t *testing.T, s *sip.Server, trunk sip.Trunk) *sip.Registration {
	t.Helper()
	r, err := s.Register(trunk)
	if err != nil {
		t.Fatal(err)
	}
	if !Eventually(10*time.Second, func() bool { return r.State().Registered }) {
		t.Fatalf("%s is not registered: %+v", trunk.Name, r.State())
	}
	return r
}

const description = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"

// quietCall takes every offer and answer.
type quietCall struct{ answered chan []byte }

func (quietCall) Offer([]byte) ([]byte, *sip.RejectError) { return []byte(description), nil }
func (quietCall) MakeOffer() []byte                       { return []byte(description) }
func (q quietCall) Answer(b []byte) error                 { q.answered <- bytes.Clone(b); return nil }
func (quietCall) Info(string, []byte) bool                { return true }

// The registration lasts although each refresh meets an expired nonce.
func TestKamailioRegistration(t *testing.T) {
	Isolated(t)
	t.Parallel()
	kamailio, addr := startRegistrar(t, FreePort(t))
	s := userAgent(t, func(context.Context, *sip.Invite) {})
	r := register(t, s, account("alice", addr, "udp"))
	first := r.State()
	if !Eventually(20*time.Second, func() bool { return r.State().Attempts >= 3 && r.State().Err == nil }) {
		t.Fatalf("not refreshed: %+v", r.State())
	}
	if st := r.State(); !st.Registered || !st.Since.Equal(first.Since) || !st.Expires.After(first.Expires) {
		t.Errorf("state %+v, at first %+v", st, first)
	}
	// An attempt is counted before its challenge.
	if !Eventually(3*time.Second, func() bool { return strings.Count(kamailio.Output(), "challenged alice") >= 3 }) {
		t.Error("not challenged once for each round")
	}
	// A wrong password.
	wrong := account("mallory", addr, "udp")
	wrong.Password = "guess"
	bad, err := s.Register(wrong)
	if err != nil {
		t.Fatal(err)
	}
	if !Eventually(10*time.Second, func() bool { return errors.Is(bad.State().Err, sip.ErrUnauthorized) }) || bad.State().Registered {
		t.Errorf("wrong password: %+v", bad.State())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
}

// Calls between two of ours through the proxy, both directions of a dialog.
func TestKamailioCalls(t *testing.T) {
	Isolated(t)
	t.Parallel()
	_, addr := startRegistrar(t, FreePort(t))
	for _, transport := range []string{"udp", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			proxiedCall(t, addr, transport, sip.TLS{})
		})
	}
}

// Over TLS with certificates on both sides. Who is called has no listener for TLS
// and is reached by its registration's connection.
func TestKamailioOverTLS(t *testing.T) {
	Isolated(t)
	t.Parallel()
	modules, err := filepath.Glob("/usr/lib/*/kamailio/modules/tls.so")
	if err != nil || len(modules) == 0 {
		t.Skip("Kamailio has no TLS; on Debian: apt-get install kamailio kamailio-tls-modules")
	}
	dir, secure := t.TempDir(), FreePort(t)
	certificates(t, dir, "kamailio", "phone")
	startRegistrarIn(t, dir, FreePort(t), secure, "-A", "WITH_TLS")
	files := sip.TLS{CertFile: filepath.Join(dir, "phone.pem"), KeyFile: filepath.Join(dir, "phone.key"), CAFile: filepath.Join(dir, "ca.pem")}
	proxiedCall(t, fmt.Sprintf("127.0.0.1:%d", secure), "tls", files)
}

// certificates writes an authority and, signed by it, certificates for 127.0.0.1.
func certificates(t *testing.T, dir string, names ...string) {
	t.Helper()
	var ca *x509.Certificate
	var caKey *ecdsa.PrivateKey
	for i, name := range append([]string{"ca"}, names...) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			BasicConstraintsValid: true, IsCA: ca == nil}
		if ca == nil {
			ca, caKey = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for file, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
			if err := os.WriteFile(filepath.Join(dir, name+file), pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// proxiedCall makes calls from one user agent to another, both registered.
func proxiedCall(t *testing.T, addr, transport string, files sip.TLS) {
	t.Helper()
	type taken struct {
		inv *sip.Invite
		d   *sip.Dialog
	}
	calls := make(chan taken, 4)
	callee := userAgent(t, func(_ context.Context, inv *sip.Invite) {
		if inv.Ring() != nil {
			return
		}
		if d, err := inv.Answer([]byte(description), quietCall{}); err == nil {
			calls <- taken{inv, d}
		}
	})
	caller := userAgent(t, func(context.Context, *sip.Invite) {})
	bob, here := account("bob"+transport, addr, transport), account("alice"+transport, addr, transport)
	bob.TLS, here.TLS = files, files
	there := register(t, callee, bob)
	register(t, caller, here)

	heard, rang := quietCall{make(chan []byte, 1)}, make(chan sip.Progress, 4)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d, err := caller.Dial(ctx, here, sip.Outgoing{To: "bob" + transport, Offer: []byte(description), Progress: func(p sip.Progress) { rang <- p }}, heard)
	if err != nil {
		t.Fatal(err)
	}
	got := must(t, "the call", calls)
	if got.inv.Registration() != there {
		t.Error("the call is not found by its registration")
	}
	if answer := must(t, "the answer", heard.answered); string(answer) != description {
		t.Errorf("answer %q", answer)
	}
	// A 180 is not sent again when it is lost; of what came the first counts.
	select {
	case p := <-rang:
		if p.Code != 180 {
			t.Errorf("progress %+v", p)
		}
	default:
		if transport != "udp" {
			t.Error("no 180 came")
		}
	}
	select {
	case <-got.d.Confirmed():
	case <-ctx.Done():
		t.Fatal("no ACK")
	}
	for _, side := range []*sip.Dialog{d, got.d} {
		if sdp, err := side.Offer(ctx, []byte(description)); err != nil || string(sdp) != description {
			t.Errorf("offer: %v", err)
		}
	}
	if err := got.d.Bye(ctx, sip.Reason{}); err != nil {
		t.Error(err)
	}
	take(d.Context().Done())
	if cause := context.Cause(d.Context()); cause != sip.ErrPeerBye {
		t.Errorf("cause %v", cause)
	}
	// Nobody of that name, and a call that is given up.
	var failed *sip.DialError
	if _, err := caller.Dial(ctx, here, sip.Outgoing{To: "nobody", Offer: []byte(description)}, nil); !errors.As(err, &failed) || failed.Code != 404 {
		t.Errorf("nobody: %v", err)
	}
	wrong := here
	wrong.Name, wrong.Password = "wrong", "guess"
	if _, err := caller.Dial(ctx, wrong, sip.Outgoing{To: "bob" + transport, Offer: []byte(description)}, nil); !errors.Is(err, sip.ErrUnauthorized) {
		t.Errorf("wrong password: %v", err)
	}
}

// The registrar is restarted, and knows neither the connection nor the nonce.
func TestKamailioRestart(t *testing.T) {
	Isolated(t)
	t.Parallel()
	port := FreePort(t)
	kamailio, addr := startRegistrar(t, port)
	s := userAgent(t, func(context.Context, *sip.Invite) {})
	r := register(t, s, account("carol", addr, "tcp"))
	kamailio.Stop()
	if !Eventually(5*time.Second, func() bool { return !r.State().Registered }) {
		t.Fatal("the loss was not noticed")
	}
	startRegistrar(t, port)
	if !Eventually(20*time.Second, func() bool { return r.State().Registered }) {
		t.Errorf("not registered again: %+v", r.State())
	}
}
