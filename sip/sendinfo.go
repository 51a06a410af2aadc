package sip

import "context"

// Info sends an INFO with a body in the dialog, as for a key (RFC 2976), and waits
// for the answer. The error is a *RejectError when the peer refused it, ErrGone when
// it does not know the call any more, the cause of Context when the call is over, or
// that of the transport or of ctx.
func (d *Dialog) Info(ctx context.Context, contentType string, body []byte) error {
	if err := context.Cause(d.ctx); err != nil {
		return err
	}
	m, err := d.ask(ctx, request{method: "INFO", fields: []field{{"Content-Type", contentType}}, body: body})
	if err != nil {
		return err
	}
	return d.judge(m)
}
