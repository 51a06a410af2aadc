package sip

import (
	"strings"
	"testing"
)

// Whatever a peer answers, it is read without harm and without line ends.
func FuzzResponse(f *testing.F) {
	head := "SIP/2.0 302 Moved\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKx\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>;tag=2\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n"
	f.Add(head + "Contact: <sip:x@y>, \"a\" <tel:+1>\r\nReason: Q.850;cause=17;text=\"busy\\\"\"\r\nWarning: 399 a \"b\"\r\nRetry-After: 5 (x);duration=1\r\n\r\n")
	f.Add(head + "k: timer\r\nx: 90;refresher=uac\r\nMin-SE: 90\r\nRequire: 100rel\r\nRSeq: 1\r\nRecord-Route: <sip:a;lr>,<sip:b;lr>\r\n\r\n")
	p := newParser()
	f.Fuzz(func(t *testing.T, raw string) {
		m := parse(p, []byte(raw))
		if m == nil || m.request || !m.readResponse() {
			return
		}
		e := dialError(m, nil)
		if text := e.Error(); strings.ContainsAny(text, "\r\n") {
			t.Errorf("%q", text)
		}
		for _, a := range e.Contacts {
			if uri, err := callee(Trunk{Domain: "example.com"}, a.RawURI); err == nil && strings.ContainsAny(uri, " \r\n<>?") {
				t.Errorf("%q from %q", uri, a.RawURI)
			}
		}
		o := sessionOffer{expires: 1}
		o.accepted(m)
		o.raise(m)
		(&Dialog{}).setRoute(m)
	})
}

// What cannot be matched, or is too much, is counted and dropped.
func TestResponsesDropped(t *testing.T) {
	b := start(t, quiet)
	p := b.phone("udp")
	head := "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKx\r\n"
	rest := "From: <sip:a@b>;tag=1\r\nTo: <sip:c@d>;tag=2\r\nCall-ID: x\r\nCSeq: 1 BYE\r\n"
	for _, text := range []string{
		"SIP/2.0 200 OK\r\n" + rest,
		head + strings.Replace(rest, "1 BYE", "BYE", 1),
		head + strings.Replace(rest, "1 BYE", "x BYE", 1),
		head + strings.Replace(rest, "<sip:a@b>", "<>", 1),
		head + strings.Replace(rest, "<sip:c@d>", "<>", 1),
		head + rest + strings.Repeat("X: y\r\n", maxFields),
		head + rest + "Record-Route: " + strings.Repeat("<sip:a>,", maxValue/8) + "<sip:b>\r\n",
	} {
		p.write(text + "Content-Length: 0\r\n\r\n")
	}
	p.write(head + rest + "Content-Length: 0\r\n\r\n")
	eventually(t, "the counting", func() bool {
		st := b.Stats()
		return st.Malformed == 7 && st.Dropped == 1
	})
}
