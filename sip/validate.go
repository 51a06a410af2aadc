package sip

import (
	"fmt"
	"strconv"
	"strings"
)

// What one message may hold. The bounds are far above what carriers send, and
// far below what it takes to hurt.
const (
	maxFields     = 256
	maxValue      = 8192
	maxCallID     = 1024
	maxRequestURI = 2048
	maxTag        = 256
	maxCSeq       = 1<<31 - 1
)

// methods are those that this server understands, as written in Allow.
const methods = "INVITE, ACK, CANCEL, BYE, OPTIONS, UPDATE, INFO, PRACK, REFER, NOTIFY, SUBSCRIBE"

func knownMethod(m string) bool {
	switch m {
	case "INVITE", "ACK", "CANCEL", "BYE", "OPTIONS", "UPDATE", "INFO", "PRACK", "REFER", "NOTIFY", "SUBSCRIBE":
		return true
	}
	return false
}

// extensions are the option tags that we understand in Require.
func extension(tag string) bool {
	switch tag {
	case "timer", "100rel", "replaces", "norefersub":
		return true
	}
	return false
}

// refusal is a RejectError with headers of its own.
type refusal struct {
	RejectError
	fields []field
}

func refuse(code int, rule, format string, args ...any) *refusal {
	return &refusal{RejectError: RejectError{Code: code, Rule: rule, Text: fmt.Sprintf(format, args...)}}
}

// validate checks a request before there is any state for it, and fills in what
// it reads on the way. The topmost Via was read before. It is the one place for
// all rules that hold for every request (RFC 3261 section 8.2).
func (m *message) validate(maxMessage int) *refusal {
	checks := []func() *refusal{
		m.checkSize, m.checkVersion, m.checkFault, m.checkRequired, m.checkSingle,
		m.checkCSeq, m.checkMethod, m.checkAddresses, m.checkURI, m.checkHops, m.checkRequire, m.checkAccept, m.checkBody,
	}
	if size := m.size(); size > maxMessage {
		return refuse(513, "size", "%d bytes are more than the %d allowed", size, maxMessage)
	}
	for _, check := range checks {
		if r := check(); r != nil {
			return r
		}
	}
	return nil
}

func (m *message) size() int {
	n := len(m.uri) + len(m.body)
	for _, f := range m.fields {
		n += len(f.name) + len(f.value) + 4
	}
	return n
}

func (m *message) checkSize() *refusal {
	if len(m.uri) > maxRequestURI {
		return refuse(414, "size", "The Request-URI has more than %d bytes", maxRequestURI)
	}
	if len(m.fields) > maxFields {
		return refuse(513, "size", "More than %d headers", maxFields)
	}
	for _, f := range m.fields {
		limit := maxValue
		if f.name == "call-id" {
			limit = maxCallID
		}
		if len(f.value) > limit {
			return refuse(513, "size", "A header has more than %d bytes", limit)
		}
	}
	return nil
}

func (m *message) checkVersion() *refusal {
	if !strings.EqualFold(m.version, "SIP/2.0") {
		return refuse(505, "version", "Only SIP/2.0 is spoken here")
	}
	return nil
}

func (m *message) checkFault() *refusal {
	if m.fault != nil {
		return &refusal{RejectError: *m.fault}
	}
	return nil
}

func (m *message) checkRequired() *refusal {
	for _, name := range []string{"From", "To", "Call-ID", "CSeq"} {
		if m.get(strings.ToLower(name)) == "" {
			return refuse(400, "required", "Missing %s", name)
		}
	}
	m.callID = m.get("call-id")
	if strings.ContainsAny(m.callID, " \t") {
		return refuse(400, "required", "A blank in Call-ID")
	}
	return nil
}

func (m *message) checkSingle() *refusal {
	seen := make(map[string]bool, len(m.fields))
	for _, f := range m.fields {
		switch f.name {
		case "from", "to", "call-id", "cseq", "max-forwards", "content-type", "content-length",
			"content-disposition", "expires", "date", "session-expires", "min-se", "subject", "user-agent":
			if seen[f.name] {
				return refuse(400, "duplicate", "%s appears twice", f.name)
			}
			seen[f.name] = true
		}
	}
	return nil
}

func (m *message) checkCSeq() *refusal {
	number, method, ok := strings.Cut(strings.ReplaceAll(m.get("cseq"), "\t", " "), " ")
	n, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil || n > maxCSeq {
		return refuse(400, "cseq", "Bad CSeq")
	}
	if strings.TrimSpace(method) != m.method {
		return refuse(400, "cseq", "The method of CSeq is not the method of the request")
	}
	m.cseq = uint32(n)
	return nil
}

func (m *message) checkMethod() *refusal {
	if knownMethod(m.method) {
		return nil
	}
	r := refuse(405, "method", "%.32s is not among the methods allowed", m.method)
	r.fields = []field{{"Allow", methods}}
	return r
}

