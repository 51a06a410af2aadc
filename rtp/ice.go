package rtp

import (
	"net"
	"net/netip"
	"time"

	"github.com/pion/stun/v3"
)

const (
	// consent is how long a peer's address is sent to without a sign that it is
	// wanted there still (RFC 7675 section 5.1).
	consent = 30 * time.Second
	// maxPairs is how many addresses of the peer are remembered at once.
	maxPairs = 8
)

// ICE are the credentials under which a session answers connectivity checks, as an
// agent that has one public address and never checks itself (RFC 8445 section 2.5,
// "lite"). A new value in a Flow is a restart (section 2.4).
type ICE struct {
	// User and Password are ours, PeerUser is the peer's, all as the session
	// descriptions have them.
	User, Password, PeerUser string
}

// lite is the ICE agent of a session. The peer is whom the controlling agent
// nominates; SDP addresses and latching count for nothing beside it.
type lite struct {
	of     *ICE
	name   []byte // USERNAME of the peer's checks
	key    stun.MessageIntegrity
	pairs  [maxPairs]pair
	chosen netip.AddrPort
	lost   bool // consent has run out
}

// pair is an address of the peer that a check came from, and when it last proved
// to be there.
type pair struct {
	from netip.AddrPort
	at   time.Duration
}

// restart takes other credentials. The peer that was chosen stays until the new
// checks choose again.
func (l *lite) restart(to *ICE) {
	l.of = to
	if to != nil {
		l.name, l.key = []byte(to.User+":"+to.PeerUser), stun.NewShortTermIntegrity(to.Password)
	}
}

// find is the entry of an address, nil when it has none that is fresh.
func (l *lite) find(from netip.AddrPort, now time.Duration) *pair {
	for i := range l.pairs {
		if p := &l.pairs[i]; p.from == from && now-p.at < consent {
			return p
		}
	}
	return nil
}

// passed says whether a check with the right credentials came from there.
func (l *lite) passed(from netip.AddrPort, now time.Duration) bool { return l.find(from, now) != nil }

// proved takes note that the peer is at an address. Packets that only the peer can
// have made prove it as a check does: agents of before RFC 7675 send no more checks
// once they are done.
func (l *lite) proved(from netip.AddrPort, now time.Duration) {
	if p := l.find(from, now); p != nil {
		p.at = now
	}
}

// admit adds an address.
func (l *lite) admit(from netip.AddrPort, now time.Duration) {
	oldest := &l.pairs[0]
	for i := range l.pairs {
		p := &l.pairs[i]
		if p.from == from {
			p.at = now
			return
		}
		if p.from != l.chosen && p.at < oldest.at || oldest.from == l.chosen {
			oldest = p
		}
	}
	*oldest = pair{from, now}
}

// destination is the chosen peer while its consent is fresh.
func (l *lite) destination(now time.Duration, c *counters) netip.AddrPort {
	if !l.chosen.IsValid() {
		return netip.AddrPort{}
	}
	if !l.passed(l.chosen, now) {
		if !l.lost {
			l.lost = true
			c.consentLost.Add(1)
		}
		return netip.AddrPort{}
	}
	l.lost = false
	return l.chosen
}

// talkTo is where DTLS goes: the chosen peer, and before there is one the address
// that was heard last.
func (l *lite) talkTo(now time.Duration) netip.AddrPort {
	if l.passed(l.chosen, now) {
		return l.chosen
	}
	var last pair
	for _, p := range l.pairs {
		if p.from.IsValid() && now-p.at < consent && (!last.from.IsValid() || p.at > last.at) {
			last = p
		}
	}
	return last.from
}

// check answers a STUN datagram, if it is a connectivity check with the right
// credentials (RFC 8445 section 7.3). To anything else there is no answer, not even
// that it is wrong: nobody learns from this port that it is one.
func (s *Session) check(b []byte, from netip.AddrPort, now time.Duration) {
	l, m := &s.ice, &s.wheel.request
	if !l.authentic(m, b) {
		s.count.checksRefused.Add(1)
		return
	}
	if m.Type != stun.BindingRequest {
		return // an indication keeps a NAT open and wants no answer
	}
	s.count.checks.Add(1)
	nominated, refusal := read(m)
	reply := &s.wheel.reply
	if !answer(reply, m, from, refusal, l.key) {
		return
	}
	if refusal == nil {
		l.admit(from, now)
		if nominated {
			l.chosen = from
			s.count.latched.Store(true)
			if a := s.association.Load(); a != nil {
				a.begin()
			}
		}
	}
	if !s.sock.send(reply.Raw, from) {
		s.count.sendErrors.Add(1)
	}
}

// authentic reads a datagram into m and says whether it is of somebody who knows
// our password. The user name is looked at first: it costs nothing.
func (l *lite) authentic(m *stun.Message, b []byte) bool {
	m.Raw = append(m.Raw[:0], b...)
	if l.of == nil || m.Decode() != nil {
		return false
	}
	name, err := m.Get(stun.AttrUsername)
	return err == nil && string(name) == string(l.name) &&
		stun.Fingerprint.Check(m) == nil && l.key.Check(m) == nil
}

// read looks at what stands before the MESSAGE-INTEGRITY; what follows it is not
// authentic.
func read(m *stun.Message) (nominated bool, refusal stun.Setter) {
	for _, a := range m.Attributes {
		switch a.Type {
		case stun.AttrMessageIntegrity:
			return nominated, refusal
		case stun.AttrUseCandidate:
			nominated = true
		case stun.AttrICEControlled:
			// Both would wait for the other to choose; we cannot (section 7.3.1.1).
			return false, stun.CodeRoleConflict
		case stun.AttrUsername, stun.AttrPriority, stun.AttrICEControlling:
		default:
			if a.Type.Required() {
				return false, unknownAttribute(a.Type)
			}
		}
	}
	return nominated, refusal
}

// unknownAttribute refuses an attribute that must be understood and is not (RFC 8489
// section 6.3.1).
type unknownAttribute stun.AttrType

// AddTo implements stun.Setter.
func (u unknownAttribute) AddTo(m *stun.Message) error {
	if err := stun.CodeUnknownAttribute.AddTo(m); err != nil {
		return err
	}
	return stun.UnknownAttributes{stun.AttrType(u)}.AddTo(m)
}

// answer builds the answer to a check.
func answer(reply, m *stun.Message, from netip.AddrPort, refusal stun.Setter, key stun.MessageIntegrity) bool {
	reply.Reset()
	kind, what := stun.BindingSuccess, stun.Setter(&stun.XORMappedAddress{IP: net.IP(from.Addr().AsSlice()), Port: int(from.Port())})
	if refusal != nil {
		kind, what = stun.BindingError, refusal
	}
	return reply.Build(stun.NewTransactionIDSetter(m.TransactionID), kind, what, key, stun.Fingerprint) == nil
}
