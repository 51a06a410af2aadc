package sdp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// ours is what we would send with: another key for each suite.
var ours = []Crypto{
	{Suite: "AEAD_AES_256_GCM", Key: bytes.Repeat([]byte{1}, 44)},
	{Suite: "AEAD_AES_128_GCM", Key: bytes.Repeat([]byte{2}, 28)},
	{Suite: "AES_256_CM_HMAC_SHA1_80", Key: bytes.Repeat([]byte{3}, 46)},
	{Suite: "AES_CM_128_HMAC_SHA1_80", Key: bytes.Repeat([]byte{4}, 30)},
	{Suite: "AES_256_CM_HMAC_SHA1_32", Key: bytes.Repeat([]byte{5}, 46)},
	{Suite: "AES_CM_128_HMAC_SHA1_32", Key: bytes.Repeat([]byte{6}, 30)},
}

func key(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xA5}, n)) }

func secured(p Policy) Local {
	l := local(opus, pcmu, pcma)
	l.SRTP, l.Crypto = p, ours
	l.Fingerprint = Fingerprint{Hash: "sha-256", Sum: bytes.Repeat([]byte{0xC0}, 32)}
	l.ICE = ICE{User: "ufragufr", Password: "passwordpasswordpassword"}
	return l
}

const peersPrint = "sha-256 7B:8B:F0:65:5F:78:E2:51:3B:AC:6F:F3:3F:46:1B:35:DC:B8:5F:64:1A:24:C2:43:F0:A1:58:D0:A1:2C:19:08"

