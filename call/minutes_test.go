package call

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/media/vad"
	"parley/rtp"
	"parley/rtp/rtptest"
	"parley/sip/sdp"
)

// mediaCall is the media half of a Call, over a network in memory: everything between
// the socket and the agent is real, only SIP is left out.
type mediaCall struct {
	*Call
	wheel   *rtp.Wheel
	session *fakeSession
	peer    *rtptest.Peer
	nego    *negotiation
}

// join sets up the media half of a call whose caller is a peer on n.
func join(t *testing.T, n *rtptest.Network, f agent.Format) *mediaCall {
	t.Helper()
	session := &fakeSession{notices: make(chan agent.Notice, 1000), ended: make(chan struct{})}
	m := joinAs(t, n, f, []media.Codec{g711.PCMU(), g711.PCMA()}, 20*time.Millisecond, session)
	m.session = session
	return m
}

// joinAs is join for any session, and codecs of which the caller wants the first,
// in packets of that length.
func joinAs(t *testing.T, n *rtptest.Network, f agent.Format, codecs []media.Codec, packetTime time.Duration, session agent.Session) *mediaCall {
	t.Helper()
	cfg := rtp.DefaultConfig()
	cfg.Addr, cfg.PortMin, cfg.PortMax = netip.MustParseAddr("127.0.0.1"), 0, 0
	wheel, err := rtp.NewWheel(cfg, rtp.WithListen(n.Listen))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{cfg: DefaultConfig(), log: zap.NewNop(), parts: Parts{
		Wheel: wheel, Codecs: codecs, Observer: nobody{},
		Voice: func(rate int) (vad.Detector, error) { return vad.NewEnergy(vad.DefaultEnergyConfig(rate)) },
	}}
	c := newCall(s, "test", inbound)
	c.session = session
	if c.rtp, err = wheel.Listen(); err != nil {
		t.Fatal(err)
	}
	peer, err := rtptest.NewPeer(n, netip.MustParseAddrPort("127.0.0.1:40000"), c.rtp.Local())
	if err != nil {
		t.Fatal(err)
	}
	m := &mediaCall{Call: c, wheel: wheel, peer: peer}
	m.nego = newNegotiation(s.cfg, s.parts.Codecs, c.rtp.Local().Addr(), c.rtp.Local().Port(), 1)
	first := m.offer(t, codecs[0], packetTime)
	if err := c.connect(first, f); err != nil {
		t.Fatal(err)
	}
	c.pending.Store(first)
	c.rtp.Join((*turned)(c))
	return m
}

// offer offers the codec as the caller and takes it up as the sending side too.
func (m *mediaCall) offer(t *testing.T, codec media.Codec, packetTime time.Duration) *change {
	t.Helper()
	_, c, refusal := m.nego.answer(sdp.Offer(sdp.Local{
		Addr: m.peer.Addr().Addr(), Port: m.peer.Addr().Port(), Events: true, PacketTime: packetTime,
		Codecs: []sdp.Codec{{Name: codec.Name, PayloadType: codec.PayloadType, ClockRate: codec.ClockRate, Channels: codec.Channels, Params: codec.Params}},
	}))
	if refusal != nil {
		t.Fatal(refusal)
	}
	m.peer.PayloadType = codec.PayloadType
	m.peer.Step = uint32(media.Samples(packetTime, codec.ClockRate))
	return c
}

func (m *mediaCall) leave(t *testing.T) {
	t.Helper()
	m.rtp.Close()
	m.peer.Close()
	m.end(errAgentDone)
	if err := m.wheel.Close(); err != nil {
		t.Error(err)
	}
}

func TestFiveMinutesOverABadNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const packets = 5 * 60 * 50
		good := rtptest.Conditions{Delay: 20 * time.Millisecond}
		bad := rtptest.Conditions{Loss: 0.03, Duplicate: 0.01, Reorder: 0.02, Delay: 20 * time.Millisecond}
		n := rtptest.New(7, good)
		m := join(t, n, agent.Format{HearRate: 16000, SayRate: 16000})
		go func() {
			for range 5 * 60 {
				if err := m.mouth.Say(t.Context(), sine(440, 16000, time.Second)); err != nil {
					t.Error(err)
				}
			}
			m.mouth.Flush()
		}()
		time.Sleep(100 * time.Millisecond)
		voice := g711.PCMU()
		enc, err := voice.NewEncoder()
		if err != nil {
			t.Fatal(err)
		}
		payload, err := enc.Encode(nil, sine(1000, 8000, 20*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range packets {
			time.Sleep(time.Until(began.Add(time.Duration(i) * 20 * time.Millisecond)))
			switch i { // a loss before the first or after the last packet cannot be known
			case 1:
				n.Set(bad)
			case packets - 1:
				n.Set(good)
			}
			m.peer.Send(false, payload)
		}
		time.Sleep(2 * time.Second)
		m.leave(t)

		counts := n.Counts()
		stats, waited := m.rtp.Stats(), m.ear.jitter.Stats()
		if want := uint64(packets) - waited.Lost; waited.Played != want {
			t.Errorf("played %d and lost %d of %d packets", waited.Played, waited.Lost, packets)
		}
		if told := m.record().Stats.Duplicate; told == 0 || told != stats.Duplicate {
			t.Errorf("the record has %d packets that came twice, the session %d", told, stats.Duplicate)
		}
		frames, _, _ := m.session.heard()
		// Every 20 ms of the caller is heard once, played or concealed; after the
		// last packet silence is heard in its stead.
		silence := int((2*time.Second - quietAfter) / media.FrameTime)
		if extra := frames - packets; extra < silence-3 || extra > silence+3 {
			t.Errorf("the agent heard %d frames of %d sent, with about %d of silence after", frames, packets, silence)
		}
		if waited.Late > waited.Lost || waited.Lost == 0 {
			t.Errorf("late %d, lost %d", waited.Late, waited.Lost)
		}
		if got := m.mouth.Played(); got != 5*time.Minute {
			t.Errorf("%v of speech on the wire, want 5m", got)
		}
		if got := uint64(len(m.peer.Seen())) + counts.Lost; got < stats.Sent {
			t.Errorf("%d packets sent, the peer and the network account for %d", stats.Sent, got)
		}
		t.Logf("network %+v; jitter buffer %+v", counts, waited)
	})
}

func TestAMutedPhoneIsHeardAsSilence(t *testing.T) { // BR-088
	synctest.Test(t, func(t *testing.T) {
		n := rtptest.New(1, rtptest.Conditions{})
		m := join(t, n, agent.Format{})
		time.Sleep(50 * time.Millisecond)
		loud := constantPayload(t, 8000)
		send := func(count int) {
			for range count {
				m.peer.Send(false, loud)
				time.Sleep(20 * time.Millisecond)
			}
		}
		send(50)
		m.session.await(t, agent.VoiceOn)
		time.Sleep(40 * time.Second) // muted: nothing comes
		frames, _, _ := m.session.heard()
		if want := 50 + 40*50 - int(quietAfter/media.FrameTime); frames < want-3 || frames > want+3 {
			t.Errorf("%d frames heard by the end of 40 s without packets, want about %d", frames, want)
		}
		m.session.await(t, agent.VoiceOff)
		m.peer.Timestamp += 40 * 8000
		send(50)
		after, _, _ := m.session.heard()
		if got := after - frames; got < 50 || got > 50+int((quietAfter+maxFill)/media.FrameTime) {
			t.Errorf("%d frames for 50 packets after the pause: silence was heard twice", got)
		}
		m.leave(t)
	})
}

// constantPayload is 20 ms of a loud tone in mu-law.
func constantPayload(t *testing.T, rate int) []byte {
	t.Helper()
	enc, err := g711.PCMU().NewEncoder()
	if err != nil {
		t.Fatal(err)
	}
	b, err := enc.Encode(nil, sine(500, rate, 20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAllocsPacketInAndOut(t *testing.T) {
	n := rtptest.New(1, rtptest.Conditions{})
	m := join(t, n, agent.Format{HearRate: 16000, SayRate: 16000})
	defer m.leave(t)
	m.session.sizes = make([]int, 0, 4)
	side := (*turned)(m.Call)
	c := m.Call
	c.rtp.Close() // the test turns it itself
	side.Turn(0)
	payload := constantPayload(t, 8000)
	pcm := constant(320, 3000)
	p := rtp.Packet{Payload: payload}
	ctx := t.Context()
	now := time.Duration(0)
	if got := testing.AllocsPerRun(1000, func() {
		now += 20 * time.Millisecond
		p.Sequence++
		p.Timestamp += 160
		p.Arrival = now
		side.Packet(&p)
		side.Turn(now)
		if err := c.mouth.Say(ctx, pcm); err != nil {
			t.Fatal(err)
		}
		side.Slot(now, 0)
	}); got != 0 {
		t.Errorf("%v allocations for a packet in and one out, want 0", got)
	}
}
