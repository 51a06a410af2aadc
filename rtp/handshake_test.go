package rtp_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/srtp/v3"
	"github.com/pion/stun/v3"
	"github.com/pion/transport/v5/deadline"

	"parley/rtp"
	"parley/rtp/rtptest"
)

// browser is a far end that checks connectivity, shakes hands and then talks.
type browser struct {
	*far
	cert tls.Certificate
	conn *dtls.Conn
	open *srtp.Context
	past *deadline.Deadline
}

func newBrowser(t *testing.T, n *rtptest.Network, at string, to netip.AddrPort) *browser {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{
		far: newFar(t, n, at, to), past: deadline.New(),
		cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}
}

func (b *browser) fingerprints() []rtp.Fingerprint {
	sum := sha256.Sum256(b.cert.Certificate[0])
	return []rtp.Fingerprint{{Hash: "sha-256", Sum: sum[:]}}
}

// next takes out the next datagram of that kind.
func (b *browser) next(kind func(byte) bool) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, d := range b.in {
		if kind(d[0]) {
			b.in = append(b.in[:i:i], b.in[i+1:]...)
			return d
		}
	}
	return nil
}

func isSTUN(c byte) bool { return c < 4 }
func isRTP(c byte) bool  { return c >= 128 }

// ask sends a connectivity check and returns the answer, nil for none.
func (b *browser) ask(user, password string, more ...stun.Setter) *stun.Message {
	b.t.Helper()
	setters := append([]stun.Setter{stun.TransactionID, stun.BindingRequest, stun.NewUsername(user)}, more...)
	setters = append(setters, stun.NewShortTermIntegrity(password), stun.Fingerprint)
	m, err := stun.Build(setters...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.raw(m.Raw)
	time.Sleep(4 * ptime)
	d := b.next(isSTUN)
	if d == nil {
		return nil
	}
	r := &stun.Message{Raw: d}
	if err := r.Decode(); err != nil {
		b.t.Fatal(err)
	}
	if r.TransactionID != m.TransactionID {
		b.t.Fatal("the answer is to another check")
	}
	if err := r.Check(stun.NewShortTermIntegrity(password), stun.Fingerprint); err != nil {
		b.t.Fatal(err)
	}
	return r
}

type flag stun.AttrType

func (f flag) AddTo(m *stun.Message) error { m.Add(stun.AttrType(f), nil); return nil }

const (
	nominate    = flag(stun.AttrUseCandidate)
	controlling = flag(stun.AttrICEControlling)
	controlled  = flag(stun.AttrICEControlled)
)

// ReadFrom and what follows make a net.PacketConn of what is DTLS.
func (b *browser) ReadFrom(p []byte) (int, net.Addr, error) {
	select {
	case d := <-b.dtls:
		return copy(p, d), b.LocalAddr(), nil
	case <-b.past.Done():
		return 0, nil, context.DeadlineExceeded
	}
}

func (b *browser) WriteTo(p []byte, _ net.Addr) (int, error) { b.raw(p); return len(p), nil }
func (b *browser) LocalAddr() net.Addr                       { return &net.UDPAddr{IP: net.IPv4(1, 2, 3, 4)} }
func (b *browser) Close() error                              { b.past.Set(time.Unix(1, 0)); return nil }
func (b *browser) SetDeadline(t time.Time) error             { return b.SetReadDeadline(t) }
func (b *browser) SetWriteDeadline(time.Time) error          { return nil }
func (b *browser) SetReadDeadline(t time.Time) error {
	b.past.Set(t)
	return nil
}

// shake does the browser's part of the handshake.
func (b *browser) shake(client bool, profile dtls.SRTPProtectionProfile) error {
	b.t.Helper()
	shared := []dtls.Option{
		dtls.WithCertificates(b.cert), dtls.WithInsecureSkipVerify(true), dtls.WithSRTPProtectionProfiles(profile),
	}
	var err error
	if client {
		var options []dtls.ClientOption
		for _, o := range shared {
			options = append(options, o)
		}
		b.conn, err = dtls.ClientWithOptions(b, b.LocalAddr(), options...)
	} else {
		options := []dtls.ServerOption{dtls.WithClientAuth(dtls.RequireAnyClientCert)}
		for _, o := range shared {
			options = append(options, o)
		}
		b.conn, err = dtls.ServerWithOptions(b, b.LocalAddr(), options...)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	if err := b.conn.HandshakeContext(ctx); err != nil {
		return err
	}
	state, _ := b.conn.ConnectionState()
	keys := srtp.Config{Profile: srtp.ProtectionProfile(profile)}
	if err := keys.ExtractSessionKeysFromDTLS(&state, client); err != nil {
		return err
	}
	if b.seal, err = srtp.CreateContext(keys.Keys.LocalMasterKey, keys.Keys.LocalMasterSalt, keys.Profile); err != nil {
		return err
	}
	b.open, err = srtp.CreateContext(keys.Keys.RemoteMasterKey, keys.Keys.RemoteMasterSalt, keys.Profile)
	return err
}

func (b *browser) close() {
	if b.conn != nil {
		b.conn.Close()
	}
	b.far.close()
}

// heard opens all RTP that came.
func (b *browser) heard() (n int) {
	b.t.Helper()
	for {
		d := b.next(isRTP)
		if d == nil {
			return n
		}
		if d[1]&0x7f >= 64 && d[1]&0x7f < 96 {
			if _, err := b.open.DecryptRTCP(nil, d, nil); err != nil {
				b.t.Fatal(err)
			}
			continue
		}
		if _, err := b.open.DecryptRTP(nil, d, nil); err != nil {
			b.t.Fatal(err)
		}
		n++
	}
}

// outcome is what Done was told.
type outcome struct {
	suite rtp.Suite
	err   error
}

// meeting is a session that waits for a browser.
type meeting struct {
	*rig
	s    *rtp.Session
	ph   *phone
	b    *browser
	flow rtp.Flow
	told chan outcome
}

func newMeeting(t *testing.T, c rtptest.Conditions, change func(*rtp.Flow)) *meeting {
	t.Helper()
	m := &meeting{rig: newRig(t, c, nil), ph: &phone{}, told: make(chan outcome, 4)}
	var err error
	if m.s, err = m.w.Listen(); err != nil {
		t.Fatal(err)
	}
	m.b = newBrowser(t, m.net, "127.0.0.5:5000", m.s.Local())
	cert, err := rtp.NewCertificate()
	if err != nil {
		t.Fatal(err)
	}
	m.flow = flowTo(netip.MustParseAddrPort("0.0.0.0:9"))
	m.flow.Mux = true
	m.flow.ICE = &rtp.ICE{User: "ours", Password: "ourpasswordourpassword", PeerUser: "theirs"}
	m.flow.DTLS = &rtp.DTLS{
		Certificate: cert, Fingerprints: m.b.fingerprints(), Timeout: 10 * time.Second,
		Done: func(s rtp.Suite, err error) { m.told <- outcome{s, err} },
	}
	if change != nil {
		change(&m.flow)
	}
	m.s.SetFlow(m.flow)
	join(m.s, m.ph)
	return m
}

const (
	userName = "ours:theirs"
	password = "ourpasswordourpassword"
)

func (m *meeting) end() {
	m.s.Close()
	m.b.close()
	m.close()
}

// meet nominates the browser's address and shakes hands.
func (m *meeting) meet(client bool, p dtls.SRTPProtectionProfile) {
	m.t.Helper()
	if r := m.b.ask(userName, password, controlling, nominate); r == nil || r.Type != stun.BindingSuccess {
		m.t.Fatalf("the check was answered with %v", r)
	}
	if err := m.b.shake(client, p); err != nil {
		m.t.Fatal(err)
	}
	if o := <-m.told; o.err != nil || o.suite == 0 {
		m.t.Fatal(o.err)
	}
}

func TestABrowserCalls(t *testing.T) {
	for _, tt := range []struct {
		name    string
		client  bool // we are
		profile dtls.SRTPProtectionProfile
		suite   rtp.Suite
		network rtptest.Conditions
	}{
		{"passive, GCM 128", false, dtls.SRTP_AEAD_AES_128_GCM, rtp.AES128GCM, rtptest.Conditions{}},
		{"passive, GCM 256", false, dtls.SRTP_AEAD_AES_256_GCM, rtp.AES256GCM, rtptest.Conditions{}},
		{"passive, CM 80", false, dtls.SRTP_AES128_CM_HMAC_SHA1_80, rtp.AES128CM80, rtptest.Conditions{}},
		{"active, CM 32", true, dtls.SRTP_AES128_CM_HMAC_SHA1_32, rtp.AES128CM32, rtptest.Conditions{}},
		{"active, GCM 128", true, dtls.SRTP_AEAD_AES_128_GCM, rtp.AES128GCM, rtptest.Conditions{Delay: 50 * ms, Duplicate: 0.3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMeeting(t, tt.network, func(f *rtp.Flow) { f.DTLS.Client = tt.client })
				if tt.network.Delay > 0 {
					m.net.Set(rtptest.Conditions{})
				}
				if r := m.b.ask(userName, password, controlling, nominate); r == nil {
					t.Fatal("no answer to the check")
				} else {
					var a stun.XORMappedAddress
					if err := a.GetFrom(r); err != nil || a.String() != m.b.addr().String() {
						t.Errorf("we see %v, %v", a, err)
					}
				}
				m.net.Set(tt.network)
				if n := len(m.b.got()); n > 0 && !tt.client {
					t.Errorf("%d packets before there are keys", n)
				}
				if err := m.b.shake(!tt.client, tt.profile); err != nil {
					t.Fatal(err)
				}
				if o := <-m.told; o.err != nil || o.suite != tt.suite {
					t.Fatalf("%+v", o)
				}
				m.b.talk(50)
				time.Sleep(time.Second)
				st := m.s.Stats()
				if n := len(m.ph.packets()); n != 50 || st.Forged != 0 {
					t.Errorf("heard %d, %+v", n, st)
				}
				if n := m.b.heard(); n < 90 {
					t.Errorf("the browser heard %d", n)
				}
				if st.Remote != m.b.addr() || !st.Latched || st.Checks == 0 || st.DTLS == 0 {
					t.Errorf("%+v", st)
				}
				m.end()
			})
		})
	}
}

