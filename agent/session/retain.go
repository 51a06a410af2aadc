package session

import (
	"context"
	"fmt"
	"time"
)

// batch is how many sessions are removed at once: few enough that a call's event never
// waits long behind them.
const batch = 100

// Forget removes everything that is stored of a user in any app: sessions, events and
// state. It is done in batches; when it fails half-way, calling it again does the rest.
// Sessions that calls are writing to go too, and what they append later is refused with
// ErrNotFound.
func (s *Store) Forget(ctx context.Context, userID string) (Removed, error) {
	if userID == "" {
		return Removed{}, fmt.Errorf("%w: no user id", ErrInvalid)
	}
	if err := checkText("user id", userID); err != nil {
		return Removed{}, err
	}
	return inBatches(ctx, func() (Removed, bool, error) { return s.backend.Forget(ctx, userID, batch) })
}

// Retention says how long things are kept. Zero or less: for ever.
type Retention struct {
	// Sessions is how long a session stays after its last change.
	Sessions time.Duration
	// Users is how long "user:" state stays after its last change when the user has no
	// session left.
	Users time.Duration
}

// Sweep removes what is older than r allows, in batches.
func (s *Store) Sweep(ctx context.Context, r Retention) (Removed, error) {
	var c Cutoff
	at := now(ctx, s.clock)
	if r.Sessions > 0 {
		c.Sessions = at.Add(-r.Sessions)
	}
	if r.Users > 0 {
		c.Users = at.Add(-r.Users)
	}
	if c == (Cutoff{}) {
		return Removed{}, nil
	}
	return inBatches(ctx, func() (Removed, bool, error) { return s.backend.Expire(ctx, c, batch) })
}

// KeepSwept calls Sweep now and then once per interval, a minute at least, until ctx is
// done. report, when not nil, gets what each did.
func (s *Store) KeepSwept(ctx context.Context, interval time.Duration, r Retention, report func(Removed, error)) {
	ticker := time.NewTicker(max(interval, time.Minute))
	defer ticker.Stop()
	for {
		removed, err := s.Sweep(ctx, r)
		if ctx.Err() != nil {
			return
		}
		if report != nil {
			report(removed, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// inBatches calls remove until nothing is left to remove.
func inBatches(ctx context.Context, remove func() (Removed, bool, error)) (total Removed, err error) {
	for {
		if ctx.Err() != nil {
			return total, context.Cause(ctx)
		}
		r, more, err := remove()
		total.add(r)
		if err != nil || !more {
			return total, err
		}
	}
}
