package kit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/live"
	"parley/agent/live/livetest"
)

// calls is how many calls of random events are held; PARLEY_CALLS says otherwise.
func calls() int {
	if n, err := strconv.Atoi(os.Getenv("PARLEY_CALLS")); err == nil {
		return n
	}
	return 150
}

// TestRandomCalls holds calls in which everything happens in any order and checks what
// must hold of all of them: every turn and every reply ends once, what was heard is the
// beginning of what was said, tool calls are answered, nothing is said once it was cut,
// and the conversation is never stuck.
func TestRandomCalls(t *testing.T) {
	for seed := range calls() {
		if !t.Run(strconv.Itoa(seed), func(t *testing.T) { randomCall(t, uint64(seed)) }) {
			return
		}
	}
}

func randomCall(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	ring(t, func(p *phone) {
		p.bare = random.IntN(5) == 0
		p.cfg.Session.LocalTurns = random.IntN(2) == 0
		p.cfg.Turn.MuteGreeting = random.IntN(4) == 0
		p.cfg.Turn.Idle = 0 // it would end the call
		if random.IntN(2) == 0 {
			p.cfg.Greeting = "Welcome."
		}
		if random.IntN(3) == 0 {
			p.cfg.Voice = p.ownVoice()
			p.cfg.Filler, p.cfg.FillerAfter = "One moment.", time.Second
		}
		p.cfg.ReplyTimeout = 20 * time.Second
		// In the end the model that is asked answers; so does one that was made anew.
		p.script.OnSent = func(c *livetest.ScriptConn, s livetest.Sent) error {
			if p.answers.Load() && (s.Kind == livetest.SentInstruct || s.Kind == livetest.SentText) {
				return c.Tell(live.Message{TurnDone: true})
			}
			return nil
		}
		p.cfg.CallTools = func(agent.Call) []Tool {
			f := does("slow", func(ctx context.Context, _ map[string]any) (map[string]any, error) {
				select {
				case <-time.After((time.Since(p.began) / ms * 37 % 2000) * ms):
				case <-ctx.Done():
				}
				return nil, nil
			})
			f.ToolTraits.Interruptible = true
			return []Tool{f}
		}
	}, func(p *phone) {
		for n := range 40 {
			p.random(random, n)
			if p.over() {
				break
			}
		}
		p.settles()
	})
}

func (p *phone) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// random has something happen.
func (p *phone) random(random *rand.Rand, n int) {
	c := p.script.Last()
	tell := func(m live.Message) { _ = c.Tell(m) }
	notice := func(k agent.NoticeKind) {
		p.session.Notice(agent.Notice{Kind: k, At: time.Now(), Lag: time.Duration(random.IntN(100)) * ms})
	}
	item := fmt.Sprintf("item-%d", n)
	switch random.IntN(20) {
	case 0, 1, 2:
		notice(agent.VoiceOn)
	case 3:
		notice(agent.VoiceConfirmed)
	case 4, 5, 6:
		notice(agent.VoiceOff)
	case 7, 8, 9:
		p.saysOn(c, item, strings.Repeat("word ", 1+random.IntN(20)))
		if random.IntN(3) > 0 {
			tell(live.Message{TurnDone: true})
		}
	case 10:
		tell(live.Message{TurnDone: true})
	case 11:
		tell(live.Message{Interrupted: true})
	case 12:
		tell(live.Message{SpeechStarted: true})
	case 13:
		tell(live.Message{SpeechStopped: true})
	case 14, 15:
		tell(live.Message{User: live.Transcript{Text: []string{"What is it?", "Mm-hm.", "", "Stop."}[random.IntN(4)], Done: true}})
	case 16:
		p.session.Notice(agent.Notice{Kind: agent.Digit, At: time.Now(), Digit: "0123456789#*"[random.IntN(12)]})
	case 17:
		tell(call("call-"+strconv.Itoa(n), "slow", nil))
	case 18:
		switch random.IntN(3) {
		case 0:
			c.Drop()
		case 1:
			tell(live.Message{GoAway: &live.GoAway{TimeLeft: 3 * time.Second}})
		default:
			tell(live.Message{CancelledCalls: []string{"call-" + strconv.Itoa(random.IntN(n+1))}})
		}
	case 19:
		go func() { _ = p.session.(agent.Announcer).Announce(p.Context(), "An announcement.") }()
	}
	if random.IntN(3) > 0 {
		time.Sleep(time.Duration(random.IntN(800)) * ms)
	}
	synctest.Wait()
}

// settles checks what must hold once everything has come to rest.
func (p *phone) settles() {
	if !p.over() {
		p.session.Notice(agent.Notice{Kind: agent.VoiceOff, At: time.Now()})
		p.answers.Store(true)
		for range 30 {
			time.Sleep(2 * time.Second)
			_ = p.script.Last().Tell(live.Message{TurnDone: true})
		}
		synctest.Wait()
		states := p.all(agent.EventState)
		if last := states[len(states)-1].Reason; last != "listening" && !p.over() {
			p.Errorf("after a minute of quiet the state is %q", last)
		}
		p.line.set(func() {
			if p.line.paused {
				p.Error("the speech is paused for ever")
			}
		})
	}
	p.cancel(errHungUp)
	<-p.done
	if p.err != nil && !errors.Is(p.err, errHungUp) {
		p.Errorf("Run: %v", p.err)
	}
	synctest.Wait()
	p.balanced()
	if p.Failed() {
		p.Log(p.log())
	}
}

// balanced checks the events of a whole call.
func (p *phone) balanced() {
	open, speaking := false, 0
	answers := map[string]int{}
	for _, e := range p.events {
		switch e.Type {
		case agent.EventUserStarted:
			if open {
				p.Errorf("%v: a turn began within a turn", e.At.Sub(p.began))
			}
			open = true
		case agent.EventUserStopped:
			if !open {
				p.Errorf("%v: a turn ended that had not begun", e.At.Sub(p.began))
			}
			open = false
		case agent.EventAgentStarted:
			speaking++
		case agent.EventAgentStopped:
			if !strings.HasPrefix(e.Text, e.Heard) {
				p.Errorf("%v: heard %q of %q", e.At.Sub(p.began), e.Heard, e.Text)
			}
			if !e.Interrupted && e.Heard != e.Text {
				p.Errorf("%v: not cut, and %q of %q heard", e.At.Sub(p.began), e.Heard, e.Text)
			}
			if e.Heard != "" || speaking > 0 {
				speaking = max(0, speaking-1)
			}
		case agent.EventToolCall:
			answers[e.ID]++
		case agent.EventToolResult:
			answers[e.ID]--
		}
	}
	if open {
		p.Error("a turn has no end")
	}
	if speaking > 0 {
		p.Errorf("%d replies have no end", speaking)
	}
	for id, n := range answers {
		if n != 0 {
			p.Errorf("call %s: %d calls more than answers", id, n)
		}
	}
}
