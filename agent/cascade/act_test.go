package cascade

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
)

// asking is a model that wants something done in its first reply and says so, and
// is told what was not done.
type asking struct {
	mind
	refused chan string
}

func (a *asking) Refused(why string) { a.refused <- why }

func (a *asking) Open(ctx context.Context, c llm.Conversation) (llm.Model, error) {
	_, err := a.mind.Open(ctx, c)
	return a, err
}

func acts(chunks ...llm.Chunk) func(context.Context, int, llm.Turn, func(llm.Chunk) error) error {
	return func(_ context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
		if n > 1 {
			return out(llm.Chunk{Text: "All right."})
		}
		for _, c := range chunks {
			if err := out(c); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestActionsAreDoneInTheirPlaces(t *testing.T) {
	converse(t, func(r *rig) {
		r.hands.takes = 300 * ms
		r.model.reply = acts(
			llm.Chunk{Text: "I press a key.", Action: &llm.Action{Kind: llm.Digits, Digits: "1,2#"}},
			llm.Chunk{Action: &llm.Action{Kind: llm.Hold}}, llm.Chunk{Action: &llm.Action{Kind: llm.Resume}},
			llm.Chunk{Text: " Done."})
	}, func(r *rig) {
		r.quiet(1)
		r.say("press it", time.Second)
		r.quiet(2)
		if got := r.hands.done(); got != "digits 1,2#, hold, resume" {
			t.Errorf("done: %s", got)
		}
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. I press a key. Done." {
			t.Errorf("wire %q", wire)
		}
		actions := r.all(agent.EventAction)
		if len(actions) != 3 || actions[0].Text != "1,2#" || actions[1].At.Sub(actions[0].At) < 300*ms {
			t.Errorf("%+v", actions)
		}
	})
}

func TestATransferThatFailsIsSpokenOf(t *testing.T) {
	busy := &agent.TransferError{Code: 486, Reason: "Busy Here"}
	for _, c := range []struct {
		name   string
		err    error
		chunks []llm.Chunk
		wire   string
		why    string
	}{
		{"words of its own", busy, []llm.Chunk{{Text: "One moment.", Action: &llm.Action{Kind: llm.Transfer, To: "+1"}}, {Text: " Nobody is there."}},
			"One moment. Nobody is there.", "the transfer to +1 failed: 486 Busy Here."},
		{"none", busy, []llm.Chunk{{Text: "One moment.", Action: &llm.Action{Kind: llm.Transfer, To: "+1"}}},
			"One moment. I am sorry, I could not connect you. How else can I help?", "the transfer to +1 failed: 486 Busy Here."},
		{"not allowed", agent.ErrForbidden, []llm.Chunk{{Text: "One moment.", Action: &llm.Action{Kind: llm.Transfer, To: "+1"}}},
			"One moment. I am sorry, I could not connect you. How else can I help?", "the transfer to +1 is not allowed here."},
		{"not possible", agent.ErrNotSupported, []llm.Chunk{{Text: "One moment.", Action: &llm.Action{Kind: llm.Hold}}},
			"One moment.", "hold is not possible in this call."},
		{"nobody knows why", errors.New("x"), []llm.Chunk{{Text: "One moment.", Action: &llm.Action{Kind: llm.Hold}}},
			"One moment.", "hold failed."},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := &asking{}
			model.reply = acts(c.chunks...)
			converse(t, func(r *rig) {
				r.hands.fails, r.hands.takes = c.err, time.Second
				r.model, model.refused = &model.mind, make(chan string, 1)
				r.cfg.LLM = model
			}, func(r *rig) {
				r.quiet(1)
				r.say("operator", time.Second)
				r.quiet(2)
				if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. "+c.wire {
					t.Errorf("wire %q", wire)
				}
				if got := <-model.refused; got != c.why {
					t.Errorf("the model is told %q", got)
				}
				r.say("well then", time.Second) // the conversation goes on
				r.quiet(3)
				if wire := strings.Join(r.heard(), " "); !strings.HasSuffix(wire, "All right.") {
					t.Errorf("wire %q", wire)
				}
			})
		})
	}
}

func TestAnnouncements(t *testing.T) {
	converse(t, nil, func(r *rig) {
		r.quiet(1)
		first := make(chan error, 1)
		go func() { first <- r.session.(agent.Announcer).Announce(r.t.Context(), "We close in five minutes.") }()
		r.quiet(2)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. We close in five minutes." {
			t.Errorf("wire %q", wire)
		}
		go func() {
			first <- r.session.(agent.Announcer).Announce(r.t.Context(), "A very long text that nobody wants to hear to its end at all today.")
		}()
		r.speaks(3)
		r.wait(300 * ms)
		r.say("stop please", time.Second)
		if err := <-first; !errors.Is(err, errInterrupted) {
			t.Errorf("cut off: %v", err)
		}
		ctx, cancel := context.WithCancel(r.t.Context())
		cancel()
		if err := r.session.(agent.Announcer).Announce(ctx, "Never."); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}