// A lossy network costs time, not the call: also the last flight may be lost.
func TestAHandshakeOverALossyNetwork(t *testing.T) {
	for seed := range 6 {
		synctest.Test(t, func(t *testing.T) {
			m := newMeeting(t, rtptest.Conditions{}, func(f *rtp.Flow) { f.DTLS.Client = seed%2 == 1; f.DTLS.Timeout = 100 * time.Second })
			if m.b.ask(userName, password, controlling, nominate) == nil {
				t.Fatal("no answer")
			}
			for range seed { // other luck
				m.b.raw([]byte{0})
			}
			m.net.Set(rtptest.Conditions{Loss: 0.15})
			if err := m.b.shake(seed%2 == 0, dtls.SRTP_AEAD_AES_128_GCM); err != nil {
				t.Fatal(err)
			}
			if o := <-m.told; o.err != nil {
				t.Fatal(o.err)
			}
			m.net.Set(rtptest.Conditions{})
			m.b.talk(20)
			if n := len(m.ph.packets()); n != 20 {
				t.Errorf("heard %d", n)
			}
			m.end()
		})
	}
}

func TestHandshakesThatFail(t *testing.T) {
	other := sha256.Sum256([]byte("another certificate"))
	for _, tt := range []struct {
		name   string
		change func(*meeting) // of the flow
		meet   func(*meeting)
		want   error
	}{
		{"nobody comes", nil, func(*meeting) {}, rtp.ErrHandshakeTimeout},
		{"no ClientHello", nil, func(m *meeting) { m.b.ask(userName, password, nominate) }, rtp.ErrHandshakeTimeout},
		{"another certificate", func(m *meeting) {
			m.flow.DTLS.Fingerprints = []rtp.Fingerprint{{Hash: "sha-256", Sum: other[:]}}
		}, func(m *meeting) {
			m.b.ask(userName, password, nominate)
			_ = m.b.shake(true, dtls.SRTP_AEAD_AES_128_GCM)
		}, rtp.ErrFingerprint},
		{"weak hashes only", func(m *meeting) {
			m.flow.DTLS.Fingerprints = []rtp.Fingerprint{{Hash: "sha-1", Sum: other[:20]}}
		}, func(m *meeting) {
			m.b.ask(userName, password, nominate)
			_ = m.b.shake(true, dtls.SRTP_AEAD_AES_128_GCM)
		}, rtp.ErrFingerprint},
		{"the strongest hash is wrong", func(m *meeting) {
			wrong := sha512.Sum512([]byte("x"))
			m.flow.DTLS.Fingerprints = append(m.b.fingerprints(), rtp.Fingerprint{Hash: "SHA-512", Sum: wrong[:]})
		}, func(m *meeting) {
			m.b.ask(userName, password, nominate)
			_ = m.b.shake(true, dtls.SRTP_AEAD_AES_128_GCM)
		}, rtp.ErrFingerprint},
		{"no suite in common", nil, func(m *meeting) {
			m.b.ask(userName, password, nominate)
			_ = m.b.shake(true, dtls.SRTPProtectionProfile(0x0005))
		}, rtp.ErrHandshake},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMeeting(t, rtptest.Conditions{}, nil)
				if tt.change != nil {
					d := *m.flow.DTLS
					m.flow.DTLS = &d
					tt.change(m)
					m.s.SetFlow(m.flow)
					time.Sleep(7 * ms)
				}
				tt.meet(m)
				if o := <-m.told; !errors.Is(o.err, tt.want) {
					t.Errorf("%v, want %v", o.err, tt.want)
				}
				time.Sleep(time.Second)
				if st := m.s.Stats(); st.Sent != 0 || st.Reports.Sent != 0 {
					t.Errorf("%+v", st)
				}
				m.end()
			})
		})
	}
}

