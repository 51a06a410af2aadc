package rtp_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtcp"

	"parley/rtp"
	"parley/rtp/rtptest"
)

// line is two sessions that talk to each other.
type line struct {
	*rig
	a, b   *rtp.Session
	pa, pb *phone
	fa, fb rtp.Flow
}

func newLine(t *testing.T, c rtptest.Conditions, mux bool) *line {
	t.Helper()
	l := &line{rig: newRig(t, c, nil), pa: &phone{}, pb: &phone{}}
	l.a, l.fa = l.end(mux)
	l.b, l.fb = l.end(mux)
	l.fa.Peer, l.fb.Peer = l.b.Local(), l.a.Local()
	l.fa.RTCP, l.fb.RTCP = above(l.b.Local()), above(l.a.Local())
	l.a.SetFlow(l.fa)
	l.b.SetFlow(l.fb)
	l.a.Join(l.pa)
	l.b.Join(l.pb)
	return l
}

func (l *line) end(mux bool) (*rtp.Session, rtp.Flow) {
	l.t.Helper()
	s, err := l.w.Listen()
	if err != nil {
		l.t.Fatal(err)
	}
	if !mux {
		if port, err := s.ListenRTCP(); err != nil || port != s.Local().Port()+1 {
			l.t.Fatalf("RTCP port %d of %v: %v", port, s.Local(), err)
		}
	}
	f := flowTo(netip.AddrPort{})
	f.Mux = mux
	return s, f
}

func above(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr(), a.Port()+1) }

// settled stops both from sending and gives the figures when all has arrived.
func (l *line) settled() (a, b rtp.Stats) {
	l.a.Bye()
	l.b.Bye()
	time.Sleep(2 * time.Second)
	return l.a.Stats(), l.b.Stats()
}

func TestReportsGoBothWays(t *testing.T) {
	for _, mux := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLine(t, rtptest.Conditions{Delay: 40 * ms}, mux)
			time.Sleep(3200 * ms)
			if a, b := l.a.Stats().Reports, l.b.Stats().Reports; a.Sent != 1 || b.Sent != 1 || b.Received != 1 {
				t.Errorf("mux %v: the first reports are not early: %+v", mux, a)
			}
			time.Sleep(2 * time.Minute)
			a, b := l.settled()
			for _, s := range []struct{ st, peer rtp.Stats }{{a, b}, {b, a}} {
				r := s.st.Reports
				// 2.05 to 6.16 s apart, and the one with the BYE.
				if r.Sent < 20 || r.Sent > 61 || r.Sent != s.peer.Reports.Received || r.Byes != 1 || r.SenderReports != r.Received || r.ReceiverReports != 0 {
					t.Errorf("mux %v: %+v", mux, r)
				}
				if d := r.RTT - 80*ms; d < -ms || d > ms || r.MaxRTT < r.RTT || r.MaxRTT > 81*ms {
					t.Errorf("mux %v: round trip %v, at most %v, over a network that takes 80 ms", mux, r.RTT, r.MaxRTT)
				}
				if !r.Reported || r.PeerLost != 0 || r.PeerLossRate != 0 || r.PeerFraction != 0 || r.MOS < 4.3 || r.PeerMOS < 4.3 || r.MOS > 4.5 || r.PeerMOS > 4.5 {
					t.Errorf("mux %v: %+v", mux, r)
				}
				if r.Malformed+r.Strange+r.SendErrors+s.st.Malformed+s.st.Strange+s.st.Probation != 0 || r.Last < 2*time.Minute {
					t.Errorf("mux %v: %+v", mux, s.st)
				}
				if on := s.st.RTCP; mux && on != r.Received || !mux && on != 0 {
					t.Errorf("mux %v: %d on the RTP port", mux, on)
				}
				if want := s.peer.Sent; s.st.Received != want {
					t.Errorf("mux %v: %d RTP packets of %d", mux, s.st.Received, want)
				}
			}
			if n, want := l.net.Open(), map[bool]int{true: 2, false: 4}[mux]; n != want {
				t.Errorf("mux %v: %d sockets", mux, n)
			}
			if c := l.net.Counts(); c.Sent != a.Sent+b.Sent+a.Reports.Sent+b.Reports.Sent || c.Unreachable != 0 {
				t.Errorf("mux %v: %+v", mux, c)
			}
			l.close()
		})
	}
}

func TestReportsTellOfLossAndJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, rtptest.Conditions{Loss: 0.1, Delay: 20 * ms, Jitter: 30 * ms}, false)
		time.Sleep(5 * time.Minute)
		before := l.a.Stats().Lost
		a, b := l.settled()
		r := b.Reports
		// The last report b has may be some seconds old.
		if r.PeerLost > a.Lost || r.PeerLost+60 < before || r.PeerLossRate < 0.08 || r.PeerLossRate > 0.12 || r.PeerFraction == 0 || r.PeerFraction > 0.25 {
			t.Errorf("lost are %d, told was %+v", a.Lost, r)
		}
		if d := r.PeerJitter - a.Jitter; r.PeerJitter < ms || d < -10*ms || d > 10*ms {
			t.Errorf("jitter is %v, told was %v", a.Jitter, r.PeerJitter)
		}
		if r.MOS > 3.5 || r.MOS < 3 || r.PeerMOS > 3.5 || r.PeerMOS < 3 {
			t.Errorf("a tenth of the sound is missing, and the MOS are %.2f and %.2f", r.MOS, r.PeerMOS)
		}
		if share := float64(r.Received) / float64(a.Reports.Sent); share < 0.7 || share > 1 {
			t.Errorf("%d of %d reports came", r.Received, a.Reports.Sent)
		}
		l.close()
	})
}

func TestOnHoldReportsGoOn(t *testing.T) { // BR-088
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, rtptest.Conditions{}, false)
		time.Sleep(10 * time.Second)
		l.fa.Send, l.fb.Send, l.fa.Recv, l.fb.Recv = false, false, false, false
		l.a.SetFlow(l.fa)
		l.b.SetFlow(l.fb)
		time.Sleep(20 * time.Second)
		held, sent := l.a.Stats(), l.b.Stats().Sent
		time.Sleep(time.Minute)
		st := l.a.Stats()
		if n := st.Reports.ReceiverReports - held.Reports.ReceiverReports; n < 9 || n > 30 || st.Reports.SenderReports != held.Reports.SenderReports {
			t.Errorf("on hold: %+v, a minute later %+v", held.Reports, st.Reports)
		}
		if l.b.Stats().Sent != sent || st.Received != held.Received {
			t.Error("sound on hold")
		}
		// The hold of RFC 2543 has no address: nothing goes anywhere.
		l.fb.Peer, l.fb.RTCP = netip.AddrPort{}, netip.AddrPort{}
		l.b.SetFlow(l.fb)
		time.Sleep(time.Second)
		sent = l.b.Stats().Reports.Sent
		time.Sleep(time.Minute)
		if n := l.b.Stats().Reports.Sent; n != sent {
			t.Errorf("%d reports to nowhere", n-sent)
		}
		l.close()
	})
}

func TestNoReportsWithoutAnAgreement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		time.Sleep(time.Minute)
		s.Bye()
		if st := s.Stats(); st.Reports.Sent+st.Reports.SendErrors != 0 || r.net.Counts().Sent != st.Sent {
			t.Errorf("%+v", st.Reports)
		}
		peer.Close()
		r.close()
	})
}

func TestByeIsTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, rtptest.Conditions{}, false)
		l.b.Bye() // in its first moment: nothing was sent yet, so nothing is said
		if r := l.b.Stats().Reports; r.Sent > 1 {
			t.Errorf("%+v", r)
		}
		time.Sleep(time.Second)
		began := time.Now()
		l.a.Bye()
		if took := time.Since(began); took > 10*ms {
			t.Errorf("took %v", took)
		}
		before := l.net.Counts().Sent
		l.a.Bye()
		time.Sleep(time.Minute)
		l.a.Close()
		l.a.Bye()
		if n := l.net.Counts().Sent - before; n != 0 {
			t.Errorf("%d packets after the BYE", n)
		}
		if r := l.b.Stats().Reports; r.Byes != 1 || r.Received != 1 {
			t.Errorf("%+v", r)
		}
		unjoined, _ := l.end(false)
		unjoined.Bye()
		l.close()
	})
}

