package rtp

import (
	"net/netip"
	"time"
)

// trials is how many unknown sources are watched at the same time. With one, two
// sources that take turns would keep each other from ever latching.
const trials = 4

// settle is how long after a new Peer address the old source is still heard
// before it counts as the source again.
const settle = time.Second

type verdict uint8

const (
	verdictHeard     verdict = iota // of the source: deliver
	verdictProbation                // not believed yet
	verdictStrange                  // somebody else
)

// latch decides whose packets are the call's (RFC 7362; its section 5 says why
// believing anybody is dangerous). In order of trust:
//
//   - the address of the SDP is believed at its first packet, also when another
//     had been: nobody can keep the real peer out by being early;
//   - another port of the same host after `packets` packets in a row;
//   - another host likewise, but not within `wait` of the offer/answer.
//
// Once a source is believed the latch is closed to all but the SDP's address
// until the next offer/answer, or until the source was silent for `relatch`.
type latch struct {
	packets       int
	wait, relatch time.Duration

	peer    netip.AddrPort // of the SDP
	source  netip.AddrPort // believed; invalid for none yet
	locked  bool           // no trials
	moved   bool           // the peer changed and nobody was believed since
	opened  time.Duration  // when the last offer/answer came
	heard   time.Duration  // last packet of source
	watched [trials]trial
}

// trial is a source that wants to be believed.
type trial struct {
	source netip.AddrPort
	ssrc   uint32
	next   uint16
	count  int
	last   time.Duration
}

// arm opens the latch for the outcome of an offer/answer. The source of before is
// heard on until another is believed.
func (l *latch) arm(peer netip.AddrPort, now time.Duration) {
	l.moved = peer != l.peer && peer != l.source
	l.peer, l.opened, l.locked = peer, now, false
	l.watched = [trials]trial{}
}

// admit judges one valid RTP packet. welcome says that its payload type was agreed
// on; others never make a source believed. strict forbids all but the peer.
func (l *latch) admit(from netip.AddrPort, p *Packet, now time.Duration, welcome, strict bool) verdict {
	switch {
	case from == l.peer:
		l.believe(from, now)
	case strict:
		return verdictStrange
	case from == l.source:
		l.heard = now
		// After an offer/answer that changed nothing, the same source going on
		// closes the latch at once; after one that moved the peer, packets still
		// under way must not.
		if !l.moved || now-l.opened > settle {
			l.believe(from, now)
		}
	case l.locked && (l.relatch == 0 || now-l.heard < l.relatch):
		return verdictStrange
	case !welcome || !l.try(from, p, now):
		return verdictProbation
	default:
		l.believe(from, now)
	}
	return verdictHeard
}

// closedTo says that no packet from there could be believed now.
func (l *latch) closedTo(from netip.AddrPort, now time.Duration, strict bool) bool {
	if from == l.peer || from == l.source && !strict {
		return false
	}
	return strict || l.locked && (l.relatch == 0 || now-l.heard < l.relatch)
}

func (l *latch) believe(source netip.AddrPort, now time.Duration) {
	l.source, l.locked, l.moved, l.heard = source, true, false, now
}

// try counts a packet of a source on trial and says whether it is to be believed.
func (l *latch) try(from netip.AddrPort, p *Packet, now time.Duration) bool {
	t := l.trial(from)
	switch {
	case t.source != from || t.ssrc != p.SSRC || p.Sequence != t.next && p.Sequence != t.next-1:
		*t = trial{source: from, ssrc: p.SSRC, next: p.Sequence + 1, count: 1}
	case p.Sequence == t.next:
		t.next++
		t.count++
	}
	t.last = now
	sameHost := from.Addr() == l.peer.Addr()
	waited := sameHost || !l.peer.IsValid() || now-l.opened >= l.wait
	return t.count >= l.packets && waited
}

// trial is the entry of a source, or the one to give to it: a free one, else the
// one silent for the longest.
func (l *latch) trial(from netip.AddrPort) *trial {
	oldest := &l.watched[0]
	for i := range l.watched {
		t := &l.watched[i]
		if t.source == from {
			return t
		}
		if !t.source.IsValid() && oldest.source.IsValid() || t.source.IsValid() == oldest.source.IsValid() && t.last < oldest.last {
			oldest = t
		}
	}
	return oldest
}

// destination is where our packets go; invalid for nowhere. An offer/answer that
// moved the peer is obeyed at once (RFC 3264 section 8.3.1), the source that
// latches afterwards corrects it.
func (l *latch) destination(asymmetric bool) netip.AddrPort {
	if l.source.IsValid() && !asymmetric && !l.moved {
		return l.source
	}
	if l.peer.Port() == 0 || !l.peer.IsValid() || l.peer.Addr().IsUnspecified() {
		return netip.AddrPort{}
	}
	return l.peer
}
