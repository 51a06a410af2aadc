package cascade

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

func TestDigitsAreOneTurnAndBargeIn(t *testing.T) {
	converse(t, func(r *rig) { r.cfg.Greeting = numbers(20) }, func(r *rig) {
		r.speaks(1)
		r.wait(time.Second)
		r.key("12")
		if barge := r.all(agent.EventBargeIn); len(barge) != 1 || barge[0].Reason != "digit" {
			t.Errorf("%+v", barge)
		}
		r.key("3#")
		r.quiet(2)
		turns := r.model.asked()
		if len(turns) != 1 || turns[0].Text != "123" || !turns[0].Digits || !turns[0].WasInterrupted || turns[0].Interrupted == "" {
			t.Errorf("asked %+v", turns)
		}
		if d := r.all(agent.EventDigit); len(d) != 4 || d[3].Text != "#" {
			t.Errorf("%+v", d)
		}
	})
}

func TestSecretDigitsAreInNoEvent(t *testing.T) {
	converse(t, func(r *rig) { r.cfg.SecretDigits = true }, func(r *rig) {
		r.quiet(1)
		r.key("4711#")
		r.quiet(2)
		if r.model.asked()[0].Text != "4711" {
			t.Errorf("asked %+v", r.model.asked())
		}
		for _, e := range r.events {
			if strings.ContainsAny(e.Text, "47") {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestAReplySaysWhatItExpects(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = func(_ context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
			if n == 1 {
				return out(llm.Chunk{Text: "Your code?", Expect: &llm.Expect{Grammar: "#JSGF V1.0;", Phrases: []string{"code"}, MaxDigits: 4}})
			}
			return out(llm.Chunk{Text: "Thanks."})
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("log in", time.Second)
		r.quiet(2)
		r.key("1234#")
		r.quiet(3)
		r.key("56")
		r.wait(3 * time.Second)
		turns := r.model.asked()
		if len(turns) != 3 || turns[1].Text != "1234" || turns[2].Text != "56" {
			t.Errorf("asked %+v", turns)
		}
		got := r.stt.Streams()[0].Expected()
		want := []stt.Expect{{}, {Grammar: "#JSGF V1.0;", Phrases: []string{"code"}}, {}}
		if len(got) != len(want) || got[1].Grammar != want[1].Grammar || len(got[1].Phrases) != 1 || got[2].Grammar != "" {
			t.Errorf("expected %+v", got)
		}
	})
}

func TestWhatIsExpectedOutlivesALostRecogniserAndAPrompt(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = func(_ context.Context, n int, t llm.Turn, out func(llm.Chunk) error) error {
			if t.Nothing {
				return out(llm.Chunk{Text: "Well?"})
			}
			return out(llm.Chunk{Text: "Your code?", Expect: &llm.Expect{Grammar: "#JSGF V1.0;"}})
		}
		r.stt.ExpectErr = func(e stt.Expect) error {
			if e.Grammar == "" {
				t.Error("the expectation was dropped")
			}
			return errBroken // reported, no more
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("log in", time.Second)
		r.quiet(3)
		r.stt.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		r.wait(time.Second)
		if s := r.stt.Streams(); len(s) != 2 || s[1].Options().Expect.Grammar == "" {
			t.Errorf("%d streams", len(s))
		}
		if errs := r.all(agent.EventError); len(errs) != 2 {
			t.Errorf("%+v", errs)
		}
	})
}

func acting(text string, kind llm.ActionKind) func(context.Context, int, llm.Turn, func(llm.Chunk) error) error {
	return func(_ context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
		if n > 1 {
			return out(llm.Chunk{Text: "All right."})
		}
		if err := out(llm.Chunk{Text: text, Action: &llm.Action{Kind: kind, To: "sip:desk@example.com"}}); err != nil {
			return err
		}
		return out(llm.Chunk{Text: " More words."})
	}
}

func TestAHangupWaitsUntilTheWordsBeforeItWereHeard(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = acting("Goodbye and thank you", llm.Hangup) }, func(r *rig) {
		r.quiet(1)
		r.say("bye", time.Second)
		r.ends()
		if r.err != nil {
			t.Errorf("run returned %v", r.err)
		}
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. Goodbye and thank you" {
			t.Errorf("wire %q", wire)
		}
		last := r.wire()[len(r.wire())-1].at
		if d := r.all(agent.EventAction)[0].At.Sub(last); d < 0 || d > 3*packet {
			t.Errorf("hung up %v after the last packet", d)
		}
		if e := r.model.ends[0]; e.Cause != "agent hung up" {
			t.Errorf("%+v", e)
		}
	})
}