// Who does not know the credentials gets no octet, whatever is sent.
func TestAStrangerToABrowsersCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting(t, rtptest.Conditions{}, nil)
		evil := newBrowser(t, m.net, "127.0.0.6:6666", m.s.Local())
		evil.seal = contextOf(t, srtp.ProtectionProfileAeadAes128Gcm, keysOf(rtp.AES128GCM, 4).Recv)
		attack := func() {
			for _, try := range []struct{ user, password string }{
				{"ours:theirs", "guess"}, {"ours:others", password}, {"theirs:ours", password}, {"ours", password}, {"", password},
			} {
				if r := evil.ask(try.user, try.password, nominate); r != nil {
					t.Errorf("%+v was answered with %v", try, r)
				}
			}
			// Right but for the FINGERPRINT, or the MESSAGE-INTEGRITY.
			for _, last := range []stun.Setter{stun.NewShortTermIntegrity(password), stun.Fingerprint} {
				b, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.NewUsername(userName), nominate, last)
				if err != nil {
					t.Fatal(err)
				}
				evil.raw(b.Raw)
			}
			hello := append([]byte{22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 1}, make([]byte, 39)...)
			evil.raw(hello)
			evil.talk(10)
			evil.raw(evil.plain("plain"))
			evil.raw(append([]byte{0x80, 201, 0, 1}, make([]byte, 24)...))
			time.Sleep(time.Second)
			if n := len(evil.got()); n != 0 {
				t.Errorf("the stranger got %d datagrams", n)
			}
		}
		attack()
		m.meet(true, dtls.SRTP_AEAD_AES_128_GCM)
		attack()
		m.b.talk(10)
		attack()
		st := m.s.Stats()
		if st.Remote != m.b.addr() || len(m.ph.packets()) != 10 || st.ChecksRefused != 21 {
			t.Errorf("%+v", st)
		}
		evil.close()
		m.end()
	})
}

func TestChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting(t, rtptest.Conditions{}, nil)
		code := func(r *stun.Message) int {
			t.Helper()
			var c stun.ErrorCodeAttribute
			if r == nil || r.Type != stun.BindingError {
				t.Fatalf("%v", r)
			}
			if err := c.GetFrom(r); err != nil {
				t.Fatal(err)
			}
			return int(c.Code)
		}
		if c := code(m.b.ask(userName, password, controlled)); c != 487 {
			t.Errorf("two controlled agents: %d", c)
		}
		r := m.b.ask(userName, password, flag(0x7ffe))
		if c := code(r); c != 420 {
			t.Errorf("an unknown attribute: %d", c)
		}
		var unknown stun.UnknownAttributes
		if err := unknown.GetFrom(r); err != nil || len(unknown) != 1 || unknown[0] != 0x7ffe {
			t.Errorf("%v, %v", unknown, err)
		}
		if r := m.b.ask(userName, password, flag(0xc057)); r == nil || r.Type != stun.BindingSuccess {
			t.Errorf("an attribute that may be passed over: %v", r)
		}
		if st := m.s.Stats(); st.Latched || st.Checks != 3 {
			t.Errorf("nobody was nominated: %+v", st)
		}
		// USE-CANDIDATE behind the MESSAGE-INTEGRITY could be anybody's.
		b, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.NewUsername(userName),
			stun.NewShortTermIntegrity(password), nominate, stun.Fingerprint)
		if err != nil {
			t.Fatal(err)
		}
		m.b.raw(b.Raw)
		time.Sleep(ptime)
		if m.b.next(isSTUN) == nil || m.s.Stats().Latched {
			t.Error("an attribute that is not authentic counts")
		}
		// An indication wants no answer.
		if b, err = stun.Build(stun.TransactionID, stun.NewType(stun.MethodBinding, stun.ClassIndication), stun.NewUsername(userName),
			stun.NewShortTermIntegrity(password), stun.Fingerprint); err != nil {
			t.Fatal(err)
		}
		m.b.raw(b.Raw)
		time.Sleep(ptime)
		if m.b.next(isSTUN) != nil {
			t.Error("an indication was answered")
		}
		m.end()
	})
}

