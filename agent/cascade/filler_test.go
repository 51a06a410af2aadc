package cascade

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/stt/stttest"
)

// fill switches fillers on that the rig switches off.
func fill(phrase string, tone bool) func(*rig) {
	return func(r *rig) {
		r.cfg.FillerAfter, r.cfg.Filler, r.cfg.FillerTone = 800*ms, phrase, tone
		r.model.delay = 3 * time.Second
	}
}

// tones are the times at which soft tones began.
func (r *rig) tones() []time.Time {
	var at []time.Time
	last := time.Time{}
	for _, s := range r.wire() {
		if s.value > firstWord {
			continue
		}
		if s.at.Sub(last) > 500*ms {
			at = append(at, s.at)
		}
		last = s.at
	}
	return at
}

func TestAToneFillsTheSilence(t *testing.T) {
	converse(t, fill("", true), func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.quiet(2)
		tones := r.tones()
		if len(tones) != 2 {
			t.Fatalf("%d tones", len(tones))
		}
		first, second := tones[0].Sub(r.model.at[0]), tones[1].Sub(tones[0])
		if first < 800*ms || first > 840*ms || second < 1960*ms || second > 2600*ms {
			t.Errorf("%v after it was asked, %v later", first, second)
		}
		if got := r.all(agent.EventAgentStopped)[1]; got.Heard != "Reply number 1." || got.Text != got.Heard {
			t.Errorf("%+v", got)
		}
		if e := r.all(agent.EventAgentStarted)[1]; e.Latency < 3600*ms {
			t.Errorf("the tone counts as the reply: latency %v", e.Latency)
		}
	})
}

func TestTheReplyStopsTheFiller(t *testing.T) {
	for name, c := range map[string]struct {
		untimed bool
		want    string
	}{
		"with the word it is at": {false, "Welcome to Parley. One moment Reply number 1."},
		"at once":                {true, "Welcome to Parley. One Reply number 1."},
	} {
		t.Run(name, func(t *testing.T) {
			converse(t, func(r *rig) {
				fill("One moment please, I look it up.", true)(r)
				r.voice.untimed, r.voice.length = c.untimed, 300*ms
				r.model.delay = 1150 * ms
			}, func(r *rig) {
				r.quiet(1)
				r.say("go", time.Second)
				r.quiet(2)
				if wire := strings.Join(r.heard(), " "); wire != c.want {
					t.Errorf("wire %q", wire)
				}
				if e := r.all(agent.EventAgentStarted)[1]; e.Latency > 2100*ms {
					t.Errorf("latency %v", e.Latency)
				}
			})
		})
	}
}

