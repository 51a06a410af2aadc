package call

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/media/g711"
	"parley/media/tone"
	"parley/sip"
	"parley/test/phone"
)

// Cases of the catalogue of failures that people have reported, where no other test
// has the very input.

// descriptions are the session descriptions that a phone was sent.
type descriptions struct {
	mu  sync.Mutex
	all []string
}

func (d *descriptions) trace(direction, text string) {
	if _, body, ok := strings.Cut(text, "\r\n\r\n"); ok && direction == "<-" && strings.HasPrefix(body, "v=0") {
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.all) == 0 || d.all[len(d.all)-1] != body { // else a copy, or the same again
			d.all = append(d.all, body)
		}
	}
}

// BR-001, BR-004, BR-013: every answer in a call has the advertised address and the
// same origin, whose version grows by one with each change; a hold is answered in kind.
func TestEveryAnswerHasTheSameAddressAndOrigin(t *testing.T) {
	var seen descriptions
	g := startGateway(t, func(c *Config, _ *sip.Config) { c.Advertise = netip.MustParseAddr("127.0.0.9") })
	p := ringUp(t, phone.Config{Number: "+14155550100", Trace: seen.trace})
	c := dial(t, p, g.uri)
	for _, direction := range []string{"sendonly", "inactive", "sendrecv"} {
		if err := c.Reinvite(within(t), direction, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.MovePort(within(t)); err != nil { // of theirs: our answer stays as it is
		t.Fatal(err)
	}
	if err := g.agent.last().call.Control.Hold(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	var directions []string
	first := ""
	for i, text := range seen.all {
		if got := regexp.MustCompile(`(?m)^c=.*$`).FindAllString(text, -1); len(got) != 1 || strings.TrimSpace(got[0]) != "c=IN IP4 127.0.0.9" {
			t.Errorf("description %d has %q", i, got)
		}
		m := regexp.MustCompile(`(?m)^o=(\S+ \d+) (\d+) (.*)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no origin in %q", text)
		}
		if first == "" {
			first = m[1] + m[3]
		} else if m[1]+m[3] != first {
			t.Errorf("origin %q, before %q", m[1]+m[3], first)
		}
		if i > 0 {
			if before := regexp.MustCompile(`(?m)^o=\S+ \d+ (\d+)`).FindStringSubmatch(seen.all[i-1])[1]; number(t, m[2]) != number(t, before)+1 {
				t.Errorf("version %s after %s", m[2], before)
			}
		}
		directions = append(directions, regexp.MustCompile(`(?m)^a=(sendrecv|sendonly|recvonly|inactive)\r?$`).FindStringSubmatch(text)[1])
	}
	if want := []string{"sendrecv", "recvonly", "inactive", "sendrecv", "sendonly"}; !slices.Equal(directions, want) {
		t.Errorf("directions %q, want %q", directions, want)
	}
}

func number(t *testing.T, s string) (n uint64) {
	t.Helper()
	for _, c := range s {
		n = n*10 + uint64(c-'0')
	}
	return n
}

// BR-011: a call manager offers nothing, holds, plays music and comes back, each time
// without an offer of its own: ours is never what the hold left.
func TestMusicOnHoldWithoutOffers(t *testing.T) {
	n := testNegotiation()
	proposed := func() string {
		t.Helper()
		text := string(n.propose())
		if !strings.Contains(text, "a=sendrecv\r\n") || !strings.Contains(text, "m=audio 20000 RTP/AVP 0 8 101\r\n") {
			t.Errorf("our offer:\n%s", text)
		}
		return text
	}
	accepted := func(direction string) *change {
		t.Helper()
		c, err := n.accepted(offered("m=audio 4000 RTP/AVP 0 96", "a=rtpmap:96 telephone-event/8000", "a="+direction))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	proposed()
	if c := accepted("sendrecv"); !c.flow.Send || !c.accept.event(96) {
		t.Errorf("%+v", c.flow)
	}
	text, c, refusal := n.answer(offered("m=audio 4000 RTP/AVP 0 96", "a=rtpmap:96 telephone-event/8000", "a=inactive"))
	if refusal != nil || !strings.Contains(string(text), "a=inactive\r\n") || c.flow.Send || c.flow.Recv || !c.held {
		t.Fatalf("%v %+v\n%s", refusal, c, text)
	}
	proposed()
	if c := accepted("sendonly"); c.flow.Send || !c.flow.Recv || !c.held || c.line.codec.Name != g711.PCMU().Name {
		t.Errorf("music: %+v", c)
	}
	proposed()
	if c := accepted("sendrecv"); !c.flow.Send || !c.flow.Recv || c.held || !c.accept.event(96) {
		t.Errorf("resumed: %+v", c)
	}
}

// BR-091: a peer that sends a packet for each that it hears, and no other, stalls for
// good when we pause; an agent that only listens hears all of it.
func TestAPeerThatSendsOnlyWhenItHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := rung(t, g711.PCMU())
		loud := constantPayload(t, 8000)
		sent := 0
		for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
			for ; sent < len(m.peer.Seen()); sent++ {
				m.peer.Send(false, loud)
			}
		}
		if got := l.loudFrames(160); got < 498 || got > 505 {
			t.Errorf("%d frames were heard in 10 s", got)
		}
		m.leave(t)
	})
}

// BR-088: comfort noise, then nothing for 40 s, then a talkspurt: silence in real time,
// and no hang-up while the call is held.
func TestComfortNoiseThenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, l := rung(t, g711.PCMU())
		loud := constantPayload(t, 8000)
		send := func(n int) {
			for i := range n {
				m.peer.Send(i == 0, loud)
				time.Sleep(20 * time.Millisecond)
			}
		}
		send(250)
		m.peer.SendAs(13, false, m.peer.Timestamp, []byte{60})
		time.Sleep(40 * time.Second)
		m.peer.Timestamp += 40 * 8000
		l.mu.Lock()
		frames := len(l.at)
		l.mu.Unlock()
		if frames < 2235 || frames > 2255 { // 45 s, but for the moment until silence is believed
			t.Errorf("%d frames by the end of the pause", frames)
		}
		before := l.loudFrames(160)
		send(50)
		if got := l.loudFrames(160) - before; got < 49 || got > 50 {
			t.Errorf("%d of 50 frames are heard after it", got)
		}
		m.leave(t)
	})
}

// The system's first answer to how old a packet is says 0 and is not counted.
func TestTheFirstAgeIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := rung(t, g711.PCMU())
		asked := 0
		m.ear.delays = new(delays)
		m.ear.age = func() time.Duration {
			if asked++; asked == 1 {
				return 0
			}
			return 3 * time.Millisecond
		}
		for range 2 * measureEvery {
			m.peer.Send(false, constantPayload(t, 8000))
			time.Sleep(20 * time.Millisecond)
		}
		if d := m.ear.delays.hear.snapshot(); asked != 3 || d.Total() != 2 || d.Sum != 6*time.Millisecond {
			t.Errorf("asked %d times: %+v", asked, d)
		}
		m.leave(t)
	})
}

// BR-007: a telephone presses on the events of the codec that is not spoken.
func TestKeysOnTheOtherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := rung(t, g711.PCMU())
		_, c, refusal := m.nego.answer([]byte("v=0\r\no=x 1 2 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0 101 103\r\n" +
			"a=rtpmap:101 telephone-event/8000\r\na=rtpmap:103 telephone-event/48000\r\n"))
		if refusal != nil {
			t.Fatal(refusal)
		}
		l := new(listener)
		m.Call.session = l
		m.pending.Store(c)
		time.Sleep(20 * time.Millisecond)
		for i, pt := range []uint8{101, 103} {
			ts := m.peer.Timestamp + uint32(i)*8000
			for n := range uint16(5) {
				m.peer.SendAs(pt, n == 0, ts, []byte{byte(i + 1), 10, byte((n + 1) * 160 >> 8), byte((n + 1) * 160)})
				time.Sleep(20 * time.Millisecond)
			}
			for range 3 {
				m.peer.SendAs(pt, false, ts, []byte{byte(i + 1), 0x8a, 3, 32})
			}
			time.Sleep(200 * time.Millisecond)
		}
		if got := l.count(agent.Digit); got != 2 {
			t.Errorf("%d keys of 2", got)
		}
		m.leave(t)
	})
}

// A telephone without telephone-event sends its keys as sound, which is listened to when
// that is wanted: each press is one key, and with telephone-event nothing is heard twice.
func TestKeysAsSound(t *testing.T) {
	for _, tt := range []struct {
		wanted, events bool
		want           string
	}{{true, false, "42#"}, {false, false, ""}, {true, true, ""}} {
		synctest.Test(t, func(t *testing.T) {
			m, _ := rung(t, g711.PCMA())
			l := new(listener)
			m.Call.session = l
			m.nego.cfg.KeyTones = tt.wanted
			offer := []string{"m=audio 40000 RTP/AVP 8"}
			if tt.events {
				offer = []string{"m=audio 40000 RTP/AVP 8 101", "a=rtpmap:101 telephone-event/8000"}
			}
			_, c, refusal := m.nego.answer(offered(offer...))
			if refusal != nil {
				t.Fatal(refusal)
			}
			c.flow.Peer = m.peer.Addr()
			m.pending.Store(c)
			time.Sleep(20 * time.Millisecond)
			var pcm []int16
			for _, key := range []byte("42#") {
				s, err := tone.Digit(16000, key, -13)
				if err != nil {
					t.Fatal(err)
				}
				pcm = append(append(pcm, tone.Take(s, 16000, 80*time.Millisecond)...), make([]int16, 16000/10)...)
			}
			for _, b := range coded(t, g711.PCMA(), 20*time.Millisecond, pcm) {
				m.peer.Send(false, b)
				time.Sleep(20 * time.Millisecond)
			}
			m.leave(t)
			got := ""
			l.mu.Lock()
			for _, n := range l.notices {
				if n.Kind == agent.Digit {
					got += string(n.Digit)
				}
			}
			l.mu.Unlock()
			if got != tt.want {
				t.Errorf("%+v: heard %q", tt, got)
			}
		})
	}
}
