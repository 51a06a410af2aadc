package rtp

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// uringWheel is a wheel of the uring driver that the test turns itself. Where
// io_uring is forbidden there is none, and auto does without: that is what is
// tested then.
func uringWheel(t testing.TB) *Wheel {
	t.Helper()
	w, err := newWheel(local(DriverUring))
	if err != nil {
		auto, fault := newWheel(local(DriverAuto))
		if fault != nil || auto.Driver() != DriverRaw {
			t.Fatalf("%v, and auto chose %v, %v", err, auto, fault)
		}
		t.Skipf("no io_uring here: %v", err)
	}
	t.Cleanup(w.release)
	return w
}

// turned is a session of a wheel that does not turn by itself.
func turned(t testing.TB, w *Wheel) *Session {
	t.Helper()
	s := listen(t, w)
	t.Cleanup(func() {
		stand(w)
		s.Close()
	})
	return s
}

func TestAutoBatchesWhereItMay(t *testing.T) {
	uringWheel(t)
	w, err := newWheel(local(DriverAuto))
	if err != nil {
		t.Fatal(err)
	}
	defer w.release()
	if w.Driver() != DriverUring {
		t.Errorf("auto chose %s", w.Driver())
	}
}

// TestManySessionsShareSystemCalls turns more sessions than go into one system call,
// each talking to itself.
func TestManySessionsShareSystemCalls(t *testing.T) {
	w := uringWheel(t)
	const n = 3*batchReads + 5
	handlers := make([]*quiet, n)
	for i := range handlers {
		s := turned(t, w)
		handlers[i] = &quiet{s: s}
		port, err := s.ListenRTCP()
		if err != nil {
			t.Fatal(err)
		}
		s.SetFlow(Flow{Peer: s.Local(), RTCP: netip.AddrPortFrom(s.Local().Addr(), port), Send: true, Recv: true, ClockRate: 8000, PacketTime: 20 * time.Millisecond, Accept: Types(0), Rearm: true})
		s.Join(handlers[i])
	}
	for tick := time.Second; tick < 13*time.Second; tick += 5 * time.Millisecond {
		w.turn(tick, tick)
	}
	for i, h := range handlers {
		st := h.s.Stats()
		r := st.Reports // its own come back to it, as of a stranger; the last may be under way
		if r.Sent == 0 || r.Strange+1 < r.Sent || r.SendErrors != 0 {
			t.Errorf("session %d: %+v", i, r)
		}
		if st.Sent < 599 || st.Sent > 601 || st.Received < st.Sent-2 || st.Lost+st.SendErrors+st.Strange+st.Malformed != 0 || h.packets != int(st.Received) {
			t.Errorf("session %d: %d packets; %+v", i, h.packets, st)
		}
	}
}

// What the system refuses after all is not counted as sent.
func TestARefusedPacketIsTakenBack(t *testing.T) {
	w := uringWheel(t)
	s := turned(t, w)
	// Without SO_BROADCAST this address is refused.
	s.SetFlow(Flow{Peer: netip.MustParseAddrPort("255.255.255.255:9"), Send: true, ClockRate: 8000, PacketTime: 20 * time.Millisecond, Rearm: true})
	s.Join(&quiet{s: s})
	for tick := time.Second; tick < 2*time.Second; tick += 5 * time.Millisecond {
		w.turn(tick, tick)
	}
	if st := s.Stats(); st.Sent != 0 || st.SentBytes != 0 || st.SendErrors < 49 {
		t.Errorf("%+v", st)
	}
}

// A datagram longer than the buffer is malformed, one that just fits is whole.
// TestADatagramBetweenTwoReadsIsNotLost has the first of two reads of a socket find
// nothing and the second a datagram, which came in between.
func TestADatagramBetweenTwoReadsIsNotLost(t *testing.T) {
	w := uringWheel(t)
	k := turned(t, w).sock.(*batchSocket)
	empty := int32(-11)
	for _, c := range []struct {
		results []int32
		want    string
	}{
		{[]int32{3, empty}, "aaa"},
		{[]int32{empty, 3}, "bbb"},
		{[]int32{3, 3}, "aaabbb"},
		{[]int32{empty, empty}, ""},
	} {
		k.u.begin()
		k.u.want(k, len(c.results))
		k.u.do() // nothing is there; what would have been is set by hand
		for i, r := range c.results {
			o := &k.u.in[k.first+i]
			o.result = r
			copy(o.b[:], strings.Repeat(string(rune('a'+i)), 3))
		}
		got := ""
		for b, _, ok := k.recv(); ok; b, _, ok = k.recv() {
			got += string(b)
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.results, got, c.want)
		}
	}
}

func TestBatchedReadsKnowWhatIsTooLong(t *testing.T) {
	w := uringWheel(t)
	s, err := w.bind(w, 0, queued)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	from, err := w.bind(w, 0, queued)
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	raw := &from.(*batchSocket).rawSocket
	for _, n := range []int{maxDatagram, maxDatagram + 1, 3} {
		if !raw.send(make([]byte, n), s.local()) {
			t.Fatal("not sent")
		}
	}
	w.batch.begin()
	w.batch.want(s, 2)
	w.batch.do()
	for i, want := range []int{maxDatagram, 0, 3} { // the third is read when it is asked for
		b, source, ok := s.recv()
		if !ok || len(b) != want || source != from.local() {
			t.Errorf("datagram %d: %d octets of %v, %v", i, len(b), source, ok)
		}
	}
	if _, _, ok := s.recv(); ok {
		t.Error("there is a fourth")
	}
}

// When the kernel turns out not to do what it did at the start, each socket is read
// and written by itself from then on.
func TestABrokenRingIsLeftAlone(t *testing.T) {
	w := uringWheel(t)
	s := turned(t, w)
	u := s.sock.(*batchSocket).u
	s.SetFlow(Flow{Peer: s.Local(), Send: true, Recv: true, ClockRate: 8000, PacketTime: 20 * time.Millisecond, Accept: Types(0), Rearm: true})
	s.Join(&quiet{s: s})
	tick := time.Second
	run := func() {
		for range 200 {
			tick += 5 * time.Millisecond
			w.turn(tick, tick)
		}
	}
	run()
	u.reap(1) // one is missing
	run()
	if st := s.Stats(); !u.broken || st.Sent < 99 || st.Received < st.Sent-2 || st.Lost != 0 {
		t.Errorf("%+v", st)
	}
}

// A kernel that takes no more is as a network that loses: nothing waits for it.
func TestWhatTheKernelDoesNotTakeIsRefused(t *testing.T) {
	w := uringWheel(t)
	s := turned(t, w)
	u := s.sock.(*batchSocket).u
	s.SetFlow(Flow{Peer: s.Local(), Send: true, Recv: true, ClockRate: 8000, PacketTime: 20 * time.Millisecond, Accept: Types(0), Rearm: true})
	s.Join(&quiet{s: s})
	fd := u.fd
	for tick := time.Second; tick < 2*time.Second; tick += 5 * time.Millisecond {
		if u.fd = fd; tick < 1500*time.Millisecond {
			u.fd = -1
		}
		w.turn(tick, tick)
	}
	u.fd = fd
	st := s.Stats()
	if st.Sent+st.SendErrors < 49 || st.SendErrors < 20 || st.Sent < 20 || st.Received < st.Sent-1 {
		t.Errorf("%+v", st)
	}
}
