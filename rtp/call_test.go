package rtp_test

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
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

func TestFiveMinutesBothWaysOverABadNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{Loss: 0.02, Duplicate: 0.01, Reorder: 0.02, Delay: 30 * ms, Jitter: 10 * ms}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		const n = 5 * 60 * 50
		talk(peer, n)
		s.Close()
		time.Sleep(time.Second)

		st, seen, in, net := s.Stats(), peer.Seen(), ph.packets(), r.net.Counts()
		if uint64(len(in)) != st.Received || st.Received+st.Duplicate+uint64(len(seen)) != net.Delivered {
			t.Errorf("handler %d, %+v, peer %d, network %+v", len(in), st, len(seen), net)
		}
		if net.Sent != n+st.Sent || net.Delivered+net.Unread+net.Lost+net.Unreachable != net.Sent+net.Duplicated {
			t.Errorf("sent %d and %d: network %+v", n, st.Sent, net)
		}
		lowest, highest := 1<<20, 0
		for _, p := range in {
			i := int(p.Sequence - 1000)
			lowest, highest = min(lowest, i), max(highest, i)
		}
		if want := uint64(highest - lowest + 1 - len(in)); st.Lost != want || want < n/100 {
			t.Errorf("lost %d, want %d", st.Lost, want)
		}
		if d := int(st.Sent) - n; d < -1 || d > 1 {
			t.Errorf("sent %d packets in the time of %d", st.Sent, n)
		}
		if st.Reordered < n/200 || st.Duplicate < n/200 || st.Jitter < 2*ms || st.Jitter > 15*ms || st.Strange+st.Malformed+st.SkippedSlots+st.Resyncs != 0 {
			t.Errorf("%+v", st)
		}
		peer.Close()
		r.close()
	})
}

func TestSendingKeepsItsScheduleAndItsTimestamps(t *testing.T) {
	for _, step := range []time.Duration{10 * ms, 20 * ms, 30 * ms, 40 * ms, 60 * ms} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rtptest.Conditions{}, nil)
			s, ph, peer := r.call()
			f := flowTo(peer.Addr())
			f.PacketTime = step
			s.SetFlow(f)
			join(s, ph)
			time.Sleep(10*time.Second + 2*ms)
			seen := peer.Seen()
			if n := int(10 * time.Second / step); len(seen) < n-1 || len(seen) > n+1 {
				t.Errorf("%v: %d packets in 10 s, want %d", step, len(seen), n)
			}
			onSchedule(t, seen, 0, 1) // BR-096, BR-102
			for i, p := range seen {
				if p.Marker != (i == 0) || p.From != s.Local() {
					t.Fatalf("packet %d: marker %v from %v", i, p.Marker, p.From)
				}
			}
			peer.Close()
			r.close()
		})
	}
}

func TestAChangeOfPacketTimeKeepsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		time.Sleep(time.Second)
		for _, step := range []time.Duration{60 * ms, 10 * ms, 30 * ms} {
			f := flowTo(peer.Addr())
			f.PacketTime = step
			s.SetFlow(f)
			before := len(peer.Seen())
			time.Sleep(1800 * ms)
			if n, want := len(peer.Seen())-before, int(1800*ms/step); n < want-2 || n > want+1 {
				t.Errorf("%v: %d packets in 1.8 s, want %d", step, n, want)
			}
		}
		onSchedule(t, peer.Seen(), 60*ms, 1)
		peer.Close()
		r.close()
	})
}

func TestAStallIsSkippedAndNotSentLate(t *testing.T) {
	tests := []struct {
		stall    time.Duration
		skipped  int // slots given up
		burst    int
		markers  int // after the first
		lateness time.Duration
	}{
		{15 * ms, 0, 1, 0, 20 * ms},
		{50 * ms, 0, 3, 0, 60 * ms}, // short: nothing is lost
		{300 * ms, 13, 1, 1, 20 * ms},
		{2 * time.Second, 98, 1, 1, 20 * ms},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rtptest.Conditions{}, nil)
			s, ph, peer := r.call()
			other, heavy, peer2 := r.call()
			join(s, ph)
			join(other, heavy)
			time.Sleep(time.Second)
			heavy.set(func() { heavy.stall = tt.stall })
			time.Sleep(3 * time.Second)
			seen := peer.Seen()
			onSchedule(t, seen, tt.lateness, tt.burst)
			markers := 0
			for _, p := range seen[1:] {
				if p.Marker {
					markers++
				}
			}
			st := s.Stats()
			if d := int(st.SkippedSlots) - tt.skipped; d < -2 || d > 2 || markers != tt.markers || len(seen)+int(st.SkippedSlots) < 199 {
				t.Errorf("%v: %d skipped, %d markers, %d sent", tt.stall, st.SkippedSlots, markers, len(seen))
			}
			if n := len(ph.skipped); n != tt.markers || n > 0 && ph.skipped[0] != int(st.SkippedSlots) {
				t.Errorf("%v: the handler heard of %v skipped", tt.stall, ph.skipped)
			}
			if ws := r.w.Stats(); ws.LongestTurn < tt.stall || tt.stall > 100*ms && (ws.MissedTurns == 0 || ws.SkippedSlots < st.SkippedSlots) {
				t.Errorf("%+v", ws)
			}
			peer.Close()
			peer2.Close()
			r.close()
		})
	}
}

func TestTimestampsPassWhileNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		time.Sleep(time.Second)
		hold := flowTo(peer.Addr())
		hold.Send = false
		s.SetFlow(hold)
		time.Sleep(ptime)
		held := len(peer.Seen())
		time.Sleep(4 * time.Second)
		if n := len(peer.Seen()); n != held {
			t.Errorf("%d packets on hold", n-held)
		}
		s.SetFlow(flowTo(peer.Addr()))
		time.Sleep(time.Second)
		if resumed := peer.Seen()[held]; !resumed.Marker {
			t.Error("no marker after the hold")
		}
		ph.set(func() { ph.silent = true })
		time.Sleep(4 * time.Second)
		quiet := len(peer.Seen())
		ph.set(func() { ph.silent = false })
		time.Sleep(time.Second)
		if resumed := peer.Seen()[quiet]; resumed.Marker {
			t.Error("the marker after a pause is the handler's")
		}
		onSchedule(t, peer.Seen(), 0, 1)
		peer.Close()
		r.close()
	})
}

func TestNothingIsSentWithoutADestinationOrAFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		late, mute, peer2 := r.call()
		f := flowTo(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
		s.SetFlow(f)
		join(s, ph)
		bare, err := r.w.Listen()
		if err != nil {
			t.Fatal(err)
		}
		join(bare, &phone{})
		peer2.To = bare.Local()
		peer2.Send(false, []byte{1})
		time.Sleep(time.Second)
		if st := bare.Stats(); st.Sent != 0 || st.Stale+st.Received != 1 || st.Received != 0 {
			t.Errorf("without a flow: %+v", st)
		}
		if st := s.Stats(); st.Sent != 0 || ph.slots != 0 || st.Remote.IsValid() {
			t.Errorf("without a destination: %+v", st)
		}
		talk(peer, 10)
		if st := s.Stats(); st.Sent == 0 || st.Remote != peer.Addr() || !st.Latched || st.Probation != 2 {
			t.Errorf("latched: %+v", st)
		}
		_, _ = late, mute
		peer.Close()
		peer2.Close()
		r.close()
	})
}

func TestWhatCameBeforeJoinIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		talk(peer, 50) // BR-105
		join(s, ph)
		talk(peer, 10)
		in, st := ph.packets(), s.Stats()
		if len(in) != 10 || st.Stale != 50 || st.Received != 10 || st.Lost != 0 || !in[0].Resync || in[1].Resync || in[0].Sequence != 1050 {
			t.Errorf("%d packets, %+v", len(in), st)
		}
		peer.Close()
		r.close()
	})
}

func TestAStrangerNeitherHearsNorIsHeard(t *testing.T) { // BR-158
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		evil, err := rtptest.NewPeer(r.net, netip.MustParseAddrPort("127.0.0.3:6666"), s.Local())
		if err != nil {
			t.Fatal(err)
		}
		evil.SSRC = 0xBAD
		join(s, ph)
		evil.Raw([]byte{0x80})
		evil.Raw(nil)
		talk(evil, 10) // before the first packet of the peer
		go talk(evil, 500)
		talk(peer, 500)
		time.Sleep(time.Second)
		for _, p := range ph.packets() {
			if p.SSRC == evil.SSRC {
				t.Fatal("the stranger was heard")
			}
		}
		st := s.Stats()
		if n := len(evil.Seen()); n != 0 || len(ph.packets()) != 500 || st.Strange+st.Probation != 510 || st.Malformed != 2 || st.Remote != peer.Addr() {
			t.Errorf("the stranger got %d packets; %+v", n, st)
		}
		evil.Close()
		peer.Close()
		r.close()
	})
}

