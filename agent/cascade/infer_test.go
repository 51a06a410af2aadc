package cascade

import (
	"context"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/turn"
)

// judging is a model that finds turns incomplete that end with "and", for five seconds.
func judging(_ context.Context, n int, t llm.Turn, out func(llm.Chunk) error) error {
	if t.Tentative && strings.HasSuffix(t.Text, "and") {
		return out(llm.Chunk{Incomplete: 5 * time.Second})
	}
	return out(llm.Chunk{Text: "Fine."})
}

func defers(r *rig) {
	r.cfg.Turn.Stop = []turn.StopStrategy{turn.StopTimeout, turn.StopDeferred}
	r.model.reply = judging
}

func TestAnIncompleteTurnStaysOpen(t *testing.T) {
	var h *hearing
	converse(t, func(r *rig) { defers(r); h = hears(r) }, func(r *rig) {
		r.quiet(1)
		r.say("a table and", time.Second)
		r.until("it is judged", func() bool { return len(r.model.asked()) == 1 })
		r.wait(2 * time.Second)
		if n := len(r.all(agent.EventUserStopped)); n != 0 {
			t.Errorf("%d turns closed", n)
		}
		r.say("two chairs", time.Second)
		r.quiet(2)
		want := `heard "Welcome to Parley." of "Welcome to Parley." in 600ms [own]
			caller
			reply to "a table and?"
			heard "" of "" in 0s [cut again]
			reply to "a table and two chairs?"
			heard "Fine." of "Fine." in 200ms []`
		if got := lines(h.all()); got != lines(want) {
			t.Errorf("got\n%s", got)
		}
		stopped := r.all(agent.EventUserStopped)
		if len(stopped) != 1 || stopped[0].Text != "a table and two chairs" || stopped[0].Strategy != turn.ByComplete {
			t.Errorf("%+v", stopped)
		}
		if n := len(r.all(agent.EventUserStarted)); n != 1 {
			t.Errorf("%d turns opened", n)
		}
		var why []string
		for _, e := range r.all(agent.EventInference) {
			why = append(why, e.Reason)
		}
		if got := strings.Join(why, " "); got != "tentative tentative" {
			t.Errorf("asked because %s", got)
		}
	})
}

func TestWhoDoesNotGoOnGetsAReply(t *testing.T) {
	var h *hearing
	converse(t, func(r *rig) { defers(r); h = hears(r) }, func(r *rig) {
		r.quiet(1)
		r.say("a table and", time.Second)
		silence := time.Now()
		r.speaks(2)
		if d := time.Since(silence); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("replied after %v", d)
		}
		r.quiet(2)
		if got := lines(h.all()); !strings.HasSuffix(got, lines(`reply to "a table and?"
			heard "" of "" in 0s [cut again]
			reply to "a table and"
			heard "Fine." of "Fine." in 200ms []`)) {
			t.Errorf("got\n%s", got)
		}
	})
}

func TestWhoDoesNotGoOnIsAskedTo(t *testing.T) {
	for name, says := range map[string]string{"and does": "two chairs", "and does not": ""} {
		t.Run(name, func(t *testing.T) {
			converse(t, func(r *rig) {
				defers(r)
				r.cfg.GoOn = "Yes?"
			}, func(r *rig) {
				r.quiet(1)
				r.say("a table and", time.Second)
				r.quiet(2)
				if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley. Yes?" {
					t.Errorf("wire %q", wire)
				}
				want := "a table and"
				if says != "" {
					r.say(says, time.Second)
					want += " " + says
				}
				r.quiet(3)
				turns := r.model.asked()
				if last := turns[len(turns)-1]; last.Text != want || last.WasInterrupted {
					t.Errorf("asked %+v", turns)
				}
			})
		})
	}
}

func TestATurnThatIsCompleteIsAnsweredAtOnce(t *testing.T) {
	for name, reply := range map[string]func(context.Context, int, llm.Turn, func(llm.Chunk) error) error{
		"words":   judging,
		"nothing": func(context.Context, int, llm.Turn, func(llm.Chunk) error) error { return nil },
		"fails":   func(context.Context, int, llm.Turn, func(llm.Chunk) error) error { return errBroken },
		"a model that is slow": func(ctx context.Context, _ int, _ llm.Turn, out func(llm.Chunk) error) error {
			if err := sleep(ctx, 6500*ms); err != nil {
				return err
			}
			return out(llm.Chunk{Text: "Fine."})
		},
		"one that judges too late": func(ctx context.Context, n int, t llm.Turn, out func(llm.Chunk) error) error {
			if !t.Tentative {
				return out(llm.Chunk{Text: "Fine."})
			}
			if err := sleep(ctx, 7*time.Second); err != nil {
				return err
			}
			return out(llm.Chunk{Incomplete: time.Second})
		},
	} {
		t.Run(name, func(t *testing.T) {
			converse(t, func(r *rig) {
				defers(r)
				r.model.reply = reply
			}, func(r *rig) {
				r.quiet(1)
				r.say("a table", time.Second)
				r.until("the turn is closed", func() bool { return len(r.all(agent.EventUserStopped)) == 1 })
				r.wait(5 * time.Second)
				wire := strings.TrimPrefix(strings.Join(r.heard(), " "), "Welcome to Parley.")
				if want := map[string]string{"nothing": "", "fails": " " + fallback}[name]; wire != want && wire != " Fine." {
					t.Errorf("wire %q\n%s", wire, r.log())
				}
				if n := len(r.model.asked()); n != 1 && name != "one that judges too late" {
					t.Errorf("asked %d times", n)
				}
				if n := len(r.all(agent.EventUserStopped)); n != 1 {
					t.Errorf("%d turns", n)
				}
			})
		})
	}
}

