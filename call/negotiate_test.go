package call

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/media"
	"parley/media/g711"
	"parley/sip/sdp"
)

// offered is a session description with these lines below the usual head.
func offered(lines ...string) []byte {
	return []byte("v=0\r\no=x 1 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n" + strings.Join(lines, "\r\n") + "\r\n")
}

func testNegotiation() *negotiation {
	return newNegotiation(DefaultConfig(), []media.Codec{g711.PCMU(), g711.PCMA()}, netip.MustParseAddr("198.51.100.7"), 20000, 42)
}

// version is the version of the o= line.
func version(t *testing.T, text []byte) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^o=\S+ (\d+) (\d+) `).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no o= line in %q", text)
	}
	if string(m[1]) != "42" {
		t.Errorf("session id %s, want it constant at 42", m[1])
	}
	return string(m[2])
}

func TestOffersOneAfterTheOther(t *testing.T) {
	n := testNegotiation()
	steps := []struct {
		name       string
		offer      []byte
		code       int // of the refusal; 0: answered
		codec      string
		pt         uint8
		event      uint8 // a payload type that must be taken for digits
		send, recv bool
		packetTime time.Duration
		changed    bool // the answer differs from the one before
	}{
		{"first", offered("m=audio 4000 RTP/AVP 0 101", "a=rtpmap:101 telephone-event/8000"), 0, "PCMU", 0, 101, true, true, 20 * time.Millisecond, true},
		{"the same again", offered("m=audio 4000 RTP/AVP 0 101", "a=rtpmap:101 telephone-event/8000"), 0, "PCMU", 0, 101, true, true, 20 * time.Millisecond, false},
		{"A-law and another event type", offered("m=audio 4000 RTP/AVP 8 96", "a=rtpmap:8 PCMA/8000", "a=rtpmap:96 telephone-event/8000"), 0, "PCMA", 8, 96, true, true, 20 * time.Millisecond, true},
		{"fax", offered("m=image 6000 udptl t38"), 488, "", 0, 0, false, false, 0, false},
		{"only what we do not have", offered("m=audio 4000 RTP/AVP 18"), 488, "", 0, 0, false, false, 0, false},
		{"not a session description", []byte("hello"), 400, "", 0, 0, false, false, 0, false},
		{"hold", offered("m=audio 4000 RTP/AVP 8", "a=sendonly"), 0, "PCMA", 8, 0, false, true, 20 * time.Millisecond, true},
		{"inactive", offered("m=audio 4000 RTP/AVP 8", "a=inactive"), 0, "PCMA", 8, 0, false, false, 20 * time.Millisecond, true},
		{"old hold", offered("m=audio 4000 RTP/AVP 8", "c=IN IP4 0.0.0.0"), 0, "PCMA", 8, 0, false, true, 20 * time.Millisecond, true},
		{"resume with longer packets", offered("m=audio 4000 RTP/AVP 8", "a=ptime:30"), 0, "PCMA", 8, 0, true, true, 30 * time.Millisecond, true},
		{"short packets only", offered("m=audio 4000 RTP/AVP 8", "a=ptime:20", "a=maxptime:10"), 0, "PCMA", 8, 0, true, true, 10 * time.Millisecond, true},
	}
	last := ""
	for _, s := range steps {
		before := n.now
		answer, c, refusal := n.answer(s.offer)
		if s.code != 0 {
			if refusal == nil || refusal.Code != s.code || n.now != before {
				t.Errorf("%s: %v, want %d and the session as it was", s.name, refusal, s.code)
			}
			continue
		}
		if refusal != nil {
			t.Fatalf("%s: refused: %v", s.name, refusal)
		}
		if c.line.codec.Name != s.codec || c.flow.PayloadType != s.pt || c.flow.Send != s.send || c.line.packetTime != s.packetTime {
			t.Errorf("%s: %s type %d send %v %v, want %s %d %v %v", s.name, c.line.codec.Name, c.flow.PayloadType, c.flow.Send,
				c.line.packetTime, s.codec, s.pt, s.send, s.packetTime)
		}
		if s.event != 0 && !c.accept.event(s.event) {
			t.Errorf("%s: payload type %d is not taken for digits", s.name, s.event)
		}
		if !c.flow.Rearm {
			t.Errorf("%s: the latch must open after an offer", s.name)
		}
		v := version(t, answer)
		if last != "" && (v != last) != s.changed {
			t.Errorf("%s: version %s after %s, changed should be %v\n%s", s.name, v, last, s.changed, answer)
		}
		last = v
	}
}

func TestAnUnchangedCodecKeepsItsCodersAndBuffer(t *testing.T) {
	n := testNegotiation()
	_, first, _ := n.answer(offered("m=audio 4000 RTP/AVP 0"))
	_, second, _ := n.answer(offered("m=audio 4002 RTP/AVP 0", "a=sendonly"))
	if first.line != second.line || first.jitter != second.jitter {
		t.Error("a hold must not start the sound over")
	}
	if second.flow.Peer.Port() != 4002 || !second.held {
		t.Errorf("flow %+v, held %v", second.flow, second.held)
	}
}

func TestOurOfferAndItsAnswer(t *testing.T) {
	n := testNegotiation()
	text := n.propose()
	c, err := n.provisional()
	if err != nil || c.flow.Send || c.line.codec.Name != "PCMU" {
		t.Fatalf("before the answer: %+v, %v; nothing may be sent", c, err)
	}
	if offer, err := sdp.Parse(text); err != nil || offer == nil {
		t.Fatal("our own offer:", err)
	}
	if c, err = n.accepted(offered("m=audio 4000 RTP/AVP 8 96", "a=rtpmap:96 telephone-event/8000")); err != nil {
		t.Fatal(err)
	}
	if c.line.codec.Name != "PCMA" || !c.flow.Send || !c.accept.event(96) {
		t.Errorf("after the answer: %s, flow %+v", c.line.codec.Name, c.flow)
	}
	if _, err = n.accepted(offered("m=audio 4000 RTP/AVP 8")); !errors.Is(err, errNoOffer) {
		t.Errorf("a second answer: %v, want errNoOffer", err)
	}
	n.propose()
	if _, err = n.accepted(offered("m=audio 4000 RTP/AVP 18")); err == nil {
		t.Error("an answer with a codec that was not offered must fail")
	}
	if _, err = n.accepted([]byte("hello")); !errors.Is(err, errBadOffer) {
		t.Errorf("an unreadable answer: %v", err)
	}
}
