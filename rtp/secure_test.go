package rtp_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/srtp/v3"

	"parley/rtp"
	"parley/rtp/rtptest"
)

// far is the far end of a protected call: what came as it came, and packets sealed by
// the library itself.
type far struct {
	t    *testing.T
	conn rtp.PacketConn
	to   netip.AddrPort
	seal *srtp.Context
	seq  uint16
	ssrc uint32
	ts   uint32

	dtls chan []byte // handshakes go there

	mu   sync.Mutex
	in   [][]byte
	done chan struct{}
}

func newFar(t *testing.T, n *rtptest.Network, at string, to netip.AddrPort) *far {
	t.Helper()
	addr := netip.AddrPort{}
	if at != "" {
		addr = netip.MustParseAddrPort(at)
	}
	conn, err := n.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &far{t: t, conn: conn, to: to, seq: 1000, ssrc: 0x5EED, dtls: make(chan []byte, 256), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		b := make([]byte, 2048)
		for {
			n, _, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if b[0] >= 20 && b[0] < 64 {
				p.dtls <- bytes.Clone(b[:n])
				continue
			}
			p.mu.Lock()
			p.in = append(p.in, bytes.Clone(b[:n]))
			p.mu.Unlock()
		}
	}()
	return p
}

func (p *far) addr() netip.AddrPort { return p.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

func (p *far) close() { p.conn.Close(); <-p.done }

func (p *far) raw(b []byte) { _, _ = p.conn.WriteToUDPAddrPort(b, p.to) }

// got is what came since the last time.
func (p *far) got() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.in
	p.in = nil
	return in
}

// plain is the next packet of the stream, not sealed.
func (p *far) plain(payload string) []byte {
	b := make([]byte, 12, 64)
	b[0] = 0x80
	binary.BigEndian.PutUint16(b[2:], p.seq)
	binary.BigEndian.PutUint32(b[4:], p.ts)
	binary.BigEndian.PutUint32(b[8:], p.ssrc)
	p.seq++
	p.ts += 160
	return append(b, payload...)
}