func TestConsent(t *testing.T) { // RFC 7675
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting(t, rtptest.Conditions{}, nil)
		m.meet(true, dtls.SRTP_AEAD_AES_128_GCM)
		m.b.heard()
		for range 30 { // checks keep it up, though nothing is said
			time.Sleep(5 * time.Second)
			m.b.ask(userName, password, controlling)
		}
		if n := m.b.heard(); n < 7000 {
			t.Errorf("heard %d in two and a half minutes", n)
		}
		m.b.talk(3000) // packets that only the peer can make do as well
		if n := m.b.heard(); n < 2990 {
			t.Errorf("heard %d in the next minute", n)
		}
		time.Sleep(31 * time.Second)
		m.b.heard()
		time.Sleep(10 * time.Second)
		if n, st := m.b.heard(), m.s.Stats(); n != 0 || st.ConsentLost != 1 {
			t.Errorf("heard %d without consent, %+v", n, st)
		}
		m.b.ask(userName, password, controlling)
		time.Sleep(time.Second)
		if n := m.b.heard(); n < 45 {
			t.Errorf("heard %d after it came back", n)
		}
		m.end()
	})
}

// A phone changes networks, restarts ICE with new credentials, and is nominated from
// another address; the keys stay.
func TestARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting(t, rtptest.Conditions{}, nil)
		m.meet(true, dtls.SRTP_AEAD_AES_128_GCM)
		m.b.talk(10)
		moved := newBrowser(t, m.net, "127.0.0.7:7000", m.s.Local())
		moved.seal, moved.open, moved.seq, moved.ts = m.b.seal, m.b.open, m.b.seq, m.b.ts
		m.flow.ICE = &rtp.ICE{User: "new", Password: "anotherpasswordforthis", PeerUser: "fresh"}
		m.s.SetFlow(m.flow)
		moved.seq, moved.ts = m.b.seq, m.b.ts
		m.b.talk(10) // the old address goes on until then
		moved.seq, moved.ts = m.b.seq, m.b.ts
		if r := moved.ask(userName, password, nominate); r != nil {
			t.Error("the old credentials are good still")
		}
		if r := moved.ask("new:fresh", "anotherpasswordforthis", controlling, nominate); r == nil {
			t.Fatal("no answer")
		}
		m.b.heard()
		moved.talk(30)
		if n, st := len(m.ph.packets()), m.s.Stats(); n != 50 || st.Remote != moved.addr() || st.Forged != 0 {
			t.Errorf("heard %d, %+v", n, st)
		}
		if n := moved.heard(); n < 25 {
			t.Errorf("it heard %d", n)
		}
		if n := m.b.heard(); n != 0 {
			t.Errorf("the old address heard %d", n)
		}
		moved.far.close()
		m.end()
	})
}

