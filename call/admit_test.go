package call

import (
	"errors"
	"testing"

	"parley/sip"
	"parley/test/phone"
)

// Who is not let in reaches neither an agent nor a port, and the next one is taken.
func TestACallerWhoIsNotLetIn(t *testing.T) {
	g := startGateway(t, nil)
	g.refusal.Store(&sip.RejectError{Code: 403, Rule: "source_not_allowed", Text: "no"})
	p := ringUp(t, phone.Config{})
	_, err := p.Dial(within(t), g.uri)
	if status, ok := errors.AsType[*phone.StatusError](err); !ok || status.Code != 403 {
		t.Fatalf("%v", err)
	}
	if got := g.seen.awaitRefusal(t); got != "403 source_not_allowed" {
		t.Errorf("refused with %s", got)
	}
	if st := g.wheel.Stats(); g.routed.Load() != 0 || st.PortsInUse+st.PortsQuarantined != 0 || g.Active() != 0 {
		t.Errorf("routed %d, ports %d, calls %d", g.routed.Load(), st.PortsInUse, g.Active())
	}
	g.refusal.Store(nil)
	dial(t, p, g.uri)
	if st := g.wheel.Stats(); st.PortsInUse == 0 {
		t.Error("ports are not counted here")
	}
}
