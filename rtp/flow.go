package rtp

import (
	"net/netip"
	"time"
)

// Flow is what an offer/answer agreed for a session: a plain value, replaced
// whole by Session.SetFlow.
type Flow struct {
	// Peer is where the SDP says packets are to go. With port 0 or an unspecified
	// address nothing is sent until a source has latched. Another Peer than before
	// holds only with Rearm.
	Peer netip.AddrPort
	// RTCP is where the SDP says that RTCP goes, when it does not share the RTP port.
	// Without it, and without Mux, no RTCP is sent.
	RTCP netip.AddrPort
	// Mux says that RTCP shares the RTP port (RFC 5761) and goes where RTP goes.
	Mux bool
	// Extended says that the peer wants VoIP metrics (RFC 3611).
	Extended bool
	// Send and Recv are our direction. Without Recv packets are counted but not
	// given to the Handler.
	Send, Recv bool
	// PayloadType is that of the audio we send.
	PayloadType uint8
	// ClockRate is the timestamp clock in Hz, both ways.
	ClockRate int
	// PacketTime is how much audio one packet of ours holds, 10 to 60 ms.
	PacketTime time.Duration
	// Accept is the set of payload types that the Handler wants: audio,
	// telephone-event, comfort noise. Other types are counted and dropped.
	Accept PayloadTypes
	// Rearm opens the latch again; set it after every offer/answer.
	Rearm bool
	// Asymmetric sends to Peer always, whatever source has latched (RFC 4961 is
	// only a recommendation).
	Asymmetric bool
	// Strict takes packets from Peer alone: no latching.
	Strict bool
	// SRTP protects the packets with keys that the session descriptions held, both
	// on the RTP and the RTCP port. nil: no protection, unless DTLS is set.
	SRTP *SRTP
	// DTLS lets the session agree on keys with the peer. Until that is done nothing
	// is sent and nothing is believed.
	DTLS *DTLS
	// ICE makes the session an ICE-lite agent: packets go to the address that the
	// peer nominates, and come from addresses that passed a check, instead of Peer
	// and what latches. It wants Mux.
	ICE *ICE
}

// PayloadTypes is a set of RTP payload types.
type PayloadTypes [2]uint64

// Types is the set of the given payload types; those above 127 are left out.
func Types(types ...uint8) (set PayloadTypes) {
	for _, t := range types {
		if t < 128 {
			set[t>>6] |= 1 << (t & 63)
		}
	}
	return set
}

// Has says whether payload type t is in the set.
func (p PayloadTypes) Has(t uint8) bool { return t < 128 && p[t>>6]&(1<<(t&63)) != 0 }

// Handler is one call, seen from its RTP session. All methods run on the wheel's
// goroutine, shared by all calls: they never block, never allocate and never call
// Session.Close. now is Wheel.Now at the beginning of the turn. A panic detaches
// this session alone (Session.Fault).
type Handler interface {
	// Packet takes a valid packet from the latched source, in order of arrival;
	// duplicates were dropped. p and p.Payload are only valid during the call.
	Packet(p *Packet)
	// Turn is called after each look at the socket: every tick, and while packets
	// come on time shortly before the next is due, every 20 ms at the least.
	Turn(now time.Duration)
	// Slot is called when a packet of ours is due. skipped is how many whole
	// slots just before were lost to a stall; their timestamps have been advanced
	// and the marker of this packet will be set. payload is sent at once with
	// Flow.PayloadType and not kept; nil sends nothing, and timestamps advance.
	// Not called while Flow.Send is false or no destination is known; timestamps
	// advance then too.
	Slot(now time.Duration, skipped int) (payload []byte, marker bool)
}

// EventSender is what a Handler may implement as well to send telephone-events
// (RFC 4733). It is asked first in every slot; while it has an event no audio is
// sent (section 2.5.1.2), so Slot is not called.
type EventSender interface {
	// Event gives the event packet that is due, or a nil payload. first marks
	// the first packet of an event: its timestamp stays for the whole event.
	Event(now time.Duration) (payload []byte, payloadType uint8, first bool)
}

// Packet is one RTP packet as it came, without padding, CSRC list and extension.
type Packet struct {
	PayloadType uint8
	Marker      bool
	Sequence    uint16
	Timestamp   uint32
	SSRC        uint32
	Payload     []byte
	// Arrival is Wheel.Now of the turn that took it from the socket.
	Arrival time.Duration
	// Resync marks the first packet of a new SSRC or sequence space, also the
	// very first one: the reader starts over.
	Resync bool
}
