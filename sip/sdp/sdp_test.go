package sdp

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	pion "github.com/pion/sdp/v3"
)

var (
	pcmu = Codec{Name: "PCMU", PayloadType: 0, ClockRate: 8000}
	pcma = Codec{Name: "PCMA", PayloadType: 8, ClockRate: 8000}
	opus = Codec{Name: "opus", PayloadType: 111, ClockRate: 48000, Channels: 2, Params: "useinbandfec=1"}
)

func local(codecs ...Codec) Local {
	return Local{Addr: netip.MustParseAddr("192.0.2.10"), Port: 20000, Codecs: codecs, Events: true,
		SessionID: 77, Version: 3}
}

func lines(l ...string) string { return strings.Join(l, "\r\n") + "\r\n" }

func plainOffer(m ...string) string {
	return lines(append([]string{"v=0", "o=- 1 1 IN IP4 198.51.100.7", "s=-", "c=IN IP4 198.51.100.7", "t=0 0"}, m...)...)
}

// mLines are the m= lines of a text.
func mLines(text string) []string {
	var all []string
	for l := range strings.SplitSeq(text, "\r\n") {
		if strings.HasPrefix(l, "m=") {
			all = append(all, l)
		}
	}
	return all
}

func has(text, line string) bool {
	return strings.Contains("\r\n"+text, "\r\n"+line+"\r\n")
}

func answer(t *testing.T, offer string, l Local) (string, Media) {
	t.Helper()
	s, err := Parse([]byte(offer))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	text, m, err := answerTo(s, l)
	if err != nil {
		t.Fatalf("Answer: %v", err)
	}
	strict(t, string(text))
	return string(text), m
}

// strict reads our text with a parser that forgives nothing.
func strict(t *testing.T, text string) {
	t.Helper()
	var d pion.SessionDescription
	// That parser knows no m=image, which RFC 6466 has.
	if err := d.UnmarshalString(strings.ReplaceAll(text, "m=image 0 udptl t38", "m=application 0 UDP t38")); err != nil {
		t.Errorf("a strict parser refuses our text: %v\n%s", err, text)
	}
	if strings.Count(text, "\n") != strings.Count(text, "\r\n") || !strings.HasSuffix(text, "\r\n") {
		t.Errorf("line ends: %q", text)
	}
}

