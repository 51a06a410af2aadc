package peers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/call"
	"parley/sip"
)

// The built server registers at Kamailio, takes a call by it, and is called no more
// once it was told to end.
func TestKamailioAsTrunkOfTheServer(t *testing.T) {
	Isolated(t)
	kamailio, addr := startRegistrar(t, FreePort(t))
	for _, transport := range []string{"udp", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			user := "gateway" + transport
			s := StartServer(t, Settings{Rest: fmt.Sprintf("[[trunk]]\nname = \"pbx\"\nhosts = [%q]\ndomain = \"127.0.0.1\"\ntransport = %q\nuser = %q\npassword = \"secret\"\nexpires = \"10s\"\n",
				addr, transport, user)})
			if !Eventually(10*time.Second, func() bool { return strings.Contains(s.Output(), `"msg":"sip: registered","trunk":"pbx"`) }) {
				t.Fatalf("not registered:\n%s\n%s", s.Output(), kamailio.Output())
			}
			caller := userAgent(t, func(context.Context, *sip.Invite) {})
			here := account("alice"+transport, addr, transport)
			register(t, caller, here)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			heard := quietCall{make(chan []byte, 1)}
			d, err := caller.Dial(ctx, here, sip.Outgoing{To: user, Offer: []byte(description)}, heard)
			if err != nil {
				t.Fatalf("%v\n%s", err, s.Output())
			}
			if answer := string(<-heard.answered); !strings.Contains(answer, "m=audio ") {
				t.Errorf("answer %s", answer)
			}
			if _, err := d.Offer(ctx, []byte(description)); err != nil {
				t.Errorf("re-INVITE: %v", err)
			}
			if err := d.Bye(ctx, sip.Reason{}); err != nil {
				t.Error(err)
			}
			if r := s.Records(1); len(r) == 1 && (r[0].Trunk != "pbx" || r[0].Called != user || r[0].Cause != call.CauseCallerHungUp) {
				t.Errorf("record %+v", r[0])
			}
			s.End()
			if !strings.Contains(s.Output(), `"msg":"sip: unregistered","trunk":"pbx"`) {
				t.Errorf("not unregistered:\n%s", s.Output())
			}
			var failed *sip.DialError
			if _, err := caller.Dial(ctx, here, sip.Outgoing{To: user, Offer: []byte(description)}, nil); !errors.As(err, &failed) || failed.Code != 404 {
				t.Errorf("a call after the end: %v", err)
			}
		})
	}
}
