package kit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/live"
	"parley/agent/live/livetest"
	"parley/agent/tool"
)

// answering has the model say text to every tool answer, after a while.
func answering(p *phone, after time.Duration, text string) {
	p.script.OnSent = func(c *livetest.ScriptConn, s livetest.Sent) error {
		if s.Kind != livetest.SentToolResponse {
			return nil
		}
		go func() {
			time.Sleep(after)
			p.saysOn(c, "after "+s.Response.ID, text)
			_ = c.Tell(live.Message{TurnDone: true})
		}()
		return nil
	}
}

// The model hangs up: after its last words were heard, and those that follow.
func TestHangUp(t *testing.T) {
	ring(t, func(p *phone) { answering(p, time.Second, "Goodbye, and have a nice day.") }, func(p *phone) {
		p.says("item-1", "I will end the call now.")
		p.tell(call("1", "hang_up", nil))
		p.tell(live.Message{TurnDone: true})
		p.ends()
		if p.err != nil {
			p.Errorf("Run: %v", p.err)
		}
		if got := p.heard(); got != "I will end the call now. Goodbye, and have a nice day." {
			p.Errorf("heard %q", got)
		}
		calls, results := p.all(agent.EventToolCall), p.all(agent.EventToolResult)
		if len(calls) != 1 || calls[0].Reason != "hang_up" || calls[0].ID != "1" || len(results) != 1 || results[0].ID != "1" {
			p.Errorf("tool events %+v %+v", calls, results)
		}
		if got := p.all(agent.EventAction); len(got) != 1 || got[0].Reason != "hangup" {
			p.Errorf("actions %+v", got)
		}
	})
}

// A model that has nothing to say after it has hung up ends the call as well.
func TestHangUpSilently(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.says("item-1", "Goodbye.")
		p.tell(call("1", "hang_up", nil))
		p.tell(live.Message{TurnDone: true})
		time.Sleep(time.Second)
		p.tell(live.Message{TurnDone: true})
		p.ends()
		if p.err != nil || p.heard() != "Goodbye." {
			p.Errorf("Run: %v, heard %q", p.err, p.heard())
		}
	})
}

// A caller who speaks keeps the call.
func TestHangUpCancelled(t *testing.T) {
	ring(t, func(p *phone) { answering(p, 500*ms, "Goodbye, and have a very nice day.") }, func(p *phone) {
		p.tell(call("1", "hang_up", nil))
		p.tell(live.Message{TurnDone: true})
		p.until("it speaks", func() bool { return len(p.all(agent.EventAgentStarted)) > 0 })
		p.speaks("Wait!", 600*ms)
		p.replies("item-2", "Yes?")
		time.Sleep(5 * time.Second)
		select {
		case <-p.done:
			p.Error("the call was ended over the caller")
		default:
		}
	})
}

// Call tools act through the call's control, by policy.
func TestCallTools(t *testing.T) {
	ring(t, func(p *phone) {
		p.cfg.Policy = tool.CallPolicy{Hold: true, Digits: 10, Destinations: []tool.Destination{{Name: "sales", To: "+4930123"}}}
	}, func(p *phone) {
		var names []string
		for _, d := range p.script.Last().Config().Tools {
			names = append(names, d.Name)
		}
		if want := []string{"hang_up", "hold_call", "resume_call", "send_digits", "transfer_call"}; !slices.Equal(names, want) {
			p.Errorf("tools %q, want %q", names, want)
		}
		p.tell(call("1", "send_digits", map[string]any{"digits": "12#"}))
		p.tell(call("2", "hold_call", nil))
		p.tell(call("3", "resume_call", nil))
		p.tell(call("4", "transfer_call", map[string]any{"destination": "sales"}))
		p.tell(call("5", "transfer_call", map[string]any{"destination": "+900123"}))
		if got := p.hands.done(); got != "digits 12#, hold, resume, transfer +4930123" {
			p.Errorf("done: %s", got)
		}
		if got := p.sent(); len(got) != 5 || !strings.Contains(got[4], "invalid arguments") {
			p.Errorf("sent %q", got)
		}
		var actions []string
		for _, e := range p.all(agent.EventAction) {
			actions = append(actions, e.Reason)
		}
		if !slices.Equal(actions, []string{"dtmf", "hold", "resume", "transfer"}) {
			p.Errorf("actions %q", actions)
		}
	})
}