// What real telephones offer, and what they must be answered.
var offers = []struct {
	name  string
	offer string
	kind  Protection
	suite string // of SDES
	mLine string // of the answer
	want  []string
	never []string // prefixes of lines that must not be there
}{
	{"FreeSWITCH, AES_256 first", lines("v=0", "o=FreeSWITCH 1700000000 1700000001 IN IP4 198.51.100.7", "s=FreeSWITCH", "c=IN IP4 198.51.100.7", "t=0 0",
		"m=audio 28000 RTP/SAVP 8 0 101", "a=rtpmap:8 PCMA/8000", "a=rtpmap:0 PCMU/8000", "a=rtpmap:101 telephone-event/8000", "a=fmtp:101 0-15",
		"a=crypto:1 AEAD_AES_256_GCM_8 inline:"+key(44), "a=crypto:3 AES_CM_256_HMAC_SHA1_80 inline:"+key(46), "a=crypto:7 AES_CM_128_HMAC_SHA1_80 inline:"+key(30), "a=ptime:20"),
		BySDES, "AES_256_CM_HMAC_SHA1_80", "m=audio 20000 RTP/SAVP 0 101",
		[]string{"a=crypto:3 AES_CM_256_HMAC_SHA1_80 inline:" + base64.StdEncoding.EncodeToString(ours[2].Key)}, []string{"a=crypto:1", "a=crypto:7", "a=fingerprint", "a=ice"}},
	{"FreeSWITCH, both profiles", lines("v=0", "o=FreeSWITCH 1 2 IN IP4 198.51.100.7", "s=FreeSWITCH", "c=IN IP4 198.51.100.7", "t=0 0",
		"m=audio 28000 RTP/AVP 8 0", "m=audio 28000 RTP/SAVP 8 0", "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:"+key(30)),
		BySDES, "AES_CM_128_HMAC_SHA1_80", "m=audio 0 RTP/AVP 8 0\nm=audio 20000 RTP/SAVP 0", nil, nil},
	{"tag 7 alone", plainOffer("m=audio 4000 RTP/SAVP 8 0 101", "a=crypto:7 AES_CM_128_HMAC_SHA1_80 inline:"+key(30)+"|2^20|1:4 KDR=0 WSH=64 -X"),
		BySDES, "AES_CM_128_HMAC_SHA1_80", "m=audio 20000 RTP/SAVP 0", []string{"a=crypto:7 AES_CM_128_HMAC_SHA1_80 inline:" + base64.StdEncoding.EncodeToString(ours[3].Key) + "|2^31|1:4"}, nil},
	{"Twilio", lines("v=0", "o=root 1 1 IN IP4 198.51.100.7", "s=Twilio Media Gateway", "c=IN IP4 198.51.100.7", "t=0 0", "m=audio 17000 RTP/SAVP 0 8 101",
		"a=rtpmap:0 PCMU/8000", "a=rtpmap:8 PCMA/8000", "a=rtpmap:101 telephone-event/8000", "a=fmtp:101 0-16", "a=ptime:20", "a=maxptime:20",
		"a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:"+key(30), "a=sendrecv"),
		BySDES, "AES_CM_128_HMAC_SHA1_80", "m=audio 20000 RTP/SAVP 0 101", nil, nil},
	{"linphone, AVP with keys", plainOffer("m=audio 7078 RTP/AVP 96 0 8", "a=rtpmap:96 opus/48000/2", "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:"+key(30), "a=crypto:2 AES_CM_128_HMAC_SHA1_32 inline:"+key(30)),
		BySDES, "AES_CM_128_HMAC_SHA1_80", "m=audio 20000 RTP/AVP 96", nil, nil},
	{"linphone, SAVPF", plainOffer("m=audio 7078 RTP/SAVPF 96 0 8", "a=rtpmap:96 opus/48000/2", "a=rtcp-fb:* trr-int 5000", "a=crypto:1 AEAD_AES_128_GCM inline:"+key(28)+"|2^48"),
		BySDES, "AEAD_AES_128_GCM", "m=audio 20000 RTP/SAVPF 96", nil, nil},
	{"Skype, two keys with MKIs", plainOffer("m=audio 50000 RTP/SAVP 0", "a=crypto:2 AES_CM_128_HMAC_SHA1_80 inline:"+key(30)+"|2^31|1:1;inline:"+key(30)+"|2^31|2:1"),
		BySDES, "AES_CM_128_HMAC_SHA1_80", "m=audio 20000 RTP/SAVP 0", nil, nil},
	{"baresip, DTLS", plainOffer("m=audio 10000 UDP/TLS/RTP/SAVPF 0 101", "a=rtpmap:101 telephone-event/8000", "a=rtcp:10001", "a=rtcp-mux", "a=fingerprint:SHA-256 "+peersPrint[8:], "a=setup:actpass"),
		ByDTLS, "", "m=audio 20000 UDP/TLS/RTP/SAVPF 0 101", []string{"a=setup:passive", "a=rtcp-mux"}, []string{"a=ice", "a=candidate", "a=group", "a=mid", "a=crypto"}},
	{"Asterisk, WebRTC", lines("v=0", "o=- 1 2 IN IP4 198.51.100.7", "s=Asterisk", "c=IN IP4 198.51.100.7", "t=0 0", "a=group:BUNDLE audio-0", "m=audio 13000 UDP/TLS/RTP/SAVPF 111 0 101",
		"a=connection:new", "a=setup:active", "a=fingerprint:"+peersPrint, "a=rtpmap:111 opus/48000/2", "a=rtpmap:101 telephone-event/48000", "a=rtcp-mux", "a=ssrc:1 cname:x", "a=mid:audio-0",
		"a=ice-ufrag:4f0c6b8a2b1f0d3e", "a=ice-pwd:5c4a1a7d0e9b4c3b2a190807", "a=candidate:H1 1 UDP 2130706431 198.51.100.7 13000 typ host"),
		ByDTLS, "", "m=audio 20000 UDP/TLS/RTP/SAVPF 111 101", []string{"a=setup:passive", "a=group:BUNDLE audio-0", "a=mid:audio-0", "a=ice-lite"}, []string{"a=ssrc"}},
	{"Chrome", lines("v=0", "o=- 4611731400430051336 2 IN IP4 127.0.0.1", "s=-", "t=0 0", "a=group:BUNDLE 0 1", "a=extmap-allow-mixed", "a=msid-semantic: WMS 5c2c",
		"m=audio 9 UDP/TLS/RTP/SAVPF 111 63 9 0 8 13 110 126", "c=IN IP4 0.0.0.0", "a=rtcp:9 IN IP4 0.0.0.0", "a=candidate:1467250027 1 udp 2122260223 9b1e.local 46243 typ host generation 0",
		"a=ice-ufrag:F7gI", "a=ice-pwd:x9cml/YzichV2+XlhiMu8gZG", "a=ice-options:trickle", "a=fingerprint:"+peersPrint, "a=setup:actpass", "a=mid:0",
		"a=extmap:1 urn:ietf:params:rtp-hdrext:ssrc-audio-level", "a=sendrecv", "a=msid:5c2c 1f2e", "a=rtcp-mux", "a=rtcp-rsize", "a=rtpmap:111 opus/48000/2", "a=rtcp-fb:111 transport-cc",
		"a=fmtp:111 minptime=10;useinbandfec=1", "a=rtpmap:63 red/48000/2", "a=rtpmap:110 telephone-event/48000", "a=rtpmap:126 telephone-event/8000", "a=ssrc:3570614608 cname:4TOk42mSjXCkVIa6",
		"m=video 9 UDP/TLS/RTP/SAVPF 96", "c=IN IP4 0.0.0.0", "a=mid:1", "a=rtpmap:96 VP8/90000"),
		ByDTLS, "", "m=audio 20000 UDP/TLS/RTP/SAVPF 111 110\nm=video 0 UDP/TLS/RTP/SAVPF 96",
		[]string{"a=group:BUNDLE 0", "a=ice-lite", "a=mid:0", "a=mid:1", "a=ice-ufrag:ufragufr", "a=ice-pwd:passwordpasswordpassword", "a=setup:passive", "a=rtcp-mux", "a=sendrecv", "a=end-of-candidates",
			"a=candidate:1 1 udp 2130706431 192.0.2.10 20000 typ host", "a=msid:parley audio", "a=fingerprint:sha-256 " + strings.TrimSuffix(strings.Repeat("C0:", 32), ":")},
		[]string{"a=extmap", "a=rtcp-fb", "a=rtcp-rsize", "a=ice-options", "a=crypto"}},
	{"Firefox", lines("v=0", "o=mozilla...THIS_IS_SDPARTA-99.0 3156 0 IN IP4 0.0.0.0", "s=-", "t=0 0", "a=fingerprint:"+peersPrint, "a=group:BUNDLE 0", "a=ice-options:trickle", "a=msid-semantic:WMS *",
		"m=audio 53000 UDP/TLS/RTP/SAVPF 109 9 0 8 101", "c=IN IP4 198.51.100.7", "a=candidate:0 1 UDP 2122187007 198.51.100.7 53000 typ host", "a=sendrecv", "a=end-of-candidates",
		"a=fmtp:109 maxplaybackrate=48000;stereo=1;useinbandfec=1", "a=fmtp:101 0-15", "a=ice-pwd:2b5ac0b6ad0a3e8d1d8e4b1c1f0a4d77", "a=ice-ufrag:8b1c1f0a", "a=mid:0", "a=rtcp-mux",
		"a=rtpmap:109 opus/48000/2", "a=rtpmap:101 telephone-event/8000/1", "a=setup:actpass"),
		ByDTLS, "", "m=audio 20000 UDP/TLS/RTP/SAVPF 109 101", []string{"a=group:BUNDLE 0", "a=setup:passive", "a=ice-lite"}, nil},
	{"Safari", lines("v=0", "o=- 8056465047193717905 2 IN IP4 127.0.0.1", "s=-", "t=0 0", "a=group:BUNDLE 0", "a=msid-semantic: WMS",
		"m=audio 9 UDP/TLS/RTP/SAVPF 111 0", "c=IN IP6 ::", "a=rtcp:9 IN IP4 0.0.0.0", "a=ice-ufrag:Kv2T", "a=ice-pwd:Zb1GpYwTq6vPqQh3Wv1l7o1C", "a=fingerprint:sha-256 "+peersPrint[8:], "a=fingerprint:sha-1 "+"AA:BB",
		"a=setup:actpass", "a=mid:0", "a=recvonly", "a=rtcp-mux", "a=rtpmap:111 opus/48000/2"),
		ByDTLS, "", "m=audio 20000 UDP/TLS/RTP/SAVPF 111", []string{"a=sendonly", "a=setup:passive"}, nil},
	{"a lite peer", plainOffer("a=ice-lite", "m=audio 4000 UDP/TLS/RTP/SAVP 0", "a=ice-ufrag:abcd", "a=ice-pwd:0123456789012345678901", "a=fingerprint:"+peersPrint, "a=setup:passive", "a=rtcp-mux"),
		ByDTLS, "", "m=audio 20000 UDP/TLS/RTP/SAVP 0", []string{"a=setup:active"}, []string{"a=ice", "a=candidate"}},
	{"plain, with all that browsers have", plainOffer("a=group:BUNDLE 0", "m=audio 4000 RTP/AVP 0", "a=rtcp-mux", "a=mid:0", "a=ice-ufrag:abcd", "a=ice-pwd:0123456789012345678901",
		"a=candidate:1 1 udp 2130706431 198.51.100.7 4000 typ host", "a=extmap:1 urn:x", "a=ssrc:1 cname:x"), // BR-025
		Plain, "", "m=audio 20000 RTP/AVP 0", []string{"a=rtcp-mux"}, []string{"a=ice", "a=candidate", "a=mid", "a=group", "a=fingerprint", "a=extmap", "a=ssrc"}},
	{"AVPF", plainOffer("m=audio 4000 RTP/AVPF 0"), Plain, "", "m=audio 20000 RTP/AVPF 0", nil, []string{"a=crypto"}},
}

