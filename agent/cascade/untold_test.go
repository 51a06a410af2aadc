package cascade

import (
	"testing"
	"time"

	"parley/agent"
)

// Where speech follows Speaker.Stop within a packet the call never sees silence between
// the two, and tells of neither an end nor a start. Each reply is said to have started all
// the same, once, in its place, when its first packet went out.
func TestSpeechThatFollowsAStopAtOnce(t *testing.T) {
	converse(t, func(r *rig) {
		r.model.reply = saying(numbers(40))
		r.line.untold = true
	}, func(r *rig) {
		r.quiet(1)
		r.say("tell me all.", time.Second)
		r.speaks(2)
		r.wait(time.Second)
		r.say("stop please", 800*ms, "stop")
		r.quiet(3)
		started, stopped := r.all(agent.EventAgentStarted), r.all(agent.EventAgentStopped)
		if len(started) != 3 || len(stopped) != 3 || len(r.all(agent.EventBargeIn)) != 1 {
			t.Fatalf("%d starts, %d ends, %d barge-ins\n%s", len(started), len(stopped), len(r.all(agent.EventBargeIn)), r.log())
		}
		if err := alternating(r.events); err != nil {
			t.Error(err)
		}
		samples, next := 0, 0
		for _, s := range r.wire() {
			if at := time.Duration(samples) * time.Second / rate; next < 3 && at >= started[next].Position {
				if late := started[next].At.Sub(s.at); late < 0 || late > 2*packet {
					t.Errorf("reply %d is told of %v after its first packet", next, late)
				}
				if next > 0 {
					lastSound := r.all(agent.EventUserStopped)[next-1].At.Add(-r.cfg.Turn.SpeechTimeout)
					if off := started[next].Latency - s.at.Sub(lastSound); off < -packet || off > packet {
						t.Errorf("reply %d: latency %v, off by %v", next, started[next].Latency, off)
					}
				}
				next++
			}
			samples += s.samples
		}
		if next != 3 {
			t.Errorf("%d replies were sent", next)
		}
	})
}
