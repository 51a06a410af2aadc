package call

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"parley/media"
	"parley/rtp"
	"parley/rtp/dtmf"
	"parley/rtp/jitter"
	"parley/sip"
	"parley/sip/sdp"
)

// What the jitter buffer keeps behind a missing packet: 32 packets are 640 ms at
// 20 ms, more than the longest waiting time; 1500 bytes hold any packet.
const (
	jitterDepth  = 32
	jitterPacket = 1500
)

// negotiation is the offer/answer side of one call (RFC 3264). One goroutine at a
// time uses it: the one that answers the INVITE, then the dialog's.
type negotiation struct {
	local  sdp.Local
	codecs []media.Codec
	cfg    Config
	// listenRTCP binds a port for RTCP, if that was not done, and says which; 0 when
	// there is none. Nil is for tests that want none.
	listenRTCP func() uint16
	// facing is the address of ours for a peer's, when it is not a set one. Nil: local.
	facing func(local, peer netip.Addr) netip.Addr
	guard  guarding
	last   []byte // the session description we sent last
	offer  []byte // our offer that waits for an answer
	now    *change
}

// change is what an offer/answer exchange settled; the wheel puts it into force
// between two packets.
type change struct {
	line   *line
	flow   rtp.Flow
	accept accept
	jitter *jitter.Buffer
	digits *dtmf.Decoder
	held   bool
}

func newNegotiation(cfg Config, codecs []media.Codec, addr netip.Addr, port uint16, id uint64) *negotiation {
	n := &negotiation{cfg: cfg, codecs: codecs, local: sdp.Local{
		Addr: addr, Port: port, Events: true, PacketTime: cfg.PacketTime,
		SessionID: id, Version: id, User: "parley",
	}}
	for _, c := range codecs {
		n.local.Codecs = append(n.local.Codecs, sdp.Codec{
			Name: c.Name, PayloadType: c.PayloadType, ClockRate: c.ClockRate, Channels: c.Channels, Params: c.Params,
		})
	}
	return n
}

// answer answers an offer. On an error everything stays as it was.
func (n *negotiation) answer(text []byte) ([]byte, *change, *sip.RejectError) {
	offer, err := sdp.Parse(text)
	if err != nil {
		return nil, nil, reject(fmt.Errorf("%w: %w", errBadOffer, err))
	}
	a, err := sdp.Agree(offer, n.local)
	if err != nil {
		return nil, nil, reject(err)
	}
	if renewed, moved := n.renewed(a.Media), n.moved(a.Media); renewed || moved {
		if a, err = sdp.Agree(offer, n.local); err != nil {
			return nil, nil, reject(err)
		}
	}
	n.control(a.RTCPMux)
	answer := a.Text(n.local)
	if n.last != nil && !bytes.Equal(answer, n.last) {
		// RFC 3264 section 8: the version grows by one when the description changes.
		n.local.Version++
		answer = a.Text(n.local)
	}
	c, err := n.settle(a.Media)
	if err != nil {
		return nil, nil, reject(err)
	}
	n.last = answer
	return answer, c, nil
}

// moved says that our address is another one for the first offer, now that it is
// known where the peer is.
func (n *negotiation) moved(m sdp.Media) bool {
	if n.facing == nil || n.last != nil {
		return false
	}
	before := n.local.Addr
	n.local.Addr = n.facing(before, m.Named.Unmap())
	return n.local.Addr != before
}

// propose makes our offer, for an INVITE or re-INVITE that came without one.
func (n *negotiation) propose() []byte {
	// Sharing a port is offered to a peer that does already: a plain one need not
	// know of it.
	n.local.RTCPMux = n.now != nil && n.now.flow.Mux
	n.control(n.local.RTCPMux)
	n.local.Offer = n.offers()
	offer := sdp.Offer(n.local)
	if n.last != nil && !bytes.Equal(offer, n.last) {
		n.local.Version++
		offer = sdp.Offer(n.local)
	}
	n.last, n.offer = offer, offer
	return offer
}

