package peers

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"parley/sip"
)

//go:embed uas-trunk.xml
var trunkScenario []byte

// Calls through a trunk that is SIPp: several at once, and its verdict on each.
func TestSIPpAsTrunk(t *testing.T) {
	Isolated(t)
	t.Parallel()
	Need(t, "sipp", "sip-tester")
	const calls = 20
	dir, port := t.TempDir(), FreePort(t)
	if err := os.WriteFile(filepath.Join(dir, "scenario.xml"), trunkScenario, 0o600); err != nil {
		t.Fatal(err)
	}
	p := Start(t, dir, append(os.Environ(), "TERM=xterm"), "sipp", "-sf", "scenario.xml", "-i", "127.0.0.1", "-p", fmt.Sprint(port),
		"-m", fmt.Sprint(calls), "-nostdin", "-timeout", "60s", "-timeout_error", "-trace_err", "-error_file", "errors.log")
	s := userAgent(t, func(context.Context, *sip.Invite) {})
	trunk := account("gw1", fmt.Sprintf("127.0.0.1:%d", port), "udp")
	trunk.Realms = []string{"trunk.example.com"}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	ends := make(chan error, calls)
	for range calls {
		go func() {
			h := quietCall{make(chan []byte, 1)}
			d, err := s.Dial(ctx, trunk, sip.Outgoing{To: "+15550100", Offer: []byte(description)}, h)
			if err != nil {
				ends <- err
				return
			}
			take(d.Context().Done())
			if cause := context.Cause(d.Context()); cause != sip.ErrPeerBye {
				ends <- cause
				return
			}
			ends <- nil
		}()
	}
	for range calls {
		if err := must(t, "the end of a call", ends); err != nil {
			t.Error(err)
		}
	}
	status, err := p.Wait(30 * time.Second)
	if err != nil || status != 0 {
		text, _ := os.ReadFile(filepath.Join(dir, "errors.log"))
		t.Errorf("SIPp: status %d, %v\n%s", status, err, text)
	}
}
