package rtp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	pion "github.com/pion/rtp"
	"github.com/pion/srtp/v3"
	"github.com/pion/stun/v3"
)

// loop is a socket that gives one datagram over and over, and keeps what was sent last.
type loop struct {
	next func() []byte
	from netip.AddrPort
	sent []byte
	to   netip.AddrPort
	n    int
}

func (l *loop) recv() ([]byte, netip.AddrPort, bool) {
	if b := l.next(); b != nil {
		return b, l.from, true
	}
	return nil, netip.AddrPort{}, false
}
func (l *loop) age() time.Duration { return 0 }
func (l *loop) send(b []byte, to netip.AddrPort) bool {
	l.sent, l.to = append(l.sent[:0], b...), to
	l.n++
	return true
}
func (l *loop) local() netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:2000") }
func (l *loop) close()                {}

type sink struct {
	packets int
	payload []byte
}

func (s *sink) Packet(*Packet)                         { s.packets++ }
func (s *sink) Turn(time.Duration)                     {}
func (s *sink) Slot(time.Duration, int) ([]byte, bool) { return s.payload, false }

// bench is a session that no wheel turns.
func bench(t testing.TB, f Flow, sock *loop, h Handler) *Session {
	t.Helper()
	cfg := DefaultConfig()
	cfg.PortMin, cfg.PortMax = 0, 0
	w, err := newWheel(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(w, sock, 0)
	s.SetFlow(f)
	w.join(s, h)
	return s
}

var peerOfBench = netip.MustParseAddrPort("127.0.0.2:4000")

// stream is the peer's: sealed packets of 20 ms of G.711, one for each call.
func stream(t testing.TB, keys Keys) func() []byte {
	profile := suites[keys.Suite]
	seal, err := srtp.CreateContext(keys.Recv[:profile.key], keys.Recv[profile.key:], profile.profile)
	if err != nil {
		t.Fatal(err)
	}
	plain, b := make([]byte, 172), make([]byte, 0, 256)
	plain[0] = 0x80
	seq := uint16(0)
	var header pion.Header
	return func() []byte {
		seq++
		binary.BigEndian.PutUint16(plain[2:], seq)
		binary.BigEndian.PutUint32(plain[4:], uint32(seq)*160)
		var err error
		if b, err = seal.EncryptRTP(b[:0], plain, &header); err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func testKeys(s Suite) Keys {
	return Keys{Suite: s, Send: bytes.Repeat([]byte{1}, s.KeySize()), Recv: bytes.Repeat([]byte{2}, s.KeySize())}
}

func flowOfBench() Flow {
	return Flow{Peer: peerOfBench, Mux: true, Send: true, Recv: true, ClockRate: 8000, PacketTime: 20 * time.Millisecond, Accept: Types(0), Rearm: true}
}

// rolling makes a session that takes and sends one packet for each call of step.
func rolling(t testing.TB, suite Suite) (step func(), h *sink, s *Session) {
	f := flowOfBench()
	keys := testKeys(suite)
	next := func() []byte { return nil }
	if suite != 0 {
		srtp, err := NewSRTP(keys)
		if err != nil {
			t.Fatal(err)
		}
		f.SRTP = srtp
		next = stream(t, keys)
	} else {
		b, seq := make([]byte, 172), uint16(0)
		b[0] = 0x80
		next = func() []byte {
			seq++
			binary.BigEndian.PutUint16(b[2:], seq)
			binary.BigEndian.PutUint32(b[4:], uint32(seq)*160)
			return b
		}
	}
	given := false
	sock := &loop{from: peerOfBench}
	sock.next = func() []byte {
		given = !given
		if !given {
			return nil
		}
		return next()
	}
	h = &sink{payload: make([]byte, 160)}
	s = bench(t, f, sock, h)
	now := time.Second
	return func() {
		now += 20 * time.Millisecond
		s.rest = 0
		given = false
		s.drain(now, now)
		s.slots(now, now)
	}, h, s
}

func TestProtectionAllocatesNothing(t *testing.T) { // P12
	for suite := AES128CM80; suite <= AES256GCM; suite++ {
		step, h, s := rolling(t, suite)
		step()
		if n := testing.AllocsPerRun(500, step); n != 0 && !raced {
			t.Errorf("suite %d: %v allocations a packet in and out", suite, n)
		}
		if st := s.Stats(); h.packets != 502 || st.Sent != 502 || st.Forged+st.Replayed != 0 {
			t.Errorf("suite %d: %d packets, %+v", suite, h.packets, st)
		}
	}
}

// BenchmarkProtection prints what one packet in and one out cost beside the same
// without protection; 50 of them a second are a call, so 1 ns is 0.05 µs/call-s. The
// peer's own sealing is in it, and is printed by itself to be taken off.
func BenchmarkProtection(b *testing.B) {
	for _, c := range []struct {
		name  string
		suite Suite
	}{{"none", 0}, {"AES_CM_128_80", AES128CM80}, {"AES_256_CM_80", AES256CM80}, {"AEAD_AES_128_GCM", AES128GCM}, {"AEAD_AES_256_GCM", AES256GCM}} {
		b.Run(c.name, func(b *testing.B) {
			step, _, _ := rolling(b, c.suite)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
		if c.suite != 0 {
			b.Run(c.name+"/the peer's part", func(b *testing.B) {
				next := stream(b, testKeys(c.suite))
				for b.Loop() {
					next()
				}
			})
		}
	}
}

// FuzzDatagram throws anything at a session that answers checks, shakes hands and
// has keys: from a stranger it gets no answer and changes nothing.
func FuzzDatagram(f *testing.F) {
	check, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.NewUsername("us:them"),
		stun.NewShortTermIntegrity("password"), stun.Fingerprint)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(check.Raw)
	wrong, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.NewUsername("us:them"),
		stun.NewShortTermIntegrity("guess"), stun.Fingerprint)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wrong.Raw)
	f.Add(append([]byte{22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 1}, make([]byte, 39)...))
	f.Add(append([]byte{22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255}, make([]byte, 9)...))
	f.Add(bytes.Clone(stream(f, testKeys(AES128CM80))()))
	f.Add(append([]byte{0x80, 200, 0, 6}, make([]byte, 60)...))
	f.Add([]byte{0x90, 0, 0, 1, 0, 0, 0, 160, 0, 0, 0, 1, 0xbe, 0xde, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		for _, flow := range []func(*Flow){
			func(f *Flow) { f.ICE, f.DTLS = &ICE{"us", "secret", "them"}, &DTLS{Timeout: time.Second} },
			func(f *Flow) { f.DTLS = &DTLS{Timeout: time.Second} },
			func(f *Flow) { f.SRTP, _ = NewSRTP(testKeys(AES256GCM)) },
		} {
			given := false
			sock := &loop{from: netip.MustParseAddrPort("127.0.0.9:9"), next: func() []byte {
				given = !given
				if given {
					return bytes.Clone(b)
				}
				return nil
			}}
			h := &sink{}
			f := flowOfBench()
			flow(&f)
			d := f.DTLS
			f.DTLS = nil // no goroutine
			s := bench(t, f, sock, h)
			if d != nil {
				f.DTLS = d
				s.association.Store(newAssociation(d))
				s.flow.Store(&f)
			}
			for i := range 5 {
				now := time.Second + time.Duration(i)*20*time.Millisecond
				s.drain(now, now)
				s.slots(now, now)
			}
			if h.packets != 0 || s.Stats().Latched || sock.n > 0 && sock.to == sock.from {
				t.Errorf("%x: %+v", b, s.Stats())
			}
			if a := s.association.Load(); a != nil && len(a.in) > 0 {
				t.Errorf("%x reached the handshake", b)
			}
		}
	})
}