func TestProtectedOffers(t *testing.T) {
	for _, tt := range offers {
		t.Run(tt.name, func(t *testing.T) {
			text, m := answer(t, tt.offer, secured(PolicyOptional))
			if m.Protection != tt.kind || strings.Join(mLines(text), "\n") != tt.mLine {
				t.Fatalf("protection %d, %q", m.Protection, mLines(text))
			}
			for _, w := range tt.want {
				if !has(text, w) {
					t.Errorf("the answer lacks %s:\n%s", w, text)
				}
			}
			for _, n := range tt.never {
				if strings.Contains(text, "\r\n"+n) {
					t.Errorf("the answer has %s:\n%s", n, text)
				}
			}
			if n := strings.Count(text, "a=crypto:"); tt.kind == BySDES && n != 1 {
				t.Errorf("%d crypto lines", n)
			}
			switch tt.kind {
			case BySDES:
				if m.SDES.Send.Suite != tt.suite || m.SDES.Recv.Suite != tt.suite || len(m.SDES.Recv.Key) != KeySize(tt.suite) ||
					m.SDES.Recv.Key[0] != 0xA5 || m.SDES.Send.Key[0] == 0xA5 {
					t.Errorf("%+v", m.SDES)
				}
			case ByDTLS:
				if len(m.DTLS.Fingerprints) != 1 || m.DTLS.Fingerprints[0].Hash != "sha-256" || m.DTLS.Fingerprints[0].Sum[0] != 0x7B {
					t.Errorf("%+v", m.DTLS)
				}
				if m.ICE != nil && (m.Peer.IsValid() || m.Held || !m.Send) {
					t.Errorf("with ICE the c= line counts: %+v", m)
				}
				if !m.Named.IsValid() {
					t.Errorf("the c= line is not told: %+v", m)
				}
				if m.DTLS.Client != strings.Contains(text, "a=setup:active") {
					t.Error("the role is another than is said")
				}
			}
			// The same again under "required", unless it is plain.
			s, _ := Parse([]byte(tt.offer))
			again, _, err := answerTo(s, secured(PolicyRequired))
			if (err != nil) != (tt.kind == Plain) || err == nil && string(again) != text {
				t.Errorf("required: %v\n%s", err, again)
			}
		})
	}
}