// What needs the caller's yes is done after it, once, and not before; the words may
// come after the call that relies on them.
func TestConfirmation(t *testing.T) {
	pay := 0
	prepare := func(p *phone) {
		pay = 0
		p.cfg.CallTools = func(agent.Call) []Tool {
			return []Tool{&FuncTool{
				ToolName: "pay", ToolDescription: "pays", ToolTraits: tool.Traits{Confirm: true}, Prompt: "Shall I pay?",
				Fn: func(context.Context, map[string]any) (map[string]any, error) { pay++; return nil, nil },
			}}
		}
	}
	for name, c := range map[string]struct {
		say  string
		heed bool // the question is heard to its end
		paid int
	}{
		"yes":             {"Yes, please.", true, 1},
		"no":              {"No.", true, 0},
		"over the prompt": {"Yes.", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ring(t, prepare, func(p *phone) {
				p.tell(call("1", "pay", nil))
				p.tell(live.Message{TurnDone: true})
				responses := p.script.Last().All(livetest.SentToolResponse)
				token, _ := responses[0].Response.Response[tool.TokenArgument].(string)
				p.says("item-1", "Shall I pay your bill of ten?")
				p.tell(live.Message{TurnDone: true})
				if c.heed {
					p.quiet(1)
				} else {
					time.Sleep(500 * ms)
				}
				p.sound(600 * ms)
				// The service calls before it has written down what it heard.
				p.tell(call("2", "pay", map[string]any{tool.TokenArgument: token}))
				time.Sleep(300 * ms)
				p.tell(live.Message{User: live.Transcript{Text: c.say, Done: true}})
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if pay != c.paid {
					p.Errorf("paid %d times, want %d: %q\n%s", pay, c.paid, p.sent(), p.log())
				}
				if log := p.log(); token == "" || strings.Contains(log, token) {
					p.Errorf("the token %q is in events", token)
				}
			})
		})
	}
}