func TestAReINVITEMovesTheStream(t *testing.T) { // BR-097
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		// The SDP names one port, packets come from another.
		named := netip.AddrPortFrom(peer.Addr().Addr(), 4000)
		s.SetFlow(flowTo(named))
		join(s, ph)
		talk(peer, 50)
		if st := s.Stats(); st.Remote != peer.Addr() || st.Received != 48 || st.Probation != 2 {
			t.Errorf("%+v", st)
		}
		next, err := rtptest.NewPeer(r.net, netip.AddrPort{}, s.Local())
		if err != nil {
			t.Fatal(err)
		}
		next.SSRC = 0xFEED
		moved := flowTo(netip.AddrPortFrom(peer.Addr().Addr(), 5000))
		s.SetFlow(moved)
		moved.Rearm = false
		s.SetFlow(moved) // at once again, without: must not shut the latch
		talk(next, 50)
		if st := s.Stats(); st.Remote != next.Addr() || st.Resyncs != 1 || st.Received < 94 {
			t.Errorf("%+v", st)
		}
		asymmetric := flowTo(netip.AddrPortFrom(peer.Addr().Addr(), 5000))
		asymmetric.Asymmetric = true
		s.SetFlow(asymmetric)
		talk(next, 10)
		if st := s.Stats(); st.Remote.Port() != 5000 {
			t.Errorf("asymmetric: %+v", st)
		}
		peer.Close()
		next.Close()
		r.close()
	})
}

func TestANewSourceOfTheSamePeerIsHeardWithinTwoPackets(t *testing.T) { // BR-087
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		talk(peer, 500)
		peer.SSRC, peer.Sequence, peer.Timestamp = 0xB0B, 12676, 7
		talk(peer, 100)
		peer.Sequence = 40000
		talk(peer, 100)
		in, st := ph.packets(), s.Stats()
		if len(in) != 698 || st.Resyncs != 2 || st.Probation != 2 || st.PeerSSRC != 0xB0B {
			t.Fatalf("%d packets, %+v", len(in), st)
		}
		for i, p := range in {
			if p.Resync != (i == 0 || i == 500 || i == 599) {
				t.Errorf("packet %d: resync %v", i, p.Resync)
			}
		}
		peer.Close()
		r.close()
	})
}

func TestWhatIsNotForTheHandlerIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		peer.Send(true, nil) // a keep-alive
		peer.SendAs(13, false, 0, []byte{40})
		peer.SendAs(101, true, 0, []byte{5, 10, 0, 160})
		peer.Raw([]byte{0x80, 200, 0, 0, 0, 0, 0, 0})
		peer.Raw(append([]byte{0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x42}, make([]byte, 12)...))
		peer.Raw(make([]byte, 5000))
		time.Sleep(ptime)
		recv := flowTo(peer.Addr())
		recv.Recv = false
		s.SetFlow(recv)
		peer.Send(false, []byte{1})
		time.Sleep(ptime)
		st, in := s.Stats(), ph.packets()
		if st.Empty != 1 || st.WrongPT != 1 || st.RTCP != 1 || st.STUN != 1 || st.Malformed != 1 || st.Muted != 1 || st.Received != 4 || st.Lost != 0 {
			t.Errorf("%+v", st)
		}
		if len(in) != 1 || in[0].PayloadType != 101 || !in[0].Marker || !in[0].Resync || len(in[0].Payload) != 4 {
			t.Errorf("%+v", in)
		}
		peer.Close()
		r.close()
	})
}

func TestEventsGoInPlaceOfAudioAtOneTimestamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		time.Sleep(time.Second)
		ph.set(func() { ph.events = [][]byte{{5, 10, 0, 160}, {5, 10, 1, 64}, {5, 138, 1, 64}} })
		time.Sleep(time.Second)
		var events []rtptest.Seen
		for i, p := range peer.Seen() {
			if p.PayloadType == 101 {
				events = append(events, p)
				if want := peer.Seen()[0].Timestamp + uint32(i-len(events)+1)*160; p.Timestamp != want {
					t.Errorf("event %d at %d, want %d", len(events), p.Timestamp, want)
				}
				if p.Marker != (len(events) == 1) {
					t.Errorf("event %d: marker %v", len(events), p.Marker)
				}
			} else if want := peer.Seen()[0].Timestamp + uint32(i)*160; p.Timestamp != want {
				t.Errorf("packet %d at %d, want %d", i, p.Timestamp, want)
			}
		}
		if len(events) != 3 {
			t.Errorf("%d events", len(events))
		}
		peer.Close()
		r.close()
	})
}