func TestMKIsBothWays(t *testing.T) {
	_, m := answer(t, plainOffer("m=audio 4000 RTP/SAVP 0", "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:"+key(30)+"|2^31|258:4"), secured(PolicyOptional))
	if want := []byte{0, 0, 1, 2}; !bytes.Equal(m.SDES.Recv.MKI, want) || !bytes.Equal(m.SDES.Send.MKI, want) {
		t.Errorf("%x, %x", m.SDES.Send.MKI, m.SDES.Recv.MKI)
	}
}

func TestProtectedOffersThatAreRefused(t *testing.T) {
	dtls := func(l ...string) string {
		return plainOffer(append([]string{"m=audio 4000 UDP/TLS/RTP/SAVPF 0", "a=rtcp-mux"}, l...)...)
	}
	for _, tt := range []struct {
		name, offer string
		policy      Policy
		text        string
	}{
		{"off: SAVP", plainOffer("m=audio 4000 RTP/SAVP 0", "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:"+key(30)), PolicyOff, "Encrypted media"},
		{"off: DTLS", dtls("a=fingerprint:"+peersPrint, "a=setup:actpass"), PolicyOff, "Encrypted media"},
		{"required: AVP", plainOffer("m=audio 4000 RTP/AVP 0"), PolicyRequired, "Only encrypted media"},
		{"SAVP without crypto", plainOffer("m=audio 4000 RTP/SAVP 0"), PolicyOptional, "without a crypto attribute"},
		{"DTLS without fingerprint", dtls("a=setup:actpass"), PolicyOptional, "without a fingerprint"},
		{"weak fingerprints", dtls("a=fingerprint:sha-1 AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD", "a=setup:actpass"), PolicyOptional, "SHA-256 or stronger"},
		{"no handshake wanted", dtls("a=fingerprint:"+peersPrint, "a=setup:holdconn"), PolicyOptional, "setup"},
		{"ICE without rtcp-mux", plainOffer("m=audio 9 UDP/TLS/RTP/SAVPF 0", "a=fingerprint:"+peersPrint, "a=setup:actpass", "a=ice-ufrag:abcd", "a=ice-pwd:0123456789012345678901"), PolicyOptional, "rtcp-mux"},
		{"another profile", plainOffer("m=audio 4000 TCP/RTP/AVP 0"), PolicyOptional, "Profile TCP/RTP/AVP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Parse([]byte(tt.offer))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = answerTo(s, secured(tt.policy))
			var r *Refusal
			if !errors.As(err, &r) || r.Code != 488 || r.Warning != 302 || !strings.Contains(r.Text, tt.text) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestCryptoLines(t *testing.T) {
	k := key(30)
	for _, tt := range []struct {
		line string
		ok   bool
	}{
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k, true},
		{"1 aes_cm_128_hmac_sha1_80 INLINE:" + k, true},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + strings.TrimRight(k, "="), true},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + "|2^31", true},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + "|2147483648|1:4", true},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + "|1:4", true},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + " WSH=128 -KDR=5 FEC_ORDER=SRTP_FEC", true},
		{"999999999 AES_CM_128_HMAC_SHA1_80 inline:" + k, true},
		{"x AES_CM_128_HMAC_SHA1_80 inline:" + k, false},
		{"-1 AES_CM_128_HMAC_SHA1_80 inline:" + k, false},
		{"1 F8_128_HMAC_SHA1_80 inline:" + k, false},
		{"1 NULL_HMAC_SHA1_80 inline:" + k, false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + key(29), false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + key(46), false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:????", false},
		{"1 AES_CM_128_HMAC_SHA1_80 uri:https://example.com", false},
		{"1 AES_CM_128_HMAC_SHA1_80", false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + " UNENCRYPTED_SRTP", false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + " UNAUTHENTICATED_SRTP", false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + " KDR=10", false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + " SOMETHING", false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + "|2^31|1:0", false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + "|2^31|1:17", false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + "|2^31|256:1", false},
		{"1 AES_CM_128_HMAC_SHA1_80 inline:" + k + "|2^31;inline:" + k + "|2^31", false},
		{"", false},
	} {
		if _, ok := crypto(tt.line); ok != tt.ok {
			t.Errorf("%.60q: %v, want %v", tt.line, ok, tt.ok)
		}
	}
}

