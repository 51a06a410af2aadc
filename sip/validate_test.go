package sip

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each case is one datagram. code 0: nothing may come back. The server must
// answer a good request afterwards.
func TestValidation(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	base := func(change func(*req)) func() req {
		return func() req {
			r := newInvite()
			change(&r)
			return r
		}
	}
	with := func(lines ...string) func() req { return base(func(r *req) { r.extra = lines }) }
	body := func(kind, body string, lines ...string) func() req {
		return base(func(r *req) { r.kind, r.body, r.extra = kind, body, lines })
	}
	mixed := func(parts ...string) string { return "--x\r\n" + strings.Join(parts, "\r\n--x\r\n") + "\r\n--x--\r\n" }
	sdpPart := "Content-Type: application/sdp\r\n\r\n" + offerSDP
	tests := []struct {
		name string
		req  func() req
		code int
		head string // a header that must be there, and a part of its value
	}{
		{"a good one", newInvite, 200, "contact:sip:"},
		{"no From", base(func(r *req) { r.without = "From" }), 400, "warning:Missing From"},
		{"no To", base(func(r *req) { r.without = "To" }), 400, "warning:Missing To"},
		{"no Call-ID", base(func(r *req) { r.without = "Call-ID" }), 400, "warning:Missing Call-ID"},
		{"no CSeq", base(func(r *req) { r.without = "CSeq" }), 400, "warning:Missing CSeq"},
		{"no Via", base(func(r *req) { r.without = "Via" }), 0, ""},
		{"Accept without SDP", with("Accept: text/nobodyKnowsThis"), 406, "warning:Accept"},
		{"Accept with SDP", with("Accept: text/x, application/SDP;level=1"), 200, ""},
		{"Via nonsense", base(func(r *req) { r.via = "nonsense" }), 0, ""},
		{"Via without host", base(func(r *req) { r.via = "SIP/2.0/UDP ;branch=z9hG4bK1" }), 0, ""},
		{"BR-027 From of a scanner", base(func(r *req) { r.from = `"sip911"<b0119:532@192.0.2.59>;tag=1` }), 400, "warning:Bad From"},
		{"BR-027 To of a scanner", base(func(r *req) { r.to = "<b0119:532@192.0.2.1>" }), 400, "warning:Bad To"},
		{"BR-161 From soup", base(func(r *req) { r.from = "<sip:>;sip:;1001@192.0.2.1;tag=1" }), 400, "warning:Bad From"},
		{"BR-161 Contact soup", base(func(r *req) { r.contact = "<sip:>;sip:;1001@192.0.2.1:5060" }), 400, "warning:Bad Contact"},
		{"BR-162 From without user", base(func(r *req) { r.from = "<sip:@host>;tag=1" }), 400, ""},
		{"BR-162 From with nothing", base(func(r *req) { r.from = "sip:" }), 400, ""},
		{"BR-162 CSeq too large", base(func(r *req) { r.cseqText = "115211521152 INVITE" }), 400, "warning:Bad CSeq"},
		{"CSeq above 2^31", base(func(r *req) { r.cseqText = "2147483648 INVITE" }), 400, ""},
		{"BR-162 CSeq of letters", base(func(r *req) { r.cseqText = "abcdefg" }), 400, ""},
		{"CSeq of another method", base(func(r *req) { r.cseqText = "1 OPTIONS" }), 400, "warning:method"},
		{"CSeq negative", base(func(r *req) { r.cseqText = "-1 INVITE" }), 400, ""},
		{"BR-162 empty Warning", with("Warning:"), 200, ""},
		{"BR-162 giant Call-ID", base(func(r *req) { r.callID = strings.Repeat("x", 4096) }), 513, ""},
		{"long Call-ID", base(func(r *req) { r.callID = strings.Repeat("y", 1000) }), 200, ""},
		{"blank in Call-ID", base(func(r *req) { r.callID = "a b" }), 400, ""},
		{"long tag", base(func(r *req) { r.from = "<sip:a@b>;tag=" + strings.Repeat("t", 300) }), 400, "warning:tag"},
		{"bad tag", base(func(r *req) { r.from = "<sip:a@b>;tag=a<b" }), 400, ""},
		{"giant header", with("X: " + strings.Repeat("x", 9000)), 513, ""},
		{"too many headers", with(strings.Split(strings.Repeat("X: y|", 300)+"X: y", "|")...), 513, ""},
		{"giant Request-URI", base(func(r *req) { r.uri = "sip:" + strings.Repeat("x", 3000) + "@b" }), 414, ""},
		{"unknown scheme", base(func(r *req) { r.uri = "nobodyKnowsThisScheme:totallyopaque" }), 416, ""},
		{"soap.beep", base(func(r *req) { r.uri = "soap.beep://192.0.2.103:3002" }), 416, ""},
		{"tel", base(func(r *req) { r.uri = "tel:+15550100;phone-context=x" }), 200, ""},
		{"sips", base(func(r *req) { r.uri = "sips:a@b" }), 200, ""},
		{"URI without user", base(func(r *req) { r.uri = "sip:gw.example.com:5061;transport=udp" }), 200, ""},
		{"URI in brackets", base(func(r *req) { r.uri = "<sip:a@b>" }), 400, ""},
		{"URI with headers", base(func(r *req) { r.uri = "sip:a@b?Route=%3Csip:c%3E" }), 400, ""},
		{"URI with a blank", base(func(r *req) { r.uri = "sip:a@b; lr" }), 400, ""},
		{"URI with two @", base(func(r *req) { r.uri = "sip:a@b@c" }), 400, ""},
		{"URI of nothing", base(func(r *req) { r.uri = "sip:" }), 400, ""},
		{"URI with a bad port", base(func(r *req) { r.uri = "sip:a@b:99999" }), 400, ""},
		{"version 7.0", base(func(r *req) { r.version = "SIP/7.0" }), 505, ""},
		{"version 3.0", base(func(r *req) { r.version = "SIP/3.0" }), 505, ""},
		{"HTTP", base(func(r *req) { r.version = "HTTP/1.1" }), 0, ""},
		{"duplicate From", with("From: <sip:a@b>;tag=2"), 400, "warning:from appears twice"},
		{"duplicate f", with("f: <sip:a@b>;tag=2"), 400, ""},
		{"duplicate CSeq", with("CSeq: 2 INVITE"), 400, ""},
		{"duplicate Call-ID", with("i: z"), 400, ""},
		{"duplicate Max-Forwards", with("Max-Forwards: 70"), 400, ""},
		{"other duplicate Content-Length", with("Content-Length: 3"), 400, ""},
		{"two Contacts", with("m: <sip:b@c>"), 400, "warning:More than one Contact"},
		{"Contact *", base(func(r *req) { r.contact = "*" }), 400, ""},
		{"Require", with("Require: nothingSupportsThis, nothingSupportsThisEither"), 420, "unsupported:nothingsupportsthis, nothingsupportsthiseither"},
		{"Require nonsense", with("Require: a b"), 400, ""},
		{"Proxy-Require is for proxies", with("Proxy-Require: nothing"), 200, ""},
		{"header without colon", with("this is no header"), 400, ""},
		{"header with a bare line feed", with("Subject: a\nX-Evil: 1"), 400, ""},
		{"header with NUL", with("Subject: a\x00b"), 400, ""},
		{"folded header", with("Subject: a\r\n b\r\n\tc"), 200, ""},
		{"body of another type", body("text/plain", "hello"), 415, "accept:application/sdp"},
		{"body of another type, optional", body("text/plain", "hello", "Content-Disposition: render;handling=optional"), 200, ""},
		{"encoded body", body("application/sdp", offerSDP, "Content-Encoding: gzip"), 415, "accept-encoding:identity"},
		{"identity body", body("application/sdp", offerSDP, "e: identity"), 200, ""},
		{"body without type", body("", offerSDP), 400, "warning:Content-Type"},
		{"SDP type with parameters", body("Application/SDP; charset=utf-8", offerSDP), 200, ""},
		{"SDP type with broken parameters", body("application/sdp; =", offerSDP), 200, ""},
		{"BR-020 multipart", body("multipart/mixed;boundary=x", mixed(sdpPart, "Content-Type: application/rs-metadata+xml\r\n\r\n<a/>")), 200, ""},
		{"BR-020 ISUP first", body(`multipart/mixed; boundary="x"`, mixed("Content-Type: application/isup\r\nContent-Disposition: signal;handling=optional\r\n\r\nabc", sdpPart)), 200, ""},
		{"BR-020 nested", body("multipart/mixed;boundary=x", mixed("Content-Type: multipart/alternative;boundary=y\r\n\r\n--y\r\n"+sdpPart+"\r\n--y--\r\n")), 200, ""},
		{"multipart without SDP", body("multipart/mixed;boundary=x", mixed("\r\nabc")), 415, ""},
		{"multipart of optional parts", body("multipart/mixed;boundary=x", mixed("Content-Type: a/b\r\nContent-Disposition: ;handling=optional\r\n\r\nabc")), 200, ""},
		{"multipart, one part needed", body("multipart/mixed;boundary=x", mixed("\r\nabc", "Content-Type: a/b\r\nContent-Disposition: ;handling=optional\r\n\r\nabc")), 415, ""},
		{"multipart of nothing", body("multipart/mixed;boundary=x", "--x--\r\n"), 415, ""},
		{"multipart without boundary", body("multipart/mixed", mixed(sdpPart)), 415, ""},
		{"BR-042 compact", base(func(r *req) {
			r.without = "From"
			r.extra = []string{"f: <sip:a@b>;tag=9", "k: x", "s: hello", "o: x", "u: y", "r: z", "b: q", "a: 1", "d: 1", "j: 1", "n: 1", "x: 90", "y: 1"}
		}), 200, ""},
		{"OPTIONS", base(func(r *req) { *r = newCall(req{method: "OPTIONS"}) }), 200, "allow:UPDATE"},
		{"OPTIONS with a body", base(func(r *req) { *r = newCall(req{method: "OPTIONS", body: "x", kind: "text/plain"}) }), 200, ""},
		{"OPTIONS with Replaces", base(func(r *req) {
			*r = newCall(req{method: "OPTIONS", extra: []string{"Replaces: a@b;to-tag=1;from-tag=2"}})
		}), 400, "warning:Replaces is for INVITE"},
		{"BYE with Replaces", base(func(r *req) {
			*r = newCall(req{method: "BYE", to: "<sip:a@b>;tag=1", extra: []string{"Replaces: a@b;to-tag=1;from-tag=2"}})
		}), 400, ""},
		{"REGISTER", base(func(r *req) { *r = newCall(req{method: "REGISTER"}) }), 405, "allow:INVITE"},
		{"garbage method", base(func(r *req) { *r = newCall(req{method: "NEWMETHOD"}) }), 405, "allow:INVITE"},
		{"lower case method", base(func(r *req) { *r = newCall(req{method: "invite"}) }), 405, ""},
		{"method that is no token", base(func(r *req) { *r = newCall(req{method: "IN{}VITE"}) }), 0, ""},
		{"stray BYE", base(func(r *req) { *r = newCall(req{method: "BYE", to: "<sip:a@b>;tag=1"}) }), 481, ""},
		{"BYE without tag", base(func(r *req) { *r = newCall(req{method: "BYE"}) }), 481, ""},
		{"stray CANCEL", base(func(r *req) { *r = newCall(req{method: "CANCEL"}) }), 481, ""},
		{"stray INVITE in a call", base(func(r *req) { r.to = "<sip:a@b>;tag=1" }), 481, ""},
		{"stray INFO", base(func(r *req) { *r = newCall(req{method: "INFO"}) }), 481, ""},
		{"stray ACK", base(func(r *req) { *r = newCall(req{method: "ACK", to: "<sip:a@b>;tag=1"}) }), 0, ""},
		{"malformed ACK", base(func(r *req) { *r = newCall(req{method: "ACK", cseqText: "x"}) }), 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := b.phone("udp")
			r := tt.req()
			p.send(r)
			var m *msg
			for m = p.read(patienceFor(tt.code)); m != nil && m.code == 100; m = p.read(patience) {
			}
			if tt.code == 0 {
				if m != nil {
					t.Fatalf("got an answer:\n%s", m.raw)
				}
				return
			}
			if m == nil || m.code != tt.code {
				t.Fatalf("got %+v, want %d", m, tt.code)
			}
			if name, part, _ := strings.Cut(tt.head, ":"); !strings.Contains(m.get(name), part) {
				t.Errorf("%s is %q, want %q in it", name, m.get(name), part)
			}
			if m.get("To") != "" && m.toTag() == "" {
				t.Errorf("no To tag:\n%s", m.raw)
			}
			if strings.Contains(m.raw, "\r\nX-Evil") || strings.Contains(strings.ReplaceAll(m.raw, "\r\n", ""), "\n") {
				t.Errorf("a header was smuggled in:\n%q", m.raw)
			}
			if tt.code == 200 && r.method == "INVITE" {
				c := &call{p: p, inv: r, ok: m, n: r.cseq}
				if r.without == "From" {
					c.inv.from = "<sip:a@b>;tag=9"
				}
				c.ack(r.cseq, "")
				p.send(c.next("BYE", ""))
				p.expect("BYE", 200)
			}
		})
	}
	if st := b.Stats(); st.Panics != 0 || st.Malformed < 40 || st.Dropped < 1 {
		t.Errorf("stats %+v", st)
	}
	// Refusals are logged, but not one line each.
	if n := b.logs.FilterMessage("sip: request refused").Len(); n == 0 || n > 30 {
		t.Errorf("%d log lines", n)
	}
	for _, e := range b.logs.All() {
		if len(fmt.Sprint(e.ContextMap())) > 1000 {
			t.Errorf("a whole packet in the log: %v", e)
		}
	}
}

