package peers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"parley/call"
	"parley/test/audio"
	"parley/test/phone"
)

// alike fails the test unless a recording at 8 kHz holds the sentence as the same wave.
func alike(t *testing.T, who string, sentence, recording []int16, want float64) {
	t.Helper()
	m := audio.FindWaveform(sentence[len(sentence)/4:len(sentence)*3/4], recording, 8000)
	t.Logf("%s heard the sentence at %v with a correlation of %.4f", who, m.At, m.Score)
	if m.Score < want {
		t.Errorf("%s heard the sentence with a correlation of %.3f, want %.2f", who, m.Score, want)
	}
}

// The phone is our own, its SRTP and DTLS those of pion: what the library and we agree
// on wrongly, the other telephones here do not.
func TestAPhoneTalksEncrypted(t *testing.T) {
	Isolated(t)
	for _, way := range []struct {
		encryption, suite, record string
	}{
		{phone.SDES, "AES_CM_128_HMAC_SHA1_80", ""},
		{phone.SDES, "AES_CM_128_HMAC_SHA1_32", ""},
		{phone.SDES, "AES_256_CM_HMAC_SHA1_80", ""},
		{phone.SDES, "AES_256_CM_HMAC_SHA1_32", ""},
		{phone.SDES, "AEAD_AES_128_GCM", ""},
		{phone.SDES, "AEAD_AES_256_GCM", ""},
		{phone.OptionalSDES, "AES_CM_128_HMAC_SHA1_80", ""},
		{phone.DTLS, "AES_CM_128_HMAC_SHA1_80", ""},
		{phone.DTLS, "AEAD_AES_128_GCM", ""},
		{phone.DTLS, "AEAD_AES_256_GCM", ""},
	} {
		t.Run(way.encryption+" "+way.suite, func(t *testing.T) {
			asks, answers := speech(1.3, 2*time.Second), speech(2.1, 2*time.Second)
			performer := &Performer{Says: answers, Pause: 500 * time.Millisecond}
			g := StartGateway(t, performer)
			p, err := phone.New(phone.Config{Number: "+12025550110", Encryption: way.encryption, Suite: way.suite})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			c, err := p.Dial(t.Context(), g.URI("agent"))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.WaitEncrypted(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Say(asks).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if u, err := c.Press('5', 100*time.Millisecond); err != nil {
				t.Fatal(err)
			} else if err := u.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			heard := c.Log().Stereo().Right
			opened, refused := c.Opened()
			if err := c.Hangup(t.Context()); err != nil {
				t.Fatal(err)
			}
			records := g.Records(1)
			want := 0.99
			if len(records) == 1 && records[0].Stats.SkippedSlots > 0 {
				want = 0.95 // this machine has too much to do
			}
			alike(t, "the phone", answers, heard, want)
			alike(t, "the agent", asks, performer.Heard(), 0.99)
			if performer.Digits() != "5" || opened < 100 || refused != 0 {
				t.Errorf("digits %q, %d packets opened, %d refused", performer.Digits(), opened, refused)
			}
			if r := records[0]; r.SRTP != way.suite || r.Stats.Forged != 0 || r.Stats.Lost != 0 || r.Cause != call.CauseCallerHungUp {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestNewKeysByReINVITE(t *testing.T) {
	Isolated(t)
	t.Parallel()
	asks, answers := speech(1.3, 2*time.Second), speech(2.1, 2*time.Second)
	performer := &Performer{Says: answers, Pause: 100 * time.Millisecond}
	g := StartGateway(t, performer)
	p, err := phone.New(phone.Config{Number: "+12025550111", Encryption: phone.SDES})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := p.Dial(t.Context(), g.URI("agent"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Rekey(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		if err := c.Hold(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		before, _ := c.Opened()
		if err := c.Say(asks).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after, _ := c.Opened(); after-before < 90 {
			t.Errorf("%d packets in two seconds", after-before)
		}
	}
	if err := c.Hangup(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := g.Records(1)[0]
	heard := performer.Heard()
	alike(t, "the agent", asks, heard, 0.99)
	alike(t, "the agent, at the end,", asks, heard[len(heard)/2:], 0.99)
	if r.SRTP == "" || r.Stats.Forged > 5 {
		t.Errorf("%+v", r)
	}
}

func TestThePolicyForEncryption(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, tt := range []struct {
		policy, encryption string
		code               int    // of the refusal
		suite              string // agreed
	}{
		{"off", "", 0, ""},
		{"off", phone.SDES, 488, ""},
		{"off", phone.OptionalSDES, 0, ""},
		{"off", phone.DTLS, 488, ""},
		{"optional", "", 0, ""},
		{"required", "", 488, ""},
		{"required", phone.SDES, 0, "AES_CM_128_HMAC_SHA1_80"},
		{"required", phone.OptionalSDES, 0, "AES_CM_128_HMAC_SHA1_80"},
		{"required", phone.DTLS, 0, "AES_CM_128_HMAC_SHA1_80"},
	} {
		t.Run(tt.policy+" "+tt.encryption, func(t *testing.T) {
			g := StartGateway(t, &Performer{}, func(c *call.Config) { c.SRTP = tt.policy })
			p, err := phone.New(phone.Config{Number: "+12025550112", Encryption: tt.encryption})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			c, err := p.Dial(t.Context(), g.URI("agent"))
			var refused *phone.StatusError
			if tt.code != 0 {
				if !errors.As(err, &refused) || refused.Code != tt.code || !strings.Contains(refused.Response.Get("Warning"), "302") {
					t.Fatalf("%v, want %d with a Warning", err, tt.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := c.Hangup(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r := g.Records(1)[0]; r.SRTP != tt.suite || r.Stats.PacketsIn < 10 || r.Stats.PacketsOut < 10 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Baresip encrypts by libsrtp and OpenSSL.
func TestBaresipTalksEncrypted(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, way := range []struct{ name, transport, media string }{
		{"SDES required, over TLS", "tls", ";mediaenc=srtp-mand"},
		{"SDES required, AVPF", "tcp", ";mediaenc=srtp-mandf"},
		{"SDES optional", "udp", ";mediaenc=srtp"},
		{"DTLS", "tls", ";mediaenc=dtls_srtp"},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			asks, answers := speech(1.3, 2*time.Second), speech(2.1, 2*time.Second)
			performer := &Performer{Says: answers, Pause: 500 * time.Millisecond}
			g := StartGateway(t, performer)
			b := StartBaresip(t, "+12025550113", microphone(t, asks, 500*time.Millisecond, 30*time.Second), "PCMU/8000/1", way.transport,
				way.media, "rtcp_mux yes", "sip_certificate "+certificateAndKey(t), "sip_verify_server no")
			uri := g.URI("agent") + ";transport=" + way.transport
			if way.transport == "tls" {
				uri = "sip:agent@" + g.TLSHost + ";transport=tls"
			}
			b.Call(uri)
			time.Sleep(time.Second) // a key before there are keys is lost
			b.Do("sndcode", "4")
			time.Sleep(6 * time.Second)
			b.Do("hangup", "")
			records := g.Records(1)
			heardBy(t, "baresip", answers, b.Heard(), 8000)
			alike(t, "the agent", asks, performer.Heard(), 0.9) // several talk at once; TestFidelity is stricter
			if d := performer.Digits(); d != "4" {
				t.Errorf("the agent got the keys %q, pressed was 4", d)
			}
			r := records[0]
			t.Logf("%s, %d reports in, %d out", r.SRTP, r.Stats.RTCPIn, r.Stats.RTCPOut)
			// Where both are allowed baresip begins with a plain packet now and then.
			if r.SRTP == "" || r.Stats.Forged > 1 || r.Stats.RTCPIn == 0 || r.Cause != call.CauseCallerHungUp {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Linphone encrypts by libsrtp and mbedTLS, and sends more kinds of packets than it
// negotiates.
func TestLinphoneTalksEncrypted(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, kind := range []string{"srtp", "dtls", "dtls with ICE"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			asks, answers := speech(1.3, 2*time.Second), speech(2.1, 2*time.Second)
			performer := &Performer{Says: answers, Pause: 500 * time.Millisecond}
			g := StartGateway(t, performer)
			l := StartLinphone(t, "+12025550114", microphone(t, asks, 500*time.Millisecond, 20*time.Second),
				"media_encryption=none", "media_encryption="+strings.Fields(kind)[0]+"\nmedia_encryption_mandatory=1")
			if strings.HasSuffix(kind, "ICE") {
				l.Tell("firewall ice")
			}
			l.Call(g.URI("agent"))
			time.Sleep(3 * time.Second)
			l.Tell("7")
			time.Sleep(4 * time.Second)
			l.Tell("terminate")
			records := g.Records(1)
			heard, rate := l.Heard()
			heardBy(t, "linphone", answers, heard, rate)
			alike(t, "the agent", asks, performer.Heard(), 0.9) // several talk at once; TestFidelity is stricter
			if d := performer.Digits(); d != "7" {
				t.Errorf("the agent got the keys %q, pressed was 7", d)
			}
			if r := records[0]; r.SRTP == "" || r.Stats.Forged != 0 {
				t.Errorf("%+v", r)
			} else {
				t.Log(r.SRTP)
			}
		})
	}
}