// lingering is a model that takes time when the call is over, as for a summary.
type lingering struct {
	llm.Provider
	over *atomic.Bool // the call ended before
	took *atomic.Int64
}

func (l lingering) Open(ctx context.Context, c llm.Conversation) (llm.Model, error) {
	m, err := l.Provider.Open(ctx, c)
	return lingers{m, l}, err
}

type lingers struct {
	llm.Model
	l lingering
}

func (m lingers) Close(ctx context.Context, e llm.End) {
	began := time.Now()
	if !m.l.over.Load() {
		return
	}
	<-ctx.Done()
	m.l.took.Store(int64(time.Since(began)))
	m.Model.Close(ctx, e)
}

// The caller does not wait for what the model does when the conversation is over, and the
// model has time for it.
func TestTheCallIsOverBeforeTheModelIsClosed(t *testing.T) {
	var over atomic.Bool
	var took atomic.Int64
	converse(t, func(r *rig) {
		r.model.reply = acting("Goodbye", llm.Hangup)
		r.cfg.LLM = lingering{r.model, &over, &took}
		r.about = func(c *agent.Call) {
			c.Over = func(err error) {
				if err != nil || over.Swap(true) {
					t.Errorf("over with %v, or twice", err)
				}
			}
		}
	}, func(r *rig) {
		r.quiet(1)
		r.say("bye", time.Second)
		r.ends()
		if d := time.Duration(took.Load()); d != r.cfg.CloseTimeout {
			t.Errorf("the model had %v", d)
		}
	})
}

func TestAHangupThatWasInterruptedIsNotDone(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = acting("Goodbye and thank you very much", llm.Hangup) }, func(r *rig) {
		r.quiet(1)
		r.say("bye", time.Second)
		r.speaks(2)
		r.wait(300 * ms)
		r.say("no wait", 600*ms)
		r.quiet(3)
		if n := len(r.all(agent.EventAction)); n != 0 {
			t.Errorf("%d actions", n)
		}
	})
}

func TestAHangupThatACoughInterruptedIsDoneLater(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = acting("Goodbye and thank you very much", llm.Hangup) }, func(r *rig) {
		r.quiet(1)
		r.say("bye", time.Second)
		r.speaks(2)
		r.wait(300 * ms)
		r.sound(400 * ms)
		r.ends()
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. Goodbye and thank you very much" {
			t.Errorf("wire %q", wire)
		}
	})
}

func TestATransferIsReportedWhereItStands(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = acting("One moment please.", llm.Transfer) }, func(r *rig) {
		r.quiet(1)
		r.say("operator", time.Second)
		r.quiet(2)
		actions := r.all(agent.EventAction)
		if len(actions) != 1 || actions[0].Reason != "transfer" || actions[0].Text != "sip:desk@example.com" {
			t.Fatalf("%+v", actions)
		}
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. One moment please. More words." {
			t.Errorf("wire %q", wire)
		}
		if between := r.all(agent.EventAgentStopped)[1].At.Sub(actions[0].At); between < 300*ms {
			t.Errorf("transferred %v before the end", between)
		}
	})
}

func TestBR156ASilentCallerIsPromptedAndThenLeft(t *testing.T) {
	converse(t, func(r *rig) { r.cfg.Reprompts = []string{"Are you there?", "Hello?"} }, func(r *rig) {
		r.ends()
		if r.err != nil {
			t.Errorf("run returned %v", r.err)
		}
		want := "Welcome to Parley. Are you there? Hello? " + r.cfg.Goodbye
		if wire := strings.Join(r.heard(), " "); wire != want {
			t.Errorf("wire %q", wire)
		}
		if d := time.Since(r.began); d < 32*time.Second || d > 33*time.Second {
			t.Errorf("left after %v", d)
		}
		if len(r.model.asked()) != 0 {
			t.Errorf("asked %+v", r.model.asked())
		}
	})
}

func TestWithoutPromptsTheModelIsAsked(t *testing.T) {
	converse(t, func(r *rig) { r.cfg.Goodbye = "" }, func(r *rig) {
		r.ends()
		turns := r.model.asked()
		if len(turns) != 2 || turns[0] != (llm.Turn{Nothing: true}) {
			t.Errorf("asked %+v", turns)
		}
	})
}

