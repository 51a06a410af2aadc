package live

import (
	"errors"
	"fmt"
	"time"
)

// IdleConfig says what becomes of a session in which nobody speaks. It is counted from
// the last packet of the agent's last reply, or from the caller's last word. Audio in
// which nobody speaks does not count, and neither does time in which a tool runs.
type IdleConfig struct {
	// ReminderAfter is when the caller is reminded, once per silence. 0: never.
	ReminderAfter time.Duration
	// DeactivateAfter is when the session ends. 0: never.
	DeactivateAfter time.Duration
	// Reminder is what the model is told to say then; empty: only the callback
	// OnIdleReminder is called.
	Reminder string
	// Goodbye is what the model is told to say before the session ends. It is spoken to
	// its end; a caller who speaks meanwhile keeps the session. Empty: it ends at once.
	Goodbye string
}

// DefaultIdle is a reminder after 5 minutes and the end after 15.
func DefaultIdle() IdleConfig {
	return IdleConfig{ReminderAfter: 5 * time.Minute, DeactivateAfter: 15 * time.Minute}
}

// Recovery is how a Session connects anew. The zero value tries once.
type Recovery struct {
	// Tries is how often it tries to connect; 0: once. Negative: never.
	Tries int
	// Budget bounds all tries together; 0: 15 s.
	Budget time.Duration
	// Pause is between two tries and doubles each time; 0: 250 ms.
	Pause time.Duration
	// Renew connects anew so long after the connection was made, before the service's
	// own limit ends it; 0: only when the service asks for it (GoAway) or is gone.
	Renew time.Duration
	// Keep is how much of the caller's audio is kept meanwhile, the newest; 0: 10 s.
	Keep time.Duration
}

// withDefaults fills in what is zero.
func (r Recovery) withDefaults() Recovery {
	or := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if r.Tries == 0 {
		r.Tries = 1
	}
	or(&r.Budget, 15*time.Second)
	or(&r.Pause, 250*time.Millisecond)
	or(&r.Keep, 10*time.Second)
	return r
}

// Validate says all that is wrong with c. A Session refuses to Start with it.
func (c LiveConfig) Validate() error {
	var errs []error
	switch c.Wire {
	case "", PCM16, PCMU, PCMA:
	default:
		errs = append(errs, fmt.Errorf("live: wire %q is none of pcm16, pcmu, pcma", c.Wire))
	}
	r := c.Recovery
	if r.Budget < 0 || r.Pause < 0 || r.Renew < 0 || r.Keep < 0 {
		errs = append(errs, errors.New("live: a time of the recovery is negative"))
	}
	if r.Renew > 0 && r.Renew < 10*time.Second {
		errs = append(errs, fmt.Errorf("live: renewing every %v leaves no time for a conversation: at least 10s", r.Renew))
	}
	if c.Temperature != nil && (*c.Temperature < 0 || *c.Temperature > 2) {
		errs = append(errs, fmt.Errorf("live: temperature %v is not between 0 and 2", *c.Temperature))
	}
	return errors.Join(errs...)
}

// Validate says all that is wrong with c.
func (c IdleConfig) Validate() error {
	if c.ReminderAfter < 0 || c.DeactivateAfter < 0 {
		return errors.New("live: idle times may not be negative")
	}
	if c.DeactivateAfter > 0 && c.ReminderAfter >= c.DeactivateAfter {
		return fmt.Errorf("live: a reminder after %v comes too late, the session ends after %v", c.ReminderAfter, c.DeactivateAfter)
	}
	return nil
}
