package rtp

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"
)

// drivers are those of this system.
func drivers() []string {
	if runtime.GOOS == "linux" {
		if w, err := newWheel(local(DriverUring)); err == nil {
			w.release()
			return []string{DriverUring, DriverRaw, DriverGoroutine}
		}
		return []string{DriverRaw, DriverGoroutine}
	}
	return []string{DriverGoroutine}
}

// counted is a Handler that closes enough when it has got so many packets.
type counted struct {
	want   int
	enough chan struct{}
}

func (c *counted) Packet(p *Packet) {
	if c.want--; c.want == 0 {
		close(c.enough)
	}
}
func (c *counted) Turn(time.Duration)                     {}
func (c *counted) Slot(time.Duration, int) ([]byte, bool) { return make([]byte, 160), false }

// TestRealSocketsCarryBothWays lets pairs of sessions talk over the loopback of
// this machine, by each driver and address family, until each has heard enough.
func TestRealSocketsCarryBothWays(t *testing.T) {
	addrs := []netip.Addr{{}, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("::1"), netip.MustParseAddr("::")}
	for _, driver := range drivers() {
		for _, addr := range addrs {
			t.Run(fmt.Sprint(driver, "/", addr), func(t *testing.T) {
				cfg := local(driver)
				cfg.Addr = addr
				w, err := NewWheel(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				a, b := listen(t, w), listen(t, w)
				for _, pair := range [][2]*Session{{a, b}, {b, a}} {
					to := pair[1].Local()
					if to.Addr().IsUnspecified() {
						to = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port())
					}
					pair[0].SetFlow(Flow{Peer: to, Send: true, Recv: true, ClockRate: 8000, PacketTime: 10 * time.Millisecond, Accept: Types(0), Rearm: true})
				}
				ends := []*counted{{want: 5, enough: make(chan struct{})}, {want: 5, enough: make(chan struct{})}}
				a.Join(ends[0])
				b.Join(ends[1])
				for _, e := range ends {
					<-e.enough
				}
				a.Close()
				b.Close()
				for _, s := range []*Session{a, b} {
					if st := s.Stats(); st.Received < 5 || st.Sent < 5 || st.ReceivedBytes != 160*st.Received || !st.Latched || st.Strange+st.Malformed+st.SendErrors != 0 {
						t.Errorf("%+v", st)
					}
				}
			})
		}
	}
}

func listen(t testing.TB, w *Wheel) *Session {
	t.Helper()
	s, err := w.Listen()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAPortOfAnotherProcessIsPassedOver(t *testing.T) {
	for _, driver := range drivers() {
		t.Run(driver, func(t *testing.T) {
			w, err := NewWheel(local(driver))
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			taken := listen(t, w).Local().Port()
			err = func() error { _, err := w.bind(w, taken, queued); return err }()
			if !busy(err) {
				t.Errorf("binding %d again: %v", taken, err)
			}
		})
	}
}

func TestSendingToTheWrongFamilyIsAnError(t *testing.T) {
	for _, driver := range drivers() {
		w, err := newWheel(local(driver))
		if err != nil {
			t.Fatal(err)
		}
		sock, err := w.bind(w, 0, queued)
		if err != nil {
			t.Fatal(err)
		}
		if sock.send(make([]byte, 12), netip.MustParseAddrPort("[::1]:9")) {
			t.Errorf("%s: an IPv4 socket sent to IPv6", driver)
		}
		sock.close()
	}
}

// stand lets Close of the sessions of a wheel that does not turn by itself wait for
// nobody.
func stand(w *Wheel) {
	select {
	case <-w.stopped:
	default:
		close(w.stopped)
	}
}

// still is a session with a handler, on a wheel that the test turns itself.
func still(t testing.TB, driver string) (*Wheel, *Session, *quiet) {
	t.Helper()
	w, err := newWheel(local(driver))
	if err != nil {
		t.Fatal(err)
	}
	s := listen(t, w)
	q := &quiet{s: s}
	s.SetFlow(Flow{Peer: s.Local(), Send: true, Recv: true, ClockRate: 8000, PacketTime: 20 * time.Millisecond, Accept: Types(0), Rearm: true})
	s.Join(q)
	t.Cleanup(func() { stand(w); s.Close(); w.release() })
	return w, s, q
}

func TestNothingIsAllocatedPerPacket(t *testing.T) { // P12
	if runtime.GOOS != "linux" {
		t.Log("measured for the drivers that are for Linux")
		return
	}
	for _, driver := range drivers() {
		if driver == DriverGoroutine {
			continue
		}
		w, s, q := still(t, driver)
		tick := time.Second
		w.turn(tick, tick)
		// The session sends to itself: each packet out is one in at the next turn.
		n := testing.AllocsPerRun(500, func() {
			tick += 20 * time.Millisecond
			w.turn(tick, tick)
		})
		if st := s.Stats(); n != 0 || st.Sent < 500 || q.packets < 490 {
			t.Errorf("%s: %v allocations a turn; %+v", driver, n, st)
		}
	}
}

func TestTooLongAPayloadIsNotSent(t *testing.T) {
	_, s, _ := still(t, DriverGoroutine)
	s.send(s.Local(), make([]byte, maxPayload+1), 0, false, 0)
	if st := s.Stats(); st.SendErrors != 1 || st.Sent != 0 {
		t.Errorf("%+v", st)
	}
}

// FuzzReceive sends datagrams from a few sources through parser, latch and
// sequence, and checks that each is counted once.
func FuzzReceive(f *testing.F) {
	for _, d := range datagrams {
		b := bytesOf(f, d.in)
		f.Add(b, b, uint8(1), uint8(0))
	}
	f.Add(bytesOf(f, "80 00 0001 000000a0 00000001 d5"), bytesOf(f, "80 00 0002 00000140 00000001 d5"), uint8(3), uint8(3))
	f.Fuzz(func(t *testing.T, a, b []byte, x, y uint8) {
		var k scripted
		w := &Wheel{cfg: DefaultConfig(), load: make([]int, 4)}
		s := newSession(w, &k, 0)
		w.join(s, &quiet{s: s})
		s.SetFlow(Flow{Peer: netip.MustParseAddrPort("10.0.0.2:4000"), Recv: true, ClockRate: 8000, Accept: Types(0, 8, 101), Rearm: x&64 == 0, Strict: x&128 != 0})
		from := func(v uint8) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 2 + v&1}), 4000+uint16(v&2))
		}
		n := uint64(0)
		for i := range 6 {
			k.b, k.from = append(k.b, a, b), append(k.from, from(x), from(y))
			n += 2
			s.drain(time.Duration(i)*100*time.Millisecond, time.Duration(i)*100*time.Millisecond)
		}
		s.drain(time.Second, time.Second) // what a regular stream left for later
		st := s.Stats()
		if sum := st.Received + st.Strange + st.Probation + st.Malformed + st.RTCP + st.STUN + st.Duplicate; sum != n {
			t.Fatalf("%d datagrams, %d counted: %+v", n, sum, st)
		}
		if got := uint64(s.handler.(*quiet).packets) + st.Empty + st.WrongPT + st.Muted; got != st.Received {
			t.Fatalf("%d received, %d accounted for: %+v", st.Received, got, st)
		}
	})
}

