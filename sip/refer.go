package sip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Refer is a transfer that we ask the peer for (RFC 3515): it is to call somebody
// else, and to tell us how that goes.
type Refer struct {
	// To is who is to be called: a number or user, which is put at the domain of the
	// trunk or of the peer, or a whole sip:, sips: or tel: URI, whose parameters are
	// kept. Empty: who is at the other end of Replaces.
	To string
	// Replaces makes the transfer an attended one: the call of ours with the target
	// that the new call takes the place of (RFC 3891, RFC 5589 section 7).
	Replaces *Dialog
	// ReferredBy is the URI of who wants the transfer (RFC 3892). Empty: our address
	// in this call.
	ReferredBy string
	// Headers are for the INVITE that the peer is to send; they stand in the URI (RFC
	// 3261 section 19.1.1), which must be a sip one then. Only names that begin with
	// "X-" can be: others would change what the call is.
	Headers []Header
	// Progress, when set, is told of every status that the peer reports on the way,
	// 100 to 199. It is called by Dialog.Refer, in order.
	Progress func(code int, reason string)
}

// ReferError is why a transfer did not take place.
type ReferError struct {
	// Code is what the peer answered to the REFER, or what the target answered to the
	// peer; 0 when nobody said.
	Code int
	// Reason is the phrase that belongs to it, or why the peer ended its reports.
	Reason string
	// Err is the cause when it is not simply the code: ErrReferSilent, ErrReferUnknown,
	// ErrTimeout, ErrTransport, ErrUnauthorized, ErrShutdown, ErrEarly, a cause of
	// Dialog.Context, or that of the context.
	Err error
}

