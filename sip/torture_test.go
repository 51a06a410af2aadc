package sip

import (
	"context"
	"strings"
	"testing"
)

// Messages in the manner of RFC 4475, with its names: valid ones are taken for
// what they are, invalid ones are refused with the right code. @VIA stands for a
// Via that brings the answer back.
func TestTorture(t *testing.T) {
	h := answering(&script{})
	b := start(t, h.handle)
	sdp := strings.ReplaceAll(offerSDP, "\r\n", "\n")
	common := "To: <sip:j@example.com>\nFrom: <sip:caller@example.net>;tag=t\nMax-Forwards: 70\n"
	tests := []struct {
		name, text string
		code       int
	}{
		{"wsinv", `INVITE sip:vivekg@chair-dnrc.example.com;unknownparam SIP/2.0
TO :
 sip:vivekg@chair-dnrc.example.com ;   tag    = 1918181833n
from   : "J Rosenberg \\\""       <sip:jdrosen@example.com>
  ;
  tag = 98asjd8
MaX-fOrWaRdS: 0068
Call-ID: wsinv.ndaksdj@192.0.2.1
cseq: 0009
  INVITE
@VIA
s :
NewFangledHeader:   newfangled value
 continued newfangled value
UnknownHeaderWithUnusualValue: ;;,,;;,;
Content-Type: application/sdp
Route:
 <sip:services.example.com;lr;unknownwith=value;unknown-no-value>
v:  SIP  / 2.0  / TCP     spindle.example.com   ;
  branch  =   z9hG4bK9ikj8  ,
 SIP  /    2.0   / UDP  192.168.255.111   ; branch=
 z9hG4bK30239
m:"Quoted string \"\"" <sip:jdrosen@example.com> ; newparam =
      newvalue ;
  secondparam ; q = 0.33

` + sdp, 481},
		{"intmeth", "!interesting-Method0123456789_*+`.%indeed'~ sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*:&it+has=1,weird!*pas$wo~d_too.(doesn't-it)@example.com SIP/2.0\n@VIA\n" + common + "Call-ID: intmeth\nCSeq: 139122385 !interesting-Method0123456789_*+`.%indeed'~\n\n", 405},
		{"intmeth's URI", "OPTIONS sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy,/;;*:&it+has=1,weird!*pas$wo~d_too.(doesn't-it)@example.com SIP/2.0\n@VIA\n" + common + "Call-ID: intmeth2\nCSeq: 1 OPTIONS\n\n", 200},
		{"esc01", "INVITE sip:sips%3Auser%40example.com@example.net SIP/2.0\n@VIA\nTo: sip:%75se%72@example.com\nFrom: <sip:I%20have%20spaces@example.net>;tag=938\nMax-Forwards: 87\nCall-ID: esc01\nCSeq: 234234 INVITE\nContact:\n <sip:cal%6Cer@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31>\nContent-Type: application/sdp\n\n" + sdp, 200},
		{"escnull", "REGISTER sip:example.com SIP/2.0\n@VIA\nTo: sip:null-%00-null@example.com\nFrom: sip:null-%00-null@example.com;tag=8\nCall-ID: escnull\nCSeq: 14398234 REGISTER\nContact: <sip:%00@host5.example.com>\nContact: <sip:%00%00@host5.example.com>\n\n", 405},
		{"lwsdisp", "OPTIONS sip:user@example.com SIP/2.0\n@VIA\nTo: sip:user@example.com\nFrom: caller<sip:caller@example.com>;tag=323\nMax-Forwards: 70\nCall-ID: lwsdisp\nCSeq: 60 OPTIONS\n\n", 200},
		{"semiuri", "OPTIONS sip:user;par=u%40example.net@example.com SIP/2.0\n@VIA\n" + common + "Call-ID: semiuri\nCSeq: 8 OPTIONS\n\n", 200},
		{"transports", "OPTIONS sip:user@example.com SIP/2.0\n@VIA\nVia: SIP/2.0/SCTP t2.example.com;branch=z9hG4bKkl\nVia: SIP/2.0/UNKNOWN t4.example.com;branch=z9hG4bKkl\n" + common + "Call-ID: transports\nCSeq: 60 OPTIONS\n\n", 200},
		{"dblreq's tail", "OPTIONS sip:example.com SIP/2.0\n@VIA\n" + common + "Call-ID: dblreq\nCSeq: 8 OPTIONS\nContent-Length: 0\n\nINVITE sip:joe@example.com SIP/2.0\nt: sip:joe@example.com\n\n", 200},
		{"inv2543", "INVITE sip:UserB@example.com SIP/2.0\nVia: SIP/2.0/UDP @ADDR\nFrom: <sip:+13035551111@ift.client.example.net;user=phone>\nTo: sip:+16505552222@ss1.example.net;user=phone\nCall-ID: inv2543.1717@ift.client.example.com\nCSeq: 56 INVITE\nContent-Type: application/sdp\n\n" + sdp, 200},
		{"badinv01", "INVITE sip:user@example.com SIP/2.0\n@VIA\nTo: sip:j.user@example.com\nFrom: sip:caller@example.net;tag=134161461246\nMax-Forwards: 7\nCall-ID: badinv01\nCSeq: 8 INVITE\nContact: \"Joe\" <sip:joe@example.org>;;;;,,\nContent-Type: application/sdp\n\n" + sdp, 400},
		{"clerr", "INVITE sip:user@example.com SIP/2.0\n@VIA\n" + common + "Call-ID: clerr\nCSeq: 8 INVITE\nContent-Type: application/sdp\nContent-Length: 9999\n\n" + sdp, 400},
		{"scalar02", "OPTIONS sip:example.com SIP/2.0\n@VIA\n" + common + "Call-ID: scalar02\nCSeq: 36893488147419103232 OPTIONS\n\n", 400},
		{"quotbal", "INVITE sip:user@example.com SIP/2.0\n@VIA\nTo: \"Mr. J. User <sip:j.user@example.com>\nFrom: sip:caller@example.net;tag=93334\nCall-ID: quotbal\nContact: <sip:caller@host59.example.net>\nCSeq: 8 INVITE\n\n", 400},
		{"ltgtruri", "INVITE <sip:user@example.com> SIP/2.0\n@VIA\n" + common + "Call-ID: ltgtruri\nCSeq: 1 INVITE\n\n", 400},
		{"lwsruri", "INVITE sip:user@example.com; lr SIP/2.0\n@VIA\n" + common + "Call-ID: lwsruri\nCSeq: 1 INVITE\n\n", 400},
		{"lwsstart", "INVITE  sip:user@example.com  SIP/2.0\n@VIA\n" + common + "Call-ID: lwsstart\nCSeq: 1 INVITE\n\n", 400},
		{"trws", "OPTIONS sip:remote-target@example.com SIP/2.0  \n@VIA\n" + common + "Call-ID: trws\nCSeq: 8 OPTIONS\n\n", 400},
		{"escruri", "INVITE sip:user@example.com?Route=%3Csip:example.com%3E SIP/2.0\n@VIA\n" + common + "Call-ID: escruri\nCSeq: 1 INVITE\n\n", 400},
		{"baddate", "INVITE sip:user@example.com SIP/2.0\n@VIA\n" + common + "Call-ID: baddate\nCSeq: 8 INVITE\nContact: <sip:caller@host5.example.net>\nDate: Fri, 01 Jan 2010 16:00:00 EST\nContent-Type: application/sdp\n\n" + sdp, 200},
		{"badaspec", "OPTIONS sip:user@example.org SIP/2.0\n@VIA\nTo: \"Watson, Thomas\" < sip:t.watson@example.org >\nFrom: \"Bell, Alexander\" <sip:a.g.b ell@example.org>;tag=43\nCall-ID: badaspec\nCSeq: 1 OPTIONS\n\n", 400},
		{"baddn", "OPTIONS sip:t.watson@example.org SIP/2.0\n@VIA\nFrom: Bell, Alexander <sip:a.g.bell@example.com>;tag=43\nTo: Watson, Thomas <sip:t.watson@example.org>\nCall-ID: baddn\nCSeq: 3 OPTIONS\n\n", 400},
		{"badvers", "OPTIONS sip:t.watson@example.org SIP/7.0\n@VIA\n" + common + "Call-ID: badvers\nCSeq: 1 OPTIONS\n\n", 505},
		{"mismatch01", "OPTIONS sip:user@example.com SIP/2.0\n@VIA\n" + common + "Call-ID: mismatch01\nCSeq: 8 INVITE\n\n", 400},
		{"badbranch", "OPTIONS sip:user@example.com SIP/2.0\nVia: SIP/2.0/UDP @ADDR;branch=z9hG4bK\n" + common + "Call-ID: badbranch\nCSeq: 8 OPTIONS\n\n", 200},
		{"insuf", "INVITE sip:user@example.com SIP/2.0\nCSeq: 193942 INVITE\n@VIA\nContent-Type: application/sdp\n\n" + sdp, 400},
		{"unkscm", "OPTIONS nobodyKnowsThisScheme:totallyopaquecontent SIP/2.0\n@VIA\n" + common + "Call-ID: unkscm\nCSeq: 3 OPTIONS\n\n", 416},
		{"novelsc", "OPTIONS soap.beep://192.0.2.103:3002 SIP/2.0\n@VIA\n" + common + "Call-ID: novelsc\nCSeq: 3 OPTIONS\n\n", 416},
		{"unksm2", "REGISTER sip:example.com SIP/2.0\nTo: isbn:2983792873\nFrom: <http://www.example.com>;tag=3234233\nCall-ID: unksm2\nCSeq: 234902 REGISTER\n@VIA\nContact: <name:John_Smith>\n\n", 405},
		{"bext01", "OPTIONS sip:user@example.com SIP/2.0\n@VIA\n" + common + "Call-ID: bext01\nCSeq: 8 OPTIONS\nRequire: nothingSupportsThis, nothingSupportsThisEither\nProxy-Require: noProxiesSupportThis\n\n", 420},
		{"invut", "INVITE sip:user@example.com SIP/2.0\n@VIA\n" + common + "Contact: <sip:caller@host5.example.net>\nCall-ID: invut\nCSeq: 8 INVITE\nContent-Type: application/unknownformat\n\n<audio>\n", 415},
		{"multi01", "INVITE sip:user@company.com SIP/2.0\n@VIA\n" + common + "Contact: <sip:caller@host25.example.net>\nCall-ID: multi01\nCall-ID: other\nCSeq: 5 INVITE\nCSeq: 59 INVITE\n\n", 400},
		{"mcl01", "OPTIONS sip:user@example.com SIP/2.0\n@VIA\n" + common + "Call-ID: mcl01\nCSeq: 8 OPTIONS\nContent-Length: 13\nContent-Length: 5\n\nthere's no way to know", 400},
		{"zeromf", "OPTIONS sip:user@example.com SIP/2.0\n@VIA\nTo: sip:user@example.com\nFrom: sip:caller@example.net;tag=3ghsd41\nCall-ID: zeromf\nCSeq: 39234321 OPTIONS\nMax-Forwards: 0\n\n", 200},
		{"sdp01", "INVITE sip:user@example.com SIP/2.0\n@VIA\n" + common + "Contact: <sip:caller@host15.example.net>\nCall-ID: sdp01\nCSeq: 8 INVITE\nAccept: text/nobodyKnowsThis\nContent-Type: application/sdp\n\n" + sdp, 406},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := b.phone("udp")
			text := strings.ReplaceAll(tt.text, "@VIA", "Via: SIP/2.0/UDP @ADDR;branch=z9hG4bK"+tt.name[:4]+";rport")
			text = strings.ReplaceAll(strings.ReplaceAll(text, "@ADDR", p.addr), "\n", "\r\n")
			p.write(text)
			m := p.read(patience)
			for m != nil && m.code == 100 {
				m = p.read(patience)
			}
			if m == nil || m.code != tt.code {
				t.Fatalf("got %+v, want %d", m, tt.code)
			}
			if tt.name != "inv2543" {
				return
			}
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
		})
	}
}