// Without ICE the address of the session description is the only one.
func TestDTLSWithoutICE(t *testing.T) {
	for _, client := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := newMeeting(t, rtptest.Conditions{}, func(f *rtp.Flow) {
				f.ICE, f.Peer, f.DTLS.Client = nil, netip.MustParseAddrPort("127.0.0.5:5000"), client
			})
			evil := newBrowser(t, m.net, "127.0.0.5:5001", m.s.Local())
			ended := make(chan error, 1)
			go func() { ended <- evil.shake(true, dtls.SRTP_AEAD_AES_128_GCM) }()
			if err := m.b.shake(!client, dtls.SRTP_AEAD_AES_128_GCM); err != nil {
				t.Fatal(err)
			}
			m.b.talk(20)
			if n := len(m.ph.packets()); n < 19 { // the first may come in the tick of the last handshake message
				t.Errorf("heard %d", n)
			}
			if err := <-ended; err == nil {
				t.Error("a stranger shook hands")
			}
			if n := m.b.heard(); n < 15 {
				t.Errorf("the peer heard %d", n)
			}
			evil.close()
			m.end()
		})
	}
}

func TestASecondAssociation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeeting(t, rtptest.Conditions{}, nil)
		m.meet(true, dtls.SRTP_AEAD_AES_128_GCM)
		m.b.talk(10)
		b := newBrowser(t, m.net, "127.0.0.8:8000", m.s.Local()) // transferred to another
		d := *m.flow.DTLS
		d.Fingerprints = b.fingerprints()
		m.flow.DTLS, m.flow.ICE = &d, &rtp.ICE{User: "ours", Password: password, PeerUser: "theirs"}
		m.s.SetFlow(m.flow)
		time.Sleep(7 * ms)
		m.b.heard()
		time.Sleep(time.Second)
		if n := m.b.heard(); n != 0 {
			t.Errorf("%d packets under the old keys", n)
		}
		old := m.b
		m.b = b
		m.meet(true, dtls.SRTP_AES128_CM_HMAC_SHA1_80)
		b.ssrc = 0xB
		b.talk(20)
		if n := len(m.ph.packets()); n < 29 {
			t.Errorf("heard %d", n)
		}
		old.close()
		m.end()
	})
}

// Closing does not wait for a peer.
func TestCloseAmidAHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, begun := range []bool{false, true} {
			m := newMeeting(t, rtptest.Conditions{}, func(f *rtp.Flow) { f.DTLS.Client = true })
			if begun {
				m.b.ask(userName, password, nominate)
			}
			time.Sleep(100 * ms)
			at := time.Now()
			m.s.Close()
			if took := time.Since(at); took > 100*ms {
				t.Errorf("Close took %v", took)
			}
			select {
			case o := <-m.told:
				t.Errorf("told %+v after Close", o)
			default:
			}
			m.end()
		}
	})
}
