package sdp

import (
	"fmt"
	"net/netip"
	"strings"
)

// plain says that a profile is RTP without encryption. AVPF without feedback
// messages is AVP on the wire (RFC 4585).
func plain(proto string) bool {
	return strings.EqualFold(proto, "RTP/AVP") || strings.EqualFold(proto, "RTP/AVPF")
}

// Agreement is what is taken of an offer.
type Agreement struct {
	Media
	offer *Session
	sec   security
}

// Agree finds what to answer to an offer: the first audio stream that we have a codec
// for is taken, one that is protected before a plain one as the policy allows, with the
// codec that comes first in l.Codecs; all others are refused with port 0 in their places
// (RFC 3264 section 6). The answer keeps the profile of the offer. The error is a
// *Refusal. An answer never holds telephone-event alone. Nothing of it depends on
// l.RTCPPort and l.Version.
func Agree(offer *Session, l Local) (*Agreement, error) {
	var why *Refusal
	var plain *Agreement
	for i := range offer.media {
		line := &offer.media[i]
		codec, refusal := usable(offer, line, l)
		if refusal != nil {
			why = weightier(why, refusal)
			continue
		}
		m, refusal := agree(offer, line, i, codec, l)
		switch {
		case refusal != nil:
			why = weightier(why, refusal)
		case m.Protection != Plain || l.SRTP == PolicyOff:
			return &Agreement{m, offer, codec.sec}, nil
		case plain == nil:
			plain = &Agreement{m, offer, codec.sec}
		}
	}
	if plain != nil {
		return plain, nil
	}
	if why == nil {
		why = &Refusal{Code: 488, Warning: 304, Text: "The offer has no active media"}
	}
	return nil, why
}

// Text is the answer. Beside RTCPPort and Version, l is as it was for Agree.
func (a *Agreement) Text(l Local) []byte { return writeAnswer(a.offer, a.Media, a.sec, l) }

// choice is a codec of ours and the format of the peer that it matches, and how the
// stream is protected.
type choice struct {
	codec  Codec
	format format
	sec    security
}

// usable finds the codec for a stream, or says why it cannot be used.
func usable(s *Session, line *media, l Local) (choice, *Refusal) {
	switch {
	case line.port == 0:
		// Switched off. Not a reason worth telling, unless there is no other.
		return choice{}, &Refusal{Code: 488, Warning: 304, Text: "The offer has no active media"}
	case line.kind == "image":
		return choice{}, &Refusal{Code: 488, Warning: 304, Text: "Fax (T.38) is not supported"}
	case line.kind != "audio":
		return choice{}, &Refusal{Code: 488, Warning: 304, Text: fmt.Sprintf("Media type %.32s is not available, only audio is", line.kind)}
	}
	sec, refusal := protectionOf(s, line, l)
	if refusal != nil {
		return choice{}, refusal
	}
	formats := line.formatsOf()
	for _, c := range l.Codecs {
		for _, f := range formats {
			if f.is(c) {
				return choice{c, f, sec}, nil
			}
		}
	}
	return choice{}, &Refusal{Code: 488, Warning: 305, Text: "No common codec, we have " + codecNames(l)}
}

func codecNames(l Local) string {
	var names []string
	for _, c := range l.Codecs {
		names = append(names, fmt.Sprintf("%s/%d", c.Name, c.ClockRate))
	}
	return strings.Join(names, ", ")
}

// weightier keeps the reason that tells a peer most: a codec before a profile,
// both before another kind of media.
func weightier(a, b *Refusal) *Refusal {
	rank := func(r *Refusal) int {
		switch {
		case r.Warning == 305:
			return 3
		case r.Warning == 300 || r.Warning == 301:
			return 2
		case r.Warning == 302:
			return 1
		}
		return 0
	}
	if a == nil || rank(b) > rank(a) || a.Warning == 304 && strings.Contains(a.Text, "no active") {
		return b
	}
	return a
}