// early asks the model soon, and the recogniser gives its finals by itself.
func early(r *rig) {
	r.cfg.Eager = 300 * ms
	r.model.delay = time.Second
}

// sayEarly has the caller speak for a second; the final comes with the voice's end.
func (r *rig) sayEarly(text string) {
	r.stt.Add(utterance(""))
	r.sound(time.Second)
	r.stt.Streams()[0].Emit(final(text))
}

func TestAReplyBegunEarlyIsSooner(t *testing.T) {
	var h *hearing
	converse(t, func(r *rig) { early(r); h = hears(r) }, func(r *rig) {
		r.quiet(1)
		r.sayEarly("book a table")
		r.quiet(2)
		if e := r.all(agent.EventAgentStarted)[1]; e.Latency < 1300*ms || e.Latency > 1340*ms {
			t.Errorf("latency %v", e.Latency)
		}
		if got := lines(h.all()); !strings.HasSuffix(got, lines(`caller
			reply to "book a table"
			heard "Reply number 1." of "Reply number 1." in 600ms []`)) {
			t.Errorf("got\n%s", got)
		}
		if e := r.all(agent.EventInference); len(e) != 1 || e[0].Reason != agent.InferenceEager || !e[0].At.Before(r.all(agent.EventUserStopped)[0].At) {
			t.Errorf("%+v", e)
		}
	})
}

// What changes before the turn is over takes it back; nothing of it is heard.
func TestAReplyBegunEarlyIsTakenBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		happen func(*rig, *hearing)
		asked  string // in the end
	}{
		{"more words", func(r *rig, _ *hearing) {
			r.sound(500 * ms)
			r.stt.Streams()[0].Emit(final("for two"))
		}, "book a table for two"},
		{"another context", func(_ *rig, h *hearing) { h.version.Add(1) }, "book a table"},
		{"keys", func(r *rig, _ *hearing) { r.key("1#") }, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h *hearing
			converse(t, func(r *rig) { early(r); h = hears(r) }, func(r *rig) {
				r.quiet(1)
				r.sayEarly("book a table")
				r.until("it is asked", func() bool { return len(r.model.asked()) == 1 })
				c.happen(r, h)
				r.quiet(2)
				turns := r.model.asked()
				if last := turns[len(turns)-1]; len(turns) < 2 || last.Text != c.asked || last.WasInterrupted {
					t.Errorf("asked %+v", turns)
				}
				if wire := strings.Join(r.heard(), " "); strings.Contains(wire, "number 1") {
					t.Errorf("wire %q", wire)
				}
				told := 0
				for _, x := range h.heard {
					if x.Withdrawn && x.Heard == "" && x.Interrupted {
						told++
					}
				}
				if told != len(turns)-1 {
					t.Errorf("told\n%s", lines(h.all()))
				}
			})
		})
	}
}

// What a model does to the call before the turn is over waits until it is.
func TestToolsWaitForTheEndOfTheTurn(t *testing.T) {
	for name, more := range map[string]bool{"it is over": false, "the caller goes on": true} {
		t.Run(name, func(t *testing.T) {
			var when time.Time
			var failed error
			converse(t, func(r *rig) {
				early(r)
				r.model.reply = func(ctx context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
					if n == 1 {
						failed = r.model.opened.Line.Transfer(context.WithoutCancel(ctx), "+1", false)
						when = time.Now()
					}
					return out(llm.Chunk{Text: "Done."})
				}
			}, func(r *rig) {
				r.quiet(1)
				r.sayEarly("get me sales")
				r.until("it is asked", func() bool { return len(r.model.asked()) == 1 })
				if more {
					r.sound(500 * ms)
					r.stt.Streams()[0].Emit(final("no wait"))
				}
				r.quiet(2)
				if done := r.hands.done() == "transfer +1 false"; done == more || (failed != nil) != more {
					t.Errorf("done %q, told %v", r.hands.done(), failed)
				}
				if stopped := r.all(agent.EventUserStopped)[0].At; !more && when.Before(stopped) {
					t.Errorf("done %v before the turn was over", stopped.Sub(when))
				}
			})
		})
	}
}

// detector says that callers are done when their words end with "please".
type detector struct{ t *testing.T }

func (d detector) Judge(_ context.Context, u turn.Utterance) (float64, error) {
	if u.Rate != rate || len(u.PCM) < rate/2 {
		d.t.Errorf("%d samples at %d", len(u.PCM), u.Rate)
	}
	if strings.HasSuffix(u.Text, "please") {
		return 0.9, nil
	}
	return 0.1, errBroken
}

func TestADetectorEndsTheTurn(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.Turn.Stop = []turn.StopStrategy{turn.StopDetector}
		r.cfg.Detector = detector{t}
	}, func(r *rig) {
		r.quiet(1)
		r.stt.Add(utterance(""))
		time.AfterFunc(900*ms, func() { r.stt.Streams()[0].Emit(final("a table please")) })
		r.sound(time.Second)
		r.quiet(2)
		if e := r.all(agent.EventUserStopped)[0]; e.Strategy != string(turn.StopDetector) {
			t.Errorf("%+v", e)
		}
		r.say("and now", time.Second) // it fails, and silence decides
		r.quiet(3)
		if errs := r.all(agent.EventError); len(errs) != 1 {
			t.Errorf("%+v", errs)
		}
	})
}
