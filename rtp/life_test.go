package rtp_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/rtp"
	"parley/rtp/rtptest"
)

func TestAPanicEndsItsOwnSessionAlone(t *testing.T) {
	for _, where := range []string{"Packet", "Turn", "Slot"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rtptest.Conditions{}, nil)
			bad, fragile, peer := r.call()
			good, sound, peer2 := r.call()
			join(bad, fragile)
			join(good, sound)
			talk(peer, 10)
			if bad.Err() != nil {
				t.Fatal(bad.Err())
			}
			fragile.set(func() { fragile.boom = where })
			talk(peer, 2)
			<-bad.Fault()
			var fault *rtp.FaultError
			if !errors.As(bad.Err(), &fault) || fault.Value != "boom in "+where || !strings.Contains(string(fault.Stack), "explode") || !strings.Contains(fault.Error(), "boom") {
				t.Errorf("%v", bad.Err())
			}
			before := len(peer2.Seen())
			time.Sleep(time.Second)
			if n := len(peer2.Seen()) - before; n < 49 || n > 51 {
				t.Errorf("the other call sent %d packets in a second", n)
			}
			if st := r.w.Stats(); st.Faults != 1 || st.Sessions != 1 {
				t.Errorf("%+v", st)
			}
			bad.Close()
			good.Close()
			if st := r.w.Stats(); st.Sessions != 0 || st.PortsInUse != 0 || st.PortsQuarantined != 2 || good.Err() != nil {
				t.Errorf("%+v", st)
			}
			peer.Close()
			peer2.Close()
			r.close()
		})
	}
}

func TestAfterCloseTheHandlerIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		s.Join(&phone{boom: "Turn"}) // once only
		time.Sleep(time.Second)
		began := time.Now()
		s.Close()
		if took := time.Since(began); took > 10*ms {
			t.Errorf("close took %v", took)
		}
		turns, slots, sent := ph.turns, ph.slots, len(peer.Seen())
		s.Close()
		s.Join(ph)
		peer.Send(false, []byte{1})
		time.Sleep(time.Second)
		if ph.turns != turns || ph.slots != slots || len(peer.Seen()) != sent {
			t.Error("the handler was called after Close")
		}
		if s.Stats().Sent == 0 {
			t.Error("the figures are gone")
		}
		peer.Close()
		r.close()
	})
}

func TestCallsComeAndGoFromManyGoroutines(t *testing.T) { // BR-171, BR-174
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				time.Sleep(time.Duration(i%20) * ms)
				s, ph, peer := r.call()
				defer peer.Close()
				if i%3 > 0 {
					s.Join(ph)
				}
				peer.Send(false, []byte{1})
				time.Sleep(time.Duration(i%7) * 5 * ms)
				peer.SSRC++ // a fresh source at the moment of hanging up
				peer.Send(false, []byte{1})
				wg.Go(s.Close)
				s.Close()
			})
		}
		wg.Wait()
		if st := r.w.Stats(); st.Sessions != 0 || st.PortsInUse != 0 || st.PortsQuarantined != 200 {
			t.Errorf("%+v", st)
		}
		r.close()
	})
}

func TestClosingTheWheelClosesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		var peers []*rtptest.Peer
		var sessions []*rtp.Session
		for range 20 {
			s, ph, peer := r.call()
			join(s, ph)
			peers, sessions = append(peers, peer), append(sessions, s)
		}
		for _, p := range peers {
			p.Close()
		}
		time.Sleep(time.Second)
		r.close()
		for _, s := range sessions {
			s.Close()
		}
		if err := r.w.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.w.Listen(); !errors.Is(err, rtp.ErrClosed) {
			t.Errorf("listen on a closed wheel: %v", err)
		}
	})
}