func patienceFor(code int) time.Duration {
	if code == 0 {
		return 3 * testT1
	}
	return patience
}

// What no phone would write: sent as it stands.
func TestRawDatagrams(t *testing.T) {
	b := start(t, quiet)
	p := b.phone("udp")
	head := "Via: SIP/2.0/UDP " + p.addr + ";branch=z9hG4bKr;rport\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: raw\r\nCSeq: 1 OPTIONS\r\n"
	tests := []struct {
		name, text string
		code       int
	}{
		{"empty lines", "\r\n\r\n", 0},
		{"zeros", "\x00\x00\x00\x00", 0},
		{"noise", "\x80\x81\xff\x00\x12garbage", 0},
		{"one line", "OPTIONS sip:a SIP/2.0\r\n", 0},
		{"no end of headers", "OPTIONS sip:a SIP/2.0\r\n" + head, 400},
		{"negative Content-Length", "OPTIONS sip:a SIP/2.0\r\n" + head + "Content-Length: -1\r\n\r\n", 400},
		{"huge Content-Length", "OPTIONS sip:a SIP/2.0\r\n" + head + "Content-Length: 99999999999\r\n\r\n", 400},
		{"body too short", "OPTIONS sip:a SIP/2.0\r\n" + head + "Content-Length: 10\r\n\r\nabc", 400},
		{"body too long", "OPTIONS sip:a SIP/2.0\r\n" + head + "Content-Length: 1\r\n\r\nabc", 200},
		{"no Content-Length", "OPTIONS sip:a SIP/2.0\r\n" + head + "\r\n", 200},
		{"blanks around the request line", "OPTIONS  sip:a  SIP/2.0\r\n" + head + "\r\n", 400},
		{"blank at the end of the request line", "OPTIONS sip:a SIP/2.0 \r\n" + head + "\r\n", 400},
		{"leading line ends", "\r\n\r\nOPTIONS sip:a SIP/2.0\r\n" + head + "\r\n", 200},
		{"no hops left", "OPTIONS sip:a SIP/2.0\r\nMax-Forwards: 0\r\n" + head + "\r\n", 200},
		{"too many hops", "OPTIONS sip:a SIP/2.0\r\nMax-Forwards: 300\r\n" + head + "\r\n", 400},
		{"no hops left", "INVITE sip:a SIP/2.0\r\nMax-Forwards: 0\r\nContact: <sip:a@b>\r\n" + strings.Replace(head, "1 OPTIONS", "1 INVITE", 1) + "\r\n", 483},
		{"two requests in one datagram", strings.Repeat("OPTIONS sip:a SIP/2.0\r\n"+head+"Content-Length: 0\r\n\r\n", 2), 200},
		{"stray response", "SIP/2.0 200 OK\r\n" + head + "\r\n", 0},
		{"response without Via", "SIP/2.0 200 OK\r\nCSeq: 1 BYE\r\n\r\n", 0},
		{"response of nonsense", "SIP/2.0 20 OK\r\n" + head + "\r\n", 0},
		{"malformed response", "SIP/2.0 200 OK\r\nnonsense\r\n" + head + "\r\n", 0},
		{"LF only", strings.ReplaceAll("OPTIONS sip:a SIP/2.0\r\n"+head+"\r\n", "\r\n", "\n"), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p.write(tt.text)
			m := p.read(patienceFor(tt.code))
			switch {
			case tt.code == 0 && m != nil:
				t.Errorf("got:\n%s", m.raw)
			case tt.code != 0 && (m == nil || m.code != tt.code):
				t.Errorf("got %+v, want %d", m, tt.code)
			}
		})
	}
	p.silent(testT1, "nothing is left")
	big := "OPTIONS sip:a SIP/2.0\r\n" + head + strings.Repeat("Z: "+strings.Repeat("x", 1000)+"\r\n", 40) + "\r\n"
	p.write(big)
	p.expect("OPTIONS", 200) // 40 KiB are read whole
}

func TestTooLarge(t *testing.T) {
	b := start(t, quiet, func(c *Config) { c.MaxMessage = 2000 })
	r := newCall(req{method: "OPTIONS", extra: []string{"Z: " + strings.Repeat("x", 2000)}})
	p := b.phone("udp")
	p.send(r)
	p.expect("OPTIONS", 513)
	for _, r := range []req{r, newCall(req{method: "OPTIONS", body: strings.Repeat("x", 3000), kind: "a/b"})} {
		p = b.phone("tcp")
		p.send(r)
		if m := p.read(patience); m != nil && m.code != 513 {
			t.Errorf("got %s", m.start)
		}
		if _, err := p.rd.ReadByte(); err == nil {
			t.Error("the connection is open")
		}
	}
}
