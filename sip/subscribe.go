package sip

import (
	"strconv"
	"strings"
	"time"
)

// The states of a subscription of ours, which a REFER makes and which says how it
// goes on (RFC 6665 section 4.1.2, RFC 3515 section 2.4.4).
//
//	     REFER sent
//	         │
//	         v            timer N: nothing came in 64*T1
//	┌── subNotifyWait ──────────────────────────┐
//	│        │ NOTIFY pending, active           │
//	│        v              the time is over    v
//	│   subActive ──────────────────────> subTerminated
//	│        │ NOTIFY terminated                ^
//	└────────┴──────────────────────────────────┘
type subState int

const (
	subNotifyWait subState = iota
	subActive
	subTerminated
)

// maxSubscription bounds how long a subscription is believed in without a NOTIFY,
// whatever the peer granted.
const maxSubscription = 5 * time.Minute

// subscription is what we hear about one REFER of ours. Its fields are guarded by
// the lock of the dialog.
type subscription struct {
	d     *Dialog
	cseqs []uint32 // of the REFER and its repetitions: its id is one of them
	state subState
	open  bool      // somebody waits for the outcome
	until time.Time // when an unfinished one is given up
	wake  chan struct{}
	notes []note // not yet taken
}

// note is what one NOTIFY says.
type note struct {
	code   int    // of the sipfrag; 0 without one
	reason string // phrase of it
	over   bool   // no more will come
	why    string // the reason parameter of Subscription-State
	life   time.Duration
}

// subscribe makes the subscription of a REFER that is about to be sent: a NOTIFY may
// overtake the answer to it.
func (d *Dialog) subscribe() *subscription {
	d.mu.Lock()
	defer d.mu.Unlock()
	sub := &subscription{d: d, open: true, wake: make(chan struct{}, 1)}
	sub.last(0)
	d.referred = true
	d.subs = append(d.subs, sub)
	return sub
}

// nextCSeq numbers the REFER. Its number is the id of the events.
func (s *subscription) nextCSeq() uint32 {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.localCSeq++
	s.cseqs = append(s.cseqs, s.d.localCSeq)
	return s.d.localCSeq
}

// life is how long to wait for the next NOTIFY when the peer granted that much.
func (s *subscription) life(granted time.Duration) time.Duration {
	return min(max(granted, 64*s.d.s.cfg.T1), maxSubscription)
}

// last notes when the subscription is over by itself. d.mu is held.
func (s *subscription) last(granted time.Duration) { s.until = time.Now().Add(s.life(granted)) }

// close is called when nobody waits any more. One that the peer has not ended stays,
// until its time is over, so that what it still says is not taken for another's.
func (s *subscription) close(refused bool) {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	s.open = false
	if refused {
		s.state = subTerminated
	}
	if s.state != subTerminated && !d.s.stopped() {
		time.AfterFunc(time.Until(s.until), d.sweep)
	}
	d.tidy()
}

// sweep is tidy by the clock.
func (d *Dialog) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tidy()
}

// tidy drops the subscriptions that are of no use. d.mu is held.
func (d *Dialog) tidy() {
	kept := d.subs[:0]
	for _, s := range d.subs {
		if s.open || s.state != subTerminated && time.Now().Before(s.until) {
			kept = append(kept, s)
		}
	}
	clear(d.subs[len(kept):])
	d.subs = kept
}

// subscriptionOf finds the one that an event is about. Only the first REFER's events
// may come without an id (RFC 3515 section 2.4.6), so those are of the oldest that
// is not over. d.mu is held.
func (d *Dialog) subscriptionOf(id string) *subscription {
	for _, s := range d.subs {
		if id == "" && s.state != subTerminated {
			return s
		}
		for _, n := range s.cseqs {
			if id == strconv.FormatUint(uint64(n), 10) {
				return s
			}
		}
	}
	return nil
}

// receiveNotify takes a NOTIFY about a REFER of ours. Every one is answered 200, also
// when the outcome is known or the call has ended: who is answered otherwise may
// think that the transfer has failed. d.mu is held.
func (d *Dialog) receiveNotify(m *message, tx *serverTx) {
	event, id := readEvent(m)
	switch {
	case event != "refer":
		d.refuseWith(m, tx, badEvent())
		return
	case !d.referred:
		d.refuse(m, tx, &RejectError{Code: 481, Rule: "notify", Text: "No such subscription"})
		return
	}
	if d.state == dialogUp {
		d.refresh(m)
	}
	d.finish(m, tx, 200, nil, nil)
	if s := d.subscriptionOf(id); s != nil {
		s.take(readNote(m))
	}
}

// take moves the subscription on. d.mu is held.
func (s *subscription) take(n note) {
	if s.state == subTerminated {
		return
	}
	s.state = subActive
	if n.over {
		s.state = subTerminated
	}
	s.last(n.life)
	if !s.open {
		s.d.tidy()
		return
	}
	if len(s.notes) < maxHeard || n.over || n.code >= 200 {
		s.notes = append(s.notes, n)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// heard returns what came.
func (s *subscription) heard() []note {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	all := s.notes
	s.notes = nil
	return all
}

// readEvent reads the Event header. Without one it can only be about a REFER.
func readEvent(m *message) (event, id string) {
	event, params, _ := strings.Cut(m.get("event"), ";")
	event = strings.ToLower(strings.TrimSpace(event))
	if event == "" {
		event = "refer"
	}
	return event, parseParams(params)["id"]
}

// readNote reads a NOTIFY.
func readNote(m *message) note {
	var n note
	state, params, _ := strings.Cut(m.get("subscription-state"), ";")
	p := parseParams(params)
	n.over, n.why = strings.EqualFold(strings.TrimSpace(state), "terminated"), clean(p["reason"], 64)
	n.life = maxSubscription
	if v, ok := p["expires"]; ok {
		n.life = headerSeconds(v)
	}
	n.code, n.reason = readSipfrag(m.body)
	return n
}

// readSipfrag reads the status line that a body of message/sipfrag begins with (RFC
// 3420): with or without more headers, and with or without the end of the line. 0:
// there is none.
func readSipfrag(body []byte) (code int, reason string) {
	line, _, _ := strings.Cut(strings.TrimLeft(string(body[:min(len(body), maxValue)]), "\r\n\t "), "\n")
	version, rest, _ := strings.Cut(strings.TrimRight(line, "\r \t"), " ")
	if !strings.EqualFold(version, "SIP/2.0") {
		return 0, ""
	}
	number, reason, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n < 100 || n > 699 {
		return 0, ""
	}
	return int(n), clean(strings.TrimSpace(reason), 64)
}
