package kit

import (
	"testing"
	"time"

	"parley/agent"
)

// Where speech follows Speaker.Stop within a packet the call never sees silence between
// the two, and tells of neither an end nor a start. Each reply is said to have started all
// the same, once, in its place, when its first packet went out.
func TestSpeechThatFollowsAStopAtOnce(t *testing.T) {
	ring(t, func(p *phone) { p.line.untold = true }, func(p *phone) {
		p.replies("item-1", "One two three four five six seven eight nine ten")
		p.until("it speaks", func() bool { return len(p.all(agent.EventAgentStarted)) > 0 })
		time.Sleep(500 * ms)
		p.speaks("Wait, please.", time.Second)
		p.replies("item-2", "Yes?")
		p.quiet(2)
		started, stopped := p.all(agent.EventAgentStarted), p.all(agent.EventAgentStopped)
		if len(started) != 2 || len(stopped) != 2 || len(p.all(agent.EventBargeIn)) != 1 {
			p.Fatalf("%d starts, %d ends, %d barge-ins", len(started), len(stopped), len(p.all(agent.EventBargeIn)))
		}
		samples, next := 0, 0
		for _, s := range p.wire() {
			at := rate(p.line.says).length(samples)
			if next < 2 && at >= started[next].Position {
				if late := started[next].At.Sub(s.at); late < 0 || late > 40*ms {
					p.Errorf("reply %d is told of %v after its first packet", next, late)
				}
				next++
			}
			samples += s.samples
		}
		if next != 2 || stopped[0].At.After(started[1].At) {
			p.Errorf("%d replies were sent; %v, %v", next, stopped[0].At, started[1].At)
		}
	})
}
