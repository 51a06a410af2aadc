package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/kit"
	"parley/agent/live"
	"parley/agent/live/openai"
	"parley/call"
	"parley/sip"
)

// realtimeTones is how the words of a realtimeService lie in its sound, which comes as PCM,
// or in the call's own code.
func realtimeTones(coded bool) diction {
	if coded {
		return diction{word: realtimeWord, rate: 8000}
	}
	return diction{word: realtimeWord, rate: live.OutputRate}
}

// TestHeardTextOfRealtimeModels cuts the replies of a realtime model at 40 random
// instants and more. What it is told to cut its reply down to agrees with the capture to a
// packet, and the event and the record to the word (BR-137).
func TestHeardTextOfRealtimeModels(t *testing.T) {
	const most = 42
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	replies := []string{even("greet", 4, 6), even("word", 5, 7, 4), even("thing", 8, 3, 9), even("last", 3)}
	kept := newRecords(t)
	g := startGateway(t, func(c *call.Config, _ *sip.Config) { c.MaxCalls = most })
	compared := enough{want: 40}
	compared.calls(t, most, func(t *testing.T, i int) {
		s := newRealtimeService(t, replies...)
		s.think = thinks
		name := fmt.Sprint("realtime", i)
		coded := i%2 == 0
		g.serve(name, kept.keep(realtimeAgent(t, s.URL, func(c *kit.Config, _ *openai.Config) { c.PassThrough = coded })))
		c := g.cutter(t, name, 100+i, rand.New(rand.NewPCG(seed, uint64(i))))
		cuts := c.interruptAll(replies, 400*time.Millisecond, 2100*time.Millisecond, func() {})
		hangUp(t, c.call)
		_, events := g.ended(t, c.call)
		if !compared.whole(t, c, len(cuts)-1) {
			return
		}
		all := accounts(t, events, kept.replies(t, c.number), len(replies))
		truncated := s.toldOf("conversation.item.truncate")
		if len(truncated) != len(replies)-1 || len(s.toldOf("conversation.item.delete")) > 0 {
			t.Fatalf("cut down %d replies: %+v; forgotten %+v", len(truncated), truncated, s.toldOf("conversation.item.delete"))
		}
		for n, cut := range cuts {
			name, interrupted := fmt.Sprint("reply ", n), n < len(truncated)
			heard, err := realtimeTones(coded).spoken(cut.pcm, cut.reply)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			length := lengthOf(cut.pcm)
			all[n].holds(t, name, strings.Join(heard, " "), length, interrupted)
			if !interrupted {
				continue
			}
			if told := time.Duration(truncated[n].ms) * time.Millisecond; told > length || told < length-packet {
				t.Errorf("%s: cut down to %v, the capture holds %v", name, told, length)
			}
		}
	})
}

// TestRealtimeCutBeforeAnySound: a reply that is cut off before its first sound is never
// heard, is no message, and is not cut down.
func TestRealtimeCutBeforeAnySound(t *testing.T) {
	kept := newRecords(t)
	g := startGateway(t, nil)
	replies := []string{even("greet", 3), even("word", 5, 7), even("last", 3)}
	s := newRealtimeService(t, replies...)
	s.think = 800 * time.Millisecond
	g.serve("early", kept.keep(realtimeAgent(t, s.URL, func(c *kit.Config, _ *openai.Config) { c.PassThrough, c.FillerAfter = true, 0 })))
	c := g.cutter(t, "early", 300, nil)
	begin := c.speaks(0)
	c.quiet()
	c.say(human(t, "hello"))
	eventually(t, patience, "the model is asked", func() bool { return len(s.toldOf("response.create")) == 2 })
	c.at(c.phone.Now(), s.think/2)
	acted := c.press()
	last := c.speaks(acted)
	c.quiet()
	hangUp(t, c.call)
	_, events := g.ended(t, c.call)
	if told := s.toldOf("conversation.item.truncate"); len(told) > 0 {
		t.Errorf("cut down %+v", told)
	}
	for i, want := range []struct {
		text     string
		from, to time.Duration
	}{{replies[0], begin, last - 1}, {replies[2], last, time.Hour}} {
		sound := capture(t, c.call, want.from, want.to)
		heard, err := realtimeTones(true).spoken(sound.pcm, want.text)
		if text := strings.Join(heard, " "); (err != nil || text != want.text) && !sound.torn {
			t.Errorf("part %d of the capture holds %q, %v; want %q", i, text, err, want.text)
		}
	}
	var messages []string
	for _, e := range kept.replies(t, c.number) {
		if e.Content != nil {
			messages = append(messages, textOf(e))
		}
	}
	if got, want := strings.Join(messages, "|"), replies[0]+"|"+replies[2]; got != want {
		t.Errorf("on record are %q, want %q; events %+v", got, want, of(events, agent.EventAgentStopped))
	}
}
