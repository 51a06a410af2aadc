package live

import "time"

const (
	// patience bounds how long a model may be at a reply before that counts as silence.
	patience = 30 * time.Second
	// goodbyeStart is how long a goodbye may take to begin, goodbyeLimit all of it.
	goodbyeStart = 10 * time.Second
	goodbyeLimit = time.Minute
	// silenceLook is how often it is looked while something is to be waited for.
	silenceLook = 250 * time.Millisecond
	// reprieve is what a sound without words gains a session that was being left.
	reprieve = 30 * time.Second
)

// silence is how long nobody has spoken, guarded by Session.mu.
type silence struct {
	since     time.Time // the last word, of anybody
	busySince time.Time // when the model was asked last
	voiced    bool      // the caller's voice is on, as the service thinks
	reminded  bool      // in this silence
	leaving   time.Time // when the goodbye was asked for; zero: it was not
	spoke     bool      // the goodbye has been heard of
	notBefore time.Time // when it may be left again
}

func (q *silence) begin(now time.Time) {
	if q.since.IsZero() {
		q.since = now
	}
}

// spoken notes words of the caller, or that something is done for him.
func (q *silence) spoken(now time.Time) {
	*q = silence{since: now, busySince: q.busySince, voiced: q.voiced}
}

// voice notes a sound of the caller. It may be a noise: without words it ends no
// silence, but a goodbye.
func (q *silence) voice(now time.Time, words bool) {
	if !words {
		q.spoken(now)
		return
	}
	if !q.leaving.IsZero() {
		q.leaving, q.spoke = time.Time{}, false
		q.notBefore = now.Add(reprieve)
	}
}

// CallerSpoke tells that the caller speaks, for hosts that hear it before the service
// does.
func (s *Session) CallerSpoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		s.run.silence.spoken(time.Now())
	}
}

// Playing tells whether the agent's speech is being heard, for hosts with
// Options.HostHears: true with the first packet of a reply, false after the last.
func (s *Session) Playing(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.run; r != nil {
		if r.speech.playing && !on {
			r.heardUntil(time.Now())
		}
		r.speech.playing = on
	}
}

// heardUntil notes that the agent was heard until at. A reminder breaks no silence.
func (r *run) heardUntil(at time.Time) {
	if !r.silence.reminded && r.silence.leaving.IsZero() && at.After(r.silence.since) {
		r.silence.since = at
	}
}

// watchSilence sets the timer to what is due next; mu is held.
func (s *Session) watchSilence(r *run) {
	if r.ended || r.idle.ReminderAfter == 0 && r.idle.DeactivateAfter == 0 {
		return
	}
	wait := time.Until(s.silenceDue(r))
	if r.watch == nil {
		r.watch = time.AfterFunc(wait, func() { s.silent(r) })
	} else {
		r.watch.Reset(wait)
	}
}

// silenceDue is when the silence is to be looked at next; mu is held.
func (s *Session) silenceDue(r *run) time.Time {
	q, now := &r.silence, time.Now()
	if !q.leaving.IsZero() {
		return now.Add(silenceLook)
	}
	var due time.Time
	if d := r.idle.DeactivateAfter; d > 0 {
		due = q.since.Add(d)
		if due.Before(q.notBefore) {
			due = q.notBefore
		}
	}
	if d := r.idle.ReminderAfter; d > 0 && !q.reminded {
		due = q.since.Add(d)
	}
	if due.IsZero() { // reminded, and nothing else to come: words begin a new silence
		due = now.Add(r.idle.ReminderAfter)
	}
	if !due.After(now) {
		due = now.Add(silenceLook) // it is due, and something is in its way
	}
	return due
}

// silent is called when something may be due.
func (s *Session) silent(r *run) {
	s.mu.Lock()
	if r.ended {
		s.mu.Unlock()
		return
	}
	now := time.Now()
	q := &r.silence
	if !s.options.HostHears {
		r.heardUntil(minTime(r.speech.until, now))
	}
	busy := s.state == StateRecovering || s.state == StateSpeaking || s.plays(r, now) || len(r.calls) > 0 ||
		s.state == StateProcessing && now.Sub(q.busySince) < patience
	var act func()
	switch {
	case !q.leaving.IsZero():
		q.spoke = q.spoke || s.state == StateSpeaking || s.plays(r, now)
		begun := q.spoke || now.Sub(q.leaving) >= goodbyeStart
		if begun && !busy || now.Sub(q.leaving) >= goodbyeLimit {
			act = func() { r.cancel(ErrIdle) }
		}
	case busy:
	case r.idle.DeactivateAfter > 0 && now.Sub(q.since) >= r.idle.DeactivateAfter && !now.Before(q.notBefore):
		if r.idle.Goodbye == "" {
			act = func() { r.cancel(ErrIdle) }
			break
		}
		q.leaving, q.spoke = now, false
		act = func() { s.say(r.idle.Goodbye) }
	case r.idle.ReminderAfter > 0 && !q.reminded && now.Sub(q.since) >= r.idle.ReminderAfter:
		q.reminded = true
		act = func() { s.remind(r) }
	}
	s.watchSilence(r)
	s.mu.Unlock()
	if act != nil {
		act()
	}
}

// remind reminds the caller.
func (s *Session) remind(r *run) {
	if f := s.cb.OnIdleReminder; f != nil {
		s.later(f)
		s.tell()
	}
	if r.idle.Reminder != "" {
		s.say(r.idle.Reminder)
	}
}

// say has the model say something of the session's own.
func (s *Session) say(instructions string) {
	if err := s.Instruct(instructions); err != nil {
		s.Report(err)
	}
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
