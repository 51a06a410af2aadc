package sip

import (
	"context"
	"strings"
	"testing"
)

// A caller of RFC 2543 has no branch, no Contact, no Max-Forwards and no tag.
func TestCallerOfRFC2543(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	p := b.phone("udp")
	text := strings.ReplaceAll("INVITE sip:UserB@example.com SIP/2.0\nVia: SIP/2.0/UDP "+p.addr+"\nFrom: <sip:+13035551111@ift.client.example.net;user=phone>\n"+
		"To: sip:+16505552222@ss1.example.net;user=phone\nCall-ID: inv2543.1717@ift.client.example.com\nCSeq: 56 INVITE\n"+
		"Content-Type: application/sdp\n\n", "\n", "\r\n") + offerSDP
	p.write(text)
	p.expect("INVITE", 200)
	var m *msg
	// A copy is absorbed without a branch to tell it by, and BYE finds the
	// peer without a Contact.
	p.write(text)
	if m = p.read(patience); m == nil || m.code != 200 {
		t.Fatalf("the copy gets %+v", m)
	}
	var d *Dialog
	for d == nil || d.key.callID != "inv2543.1717@ift.client.example.com" {
		d = wait(t, h.calls, "the call")
	}
	if n := len(h.calls); n != 0 {
		t.Errorf("%d calls more", n)
	}
	p.write("ACK sip:x SIP/2.0\r\nVia: SIP/2.0/UDP " + p.addr + "\r\nFrom: " + m.get("From") + "\r\nTo: " + m.get("To") +
		"\r\nCall-ID: " + m.get("Call-ID") + "\r\nCSeq: 56 ACK\r\n\r\n")
	wait(t, d.Confirmed(), "the ACK")
	go d.Bye(context.Background(), Reason{})
	bye := p.request("BYE")
	if bye.start != "BYE sip:+13035551111@ift.client.example.net;user=phone SIP/2.0" {
		t.Errorf("start line %q", bye.start)
	}
	p.reply(bye, 200)
	ended(t, d, ErrLocalBye)
}
