package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent"
	"parley/call"
	"parley/test/phone"
)

// TestTheCallerHangsUpAtAnyInstant (BR-135, BR-152): while the gateway listens,
// waits for a transcript, asks the agent, speaks or waits for the agent's next
// sentence. A second later nothing of the call is left, and no packet comes to a
// port that may belong to another call by then.
func TestTheCallerHangsUpAtAnyInstant(t *testing.T) {
	const calls, atOnce = 100, 10
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	a := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ turn, _ int) {
		think(r, 300*time.Millisecond)
		for range 20 {
			say(w, "Another few words now. ")
			flush(w)
			if think(r, 400*time.Millisecond); r.Context().Err() != nil {
				return
			}
		}
	})
	g := startGateway(t, nil)
	warm(t, g)
	probe := newProbe(t)
	idle := g.wheel.Stats()
	before := goleak.IgnoreCurrent()
	states := map[string]*atomic.Int64{}
	for _, state := range []string{"listening", "caller speaks", "thinking", "agent speaks"} {
		states[state] = &atomic.Int64{}
	}
	random := rand.New(rand.NewPCG(seed, 5))
	instants := make([]time.Duration, calls)
	for i := range instants {
		instants[i] = time.Duration(random.IntN(3200)) * time.Millisecond
	}
	hello := human(t, "hello")
	together(t, atOnce, calls, func(i int) string { return fmt.Sprint("after ", instants[i]) }, func(t *testing.T, i int) {
		p, name := newParts(a.URL, "hello"), fmt.Sprint("hangs", i)
		p.hears = slow("hello there", 150*time.Millisecond)
		p.plug(t, g, name)
		c := dial(t, newPhone(t, phone.Config{T1: 100 * time.Millisecond}), g.uri(name))
		c.Say(hello)
		select {
		case <-time.After(instants[i]):
		case <-c.Done():
			t.Fatalf("the gateway hung up: %+v", c.End())
		}
		local := c.Log().Packets()[0].Local
		hangUp(t, c)
		quiet(t, local)
		record, events := g.ended(t, c)
		if record.Cause != call.CauseCallerHungUp || record.Error != "" {
			t.Errorf("ended by %q %s", record.Cause, record.Error)
		}
		noErrors(t, probe, events)
		if all := of(events, agent.EventState); len(all) > 0 {
			states[all[len(all)-1].Reason].Add(1)
		}
	})
	left := time.Now()
	eventually(t, time.Second+busy, "no call, no RTP session and no request are left", func() bool {
		s := g.wheel.Stats()
		return g.calls.Active() == 0 && s.Sessions == idle.Sessions && s.PortsInUse == idle.PortsInUse && a.running.Load() == 0
	})
	a.CloseClientConnections()
	if err := goleak.Find(before); err != nil {
		t.Errorf("%v after the last call: %v", time.Since(left), err)
	}
	for state, n := range states {
		t.Logf("%d calls ended while %s", n.Load(), state)
		if n.Load() == 0 {
			t.Errorf("no call ended while %q", state)
		}
	}
}

// noErrors fails when there are complaints, but for those about a stall of the whole
// process that was truly there.
func noErrors(t *testing.T, p *probe, events []agent.Event) {
	t.Helper()
	for _, e := range of(events, agent.EventError) {
		if stall := p.taken(e.At.Add(-30*time.Second), e.At); strings.Contains(e.Reason, "fell behind") && stall > 300*time.Millisecond {
			t.Logf("the machine took %v: %s", stall, e.Reason)
			continue
		}
		t.Errorf("complaint: %s", e.Reason)
	}
}

// quiet listens where a phone listened and fails when anything comes.
func quiet(t *testing.T, local fmt.Stringer) {
	t.Helper()
	address, err := net.ResolveUDPAddr("udp", local.String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp", address)
	if err != nil {
		t.Logf("another phone has the port already: %v", err)
		return
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	var buf [2048]byte
	if n, from, err := conn.ReadFrom(buf[:]); err == nil {
		t.Errorf("%d bytes from %v after the BYE was answered", n, from)
	}
}
