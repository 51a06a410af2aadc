package sip

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request is one that we send, without what belongs to its transaction.
type request struct {
	method, uri string
	routes      []string
	from, to    string
	callID      string
	cseq        uint32
	fields      []field
	body        []byte // a session description, unless fields hold another Content-Type
}

// write composes the message for a flow.
func (s *Server) write(r *request, f *flow, branch string) []byte {
	fields := []field{
		{"Via", "SIP/2.0/" + f.transport() + " " + f.sentBy() + ";rport;branch=" + branch},
		{"Max-Forwards", "70"},
	}
	for _, route := range r.routes {
		fields = append(fields, field{"Route", route})
	}
	fields = append(fields, field{"From", r.from}, field{"To", r.to}, field{"Call-ID", r.callID},
		field{"CSeq", strconv.FormatUint(uint64(r.cseq), 10) + " " + r.method})
	fields = append(fields, r.fields...)
	if s.cfg.UserAgent != "" {
		fields = append(fields, field{"User-Agent", s.cfg.UserAgent})
	}
	if len(r.body) > 0 && !slices.ContainsFunc(r.fields, func(f field) bool { return f.name == "Content-Type" }) {
		fields = append(fields, field{"Content-Type", "application/sdp"})
	}
	return encode(r.method+" "+r.uri+" SIP/2.0", fields, r.body)
}

// wait returns the final response. A transaction that has none after the limit is
// given up; 0 is no limit but the transaction's own.
func (tx *clientTx) wait(ctx context.Context, limit time.Duration) (*message, error) {
	var late <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-tx.done:
	case <-tx.s.done:
		return nil, ErrShutdown
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-late:
		tx.fail(ErrTimeout)
		<-tx.done
	}
	return tx.final, tx.err
}

// ask sends a request that is not INVITE and returns its final response,
// answering challenges on the way: the Call-ID and From stay, CSeq and branch are
// new each time (RFC 3261 section 22.2). next gives the CSeq numbers. With an
// error that wraps ErrUnauthorized there is a response too.
func (s *Server) ask(ctx context.Context, r request, f *flow, to netip.AddrPort, l *login, next func() uint32, limit time.Duration) (*message, error) {
	own := r.fields
	for {
		creds, err := l.fields(r.method, r.uri)
		if err != nil {
			return nil, err
		}
		r.fields = append(own[:len(own):len(own)], creds...)
		r.cseq = next()
		branch := newBranch()
		m, err := s.transact(&clientTx{method: r.method, branch: branch, flow: f, to: to, request: s.write(&r, f, branch)}).wait(ctx, limit)
		if err != nil || m.code != 401 && m.code != 407 {
			return m, err
		}
		if err := l.challenged(m); err != nil {
			return m, err
		}
	}
}

// escapeUser writes a user part (RFC 3261 section 25.1): what may not stand there
// is escaped, so that no dialled text can become a host, a parameter or a header.
func escapeUser(s string) string {
	const plain = "-_.!~*'()&=+$,/"
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		const hex = "0123456789ABCDEF"
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}
