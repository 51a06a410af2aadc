package call

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/test/phone"
)

// speaking is an agent that never stops.
func speaking(ctx context.Context, s *fakeSession) error {
	for ctx.Err() == nil {
		if err := s.call.Speaker.Say(ctx, sine(440, 8000, 100*time.Millisecond)); err != nil {
			break
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// bothWays sees that a party of a call and the agent hear one another, in the manner of
// the party's encryption.
func bothWays(t *testing.T, c *phone.Call, s *fakeSession, encryption string) {
	t.Helper()
	if encryption != "" {
		if err := c.WaitEncrypted(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitAgentSpeaking(within(t), 200*time.Millisecond); err != nil {
		t.Errorf("the agent is not heard: %v", err)
	}
	c.Say(sine(1000, 8000, 500*time.Millisecond))
	s.await(t, agent.VoiceConfirmed)
	s.await(t, agent.VoiceOff) // before another party speaks
	if opened, refused := c.Opened(); encryption != "" && (opened == 0 || refused > opened/10) {
		t.Errorf("%d packets were opened and %d not", opened, refused)
	}
}

// Whoever takes a call over agrees on keys of their own: none of the ones before opens a
// packet more.
func TestEncryptedSoundOverReplaces(t *testing.T) {
	for _, c := range []struct{ before, after string }{
		{phone.SDES, phone.SDES}, {phone.DTLS, phone.DTLS}, {phone.SDES, phone.DTLS}, {phone.DTLS, phone.SDES}, {phone.DTLS, ""}, {"", phone.SDES}, {"", phone.DTLS},
	} {
		t.Run(fmt.Sprintf("%s to %s", word(c.before), word(c.after)), func(t *testing.T) {
			t.Parallel() // mostly it waits
			caller := ringUp(t, phone.Config{Number: "+14155550100", Encryption: c.before})
			other := ringUp(t, phone.Config{Number: "+12125550123", Encryption: c.after, Suite: "AEAD_AES_128_GCM"})
			g := withTrunk(t, other, nil)
			g.agent.does(speaking)
			first, err := caller.Dial(within(t), g.uri, phone.Header{Name: "X-Test-Trunk", Value: "carrier"})
			if err != nil {
				t.Fatal(err)
			}
			await(t, g.seen.started, "start")
			s := g.agent.last()
			bothWays(t, first, s, c.before)
			next, err := other.Dial(within(t), g.uri, phone.Header{Name: "Replaces", Value: first.Replaces()}, phone.Header{Name: "X-Test-Trunk", Value: "carrier"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := first.WaitEnd(within(t)); err != nil {
				t.Fatal(err)
			}
			bothWays(t, next, s, c.after)
			if err := next.Hangup(within(t)); err != nil {
				t.Fatal(err)
			}
			want := ""
			if c.after != "" {
				want = "AEAD_AES_128_GCM"
			}
			if r := g.seen.awaitEnd(t); r.SRTP != want || r.Cause != CauseCallerHungUp {
				t.Errorf("record %+v", r)
			}
		})
	}
}

// word is a name for an encryption.
func word(encryption string) string {
	if encryption == "" {
		return "plain"
	}
	return encryption
}

// So does whoever the peer sends us to.
func TestEncryptedSoundOverREFER(t *testing.T) {
	for _, c := range []struct{ before, after, policy string }{
		{phone.SDES, phone.SDES, srtpRequired}, {phone.DTLS, phone.SDES, srtpRequired}, {phone.DTLS, "", srtpOptional}, {phone.SDES, "", srtpOptional},
	} {
		t.Run(fmt.Sprintf("%s to %s", word(c.before), word(c.after)), func(t *testing.T) {
			t.Parallel() // mostly it waits
			caller := ringUp(t, phone.Config{Number: "+14155550100", Encryption: c.before})
			desk := ringUp(t, phone.Config{Number: "+12125550123", Encryption: c.after})
			answered := desk.AnswerAll()
			g, first, s := transferring(t, caller, desk, func(tr *Trunk) { tr.AcceptRefer, tr.SRTP = true, c.policy })
			if c.before != "" {
				if err := first.WaitEncrypted(within(t)); err != nil {
					t.Fatal(err)
				}
			}
			if m, err := first.Refer(within(t), "<sip:+12125550123@127.0.0.1>"); err != nil || m.Code != 202 {
				t.Fatalf("REFER: %v, %v", m, err)
			}
			next := await(t, answered, "call")
			if _, err := first.WaitEnd(within(t)); err != nil {
				t.Fatal(err)
			}
			if c.after != "" {
				if err := next.WaitEncrypted(within(t)); err != nil {
					t.Fatal(err)
				}
			}
			next.Say(sine(1000, 8000, 500*time.Millisecond))
			s.await(t, agent.VoiceConfirmed)
			if err := next.Hangup(within(t)); err != nil {
				t.Fatal(err)
			}
			if r := g.seen.awaitEnd(t); (r.SRTP != "") != (c.after != "") {
				t.Errorf("record %+v", r)
			}
		})
	}
}

func TestThePeerTransfersUs(t *testing.T) {
	caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	answered := desk.AnswerAll()
	g, c, s := transferring(t, caller, desk, func(tr *Trunk) { tr.AcceptRefer = true })
	m, err := c.Refer(within(t), "<sip:+12125550123@127.0.0.1>")
	if err != nil || m.Code != 202 {
		t.Fatalf("REFER: %v, %v", m, err)
	}
	next := await(t, answered, "call")
	if end, err := c.WaitEnd(within(t)); err != nil || !end.ByPeer {
		t.Errorf("the old dialog: %+v, %v", end, err)
	}
	if got := c.Notified(); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "SIP/2.0 200") {
		t.Errorf("NOTIFY %q", got)
	}
	next.Say(sine(1000, 8000, 500*time.Millisecond))
	s.await(t, agent.VoiceConfirmed) // the same agent, another party
	if len(g.agent.sessions) != 1 {
		t.Errorf("%d sessions", len(g.agent.sessions))
	}
	if err := next.Hold(within(t)); err != nil {
		t.Error(err)
	}
	s.await(t, agent.Held)
	if err := next.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	if r := g.seen.awaitEnd(t); r.Cause != CauseCallerHungUp {
		t.Errorf("record %+v", r)
	}
}

func TestREFERsThatAreNotTaken(t *testing.T) { // BR-159
	for _, c := range []struct {
		name   string
		change func(*Trunk)
		to     string
		code   int
	}{
		{"off by default", nil, "<sip:+12125550123@127.0.0.1>", 403},
		{"premium", func(tr *Trunk) { tr.AcceptRefer = true }, "<sip:+19005550123@127.0.0.1>", 403},
		{"elsewhere", func(tr *Trunk) { tr.AcceptRefer = true }, "<sip:x@evil.example>", 403},
		{"full", func(tr *Trunk) { tr.AcceptRefer, tr.MaxCalls = true, 1 }, "<sip:+12125550123@127.0.0.1>", 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
			_, call, s := transferring(t, caller, desk, c.change)
			if m, err := call.Refer(within(t), c.to); err != nil || m.Code != c.code {
				t.Errorf("REFER: %v, %v; want %d", m, err, c.code)
			}
			if err := s.call.Control.SendDigits(within(t), "1"); err != nil {
				t.Errorf("the call does not go on: %v", err)
			}
		})
	}
}

func TestAPeersTransferThatFails(t *testing.T) {
	caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	desk.Answer(func(i *phone.Incoming) { i.Ring(); i.Refuse(486, "Busy Here") })
	g, c, s := transferring(t, caller, desk, func(tr *Trunk) { tr.AcceptRefer = true })
	if m, err := c.Refer(within(t), "<sip:+12125550123@127.0.0.1>"); err != nil || m.Code != 202 {
		t.Fatalf("REFER: %v, %v", m, err)
	}
	g.seen.awaitEvent(t, agent.EventConnection, agent.ConnectionTransferFailed)
	for limit := within(t); ; time.Sleep(5 * time.Millisecond) {
		if slices.ContainsFunc(c.Notified(), func(s string) bool { return strings.HasPrefix(s, "SIP/2.0 486") }) {
			break
		}
		if limit.Err() != nil {
			t.Fatalf("NOTIFY %q", c.Notified())
		}
	}
	c.Say(sine(1000, 8000, 500*time.Millisecond))
	s.await(t, agent.VoiceConfirmed)
}

func TestReplacesTakesTheCallOver(t *testing.T) {
	caller, other := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	g, c, s := transferring(t, caller, other, nil)
	g.agent.does(nil)
	taken, err := other.Dial(within(t), g.uri, phone.Header{Name: "Replaces", Value: c.Replaces()}, phone.Header{Name: "X-Test-Trunk", Value: "carrier"})
	if err != nil {
		t.Fatal(err)
	}
	if end, err := c.WaitEnd(within(t)); err != nil || !end.ByPeer {
		t.Errorf("the old dialog: %+v, %v", end, err)
	}
	g.seen.awaitEvent(t, agent.EventConnection, agent.ConnectionMoved)
	taken.Say(sine(1000, 8000, 500*time.Millisecond))
	s.await(t, agent.VoiceConfirmed)
	if n := g.Active(); n != 1 || len(g.agent.sessions) != 1 {
		t.Errorf("%d calls, %d sessions; want the one", n, len(g.agent.sessions))
	}
	if err := s.call.Control.SendDigits(within(t), "5"); err != nil {
		t.Error(err)
	}
	if got := taken.Log().Digits(phone.Heard); got != "5" {
		t.Errorf("keys %q at the new party", got)
	}
	if err := taken.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	if r := g.seen.awaitEnd(t); r.Cause != CauseCallerHungUp {
		t.Errorf("record %+v", r)
	}
}

// A call of ours that rings at one telephone is picked up at another (RFC 3891 section 3).
func TestACallThatRingsIsPickedUp(t *testing.T) {
	ringing, cancelled := make(chan string, 4), make(chan string, 4)
	desk := ringUp(t, phone.Config{Number: "+12125550123", Trace: func(direction, text string) {
		if direction == "->" && strings.HasPrefix(text, "SIP/2.0 180") {
			ringing <- text
		}
		if direction == "<-" && strings.HasPrefix(text, "CANCEL") {
			cancelled <- text
		}
	}})
	desk.Answer(func(i *phone.Incoming) { i.Ring(); <-i.Canceled() })
	g := withTrunk(t, desk, nil)
	order(t, g, Outgoing{To: "+12125550123"})
	text := await(t, ringing, "180")
	header := func(name string) string {
		m := regexp.MustCompile("(?mi)^" + name + ": *(.*?)\r?$").FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no %s in %q", name, text)
		}
		return m[1]
	}
	tag := func(name string) string { _, v, _ := strings.Cut(header(name), ";tag="); return v }
	g.seen.awaitEvent(t, agent.EventConnection, agent.ConnectionRinging)
	replaces := phone.Header{Name: "Replaces", Value: header("Call-ID") + ";to-tag=" + tag("From") + ";from-tag=" + tag("To") + ";early-only"}
	other := ringUp(t, phone.Config{Number: "+12125550124"})
	var status *phone.StatusError
	if _, err := other.Dial(within(t), g.uri, replaces); !errors.As(err, &status) || status.Code != 403 {
		t.Errorf("by no trunk: %v", err)
	}
	c, err := other.Dial(within(t), g.uri, replaces, phone.Header{Name: "X-Test-Trunk", Value: "carrier"})
	if err != nil {
		t.Fatal(err)
	}
	if m := await(t, cancelled, "CANCEL"); !strings.Contains(m, "completed elsewhere") {
		t.Errorf("CANCEL:\n%s", m)
	}
	await(t, g.seen.started, "start")
	c.Say(sine(1000, 8000, 500*time.Millisecond))
	g.agent.last().await(t, agent.VoiceConfirmed)
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	if r := g.seen.awaitEnd(t); r.Cause != CauseCalleeHungUp || r.SIPCallID != c.ID() {
		t.Errorf("record %+v", r)
	}
}

func TestReplacesThatDoesNotCount(t *testing.T) {
	caller, other := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	g, c, _ := transferring(t, caller, other, nil)
	for _, x := range []struct {
		name  string
		extra []phone.Header
		code  int
	}{
		{"unknown", []phone.Header{{Name: "Replaces", Value: "a@b;to-tag=1;from-tag=2"}, {Name: "X-Test-Trunk", Value: "carrier"}}, 481},
		{"another way", []phone.Header{{Name: "Replaces", Value: c.Replaces()}}, 403},
		{"unreadable", []phone.Header{{Name: "Replaces", Value: "a@b"}, {Name: "X-Test-Trunk", Value: "carrier"}}, 400},
	} {
		_, err := other.Dial(within(t), g.uri, x.extra...)
		var status *phone.StatusError
		if !errors.As(err, &status) || status.Code != x.code {
			t.Errorf("%s: %v, want %d", x.name, err, x.code)
		}
	}
	if n := g.Active(); n != 1 {
		t.Errorf("%d calls", n)
	}
}
