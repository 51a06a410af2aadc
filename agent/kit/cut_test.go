package kit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/live"
)

// BR-137 b: a cut is one critical section; what was heard, what the record says and
// what the model is told agree to the word and the millisecond, wherever it falls.
func TestCutAnywhere(t *testing.T) {
	const words = 30
	var text []string
	for i := range words {
		text = append(text, fmt.Sprintf("word%02d", i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		after := time.Duration(random.IntN(5500)) * ms
		t.Run(after.String(), func(t *testing.T) {
			ring(t, nil, func(p *phone) {
				p.replies("item-1", strings.Join(text, " "))
				p.until("it speaks", func() bool { return len(p.all(agent.EventAgentStarted)) > 0 })
				time.Sleep(after)
				p.speaks("Wait, please.", time.Second)
				heard := p.heard()
				p.wantStopped(strings.Join(text, " ") + "|" + heard + "|cut")
				var samples int
				for _, s := range p.wire() {
					samples += s.samples
				}
				played := rate(p.line.says).length(samples).Truncate(time.Millisecond)
				p.wantSent(fmt.Sprintf("truncate item-1 %v", played))
				barge := p.all(agent.EventBargeIn)
				if len(barge) != 1 || barge[0].Reason != "voice" || barge[0].Latency > 200*ms {
					p.Errorf("barge-in %+v", barge)
				}
				p.replies("item-2", "Yes?")
				p.quiet(2)
				if got := p.heard(); got != strings.TrimSpace(heard+" Yes?") {
					p.Errorf("heard %q", got)
				}
				p.wantUser("Wait, please.")
			})
		})
	}
}

// Where the model tells the times of words they are used.
func TestCutWithWordTimes(t *testing.T) {
	ring(t, nil, func(p *phone) {
		// A long word and short ones take equally long: characters would mislead.
		var until time.Duration
		for i, w := range strings.Fields("incomprehensibilities are no fun at all to say") {
			until += wordTime
			p.tell(live.Message{ItemID: "i", Audio: p.audio(p.wordPCM(w)), Agent: live.Transcript{Delta: strings.Repeat(" ", min(i, 1)) + w, Until: until}})
		}
		p.tell(live.Message{TurnDone: true})
		p.until("it speaks", func() bool { return len(p.all(agent.EventAgentStarted)) > 0 })
		time.Sleep(450 * ms)
		p.speaks("Stop.", 500*ms)
		p.wantStopped("incomprehensibilities are no fun at all to say|" + p.heard() + "|cut")
		if p.heard() != "incomprehensibilities are" && p.heard() != "incomprehensibilities are no" {
			p.Errorf("heard %q", p.heard())
		}
	})
}

// BR-137 a: a reply that is cut before anything of it was heard is forgotten.
func TestCutBeforeHeard(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.line.set(func() { p.line.dead = true }) // nothing leaves the gateway
		p.replies("item-1", "You will not hear this.")
		p.speaks("Hello?", time.Second)
		p.line.set(func() { p.line.dead = false })
		p.wantSent("truncate item-1 0s")
		p.wantStopped("You will not hear this.||cut")
		if got := p.all(agent.EventBargeIn); len(got) != 0 {
			p.Errorf("barge-in %+v", got)
		}
		time.Sleep(2 * time.Second)
		if p.heard() != "" {
			p.Errorf("heard %q", p.heard())
		}
	})
}

// BR-137 a, c: before the first piece of a reply, and when nothing plays, there is
// nothing to truncate.
func TestCutNothing(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.speaks("One.", time.Second)
		p.speaks("Two.", time.Second) // while a reply is expected
		p.wantSent()
		p.replies("item-1", "Two it is.")
		p.quiet(1)
		time.Sleep(time.Second)
		p.speaks("Three.", time.Second) // when nothing plays
		p.wantSent()
		p.wantUser("One.", "Two.", "Three.")
	})
}

// BR-120: a reply to a turn that the caller has gone on from is never heard.
func TestStaleReply(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.speaks("Tell me about", time.Second)
		go func() {
			time.Sleep(600 * ms)
			p.says("old", "About what?")
			_ = p.script.Last().Tell(live.Message{TurnDone: true})
		}()
		p.speaks("the weather.", 1500*ms)
		p.replies("new", "It rains.")
		p.until("the reply", func() bool { return strings.Contains(p.heard(), "rains.") })
		if got := p.heard(); got != "It rains." {
			p.Errorf("heard %q", got)
		}
		p.wantSent("truncate old 0s")
	})
}