func TestALongWaitIsFilledAgain(t *testing.T) {
	converse(t, func(r *rig) {
		fill("One moment.", true)(r)
		r.model.reply = func(ctx context.Context, _ int, _ llm.Turn, out func(llm.Chunk) error) error {
			if err := out(llm.Chunk{Text: "I look", Thinking: true}); err != nil {
				return err
			}
			if err := sleep(ctx, 25*time.Second); err != nil {
				return err
			}
			return out(llm.Chunk{Text: " It is done."})
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.quiet(2)
		phrases := 0
		for _, s := range r.wire() {
			if word, _ := r.voice.word(s.value); word == "One" && s.samples == rate/50 {
				phrases++
			}
		}
		if phrases = phrases * 20 / 200; phrases != 3 { // 20 ms a packet, 200 ms a word
			t.Errorf("%d phrases in 25 s", phrases)
		}
		if n := len(r.tones()); n < 6 || n > 12 {
			t.Errorf("%d tones", n)
		}
		if got := r.all(agent.EventAgentStopped)[1]; got.Heard != "I look It is done." {
			t.Errorf("%+v", got)
		}
		if n := len(r.all(agent.EventError)); n != 0 {
			t.Errorf("%s", r.log())
		}
	})
}

// TestASilenceWithinAReplyIsFilled: what the call holds back of an incomplete packet
// does not keep the silence from beginning.
func TestASilenceWithinAReplyIsFilled(t *testing.T) {
	converse(t, func(r *rig) {
		fill("", true)(r)
		r.voice.length = 210 * ms // no whole packets
		r.model.reply = func(ctx context.Context, _ int, _ llm.Turn, out func(llm.Chunk) error) error {
			return errors.Join(out(llm.Chunk{Text: "It is sunny today. And"}), sleep(ctx, 5*time.Second), out(llm.Chunk{Text: " warm."}))
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.speaks(2)
		began := time.Now()
		r.quiet(2)
		tones := r.tones()
		if len(tones) != 2 {
			t.Fatalf("%d tones\n%s", len(tones), r.log())
		}
		if after := tones[0].Sub(began); after < 1600*ms || after > 1720*ms {
			t.Errorf("the first %v after the first word", after)
		}
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. It is sunny today. And warm." {
			t.Errorf("wire %q", wire)
		}
		if got := r.all(agent.EventAgentStopped)[1]; got.Heard != "It is sunny today. And warm." {
			t.Errorf("%+v", got)
		}
	})
}

// TestASlowRecogniserIsFilledInFor: a caller who has finished hears a tone though nobody
// knows yet what was said, and what is heard of the reply is told from where it begins.
func TestASlowRecogniserIsFilledInFor(t *testing.T) {
	converse(t, func(r *rig) {
		fill("", true)(r)
		r.model.delay = 0
		r.model.reply = saying("One two three four five six seven eight.")
	}, func(r *rig) {
		r.quiet(1)
		r.stt.Add(stttest.Utterance{Text: "go", Confidence: 0.9, Delay: 960 * ms})
		r.sound(time.Second)
		over := time.Now().Add(-200 * ms)
		r.speaks(2)
		tones := r.tones()
		if len(tones) != 1 {
			t.Fatalf("%d tones\n%s", len(tones), r.log())
		}
		if after := tones[0].Sub(over); after < 1400*ms || after > 1480*ms { // the turn's end, and FillerAfter
			t.Errorf("%v after the caller's last sound", after)
		}
		r.wait(690 * ms) // within the fourth word
		r.sound(time.Second)
		r.until("it is cut", func() bool { return len(r.all(agent.EventAgentStopped)) == 2 })
		got := r.all(agent.EventAgentStopped)[1]
		if words := strings.Join(r.heard()[3:], " "); got.Heard != words || words == "" {
			t.Errorf("heard %q, on the wire were %q", got.Heard, words)
		}
	})
}

func TestASlowVoiceIsFilledInFor(t *testing.T) {
	converse(t, func(r *rig) {
		fill("", true)(r)
		r.model.delay = 0
	}, func(r *rig) {
		r.quiet(1)
		r.voice.firstByte = 4 * time.Second
		r.say("go", time.Second)
		r.quiet(2)
		if n := len(r.tones()); n != 2 {
			t.Errorf("%d tones", n)
		}
		if got := r.all(agent.EventAgentStopped)[1]; got.Heard != "Reply number 1." {
			t.Errorf("%+v", got)
		}
	})
}

// A voice that cannot make the filler does not hold it up.
func TestAPhraseThatCannotBeMadeIsATone(t *testing.T) {
	converse(t, func(r *rig) {
		fill("One moment.", true)(r)
		r.voice.fails = func(text string) error {
			if text == "One moment." {
				return errBroken
			}
			return nil
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.quiet(2)
		if n := len(r.tones()); n != 2 {
			t.Errorf("%d tones", n)
		}
	})
}

func TestNoFillerIsPlayedToACallerOnHold(t *testing.T) {
	converse(t, fill("", true), func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.until("it is asked", func() bool { return len(r.model.asked()) == 1 })
		r.line.set(&r.line.held, true)
		r.session.Notice(agent.Notice{Kind: agent.Held, At: time.Now()})
		r.wait(10 * time.Second)
		r.line.mu.Lock()
		queued := len(r.line.queue)
		r.line.mu.Unlock()
		r.line.set(&r.line.held, false)
		r.session.Notice(agent.Notice{Kind: agent.Resumed, At: time.Now()})
		r.quiet(2)
		if n := len(r.tones()); n > 1 || queued > 2*rate {
			t.Errorf("%d tones, %d samples queued", n, queued)
		}
	})
}

// slowTool is a model whose tool takes 30 s, also when its reply is cut off; the result is
// told when it is woken. The tool ends with the call.
type slowTool struct {
	*mind
	life   context.Context
	end    context.CancelFunc
	cut    chan time.Time // when the tool was cancelled
	result chan string
}

func (m *slowTool) Open(ctx context.Context, c llm.Conversation) (llm.Model, error) {
	_, err := m.mind.Open(ctx, c)
	m.life, m.end = context.WithCancel(context.WithoutCancel(ctx))
	m.cut, m.result = make(chan time.Time, 1), make(chan string, 1)
	return m, err
}

func (m *slowTool) Reply(ctx context.Context, t llm.Turn, out func(llm.Chunk) error) error {
	m.mind.mu.Lock()
	m.turns = append(m.turns, t)
	first := len(m.turns) == 1
	m.mind.mu.Unlock()
	switch {
	case t.Woken:
		return out(llm.Chunk{Text: <-m.result})
	case !first:
		return out(llm.Chunk{Text: "Still at it."})
	}
	m.opened.Emit(llm.Happening{Kind: "tool_call", ID: "1", Name: "book", Text: "{}"})
	go func() {
		if sleep(m.life, 30*time.Second) != nil {
			m.cut <- time.Now()
			return
		}
		m.opened.Emit(llm.Happening{Kind: "tool_result", ID: "1", Name: "book", Text: "{}"})
		m.result <- "It is booked."
		m.opened.Wake()
	}()
	if err := out(llm.Chunk{Thinking: true}); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (m *slowTool) Close(ctx context.Context, e llm.End) { m.end(); m.mind.Close(ctx, e) }

func TestBR129ALongToolCall(t *testing.T) {
	for name, hangUp := range map[string]bool{"the caller hangs up at 12 s": true, "the caller stays": false} {
		t.Run(name, func(t *testing.T) {
			model := &slowTool{}
			converse(t, func(r *rig) {
				fill("One moment please.", false)(r)
				model.mind = r.model
				r.cfg.LLM = model
			}, func(r *rig) {
				r.quiet(1)
				r.say("book a table", time.Second)
				r.until("the tool runs", func() bool { return len(r.all(agent.EventToolCall)) == 1 })
				began := r.all(agent.EventToolCall)[0].At
				r.wait(2 * time.Second)
				if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. One moment please." {
					t.Errorf("after 2 s: %q", wire)
				}
				r.wait(time.Until(began.Add(5 * time.Second)))
				r.say("hello?", 500*ms)
				r.quiet(2)
				if wire := strings.Join(r.heard(), " "); !strings.HasSuffix(wire, "Still at it.") {
					t.Errorf("the caller is not heard: %q", wire)
				}
				if !hangUp {
					r.wait(time.Until(began.Add(29 * time.Second)))
					// A tool at work is no silence to break (BR-156).
					if e := r.all(agent.EventIdle); len(e) != 0 {
						t.Errorf("%+v", e)
					}
					r.quiet(3)
					if wire := strings.Join(r.heard(), " "); !strings.HasSuffix(wire, "It is booked.") {
						t.Errorf("wire %q", wire)
					}
					return
				}
				r.wait(time.Until(began.Add(12 * time.Second)))
				bye := time.Now()
				r.hangUpOnce()
				if d := (<-model.cut).Sub(bye); d > time.Second {
					t.Errorf("the tool was told after %v", d)
				}
			})
		})
	}
}

// A tool at work is no reason to hang up, and a model that is silent for longer than a
// tool may be has failed.
func TestAToolHasItsOwnTime(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.ToolTime = 20 * time.Second
		r.model.reply = func(ctx context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
			if err := out(llm.Chunk{Thinking: true}); err != nil {
				return err
			}
			return sleep(ctx, time.Hour)
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		asked := time.Now()
		r.until("it fails", func() bool { return len(r.all(agent.EventError)) == 1 })
		if d := time.Since(asked); d < 20*time.Second || d > 21*time.Second {
			t.Errorf("failed after %v", d)
		}
	})
}