func TestBR156ALongReplyIsNoSilence(t *testing.T) {
	converse(t, func(r *rig) { r.cfg.Greeting = numbers(125) }, func(r *rig) {
		r.quiet(1)
		if d := time.Since(r.began); d < 25*time.Second || len(r.model.asked()) != 0 {
			t.Errorf("prompted within %v", d)
		}
	})
}

func TestBR128NoiseWithoutWordsEndsTheCall(t *testing.T) {
	converse(t, nil, func(r *rig) {
		go func() {
			for time.Since(r.began) < 5*time.Minute {
				r.sound(3 * time.Second)
				r.wait(time.Second)
			}
		}()
		r.ends()
		if d := time.Since(r.began); d > 2*time.Minute {
			t.Errorf("left after %v", d)
		}
		for _, turn := range r.model.asked() {
			if !turn.Garbled || !turn.Nothing || turn.Text != "" {
				t.Errorf("asked %+v", turn)
			}
		}
		r.wait(10 * time.Minute)
	})
}

func TestAMicrophoneMutedWithinAWordEndsTheTurn(t *testing.T) {
	converse(t, nil, func(r *rig) {
		r.quiet(1)
		r.stt.Add(stttest.Utterance{Text: "book a"})
		r.session.Notice(agent.Notice{Kind: agent.VoiceOn, At: time.Now()})
		r.wait(500 * ms)
		r.line.set(&r.line.deaf, true)
		silent := time.Now()
		r.until("the turn is closed", func() bool { return len(r.model.asked()) == 1 })
		if d := time.Since(silent); d > 1100*ms {
			t.Errorf("closed after %v", d)
		}
	})
}

func TestBR140MusicDoesNotHoldTheCallForEver(t *testing.T) {
	converse(t, nil, func(r *rig) {
		r.quiet(1)
		r.session.Notice(agent.Notice{Kind: agent.VoiceOn, At: time.Now()})
		for range 60 { // 30 min, and it never ends
			r.wait(30 * time.Second)
		}
		r.ends()
		if n := len(r.model.asked()); n > 4 {
			t.Errorf("%d turns", n)
		}
	})
}

func TestOnHoldNobodyIsPrompted(t *testing.T) {
	converse(t, func(r *rig) { r.cfg.Greeting = numbers(20) }, func(r *rig) {
		r.speaks(1)
		r.wait(time.Second)
		r.line.set(&r.line.held, true)
		r.session.Notice(agent.Notice{Kind: agent.Held, At: time.Now()})
		r.wait(time.Minute)
		if n := len(r.all(agent.EventAgentStopped)); n != 0 || len(r.model.asked()) != 0 {
			t.Errorf("%s", r.log())
		}
		r.line.set(&r.line.held, false)
		r.session.Notice(agent.Notice{Kind: agent.Resumed, At: time.Now()})
		r.quiet(1)
		if wire := strings.Join(r.heard(), " "); wire != strings.TrimSpace(numbers(20)) {
			t.Errorf("wire %q", wire)
		}
		if errs := r.all(agent.EventError); len(errs) != 0 {
			t.Errorf("%+v", errs)
		}
	})
}

func TestAGarbledTurnIsSaidToBeOne(t *testing.T) {
	converse(t, nil, func(r *rig) {
		r.quiet(1)
		r.sound(time.Second)
		r.quiet(2)
		if turns := r.model.asked(); len(turns) != 1 || turns[0] != (llm.Turn{Nothing: true, Garbled: true}) {
			t.Errorf("asked %+v", turns)
		}
	})
}

func TestASoftVoiceIsHeardByItsWords(t *testing.T) {
	converse(t, nil, func(r *rig) {
		r.quiet(1)
		r.stt.Streams()[0].Emit(stt.Result{Text: "psst", Final: true})
		r.quiet(2)
		if turns := r.model.asked(); len(turns) != 1 || turns[0].Text != "psst" {
			t.Errorf("asked %+v", turns)
		}
	})
}

func TestBR153APartialTranscriptCutsTheAgentOff(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.Turn.Confirm = time.Second
		r.cfg.Greeting = numbers(50)
	}, func(r *rig) {
		r.speaks(1)
		r.wait(time.Second)
		r.stt.Add(stttest.Utterance{Text: "stop it now", Interims: []string{"stop", "stop it"}, Delay: 500 * ms})
		began := time.Now()
		r.sound(600 * ms)
		r.quiet(2)
		if barge := r.all(agent.EventBargeIn); len(barge) != 1 || barge[0].At.Sub(began) > 400*ms {
			t.Errorf("%+v", barge)
		}
	})
}
