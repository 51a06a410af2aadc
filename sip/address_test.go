package sip

import (
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestParseURI(t *testing.T) {
	for text, want := range map[string]URI{
		"sip:a@b":                      {Scheme: "sip", User: "a", Host: "b"},
		"SIPS:a:secret@b.example:5061": {Scheme: "sips", User: "a", Host: "b.example", Port: 5061},
		"sip:gw":                       {Scheme: "sip", Host: "gw"},
		"sip:10.0.0.1:5060;transport=TLS;x-m=8%3Aorgid;lr": {Scheme: "sip", Host: "10.0.0.1", Port: 5060,
			Params: map[string]string{"transport": "TLS", "x-m": "8:orgid", "lr": ""}},
		"sip:[2001:db8::1]:5070": {Scheme: "sip", Host: "2001:db8::1", Port: 5070},
		"sip:a@[::1]":            {Scheme: "sip", User: "a", Host: "::1"},
		"sip:+15550100;npdi;rn=+15550111@gw.example.com;user=phone": {Scheme: "sip", User: "+15550100", Host: "gw.example.com",
			UserParams: map[string]string{"npdi": "", "rn": "+15550111"}, Params: map[string]string{"user": "phone"}},
		"sip:21%23@b":      {Scheme: "sip", User: "21#", Host: "b"},
		"sip:%2B1%zz%4@b":  {Scheme: "sip", User: "+1%zz%4", Host: "b"},
		"sip:a@b?x=y":      {Scheme: "sip", User: "a", Host: "b"},
		"sip:null-%00@b":   {Scheme: "sip", User: "null-\x00", Host: "b"},
		"sip:a_b@my_host.": {Scheme: "sip", User: "a_b", Host: "my_host."},
		"tel:+1-555-0100;phone-context=example.com": {Scheme: "tel", User: "+1-555-0100",
			UserParams: map[string]string{"phone-context": "example.com"}},
		"tel:*72%23":             {Scheme: "tel", User: "*72#"},
		"http://www.example.com": {Scheme: "http", User: "//www.example.com"},
	} {
		got, err := ParseURI(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "sip", "sip:", ":a@b", "sip:@b", "sip:a@", "sip:a@b@c", "sip:a b@c", "sip:a@b:", "sip:a@b:0", "sip:a@b:99999",
		"sip:a@b:x", "sip:[::1", "sip:[1.2.3.4]", "sip:[::1]x", "sip:a@b/c", "tel:", "tel:alice", "b0119:532@b", "si p:a@b", "sip:a@b>", "sip:;x@y", "sip:" + strings.Repeat("h", 300)} {
		if u, err := ParseURI(text); err == nil {
			t.Errorf("%q gave %+v", text, u)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string][3]string{ // name, user@host, tag
		`<sip:a@b>`:                 {"", "a@b", ""},
		`sip:a@b;tag=1`:             {"", "a@b", "1"},
		`Bob Smith <sip:a@b>;tag=x`: {"Bob Smith", "a@b", "x"},
		`"" <sip:a@b>;tag=2`:        {"", "a@b", "2"},
		`"John \"The Duke\" <sip:evil@x>, Jr; a" <sip:a@b>;tag=1`: {`John "The Duke" <sip:evil@x>, Jr; a`, "a@b", "1"},
		`李 <sip:a@b>`:                                  {"李", "a@b", ""},
		"Ren\xe9 <sip:a@b>":                            {"René", "a@b", ""},
		"\"a\x1b[31m\tb\x00c\" <sip:a@b>":              {"a [31m b c", "a@b", ""},
		"\"a\u202eb\u200b\" <sip:a@b>":                 {"ab", "a@b", ""},
		`"` + strings.Repeat("é", 300) + `" <sip:a@b>`: {strings.Repeat("é", 128), "a@b", ""},
		`"a\\" <sip:a@b>`:                              {`a\`, "a@b", ""},
		`< sip:a@b > ; TAG = 7 ;x`:                     {"", "a@b", "7"},
		`<sip:a@b;tag=in>`:                             {"", "a@b", ""},
	} {
		a, err := ParseAddress(text)
		if got := [3]string{a.Name, a.URI.User + "@" + a.URI.Host, a.Tag}; err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
		if a.Raw != strings.TrimSpace(text) {
			t.Errorf("raw %q", a.Raw)
		}
	}
	for _, text := range []string{"", `"a <sip:a@b>`, `"a" sip:a@b`, `"a"`, `Bond, James <sip:a@b>`, `<sip:a@b`, `<sip:a@b> x`, `<sip:a@b>;tag=`, `<sip:a@b>;tag=a b`,
		`<sip:>;sip:;1001@host`, `"a\`, `a" <sip:a@b>`} {
		if a, err := ParseAddress(text); err == nil {
			t.Errorf("%q gave %+v", text, a)
		}
	}
}

func TestParseAddresses(t *testing.T) {
	got := ParseAddresses([]string{`<tel:+15550100;phone-context=example.com>, "Bob, \"x\"" <sip:+15550101@example.com;a=b,c>`, "broken", "<sip:c@d>"})
	if len(got) != 3 || got[0].URI.Scheme != "tel" || got[1].Name != `Bob, "x"` || got[1].URI.User != "+15550101" || got[2].URI.User != "c" {
		t.Errorf("%+v", got)
	}
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{`"John \"The Duke\", Jr" <sip:+15550100;npdi@[::1]:5060;user=phone?x=y>;tag=1;x="y"`, "sip:a@b;tag=1", "<tel:+1555>, <sip:>",
		"<sip:>;sip:;1001@host", "李 <sip:%00%@x>", "Ren\xe9 <sip:a@b>", `"a`, "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, a := range ParseAddresses([]string{s}) {
			if !utf8.ValidString(a.Name) || utf8.RuneCountInString(a.Name) > maxName || strings.ContainsFunc(a.Name, unicode.IsControl) {
				t.Fatalf("name %q", a.Name)
			}
			if a.URI.Scheme == "" || a.URI.Port < 0 || a.URI.Port > 65535 || len(a.URI.Params) > maxParams {
				t.Fatalf("URI %+v", a.URI)
			}
			if (a.URI.Scheme == "sip" || a.URI.Scheme == "sips") && (a.URI.Host == "" || strings.ContainsAny(a.URI.Host, "\r\n <>;")) {
				t.Fatalf("host %q", a.URI.Host)
			}
			if strings.ContainsAny(a.RawURI, "\r\n<>\" ") {
				t.Fatalf("raw URI %q would break a request line", a.RawURI)
			}
			again, err := ParseURI(a.RawURI)
			if err != nil || !reflect.DeepEqual(again, a.URI) {
				t.Fatalf("read again: %+v, %v", again, err)
			}
		}
	})
}

// What a peer sends may be answered or not, but never with a message that is
// none, and never with a panic.
func FuzzMessage(f *testing.F) {
	head := "Via: SIP/2.0/UDP a;branch=z9hG4bK1;rport\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n"
	f.Add([]byte("INVITE sip:a SIP/2.0\r\n" + head + "m: <sip:a@b>\r\nc: multipart/mixed;boundary=x\r\n\r\n--x\r\nContent-Type: application/sdp\r\n\r\nv=0\r\n--x--\r\n"))
	f.Add([]byte("OPTIONS sip:a SIP/7.0\r\n" + head + "\r\n"))
	f.Add([]byte("ACK  soap.beep:a SIP/2.0\r\n" + head + "l: 9\r\n\r\n"))
	f.Add([]byte("SIP/2.0 200 OK\r\n" + head + "\r\n"))
	f.Add([]byte("INVITE sip:a SIP/2.0\r\nf: a\nb\r\nno colon\r\n" + head))
	p := newParser()
	s, err := NewServer(DefaultConfig(), nil)
	if err != nil {
		f.Fatal(err)
	}
	fl := &flow{lis: &listener{host: "192.0.2.1", port: 5060, cfg: Listener{Network: "udp"}}, remote: mustAddrPort("192.0.2.2:5060"), local: mustAddrPort("192.0.2.1:5060")}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := parse(p, b)
		if m == nil || !m.request {
			return
		}
		m.flow = fl
		if m.via, err = parseVia(m.all("via")); err != nil {
			return
		}
		m.reply = m.via.replyAddr(fl.remote)
		r := m.validate(65535)
		if r == nil {
			r = refuse(200, "", "")
		} else if r.Code < 400 || r.Code > 599 {
			t.Fatalf("refused with %d", r.Code)
		}
		answer := s.response(m, r.Code, "", "tag", append(refusalFields(fl, &r.RejectError), r.fields...), nil)
		back := parse(p, answer)
		if back == nil || back.request || back.code != r.Code || back.fault != nil {
			t.Fatalf("answer: %+v\n%q", back, answer)
		}
	})
}
