package sip

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Info sends an INFO with a body in the dialog, as for a key (RFC 2976), and waits
// for the answer. The error is a *RejectError when the peer refused it, ErrGone when
// it does not know the call any more, the cause of Context when the call is over, or
// that of the transport or of ctx.
func (d *Dialog) Info(ctx context.Context, contentType string, body []byte) error {
	if err := context.Cause(d.ctx); err != nil {
		return err
	}
	if kind, _ := mediaType(contentType); !strings.Contains(kind, "/") || hasControls(contentType) {
		return fmt.Errorf("sip: %q is no content type", clean(contentType, 64))
	}
	m, err := d.ask(ctx, request{method: "INFO", fields: []field{{"Content-Type", contentType}}, body: body})
	if err != nil {
		return err
	}
	return d.judge(m)
}

// Digit sends one DTMF digit, 0-9 * # A-D, as an INFO of application/dtmf-relay: for
// peers that take none in RTP. It returns as Info does; the next digit may follow.
func (d *Dialog) Digit(ctx context.Context, digit byte, length time.Duration) error {
	if strings.IndexByte("0123456789*#ABCD", digit) < 0 {
		return fmt.Errorf("sip: %q is no DTMF digit", digit)
	}
	body := "Signal=" + string(rune(digit)) + "\r\nDuration=" + strconv.FormatInt(length.Milliseconds(), 10) + "\r\n"
	return d.Info(ctx, "application/dtmf-relay", []byte(body))
}
