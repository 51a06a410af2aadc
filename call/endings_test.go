package call

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"parley/rtp"
	"parley/sip"
	"parley/test/phone"
)

// howMany is a number of calls, less with -short, and with the race detector, under
// which everything takes so much longer.
func howMany(t *testing.T, n int) int {
	t.Helper()
	if v, err := strconv.Atoi(os.Getenv("PARLEY_CALLS")); err == nil {
		return v
	}
	if testing.Short() || raced() {
		return n / 10
	}
	return n
}

// raced says whether the race detector is in this program.
func raced() bool {
	b, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(b.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func TestBothSidesHangUpAtOnce(t *testing.T) { // BR-174
	total := howMany(t, 1000)
	g := startGateway(t, func(c *Config, s *sip.Config) { c.MaxCalls, s.T1 = 100, 100*time.Millisecond })
	g.agent.does(func(ctx context.Context, s *fakeSession) error {
		timer := time.NewTimer(30*time.Millisecond + time.Duration(rand.IntN(10))*time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil // hangs up
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	p := ringUp(t, phone.Config{Number: "+14155550100", T1: 100 * time.Millisecond})
	var all sync.WaitGroup
	gate := make(chan struct{}, 16)
	for i := range total {
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			if i%10 == 0 { // taken back 0 to 5 ms after the INVITE
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(5000))*time.Microsecond)
				defer cancel()
				if c, err := p.Dial(ctx, g.uri); err == nil {
					_ = c.Hangup(context.Background())
				}
				return
			}
			c, err := p.Dial(context.Background(), g.uri)
			if err != nil {
				t.Error(err)
				return
			}
			if i%3 == 0 { // a fresh SSRC from the same port at the same moment
				go func() { _ = c.MovePort(context.Background()) }()
			}
			time.Sleep(25*time.Millisecond + time.Duration(rand.IntN(10))*time.Millisecond)
			err = c.Hangup(context.Background())
			// The re-INVITE and the BYE may change places on their way out: then the
			// BYE's CSeq is too low (RFC 3261 section 12.2.2), and the agent's ends it.
			var status *phone.StatusError
			if crossed := i%3 == 0 && errors.As(err, &status) && status.Code == 500; err != nil && !crossed {
				t.Errorf("BYE: %v", err)
			}
		})
	}
	all.Wait()
	settled(t, g)
	causes := map[string]int{}
	for len(g.seen.ended) > 0 {
		causes[(<-g.seen.ended).Cause]++
	}
	if causes[CauseAgentHungUp] == 0 || causes[CauseCallerHungUp] == 0 || causes[CauseFault] > 0 {
		t.Errorf("causes %v: want both sides to have been first now and then, and no fault", causes)
	}
}

// settled waits until no call is left, and no port but those in quarantine.
func settled(t *testing.T, g *gateway) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); g.Active() > 0 || g.wheel.Stats().Sessions > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d calls and %d sessions are left: %+v", g.Active(), g.wheel.Stats().Sessions, g.Calls())
		}
	}
}

func TestWhenThePortsAreTaken(t *testing.T) { // BR-178
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	answered := p.AnswerAll()
	const pairs = 5 // that are to be had
	rc := rtp.DefaultConfig()
	rc.Addr = netip.MustParseAddr("127.0.0.1")
	rc.PortMin, rc.PortMax = 41001, 41003+2*pairs // an odd start
	// Another process has the first pair's port.
	taken, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 41002})
	if err != nil {
		t.Skip("port 41002 is somebody else's already:", err)
	}
	defer func() { _ = taken.Close() }()
	rc.Quarantine = 200 * time.Millisecond
	g := startGatewayOf(t, nil, func(parts *Parts) {
		w, err := rtp.NewWheel(rc)
		if err != nil {
			t.Fatal(err)
		}
		parts.Wheel, parts.Trunks = w, []Trunk{trunkTo(p)}
		t.Cleanup(func() { _ = w.Close() })
	})
	caller := ringUp(t, phone.Config{Number: "+14155550100"})
	var in []*phone.Call
	var ids []string
	refused := 0
	for i := range 12 {
		if i%2 == 0 {
			id, err := g.Dial(within(t), Outgoing{To: fmt.Sprintf("+12125550%03d", i)})
			switch {
			case err == nil:
				ids = append(ids, id)
				await(t, answered, "call")
			case errors.Is(err, ErrLimit) && errors.Is(err, rtp.ErrNoPort): // at once, not after it was accepted
				refused++
			default:
				t.Error(err)
			}
			continue
		}
		c, err := caller.Dial(within(t), g.uri)
		var status *phone.StatusError
		switch {
		case err == nil:
			in = append(in, c)
		case errors.As(err, &status) && status.Code == 503 && status.Response.Get("Retry-After") != "":
			refused++
			if got := g.seen.awaitRefusal(t); got != "503 no_port" {
				t.Errorf("refused with %q", got)
			}
		default:
			t.Error(err)
		}
	}
	if up := len(in) + len(ids); up != pairs || refused != 12-pairs {
		t.Errorf("%d calls are up and %d were refused; there are %d pairs of ports", up, refused, pairs)
	}
	for _, c := range in {
		if err := c.Hangup(within(t)); err != nil {
			t.Error(err)
		}
	}
	for _, id := range ids {
		if err := g.HangUp(id, ""); err != nil {
			t.Error(err)
		}
	}
	for limit := within(t); ; time.Sleep(20 * time.Millisecond) { // after the quarantine they are free
		c, err := caller.Dial(within(t), g.uri)
		if err == nil {
			if err := c.Hangup(within(t)); err != nil {
				t.Error(err)
			}
			break
		}
		if limit.Err() != nil {
			t.Fatal("no port came free")
		}
	}
}
