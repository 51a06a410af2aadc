package rtp

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// counters are Stats while the wheel counts: it alone writes, anybody reads.
type counters struct {
	received, receivedBytes, sent, sentBytes    atomic.Uint64
	lost, duplicate, reordered                  atomic.Uint64
	strange, probation                          atomic.Uint64
	malformed, wrongPT, empty, muted            atomic.Uint64
	rtcp, stun, stale, sendErrors, skippedSlots atomic.Uint64
	resyncs, dtls                               atomic.Uint64
	forged, replayed, unkeyed                   atomic.Uint64
	checks, checksRefused, consentLost          atomic.Uint64
	jitter, lastReceived, maxGap                atomic.Int64
	ssrc, peerSSRC                              atomic.Uint32
	latched                                     atomic.Bool
	remote                                      atomic.Pointer[netip.AddrPort]
	reports                                     reportCounters
}

func (c *counters) snapshot() Stats {
	st := Stats{
		Received: c.received.Load(), ReceivedBytes: c.receivedBytes.Load(),
		Sent: c.sent.Load(), SentBytes: c.sentBytes.Load(),
		Lost: c.lost.Load(), Duplicate: c.duplicate.Load(), Reordered: c.reordered.Load(),
		Strange: c.strange.Load(), Probation: c.probation.Load(),
		Malformed: c.malformed.Load(), WrongPT: c.wrongPT.Load(), Empty: c.empty.Load(), Muted: c.muted.Load(),
		RTCP: c.rtcp.Load(), STUN: c.stun.Load(), Stale: c.stale.Load(),
		SendErrors: c.sendErrors.Load(), SkippedSlots: c.skippedSlots.Load(), Resyncs: c.resyncs.Load(),
		Jitter:       time.Duration(c.jitter.Load()),
		LastReceived: time.Duration(c.lastReceived.Load()), MaxGap: time.Duration(c.maxGap.Load()),
		DTLS: c.dtls.Load(), Forged: c.forged.Load(), Replayed: c.replayed.Load(), Unkeyed: c.unkeyed.Load(),
		Checks: c.checks.Load(), ChecksRefused: c.checksRefused.Load(), ConsentLost: c.consentLost.Load(),
		SSRC: c.ssrc.Load(), PeerSSRC: c.peerSSRC.Load(), Latched: c.latched.Load(),
		Reports: c.snapshotReports(),
	}
	if r := c.remote.Load(); r != nil {
		st.Remote = *r
	}
	return st
}
