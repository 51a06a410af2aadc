package phone

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/test/audio"
)

// checkCapture walks the records of a capture: header sums right, SIP and RTP in.
func checkCapture(t *testing.T, b []byte, rtp int) {
	t.Helper()
	if binary.LittleEndian.Uint32(b) != 0xa1b23c4d || binary.LittleEndian.Uint32(b[20:]) != 101 {
		t.Fatal("not a capture of raw IP in nanoseconds")
	}
	sip, media := 0, 0
	last := uint64(0)
	for b = b[24:]; len(b) >= 16; {
		at := uint64(binary.LittleEndian.Uint32(b))*1e9 + uint64(binary.LittleEndian.Uint32(b[4:]))
		if at < last {
			t.Fatal("times go backwards")
		}
		last = at
		n := int(binary.LittleEndian.Uint32(b[8:]))
		ip := b[16 : 16+n]
		b = b[16+n:]
		if checksum(ip[:20]) != 0 || int(binary.BigEndian.Uint16(ip[2:])) != n || ip[9] != 17 {
			t.Fatalf("bad IP header % x", ip[:20])
		}
		if _, err := ParseMessage(ip[28:]); err == nil {
			sip++
		} else if _, ok := parseRTP(ip[28:]); ok {
			media++
		}
	}
	if sip < 6 || media != rtp {
		t.Errorf("%d SIP messages and %d RTP packets, want at least 6 and %d", sip, media, rtp)
	}
}

const inviteText = "INVITE sip:bob@127.0.0.1:5060 SIP/2.0\r\n" +
	"v: SIP/2.0/UDP 127.0.0.1:5080;branch=z9hG4bK1;rport, SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK0\r\n" +
	"From: \"a, b\" <sip:a@x;lr,>;tag=1\r\nt: <sip:bob@x>\r\n" +
	"Subject: folded\r\n over lines\r\nCSeq: 7 INVITE\r\nCall-ID: c1\r\nl: 4\r\n\r\nbodyrest"

func TestParseMessage(t *testing.T) {
	m, err := ParseMessage([]byte(inviteText))
	if err != nil {
		t.Fatal(err)
	}
	if m.Method != "INVITE" || string(m.Body) != "body" || m.Get("Subject") != "folded over lines" || m.branch() != "z9hG4bK1" {
		t.Errorf("%+v", m)
	}
	if n, method := m.sequence(); n != 7 || method != "INVITE" {
		t.Errorf("CSeq %d %s", n, method)
	}
	if vias := m.All("Via"); len(vias) != 2 || len(m.All("From")) != 1 {
		t.Errorf("Via %q, From %q", vias, m.All("From"))
	}
	if address(m.Get("From")) != "sip:a@x;lr," || parameter(m.Get("From"), "tag") != "1" {
		t.Error(m.Get("From"))
	}
	r := m.reply(200, "OK", "new")
	if parameter(r.Get("To"), "tag") != "new" || len(r.All("Via")) != 2 || !strings.HasPrefix(string(r.Bytes()), "SIP/2.0 200 OK\r\n") {
		t.Errorf("%s", r.Bytes())
	}
	for _, bad := range []string{
		"", "INVITE\r\n\r\n", "SIP/2.0 99 No\r\n\r\n", "SIP/2.0 x No\r\n\r\n", "INVITE sip:a SIP/3.0\r\n\r\n",
		"OPTIONS sip:a SIP/2.0\r\nno colon\r\n\r\n", "OPTIONS sip:a SIP/2.0\r\nContent-Length: -1\r\n\r\n",
		"OPTIONS sip:a SIP/2.0\r\nContent-Length: 5\r\n\r\nabc", "OPTIONS sip:a SIP/2.0\r\nTo: x",
	} {
		if _, err := ParseMessage([]byte(bad)); err == nil {
			t.Errorf("read %q", bad)
		}
	}
}

