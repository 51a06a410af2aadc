package cascade

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
)

// asks is a model that asks for a code, and after that for nothing in particular.
func asks(digits int) func(context.Context, int, llm.Turn, func(llm.Chunk) error) error {
	return func(_ context.Context, n int, _ llm.Turn, out func(llm.Chunk) error) error {
		if n == 1 {
			return out(llm.Chunk{Text: "Your code please, and then press pound, all the digits of it.", Expect: &llm.Expect{MaxDigits: digits}})
		}
		return out(llm.Chunk{Text: "Thank you very much for your patience, I look it up."})
	}
}

// What callers key in when they are asked for a number (BR-117).
func TestKeyedEntries(t *testing.T) {
	for _, c := range []struct {
		name   string
		expect int
		enter  func(*rig)
		want   []string // the turns after the first
	}{
		{"a pause ends it, and nothing is lost", 0, func(r *rig) { r.key("12"); r.wait(2500 * ms) }, []string{"12"}},
		{"each key gives time for the next", 0, func(r *rig) {
			for _, k := range []string{"1", "2", "3"} {
				r.key(k)
				r.wait(1800 * ms)
			}
			r.wait(time.Second)
		}, []string{"123"}},
		{"pound without anything is a key", 0, func(r *rig) { r.key("#"); r.wait(time.Second) }, []string{"#"}},
		{"pound by habit after all digits is none", 4, func(r *rig) { r.key("4711#"); r.wait(3 * time.Second) }, []string{"4711"}},
		{"speech does not cancel it", 0, func(r *rig) {
			r.key("47")
			r.say("my code is", time.Second, "my", "my code")
			r.key("11#")
			r.wait(time.Second)
		}, []string{"4711"}},
		{"a cough does not either", 0, func(r *rig) { r.key("47"); r.sound(300 * ms); r.key("11#"); r.wait(time.Second) }, []string{"4711"}},
		{"it takes over from speech", 0, func(r *rig) { r.say("my code", 500*ms); r.key("4711#"); r.wait(time.Second) }, []string{"4711"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			converse(t, func(r *rig) { r.model.reply = asks(c.expect) }, func(r *rig) {
				r.quiet(1)
				r.say("log in", time.Second)
				r.speaks(2)
				c.enter(r)
				r.quiet(3)
				var got []string
				for _, turn := range r.model.asked()[1:] {
					got = append(got, turn.Text)
					if !turn.Digits {
						t.Errorf("%+v is not keyed in", turn)
					}
				}
				if strings.Join(got, "|") != strings.Join(c.want, "|") {
					t.Errorf("entries %q, want %q", got, c.want)
				}
			})
		})
	}
}

// Seventy keys are no turn without bounds, and none is lost (BR-117).
func TestSeventyKeys(t *testing.T) {
	converse(t, func(r *rig) { r.model.reply = asks(0) }, func(r *rig) {
		r.quiet(1)
		r.say("log in", time.Second)
		r.speaks(2)
		r.key(strings.Repeat("1234567890", 7))
		r.wait(4 * time.Second)
		all := ""
		for _, turn := range r.model.asked()[1:] {
			if !turn.Digits || len(turn.Text) > 70 {
				t.Errorf("%+v", turn)
			}
			all += turn.Text
		}
		if all != strings.Repeat("1234567890", 7) {
			t.Errorf("keys %q", all)
		}
	})
}

// Whether a prompt can be interrupted is of that prompt: the greeting that could not be
// leaves the next one alone (BR-117).
func TestAMutedGreetingMutesNoOther(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.Turn.MuteGreeting, r.cfg.Greeting = true, numbers(10)
		r.model.reply = asks(0)
	}, func(r *rig) {
		r.speaks(1)
		r.key("12") // ahead
		r.wait(time.Second)
		if n := len(r.all(agent.EventBargeIn)); n != 0 {
			t.Errorf("the greeting was cut off %d times", n)
		}
		r.speaks(2)
		r.wait(300 * ms)
		r.key("3")
		r.wait(100 * ms)
		if barge := r.all(agent.EventBargeIn); len(barge) != 1 || barge[0].Reason != "digit" {
			t.Errorf("the next prompt was not: %+v", barge)
		}
		r.wait(3 * time.Second)
		turns := r.model.asked()
		if len(turns) != 2 || turns[0].Text != "12" || turns[1].Text != "3" {
			t.Errorf("entries %+v", turns)
		}
	})
}

// Who hangs up within a code has not entered one, and nothing tells of it (BR-117).
func TestAHangUpWithinACode(t *testing.T) {
	converse(t, func(r *rig) {
		r.cfg.SecretDigits = true
		r.model.reply = asks(4)
	}, func(r *rig) {
		r.quiet(1)
		r.say("log in", time.Second)
		r.speaks(2)
		r.key("471")
		r.wait(500 * ms)
		r.cancel(errHungUp)
		<-r.done
		if turns := r.model.asked(); len(turns) != 1 {
			t.Errorf("asked %+v", turns)
		}
		for _, e := range r.events {
			text, err := json.Marshal(e.Text + e.Heard + e.Reason)
			if err != nil || strings.ContainsAny(string(text), "471") {
				t.Errorf("%+v", e)
			}
		}
	})
}
