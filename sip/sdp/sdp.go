// Package sdp reads session descriptions of peers and writes ours (RFC 8866),
// and holds the rules of offer and answer between them (RFC 3264) for one RTP audio
// stream, plain or protected by SRTP with keys by SDES (RFC 4568) or by DTLS and ICE
// (RFC 5763, 8839), as browsers want it. It is pure: text and values in, text and values out, no
// clock, no socket, no state. What peers write is read tolerantly; what we write
// is strict.
package sdp

import (
	"net/netip"
	"strconv"
	"time"
)

// Local is what we can do and want in one session. A value; the functions of
// this package change nothing in it.
type Local struct {
	// Addr and Port are where we receive RTP, as peers see it.
	Addr netip.Addr
	Port uint16
	// RTCPPort is where we receive RTCP when it has a port of its own; 0 is the one
	// above Port.
	RTCPPort uint16
	// RTCPMux offers to share one port (RFC 5761). An answer shares it whenever the
	// offer wants that.
	RTCPMux bool
	// Codecs are the audio codecs, the one we like best first.
	Codecs []Codec
	// Events says that telephone-event (RFC 4733) is offered and accepted.
	Events bool
	// PacketTime is the audio time per packet that we wish to receive; 0 is
	// 20 ms.
	PacketTime time.Duration
	// Hold offers and answers that we hear nothing: sendonly in place of sendrecv,
	// inactive in place of recvonly (RFC 3264 section 8.4).
	Hold bool
	// SRTP is the policy for protection.
	SRTP Policy
	// Crypto are the suites that we can do with keys in descriptions, the one we
	// offer first first, each with the key that we would send with.
	Crypto []Crypto
	// Fingerprint is that of our certificate; without one there is no DTLS.
	Fingerprint Fingerprint
	// DTLSClient says that we began the handshake that is under way or done: an
	// offer that leaves the role to us is answered so again (RFC 8842 section 5.3).
	DTLSClient bool
	// ICE are our credentials, used with DTLS.
	ICE ICE
	// Offer is how the stream of an offer of ours is protected.
	Offer Protection
	// Mid identifies the stream in offers of ours with DTLS; empty is "0".
	Mid string
	// SessionID and Version make the o= line. The id stays the same for all of a
	// dialog; the caller raises Version by one when Changed says that the text
	// is another one (RFC 3264 section 8).
	SessionID, Version uint64
	// User is the username of the o= line; empty is "parley".
	User string
}

// Codec is one audio encoding of an rtpmap attribute.
type Codec struct {
	// Name is the encoding name; compared without case.
	Name string
	// PayloadType is the number in the m= line.
	PayloadType uint8
	// ClockRate is the RTP clock in Hz.
	ClockRate int
	// Channels is the channel count; 0 and 1 are both mono.
	Channels int
	// Params is the fmtp attribute without the payload type.
	Params string
}

// Media is what offer and answer agreed on, from our side.
type Media struct {
	// Index is the place of the m= line used, from 0.
	Index int
	// Peer is where to send RTP. Not valid when the peer wrote the unspecified
	// address (the hold of RFC 2543) or a host name.
	Peer netip.AddrPort
	// Named is the address of the peer's c= line, also with ICE, where it is no more
	// than a hint.
	Named netip.Addr
	// Host is the peer's connection address when that is a host name; resolve it
	// or wait for the first packet.
	Host string
	// Codec is the audio codec with the payload type that we send: the peer's.
	// Its Params are the peer's fmtp.
	Codec Codec
	// RecvPT is the payload type that the peer sends to us; Codec.PayloadType
	// should be tolerated too.
	RecvPT uint8
	// Events says that telephone-event was agreed, SendEventPT and RecvEventPT
	// with which payload types, EventClock with which clock in Hz.
	Events                   bool
	SendEventPT, RecvEventPT uint8
	EventClock               int
	// OtherEventPT is a telephone-event of another clock in the offer, theirs or ours;
	// 0: there is none. Some press on it whatever was answered.
	OtherEventPT uint8
	// Send and Recv are our direction.
	Send, Recv bool
	// Held says that the peer put us on hold: sendonly, inactive or 0.0.0.0.
	Held bool
	// PacketTime is what the peer wishes to receive, 0 when it said nothing, and
	// MaxPacketTime the most it takes.
	PacketTime, MaxPacketTime time.Duration
	// RTCPMux says that RTCP shares the RTP port; RTCP is where to send it.
	RTCPMux bool
	RTCP    netip.AddrPort
	// VoIPMetrics says that the peer wants such reports (RFC 3611 section 5).
	VoIPMetrics bool
	// Protection is how the stream is protected. SDES is set for BySDES, DTLS for
	// ByDTLS.
	Protection Protection
	SDES       *SDES
	DTLS       *DTLS
	// ICE are the peer's credentials, nil when there is no ICE. Peer is not valid
	// with it.
	ICE *ICE
	// Mid is the stream's identification.
	Mid string
}

// Refusal is the error of Answer and Accept: nothing fits, and why.
type Refusal struct {
	// Code is the SIP status to refuse an offer with: 488.
	Code int
	// Warning is the code of a Warning header: 304 for a media type or
	// transport, 305 for formats, 300 and 301 for network and address family
	// (RFC 3261 section 20.43).
	Warning int
	// Text explains it.
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return "sdp: " + r.Text + " (" + strconv.Itoa(r.Warning) + ")" }