// scripted is a socket with what it will receive.
type scripted struct {
	b    [][]byte
	from []netip.AddrPort
}

func (k *scripted) recv() (b []byte, from netip.AddrPort, ok bool) {
	if len(k.b) == 0 {
		return nil, from, false
	}
	b, from = k.b[0], k.from[0]
	k.b, k.from = k.b[1:], k.from[1:]
	return b, from, true
}
func (k *scripted) send([]byte, netip.AddrPort) bool { return true }
func (k *scripted) local() netip.AddrPort            { return netip.AddrPort{} }
func (k *scripted) close()                           {}
func (k *scripted) age() time.Duration               { return 0 }

// BenchmarkTurn turns sessions that each receive a packet and send one.
func BenchmarkTurn(b *testing.B) {
	for _, driver := range drivers() {
		b.Run(driver, func(b *testing.B) {
			w, s, _ := still(b, driver)
			tick := time.Second
			for range b.N {
				tick += 20 * time.Millisecond
				w.turn(tick, tick)
			}
			_ = s
		})
	}
}

// BenchmarkTurnMany turns as many sessions as do not fit into the processor's cache;
// the figure is for one that receives a packet and sends one.
func BenchmarkTurnMany(b *testing.B) {
	const n = 500
	for _, driver := range drivers() {
		b.Run(driver, func(b *testing.B) {
			w, first, _ := still(b, driver)
			sessions := []*Session{first}
			for len(sessions) < n {
				s := listen(b, w)
				sessions = append(sessions, s)
				s.SetFlow(Flow{Peer: s.Local(), Send: true, Recv: true, ClockRate: 8000, PacketTime: 20 * time.Millisecond, Accept: Types(0), Rearm: true})
				s.Join(&quiet{s: s})
			}
			b.Cleanup(func() {
				stand(w)
				for _, s := range sessions[1:] {
					s.Close()
				}
			})
			tick := time.Second
			for b.Loop() {
				for range 4 {
					tick += 5 * time.Millisecond
					w.turn(tick, tick)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/packet-pair")
		})
	}
}

// BenchmarkTurnIdle turns a session with nothing to receive or send.
func BenchmarkTurnIdle(b *testing.B) {
	w, s, _ := still(b, drivers()[0])
	s.SetFlow(Flow{Peer: s.Local()})
	b.ReportAllocs()
	for i := range b.N {
		w.turn(time.Duration(i)*time.Microsecond, 0)
	}
}
