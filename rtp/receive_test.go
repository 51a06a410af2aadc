package rtp_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"parley/rtp/rtptest"
)

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
		time.Sleep(ptime + 5*ms) // what comes at once is looked for when the next is due
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