// agree works out what an accepted stream means for us.
func agree(offer *Session, line *media, index int, c choice, l Local) (Media, *Refusal) {
	conn, err := offer.connection(line)
	named := conn.addr
	if c.sec.ice != nil {
		conn, err = connection{v6: l.Addr.Unmap().Is6()}, nil // the checks say where the peer is
	}
	if err != nil {
		return Media{}, &Refusal{Code: 488, Warning: 300, Text: strings.TrimPrefix(err.Error(), "sdp: ")}
	}
	hold := conn.addr.IsValid() && conn.addr.IsUnspecified()
	if !hold && conn.v6 != l.Addr.Unmap().Is6() {
		return Media{}, &Refusal{Code: 488, Warning: 301, Text: fmt.Sprintf("The address family does not fit, we have %s here", familyName(l.Addr))}
	}
	peers := offer.direction(line)
	ours := peers.mirror()
	m := Media{
		Index: index, Host: conn.host, Named: named, Codec: c.codec.with(c.format), RecvPT: c.format.pt,
		Protection: c.sec.kind, SDES: c.sec.sdes, DTLS: c.sec.dtls, ICE: c.sec.ice, Mid: line.mid(),
	}
	m.Held = hold || !peers.recv
	if hold {
		ours.send = false // RFC 3264 section 8.4: nothing is sent to 0.0.0.0
	} else if conn.addr.IsValid() {
		m.Peer = netip.AddrPortFrom(conn.addr, line.port)
	}
	m.Send, m.Recv = ours.send, ours.recv && !l.Hold
	if l.Events {
		if f, ok := events(line.formatsOf(), c.format.clock); ok {
			m.Events, m.EventClock = true, f.clock
			m.SendEventPT, m.RecvEventPT = f.pt, f.pt
			m.OtherEventPT = otherEvents(line.formatsOf(), f.pt)
		}
	}
	m.PacketTime, m.MaxPacketTime = line.milliseconds("ptime"), line.milliseconds("maxptime")
	_, m.RTCPMux = line.attr("rtcp-mux")
	m.RTCP = line.rtcp(m.Peer, m.RTCPMux)
	if m.Protection == ByDTLS && !m.RTCPMux {
		m.RTCP = netip.AddrPort{} // it would need a handshake of its own
	}
	m.VoIPMetrics = line.wantsVoIPMetrics(offer)
	return m, nil
}

func familyName(a netip.Addr) string {
	if a.Unmap().Is6() {
		return "IP6"
	}
	return "IP4"
}

// Accept reads the peer's answer to an offer of ours, made by Offer with the same
// Local. The error is a *Refusal: the peer's answer does not fit the offer, which
// ends the session (RFC 3264 section 6).
func Accept(offer []byte, answer *Session, l Local) (m Media, err error) {
	ours, err := Parse(offer)
	if err != nil {
		return Media{}, err
	}
	misfit := func(format string, args ...any) error {
		return &Refusal{Code: 488, Warning: 305, Text: "The answer does not fit our offer: " + fmt.Sprintf(format, args...)}
	}
	if len(answer.media) == 0 || len(answer.media) != len(ours.media) {
		return Media{}, misfit("%d media for %d", len(answer.media), len(ours.media))
	}
	line, offered := &answer.media[0], &ours.media[0]
	switch {
	case line.kind != offered.kind:
		return Media{}, misfit("media %.16s for %s", line.kind, offered.kind)
	case line.port == 0:
		return Media{}, misfit("the stream was refused")
	case !strings.EqualFold(line.proto, offered.proto):
		return Media{}, misfit("profile %.32s for %s", line.proto, offered.proto)
	}
	sec, refusal := accepted(answer, line, offered, l)
	if refusal != nil {
		return Media{}, refusal
	}
	// The answerer lists what it likes best first.
	for _, f := range line.formatsOf() {
		for _, c := range l.Codecs {
			if !f.is(c) {
				continue
			}
			m, refusal := agree(answer, line, 0, choice{c, f, sec}, l)
			if refusal != nil {
				return Media{}, refusal
			}
			if _, shared := offered.attr("rtcp-mux"); !shared && m.RTCPMux { // not ours to take (RFC 5761 section 5.1.1)
				m.RTCPMux, m.RTCP = false, line.rtcp(m.Peer, false)
			}
			own := offered.formatsOf()
			m.RecvPT = c.PayloadType
			if e, ok := events(own, c.ClockRate); ok {
				m.RecvEventPT, m.OtherEventPT = e.pt, otherEvents(own, e.pt)
			} else {
				m.Events = false
			}
			return m, nil
		}
	}
	return Media{}, misfit("no codec of ours in it, we have %s", codecNames(l))
}

// accepted works out what the answer to an offer of ours says of protection. It must
// be protected as the offer was.
func accepted(answer *Session, line, offered *media, l Local) (security, *Refusal) {
	misfit := func(text string) (security, *Refusal) {
		return security{}, &Refusal{Code: 488, Warning: 302, Text: "The answer does not fit our offer: " + text}
	}
	switch l.Offer {
	case BySDES:
		sdes, ok := line.answered(offered, l.Crypto)
		if !ok {
			return misfit("no crypto attribute that we offered")
		}
		return security{kind: BySDES, sdes: sdes}, nil
	case ByDTLS:
		if !answer.has(line, "fingerprint") {
			return misfit("no fingerprint")
		}
		return dtlsOf(answer, line, l)
	}
	return security{}, nil
}
