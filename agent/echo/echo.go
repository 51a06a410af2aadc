// Package echo is an agent that says back what it hears. It needs no keys and next
// to no processor time, so SIPp scenarios and load tests measure the gateway and
// nothing else. A call costs no goroutine besides the one that calls Run.
package echo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"parley/agent"
)

// frameTime is the length of the frames given to Hear.
const frameTime = 20 * time.Millisecond

// Config says how long the echo waits.
type Config struct {
	// Delay is how much sound is held back before the first frame is said, and
	// again after a gap, so that the jitter of the line does not tear the echo.
	// Whole frames of 20 ms; it is rounded down, and at least one frame.
	Delay time.Duration
	// Buffer is how much sound waits for the mouth at most. When more comes the
	// oldest is dropped.
	Buffer time.Duration
}

// DefaultConfig is 40 ms of delay and 200 ms of buffer.
func DefaultConfig() Config {
	return Config{Delay: 40 * time.Millisecond, Buffer: 200 * time.Millisecond}
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	if c.Delay < 0 || c.Delay > time.Second {
		return fmt.Errorf("echo: delay %v is not between 0 and 1s", c.Delay)
	}
	if c.Buffer < c.Delay+2*frameTime || c.Buffer > 10*time.Second {
		return fmt.Errorf("echo: buffer %v is not between delay + 40ms and 10s", c.Buffer)
	}
	return nil
}

// New makes an echo for calls.
func New(cfg Config) (agent.Opener, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return opener{cfg}, nil
}

type opener struct{ cfg Config }

// Format is the call's own rate both ways: an echo needs no resampling.
func (opener) Format() agent.Format { return agent.Format{} }

// Open makes the session of one call.
func (o opener) Open(_ context.Context, c agent.Call) (agent.Session, error) {
	if c.Rate <= 0 {
		return nil, fmt.Errorf("echo: the call's rate is %d Hz", c.Rate)
	}
	prime := max(1, int(o.cfg.Delay/frameTime))
	return &Session{
		call:  c,
		prime: prime,
		slack: time.Duration(prime+4) * frameTime,
		queue: newQueue(int(o.cfg.Buffer/frameTime), int(int64(c.Rate)*int64(frameTime)/int64(time.Second))),
	}, nil
}

// Session is the echo of one call.
type Session struct {
	call  agent.Call
	prime int           // frames held back before speech begins
	slack time.Duration // speech that may be queued in the mouth before frames are dropped
	queue *queue
	late  atomic.Uint64
}

// Hear keeps a copy of the frame until Run has said it. It never blocks: when the
// mouth does not keep up, the oldest frame is dropped and counted.
func (s *Session) Hear(pcm []int16) { s.queue.put(pcm) }

// Notice ignores what happens to the call: digits are not echoed, and a hold ends
// by itself.
func (s *Session) Notice(agent.Notice) {}

// Dropped is how many frames were not said back because too many were waiting.
func (s *Session) Dropped() uint64 { return s.queue.dropped.Load() + s.late.Load() }

// Run says back what was heard until ctx is done, and returns its cause.
func (s *Session) Run(ctx context.Context) error {
	var (
		said    time.Duration // end of speech on the Speaker's timeline
		waiting = s.prime     // frames still to be held back
		held    [][]int16
	)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case frame := <-s.queue.full:
			played := s.call.Speaker.Played()
			if played >= said {
				said = played
				if waiting == 0 { // the mouth ran dry: hold back again
					waiting = s.prime
				}
			}
			held = append(held, frame)
			if waiting = max(0, waiting-1); waiting > 0 {
				continue
			}
			for _, f := range held {
				// A burst after a stall would stay in the mouth as delay for the
				// rest of the call.
				if said-played > s.slack {
					s.late.Add(1)
				} else if err := s.call.Speaker.Say(ctx, f); err != nil {
					if ctx.Err() != nil {
						return context.Cause(ctx)
					}
					return fmt.Errorf("echo: %w", err)
				} else {
					said += time.Duration(len(f)) * time.Second / time.Duration(s.call.Rate)
				}
				s.queue.free <- f
			}
			held = held[:0]
		}
	}
}