// A peer that answers our own offer, in the ways that it may and may not.
func TestProtectedOffersOfOurs(t *testing.T) {
	l := secured(PolicyRequired)
	l.Offer = BySDES
	text := Offer(l)
	strict(t, string(text))
	if !has(string(text), "m=audio 20000 RTP/SAVP 111 0 8 101 102") || strings.Count(string(text), "a=crypto:") != len(ours) {
		t.Fatalf("%s", text)
	}
	crypto := func(tag int, suite string, n int) string {
		return fmt.Sprintf("a=crypto:%d %s inline:%s", tag, suite, key(n))
	}
	for _, tt := range []struct {
		name  string
		lines []string
		ok    bool
	}{
		{"the fourth", []string{"m=audio 4000 RTP/SAVP 0", crypto(4, "AES_CM_128_HMAC_SHA1_80", 30)}, true},
		{"another tag", []string{"m=audio 4000 RTP/SAVP 0", crypto(3, "AES_CM_128_HMAC_SHA1_80", 30)}, false},
		{"none", []string{"m=audio 4000 RTP/SAVP 0"}, false},
		{"plain", []string{"m=audio 4000 RTP/AVP 0"}, false}, // BR-019
	} {
		a, err := Parse([]byte(plainOffer(tt.lines...)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := Accept(text, a, l)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		if tt.ok && (m.SDES == nil || !bytes.Equal(m.SDES.Send.Key, ours[3].Key) || m.SDES.Recv.Key[0] != 0xA5) {
			t.Errorf("%s: %+v", tt.name, m)
		}
	}

	l.Offer = ByDTLS
	text = Offer(l)
	strict(t, string(text))
	for _, w := range []string{"m=audio 20000 UDP/TLS/RTP/SAVPF 111 0 8 101 102", "a=setup:actpass", "a=mid:0", "a=group:BUNDLE 0", "a=ice-lite", "a=rtcp-mux", "a=ice-ufrag:ufragufr"} {
		if !has(string(text), w) {
			t.Errorf("our offer lacks %s:\n%s", w, text)
		}
	}
	a, err := Parse([]byte(plainOffer("m=audio 9 UDP/TLS/RTP/SAVPF 111", "a=rtpmap:111 opus/48000/2", "a=rtcp-mux", "a=mid:0", "a=setup:active", "a=fingerprint:"+peersPrint, "a=ice-ufrag:F7gI", "a=ice-pwd:x9cml/YzichV2+XlhiMu8gZG")))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Accept(text, a, l)
	if err != nil || m.DTLS == nil || m.DTLS.Client || m.ICE == nil || m.ICE.User != "F7gI" || !m.RTCPMux {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	c := ours[3]
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", &SDES{c, c}), fmt.Sprintf("%#v", c)} {
		if strings.Contains(s, "4 4") || strings.Contains(s, "0x4") {
			t.Error(s)
		}
	}
}

// FuzzCrypto: what is taken has the key that its suite wants, and what we write of it
// is read again.
func FuzzCrypto(f *testing.F) {
	f.Add("1 AES_CM_128_HMAC_SHA1_80 inline:" + key(30) + "|2^31|1:4 KDR=0")
	f.Add("7 AES_CM_256_HMAC_SHA1_80 inline:" + key(46) + ";inline:" + key(46))
	f.Add("1 AEAD_AES_128_GCM inline:" + key(28) + "|1:16")
	f.Fuzz(func(t *testing.T, line string) {
		o, ok := crypto(line)
		if !ok {
			return
		}
		if len(o.Key) != KeySize(o.Suite) || len(o.Key) == 0 || len(o.MKI) > maxMKI {
			t.Fatalf("%q: %+v", line, o)
		}
		var b bytes.Buffer
		writeCrypto(&b, o.tag, o.spelling, o.Key, o.mki)
		again, ok := crypto(strings.TrimSuffix(strings.TrimPrefix(b.String(), "a=crypto:"), "\r\n"))
		if !ok || again.tag != o.tag || again.Suite != o.Suite || !bytes.Equal(again.Key, o.Key) || !bytes.Equal(again.MKI, o.MKI) {
			t.Fatalf("%q is written as %q", line, b.String())
		}
	})
}

// FuzzProtectedOffer: whatever is offered, an answer keeps the rules.
func FuzzProtectedOffer(f *testing.F) {
	for _, tt := range offers {
		f.Add([]byte(tt.offer), uint8(1))
		f.Add([]byte(tt.offer), uint8(2))
	}
	f.Fuzz(func(t *testing.T, text []byte, policy uint8) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		l := secured(Policy(policy % 3))
		out, m, err := answerTo(s, l)
		if err != nil {
			return
		}
		if m.Protection == Plain && l.SRTP == PolicyRequired || m.Protection != Plain && l.SRTP == PolicyOff {
			t.Fatalf("policy %d, protection %d", l.SRTP, m.Protection)
		}
		again, err := Parse(out)
		if err != nil || len(again.media) != len(s.media) || again.media[m.Index].proto != s.media[m.Index].proto {
			t.Fatalf("%v: %s", err, out)
		}
		if n := bytes.Count(out, []byte("\r\na=crypto:")); n > 1 || (n == 1) != (m.Protection == BySDES) {
			t.Fatalf("%d crypto lines: %s", n, out)
		}
		if (m.Protection == ByDTLS) != bytes.Contains(out, []byte("\r\na=fingerprint:")) {
			t.Fatalf("%s", out)
		}
	})
}