// provisional is what to be ready with until the peer answers our first offer:
// our preferred codec, and nothing sent, for where to is not known.
func (n *negotiation) provisional() (*change, error) {
	codec := n.local.Codecs[0]
	return n.settle(sdp.Media{
		Codec: codec, RecvPT: codec.PayloadType, PacketTime: n.cfg.PacketTime,
		Recv: n.local.Offer == sdp.Plain, // what is encrypted cannot be read yet
	})
}

// accepted takes the peer's answer to propose.
func (n *negotiation) accepted(text []byte) (*change, error) {
	if n.offer == nil {
		return nil, errNoOffer
	}
	answer, err := sdp.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadOffer, err)
	}
	m, err := sdp.Accept(n.offer, answer, n.local)
	if err != nil {
		return nil, err
	}
	n.offer = nil
	n.control(m.RTCPMux)
	return n.settle(m)
}

// settle turns what was agreed into what the wheel needs.
func (n *negotiation) settle(m sdp.Media) (*change, error) {
	codec, ok := n.codec(m.Codec)
	if !ok {
		return nil, fmt.Errorf("%w: %s/%d", errNoCodec, m.Codec.Name, m.Codec.ClockRate)
	}
	packetTime := n.packetTime(m, codec)
	c := &change{held: m.Held}
	var before *line
	if n.now != nil {
		before = n.now.line
	}
	if before.same(codec, m.Codec.Params) && before.packetTime == packetTime {
		c.line, c.jitter = n.now.line, n.now.jitter
	} else {
		var err error
		if c.line, err = newLine(codec, m.Codec.Params, packetTime, before); err != nil {
			return nil, err
		}
		c.jitter = jitter.New(jitter.Config{ClockRate: codec.ClockRate, Min: n.cfg.JitterMin, Max: n.cfg.JitterMax, Depth: jitterDepth,
			MaxPacket: jitterPacket, Duration: codec.Duration})
	}
	if n.now != nil {
		c.digits = n.now.digits // a key may be down
	} else {
		c.digits = dtmf.NewDecoder(codec.ClockRate)
	}
	c.accept = accept{hasEvt: m.Events, tones: n.cfg.KeyTones && !m.Events, events: [3]uint8{m.RecvEventPT, m.SendEventPT, m.RecvEventPT}}
	if m.OtherEventPT != 0 {
		c.accept.events[2] = m.OtherEventPT
	}
	c.flow = rtp.Flow{
		Peer: m.Peer, Send: m.Send, Recv: m.Recv,
		PayloadType: m.Codec.PayloadType, ClockRate: codec.ClockRate, PacketTime: packetTime,
		Rearm: true, RTCP: m.RTCP, Mux: m.RTCPMux, Extended: m.VoIPMetrics,
	}
	c.flow.Accept = rtp.Types(m.RecvPT, m.Codec.PayloadType, comfortNoise)
	if m.Events {
		c.flow.Accept = rtp.Types(m.RecvPT, m.Codec.PayloadType, comfortNoise, m.RecvEventPT, m.SendEventPT, c.accept.events[2])
	}
	if err := n.secure(m, &c.flow); err != nil {
		return nil, err
	}
	n.local.Mid = m.Mid
	n.now = c
	return c, nil
}

// packetTime is the packet time to send with: what the peer asked for when we can
// do it, never above what it can take (RFC 8866 sections 6.4, 6.5).
func (n *negotiation) packetTime(m sdp.Media, codec media.Codec) time.Duration {
	want := n.cfg.PacketTime
	switch m.PacketTime {
	case 10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond:
		want = m.PacketTime
	}
	for _, t := range []time.Duration{60, 40, 30, 20, 10} {
		if t *= time.Millisecond; t <= want && (m.MaxPacketTime == 0 || t <= m.MaxPacketTime) &&
			(codec.PacketTimes == nil || slices.Contains(codec.PacketTimes, t)) {
			return t
		}
	}
	return 10 * time.Millisecond
}

func (n *negotiation) codec(c sdp.Codec) (media.Codec, bool) {
	for _, own := range n.codecs {
		if strings.EqualFold(own.Name, c.Name) && own.ClockRate == c.ClockRate {
			return own, true
		}
	}
	return media.Codec{}, false
}