func TestReadFramed(t *testing.T) {
	one := "OPTIONS sip:a SIP/2.0\r\nContent-Length: 3\r\n\r\nabc"
	r := bufio.NewReader(strings.NewReader("\r\n\r\n" + one + one))
	for range 2 {
		b, err := readFramed(r)
		if err != nil || string(b) != one {
			t.Errorf("%q %v", b, err)
		}
	}
	for _, bad := range []string{"", "X", "A: b\r\nContent-Length: x\r\n\r\n", "A: b\r\nl: 9\r\n\r\nabc"} {
		if _, err := readFramed(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("framed %q", bad)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	const head = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
	a, err := parseAnswer([]byte(head + "a=inactive\r\nm=audio 4000 RTP/AVP 8 97\r\nc=IN IP4 127.0.0.2\r\na=rtpmap:97 telephone-event/8000\r\na=sendonly\r\nm=video 0 RTP/AVP 31\r\na=recvonly\r\n"))
	if err != nil || a.peer.String() != "127.0.0.2:4000" || a.codec.name != "PCMA" || a.event != 97 || a.direction != "sendonly" {
		t.Errorf("%+v %v", a, err)
	}
	for _, bad := range []string{"", "v", head, head + "m=audio x RTP/AVP 0\r\n", head + "m=audio 4000 RTP/AVP 9\r\n",
		"v=0\r\nm=audio 4000 RTP/AVP 0\r\n", "c=IN IP4 host\r\n"} {
		if _, err := parseAnswer([]byte(bad)); err == nil {
			t.Errorf("read %q", bad)
		}
	}
}

func TestParseScript(t *testing.T) {
	got, err := ParseScript("# a call\n\nlisten 600ms\nsay hello.wav\nbarge-in after 1.2s of agent speech with stop.wav\n  press 1#\nwait agent-silent 400ms\nwait agent-speaking\nwait end\npause 2s\nhold\nresume\nmove-port\nhangup\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{Line: 3, Text: "listen 600ms", Verb: "listen", Duration: 600 * time.Millisecond},
		{Line: 4, Text: "say hello.wav", Verb: "say", File: "hello.wav"},
		{Line: 5, Text: "barge-in after 1.2s of agent speech with stop.wav", Verb: "barge-in", File: "stop.wav", Duration: 1200 * time.Millisecond},
		{Line: 6, Text: "press 1#", Verb: "press", Keys: "1#"},
	}
	if len(got) != 12 || !reflect.DeepEqual(got[:4], want) {
		t.Errorf("%+v", got)
	}
	bad := "say\npress 1x\npause\npause -1s\nlisten soon\nbarge-in now\nhold on\nsing\nwait\nwait for it"
	_, err = ParseScript(bad)
	if err == nil || strings.Count(err.Error(), "script line") != 10 {
		t.Errorf("want every line reported: %v", err)
	}
}

func TestActorNamesTheLineThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Call{phone: &Phone{clock: newClock()}, log: &Log{}, ended: make(chan struct{}), stream: &stream{say: newMouth(0)}}
		a := &Actor{Call: c, Load: func(string) ([]int16, error) { return nil, errors.New("no such sound") }}
		play := func(text string) error {
			steps, err := ParseScript(text)
			if err != nil {
				t.Fatal(err)
			}
			return a.Play(context.Background(), steps)
		}
		began := time.Now()
		if err := play("pause 1h\nwait agent-speaking"); !errors.Is(err, ErrPatience) || !strings.Contains(err.Error(), "script line 2") {
			t.Error(err)
		}
		if got := time.Since(began); got != time.Hour+20*time.Second {
			t.Errorf("waited %v", got)
		}
		if err := play("say x.wav"); err == nil || !strings.Contains(err.Error(), "no such sound") {
			t.Error(err)
		}
		close(c.ended)
		if err := play("wait agent-speaking"); !errors.Is(err, ErrEnded) {
			t.Error(err)
		}
	})
}

func TestListenerFollowsSpeech(t *testing.T) {
	l := &Log{}
	at := func(ms int, level float64) {
		l.add(Packet{Direction: Heard, Audio: true, At: time.Duration(ms) * time.Millisecond, Level: level})
	}
	check := func(ms int, speaking, silent int, ever bool) {
		t.Helper()
		s, q, e := l.speech(time.Duration(ms) * time.Millisecond)
		if s != time.Duration(speaking)*time.Millisecond || q != time.Duration(silent)*time.Millisecond || e != ever {
			t.Errorf("at %d ms: %v %v %v", ms, s, q, e)
		}
	}
	check(50, 0, 50, false)
	at(100, -20)
	at(200, -20)
	at(500, audio.Floor)
	check(520, 100, 320, true)
	at(580, -20)
	check(600, 480, 20, true)
	check(1300, 0, 720, true)
	at(1400, -20)
	check(1400, 0, 0, true)
}

func FuzzParseMessage(f *testing.F) {
	f.Add([]byte(inviteText))
	f.Add([]byte("SIP/2.0 200 OK\r\nTo: <sip:a@b>;tag=x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMessage(b)
		if err != nil {
			return
		}
		m.branch()
		m.reply(200, "OK", "t")
		again, err := ParseMessage(m.Bytes())
		if err != nil {
			t.Fatalf("cannot read what it wrote: %v", err)
		}
		if again.Code != m.Code || again.Method != m.Method || !bytes.Equal(again.Body, m.Body) {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte("c=IN IP4 127.0.0.1\r\nm=audio 4000 RTP/AVP 0 101\r\na=rtpmap:101 telephone-event/8000\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := parseAnswer(b); err == nil && a.codec.encode == nil {
			t.Fatal("no error and no codec")
		}
	})
}

func FuzzParseScript(f *testing.F) {
	f.Add("say a.wav\nbarge-in after 1s of agent speech with b.wav\nwait end")
	f.Fuzz(func(t *testing.T, text string) {
		steps, err := ParseScript(text)
		for _, s := range steps {
			if s.Verb == "" || (err == nil && s.Line == 0) {
				t.Fatalf("%+v", s)
			}
		}
	})
}

func FuzzParseRTP(f *testing.F) {
	f.Add(appendRTP(nil, Packet{PayloadType: 0, Sequence: 1, Timestamp: 2, SSRC: 3, Payload: []byte{1, 2}}))
	f.Add([]byte{0xb1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 9, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseRTP(b); ok && len(p.Payload) > len(b)-12 {
			t.Fatal("more payload than packet")
		}
	})
}

func TestRoomNoise(t *testing.T) {
	c, err := codecNamed("PCMU")
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []float64{-40, -65} {
		m, sum := newMouth(level), 0.0
		for range 50 {
			sum += m.next(answer{codec: c}, 0, nil).level / 50
		}
		if sum < level-1 || sum > level+1 {
			t.Errorf("noise of %.1f dBFS, want %.1f", sum, level)
		}
	}
	if f := newMouth(0).next(answer{codec: c}, 0, nil); f.level != audio.Floor {
		t.Errorf("a silent room has %.1f dBFS", f.level)
	}
}
