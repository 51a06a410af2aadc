package failover

import (
	"errors"
	"time"

	"parley/agent/stt"
	"parley/media/resample"
)

const (
	// lookEvery is how often a call looks whether it can have a preferred recogniser back.
	lookEvery = 2 * time.Second
	// overlap is how much of the silence a recogniser hears that comes back: the caller's
	// voice may have begun without anybody noticing yet.
	overlap = time.Second
)

// preferred is the most preferred recogniser before one, if its cooldown is over, and takes
// it for this call to try: for another cooldown it is nobody else's. -1: there is none.
func (r *Recognizer) preferred(before int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for i := range before {
		if !now.Before(r.down[i]) {
			r.down[i] = now.Add(r.cfg.Cooldown)
			return i
		}
	}
	return -1
}

// quiet says whether nobody waits for what the recogniser hears. The lock is held.
func (s *stream) quiet() bool {
	return s.current != nil && !s.over && !s.kept.begun && len(s.kept.asked) == 0
}

// back has a preferred recogniser hear the call again, between two turns. Until it is open
// the other one goes on. It runs on the goroutine that changes recognisers.
func (s *stream) back() {
	s.mu.Lock()
	old, choice, options, changed := s.current, s.choice, s.options, s.changed
	i := -1
	if s.quiet() {
		i = s.r.preferred(choice)
	}
	if i < 0 {
		s.mu.Unlock()
		return
	}
	s.early = nil
	s.coming = s.turn + 1
	turn := s.coming
	s.mu.Unlock()
	next, err := s.r.openOne(s.life, s.r.choices[i], true, options, func(res stt.Result) { s.heard(turn, i, res) })
	var rate *resample.Resampler
	if err == nil {
		if rate, err = s.r.resampler(i); err != nil {
			err = errors.Join(err, next.Close())
		}
	}
	if err != nil {
		if s.life.Err() == nil && s.r.cfg.OnSwitch != nil {
			s.r.cfg.OnSwitch(s.r.choices[i].Name, s.r.choices[choice].Name, err)
		}
		return
	}
	swapped, lost := s.swap(old, turn, func() { s.install(next, i, rate, changed) })
	if !lost {
		s.r.recovered(i) // also for other calls
	}
	if swapped {
		_ = old.Close() // nobody listens to it any more
	} else {
		_ = next.Close() // nobody needs it
	}
}

// swap installs the recogniser of a turn in place of old, unless the caller began to speak
// since it was asked for, the call ended, or it is lost already.
func (s *stream) swap(old stt.Stream, turn int, install func()) (swapped, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.early != nil {
		return false, true
	}
	if s.current != old || !s.quiet() {
		return false, false
	}
	s.turn = turn
	s.kept.forget(s.kept.end() - int64(overlap.Seconds()*float64(s.kept.rate)))
	install()
	return true, false
}
