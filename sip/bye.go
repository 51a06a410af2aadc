package sip

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.uber.org/zap"
)

// Bye ends the call. It waits until the ACK of the 200 came, as RFC 3261 section
// 15 asks (never longer than 64*T1), sends BYE, and returns when the peer answered
// with anything, or with ErrByeTimeout after 64*T1, or with the error of ctx. When
// ctx ends before the ACK came, BYE is sent then, and sent again as usual after
// Bye has returned. It returns nil when the call was over already, but ErrShutdown
// when it was the server's stop that ended it. More calls wait for the first. A call
// that is not answered yet is not ended so: ErrEarly.
func (d *Dialog) Bye(ctx context.Context, reason Reason) error {
	if d.early() {
		return ErrEarly
	}
	d.mu.Lock()
	if d.byeDone != nil {
		d.mu.Unlock()
		select {
		case <-d.byeDone:
			return d.byeErr
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.byeDone = make(chan struct{})
	d.mu.Unlock()
	d.byeErr = d.bye(ctx, reason)
	close(d.byeDone)
	return d.byeErr
}

func (d *Dialog) bye(ctx context.Context, reason Reason) error {
	select {
	case <-d.confirmed:
	case <-d.ctx.Done():
	case <-ctx.Done():
	}
	if !d.end(ErrLocalBye) {
		if context.Cause(d.ctx) == ErrShutdown {
			return ErrShutdown
		}
		return nil
	}
	_, err := d.sendBye(ctx, reason)
	switch {
	case errors.Is(err, ErrTimeout):
		return fmt.Errorf("%w: %w", ErrByeTimeout, err)
	case errors.Is(err, ErrUnauthorized): // it was heard all the same
		return nil
	}
	return err
}

// hangUp ends the call for a reason of this room's. False: it was over.
func (d *Dialog) hangUp(cause error, reason Reason) bool {
	if !d.end(cause) {
		return false
	}
	d.s.spawn(func() {
		if _, err := d.sendBye(context.Background(), reason); err != nil {
			d.s.noise.warn("bye", "sip: BYE lost", append(d.logFields(), zap.Error(err))...)
		}
	})
	return true
}

// sendBye sends a BYE and waits for the answer. Whatever that is, the dialog is
// over.
func (d *Dialog) sendBye(ctx context.Context, reason Reason) (*message, error) {
	return d.ask(ctx, request{method: "BYE", fields: reason.fields()})
}

// fields is the header, if there is a reason.
func (r Reason) fields() []field {
	if v := r.String(); v != "" {
		return []field{{"Reason", v}}
	}
	return nil
}

// String is the header's value; empty for the zero value.
func (r Reason) String() string {
	if !isToken(r.Protocol) {
		return ""
	}
	s := r.Protocol + ";cause=" + strconv.Itoa(r.Cause)
	if r.Text != "" {
		s += ";text=" + quote(r.Text)
	}
	return s
}

// receiveBye ends the call for the peer. A BYE that crosses ours, or comes before
// the ACK or the answer, is fine (RFC 3261 section 15); only who is called must not
// end what it has not answered. d.mu is held.
func (d *Dialog) receiveBye(m *message, tx *serverTx) {
	if d.state == dialogEarly && d.caller {
		d.finish(m, tx, 481, nil, nil)
		return
	}
	invite := d.invite
	if invite != nil {
		d.finish(m, tx, 200, nil, nil)
	}
	// end takes the lock, and cancels contexts that others wait for.
	d.mu.Unlock()
	defer d.mu.Lock()
	if invite != nil {
		if !invite.finish(487, nil, ErrPeerBye) {
			d.end(ErrPeerBye)
		}
		return
	}
	// When the peer has the 200 nothing of the call may be sent any more.
	d.end(ErrPeerBye)
	d.finish(m, tx, 200, nil, nil)
}
