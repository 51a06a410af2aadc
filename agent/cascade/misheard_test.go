package cascade

import (
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/stt/stttest"
)

func ladder(r *rig) {
	r.cfg.Misheard = []string{"Once more please?", "Say table or room."}
	r.cfg.MisheardPerson, r.cfg.MisheardTo = "Somebody helps you.", "+15550199"
}

func (r *rig) mumble(n int) {
	r.stt.Add(stttest.Utterance{Text: "bla bla", Confidence: 0.1})
	r.sound(time.Second)
	r.quiet(n)
}

func TestWhoIsNotUnderstoodIsHelped(t *testing.T) {
	converse(t, ladder, func(r *rig) {
		r.quiet(1)
		r.mumble(2)
		r.mumble(3)
		r.say("a table", time.Second) // clear: it begins anew
		r.quiet(4)
		r.mumble(5)
		r.sound(time.Second) // not a word: that counts as well
		r.quiet(6)
		r.mumble(7)
		want := "Welcome to Parley. Once more please? Say table or room. Reply number 1. Once more please? Say table or room. Somebody helps you."
		if wire := strings.Join(r.heard(), " "); wire != want {
			t.Errorf("wire %q", wire)
		}
		if got := r.hands.done(); got != "transfer +15550199 false" {
			t.Errorf("done %q", got)
		}
		if turns := r.model.asked(); len(turns) != 1 || turns[0].Text != "a table" {
			t.Errorf("asked %+v", turns)
		}
		var reasons []string
		for _, e := range r.all(agent.EventUserStopped) {
			reasons = append(reasons, e.Reason)
		}
		if got := strings.Join(reasons, " "); got != "misheard misheard  misheard garbled misheard" {
			t.Errorf("reasons %q", got)
		}
	})
}

func TestAPersonWhoIsNotThereIsSpokenOf(t *testing.T) {
	converse(t, func(r *rig) {
		ladder(r)
		r.hands.fails = agent.ErrForbidden
	}, func(r *rig) {
		r.quiet(1)
		r.mumble(2)
		r.mumble(3)
		r.mumble(4)
		if wire := strings.Join(r.heard(), " "); !strings.HasSuffix(wire, "Somebody helps you. "+r.cfg.TransferFailed) {
			t.Errorf("wire %q", wire)
		}
		r.say("well", time.Second)
		r.quiet(5)
		if n := len(r.model.asked()); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestWithoutPhrasesTheModelIsToldThatNothingWasUnderstood(t *testing.T) {
	converse(t, nil, func(r *rig) {
		r.quiet(1)
		r.mumble(2)
		if turns := r.model.asked(); len(turns) != 1 || turns[0] != (llm.Turn{Nothing: true, Garbled: true}) {
			t.Errorf("asked %+v", turns)
		}
	})
	converse(t, func(r *rig) { r.cfg.MinConfidence = 0 }, func(r *rig) { // nobody filters
		r.quiet(1)
		r.mumble(2)
		if turns := r.model.asked(); len(turns) != 1 || turns[0].Text != "bla bla" || turns[0].Confidence != 0.1 {
			t.Errorf("asked %+v", turns)
		}
	})
}

// TestBR140: half an hour of songs, which a recogniser makes words of, is no conversation.
func TestBR140SongsAreNoTurns(t *testing.T) {
	for name, phrases := range map[string][]string{"the model is told": nil, "we say it": {"Sorry?"}} {
		t.Run(name, func(t *testing.T) {
			converse(t, func(r *rig) { r.cfg.Misheard = phrases }, func(r *rig) {
				r.quiet(1)
				go func() {
					for time.Since(r.began) < 30*time.Minute {
						r.stt.Add(stttest.Utterance{Text: "all you need is love", Confidence: 0.2, Interims: []string{"all you"}})
						r.sound(8 * time.Second)
						r.wait(2 * time.Second)
					}
				}()
				r.ends()
				if d := time.Since(r.began); d > 3*time.Minute {
					t.Errorf("left after %v", d)
				}
				for _, turn := range r.model.asked() {
					if turn.Text != "" {
						t.Errorf("the model was told %q", turn.Text)
					}
				}
				r.wait(30 * time.Minute)
			})
		})
	}
}
