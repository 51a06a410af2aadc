package call

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"parley/rtp"
	"parley/rtp/rtptest"
	"parley/sip"
	"parley/sip/sdp"
)

// sealed is a negotiation with a policy, over a transport, and what it logs.
func sealed(t *testing.T, policy, transport string) (*negotiation, *observer.ObservedLogs, *[]string) {
	t.Helper()
	n := testNegotiation()
	core, logs := observer.New(zapcore.DebugLevel)
	cert, err := rtp.NewCertificate()
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	n.guard = guarding{signalling: transport, certificate: cert, log: zap.New(core), told: func(suite string, err error) {
		told = append(told, fmt.Sprint(suite, err))
	}}
	n.protect(policy)
	return n, logs, &told
}

func cryptoLine(tag int, suite string, seed byte) string {
	return fmt.Sprintf("a=crypto:%d %s inline:%s", tag, suite, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{seed}, sdp.KeySize(suite))))
}

// line is the line of a description that begins so.
func lineOf(text []byte, begin string) string {
	for l := range strings.SplitSeq(string(text), "\r\n") {
		if strings.HasPrefix(l, begin) {
			return l
		}
	}
	return ""
}

const fingerprintLine = "a=fingerprint:sha-256 7B:8B:F0:65:5F:78:E2:51:3B:AC:6F:F3:3F:46:1B:35:DC:B8:5F:64:1A:24:C2:43:F0:A1:58:D0:A1:2C:19:08"

func browserOffer(user, setup string, more ...string) []byte {
	return offered(append([]string{"a=group:BUNDLE 0", "m=audio 9 UDP/TLS/RTP/SAVPF 0", "c=IN IP4 0.0.0.0", "a=mid:0", "a=rtcp-mux", "a=setup:" + setup,
		"a=ice-ufrag:" + user, "a=ice-pwd:x9cml/YzichV2+XlhiMu8gZG"}, more...)...)
}

func TestKeysOverReINVITEs(t *testing.T) {
	n, logs, told := sealed(t, srtpOptional, "udp")
	offer := func(tag int, seed byte, more ...string) []byte {
		return offered(append([]string{"m=audio 4000 RTP/SAVP 0", cryptoLine(tag, "AES_CM_128_HMAC_SHA1_80", seed)}, more...)...)
	}
	first, c1, refusal := n.answer(offer(7, 1))
	if refusal != nil || c1.flow.SRTP == nil || !strings.HasPrefix(lineOf(first, "a=crypto:"), "a=crypto:7 AES_CM_128_HMAC_SHA1_80 inline:") || lineOf(first, "m=") != "m=audio 20000 RTP/SAVP 0" {
		t.Fatalf("%v\n%s", refusal, first)
	}
	// The same keys: nothing is new, also on hold.
	same, c2, _ := n.answer(offer(7, 1))
	held, c3, _ := n.answer(offer(7, 1, "a=sendonly"))
	if !bytes.Equal(first, same) || c2.flow.SRTP != c1.flow.SRTP || c3.flow.SRTP != c1.flow.SRTP || lineOf(held, "a=crypto:") != lineOf(first, "a=crypto:") {
		t.Error("keys that stayed began anew")
	}
	// Other keys of the peer's: others of ours.
	rekeyed, c4, _ := n.answer(offer(7, 2))
	if c4.flow.SRTP == c1.flow.SRTP || lineOf(rekeyed, "a=crypto:") == lineOf(first, "a=crypto:") || version(t, rekeyed) == version(t, held) {
		t.Error("the peer's new keys were answered with the old ones")
	}
	// A refused offer changes nothing.
	if _, _, refusal := n.answer(offered("m=audio 4000 RTP/SAVP 0")); refusal == nil || refusal.Code != 488 {
		t.Errorf("SAVP without keys: %v", refusal)
	}
	if again, c5, _ := n.answer(offer(7, 2)); c5.flow.SRTP != c4.flow.SRTP || !bytes.Equal(again, rekeyed) {
		t.Error("a refused offer changed the keys")
	}
	// An offer of ours goes on as was agreed.
	if text := n.propose(); lineOf(text, "m=") != "m=audio 20000 RTP/SAVP 0 8 101" {
		t.Errorf("%s", text)
	}
	// To plain, and back.
	if _, c, _ := n.answer(offered("m=audio 4000 RTP/AVP 0")); c.flow.SRTP != nil {
		t.Error("a plain stream is encrypted")
	}
	if _, c, _ := n.answer(offer(7, 2)); c.flow.SRTP == nil || c.flow.SRTP == c4.flow.SRTP {
		t.Error("it is not encrypted again with a new beginning")
	}

	if w := logs.FilterMessageSnippet("unencrypted transport").Len(); w != 1 {
		t.Errorf("%d warnings of keys over UDP", w)
	}
	if (*told)[0] != "AES_CM_128_HMAC_SHA1_80<nil>" {
		t.Errorf("told %q", *told)
	}
	for _, e := range logs.All() {
		all := e.Message + fmt.Sprint(e.ContextMap())
		for _, secret := range []string{base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 30))[:20], lineOf(first, "a=crypto:")[40:60]} {
			if strings.Contains(all, secret) {
				t.Errorf("a key is in the log: %s", all)
			}
		}
	}
}

