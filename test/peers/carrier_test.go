package peers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
)

// carrierConfig makes Kamailio a carrier without registrations: what comes from
// anybody else goes to the gateway with the headers of a carrier, what comes from the
// gateway is asked for a password and goes to the desk. It stays in the way of both.
const carrierConfig = `
debug=1
log_stderror=yes
children=1
tcp_children=1
dns=no
rev_dns=no
auto_aliases=no
listen=udp:127.0.0.1:%[1]d
listen=tcp:127.0.0.1:%[1]d
loadmodule "sl.so"
loadmodule "tm.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "sanity.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "auth.so"
loadmodule "xlog.so"
modparam("rr", "append_fromtag", 1)

request_route {
	if (!mf_process_maxfwd_header("10")) { sl_send_reply("483", "Too Many Hops"); exit; }
	if (!sanity_check("1511", "7")) { xlog("L_ERR", "insane: $rm\n"); exit; }
	if (is_method("CANCEL")) { if (t_check_trans()) { t_relay(); } exit; }
	if (has_totag()) {
		if (loose_route()) {
			xlog("L_ERR", "passed $rm $(ru{uri.port})\n");
			t_relay();
			exit;
		}
		if (is_method("ACK") && t_check_trans()) { t_relay(); }
		exit;
	}
	if (!is_method("INVITE")) { sl_send_reply("200", "OK"); exit; }
	if ($rU =~ "^\+1415") {
		if (!pv_proxy_authenticate("$fd", "secret", "0")) {
			xlog("L_ERR", "challenged $fU\n");
			proxy_challenge("$fd", "1");
			exit;
		}
		consume_credentials();
		record_route();
		xlog("L_ERR", "shown $fU $hdr(X-Order)\n");
		$ru = "sip:desk@127.0.0.1:%[3]d";
	} else {
		record_route();
		remove_hf("P-Asserted-Identity");
		append_hf("P-Asserted-Identity: \"Ann Example\" <sip:+12025550191@carrier.example;user=phone>\r\n");
		append_hf("Diversion: <sip:+18005550100@carrier.example>;reason=no-answer;counter=1\r\n");
		append_hf("X-Tenant: acme\r\n");
		$ru = "sip:+12025550199@127.0.0.1:%[2]d";
	}
	t_relay();
}
`

// startCarrier runs Kamailio between the gateway and the desk.
func startCarrier(t *testing.T, gateway int, desk string) (*Process, string) {
	t.Helper()
	port := FreePort(t)
	var deskPort int
	if _, err := fmt.Sscanf(desk, "127.0.0.1:%d", &deskPort); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return startKamailio(t, dir, fmt.Sprintf(carrierConfig, port, gateway, deskPort), port)
}

// What a carrier says of a call reaches the agent, when it is believed; requests in the
// call pass the carrier both ways.
func TestCallsByKamailioAsCarrier(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		t.Run(fmt.Sprintf("trusted %v", trusted), func(t *testing.T) {
			port := FreePort(t)
			kamailio, addr := startCarrier(t, port, "127.0.0.1:9")
			trunk := switchboard(addr)
			trunk.TrustIdentity = trusted
			performer := &Performer{Says: agentSays, Pause: 200 * time.Millisecond}
			g := StartGatewayWith(t, performer, Setup{Trunk: trunk, Port: port})
			b := baresipOf(t, "+12025550150", callerSays)
			b.Call("sip:+12025550199@" + addr)
			time.Sleep(3500 * time.Millisecond)
			b.Do("hold", "")
			if !Eventually(3*time.Second, func() bool { return len(performer.Notices(agent.Held)) == 1 }) {
				t.Error("the agent was not told of the hold")
			}
			b.Do("resume", "")
			if !Eventually(3*time.Second, func() bool { return len(performer.Notices(agent.Resumed)) == 1 }) {
				t.Error("the agent was not told of the end of the hold")
			}
			g.hangUp()
			if !b.Ended() {
				t.Error("our BYE did not arrive")
			}
			r := g.Records(1)[0]
			said(t, "the agent hears the caller", callerSays, performer.Heard(), true)
			said(t, "the caller hears the agent", agentSays, b.Heard(), true)
			c := performer.Calls()[0]
			want := agent.Call{Caller: agent.Caller{ResourceID: "+12025550150", Number: "+12025550150"}}
			if trusted {
				want = agent.Call{Caller: agent.Caller{ResourceID: "+12025550191", Number: "+12025550191", Name: "Ann Example"},
					Original: "+18005550100", Headers: map[string]string{"X-Tenant": "acme"}}
			}
			if c.Caller != want.Caller || c.Original != want.Original || c.Headers["X-Tenant"] != want.Headers["X-Tenant"] || c.Trunk != "switchboard" || c.Called != "+12025550199" {
				t.Errorf("the agent is told %+v, %q, %v, trunk %q, called %q", c.Caller, c.Original, c.Headers, c.Trunk, c.Called)
			}
			if r.ResourceID != want.Caller.ResourceID || r.Trunk != "switchboard" || r.Cause != call.CauseOperator {
				t.Errorf("record %+v", r)
			}
			for _, passed := range []string{"passed ACK", "passed INVITE", "passed BYE"} {
				if !strings.Contains(kamailio.Output(), passed) {
					t.Errorf("Kamailio did not see it: %s", passed)
				}
			}
		})
	}
}

