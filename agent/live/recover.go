package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// renewLook is how often it is looked for a moment to connect anew in which nobody
	// speaks.
	renewLook = 200 * time.Millisecond
	// renewMargin is how long before the service ends the connection it is given up.
	renewMargin = time.Second
	// steady is how long a connection has to last to count as one. Of those that do not,
	// so many in a row are borne: a service that takes sessions and drops them would be
	// asked without end.
	steady   = 5 * time.Second
	maxBrief = 5
	// longestPause is the longest between two tries to connect.
	longestPause = 5 * time.Second
)

// connected opens the link and says that the model can be talked to.
func (s *Session) connected(r *run) {
	s.mu.Lock()
	r.openLink()
	now := time.Now()
	if d := r.cfg.Recovery.Renew; d > 0 {
		s.renew(r, now.Add(d*4/5), now.Add(d))
	}
	r.silence.begin(now)
	s.mu.Unlock()
	took := s.flush(r, func() { s.listening(r) })
	s.mu.Lock()
	if !took && !r.ended { // lost at once: the goroutine that receives connects anew
		s.listening(r)
		r.broken = true
		r.cut(errBroken)
	}
	s.watchSilence(r)
	s.mu.Unlock()
	s.tell()
}

// listening ends connecting; mu is held.
func (s *Session) listening(r *run) {
	if r.ended {
		return
	}
	s.change(StateListening)
	if len(r.calls) > 0 || r.owes {
		r.owes = false
		s.process(r, time.Now())
	}
}

// goAway plans a new connection; mu is held.
func (s *Session) goAway(r *run, g GoAway, now time.Time) {
	s.renew(r, now, now.Add(max(0, g.TimeLeft-renewMargin)))
}

// renew has the connection made anew as soon as nobody speaks, from a time on, and at
// the latest by another; mu is held.
func (s *Session) renew(r *run, from, by time.Time) {
	if !r.renewBy.IsZero() && r.renewBy.Before(by) {
		return
	}
	r.renewBy = by
	if r.renewal != nil {
		r.renewal.Stop()
	}
	link := r.link
	r.renewal = time.AfterFunc(time.Until(from), func() { s.renewDue(r, link) })
}

// Renew connects anew as soon as nobody speaks, at once when now is set: for hosts that
// see that the service does not answer.
func (s *Session) Renew(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.run; r != nil && s.state.active() && s.state != StateRecovering {
		at := time.Now()
		by := at.Add(30 * time.Second)
		if now {
			by = at
		}
		s.renew(r, at, by)
	}
}

func (s *Session) renewDue(r *run, link context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.ended || r.link != link || r.broken {
		return
	}
	now := time.Now()
	busy := s.state != StateListening || s.plays(r, now) || r.silence.voiced || len(r.calls) > 0
	if left := r.renewBy.Sub(now); busy && left > 0 {
		r.renewal = time.AfterFunc(min(renewLook, left), func() { s.renewDue(r, link) })
		return
	}
	r.broken = true // what is sent from now on waits
	r.cut(errRenew)
}

// recover makes the connection anew after Receive failed, and says whether that went
// well. It runs on the goroutine that receives.
func (s *Session) recover(r *run, err error) bool {
	planned := errors.Is(context.Cause(r.link), errRenew)
	if cause := context.Cause(r.link); !planned && errors.Is(cause, errBroken) {
		err = errBroken
	}
	if !planned {
		err = fmt.Errorf("live: %s: %w", s.provider.Name(), err)
	}
	tries := r.cfg.Recovery.Tries
	if !planned && (!Reconnectable(err) || errors.Is(err, io.EOF)) || tries < 0 {
		s.fails(r, err)
		return false
	}
	s.mu.Lock()
	if r.ended || r.ctx.Err() != nil {
		s.mu.Unlock()
		return false
	}
	if time.Since(r.linked) >= steady {
		r.brief = 0
	}
	if r.brief++; r.brief > maxBrief {
		s.mu.Unlock()
		s.fails(r, fmt.Errorf("live: %s: %w: %d connections in a row did not last", s.provider.Name(), ErrLost, r.brief))
		return false
	}
	s.replyOver(r)
	s.change(StateRecovering)
	r.broken = true
	r.renewBy = time.Time{}
	if r.renewal != nil {
		r.renewal.Stop()
	}
	r.cut(errBroken)
	s.mu.Unlock()
	s.tell()
	if err = s.reconnect(r, tries); err != nil {
		if r.ctx.Err() == nil {
			s.fails(r, fmt.Errorf("live: %s: the connection is not to be had back: %w", s.provider.Name(), err))
		}
		return false
	}
	return true
}

// reconnect tries to connect, within the budget. The old connection goes first:
// services refuse to resume what is in use.
func (s *Session) reconnect(r *run, tries int) error {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.Recovery.Budget)
	defer cancel()
	pause := r.cfg.Recovery.Pause
	var err error
	for try := range tries {
		if try > 0 || r.brief > 1 { // the first that is lost is made anew at once
			select {
			case <-time.After(min(pause<<max(r.brief-2, 0), longestPause)):
			case <-ctx.Done():
				return errors.Join(err, context.Cause(ctx))
			}
			pause = min(2*pause, longestPause)
		}
		if closing := s.closeProvider(time.Second); closing != nil {
			s.Report(closing)
		}
		s.mu.Lock()
		cfg := r.cfg
		cfg.History = r.before()
		s.mu.Unlock()
		if err = s.connect(r, ctx, cfg); err == nil {
			s.mu.Lock()
			r.openLink()
			if d := r.cfg.Recovery.Renew; d > 0 {
				now := time.Now()
				s.renew(r, now.Add(d*4/5), now.Add(d))
			}
			s.mu.Unlock()
			if s.flush(r, func() { s.listening(r) }) {
				return nil
			}
			err = ErrLost
		}
		if r.ctx.Err() != nil || !Reconnectable(err) {
			return err
		}
	}
	return err
}