func (m *message) checkAddresses() *refusal {
	var err error
	if m.from, err = ParseAddress(m.get("from")); err != nil {
		return refuse(400, "address", "Bad From")
	}
	if m.to, err = ParseAddress(m.get("to")); err != nil {
		return refuse(400, "address", "Bad To")
	}
	if len(m.from.Tag) > maxTag || len(m.to.Tag) > maxTag {
		return refuse(400, "address", "A tag of more than %d bytes", maxTag)
	}
	// RFC 3891 section 3.
	if m.method != "INVITE" && m.get("replaces") != "" {
		return refuse(400, "replaces", "Replaces is for INVITE")
	}
	contacts := m.all("contact")
	if m.method != "INVITE" && m.method != "UPDATE" {
		return nil
	}
	if len(contacts) == 0 {
		return nil // RFC 2543 had From for it
	}
	// One Contact is what a dialog can use (RFC 3261 section 8.1.1.8).
	if len(contacts) > 1 || len(splitComma(contacts[0])) > 1 {
		return refuse(400, "address", "More than one Contact")
	}
	// Headers of a URI belong into brackets (RFC 3261 section 20).
	if a, err := ParseAddress(contacts[0]); err != nil || !strings.Contains(a.Raw, "<") && strings.Contains(a.Raw, "?") {
		return refuse(400, "address", "Bad Contact")
	}
	return nil
}

func (m *message) checkURI() *refusal {
	if m.method == "ACK" { // it is matched by its dialog, and cannot be answered
		return nil
	}
	scheme, _, ok := strings.Cut(m.uri, ":")
	if !ok || !isToken(scheme) {
		return refuse(400, "uri", "Bad Request-URI")
	}
	switch strings.ToLower(scheme) {
	case "sip", "sips", "tel":
	default:
		return refuse(416, "uri", "Only sip, sips and tel are known here")
	}
	// Headers are for URIs on web pages (RFC 3261 section 19.1.1, table 1).
	if _, err := ParseURI(m.uri); err != nil || strings.Contains(m.uri, "?") {
		return refuse(400, "uri", "Bad Request-URI")
	}
	return nil
}

func (m *message) checkHops() *refusal {
	v := m.get("max-forwards")
	if v == "" {
		return nil // RFC 2543 did not know it
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || n > 255 {
		return refuse(400, "max-forwards", "Bad Max-Forwards")
	}
	// OPTIONS with 0 is how a path is traced: it asks for the answer of whoever
	// it reaches (RFC 3261 section 11.1).
	if n == 0 && (m.method == "INVITE" || m.method == "UPDATE" || m.method == "INFO") {
		return refuse(483, "max-forwards", "No hops left")
	}
	return nil
}

func (m *message) checkRequire() *refusal {
	if m.method == "ACK" || m.method == "CANCEL" { // RFC 3261 section 8.2.2.3
		return nil
	}
	var unknown []string
	for _, tag := range m.list("require") {
		if !extension(tag) {
			if !isToken(tag) {
				return refuse(400, "require", "Bad Require")
			}
			unknown = append(unknown, tag)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	r := refuse(420, "require", "Not supported: %s", strings.Join(unknown, ", "))
	r.fields = []field{{"Unsupported", strings.Join(unknown, ", ")}}
	return r
}

// checkAccept refuses a caller that does not take session descriptions (RFC 3261
// section 20.1, RFC 4475 section 3.3.15). Without Accept it does.
func (m *message) checkAccept() *refusal {
	values := m.all("accept")
	if m.method != "INVITE" || len(values) == 0 {
		return nil
	}
	for _, v := range values {
		for _, part := range splitComma(v) {
			switch kind, _ := mediaType(part); kind {
			case "application/sdp", "application/*", "*/*":
				return nil
			}
		}
	}
	return refuse(406, "accept", "Accept leaves out application/sdp")
}

func (m *message) checkBody() *refusal {
	if len(m.body) == 0 || m.method == "OPTIONS" || m.method == "BYE" || m.method == "CANCEL" {
		return nil
	}
	switch m.method {
	case "REFER", "NOTIFY", "SUBSCRIBE": // what they carry is no description
		return nil
	}
	kind := m.get("content-type")
	if m.method == "ACK" {
		// What cannot be understood is no answer, but it is an ACK.
		m.sdp, _ = findSDP(kind, m.body)
		return nil
	}
	if kind == "" {
		return refuse(400, "body", "A body without Content-Type")
	}
	if m.method == "INFO" {
		return nil // the call knows which it understands
	}
	optional := optionalBody(m.get("content-disposition"))
	for _, enc := range m.list("content-encoding") {
		if enc != "identity" && !optional {
			r := refuse(415, "body", "Content-Encoding %.32q is not understood", enc)
			r.fields = []field{{"Accept", "application/sdp"}, {"Accept-Encoding", "identity"}}
			return r
		}
	}
	sdp, ok := findSDP(kind, m.body)
	if !ok && !optional {
		r := refuse(415, "body", "No application/sdp in the body")
		r.fields = []field{{"Accept", "application/sdp"}, {"Accept-Encoding", "identity"}}
		return r
	}
	m.sdp = sdp
	return nil
}
