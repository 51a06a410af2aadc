package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/call"
	"parley/sip"
)

// accountAt are the lines of a trunk that registers at hosts.
func accountAt(user, transport, more string, hosts ...string) string {
	return fmt.Sprintf("[[trunk]]\nname = \"pbx\"\nhosts = [\"%s\"]\ndomain = \"127.0.0.1\"\ntransport = %q\nuser = %q\npassword = \"secret\"\nexpires = \"10s\"\n%s",
		strings.Join(hosts, `", "`), transport, user, more)
}

// registered waits until the server's trunk is registered at that host.
func (s *Server) registered(t *testing.T, host string, within time.Duration) {
	t.Helper()
	var trunks []struct{ State, Registrar string }
	if !Eventually(within, func() bool {
		return s.Ask(t.Context(), http.MethodGet, "/trunks", nil, &trunks) == 200 && len(trunks) == 1 &&
			trunks[0].State == "registered" && strings.HasPrefix(trunks[0].Registrar, host)
	}) {
		t.Fatalf("not registered at %s: %+v\n%s", host, trunks, tail(s.Output(), 3000))
	}
}

// callBy calls the server's account through Kamailio and hangs up.
func callBy(t *testing.T, caller *sip.Server, here sip.Trunk, user string) {
	t.Helper()
	heard := quietCall{make(chan []byte, 1)}
	d, err := caller.Dial(within(t), here, sip.Outgoing{To: user, Offer: []byte(description)}, heard)
	if err != nil {
		t.Fatal(err)
	}
	if answer := string(must(t, "the answer", heard.answered)); !strings.Contains(answer, "m=audio ") {
		t.Errorf("answer %s", answer)
	}
	if _, err := d.Offer(within(t), []byte(description)); err != nil {
		t.Errorf("re-INVITE: %v", err)
	}
	if err := d.Bye(within(t), sip.Reason{}); err != nil {
		t.Error(err)
	}
}

// The built server registers at Kamailio, takes a call by it, and is called no more
// once it was told to end.
func TestKamailioAsTrunkOfTheServer(t *testing.T) {
	Isolated(t)
	t.Parallel()
	dir, port, secure := t.TempDir(), FreePort(t), FreePort(t)
	certificates(t, dir, "kamailio", "gateway")
	var args []string
	transports := []string{"udp", "tcp"}
	if modules, _ := filepath.Glob("/usr/lib/*/kamailio/modules/tls.so"); len(modules) > 0 {
		transports, args = append(transports, "tls"), []string{"-A", "WITH_TLS"}
	}
	_, addr := startRegistrarIn(t, dir, port, secure, args...)
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			user, host, more := "gateway"+transport, addr, ""
			if transport == "tls" {
				host = fmt.Sprintf("127.0.0.1:%d", secure)
				more = fmt.Sprintf("cert_file = %q\nkey_file = %q\nca_file = %q\n", dir+"/gateway.pem", dir+"/gateway.key", dir+"/ca.pem")
			}
			s := StartServer(t, Settings{API: true, Rest: accountAt(user, transport, more, host)})
			s.registered(t, host, 10*time.Second)
			caller := userAgent(t, func(context.Context, *sip.Invite) {})
			here := account("alice"+transport, addr, "udp")
			register(t, caller, here)
			callBy(t, caller, here, user)
			if r := s.Records(1); len(r) == 1 && (r[0].Trunk != "pbx" || r[0].Called != user || r[0].Cause != call.CauseCallerHungUp) {
				t.Errorf("record %+v", r[0])
			}
			s.End()
			if !strings.Contains(s.Output(), `"msg":"sip: unregistered","trunk":"pbx"`) {
				t.Errorf("not unregistered:\n%s", s.Output())
			}
			var failed *sip.DialError
			if _, err := caller.Dial(within(t), here, sip.Outgoing{To: user, Offer: []byte(description)}, nil); !errors.As(err, &failed) || failed.Code != 404 {
				t.Errorf("a call after the end: %v", err)
			}
		})
	}
}

// Two registrars, of which one dies with a call up: the server registers at the other
// one and is called by that; the call that is up goes on.
func TestAKamailioDies(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, transport := range []string{"udp", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			first, one := startRegistrar(t, FreePort(t))
			_, two := startRegistrar(t, FreePort(t))
			// T1 is short so that a registrar that says nothing is given up in 3.2 s.
			s := StartServer(t, Settings{API: true, SIP: `t1 = "50ms"`, Rest: accountAt("gateway", transport, "backoff = \"200ms\"\n", one, two)})
			s.registered(t, one, 10*time.Second)
			caller := userAgent(t, func(context.Context, *sip.Invite) {})
			here, there := account("alice", one, transport), account("bob", two, transport)
			register(t, caller, here)
			register(t, caller, there)
			callBy(t, caller, here, "gateway")
			if _, err := caller.Dial(within(t), here, sip.Outgoing{To: "gateway", Offer: []byte(description)}, quietCall{make(chan []byte, 1)}); err != nil {
				t.Fatal(err)
			}
			up := s.theCall(t)
			first.Kill()
			s.registered(t, two, 20*time.Second)
			callBy(t, caller, there, "gateway")
			if got := s.Records(2); len(got) == 2 && (got[1].Trunk != "pbx" || got[1].Cause != call.CauseCallerHungUp) {
				t.Errorf("record %+v", got[1])
			}
			// Its sound does not pass the registrar.
			if still := s.theCall(t); still.ID != up.ID {
				t.Errorf("the call that was up is over: %+v", still)
			}
		})
	}
}
