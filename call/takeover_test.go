package call

import (
	"context"
	"fmt"
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