// The same when it comes after the turn has ended, which a pressed key does at once: the
// model has the old question to answer first.
func TestStaleReplyAfterTheTurn(t *testing.T) {
	ring(t, func(p *phone) { p.cfg.Turn.MaxDigits = 1 }, func(p *phone) {
		p.speaks("Tell me about", time.Second)
		p.key("5")
		p.wantSent("text I pressed these keys of my telephone: 5")
		p.replies("old", "About what?")
		p.replies("new", "Five it is.")
		p.quiet(1)
		if got := p.heard(); got != "Five it is." {
			p.Errorf("heard %q", got)
		}
		p.wantSent("text I pressed these keys of my telephone: 5", "truncate old 0s")
		p.wantStopped("Five it is.|Five it is.")
	})
}

// A model that gives up on its reply before a word of it came has no other to drop.
func TestStaleReplyThatNeverCame(t *testing.T) {
	ring(t, func(p *phone) { p.cfg.Turn.MaxDigits = 1 }, func(p *phone) {
		p.speaks("Tell me about", time.Second)
		p.key("5")
		p.tell(live.Message{TurnDone: true})
		p.replies("new", "Five it is.")
		p.quiet(1)
		if got := p.heard(); got != "Five it is." {
			p.Errorf("heard %q", got)
		}
	})
}

// BR-126: the service's own voice detection cuts nothing, not even when it has stopped
// its reply.
func TestServiceCannotCut(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.says("item-1", "One two three four five six.")
		time.Sleep(200 * ms)
		p.tell(live.Message{SpeechStarted: true})
		p.tell(live.Message{Interrupted: true})
		p.tell(live.Message{SpeechStopped: true, User: live.Transcript{Done: true}})
		p.quiet(1)
		p.wantStopped("One two three four five six.|One two three four five six.")
		p.wantSent()
		p.line.set(func() {
			if p.line.stops > 0 || p.line.pauses > 0 {
				p.Errorf("%d stops, %d pauses", p.line.stops, p.line.pauses)
			}
		})
	})
}

// A sound that proves no voice pauses the agent, and it goes on where it was.
func TestNoise(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.replies("item-1", "One two three four five six seven eight.")
		time.Sleep(500 * ms)
		p.session.Notice(agent.Notice{Kind: agent.VoiceOn, At: time.Now(), Lag: 40 * ms})
		time.Sleep(100 * ms)
		p.session.Notice(agent.Notice{Kind: agent.VoiceOff, At: time.Now()})
		p.quiet(1)
		p.wantStopped("One two three four five six seven eight.|One two three four five six seven eight.")
		p.wantSent()
		p.line.set(func() {
			if p.line.pauses != 1 || p.line.stops != 0 {
				p.Errorf("%d pauses, %d stops", p.line.pauses, p.line.stops)
			}
		})
		if got := p.all(agent.EventFalseBargeIn); len(got) != 1 {
			p.Errorf("false barge-ins %+v", got)
		}
	})
}

// A voice that cut the agent off and held no word lets it go on, where it was and
// within 2 s, once.
func TestFalseInterruption(t *testing.T) {
	const text = "One two three four five six seven eight nine ten."
	ring(t, nil, func(p *phone) {
		p.replies("item-1", text)
		time.Sleep(700 * ms)
		p.sound(400 * ms)
		silent := time.Now()
		p.until("it goes on", func() bool { return len(p.all(agent.EventAgentStarted)) == 2 })
		if took := time.Since(silent); took > 2*time.Second {
			p.Errorf("it went on after %v", took)
		}
		p.quiet(2)
		stopped := p.all(agent.EventAgentStopped)
		if !stopped[0].Interrupted || stopped[1].Interrupted || stopped[1].Heard != text || stopped[1].Text != text {
			p.Errorf("stopped %+v", stopped)
		}
		// Every sample of it was heard once.
		total := 0
		for _, s := range p.wire() {
			total += s.samples
		}
		if total != 10*p.wordSound() {
			p.Errorf("%d samples on the wire, want %d", total, 10*p.wordSound())
		}
		p.wantUser("|noise")
	})
}

