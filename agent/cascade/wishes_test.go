package cascade

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
)

// news is a model that has something to say when it is woken.
func news(_ context.Context, _ int, t llm.Turn, out func(llm.Chunk) error) error {
	if t.Woken {
		return out(llm.Chunk{Text: "Your table is booked."})
	}
	return out(llm.Chunk{Text: "I see to it."})
}

func TestAModelIsAskedWhenItWantsToBe(t *testing.T) {
	var h *hearing
	converse(t, func(r *rig) {
		r.model.reply = news
		h = hears(r)
	}, func(r *rig) {
		wake := func() {
			for range 10 {
				r.model.opened.Wake() // counts as one
			}
		}
		wake() // over the greeting
		r.quiet(2)
		if turns := r.model.asked(); len(turns) != 1 || turns[0] != (llm.Turn{Woken: true}) {
			t.Errorf("asked %+v", turns)
		}
		// Over a speaking caller it waits, and the reply to the caller goes first.
		r.stt.Add(utterance("book a table"))
		go func() { r.wait(500 * ms); wake() }()
		r.sound(time.Second)
		r.quiet(4)
		// On hold nobody would hear it.
		r.line.set(&r.line.held, true)
		r.session.Notice(agent.Notice{Kind: agent.Held, At: time.Now()})
		wake()
		r.wait(5 * time.Second)
		if n := len(r.model.asked()); n != 3 {
			t.Errorf("asked %d times", n)
		}
		r.line.set(&r.line.held, false)
		r.session.Notice(agent.Notice{Kind: agent.Resumed, At: time.Now()})
		r.quiet(5)
		want := `heard "Welcome to Parley." of "Welcome to Parley." in 600ms [own]
			reply to "woken"
			heard "Your table is booked." of "Your table is booked." in 800ms []
			caller
			reply to "book a table"
			heard "I see to it." of "I see to it." in 800ms []
			reply to "woken"
			heard "Your table is booked." of "Your table is booked." in 800ms []
			reply to "woken"
			heard "Your table is booked." of "Your table is booked." in 800ms []`
		if got := lines(h.all()); got != lines(want) {
			t.Errorf("got\n%s", got)
		}
	})
}

// One that is woken by its own reply, to say nothing, is asked five times a second.
func TestAModelThatAlwaysWantsToBeAskedIsBounded(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = func(context.Context, int, llm.Turn, func(llm.Chunk) error) error {
			r.model.opened.Wake()
			return nil
		}
	}, func(r *rig) {
		r.quiet(1)
		r.model.opened.Wake()
		r.wait(10 * time.Second)
		if n := len(r.model.asked()); n < 5 || n > 51 {
			t.Errorf("asked %d times in 10 s", n)
		}
	})
}

func TestAWakeThatTheCallerCutsOffIsNotLost(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = news }, func(r *rig) {
		r.quiet(1)
		// The model is at a reply that it does not give up, so the wake waits for it.
		r.model.opened.Wake()
		r.speaks(2)
		r.wait(300 * ms)
		r.say("stop", 500*ms, "stop")
		r.quiet(3)
		if turns := r.model.asked(); len(turns) != 2 || turns[1].Interrupted != "Your" {
			t.Errorf("asked %+v", turns)
		}
	})
}

// hangsUp is a model that says goodbye and wants the call ended, by a tool.
func hangsUp(r *rig) func(context.Context, int, llm.Turn, func(llm.Chunk) error) error {
	return func(_ context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
		if n > 1 {
			return out(llm.Chunk{Text: "All right."})
		}
		r.model.opened.Line.HangUp()
		return out(llm.Chunk{Text: "Goodbye and thank you."})
	}
}

func TestTheLineHangsUpWhenTheLastWordsWereHeard(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = hangsUp(r) }, func(r *rig) {
		r.quiet(1)
		r.say("bye", time.Second)
		r.ends()
		if wire := strings.Join(r.heard(), " "); r.err != nil || wire != "Welcome to Parley. Goodbye and thank you." {
			t.Errorf("wire %q, %v", wire, r.err)
		}
		last := r.wire()[len(r.wire())-1].at
		if a := r.all(agent.EventAction); len(a) != 1 || a[0].Reason != "hangup" || a[0].At.Sub(last) > 3*packet {
			t.Errorf("%+v", a)
		}
	})
}

func TestTheLineDoesNotHangUpOnCallersWhoSpeak(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = hangsUp(r) }, func(r *rig) {
		r.quiet(1)
		r.say("bye", time.Second)
		r.speaks(2)
		r.wait(200 * ms)
		r.say("wait", 600*ms, "wait")
		r.quiet(3)
		r.wait(5 * time.Second)
		if n := len(r.all(agent.EventAction)); n != 0 {
			t.Errorf("%d actions", n)
		}
		// Nor when the wish comes while they do.
		r.stt.Add(utterance("one more thing"))
		go func() { r.wait(500 * ms); r.model.opened.Line.HangUp() }()
		r.sound(time.Second)
		r.quiet(4)
		r.wait(5 * time.Second)
		if n := len(r.all(agent.EventAction)); n != 0 {
			t.Errorf("%d actions", n)
		}
		// When nobody says anything it is done at once.
		began := time.Now()
		r.model.opened.Line.HangUp()
		r.ends()
		if d := time.Since(began); d > 600*ms {
			t.Errorf("hung up after %v", d)
		}
	})
}

func TestTheLineHangsUpAfterANoise(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = hangsUp(r) }, func(r *rig) {
		r.quiet(1)
		r.say("bye", time.Second)
		r.speaks(2)
		r.wait(200 * ms)
		r.sound(time.Second)
		r.ends()
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. Goodbye and thank you." {
			t.Errorf("wire %q", wire)
		}
	})
}