// stranger is a socket that sends RTCP and counts what comes.
type stranger struct {
	rtp.PacketConn
	got chan int
}

func newStranger(t *testing.T, n *rtptest.Network, addr string) *stranger {
	t.Helper()
	conn, err := n.Listen(netip.MustParseAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{conn, make(chan int, 1)}
	go func() {
		got := 0
		for b := make([]byte, 2048); ; got++ {
			if _, _, err := conn.ReadFromUDPAddrPort(b); errors.Is(err, net.ErrClosed) {
				s.got <- got
				return
			}
		}
	}()
	return s
}

// end closes the socket and says how much came.
func (s *stranger) end() int { s.Close(); return <-s.got }

func (s *stranger) say(t *testing.T, to netip.AddrPort, packets ...rtcp.Packet) {
	t.Helper()
	b, err := rtcp.Marshal(packets)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.WriteToUDPAddrPort(b, to)
	time.Sleep(150 * ms) // the port is drained every 100
}

func TestOnlyThePeerIsHeardAndNobodyElseAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		if _, err := s.ListenRTCP(); err != nil {
			t.Fatal(err)
		}
		f := flowTo(peer.Addr())
		f.RTCP = netip.MustParseAddrPort("127.0.0.1:4999")
		s.SetFlow(f)
		join(s, ph)
		talk(peer, 10)
		port := above(s.Local())
		rr := &rtcp.ReceiverReport{SSRC: peer.SSRC}
		far, near := newStranger(t, r.net, "10.9.9.9:4999"), newStranger(t, r.net, "127.0.0.1:5001")
		second, named := newStranger(t, r.net, "127.0.0.1:5003"), newStranger(t, r.net, "127.0.0.1:4999")
		expect := func(what string, received, strange uint64, remote string) {
			t.Helper()
			time.Sleep(7 * time.Second) // a report of ours in between
			if st := s.Stats().Reports; st.Received != received || st.Strange != strange || st.Remote.String() != remote {
				t.Errorf("%s: %+v", what, st)
			}
		}
		far.say(t, port, rr)
		expect("another host", 0, 1, "127.0.0.1:4999")
		near.say(t, port, &rtcp.ReceiverReport{SSRC: 77})
		expect("the host, another SSRC", 0, 2, "127.0.0.1:4999")
		near.say(t, port, rr)
		expect("another port of the host", 1, 2, "127.0.0.1:5001")
		second.say(t, port, rr)
		expect("a third port", 1, 3, "127.0.0.1:5001")
		near.say(t, port, &rtcp.ReceiverReport{SSRC: s.Stats().SSRC})
		expect("our own, back", 1, 4, "127.0.0.1:5001")
		named.say(t, port, rr)
		expect("the address of the SDP", 2, 4, "127.0.0.1:4999")
		near.say(t, port, rr)
		expect("the port of before", 2, 5, "127.0.0.1:4999")
		s.SetFlow(f) // an offer/answer
		near.say(t, port, rr)
		expect("after an offer/answer", 3, 5, "127.0.0.1:5001")
		f.Strict = true
		s.SetFlow(f)
		second.say(t, port, rr)
		expect("strict", 3, 6, "127.0.0.1:5001")
		if a, b := far.end(), second.end(); a+b != 0 {
			t.Errorf("strangers were sent %d packets", a+b)
		}
		if a, b := near.end(), named.end(); a == 0 || b == 0 {
			t.Errorf("the peer was sent %d and %d packets", a, b)
		}
		// On the RTP port the source of the RTP is believed, and nobody else.
		peer.Raw(mustMarshal(t, rr))
		near = newStranger(t, r.net, "127.0.0.1:5001")
		near.say(t, s.Local(), rr)
		if st := s.Stats(); st.Reports.Received != 4 || st.Reports.Strange != 7 || st.RTCP != 2 || st.Received != 10 {
			t.Errorf("%+v", st)
		}
		near.end()
		peer.Close()
		r.close()
	})
}