// The same of a reply that had not come to its end: the model is asked to go on.
func TestFalseInterruptionOfPart(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.says("item-1", "One two three four five six seven eight nine ten")
		time.Sleep(700 * ms)
		p.sound(400 * ms)
		p.until("it is asked", func() bool { return len(p.sent()) == 2 })
		if got := p.sent()[1]; !strings.HasPrefix(got, "instruct A noise") || !strings.HasSuffix(got, `"One two three"`) && !strings.HasSuffix(got, `"One two"`) {
			p.Errorf("sent %q", got)
		}
	})
}

// A backchannel stops nothing for good, and the service's answer to it is not heard.
func TestBackchannel(t *testing.T) {
	const text = "One two three four five six seven eight nine ten."
	ring(t, nil, func(p *phone) {
		p.replies("item-1", text)
		time.Sleep(700 * ms)
		p.speaks("Mm-hm.", 400*ms)
		p.replies("item-2", "Glad you agree.")
		p.quiet(2)
		if got := p.heard(); got != text {
			p.Errorf("heard %q", got)
		}
		p.wantUser("|noise")
		if got := p.sent(); len(got) != 2 || got[1] != "truncate item-2 0s" {
			p.Errorf("sent %q", got)
		}
	})
}

// BR-123: a noise between the turn and the reply to it kills nothing.
func TestNoiseBeforeReply(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.speaks("What time is it?", time.Second)
		p.sound(300 * ms)
		p.replies("item-1", "It is noon.")
		p.quiet(1)
		p.wantStopped("It is noon.|It is noon.")
		p.wantSent()
	})
}

// A provider that cannot truncate: what still comes of a reply that was cut is dropped.
func TestCutWithoutTruncate(t *testing.T) {
	ring(t, func(p *phone) { p.bare = true }, func(p *phone) {
		p.says("", "One two three four five six")
		time.Sleep(500 * ms)
		go func() {
			time.Sleep(400 * ms)
			p.says("", "seven eight nine")
			_ = p.script.Last().Tell(live.Message{Interrupted: true})
		}()
		p.speaks("Stop.", 800*ms)
		p.replies("", "Yes?")
		p.quiet(2)
		if got := p.heard(); strings.Contains(got, "seven") || !strings.HasSuffix(got, "Yes?") {
			p.Errorf("heard %q", got)
		}
	})
}

// The same where items have names: what was on its way when the reply was cut is not
// the beginning of another.
func TestCutOnItsWay(t *testing.T) {
	ring(t, func(p *phone) { p.bare = true }, func(p *phone) {
		p.says("item-1", "One two three four five six")
		time.Sleep(500 * ms)
		p.speaks("Stop.", 800*ms)
		p.says("item-1", "seven eight nine")
		p.replies("item-2", "Yes?")
		p.quiet(2)
		if got := p.heard(); strings.Contains(got, "seven") || !strings.HasSuffix(got, "Yes?") {
			p.Errorf("heard %q", got)
		}
	})
}

// blocked is a Speaker that takes nothing.
type blocked struct {
	*line
	entered chan struct{}
}

func (b blocked) Say(ctx context.Context, _ []int16) error {
	close(b.entered)
	<-ctx.Done()
	return ctx.Err()
}

// A cut ends what is being given to the Speaker, before the Speaker is stopped.
func TestCutEndsSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		b := blocked{newLine(), make(chan struct{})}
		s := newSpeech(life, b, nil, pcmSound(), time.Minute)
		var told []*reply
		s.said = func(r *reply) { told = append(told, r) }
		done := make(chan struct{})
		go func() { s.run(); close(done) }()
		old, fresh := &reply{}, &reply{}
		s.add(chunk{reply: old, pcm: make([]int16, 2400)})
		s.add(chunk{reply: old, last: true})
		<-b.entered
		if _, rest := s.cut(); len(rest) != 2 {
			t.Errorf("%d chunks are left", len(rest))
		}
		s.add(chunk{reply: fresh, last: true})
		synctest.Wait()
		if len(told) != 1 || told[0] != fresh {
			t.Errorf("told of %v", told)
		}
		end()
		<-done
	})
}