// A trunk is offered plain sound, whatever its transport, unless it is set to required;
// what it offers itself is taken.
func TestTrunksAreOfferedPlainSound(t *testing.T) {
	for _, c := range []struct{ policy, offer string }{{"", "RTP/AVP"}, {srtpOff, "RTP/AVP"}, {srtpOptional, "RTP/AVP"}, {srtpRequired, "RTP/SAVP"}} {
		s := &Server{cfg: DefaultConfig()}
		n := testNegotiation()
		(&Call{server: s, log: zap.NewNop()}).protect(n, &trunk{cfg: Trunk{SRTP: c.policy, SIP: sip.Trunk{Transport: "tls"}}})
		if got := lineOf(n.propose(), "m="); !strings.Contains(got, c.offer+" ") {
			t.Errorf("%q: %s", c.policy, got)
		}
		_, _, refusal := n.answer(offered("m=audio 4000 RTP/SAVP 0", cryptoLine(1, "AEAD_AES_128_GCM", 1)))
		if (refusal == nil) != (c.policy != srtpOff) {
			t.Errorf("%q: an encrypted offer: %v", c.policy, refusal)
		}
	}
}

func TestNoWarningOverTLS(t *testing.T) {
	n, logs, _ := sealed(t, srtpOptional, "tls")
	if _, _, refusal := n.answer(offered("m=audio 4000 RTP/SAVP 0", cryptoLine(1, "AEAD_AES_128_GCM", 1))); refusal != nil || logs.Len() != 0 {
		t.Errorf("%v, %v", refusal, logs.All())
	}
}

func TestWhatWeOffer(t *testing.T) { // BR-019
	for _, tt := range []struct{ policy, transport, want string }{
		{srtpOff, "tls", "RTP/AVP"}, {srtpOff, "wss", "RTP/AVP"}, {srtpOptional, "udp", "RTP/AVP"}, {srtpOptional, "tcp", "RTP/AVP"},
		{srtpOptional, "tls", "RTP/SAVP"}, {srtpOptional, "ws", "UDP/TLS/RTP/SAVPF"}, {srtpOptional, "wss", "UDP/TLS/RTP/SAVPF"},
		{srtpRequired, "udp", "RTP/SAVP"}, {srtpRequired, "tls", "RTP/SAVP"}, {srtpRequired, "wss", "UDP/TLS/RTP/SAVPF"}, {"", "udp", "RTP/AVP"},
	} {
		n, _, _ := sealed(t, tt.policy, tt.transport)
		text := n.propose()
		if got := strings.Fields(lineOf(text, "m="))[2]; got != tt.want {
			t.Errorf("%s over %s: %s, want %s", tt.policy, tt.transport, got, tt.want)
		}
		before, err := n.provisional()
		if err != nil || before.flow.Send || before.flow.Recv != (tt.want == "RTP/AVP") {
			t.Errorf("%s over %s: before the answer: %+v, %v", tt.policy, tt.transport, before.flow, err)
		}
	}
	// The answer to keys of ours, and one that does not fit.
	n, _, _ := sealed(t, srtpRequired, "tls")
	text := n.propose()
	if _, err := n.accepted(offered("m=audio 4000 RTP/AVP 0")); err == nil {
		t.Error("a plain answer to an encrypted offer was taken")
	}
	c, err := n.accepted(offered("m=audio 4000 RTP/SAVP 0", cryptoLine(4, "AES_CM_128_HMAC_SHA1_80", 9)))
	if err != nil || c.flow.SRTP == nil || !c.flow.Send {
		t.Fatalf("%v\n%s", err, text)
	}
	// The next offer has the keys of the first, and an answer with the same changes nothing.
	if again := n.propose(); lineOf(again, "a=crypto:4") != lineOf(text, "a=crypto:4") {
		t.Error("other keys are offered")
	}
	if c2, err := n.accepted(offered("m=audio 4000 RTP/SAVP 0", cryptoLine(4, "AES_CM_128_HMAC_SHA1_80", 9))); err != nil || c2.flow.SRTP != c.flow.SRTP {
		t.Errorf("%v", err)
	}
}

