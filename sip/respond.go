package sip

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// phrase is the usual reason phrase of a status code (RFC 3261 section 21).
func phrase(code int) string {
	switch code {
	case 100:
		return "Trying"
	case 180:
		return "Ringing"
	case 200:
		return "OK"
	case 202:
		return "Accepted"
	case 302:
		return "Moved Temporarily"
	case 400:
		return "Bad Request"
	case 401:
		return "Unauthorized"
	case 403:
		return "Forbidden"
	case 404:
		return "Not Found"
	case 405:
		return "Method Not Allowed"
	case 406:
		return "Not Acceptable"
	case 407:
		return "Proxy Authentication Required"
	case 408:
		return "Request Timeout"
	case 414:
		return "Request-URI Too Long"
	case 415:
		return "Unsupported Media Type"
	case 416:
		return "Unsupported URI Scheme"
	case 422:
		return "Session Interval Too Small"
	case 420:
		return "Bad Extension"
	case 480:
		return "Temporarily Unavailable"
	case 481:
		return "Call/Transaction Does Not Exist"
	case 482:
		return "Loop Detected"
	case 483:
		return "Too Many Hops"
	case 486:
		return "Busy Here"
	case 487:
		return "Request Terminated"
	case 488:
		return "Not Acceptable Here"
	case 489:
		return "Bad Event"
	case 491:
		return "Request Pending"
	case 500:
		return "Server Internal Error"
	case 503:
		return "Service Unavailable"
	case 504:
		return "Server Time-out"
	case 505:
		return "Version Not Supported"
	case 513:
		return "Message Too Large"
	case 600:
		return "Busy Everywhere"
	case 603:
		return "Decline"
	case 604:
		return "Does Not Exist Anywhere"
	case 606:
		return "Not Acceptable"
	}
	switch code / 100 {
	case 1:
		return "Session Progress"
	case 2:
		return "OK"
	case 3:
		return "Redirected"
	case 4:
		return "Request Failure"
	case 5:
		return "Server Failure"
	}
	return "Global Failure"
}

// response writes a response to m. From, To, Call-ID, CSeq and the Vias are what
// the peer wrote, byte for byte, but for what we have to add: the tag to To, and
// to the topmost Via where we saw the packet come from.
func (s *Server) response(m *message, code int, reason, tag string, extra []field, body []byte) []byte {
	if reason == "" {
		reason = phrase(code)
	}
	fields := make([]field, 0, 6+len(m.via.rest)+len(extra))
	fields = append(fields, field{"Via", m.via.seenFrom(m.flow.remote)})
	for _, v := range m.via.rest {
		fields = append(fields, field{"Via", v})
	}
	for _, name := range []string{"From", "To", "Call-ID", "CSeq"} {
		v := m.get(strings.ToLower(name))
		if v == "" {
			continue // a malformed request gets back what there is
		}
		if name == "To" && code > 100 && tag != "" && m.to.Tag == "" && !strings.Contains(strings.ToLower(v), ";tag=") {
			v += ";tag=" + tag
		}
		fields = append(fields, field{name, v})
	}
	fields = append(fields, extra...)
	if s.cfg.UserAgent != "" && code > 100 {
		fields = append(fields, field{"Server", s.cfg.UserAgent})
	}
	return encode("SIP/2.0 "+strconv.Itoa(code)+" "+oneLine(reason), fields, body)
}

// oneLine keeps a text of ours from becoming two header lines.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// quote writes a quoted string (RFC 3261 section 25.1).
func quote(s string) string {
	s = oneLine(s)
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// refusalFields are the headers that explain a refusal.
func refusalFields(f *flow, r *RejectError) []field {
	var fields []field
	if r.RetryAfter > 0 {
		fields = append(fields, field{"Retry-After", seconds(r.RetryAfter)})
	}
	for _, c := range r.Challenges {
		fields = append(fields, field{"WWW-Authenticate", oneLine(c)})
	}
	if r.Text != "" {
		code := r.Warning
		if code == 0 {
			code = 399
		}
		fields = append(fields, field{"Warning", strconv.Itoa(code) + " " + f.sentBy() + " " + quote(r.Text)})
	}
	return fields
}

func seconds(d time.Duration) string {
	return strconv.Itoa(int(math.Ceil(d.Seconds())))
}

// refuseStateless answers a request without keeping anything. Copies of it get
// the same answer again (RFC 3261 section 8.2.7).
func (s *Server) refuseStateless(m *message, r *refusal) {
	if !m.request || m.method == "ACK" || s.ignored(m) { // an ACK is never answered
		return
	}
	fields := append(refusalFields(m.flow, &r.RejectError), r.fields...)
	s.countResponse(r.Code)
	s.noise.warn("refuse "+r.Rule, "sip: request refused", append(m.logFields(),
		zap.Int("code", r.Code), zap.String("rule", r.Rule), zap.String("reason", clean(r.Text, 200)))...)
	s.deliver(m, s.response(m, r.Code, r.Reason, s.statelessTag(m), fields, nil))
}

// refuseMessage answers a message that carries its own fault, when there is a way
// back to its sender.
func (s *Server) refuseMessage(f *flow, m *message) {
	m.flow = f
	v, err := parseVia(m.all("via"))
	if err != nil {
		return
	}
	m.via, m.reply = v, v.replyAddr(f.remote)
	s.refuseStateless(m, &refusal{RejectError: *m.fault})
}

// deliver sends a response that no transaction keeps.
func (s *Server) deliver(m *message, b []byte) {
	if err := m.flow.send(b, m.reply); err != nil {
		s.noise.warn("send", "sip: response lost", append(m.logFields(), zap.Error(err))...)
	}
}

// sendAgain sends a copy of what was sent before.
func (s *Server) sendAgain(f *flow, b []byte, to netip.AddrPort) {
	s.count(func(st *Stats) { st.Retransmitted++ })
	if err := f.send(b, to); err != nil {
		s.noise.warn("send", "sip: retransmission lost", zap.String("peer", to.String()), zap.Error(err))
	}
}

// logFields name a message in a log line.
func (m *message) logFields() []zap.Field {
	return []zap.Field{
		zap.String("method", clean(m.method, 32)),
		zap.String("sip_call_id", clean(m.get("call-id"), 128)),
		zap.String("peer", m.flow.remote.String()),
		zap.String("transport", m.flow.transport()),
	}
}
