package sip

import (
	"errors"
	"strings"
	"time"
)

// SessionTimer is how sessions are kept from lasting for ever when the peer is
// gone (RFC 4028).
type SessionTimer struct {
	// Expires is the interval to ask for in calls of ours, and in calls that come
	// in and leave it open. 0 asks for none; what peers ask for is granted all the
	// same.
	Expires time.Duration
	// Min is the shortest interval that is taken. A shorter one is answered 422.
	Min time.Duration
}

// session is an agreed session timer; the zero value is none.
type session struct {
	interval time.Duration
	min      time.Duration
	ours     bool // we refresh
}

// sessionOffer is what a request of ours asks for.
type sessionOffer struct {
	expires, min time.Duration
	refresher    string // "uac" in a request that refreshes
}

func (t SessionTimer) offer() sessionOffer { return sessionOffer{expires: t.Expires, min: t.Min} }

// fields are the headers of a request that supports more extensions besides. Where
// we ask for no interval the peer may still set one.
func (o *sessionOffer) fields(more ...string) []field {
	supported := field{"Supported", strings.Join(append(more, "timer"), ", ")}
	if o.expires == 0 {
		return []field{supported}
	}
	v := seconds(o.expires)
	if o.refresher != "" {
		v += ";refresher=" + o.refresher
	}
	return []field{supported, {"Session-Expires", v}, {"Min-SE", seconds(o.min)}}
}

// raise takes a 422: the interval was too short for somebody on the way (section
// 7.3). False: it is not worth another try.
func (o *sessionOffer) raise(m *message) bool {
	least := headerSeconds(m.get("min-se"))
	if least <= o.expires || least > 24*time.Hour {
		return false
	}
	o.expires, o.min = least, least
	return true
}

// accepted reads the 2xx to a request of ours. Without the header there is no
// timer.
func (o *sessionOffer) accepted(m *message) session {
	interval, refresher := sessionExpires(m)
	return session{interval: interval, min: o.min, ours: refresher != "uas"}
}

// sessionExpires reads the header; 0 when there is none.
func sessionExpires(m *message) (interval time.Duration, refresher string) {
	v := m.get("session-expires")
	_, params, _ := strings.Cut(v, ";")
	return headerSeconds(v), strings.ToLower(parseParams(params)["refresher"])
}

// grant decides about the session timer of a request of the peer's (section 9).
// fields go into the 2xx.
func (t SessionTimer) grant(m *message) (granted session, fields []field, rej *refusal) {
	interval, refresher := sessionExpires(m)
	supported := m.supports("timer")
	least := max(headerSeconds(m.get("min-se")), t.Min)
	switch {
	case interval > 0 && interval < t.Min && supported:
		rej = refuse(422, "session_timer", "Sessions last %v at least", t.Min)
		rej.fields = []field{{"Min-SE", seconds(t.Min)}}
		return session{}, nil, rej
	case interval > 0:
		interval = max(interval, t.Min)
		if t.Expires > 0 {
			interval = min(interval, max(t.Expires, least))
		}
	case supported && t.Expires > 0:
		interval, refresher = max(t.Expires, least), ""
	default:
		return session{}, nil, nil
	}
	if refresher != "uas" && refresher != "uac" {
		refresher = "uac"
	}
	if !supported {
		refresher = "uas" // a proxy asked; the caller knows nothing of it
	}
	fields = []field{{"Session-Expires", seconds(interval) + ";refresher=" + refresher}}
	if supported {
		fields = append(fields, field{"Require", "timer"})
	}
	return session{interval: interval, min: least, ours: refresher == "uas"}, fields, nil
}

// startTimer begins a session anew: whoever refreshes does it at half of the
// interval, and the other waits until shortly before the end (section 10). d.mu is
// held.
func (d *Dialog) startTimer(s session) {
	if d.clock != nil {
		d.clock.Stop()
	}
	d.session, d.clock = s, nil
	switch {
	case s.interval == 0 || d.state == dialogOver:
	case s.ours:
		d.clock = time.AfterFunc(s.interval/2, func() { d.s.spawn(d.refreshSession) })
	default:
		d.clock = time.AfterFunc(s.left(), d.expire)
	}
}

// left is the time from a refresh until the call is ended.
func (s session) left() time.Duration { return s.interval - min(32*time.Second, s.interval/3) }

func (d *Dialog) expire() {
	if d.s.stopped() {
		return
	}
	if d.hangUp(ErrExpired, Reason{Protocol: "SIP", Cause: 408, Text: "Session timer expired"}) {
		d.s.log.Warn("sip: session not refreshed", d.logFields()...)
	}
}

// timerOffer asks for the session that there is, or, in a call without, for what
// the configuration says.
func (d *Dialog) timerOffer() sessionOffer {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.s.cfg.Timer.offer()
	if d.session.interval > 0 {
		o.expires, o.min = d.session.interval, max(d.session.min, o.min)
		o.refresher = "uas"
		if d.session.ours {
			o.refresher = "uac"
		}
	}
	return o
}

// refreshSession refreshes as the side whose task it is: by UPDATE without an
// offer, or by a re-INVITE with the description that is in force. Without an
// answer the call is over (section 10); a refusal is tried again until the end of
// the interval.
func (d *Dialog) refreshSession() {
	d.mu.Lock()
	s, local := d.session, d.local
	d.mu.Unlock()
	end := time.Now().Add(s.left() - s.interval/2)
	for {
		d.mu.Lock()
		updates := d.updates
		d.mu.Unlock()
		var err error
		if updates {
			err = d.refreshByUpdate()
		} else {
			_, err = d.negotiate(d.ctx, local)
		}
		var rej *RejectError
		switch {
		case err == nil, d.ctx.Err() != nil, errors.Is(err, ErrShutdown):
			return
		case errors.As(err, &rej) && (rej.Code == 405 || rej.Code == 501) && updates:
			d.mu.Lock()
			d.updates = false
			d.mu.Unlock()
			continue
		case errors.Is(err, ErrTimeout) || errors.Is(err, ErrTransport) || time.Now().After(end):
			d.expire()
			return
		}
		if d.pause(d.ctx, s.interval/16) != nil {
			return
		}
	}
}

func (d *Dialog) refreshByUpdate() error {
	offer := d.timerOffer()
	for {
		m, err := d.ask(d.ctx, request{method: "UPDATE", fields: append([]field{{"Contact", d.contact}}, offer.fields()...)})
		if err != nil {
			return err
		}
		if m.code == 422 && offer.raise(m) {
			continue
		}
		if err := d.judge(m); err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.refreshTarget(m)
		d.startTimer(offer.accepted(m))
		return nil
	}
}