// Error implements error.
func (e *ReferError) Error() string {
	s := "sip: transfer failed"
	if e.Code != 0 {
		s += " with " + strconv.Itoa(e.Code)
	}
	if e.Reason != "" {
		s += " " + e.Reason
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *ReferError) Unwrap() error { return e.Err }

var (
	// ErrReferSilent: the peer took the REFER and did not say what became of it, for
	// 64*T1, or for as long as it had promised to.
	ErrReferSilent = errors.New("sip: no word about the transfer")
	// ErrReferUnknown: the peer ended its reports before there was an outcome.
	ErrReferUnknown = errors.New("sip: the outcome of the transfer was not told")
)

// Refer asks the peer to call somebody else and waits for the outcome. nil: the
// target has answered; otherwise the error is a *ReferError. A peer that says it
// will not report (Refer-Sub: false, RFC 4488) has done it by taking the request.
// The call stays up either way: after a success whoever called hangs up, at once,
// because some peers join the two only then. When the peer hangs up before the
// outcome is known, Refer still waits for it (RFC 5057 section 4.1, RFC 5589 section
// 6.1). It is bounded: without a word by 64*T1, after one by what the peer granted,
// five minutes at most. ctx ends the waiting and not the transfer. Several may be
// under way in one call.
func (d *Dialog) Refer(ctx context.Context, r Refer) error {
	fields, err := d.referFields(r)
	if err != nil {
		return &ReferError{Err: err}
	}
	switch {
	case d.ctx.Err() != nil:
		return &ReferError{Err: context.Cause(d.ctx)}
	case d.early():
		return &ReferError{Err: ErrEarly}
	}
	sub := d.subscribe()
	taken := false
	defer func() { sub.close(!taken) }()
	m, err := d.askCounted(ctx, request{method: "REFER", fields: fields}, sub.nextCSeq)
	switch {
	case m == nil:
		taken = true
		for _, n := range sub.heard() { // the answer is lost, but perhaps not what came of it
			if done, err := n.outcome(); done {
				return err
			}
		}
		return &ReferError{Err: err}
	case m.code/100 != 2:
		e := dialError(m, err)
		return &ReferError{Code: e.Code, Reason: e.Phrase, Err: err}
	}
	taken = true
	if strings.EqualFold(m.get("refer-sub"), "false") {
		return nil
	}
	return sub.outcome(ctx, r.Progress)
}

// outcome waits until the peer reports a final status.
func (s *subscription) outcome(ctx context.Context, progress func(int, string)) error {
	patience := time.NewTimer(64 * s.d.s.cfg.T1) // timer N of RFC 6665
	defer patience.Stop()
	for {
		select {
		case <-s.wake:
			for _, n := range s.heard() {
				if done, err := n.outcome(); done {
					return err
				}
				if n.code > 0 && progress != nil {
					progress(n.code, n.reason)
				}
				patience.Reset(s.life(n.life))
			}
		case <-patience.C:
			return &ReferError{Err: ErrReferSilent}
		case <-ctx.Done():
			return &ReferError{Err: context.Cause(ctx)}
		case <-s.d.s.done:
			return &ReferError{Err: ErrShutdown}
		}
	}
}

// outcome says what a NOTIFY means: a final status is one, whatever else is said. An
// end without one is a failure, because the caller must not be let go for a hope.
func (n note) outcome() (done bool, err error) {
	switch {
	case n.code >= 300:
		return true, &ReferError{Code: n.code, Reason: n.reason}
	case n.code >= 200:
		return true, nil
	case n.over:
		return true, &ReferError{Reason: n.why, Err: ErrReferUnknown}
	}
	return false, nil
}

// referFields are the headers of a REFER.
func (d *Dialog) referFields(r Refer) ([]field, error) {
	to, err := d.referTarget(r)
	if err != nil {
		return nil, err
	}
	headers, err := referHeaders(r)
	if err != nil {
		return nil, err
	}
	if headers != "" {
		if strings.HasPrefix(strings.ToLower(to), "tel:") {
			return nil, errors.New("sip: a tel URI has no place for headers")
		}
		to += "?" + headers
	}
	if len(to) > maxValue {
		return nil, errors.New("sip: too many headers for a transfer")
	}
	by := r.ReferredBy
	if by == "" {
		own, err := ParseAddress(d.from)
		if err != nil {
			return nil, err
		}
		by = own.RawURI
	}
	if by, err = oneURI(by); err != nil {
		return nil, fmt.Errorf("sip: referred by: %w", err)
	}
	return []field{{"Contact", d.contact}, {"Refer-To", "<" + to + ">"}, {"Referred-By", "<" + by + ">"},
		{"Allow", methods}, {"Supported", "timer, replaces, norefersub"}}, nil
}

// referHeaders are the headers of the URI to be called, escaped.
func referHeaders(r Refer) (string, error) {
	var all []string
	if r.Replaces != nil {
		all = append(all, "Replaces="+escapeHeader(r.Replaces.replaces()))
	}
	for _, h := range r.Headers {
		if !isToken(h.Name) || !strings.HasPrefix(strings.ToLower(h.Name), "x-") || hasControls(h.Value) {
			return "", fmt.Errorf("sip: header %q cannot go with a transfer", clean(h.Name, 64))
		}
		all = append(all, escapeHeader(h.Name)+"="+escapeHeader(h.Value))
	}
	return strings.Join(all, "&"), nil
}

// referTarget is the URI to be called.
func (d *Dialog) referTarget(r Refer) (string, error) {
	switch {
	case r.To == "" && r.Replaces != nil:
		r.Replaces.mu.Lock()
		defer r.Replaces.mu.Unlock()
		return oneURI(r.Replaces.target.RawURI)
	case r.To == "":
		return "", errors.New("sip: nobody to transfer to")
	case strings.Contains(r.To, ":"):
		return oneURI(r.To)
	case d.link != nil:
		return d.link.t.aor(r.To), nil
	}
	// Of a call that came in without a registration only the peer's own domain is
	// known, and where it is.
	d.mu.Lock()
	host := d.flow.remote.Addr()
	d.mu.Unlock()
	if a, err := ParseAddress(d.to); err == nil && a.URI.Host != "" && !strings.HasSuffix(a.URI.Host, ".invalid") {
		return Trunk{Domain: a.URI.Host}.aor(r.To), nil
	}
	return Trunk{Domain: host.String()}.aor(r.To), nil
}

// oneURI checks a URI that is put into a header: one that can be called, without
// headers of its own, and without a chance of becoming more than a URI.
func oneURI(s string) (string, error) {
	u, err := ParseURI(s)
	switch {
	case err != nil:
		return "", fmt.Errorf("sip: %q cannot be called: %w", clean(s, 64), err)
	case !slices.Contains([]string{"sip", "sips", "tel"}, u.Scheme), len(s) > maxRequestURI, strings.Contains(s, "?"), hasControls(s):
		return "", fmt.Errorf("sip: %q cannot be called", clean(s, 64))
	}
	return s, nil
}

// hasControls says that a text has control characters, also escaped ones.
func hasControls(s string) bool {
	return strings.ContainsFunc(unescape(s), func(r rune) bool { return r < ' ' || r == 0x7f })
}

// escapeHeader writes the value of a header into a URI (hvalue of RFC 3261 section
// 25.1).
func escapeHeader(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.!~*'()", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}