func mustMarshal(t *testing.T, p ...rtcp.Packet) []byte {
	t.Helper()
	b, err := rtcp.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBehindANATTheStreamSaysWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		if _, err := s.ListenRTCP(); err != nil {
			t.Fatal(err)
		}
		f := flowTo(netip.MustParseAddrPort("192.168.1.4:4000"))
		f.RTCP = netip.MustParseAddrPort("192.168.1.4:4001")
		s.SetFlow(f)
		join(s, ph)
		time.Sleep(300 * ms)
		talk(peer, 500)
		if st := s.Stats(); st.Reports.Remote != above(peer.Addr()) || st.Remote != peer.Addr() {
			t.Errorf("RTP to %v, RTCP to %v", st.Remote, st.Reports.Remote)
		}
		f.Asymmetric, f.Rearm = true, false
		s.SetFlow(f)
		time.Sleep(7 * time.Second)
		if st := s.Stats(); st.Reports.Remote != f.RTCP {
			t.Errorf("asymmetric: RTCP to %v", st.Reports.Remote)
		}
		peer.Close()
		r.close()
	})
}

func TestThePortForRTCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, func(c *rtp.Config) { c.PortMin, c.PortMax = 20000, 20003 })
		taken, err := r.net.Listen(netip.MustParseAddrPort("127.0.0.1:20001"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s, err := r.w.Listen()
			if err != nil {
				t.Fatal(err)
			}
			first, err := s.ListenRTCP()
			again, err2 := s.ListenRTCP()
			if err != nil || err2 != nil || again != first || (first == s.Local().Port()+1) != (s.Local().Port() == 20002) {
				t.Errorf("RTP %v, RTCP %d, then %d: %v %v", s.Local(), first, again, err, err2)
			}
			s.Close()
			if _, err := s.ListenRTCP(); !errors.Is(err, rtp.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		}
		taken.Close()
		r.close()
	})
}

// judged is a phone that says how it plays.
type judged struct{ phone }

func (*judged) Playout() (time.Duration, uint64) { return 60 * ms, 250 }

func TestMetricsForPeersThatWantThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, rtptest.Conditions{Delay: 10 * ms}, false)
		s, f := l.end(false)
		s2, f2 := l.end(false)
		f.Peer, f.RTCP, f.Extended = s2.Local(), above(s2.Local()), true
		f2.Peer, f2.RTCP = s.Local(), above(s.Local())
		s.SetFlow(f)
		s2.SetFlow(f2)
		s.Join(&judged{})
		s2.Join(&phone{})
		time.Sleep(time.Minute)
		here, there := s.Stats().Reports, s2.Stats().Reports
		if there.Extended == 0 || there.Extended != there.Received || here.Extended != 0 {
			t.Errorf("%+v, %+v", here, there)
		}
		// 250 of 3000 packets came too late: 8 %.
		if here.Discarded != 250 || here.MOS > 3.6 || here.MOS < 3.3 || there.PeerMOS < here.MOS-0.3 || there.PeerMOS > here.MOS+0.3 {
			t.Errorf("here %.2f, told there %.2f", here.MOS, there.PeerMOS)
		}
		l.close()
	})
}

func TestSessionsWithRTCPLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		done := make(chan struct{})
		for i := range 100 {
			go func() {
				defer func() { done <- struct{}{} }()
				s, ph, peer := r.call()
				defer peer.Close()
				f := flowTo(peer.Addr())
				f.Mux = i%5 == 0
				f.RTCP = above(peer.Addr())
				if i%2 == 0 {
					s.SetFlow(f)
				}
				go s.ListenRTCP()
				if i%3 > 0 {
					s.Join(ph)
				}
				time.Sleep(time.Duration(i) * 31 * ms)
				go s.Bye()
				s.Close()
			}()
		}
		for range 100 {
			<-done
		}
		time.Sleep(time.Second)
		r.close()
	})
}