func (p *far) sealed(payload string) []byte {
	p.t.Helper()
	out, err := p.seal.EncryptRTP(nil, p.plain(payload), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// talk sends n sealed packets.
func (p *far) talk(n int) {
	for i := range n {
		p.raw(p.sealed(fmt.Sprintf("word %d", i)))
		time.Sleep(ptime)
	}
}

var allSuites = []struct {
	name    string
	suite   rtp.Suite
	profile srtp.ProtectionProfile
}{
	{"AES_CM_128_HMAC_SHA1_80", rtp.AES128CM80, srtp.ProtectionProfileAes128CmHmacSha1_80},
	{"AES_CM_128_HMAC_SHA1_32", rtp.AES128CM32, srtp.ProtectionProfileAes128CmHmacSha1_32},
	{"AES_256_CM_HMAC_SHA1_80", rtp.AES256CM80, srtp.ProtectionProfileAes256CmHmacSha1_80},
	{"AES_256_CM_HMAC_SHA1_32", rtp.AES256CM32, srtp.ProtectionProfileAes256CmHmacSha1_32},
	{"AEAD_AES_128_GCM", rtp.AES128GCM, srtp.ProtectionProfileAeadAes128Gcm},
	{"AEAD_AES_256_GCM", rtp.AES256GCM, srtp.ProtectionProfileAeadAes256Gcm},
}

// keysOf are keys that seed tells apart.
func keysOf(s rtp.Suite, seed byte) rtp.Keys {
	return rtp.Keys{Suite: s, Send: bytes.Repeat([]byte{seed}, s.KeySize()), Recv: bytes.Repeat([]byte{seed ^ 0xff}, s.KeySize())}
}

func protection(t *testing.T, k rtp.Keys) *rtp.SRTP {
	t.Helper()
	p, err := rtp.NewSRTP(k)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func contextOf(t *testing.T, profile srtp.ProtectionProfile, key []byte, options ...srtp.ContextOption) *srtp.Context {
	t.Helper()
	n, _ := profile.KeyLen()
	c, err := srtp.CreateContext(key[:n], key[n:], profile, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sealedCall is a call under keys by SDES with its far end.
func sealedCall(t *testing.T, r *rig, suite int, keys rtp.Keys, options ...srtp.ContextOption) (*rtp.Session, *phone, *far, *srtp.Context) {
	t.Helper()
	s, err := r.w.Listen()
	if err != nil {
		t.Fatal(err)
	}
	p := newFar(t, r.net, "", s.Local())
	p.seal = contextOf(t, allSuites[suite].profile, keys.Recv, options...)
	f := flowTo(p.addr())
	f.Mux, f.SRTP = true, protection(t, keys)
	s.SetFlow(f)
	return s, &phone{}, p, contextOf(t, allSuites[suite].profile, keys.Send, options...)
}

func TestProtectedBothWays(t *testing.T) {
	for i, suite := range allSuites {
		for _, mki := range [][]byte{nil, {1}, {0, 0, 0, 7}} {
			t.Run(fmt.Sprintf("%s MKI %x", suite.name, mki), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, rtptest.Conditions{}, nil)
					keys := keysOf(suite.suite, 7)
					keys.MKI = mki
					var options []srtp.ContextOption
					if mki != nil {
						options = append(options, srtp.MasterKeyIndicator(mki))
					}
					s, ph, p, open := sealedCall(t, r, i, keys, options...)
					join(s, ph)
					p.talk(50)
					sr := &rtcp.SenderReport{SSRC: p.ssrc, NTPTime: 5 << 32, PacketCount: 50}
					b, err := sr.Marshal()
					if err != nil {
						t.Fatal(err)
					}
					if b, err = p.seal.EncryptRTCP(nil, b, nil); err != nil {
						t.Fatal(err)
					}
					p.raw(b)
					time.Sleep(6 * time.Second)
					s.Bye()
					synctest.Wait()
					in := ph.packets()
					if len(in) != 50 {
						t.Fatalf("%d packets in, %+v", len(in), s.Stats())
					}
					for i, k := range in {
						if string(k.Payload) != fmt.Sprintf("word %d", i) {
							t.Fatalf("packet %d is %q", i, k.Payload)
						}
					}
					voices, reports := 0, 0
					for _, b := range p.got() {
						if b[1]&0x7f >= 64 && b[1]&0x7f < 96 {
							plain, err := open.DecryptRTCP(nil, b, nil)
							if err != nil {
								t.Fatal(err)
							}
							if _, err := rtcp.Unmarshal(plain); err != nil {
								t.Fatal(err)
							}
							reports++
							continue
						}
						plain, err := open.DecryptRTP(nil, b, nil)
						if err != nil {
							t.Fatal(err)
						}
						if len(plain) != 16 || len(b) <= 16 || bytes.Equal(b[12:16], plain[12:]) {
							t.Fatalf("packet %x is %x", b, plain)
						}
						voices++
					}
					st := s.Stats()
					if uint64(voices) != st.Sent || voices < 300 || reports < 2 || st.Reports.SenderReports != 1 || st.Forged != 0 || st.Replayed != 0 {
						t.Errorf("%d voices and %d reports, %+v", voices, reports, st)
					}
					p.close()
					r.close()
				})
			})
		}
	}
}

func TestReplayedAndTamperedPacketsAreDropped(t *testing.T) {
	for i, suite := range allSuites {
		t.Run(suite.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rtptest.Conditions{}, nil)
				s, ph, p, _ := sealedCall(t, r, i, keysOf(suite.suite, 9))
				join(s, ph)
				p.talk(5)
				first := p.sealed("once")
				p.raw(first)
				p.raw(first)                                         // replayed
				p.raw(first[:len(first)-1])                          // cut
				p.raw(p.plain("not sealed at all, but long enough")) // a plain one
				for at := range first {                              // any octet changed, the header's too
					if at == 0 {
						continue // another protocol
					}
					evil := bytes.Clone(p.sealed("twice"))
					evil[at] ^= 0x10
					p.raw(evil)
					time.Sleep(ptime)
				}
				time.Sleep(ptime)
				st := s.Stats()
				heard := ph.packets()
				if len(heard) != 6 || st.Replayed == 0 || st.Received != 6 {
					t.Errorf("heard %d, %+v", len(heard), st)
				}
				// A changed sequence number may be one that was there.
				if all := st.Forged + st.Replayed; int(all) != len(first)-1+3 {
					t.Errorf("%d of %d forged packets were counted: %+v", all, len(first)+2, st)
				}
				p.talk(5) // and life goes on
				if n := len(ph.packets()); n != 11 {
					t.Errorf("heard %d", n)
				}
				p.close()
				r.close()
			})
		})
	}
}

func TestAStrangerToAProtectedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, p, _ := sealedCall(t, r, 0, keysOf(rtp.AES128CM80, 3))
		evil := newFar(t, r.net, "127.0.0.3:6666", s.Local())
		evil.seal = contextOf(t, srtp.ProtectionProfileAes128CmHmacSha1_80, keysOf(rtp.AES128CM80, 4).Recv)
		attack := func() {
			evil.talk(20) // wrong keys
			for range 20 {
				evil.raw(evil.plain("plain"))
				time.Sleep(ptime)
			}
		}
		attack() // before Join
		join(s, ph)
		attack() // before the first packet of the peer: long enough to latch by
		if st := s.Stats(); st.Latched || st.Received != 0 || st.Forged != 40 {
			t.Errorf("before: %+v", st)
		}
		go attack()
		p.talk(50)
		p.close() // the peer is gone, the stranger is not
		attack()
		time.Sleep(time.Second)
		if st := s.Stats(); st.Received != 50 || st.Remote != p.addr() {
			t.Errorf("after: %+v", st)
		}
		if n := len(evil.got()); n != 0 {
			t.Errorf("the stranger got %d packets", n)
		}
		evil.close()
		r.close()
	})
}

// A phone behind a NAT: its address is not that of the SDP.
func TestAProtectedStreamLatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		keys := keysOf(rtp.AES256GCM, 3)
		s, ph, p, _ := sealedCall(t, r, 5, keys)
		f := flowTo(netip.MustParseAddrPort("10.9.8.7:4000"))
		f.SRTP = protection(t, keys)
		s.SetFlow(f)
		join(s, ph)
		p.talk(50)
		if st := s.Stats(); !st.Latched || st.Remote != p.addr() || st.Received < 30 || len(p.got()) < 30 {
			t.Errorf("%+v", st)
		}
		p.close()
		r.close()
	})
}

func TestTheRolloverCounter(t *testing.T) { // BR-094
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, p, _ := sealedCall(t, r, 0, keysOf(rtp.AES128CM80, 3))
		p.seq = 65500
		join(s, ph)
		p.talk(30)
		for range 12 { // lost, just where it wraps
			p.sealed("lost")
		}
		p.talk(158)
		if n, st := len(ph.packets()), s.Stats(); n != 188 || st.Lost != 12 || st.Forged != 0 {
			t.Errorf("over the wrap: heard %d, %+v", n, st)
		}
		// A new SSRC begins its own count at 0: after a hold, or a transfer.
		p.ssrc, p.seq = 0xBEEF, 300
		p.talk(50)
		if n, st := len(ph.packets()), s.Stats(); n != 188+49 || st.Forged != 0 || st.Resyncs != 1 {
			t.Errorf("the new stream: heard %d, %+v", n, st)
		}
		p.close()
		r.close()
	})
}

// TestOurRolloverCounter lets us send for longer than the sequence numbers last.
func TestOurRolloverCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, p, open := sealedCall(t, r, 4, keysOf(rtp.AES128GCM, 3))
		join(s, ph)
		for range 23 { // minutes
			time.Sleep(time.Minute)
			for _, b := range p.got() {
				if b[1]&0x7f >= 64 && b[1]&0x7f < 96 {
					continue
				}
				if _, err := open.DecryptRTP(nil, b, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if roc, ok := open.ROC(s.Stats().SSRC); !ok || roc == 0 {
			t.Errorf("rollover counter %d", roc)
		}
		p.close()
		r.close()
	})
}

func TestNewKeysAmidACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, p, open := sealedCall(t, r, 0, keysOf(rtp.AES128CM80, 3))
		p.seq = 65530
		join(s, ph)
		p.talk(20) // our count of the peer's rollovers is 1
		before := s.Stats()
		f := flowTo(p.addr())
		fresh := keysOf(rtp.AES256GCM, 5)
		f.SRTP = protection(t, fresh)
		s.SetFlow(f)
		p.talk(5) // still under way with the old keys
		for _, b := range p.got()[:20] {
			if _, err := open.DecryptRTP(nil, b, nil); err != nil {
				t.Fatal(err)
			}
		}
		p.seal, open = contextOf(t, allSuites[5].profile, fresh.Recv), contextOf(t, allSuites[5].profile, fresh.Send)
		p.talk(50) // with an own rollover counter
		after := s.Stats()
		if n := len(ph.packets()); n != 75 || after.Forged != 0 || after.Lost != 0 {
			t.Errorf("heard %d, %+v", n, after)
		}
		if after.SSRC == before.SSRC {
			t.Error("the stream out goes on under new keys")
		}
		opened := 0
		for _, b := range p.got() {
			if _, err := open.DecryptRTP(nil, b, nil); err == nil {
				opened++
			}
		}
		if opened < 50 {
			t.Errorf("%d packets out under the new keys", opened)
		}
		// The old keys are worth nothing after a while.
		time.Sleep(time.Second)
		p.seal = contextOf(t, allSuites[0].profile, keysOf(rtp.AES128CM80, 3).Recv)
		p.talk(5)
		if n := len(ph.packets()); n != 75 {
			t.Errorf("heard %d with keys of before", n)
		}
		p.close()
		r.close()
	})
}