// Tools that may be are given up when the caller speaks, and every call has its answer.
func TestInterruptibleTool(t *testing.T) {
	ring(t, func(p *phone) {
		p.cfg.CallTools = func(agent.Call) []Tool {
			f := does("search", func(ctx context.Context, _ map[string]any) (map[string]any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			f.ToolTraits.Interruptible = true
			return []Tool{f}
		}
	}, func(p *phone) {
		p.tell(call("1", "search", nil))
		p.speaks("Never mind.", time.Second)
		p.wantSent("response 1 map[error:cancelled because the caller spoke]")
		if got := p.all(agent.EventToolResult); len(got) != 1 {
			p.Errorf("results %+v", got)
		}
	})
}

// 22: we take the turns: the model hears each turn from before its first sound to its
// end, and nothing else.
func TestLocalTurns(t *testing.T) {
	ring(t, func(p *phone) { p.cfg.Session.LocalTurns = true }, func(p *phone) {
		if !p.script.Last().Config().LocalTurns {
			p.Fatal("the service takes the turns")
		}
		time.Sleep(2 * time.Second)
		if n := len(p.script.Last().All(livetest.SentAudio)); n != 0 {
			p.Errorf("%d frames sent outside of a turn", n)
		}
		p.sound(time.Second)
		time.Sleep(time.Second)
		p.wantSent("activity start", "activity end")
		// The turn, 0.6 s of silence, and what came before the turn was noticed.
		if n := len(p.script.Last().All(livetest.SentAudio)); n < 80+10 || n > 80+preroll+5 {
			p.Errorf("%d frames of the turn sent", n)
		}
		all := p.script.Last().All(livetest.SentActivityStart, livetest.SentActivityEnd, livetest.SentAudio)
		if all[0].Kind != livetest.SentActivityStart || all[len(all)-1].Kind != livetest.SentActivityEnd {
			p.Error("sound lies outside of the turn")
		}
		p.says("item-1", "Yes, I have heard you well.")
		p.tell(live.Message{User: live.Transcript{Text: "Do you hear me?", Done: true}, TurnDone: true})
		time.Sleep(500 * ms)
		p.sound(700 * ms)
		time.Sleep(time.Second)
		p.tell(live.Message{User: live.Transcript{Text: "What else?", Done: true}})
		p.replies("item-2", "Fine.")
		p.quiet(2)
		p.wantUser("Do you hear me?", "What else?")
		sent := p.sent()
		if len(sent) != 5 || !strings.HasPrefix(sent[2], "truncate item-1") || sent[3] != "activity start" {
			p.Errorf("sent %q", sent)
		}
	})
}

// A provider that cannot be told takes the turns itself.
func TestLocalTurnsNotPossible(t *testing.T) {
	ring(t, func(p *phone) { p.cfg.Session.LocalTurns, p.bare = true, true }, func(p *phone) {
		if p.script.Last().Config().LocalTurns {
			p.Error("nobody takes the turns")
		}
	})
}

// Announcements are said when nobody speaks, and their end is told.
func TestAnnounce(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprintf("own voice %v", own), func(t *testing.T) {
			ring(t, func(p *phone) {
				if own {
					p.cfg.Voice = p.ownVoice()
				}
				p.script.OnSent = func(c *livetest.ScriptConn, s livetest.Sent) error {
					if s.Kind == livetest.SentInstruct {
						p.saysOn(c, "announced", "This call ends in a minute.")
						return c.Tell(live.Message{TurnDone: true})
					}
					return nil
				}
			}, func(p *phone) {
				p.replies("item-1", "One two three.")
				done := make(chan error, 1)
				go func() {
					done <- p.session.(agent.Announcer).Announce(p.Context(), "This call ends in a minute.")
				}()
				if err := <-done; err != nil {
					p.Errorf("Announce: %v", err)
				}
				if got := p.heard(); got != "One two three. This call ends in a minute." {
					p.Errorf("heard %q", got)
				}
				p.wantStopped("One two three.|One two three.", "This call ends in a minute.|This call ends in a minute.")
			})
		})
	}
}

// An announcement that the end of the call overtakes is told so.
func TestAnnounceAtTheEnd(t *testing.T) {
	ring(t, nil, func(p *phone) {
		p.replies("item-1", strings.Repeat("word ", 50))
		done := make(chan error, 1)
		go func() { done <- p.session.(agent.Announcer).Announce(p.Context(), "Too late.") }()
		synctest.Wait()
		p.cancel(errHungUp)
		if err := <-done; !errors.Is(err, agent.ErrClosed) {
			p.Errorf("Announce: %v", err)
		}
	})
}

// A configuration that cannot work says all that is wrong with it.
func TestConfig(t *testing.T) {
	good := DefaultConfig()
	good.Provider = func() live.LiveProvider { return livetest.NewScript().Bare() }
	if err := good.Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	for want, spoil := range map[string]func(*Config){
		"a provider is needed": func(c *Config) { c.Provider = nil },
		"wire of calls":        func(c *Config) { c.Session.Wire = live.PCMU },
		"use Tools":            func(c *Config) { c.Session.Tools = []ToolDefinition{{Name: "x"}} },
		"reply timeout":        func(c *Config) { c.ReplyTimeout = 0 },
		"no audio":             func(c *Config) { c.NoAudio = time.Millisecond },
		"ahead":                func(c *Config) { c.Ahead = 0 },
		"no prefix of numbers": func(c *Config) { c.Policy.Numbers = []string{"49"} },
		"turn: idle":           func(c *Config) { c.Turn.Idle = -1 },
		"leaves no time":       func(c *Config) { c.Session.Recovery.Renew = time.Second },
	} {
		c := good
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one that says %q", err, want)
		}
	}
}
