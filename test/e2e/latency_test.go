package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"parley/test/audio"
	"parley/test/phone"
)

// TestTurnLatency measures what a caller waits for an agent that answers at once:
// from the last packet of speech sent to the first one heard, on the phone's log.
func TestTurnLatency(t *testing.T) {
	const calls, turns = 4, 5
	agent := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ turn, before int) {
		say(w, numbered(fmt.Sprintf("turn%dword", before), 3))
	})
	g := startGateway(t, nil)
	probe := newProbe(t)
	speechTimeout := newParts("http://unused").cascade.Turn.SpeechTimeout
	var waited figures
	together(t, calls, calls, func(i int) string { return fmt.Sprint("call", i) }, func(t *testing.T, i int) {
		p := newParts(agent.URL, "one", "two", "three", "four", "five") // none ends a sentence
		name := fmt.Sprint("latency", i)
		p.plug(t, g, name)
		on := newPhone(t, phone.Config{Number: fmt.Sprintf("+1415555020%d", i)})
		c := dial(t, on, g.uri(name))
		for n := range turns {
			asks(t, c, speechLike(500*time.Millisecond, uint64(i*turns+n)))
		}
		hangUp(t, c)
		pairs := audio.Turns(c.Log().Marks(phone.Sent), c.Log().Marks(phone.Heard), audio.DefaultRule())
		if len(pairs) != turns {
			t.Fatalf("%d turns on the log, want %d", len(pairs), turns)
		}
		for _, pair := range pairs {
			// The wait for the caller to go on is the gateway's own choice; what
			// the machine takes counts only where something is to be done.
			taken := probe.taken(on.Wall(pair.Answered.Start-3*packet), on.Wall(pair.Answered.Start))
			waited.add(pair.Latency, taken)
		}
	})
	const ms = time.Millisecond
	waited.hold(t, "turn latency as heard", bar{speechTimeout + 60*ms, speechTimeout + 120*ms, 0.95, speechTimeout + 45*ms})
}

// asks says something and hears the reply out.
func asks(t *testing.T, c *phone.Call, pcm []int16) {
	t.Helper()
	u := c.Say(pcm)
	wait(t, "saying it", patience, u.Wait)
	_, said, _ := u.Loud()
	eventually(t, patience, "a reply", func() bool {
		spans := audio.Utterances(c.Log().Marks(phone.Heard), audio.DefaultRule())
		return len(spans) > 0 && spans[len(spans)-1].Start > said
	})
	wait(t, "the end of the reply", patience, func(ctx context.Context) error { return c.WaitAgentSilent(ctx, 350*time.Millisecond) })
}