func TestPortsRunOut(t *testing.T) { // BR-178
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, func(c *rtp.Config) {
			c.PortMin, c.PortMax, c.Quarantine = 20001, 20022, 5*time.Second
		})
		other, err := r.net.Listen(netip.MustParseAddrPort("127.0.0.1:20006"))
		if err != nil {
			t.Fatal(err)
		}
		var open []*rtp.Session
		for len(open) < 12 {
			s, err := r.w.Listen()
			if err != nil {
				if !errors.Is(err, rtp.ErrNoPort) || len(open) != 9 {
					t.Errorf("%d open: %v", len(open), err)
				}
				break
			}
			if p := s.Local().Port(); p%2 != 0 || p == 20006 || p < 20002 || p > 20020 {
				t.Errorf("port %d", p)
			}
			open = append(open, s)
		}
		if st := r.w.Stats(); st.PortsInUse != 9 || st.PortsTotal != 10 {
			t.Errorf("%+v", st)
		}
		port := open[0].Local().Port()
		open[0].Close()
		if _, err := r.w.Listen(); !errors.Is(err, rtp.ErrNoPort) {
			t.Errorf("a port in quarantine was handed out: %v", err)
		}
		time.Sleep(5 * time.Second)
		if s, err := r.w.Listen(); err != nil || s.Local().Port() != port {
			t.Errorf("after the quarantine: %v", err)
		}
		other.Close()
		r.close()
	})
}

func TestAFloodAtOnePortLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		flooded, ph2, peer2 := r.call()
		join(s, ph)
		join(flooded, ph2)
		go func() {
			for range 200 {
				for range 100 {
					peer2.Raw([]byte{0x80})
				}
				time.Sleep(5 * ms)
			}
		}()
		talk(peer, 100)
		if n := len(ph.packets()); n != 100 {
			t.Errorf("%d packets", n)
		}
		onSchedule(t, peer.Seen(), 0, 1)
		if st := flooded.Stats(); st.Malformed == 0 || st.Malformed > 200*40 {
			t.Errorf("%+v", st)
		}
		peer.Close()
		peer2.Close()
		r.close()
	})
}

func TestSlotsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		at := map[time.Duration]int{}
		var peers []*rtptest.Peer
		began := time.Now()
		for range 40 {
			s, ph, peer := r.call()
			s.Join(ph)
			peers = append(peers, peer)
		}
		time.Sleep(time.Second)
		for _, p := range peers {
			at[p.Seen()[0].At.Sub(began)%ptime]++
			p.Close()
		}
		if len(at) != 4 {
			t.Errorf("phases %v", at)
		}
		for phase, n := range at {
			if n != 10 {
				t.Errorf("%d calls at %v", n, phase)
			}
		}
		r.close()
	})
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	if err := rtp.DefaultConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	bad := rtp.Config{PortMin: 5, PortMax: 4, Quarantine: -1, DSCP: 64, Driver: "magic", LatchWait: -1, Relatch: -1}
	err := bad.Validate()
	for _, want := range []string{"ports 5-4", "quarantine", "dscp 64", `driver "magic"`, "tick", "latch packets", "latch wait", "relatch"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if _, err := rtp.NewWheel(bad); err == nil {
		t.Error("a wheel was made")
	}
}

func TestNewWheelSaysWhatCannotBeBound(t *testing.T) {
	for _, driver := range []string{rtp.DriverAuto, rtp.DriverGoroutine} {
		cfg := rtp.DefaultConfig()
		cfg.Driver, cfg.Addr = driver, netip.MustParseAddr("192.0.2.1")
		if _, err := rtp.NewWheel(cfg); err == nil || !strings.Contains(err.Error(), "cannot bind 192.0.2.1") {
			t.Errorf("%s: %v", driver, err)
		}
	}
	n := rtptest.New(1, rtptest.Conditions{})
	cfg := rtp.DefaultConfig()
	cfg.Driver = rtp.DriverRaw
	if _, err := rtp.NewWheel(cfg, rtp.WithListen(n.Listen)); err == nil {
		t.Error("the raw driver took sockets it cannot use")
	}
	broken := func(netip.AddrPort) (rtp.PacketConn, error) { return nil, fmt.Errorf("no network") }
	if _, err := rtp.NewWheel(rtp.DefaultConfig(), rtp.WithListen(broken)); err == nil {
		t.Error("a wheel without a network")
	}
}

func TestHistogramQuantiles(t *testing.T) {
	var h rtp.Histogram
	if h.Quantile(0.99) != 0 {
		t.Error("empty")
	}
	h.Counts[0], h.Counts[4], h.Counts[len(h.Counts)-1], h.Max = 90, 9, 1, time.Second
	if a, b, c := h.Quantile(0.5), h.Quantile(0.95), h.Quantile(1); a != h.Bounds()[0] || b != h.Bounds()[4] || c != time.Second {
		t.Errorf("%v %v %v", a, b, c)
	}
}
