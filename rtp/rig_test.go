package rtp_test

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"time"

	"parley/rtp"
	"parley/rtp/rtptest"
)

const (
	ms    = time.Millisecond
	ptime = 20 * ms
)

// phone is a Handler that records what it gets and sends numbered packets.
type phone struct {
	mu      sync.Mutex
	in      []rtp.Packet
	turns   int
	slots   int
	skipped []int
	silent  bool          // Slot has nothing
	stall   time.Duration // the next turn takes so long
	boom    string        // panic in this method
	events  [][]byte      // for Event
	begun   bool
}

func (p *phone) Packet(k *rtp.Packet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.explode("Packet")
	c := *k
	c.Payload = append([]byte(nil), k.Payload...)
	p.in = append(p.in, c)
}

func (p *phone) Turn(time.Duration) {
	p.mu.Lock()
	stall := p.stall
	p.stall = 0
	p.turns++
	p.explode("Turn")
	p.mu.Unlock()
	time.Sleep(stall)
}

func (p *phone) Slot(_ time.Duration, skipped int) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.explode("Slot")
	p.slots++
	if skipped > 0 {
		p.skipped = append(p.skipped, skipped)
	}
	if p.silent {
		return nil, false
	}
	return binary.BigEndian.AppendUint32(nil, uint32(p.slots)), false
}

func (p *phone) Event(time.Duration) ([]byte, uint8, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.events) == 0 {
		return nil, 0, false
	}
	e := p.events[0]
	p.events = p.events[1:]
	first := !p.begun
	p.begun = len(p.events) > 0
	return e, 101, first
}

func (p *phone) explode(where string) {
	if p.boom == where {
		p.mu.Unlock()
		defer p.mu.Lock()
		panic("boom in " + where)
	}
}

func (p *phone) set(f func()) { p.mu.Lock(); defer p.mu.Unlock(); f() }

func (p *phone) packets() []rtp.Packet {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]rtp.Packet(nil), p.in...)
}

// rig is a wheel on a network in memory.
type rig struct {
	t   *testing.T
	net *rtptest.Network
	w   *rtp.Wheel
}

func newRig(t *testing.T, c rtptest.Conditions, change func(*rtp.Config)) *rig {
	t.Helper()
	r := &rig{t: t, net: rtptest.New(1, c)}
	cfg := rtp.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	w, err := rtp.NewWheel(cfg, rtp.WithListen(r.net.Listen))
	if err != nil {
		t.Fatal(err)
	}
	r.w = w
	return r
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.w.Close(); err != nil {
		r.t.Error(err)
	}
	if n := r.net.Open(); n != 0 {
		r.t.Errorf("%d sockets left open", n)
	}
}

// call is a session with its peer, both sending; not joined.
func (r *rig) call() (*rtp.Session, *phone, *rtptest.Peer) {
	r.t.Helper()
	s, err := r.w.Listen()
	if err != nil {
		r.t.Fatal(err)
	}
	peer, err := rtptest.NewPeer(r.net, netip.AddrPort{}, s.Local())
	if err != nil {
		r.t.Fatal(err)
	}
	s.SetFlow(flowTo(peer.Addr()))
	return s, &phone{}, peer
}

// join joins and waits until the wheel has seen it. Seven, so that what a test then
// does every 20 ms falls between two ticks.
func join(s *rtp.Session, h rtp.Handler) {
	s.Join(h)
	time.Sleep(7 * ms)
}

func flowTo(peer netip.AddrPort) rtp.Flow {
	return rtp.Flow{
		Peer: peer, Send: true, Recv: true, PayloadType: 0, ClockRate: 8000, PacketTime: ptime,
		Accept: rtp.Types(0, 101), Rearm: true,
	}
}

// talk lets a peer send n packets, one every 20 ms.
func talk(p *rtptest.Peer, n int) {
	for range n {
		p.Send(false, make([]byte, 160))
		time.Sleep(ptime)
	}
}

// onSchedule fails when a packet is not where its timestamp puts it, at
// 8 kHz from the first, or a burst of packets within a millisecond is longer than it may be.
func onSchedule(t *testing.T, seen []rtptest.Seen, slack time.Duration, burst int) {
	t.Helper()
	run := 1
	for i, s := range seen {
		if i == 0 {
			continue
		}
		due := seen[0].At.Add(time.Duration(s.Timestamp-seen[0].Timestamp) * time.Second / 8000)
		if d := s.At.Sub(due); d < -slack || d > slack {
			t.Errorf("packet %d is off by %v", i, d)
			return
		}
		if s.Sequence != seen[i-1].Sequence+1 || s.SSRC != seen[0].SSRC {
			t.Errorf("packet %d: sequence %d after %d, SSRC %x", i, s.Sequence, seen[i-1].Sequence, s.SSRC)
			return
		}
		if run++; s.At.Sub(seen[i-1].At) > ms {
			run = 1
		}
		if run > burst {
			t.Errorf("packet %d is the %d-th of a burst", i, run)
			return
		}
	}
}
