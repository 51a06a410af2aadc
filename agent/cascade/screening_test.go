package cascade

import (
	"math"
	"strings"
	"testing"
	"time"

	"parley/agent"
)

// outbound is a call to somebody who may be a machine.
func outbound(r *rig) {
	r.cfg.DetectMachine = true
	r.about = func(c *agent.Call) { c.Direction = "outbound" }
	hear := func(pcm []int16) {
		if !r.beeping.Load() {
			r.session.Hear(pcm)
			return
		}
		tone := make([]int16, len(pcm))
		for i := range tone {
			tone[i] = int16(6000 * math.Sin(2*math.Pi*1000*float64(i)/rate))
		}
		r.session.Hear(tone)
	}
	r.line.tap = hear
}

// greets is a machine: it talks for a while, and makes a tone.
func (r *rig) greets(talk, pause time.Duration) {
	r.wait(500 * ms)
	r.sound(talk)
	r.wait(pause)
	r.beeping.Store(true)
	r.sound(500 * ms)
	r.beeping.Store(false)
}

func answeredBy(r *rig) string {
	var who []string
	for _, e := range r.all(agent.EventAnsweredBy) {
		who = append(who, e.Reason)
	}
	return strings.Join(who, " ")
}

func TestBR147APersonAnswers(t *testing.T) {
	converse(t, outbound, func(r *rig) {
		r.wait(500 * ms)
		r.stt.Add(utterance("hello?"))
		r.sound(500 * ms)
		if n := len(r.wire()); n != 0 {
			t.Errorf("the agent spoke before it knew")
		}
		r.quiet(1)
		if who := answeredBy(r); who != "human" {
			t.Errorf("answered by %s", who)
		}
		if e := r.all(agent.EventAnsweredBy)[0]; e.Latency > 2500*ms {
			t.Errorf("known after %v", e.Latency)
		}
		// "Hello?" is what the greeting answers, not a turn of its own.
		r.wait(3 * time.Second)
		if n := len(r.model.asked()); n != 0 || strings.Join(r.heard(), " ") != "Welcome to Parley." {
			t.Errorf("asked %d times, wire %q", n, r.heard())
		}
		r.stt.Add(utterance("who is this")) // the first one was not listened to
		r.say("who is this", time.Second)
		r.quiet(2)
	})
}

func TestBR147AMachineAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		message, want string
		talk, pause   time.Duration
		who           string
	}{
		"after its tone it gets the message":  {"Please call us back.", "Please call us back.", 12 * time.Second, 0, "machine beep"},
		"or the greeting, when there is none": {"", "Welcome to Parley.", 12 * time.Second, 0, "machine beep"},
		"one that was taken for a person":     {"Please call us back.", "Please call us back.", 1200 * ms, time.Second, "human machine beep"},
	} {
		t.Run(name, func(t *testing.T) {
			converse(t, func(r *rig) {
				outbound(r)
				r.cfg.MachineMessage = c.message
			}, func(r *rig) {
				r.greets(c.talk, c.pause)
				if c.talk > 2*time.Second && len(r.wire()) != 0 {
					t.Error("the agent talked over the machine")
				}
				beep := time.Now()
				r.sound(300 * ms) // it is not interrupted by what comes after
				r.ends()
				if who := answeredBy(r); who != c.who || r.err != nil {
					t.Errorf("answered by %s, %v", who, r.err)
				}
				if wire := strings.Join(r.heard(), " "); !strings.HasSuffix(wire, c.want) {
					t.Errorf("wire %q", wire)
				}
				for _, s := range r.wire() {
					if word, _ := r.voice.word(s.value); word == "Please" && s.at.Before(beep.Add(-300*ms)) {
						t.Errorf("%q %v before the tone was over", word, beep.Sub(s.at))
					}
				}
				if a := r.all(agent.EventAction); len(a) != 1 || a[0].Reason != "hangup" || len(r.model.asked()) != 0 {
					t.Errorf("%+v", a)
				}
			})
		})
	}
}

func TestBR147HangUpOnMachines(t *testing.T) {
	converse(t, func(r *rig) {
		outbound(r)
		r.cfg.MachineHangUp = true
	}, func(r *rig) {
		go r.greets(12*time.Second, 0)
		r.ends()
		if d := time.Since(r.began); d > 3500*ms || len(r.wire()) != 0 || r.err != nil {
			t.Errorf("after %v, %v", d, r.err)
		}
		r.wait(15 * time.Second)
	})
}

func TestBR147SilenceIsNobodyKnown(t *testing.T) {
	converse(t, outbound, func(r *rig) {
		r.quiet(1)
		if who, at := answeredBy(r), r.all(agent.EventAnsweredBy)[0].At.Sub(r.began); who != "unknown" || at > 4100*ms {
			t.Errorf("%s after %v", who, at)
		}
		if wire := strings.Join(r.heard(), " "); wire != "Welcome to Parley." {
			t.Errorf("wire %q", wire)
		}
	})
}

func TestAKeyIsAPersons(t *testing.T) {
	converse(t, outbound, func(r *rig) {
		r.wait(500 * ms)
		r.key("1#")
		r.quiet(1)
		if who := answeredBy(r); who != "human" {
			t.Errorf("answered by %s", who)
		}
		r.quiet(2)
		if turns := r.model.asked(); len(turns) != 1 || turns[0].Text != "1" {
			t.Errorf("asked %+v", turns)
		}
	})
}

func TestCallersAreNotScreened(t *testing.T) {
	converse(t, func(r *rig) { r.cfg.DetectMachine = true }, func(r *rig) {
		r.speaks(1)
		if d := time.Since(r.began); d > 100*ms || answeredBy(r) != "" {
			t.Errorf("greeted after %v", d)
		}
	})
}
