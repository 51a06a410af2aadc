package phone

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/test/audio"
)

// leaks fails the test when the phone leaves goroutines behind. The library behind
// the uas keeps its own for a while; they are not the phone's.
func leaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/emiago/sipgo/sip.(*TransportUDP).Serve"),
			goleak.IgnoreAnyFunction("time.Sleep"))
	})
}

func newPhone(t *testing.T, config Config) *Phone {
	t.Helper()
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// speech is loud in the middle and quiet at both ends, no two parts alike.
func speech(length time.Duration) []int16 {
	out := make([]int16, int(length*sampleRate/time.Second))
	for i := range out {
		t := float64(i) / sampleRate
		out[i] = int16(8000 * math.Sin(2*math.Pi*(200+900*t)*t) * math.Abs(math.Sin(9*t)))
	}
	return out
}

func TestSaysAndHears(t *testing.T) {
	for _, network := range []string{"udp", "tcp"} {
		t.Run(network, func(t *testing.T) {
			u := newUAS(t, network)
			p := newPhone(t, Config{Name: "Ada \"The\" Byron", Number: "+15551230001", Transport: network, Codecs: []string{"PCMU", "PCMA"}})
			ctx := soon(t)
			c, err := p.Dial(ctx, "sip:echo@"+u.addr)
			if err != nil {
				t.Fatal(err)
			}
			said := speech(time.Second)
			utterance := c.Say(said)
			if err := utterance.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if err := c.Pause(ctx, 100*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if err := c.Hangup(ctx); err != nil {
				t.Fatal(err)
			}
			s := c.Log().Stereo()
			left, right := audio.FindWaveform(said, s.Left, s.Rate), audio.FindWaveform(said, s.Right, s.Rate)
			if left.Score < 0.99 || right.Score < 0.99 {
				t.Errorf("said found at %+v, heard at %+v", left, right)
			}
			if d := right.At - left.At; d < 0 || d > 60*time.Millisecond {
				t.Errorf("the echo lies %v after the speech", d)
			}
			first, last, ok := utterance.Loud()
			if got := last - first; !ok || got < 850*time.Millisecond || got > 1050*time.Millisecond {
				t.Errorf("loud for %v", got)
			}
			if u.from != "\"Ada \\\"The\\\" Byron\" <sip:+15551230001@127.0.0.1>" && !strings.Contains(u.from, "+15551230001") {
				t.Errorf("From: %s", u.from)
			}
			if got := u.methods(); got != "INVITE ACK BYE" {
				t.Errorf("the server saw %s", got)
			}
			if times := c.Times(); times.Ringing < times.Invited || times.Answered < times.Ringing || times.Answered == 0 {
				t.Errorf("%+v", times)
			}
		})
	}
}

func TestSendsOnTime(t *testing.T) {
	leaks(t)
	u := newUAS(t, "udp")
	p := newPhone(t, Config{})
	c, err := p.Dial(soon(t), "sip:echo@"+u.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(soon(t), 1500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	_ = c.Hangup(soon(t))
	for _, d := range []Direction{Sent, Heard} {
		q := c.Log().Quality(d)
		var at []time.Duration
		for _, k := range c.Log().Packets() {
			if k.Direction == d {
				at = append(at, k.At)
			}
		}
		// A busy machine makes single packets late, never the whole stream.
		span := at[len(at)-1] - at[0]
		if want := int((span + packetTime/2) / packetTime); q.Packets < want || q.Packets > want+2 || q.Missing != 0 {
			t.Errorf("%+v in %v", q, span)
		}
		t.Logf("%+v", q)
	}
}

func TestPressesKeys(t *testing.T) {
	u := newUAS(t, "udp")
	p := newPhone(t, Config{})
	ctx := soon(t)
	c, err := p.Dial(ctx, "sip:echo@"+u.addr)
	if err != nil {
		t.Fatal(err)
	}
	actor := &Actor{Call: c}
	steps, err := ParseScript("press 12#D\npause 100ms\nhangup")
	if err != nil {
		t.Fatal(err)
	}
	if err := actor.Play(ctx, steps); err != nil {
		t.Fatal(err)
	}
	if sent, heard := c.Log().Digits(Sent), c.Log().Digits(Heard); sent != "12#D" || heard != "12#D" {
		t.Errorf("sent %q, heard %q", sent, heard)
	}
	ends, markers := 0, 0
	for _, k := range c.Log().Packets() {
		if k.Direction == Sent && k.Digit == '1' {
			if k.PayloadType != 96 {
				t.Fatalf("payload type %d, the answer said 96", k.PayloadType)
			}
			if k.Marker {
				markers++
			}
			if k.DigitEnd {
				ends++
				if got := uint16(k.Payload[2])<<8 | uint16(k.Payload[3]); got != 8*160 {
					t.Errorf("duration %d at the end", got)
				}
			}
		}
	}
	if ends != 3 || markers != 1 {
		t.Errorf("%d end packets, %d markers", ends, markers)
	}
	if _, err := c.Press('x', time.Second); err == nil {
		t.Error("pressed a key that no phone has")
	}
}

func TestHoldResumeAndMovePort(t *testing.T) {
	leaks(t)
	u := newUAS(t, "udp")
	p := newPhone(t, Config{})
	ctx := soon(t)
	c, err := p.Dial(ctx, "sip:echo@"+u.addr)
	if err != nil {
		t.Fatal(err)
	}
	before := c.stream.local().Port()
	for _, do := range []func(context.Context) error{c.Hold, c.Resume, c.MovePort} {
		if err := do(ctx); err != nil {
			t.Fatal(err)
		}
		_ = c.Pause(ctx, 100*time.Millisecond)
	}
	moved := p.Now()
	_ = c.Pause(ctx, 200*time.Millisecond)
	if err := c.Hangup(ctx); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a=sendrecv", "a=sendonly", "a=sendrecv", "a=sendrecv"} {
		if !strings.Contains(u.offer(i), want) {
			t.Errorf("offer %d has no %s:\n%s", i, want, u.offer(i))
		}
	}
	after := c.stream.local().Port()
	if after == before {
		t.Error("the port did not move")
	}
	heard := 0
	for _, k := range c.Log().Packets() {
		if k.Direction == Heard && k.At > moved && k.Local.Port() == after {
			heard++
		}
	}
	if heard < 5 {
		t.Errorf("heard %d packets on the new port", heard)
	}
	if q := c.Log().Quality(Sent); q.Missing != 0 {
		t.Errorf("%+v", q)
	}
}

func TestCancelWhileRinging(t *testing.T) {
	leaks(t)
	u := newUAS(t, "udp")
	p := newPhone(t, Config{})
	c, err := p.Invite("sip:ring@" + u.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WaitRinging(soon(t)); err != nil {
		t.Fatal(err)
	}
	c.Cancel()
	c.Cancel()
	var status *StatusError
	if err := c.WaitAnswer(soon(t)); !errors.As(err, &status) || status.Code != 487 {
		t.Errorf("%v, want 487", err)
	}
	if err := c.Hangup(soon(t)); err != nil {
		t.Errorf("hanging up a call that never was: %v", err)
	}
}

func TestDialThatTimesOutIsCancelled(t *testing.T) {
	u := newUAS(t, "udp")
	p := newPhone(t, Config{})
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := p.Dial(ctx, "sip:ring@"+u.addr); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if got := u.methods(); !strings.Contains(got, "INVITE") {
		t.Errorf("the server saw %s", got)
	}
}

func TestRefusalsAndBadTargets(t *testing.T) {
	leaks(t)
	u := newUAS(t, "udp")
	p := newPhone(t, Config{T1: 10 * time.Millisecond})
	var status *StatusError
	if _, err := p.Dial(soon(t), "sip:busy@"+u.addr); !errors.As(err, &status) || status.Code != 486 {
		t.Errorf("%v, want 486", err)
	}
	if _, err := p.Dial(soon(t), "sip:nobody@127.0.0.1:1"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%v, want no answer", err)
	}
	for _, uri := range []string{"tel:+1555", "sip:a@example.com", "sip:a@127.0.0.1:99999", ""} {
		if _, err := p.Dial(soon(t), uri); err == nil {
			t.Errorf("dialled %q", uri)
		}
	}
	if m, err := p.Options(soon(t), "sip:"+u.addr); err != nil || m.Code != 200 {
		t.Errorf("OPTIONS: %v %v", m, err)
	}
	for _, c := range []Config{{Transport: "tls"}, {Codecs: []string{"G729"}}} {
		if _, err := New(c); err == nil {
			t.Errorf("made a phone of %+v", c)
		}
	}
}

func TestPeerHangsUp(t *testing.T) {
	leaks(t)
	u := newUAS(t, "udp")
	p := newPhone(t, Config{})
	c, err := p.Dial(soon(t), "sip:bye@"+u.addr)
	if err != nil {
		t.Fatal(err)
	}
	utterance := c.Say(speech(5 * time.Second))
	end, err := c.WaitEnd(soon(t))
	if err != nil || !end.ByPeer || end.At == 0 {
		t.Errorf("%+v %v", end, err)
	}
	if err := utterance.Wait(soon(t)); !errors.Is(err, ErrEnded) {
		t.Errorf("a cut utterance: %v", err)
	}
	if err := c.Say(speech(time.Second)).Wait(soon(t)); !errors.Is(err, ErrEnded) {
		t.Errorf("speech after the end: %v", err)
	}
	if err := c.Pause(soon(t), time.Hour); !errors.Is(err, ErrEnded) {
		t.Errorf("pause after the end: %v", err)
	}
}

func TestBadLineLosesTheSamePackets(t *testing.T) {
	var lost [2]string
	for run := range lost {
		u := newUAS(t, "udp")
		p := newPhone(t, Config{
			Line:      Impairment{Loss: 0.2, Jitter: 15 * time.Millisecond, Reorder: 0.1, Seed: 7},
			HeardLine: Impairment{Loss: 0.1, Seed: 7},
		})
		c, err := p.Dial(soon(t), "sip:echo@"+u.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Pause(soon(t), 1100*time.Millisecond)
		_ = c.Hangup(soon(t))
		var first uint16
		var pattern strings.Builder
		n, heardLost, disorder := 0, 0, 0
		highest := int16(0)
		for _, k := range c.Log().Packets() {
			if k.Direction == Heard && k.Dropped {
				heardLost++
			}
			if k.Direction != Sent {
				continue
			}
			if n == 0 {
				first = k.Sequence
			}
			n++
			at := int16(k.Sequence - first)
			if at < highest {
				disorder++
			}
			highest = max(highest, at)
			if k.Dropped && at < 45 {
				pattern.WriteByte(byte('0' + at))
			}
		}
		lost[run] = pattern.String()
		if len(lost[run]) < 4 || disorder == 0 || heardLost == 0 {
			t.Errorf("lost %q, %d out of order, %d not heard", lost[run], disorder, heardLost)
		}
	}
	if lost[0] != lost[1] {
		t.Logf("%q and %q: the first packet may differ in order", lost[0], lost[1])
	}
}

func TestCaptureIsReadable(t *testing.T) {
	u := newUAS(t, "udp")
	p := newPhone(t, Config{Number: "1234"})
	c, err := p.Dial(soon(t), "sip:echo@"+u.addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Pause(soon(t), 200*time.Millisecond)
	_ = c.Hangup(soon(t))
	var b bytes.Buffer
	if err := p.WriteCapture(&b, c); err != nil {
		t.Fatal(err)
	}
	checkCapture(t, b.Bytes(), len(c.Log().Packets()))
}