// A re-INVITE that changes nothing must not start the counting over.
func TestTheSameKeysGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, p, _ := sealedCall(t, r, 2, keysOf(rtp.AES256CM80, 3))
		keys := protection(t, keysOf(rtp.AES256CM80, 3))
		f := flowTo(p.addr())
		f.SRTP = keys
		s.SetFlow(f)
		p.seq = 65500
		join(s, ph)
		p.talk(100)
		ssrc := s.Stats().SSRC
		f.Send = false // hold
		s.SetFlow(f)
		p.talk(10)
		f.Send = true
		s.SetFlow(f)
		p.talk(50)
		if st := s.Stats(); st.Received != 160 || st.Forged != 0 || st.SSRC != ssrc {
			t.Errorf("%+v", st)
		}
		p.close()
		r.close()
	})
}

// Reports on a port of their own are protected by the same keys.
func TestProtectedReportsOnTheirOwnPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, p, open := sealedCall(t, r, 1, keysOf(rtp.AES128CM32, 3))
		port, err := s.ListenRTCP()
		if err != nil {
			t.Fatal(err)
		}
		q := newFar(t, r.net, "", netip.AddrPortFrom(s.Local().Addr(), port))
		f := flowTo(p.addr())
		f.RTCP, f.SRTP = q.addr(), protection(t, keysOf(rtp.AES128CM32, 3))
		s.SetFlow(f)
		join(s, ph)
		p.talk(10)
		rr := &rtcp.ReceiverReport{SSRC: p.ssrc}
		b, _ := rr.Marshal()
		q.raw(b) // not protected
		b, _ = p.seal.EncryptRTCP(nil, b, nil)
		q.raw(b)
		q.raw(b) // replayed
		evil := bytes.Clone(b)
		evil[10] ^= 1
		q.raw(evil)
		time.Sleep(10 * time.Second)
		st := s.Stats()
		if st.Reports.ReceiverReports != 1 || st.Replayed != 1 || st.Forged != 2 {
			t.Errorf("%+v", st)
		}
		n := 0
		for _, b := range q.got() {
			if _, err := open.DecryptRTCP(nil, b, nil); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n == 0 {
			t.Error("no report came")
		}
		p.close()
		q.close()
		r.close()
	})
}

func TestASourceNeedsNoMoreMemoryThanIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, p, _ := sealedCall(t, r, 4, keysOf(rtp.AES128GCM, 3))
		join(s, ph)
		for i := range 40 {
			p.ssrc, p.seq = uint32(i+1), 100
			p.talk(3)
		}
		if st := s.Stats(); st.Resyncs != 15 || st.Forged != 24*3 {
			t.Errorf("%+v", st)
		}
		p.ssrc = 16
		p.talk(5)
		if n := len(ph.packets()); n < 20 {
			t.Errorf("heard %d", n)
		}
		p.close()
		r.close()
	})
}

func TestKeysThatDoNotFit(t *testing.T) {
	good := keysOf(rtp.AES128CM80, 1)
	for _, k := range []rtp.Keys{
		{}, {Suite: 99, Send: good.Send, Recv: good.Recv},
		{Suite: rtp.AES128CM80, Send: good.Send[1:], Recv: good.Recv},
		{Suite: rtp.AES128CM80, Send: good.Send, Recv: nil},
		{Suite: rtp.AES256GCM, Send: good.Send, Recv: good.Recv},
		{Suite: rtp.AES128CM80, Send: good.Send, Recv: good.Recv, MKI: make([]byte, 17)},
	} {
		if _, err := rtp.NewSRTP(k); err == nil {
			t.Errorf("suite %d was taken", k.Suite)
		}
	}
	for _, s := range []string{fmt.Sprint(good), fmt.Sprintf("%+v", good), fmt.Sprintf("%#v", good), fmt.Sprintf("%v", &good)} {
		if s != "keys" {
			t.Errorf("keys print as %q", s)
		}
	}
}