func TestABrowsersReINVITEs(t *testing.T) {
	n, _, _ := sealed(t, srtpOptional, "wss")
	first, c1, refusal := n.answer(browserOffer("F7gI", "actpass", fingerprintLine))
	if refusal != nil {
		t.Fatal(refusal)
	}
	f := c1.flow
	if f.DTLS == nil || f.DTLS.Client || f.ICE == nil || f.ICE.PeerUser != "F7gI" || len(f.ICE.User) < 4 || len(f.ICE.Password) < 22 || !f.Mux || f.SRTP != nil || c1.held || !f.Send {
		t.Fatalf("%+v", f)
	}
	// A hold: the same handshake, the same credentials.
	held, c2, _ := n.answer(browserOffer("F7gI", "actpass", fingerprintLine, "a=sendonly"))
	if c2.flow.DTLS != f.DTLS || c2.flow.ICE != f.ICE || !c2.held || lineOf(held, "a=ice-ufrag") != lineOf(first, "a=ice-ufrag") {
		t.Error("a hold began something anew")
	}
	// A restart of ICE: the same handshake, other credentials of ours too.
	moved, c3, _ := n.answer(browserOffer("G8hJ", "actpass", fingerprintLine))
	if c3.flow.DTLS != f.DTLS || c3.flow.ICE == f.ICE || c3.flow.ICE.User == f.ICE.User || c3.flow.ICE.PeerUser != "G8hJ" || lineOf(moved, "a=ice-pwd") == lineOf(first, "a=ice-pwd") {
		t.Error("a restart changed too little or too much")
	}
	// Our own offer: the same again.
	if text := n.propose(); lineOf(text, "a=mid") != "a=mid:0" || lineOf(text, "a=ice-ufrag") != lineOf(moved, "a=ice-ufrag") || lineOf(text, "a=setup") != "a=setup:actpass" {
		t.Errorf("%s", text)
	}
	// Another certificate: another handshake.
	_, c4, _ := n.answer(browserOffer("G8hJ", "actpass", strings.ReplaceAll(fingerprintLine, "7B:", "7C:")))
	if c4.flow.DTLS == f.DTLS || c4.flow.ICE != c3.flow.ICE {
		t.Error("another certificate is the same handshake")
	}
}

func TestTheRoleInAHandshakeStays(t *testing.T) {
	n, _, _ := sealed(t, srtpOptional, "tls")
	first, c1, refusal := n.answer(browserOffer("F7gI", "passive", fingerprintLine))
	if refusal != nil || !c1.flow.DTLS.Client || lineOf(first, "a=setup") != "a=setup:active" {
		t.Fatalf("%v\n%s", refusal, first)
	}
	again, c2, _ := n.answer(browserOffer("F7gI", "actpass", fingerprintLine)) // it leaves it to us now
	if c2.flow.DTLS != c1.flow.DTLS || lineOf(again, "a=setup") != "a=setup:active" {
		t.Errorf("the role changed amid a handshake:\n%s", again)
	}
	other, c3, _ := n.answer(browserOffer("F7gI", "actpass", strings.ReplaceAll(fingerprintLine, "7B:", "7C:")))
	if c3.flow.DTLS == c1.flow.DTLS || c3.flow.DTLS.Client || lineOf(other, "a=setup") != "a=setup:passive" {
		t.Errorf("a new handshake:\n%s", other)
	}
}

// A browser that cannot reach us ends its call with a cause that says so.
func TestAHandshakeThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := rtptest.New(1, rtptest.Conditions{})
		wheel, err := rtp.NewWheel(rtp.DefaultConfig(), rtp.WithListen(network.Listen))
		if err != nil {
			t.Fatal(err)
		}
		session, err := wheel.Listen()
		if err != nil {
			t.Fatal(err)
		}
		n, _, _ := sealed(t, srtpOptional, "wss")
		c := newCall(&Server{log: zap.NewNop()}, "test", inbound)
		n.guard.told = c.protected
		_, first, refusal := n.answer(browserOffer("F7gI", "actpass", fingerprintLine))
		if refusal != nil {
			t.Fatal(refusal)
		}
		session.SetFlow(first.flow)
		began := time.Now()
		<-c.ctx.Done()
		why := context.Cause(c.ctx)
		if cause, q850 := causeOf(why); cause != CauseUnprotected || q850 != 88 || !errors.Is(why, rtp.ErrHandshakeTimeout) || time.Since(began) != handshakeTimeout {
			t.Errorf("%q after %v: %v", cause, time.Since(began), why)
		}
		session.Close()
		if err := wheel.Close(); err != nil {
			t.Error(err)
		}
	})
}
