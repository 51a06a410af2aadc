package rtp

import (
	"net/netip"
	"time"
)

// Stats are the figures of a session since Listen. Each is exact; they are not
// read at one instant.
type Stats struct {
	// Received counts packets accepted from the latched source, without
	// duplicates; ReceivedBytes their payload.
	Received, ReceivedBytes uint64
	// Sent counts packets given to the system; SentBytes their payload.
	Sent, SentBytes uint64
	// Lost is expected less received by extended sequence number (RFC 3550
	// section A.3), over all sequence spaces, never negative.
	Lost uint64
	// Duplicate and Reordered count packets that came again, and behind a later.
	Duplicate, Reordered uint64
	// Strange counts packets of sources other than the latched one, Probation
	// those of a source, an SSRC or a sequence space that had yet to be believed.
	// Neither is delivered.
	Strange, Probation uint64
	// Malformed counts datagrams that are no RTP; WrongPT packets whose payload
	// type is not in Flow.Accept; Empty those without payload; Muted those that
	// came while Flow.Recv was false.
	Malformed, WrongPT, Empty, Muted uint64
	// RTCP, STUN and DTLS count datagrams of these protocols on the RTP port; see
	// Reports for what RTCP said, on either port.
	RTCP, STUN, DTLS uint64
	// Forged counts packets that the keys do not open: of somebody else, changed on
	// the way, or without protection. Replayed counts those that came before, Unkeyed
	// those that came before there were keys. None is delivered or changes anything.
	Forged, Replayed, Unkeyed uint64
	// Checks counts the connectivity checks that were answered, ChecksRefused STUN
	// datagrams without the right credentials, which got no answer. ConsentLost
	// counts how often the peer was no more heard of for so long that sending
	// stopped (RFC 7675).
	Checks, ChecksRefused, ConsentLost uint64
	// Stale counts what had come before Join.
	Stale uint64
	// SendErrors counts packets that the system refused, or that were too long.
	SendErrors uint64
	// SkippedSlots counts slots given up after a stall.
	SkippedSlots uint64
	// Resyncs counts changes of SSRC or sequence space after the first packet.
	Resyncs uint64
	// Jitter is the interarrival jitter of RFC 3550 section 6.4.1.
	Jitter time.Duration
	// SSRC is ours, PeerSSRC that of the stream received.
	SSRC, PeerSSRC uint32
	// Remote is where we send now; invalid when nowhere is known.
	Remote netip.AddrPort
	// Latched says whether a source has been believed.
	Latched bool
	// LastReceived is Wheel.Now of the last accepted packet, 0 for none; MaxGap
	// the longest time between two.
	LastReceived, MaxGap time.Duration
	// Reports is what RTCP says.
	Reports Reports
}

// WheelStats are the figures of a wheel since it began.
type WheelStats struct {
	// Turns counts ticks turned, MissedTurns those passed over after a stall.
	Turns, MissedTurns uint64
	// Lateness tells how long after its deadline each turn began.
	Lateness Histogram
	// LongestTurn is the longest time one turn took.
	LongestTurn time.Duration
	// SkippedSlots counts packets that were not sent because of stalls.
	SkippedSlots uint64
	// Faults counts sessions detached because their Handler panicked.
	Faults uint64
	// Sessions is how many are turned now.
	Sessions int
	// PortsInUse and PortsQuarantined are of PortsTotal, which is 0 when the
	// ports are the system's choice.
	PortsInUse, PortsQuarantined, PortsTotal int
}