// The built server places calls through the carrier, which asks for a password and
// stays in the way.
func TestCallsThroughKamailio(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, ends := range []string{"the desk", "the operator"} {
		t.Run(ends+" hangs up", func(t *testing.T) {
			port := FreePort(t)
			twice := append(append([]int16(nil), deskSays...), deskSays...) // the echo of a busy machine stutters
			desk := baresipOf(t, "desk", twice)
			kamailio, addr := startCarrier(t, port, desk.Host)
			s := StartServer(t, Settings{API: true, Port: port, Rest: fmt.Sprintf("[[trunk]]\nname = \"carrier\"\nhosts = [%q]\ndomain = \"127.0.0.1\"\nregister = false\n"+
				"sources = [\"127.0.0.1\"]\nuser = \"+12025550199\"\npassword = \"secret\"\n", addr)})
			var placed struct{ ID string }
			if code := s.Ask(within(t), http.MethodPost, "/calls", map[string]any{"to": "+14155550123", "trunk": "carrier", "headers": map[string]string{"X-Order": "4711"}}, &placed); code != 202 {
				t.Fatalf("POST /calls: %d\n%s", code, s.Output())
			}
			if c := s.theCall(t); c.ID != placed.ID || c.Direction != "outbound" || c.Trunk != "carrier" {
				t.Errorf("the call is %+v", c)
			}
			time.Sleep(6 * time.Second)
			if code := s.Ask(within(t), http.MethodPost, "/calls/"+placed.ID+"/hold", struct{}{}, nil); code != 204 {
				t.Errorf("hold: %d", code)
			}
			if code := s.Ask(within(t), http.MethodPost, "/calls/"+placed.ID+"/resume", struct{}{}, nil); code != 204 {
				t.Errorf("resume: %d", code)
			}
			cause := call.CauseOperator
			if ends == "the desk" {
				cause = call.CauseCalleeHungUp
				desk.Do("hangup", "")
			} else if code := s.Ask(within(t), http.MethodDelete, "/calls/"+placed.ID, nil, nil); code != 204 {
				t.Errorf("DELETE: %d", code)
			}
			if !desk.Ended() {
				t.Error("the desk's call did not end")
			}
			r := s.Records(1)[0]
			if r.Cause != cause || r.Direction != "outbound" || r.Called != "+14155550123" || r.Stats.Lost != 0 || r.Stats.PacketsIn < 100 || r.ResourceID != "+14155550123" {
				t.Errorf("record %+v", r)
			}
			heardBy(t, "the desk", deskSays, desk.Heard(), 8000) // the echo of itself
			for _, line := range []string{"challenged +12025550199", "shown +12025550199 4711", "passed ACK", "passed INVITE", "passed BYE"} {
				if !strings.Contains(kamailio.Output(), line) {
					t.Errorf("Kamailio did not see it: %s", line)
				}
			}
		})
	}
}