func TestAnswerTakes(t *testing.T) {
	tests := []struct {
		name   string
		offer  string
		codecs []Codec
		m      []string // m= lines of the answer
		lines  []string // that must be there
		never  []string // that must not
		check  func(Media) bool
	}{
		{
			name:   "G.711 with events",
			offer:  plainOffer("m=audio 4000 RTP/AVP 0 8 101", "a=rtpmap:0 PCMU/8000", "a=rtpmap:8 PCMA/8000", "a=rtpmap:101 telephone-event/8000", "a=fmtp:101 0-16", "a=ptime:30"),
			codecs: []Codec{pcma, pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 8 101"},
			lines:  []string{"o=parley 77 3 IN IP4 192.0.2.10", "a=rtpmap:8 PCMA/8000", "a=rtpmap:101 telephone-event/8000", "a=fmtp:101 0-15", "a=sendrecv", "a=ptime:20"},
			check: func(m Media) bool {
				return m.Codec.Name == "PCMA" && m.Codec.PayloadType == 8 && m.Events && m.SendEventPT == 101 && m.Send && m.Recv && !m.Held &&
					m.Peer.String() == "198.51.100.7:4000" && m.RTCP.Port() == 4001 && m.PacketTime == 30*time.Millisecond
			},
		},
		{
			name:   "BR-002 the offer's own number for events",
			offer:  plainOffer("m=audio 4000 RTP/AVP 8 96", "a=rtpmap:8 PCMA/8000", "a=rtpmap:96 telephone-event/8000"),
			codecs: []Codec{pcmu, pcma},
			m:      []string{"m=audio 20000 RTP/AVP 8 96"},
			check:  func(m Media) bool { return m.SendEventPT == 96 && m.RecvEventPT == 96 },
		},
		{
			name:   "BR-005 a stream switched off before",
			offer:  plainOffer("m=audio 0 RTP/AVP 100", "m=audio 5000 RTP/AVP 0"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 0 RTP/AVP 100", "m=audio 20000 RTP/AVP 0"},
			check:  func(m Media) bool { return m.Index == 1 && m.Peer.Port() == 5000 && !m.Events },
		},
		{
			name:   "BR-005 a stream switched off behind, with a number that is none",
			offer:  plainOffer("m=audio 5000 RTP/AVP 8 101", "m=video 0 RTP/AVP 255", "c=nonsense"),
			codecs: []Codec{pcma},
			m:      []string{"m=audio 20000 RTP/AVP 8", "m=video 0 RTP/AVP 255"},
		},
		{
			name: "BR-007 the clock of events is that of Opus",
			offer: plainOffer("m=audio 4000 RTP/AVP 102 8 103 101", "a=rtpmap:102 opus/48000/2", "a=rtpmap:8 PCMA/8000",
				"a=rtpmap:103 telephone-event/48000", "a=rtpmap:101 telephone-event/8000"),
			codecs: []Codec{opus, pcma},
			m:      []string{"m=audio 20000 RTP/AVP 102 103"},
			lines:  []string{"a=rtpmap:102 opus/48000/2", "a=fmtp:102 useinbandfec=1"},
			check: func(m Media) bool {
				return m.EventClock == 48000 && m.Codec.PayloadType == 102 && m.OtherEventPT == 101
			},
		},
		{
			name: "BR-007 the clock of events is that of PCMA",
			offer: plainOffer("m=audio 4000 RTP/AVP 102 8 103 101", "a=rtpmap:102 opus/48000/2", "a=rtpmap:8 PCMA/8000",
				"a=rtpmap:103 telephone-event/48000", "a=rtpmap:101 telephone-event/8000"),
			codecs: []Codec{pcma},
			m:      []string{"m=audio 20000 RTP/AVP 8 101"},
			check:  func(m Media) bool { return m.EventClock == 8000 && m.OtherEventPT == 103 },
		},
		{
			name:   "BR-007 events of another clock only are better than none",
			offer:  plainOffer("m=audio 4000 RTP/AVP 102 101", "a=rtpmap:102 opus/48000/2", "a=rtpmap:101 telephone-event/8000"),
			codecs: []Codec{opus},
			m:      []string{"m=audio 20000 RTP/AVP 102 101"},
			lines:  []string{"a=rtpmap:101 telephone-event/8000"},
			check:  func(m Media) bool { return m.Events && m.EventClock == 8000 },
		},
		{
			name:   "BR-010 audio beside a fax that is off",
			offer:  plainOffer("m=audio 4000 RTP/AVP 0", "m=image 0 udptl t38"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0", "m=image 0 udptl t38"},
		},
		{
			name:   "BR-014 hold of RFC 2543, no attributes",
			offer:  lines("v=0", "o=- 1 1 IN IP4 0.0.0.0", "s=-", "c=IN IP4 0.0.0.0", "t=0 0", "m=audio 4000 RTP/AVP 0 101"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
			lines:  []string{"a=recvonly"},
			check:  func(m Media) bool { return m.Held && !m.Send && m.Recv && !m.Peer.IsValid() && !m.RTCP.IsValid() },
		},
		{
			name: "BR-017 our fmtp, their number",
			offer: plainOffer("m=audio 4000 RTP/AVP 96", "a=rtpmap:96 opus/48000/2",
				"a=fmtp:96 stereo=1;sprop-stereo=1;useinbandfec=1;usedtx=1;foo=1"),
			codecs: []Codec{opus},
			m:      []string{"m=audio 20000 RTP/AVP 96"},
			lines:  []string{"a=fmtp:96 useinbandfec=1"},
			never:  []string{"a=fmtp:96 stereo=1;sprop-stereo=1;useinbandfec=1;usedtx=1;foo=1"},
			check:  func(m Media) bool { return strings.Contains(m.Codec.Params, "usedtx=1") },
		},
		{
			name:   "BR-020 two streams of a recorder",
			offer:  plainOffer("m=audio 4000 RTP/AVP 0", "a=sendonly", "a=label:1", "m=audio 4002 RTP/AVP 0", "a=sendonly", "a=label:2"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0", "m=audio 0 RTP/AVP 0"},
			lines:  []string{"a=recvonly"},
		},
		{
			name: "BR-023 everything out of order",
			offer: "v=0\ns=\nt=0 0 \no=- 1 1 IN IP4 127.0.0.1\na=x:y\ne=a@b\nb=X-Y:1\nc=IN IP4 198.51.100.7\nk=clear:x\n" +
				"m=audio 4000/1 RTP/AVP 0 \na=rtpmap:0 PCMU/8000\nb=AS:1024\nb=TIAS:96000\nr=1 2 3\nz=0 0\n\n",
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
			check:  func(m Media) bool { return m.Peer.String() == "198.51.100.7:4000" },
		},
		{
			name:   "BR-023 no s, no t, c only at the stream",
			offer:  "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\nm=audio 4000 RTP/AVP 0\r\nc=IN IP4 127.0.0.1/127",
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
			check:  func(m Media) bool { return m.Peer.Addr().String() == "127.0.0.1" },
		},
		{
			name: "BR-025 ICE on a plain trunk",
			offer: plainOffer("a=group:BUNDLE 0", "m=audio 4000 RTP/AVP 0", "a=rtcp-mux", "a=mid:0", "a=ice-ufrag:x",
				"a=candidate:1 1 UDP 1 10.0.0.1 4000 typ host", "a=extmap:1 urn:x", "a=ssrc:1 cname:x"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
			lines:  []string{"a=rtcp-mux"},
			never:  []string{"a=mid:0", "a=group:BUNDLE 0"},
			check:  func(m Media) bool { return m.RTCPMux && m.RTCP == m.Peer },
		},
		{
			name:   "BR-026 RTCP elsewhere",
			offer:  plainOffer("m=audio 4000 RTP/AVP 0", "a=rtcp:4009 IN IP4 198.51.100.8"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
			check:  func(m Media) bool { return !m.RTCPMux && m.RTCP.String() == "198.51.100.8:4009" },
		},
		{
			name:   "VoIP metrics are wanted",
			offer:  plainOffer("a=rtcp-xr:rcvr-rtt=all:10000 stat-summary=loss voip-metrics", "m=audio 4000 RTP/AVP 0"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
			lines:  []string{"a=rtcp-xr:voip-metrics"},
			check:  func(m Media) bool { return m.VoIPMetrics },
		},
		{
			name:   "other extended reports are wanted",
			offer:  plainOffer("m=audio 4000 RTP/AVP 0", "a=rtcp-xr:rcvr-rtt=all", "a=rtcp-xr:voip-metrics=x"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
			never:  []string{"a=rtcp-xr:voip-metrics"},
			check:  func(m Media) bool { return !m.VoIPMetrics },
		},
		{
			name:   "AVPF is answered AVPF, behind an encrypted stream",
			offer:  plainOffer("m=audio 3000 RTP/SAVP 0", "m=audio 4000 RTP/AVPF 0"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 0 RTP/SAVP 0", "m=audio 20000 RTP/AVPF 0"},
		},
		{
			name:   "a host name in c=",
			offer:  lines("v=0", "o=- 1 1 IN IP4 sbc.example.com", "s=-", "c=IN IP4 sbc.example.com", "t=0 0", "m=audio 4000 RTP/AVP 0"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
			check:  func(m Media) bool { return m.Host == "sbc.example.com" && !m.Peer.IsValid() && !m.Held },
		},
		{
			name:   "packets no longer than maxptime, times echoed",
			offer:  strings.Replace(plainOffer("m=audio 4000 RTP/AVP 0", "a=maxptime:10"), "t=0 0", "t=3034423619 3042462419", 1),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
			lines:  []string{"a=ptime:10", "t=3034423619 3042462419"},
		},
		{
			name:   "opus without channels, unknown formats between",
			offer:  plainOffer("m=audio 4000 RTP/AVP 97 x 99 98", "a=rtpmap:97 speex/8000", "a=rtpmap:98 OPUS/48000", "a=rtpmap:99 broken"),
			codecs: []Codec{opus},
			m:      []string{"m=audio 20000 RTP/AVP 98"},
		},
		{
			name:   "a media c= wins over that of the session",
			offer:  plainOffer("m=audio 4000 RTP/AVP 0", "c=IN IP4 203.0.113.9"),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
			check:  func(m Media) bool { return m.Peer.Addr().String() == "203.0.113.9" },
		},
		{
			name:   "BR-161 an origin that makes no sense",
			offer:  strings.Replace(plainOffer("m=audio 4000 RTP/AVP 0"), "o=- 1 1", "o=;1001 1 1", 1),
			codecs: []Codec{pcmu},
			m:      []string{"m=audio 20000 RTP/AVP 0"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, m := answer(t, tt.offer, local(tt.codecs...))
			if got := mLines(text); strings.Join(got, "|") != strings.Join(tt.m, "|") {
				t.Errorf("m= lines %q, want %q", got, tt.m)
			}
			for _, l := range tt.lines {
				if !has(text, l) {
					t.Errorf("no line %q in\n%s", l, text)
				}
			}
			for _, l := range tt.never {
				if has(text, l) {
					t.Errorf("line %q in\n%s", l, text)
				}
			}
			if tt.check != nil && !tt.check(m) {
				t.Errorf("agreed: %+v", m)
			}
		})
	}
}

func TestAnswerDirections(t *testing.T) {
	tests := []struct {
		session, stream  string
		want             string
		send, recv, held bool
	}{
		{"", "", "sendrecv", true, true, false},
		{"", "a=sendrecv", "sendrecv", true, true, false},
		{"", "a=sendonly", "recvonly", false, true, true},
		{"", "a=recvonly", "sendonly", true, false, false},
		{"", "a=inactive", "inactive", false, false, true},
		{"a=sendonly", "", "recvonly", false, true, true},
		{"a=inactive", "a=sendrecv", "sendrecv", true, true, false},
	}
	for _, tt := range tests {
		text, m := answer(t, plainOffer(tt.session+"\r\nm=audio 4000 RTP/AVP 0", tt.stream), local(pcmu))
		if !has(text, "a="+tt.want) || m.Send != tt.send || m.Recv != tt.recv || m.Held != tt.held {
			t.Errorf("session %q stream %q: send %v recv %v held %v in\n%s", tt.session, tt.stream, m.Send, m.Recv, m.Held, text)
		}
	}
}

func TestAnswerRefuses(t *testing.T) {
	tests := []struct {
		name, offer string
		warning     int
		text        string
	}{
		{"codec", plainOffer("m=audio 4000 RTP/AVP 18 4"), 305, "PCMU/8000"},
		{"events alone", plainOffer("m=audio 4000 RTP/AVP 101", "a=rtpmap:101 telephone-event/8000"), 305, "No common codec"},
		{"BR-008 SDES", plainOffer("m=audio 4000 RTP/SAVP 0", "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:x"), 302, "Encrypted media"},
		{"BR-025 DTLS", plainOffer("m=audio 9 UDP/TLS/RTP/SAVPF 111 0", "a=fingerprint:sha-256 00"), 302, "Encrypted media"},
		{"profile", plainOffer("m=audio 4000 TCP/MRCP 0"), 302, "Profile"},
		{"BR-010 fax", plainOffer("m=image 6000 udptl t38"), 304, "T.38"},
		{"fax beside a stream that is off", plainOffer("m=audio 0 RTP/AVP 0", "m=image 6000 udptl t38"), 304, "T.38"},
		{"video", plainOffer("m=video 6000 RTP/AVP 96"), 304, "video"},
		{"all off", plainOffer("m=audio 0 RTP/AVP 0"), 304, "no active media"},
		{"no media", plainOffer(), 304, "no active media"},
		{"a codec tells more than a profile", plainOffer("m=audio 4000 RTP/SAVP 0", "m=audio 4002 RTP/AVP 18"), 305, "No common codec"},
		{"BR-022 family", strings.ReplaceAll(plainOffer("m=audio 4000 RTP/AVP 0"), "IP4 198.51.100.7", "IP6 2001:db8::7"), 301, "IP4"},
		{"no c=", strings.Replace(plainOffer("m=audio 4000 RTP/AVP 0"), "c=IN IP4 198.51.100.7\r\n", "", 1), 300, "no c="},
		{"c= of another network", strings.Replace(plainOffer("m=audio 4000 RTP/AVP 0"), "c=IN IP4", "c=ATM NSAP", 1), 300, "not IN"},
		{"c= of another family", strings.Replace(plainOffer("m=audio 4000 RTP/AVP 0"), "c=IN IP4", "c=IN IP9", 1), 300, "IP9"},
		{"c= without address", strings.Replace(plainOffer("m=audio 4000 RTP/AVP 0"), "c=IN IP4 198.51.100.7", "c=IN IP4 1.2.3.999", 1), 300, "no address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Parse([]byte(tt.offer))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = answerTo(s, local(pcmu, pcma))
			var r *Refusal
			if !errors.As(err, &r) {
				t.Fatalf("error %v", err)
			}
			if r.Code != 488 || r.Warning != tt.warning || !strings.Contains(r.Error(), tt.text) {
				t.Errorf("refusal %+v, want %d with %q", r, tt.warning, tt.text)
			}
		})
	}
}

func TestIPv6(t *testing.T) {
	l := local(pcmu)
	l.Addr = netip.MustParseAddr("2001:db8::1")
	for _, c := range []string{"IN IP6 2001:db8::7", "IN IP6 [2001:db8::7]", "IN IP6 2001:db8::7/3", "IN IP6 2001:0DB8:0:0::7", "in ip6 2001:db8::7%eth0"} {
		text, m := answer(t, lines("v=0", "o=- 1 1 IN IP6 ::1", "s=-", "c="+c, "t=0 0", "m=audio 4000 RTP/AVP 0"), l)
		if m.Peer.String() != "[2001:db8::7]:4000" || !has(text, "c=IN IP6 2001:db8::1") {
			t.Errorf("%s: peer %v in\n%s", c, m.Peer, text)
		}
	}
	text, m := answer(t, lines("v=0", "o=- 1 1 IN IP6 ::", "s=-", "c=IN IP6 ::", "t=0 0", "m=audio 4000 RTP/AVP 0", "a=inactive"), l)
	if !m.Held || !has(text, "a=inactive") {
		t.Errorf("hold with :: gives %+v\n%s", m, text)
	}
	// Written as IPv6, but IPv4 on the wire.
	_, m = answer(t, strings.ReplaceAll(plainOffer("m=audio 4000 RTP/AVP 0"), "IP4 198.51.100.7", "IP6 ::ffff:198.51.100.7"), local(pcmu))
	if m.Peer.String() != "198.51.100.7:4000" {
		t.Errorf("mapped address: %v", m.Peer)
	}
}

func TestOfferAndAccept(t *testing.T) {
	l := local(opus, pcmu, pcma)
	offer := Offer(l)
	strict(t, string(offer))
	if got := mLines(string(offer)); len(got) != 1 || got[0] != "m=audio 20000 RTP/AVP 111 0 8 101 102" {
		t.Fatalf("offer: %q", got)
	}
	for _, line := range []string{"a=rtpmap:101 telephone-event/48000", "a=rtpmap:102 telephone-event/8000", "a=sendrecv", "a=fmtp:111 useinbandfec=1"} {
		if !has(string(offer), line) {
			t.Errorf("no %q in\n%s", line, offer)
		}
	}
	tests := []struct {
		name   string
		answer string
		check  func(Media) bool
	}{
		{"BR-016 other numbers than ours", plainOffer("m=audio 4000 RTP/AVP 107 96", "a=rtpmap:107 opus/48000/2", "a=rtpmap:96 telephone-event/48000"),
			func(m Media) bool {
				return m.Codec.Name == "opus" && m.Codec.PayloadType == 107 && m.RecvPT == 111 && m.SendEventPT == 96 && m.RecvEventPT == 101 && m.OtherEventPT == 102 && m.Send && m.Recv
			}},
		{"BR-011 music on hold", plainOffer("m=audio 4000 RTP/AVP 0 96", "a=rtpmap:96 telephone-event/8000", "a=sendonly"),
			func(m Media) bool {
				return m.Held && !m.Send && m.Recv && m.SendEventPT == 96 && m.RecvEventPT == 102 && m.EventClock == 8000
			}},
		{"their order", plainOffer("m=audio 4000 RTP/AVP 8 0"), func(m Media) bool { return m.Codec.Name == "PCMA" && !m.Events }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Parse([]byte(tt.answer))
			if err != nil {
				t.Fatal(err)
			}
			m, err := Accept(offer, s, l)
			if err != nil || !tt.check(m) {
				t.Errorf("%v, %+v", err, m)
			}
		})
	}
}

func TestAcceptRefuses(t *testing.T) {
	l := local(pcmu)
	offer := Offer(l)
	for name, text := range map[string]string{
		"refused":        plainOffer("m=audio 0 RTP/AVP 0"),
		"more streams":   plainOffer("m=audio 4000 RTP/AVP 0", "m=video 0 RTP/AVP 96"),
		"none":           plainOffer(),
		"other media":    plainOffer("m=image 4000 udptl t38"),
		"BR-019 profile": plainOffer("m=audio 4000 RTP/SAVP 0"),
		"other codec":    plainOffer("m=audio 4000 RTP/AVP 18"),
		"events alone":   plainOffer("m=audio 4000 RTP/AVP 101", "a=rtpmap:101 telephone-event/8000"),
		"family":         strings.ReplaceAll(plainOffer("m=audio 4000 RTP/AVP 0"), "IP4 198.51.100.7", "IP6 ::1"),
	} {
		s, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var r *Refusal
		if m, err := Accept(offer, s, l); !errors.As(err, &r) {
			t.Errorf("%s: %v, %+v", name, err, m)
		}
	}
	if _, err := Accept([]byte("x"), &Session{}, l); err == nil {
		t.Error("our own offer was not checked")
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "line 1",
		"s=-\r\n":                       "line 1",
		"v=1\r\n":                       "line 1",
		"v=0\r\nnonsense\r\n":           "line 2",
		"v=0\r\nm=audio\r\n":            "line 2",
		"v=0\r\nm=audio x RTP/AVP 0":    "line 2",
		"v=0\r\nm=audio 70000 RTP/AVP":  "line 2",
		"v=0\r\nm=audio -1 RTP/AVP":     "line 2",
		"v=0\r\ns=-\r\nm=aud\x01io 1 R": "line 3",
		"v=0\r\n" + strings.Repeat("m=audio 1 RTP/AVP 0\r\n", 65): "line 66",
		strings.Repeat("a", 70000):                                "bytes",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: error %v, want %q", text, err, want)
		}
	}
}

func TestChanged(t *testing.T) {
	l := local(pcmu)
	a := Offer(l)
	l.Version++
	b := Offer(l)
	l.Port++
	c := Offer(l)
	if string(a) == string(b) || Changed(a, b) || !Changed(a, c) {
		t.Error("only what is beside the o= line counts")
	}
	if Changed([]byte("x"), []byte("x")) || !Changed([]byte("v=0\no="), []byte("v=1\no=1")) {
		t.Error("texts without a whole o= line")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(plainOffer("m=audio 4000 RTP/AVP 0 8 101", "a=rtpmap:101 telephone-event/8000", "a=sendonly", "a=ptime:20")))
	f.Add([]byte(plainOffer("m=audio 0 RTP/AVP 100", "m=image 6000 udptl t38", "m=audio 9 RTP/AVPF 111", "a=rtpmap:111 opus/48000/2", "a=rtcp:9 IN IP6 ::1", "a=rtcp-mux")))
	f.Add([]byte("v=0\no=;1001 1 1 IN IP4 0\nc=IN IP6 [::1%lo]/1\nm=audio 1/2 RTP/AVP 0 \nc=IN IP4 x\nb=AS:1\n\n"))
	f.Add([]byte("v=0\r\nm=audio 65535 RTP/AVP 0\r\nc=IN IP4 1.1.1.1\r\na=maxptime:1.5\r\na=ptime:nan\r\n"))
	l := local(opus, pcmu, pcma)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse(b)
		if err != nil {
			return
		}
		_, _ = Accept(Offer(l), s, l)
		text, m, err := answerTo(s, l)
		if err != nil {
			return
		}
		back, err := Parse(text)
		if err != nil {
			t.Fatalf("our own answer is refused: %v\n%s", err, text)
		}
		if len(back.media) != len(s.media) {
			t.Fatalf("%d streams for %d", len(back.media), len(s.media))
		}
		for i, line := range back.media {
			if (line.port != 0) != (i == m.Index) || line.kind != s.media[i].kind || line.proto != s.media[i].proto {
				t.Fatalf("stream %d: %+v for %+v", i, line, s.media[i])
			}
		}
		if m.Send && m.Held {
			t.Fatalf("sends while held: %+v", m)
		}
	})
}

func TestWhereOurRTCPIs(t *testing.T) { // BR-026
	l := local(pcmu)
	tests := []struct {
		port        uint16
		offersMux   bool // the peer in its offer, or we in ours
		answer, own []string
	}{
		{0, false, nil, nil},
		{20001, false, nil, nil},
		{31000, false, []string{"a=rtcp:31000"}, []string{"a=rtcp:31000"}},
		{31000, true, []string{"a=rtcp-mux"}, []string{"a=rtcp:31000", "a=rtcp-mux"}},
	}
	for _, tt := range tests {
		l.RTCPPort, l.RTCPMux = tt.port, tt.offersMux
		lines := []string{"m=audio 4000 RTP/AVP 0"}
		if tt.offersMux {
			lines = append(lines, "a=rtcp-mux")
		}
		offer, err := Parse([]byte(plainOffer(lines...)))
		if err != nil {
			t.Fatal(err)
		}
		answer, _, err := answerTo(offer, l)
		if err != nil {
			t.Fatal(err)
		}
		own := Offer(l)
		for _, text := range [][]byte{answer, own} {
			strict(t, string(text))
		}
		rtcpLines := func(b []byte) (found []string) {
			for line := range strings.Lines(string(b)) {
				if strings.HasPrefix(line, "a=rtcp") {
					found = append(found, strings.TrimSpace(line))
				}
			}
			return found
		}
		if got := rtcpLines(answer); !slices.Equal(got, tt.answer) {
			t.Errorf("%+v: the answer has %q", tt, got)
		}
		if got := rtcpLines(own); !slices.Equal(got, tt.own) {
			t.Errorf("%+v: the offer has %q", tt, got)
		}
		// An answer that shares the port is obeyed only if that was offered.
		theirs, err := Parse([]byte(plainOffer("m=audio 4000 RTP/AVP 0", "a=rtcp-mux")))
		if err != nil {
			t.Fatal(err)
		}
		m, err := Accept(own, theirs, l)
		if err != nil || m.RTCPMux != tt.offersMux || (m.RTCP == m.Peer) != tt.offersMux {
			t.Errorf("%+v: %+v, %v", tt, m, err)
		}
	}
}

func TestOurHoldIsOfferedAndStays(t *testing.T) {
	l := local(pcmu)
	l.Hold = true
	offer := string(Offer(l))
	if !strings.Contains(offer, "a=sendonly\r\n") {
		t.Errorf("our hold is offered as\n%s", offer)
	}
	for _, c := range []struct{ theirs, ours string }{
		{"sendrecv", "sendonly"}, {"recvonly", "sendonly"}, {"sendonly", "inactive"}, {"inactive", "inactive"},
	} {
		peer, err := Parse([]byte("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\na=" + c.theirs + "\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		answer, m, err := answerTo(peer, l)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(answer), "a="+c.ours+"\r\n") || m.Recv {
			t.Errorf("%s is answered by recv %v and\n%s; want %s", c.theirs, m.Recv, answer, c.ours)
		}
	}
}

// answerTo is the answer to an offer, and what it holds.
func answerTo(offer *Session, l Local) ([]byte, Media, error) {
	a, err := Agree(offer, l)
	if err != nil {
		return nil, Media{}, err
	}
	return a.Text(l), a.Media, nil
}
