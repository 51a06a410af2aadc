package call

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"parley/agent"
	"parley/rtp/dtmf"
)

const (
	// keyLength is how long a key is held, keyPause what lies between two: what
	// detectors that are slow need.
	keyLength = 120 * time.Millisecond
	keyPause  = 80 * time.Millisecond
	// comma is the length of a pause that is asked for.
	comma = 500 * time.Millisecond
	// maxKeys bounds one request.
	maxKeys = 64
)

// keys are the digits that the call presses, one at a time: SendDigits hands the
// wheel a press, the wheel sends its packets and says when it is done.
type keys struct {
	free    chan struct{} // holds a token while somebody presses
	pending atomic.Pointer[press]
	now     *press // the wheel's
	payload [4]byte
}

// press is one key.
type press struct {
	enc  *dtmf.Encoder
	pt   uint8
	done chan struct{} // closed when the last packet was made
}

// newPress makes a key's packets: on the clock of the sound beside it (RFC 4733
// section 2.1), whatever codec that is.
func newPress(now *change, digit byte) *press {
	p := &press{enc: dtmf.NewEncoder(now.line.codec.ClockRate, now.flow.PacketTime), pt: now.accept.events[1], done: make(chan struct{})}
	p.enc.Press(digit, keyLength) // SendDigits has looked at it, and the queue is new
	return p
}

// Event implements rtp.EventSender.
func (t *turned) Event(time.Duration) (payload []byte, payloadType uint8, first bool) {
	k := &t.keys
	if k.now == nil {
		if k.pending.Load() == nil {
			return nil, 0, false
		}
		k.now = k.pending.Swap(nil)
	}
	if t.heldWas || t.silenced() {
		return nil, 0, false
	}
	p := k.now
	payload, first, last, ok := p.enc.Next(k.payload[:0])
	if !ok {
		return nil, 0, false
	}
	if last {
		k.now = nil
		close(p.done)
	}
	return payload, p.pt, first
}

// SendDigits presses keys; see agent.Control.
func (c *Call) SendDigits(ctx context.Context, digits string) error {
	digits = strings.ToUpper(digits)
	if digits == "" || len(digits) > maxKeys || strings.Trim(digits, "0123456789*#ABCD,") != "" {
		return fmt.Errorf("call: digits must be 1 to %d of 0-9, *, #, A-D and ','", maxKeys)
	}
	d, err := c.ready()
	if err != nil {
		return err
	}
	select {
	case c.keys.free <- struct{}{}:
		defer func() { <-c.keys.free }()
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return agent.ErrClosed
	}
	for i := range len(digits) {
		if digits[i] == ',' {
			err = c.wait(ctx, comma)
		} else if err = c.press(ctx, d, digits[i]); err == nil && i+1 < len(digits) {
			err = c.wait(ctx, keyPause)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// press sends one key.
func (c *Call) press(ctx context.Context, d *side, digit byte) error {
	d.mu.Lock()
	now := d.nego.now
	d.mu.Unlock()
	if now == nil || now.held || !now.flow.Send {
		return fmt.Errorf("%w: on hold", ErrState)
	}
	if !now.accept.hasEvt {
		return c.pressByInfo(ctx, d, digit)
	}
	p := newPress(now, digit)
	c.keys.pending.Store(p)
	select {
	case <-p.done:
		return nil
	case <-c.ctx.Done():
		return agent.ErrClosed
	case <-ctx.Done():
		c.keys.pending.CompareAndSwap(p, nil) // one that has begun is sent to its end
		return ctx.Err()
	}
}

// pressByInfo sends one key to a peer that knows no telephone-event.
func (c *Call) pressByInfo(ctx context.Context, d *side, digit byte) error {
	body := fmt.Sprintf("Signal=%c\r\nDuration=%d\r\n", digit, keyLength.Milliseconds())
	err := d.dialog.Info(ctx, "application/dtmf-relay", []byte(body))
	if err != nil && c.ctx.Err() != nil {
		return agent.ErrClosed
	}
	if err != nil {
		return errors.Join(ErrNotSupported, err)
	}
	return nil
}

// wait waits while the call is up.
func (c *Call) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return agent.ErrClosed
	}
}
