package phone

import (
	"context"
	"time"
)

// lookEvery is how often the waits below look at what arrived.
const lookEvery = 4 * time.Millisecond

// Pause returns after d, or earlier with ErrEnded when the call is over.
func (c *Call) Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.ended:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WaitAgentSpeaking returns in the middle of a sound of the agent's, heard from now
// on, when the agent has been speaking for at least d, pauses up to 700 ms included.
func (c *Call) WaitAgentSpeaking(ctx context.Context, d time.Duration) error {
	began := c.phone.clock.now()
	return c.until(ctx, func(now time.Duration) bool {
		speaking, silent, ever := c.log.speech(now)
		return ever && silent <= 2*packetTime && now-silent >= began && speaking >= d
	})
}

// WaitAgentSilent returns when nothing louder than audio.Loud was heard for d.
func (c *Call) WaitAgentSilent(ctx context.Context, d time.Duration) error {
	return c.until(ctx, func(now time.Duration) bool {
		_, silent, _ := c.log.speech(now)
		return silent >= d
	})
}

func (c *Call) until(ctx context.Context, met func(now time.Duration) bool) error {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		if met(c.phone.clock.now()) {
			return nil
		}
		select {
		case <-t.C:
		case <-c.ended:
			return ErrEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