func TestTheLineDoesWhatTheCallCan(t *testing.T) {
	busy := &agent.TransferError{Code: 486, Reason: "Busy\x1b[31m Here"}
	for _, c := range []struct {
		err  error
		want string // of a transfer
	}{
		{nil, ""},
		{busy, "the transfer to +1 failed: 486 Busy[31m Here."},
		{agent.ErrForbidden, "the transfer to +1 is not allowed here."},
		{agent.ErrNotSupported, "the transfer to +1 is not possible in this call."},
		{agent.ErrClosed, "the transfer to +1 came too late: the call is over."},
		{errBroken, "the transfer to +1 failed."},
	} {
		converse(t, func(r *rig) { r.hands.fails = c.err }, func(r *rig) {
			l, ctx := r.model.opened.Line, r.t.Context()
			err := l.Transfer(ctx, "+1", true)
			if got := text(err); got != c.want || !errors.Is(err, c.err) {
				t.Errorf("told %q, want %q", got, c.want)
			}
			for _, do := range []func() error{
				func() error { return l.SendDigits(ctx, "12#") }, func() error { return l.Hold(ctx) }, func() error { return l.Resume(ctx) },
			} {
				if err := do(); !errors.Is(err, c.err) {
					t.Error(err)
				}
			}
			if got := r.hands.done(); got != "transfer +1 true, digits 12#, hold, resume" {
				t.Errorf("done: %s", got)
			}
			if a := r.all(agent.EventAction); len(a) != 4 || a[0].Text != "+1" || a[1].Text != "12#" {
				t.Errorf("%+v", a)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTheLineEndsWithTheCall(t *testing.T) {
	converse(t, func(r *rig) { r.hands.takes = time.Hour }, func(r *rig) {
		done := make(chan error, 1)
		go func() { done <- r.model.opened.Line.Transfer(context.Background(), "+1", false) }()
		r.wait(time.Second)
		r.hangUpOnce()
		if err := <-done; err == nil {
			t.Error("no error")
		}
		r.model.opened.Line.HangUp() // and nothing comes of it
		r.model.opened.Wake()
	})
}

// panics is a control that does.
type panics struct{ agent.NoControl }

func (panics) Hold(context.Context) error { panic("oh") }

func TestAControlThatPanicsIsAnError(t *testing.T) {
	converse(t, func(r *rig) { r.about = func(c *agent.Call) { c.Control = panics{} } }, func(r *rig) {
		if err := r.model.opened.Line.Hold(r.t.Context()); err == nil || err.Error() != "hold failed." {
			t.Error(err)
		}
	})
}

func TestWhatModelsDoIsReported(t *testing.T) {
	converse(t, func(r *rig) { r.cfg.SecretDigits = true }, func(r *rig) {
		r.quiet(1)
		r.key("471147#")
		r.quiet(2)
		emit := r.model.opened.Emit
		for _, h := range []llm.Happening{
			{Kind: "tool_call", ID: "1", Name: "check\x00_pin", Text: "{\"pin\":\n \"471147\"}"},
			{Kind: "tool_result", ID: "1", Name: "check_pin", Text: `{"ok":"yes` + "\u202e" + `"}`},
			{Kind: "tool_call", ID: "2", Name: "big", Text: `{"a":"` + strings.Repeat("x", maxJSON) + `"}`},
			{Kind: "tool_result", ID: "2", Name: "big", Err: errors.New("it\nfailed")},
			{Kind: "thought", Text: "He said\n471147."},
			{Kind: "summary"},
			{Kind: "summary", Text: "We talked.", Before: 20, Messages: 6},
			{Kind: "summary", Err: errBroken},
			{Kind: "completion", Text: "Yes."},
			{Kind: "retrieval", Err: errBroken},
			{Kind: "unheard of"},
		} {
			emit(h)
		}
		var got []string
		for _, e := range r.events {
			switch e.Type {
			case agent.EventToolCall, agent.EventToolResult, agent.EventThought, agent.EventSummary, agent.EventCompletion, agent.EventRetrieval:
				if len(e.Text) > maxJSON {
					t.Errorf("%d bytes", len(e.Text))
				}
				got = append(got, strings.TrimSpace(strings.Join([]string{string(e.Type), e.ID, e.Reason, e.Text[:min(len(e.Text), 40)]}, " ")))
				if e.Type == agent.EventSummary && e.Text != "" && (e.Before != 20 || e.Messages != 6) {
					t.Errorf("%+v", e)
				}
			}
		}
		want := lines(`tool_call 1 check_pin {"pin":"***"}
			tool_result 1 check_pin {"ok":"yes"}
			tool_call 2 big {"shortened":"{\"a\":\"xxxxxxxxxxxxxxxxx
			tool_result 2 big {"error":"it failed"}
			thought   He said ***.
			summary  requested
			summary  applied We talked.
			summary  failed
			completion   Yes.
			retrieval  broken`)
		if strings.Join(got, "\n") != want {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
		}
	})
}

func FuzzClean(f *testing.F) {
	f.Add("a\x00b\u202ec  d", 3)
	f.Add(`{"a": [1, "\ud800"]}`, 100)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = limit&0xfff + 1
		if got := clean(s, limit); len([]rune(got)) > limit || strings.ContainsAny(got, "\x00\n\u202e") {
			t.Fatalf("%q", got)
		}
		if got := cleanJSON(s); len(got) > maxJSON+64 || strings.ContainsAny(got, "\x00\n\u202e") || got != "" && !isJSON(got) {
			t.Fatalf("%q", got)
		}
	})
}

func isJSON(s string) bool { return json.Valid([]byte(s)) }
