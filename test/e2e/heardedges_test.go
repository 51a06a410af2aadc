package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/session"
	"parley/agent/stt/stttest"
	"parley/test/phone"
)

// edge is a call in which a reply is cut off where it is hard to say what was heard.
type edge struct {
	*cutter
	agent  *httpAgent
	parts  *parts
	events []agent.Event
	kept   []*session.Event
}

// edgeReplies are what the agent says, one for each request.
var edgeReplies = []string{numbered("word", 5, 7), numbered("last", 3)}

// TestHeardTextAtTheEdges: the moments at which it is hard to say what was heard.
func TestHeardTextAtTheEdges(t *testing.T) {
	kept := newRecords(t)
	g := startGateway(t, nil)
	cases := []struct {
		name    string
		prepare func(*parts)
		call    func(*edge)
		judge   func(*edge)
	}{
		{"before any sound", func(p *parts) { p.voice.FirstByte, p.cascade.FillerAfter = 700*time.Millisecond, 0 }, (*edge).cutBeforeAnySound, (*edge).nothingWasHeard},
		{"within the first word", nil, (*edge).cutWithinTheFirstWord, (*edge).noWordWasHeard},
		{"after the last word", func(p *parts) { p.voice.Gap = 700 * time.Millisecond }, (*edge).cutAfterTheLastWord, (*edge).allWasHeard},
		{"a cough", func(p *parts) { p.hears.Add(stttest.Utterance{}) }, func(e *edge) { e.cough(300 * time.Millisecond) }, (*edge).wentOnWherePaused},
		{"a long cough", func(p *parts) { p.hears.Add(stttest.Utterance{}) }, func(e *edge) { e.cough(1100 * time.Millisecond) }, (*edge).wentOnWhereCut},
	}
	together(t, len(cases), len(cases), func(i int) string { return cases[i].name }, func(t *testing.T, i int) {
		a := newAgent(t, func(w http.ResponseWriter, r *http.Request, _ turn, before int) {
			think(r, thinks)
			say(w, edgeReplies[min(before, 1)])
		})
		p := newParts(a.URL, "tell me everything")
		p.cascade.Turn.MaxDigits = 1
		if cases[i].prepare != nil {
			cases[i].prepare(p)
		}
		p.plugWith(t, g, fmt.Sprint("edge", i), kept.keep)
		e := &edge{agent: a, parts: p}
		e.cutter = g.cutter(t, fmt.Sprint("edge", i), 200+i, nil)
		e.say(human(t, "hello"))
		cases[i].call(e)
		hangUp(t, e.call)
		_, e.events = g.ended(t, e.call)
		e.kept = kept.replies(t, e.number)
		if s := capture(t, e.call, 0, time.Hour); s.torn {
			t.Skip("the machine stood still")
		}
		cases[i].judge(e)
	})
}

// asked are the requests of the call.
func (e *edge) asked(want int) []turn {
	e.t.Helper()
	got := e.agent.asked("")
	if len(got) != want {
		e.t.Fatalf("the agent was asked %d times, want %d", len(got), want)
	}
	return got
}

func (e *edge) cutBeforeAnySound() {
	eventually(e.t, patience, "the agent is asked", func() bool { return len(e.agent.asked("")) == 1 })
	e.at(e.phone.Now(), thinks+300*time.Millisecond)
	e.press()
	e.speaks(0)
	e.quiet()
}

// nothingWasHeard: the agent is told nothing, and there is no message of it on record.
func (e *edge) nothingWasHeard() {
	if got := e.asked(2)[1]; got.raw["interrupted_text"] != nil {
		e.t.Errorf("interrupted_text %q", got.Interrupted)
	}
	all := accounts(e.t, e.events, e.kept, 2)
	all[0].holds(e.t, "the reply that was cut", "", 0, true)
	if all[0].kept.Content != nil {
		e.t.Errorf("a message of what was not heard: %+v", all[0].kept.Content)
	}
	sound := capture(e.t, e.call, 0, time.Hour)
	if heard, err := tones.spoken(sound.pcm, edgeReplies[1]); err != nil || len(heard) != 3 {
		e.t.Errorf("the capture holds %q, %v", heard, err)
	}
}

func (e *edge) cutWithinTheFirstWord() {
	begin := e.speaks(0)
	e.at(begin, 20*time.Millisecond)
	e.speaks(e.press() + thinks)
	e.quiet()
}

// noWordWasHeard: a part of a word is no word.
func (e *edge) noWordWasHeard() {
	if got := e.asked(2)[1]; got.raw["interrupted_text"] != nil {
		e.t.Errorf("interrupted_text %q", got.Interrupted)
	}
	begin := e.speaks(0)
	first := capture(e.t, e.call, begin, begin+250*time.Millisecond)
	all := accounts(e.t, e.events, e.kept, 2)
	all[0].holds(e.t, "the reply that was cut", "", lengthOf(first.pcm), true)
}

func (e *edge) cutAfterTheLastWord() {
	eventually(e.t, patience, "the last word", func() bool { return e.bursts() == len(words(edgeReplies[0])) })
	e.at(e.phone.Now(), e.parts.voice.Word+200*time.Millisecond)
	e.speaks(e.press() + thinks - packet)
	wait(e.t, "the end of the reply", patience, func(ctx context.Context) error { return e.call.WaitAgentSilent(ctx, time.Second) })
}

// allWasHeard: a reply that is cut off behind its last word was heard whole.
func (e *edge) allWasHeard() {
	if got := e.asked(2)[1].Interrupted; got != edgeReplies[0] {
		e.t.Errorf("interrupted_text %q", got)
	}
	stopped := of(e.events, agent.EventAgentStopped)
	if len(stopped) != 2 || !stopped[0].Interrupted || stopped[0].Heard != edgeReplies[0] || textOf(e.kept[0]) != edgeReplies[0] || !e.kept[0].Interrupted {
		e.t.Errorf("stopped %+v, on record %q", stopped, textOf(e.kept[0]))
	}
	if got, want := e.bursts(), len(words(edgeReplies[0]))+len(words(edgeReplies[1])); got != want {
		e.t.Errorf("the capture holds %d words, want %d", got, want)
	}
}

// bursts are the tones of the capture.
func (e *edge) bursts() (n int) {
	quiet := 10
	for _, m := range e.call.Log().Marks(phone.Heard) {
		if m.Level < -40 {
			quiet++
			continue
		}
		if quiet > 5 {
			n++
		}
		quiet = 0
	}
	return n
}

// cough makes a sound of that length over the reply, of which nobody makes words, and
// hears the reply to its end.
func (e *edge) cough(length time.Duration) {
	begin := e.speaks(0)
	e.at(begin, 900*time.Millisecond)
	e.say(speechLike(length, 7))
	// The reply goes on when no words have come for two seconds.
	eventually(e.t, patience, "the reply goes on", func() bool { return e.call.Log() != nil && e.speaks(begin+1500*time.Millisecond+length) > 0 })
	e.quiet()
}

// wentOnWherePaused: no word is missing and none is there twice.
func (e *edge) wentOnWherePaused() {
	e.asked(1)
	all := accounts(e.t, e.events, e.kept, 1)
	sound := capture(e.t, e.call, 0, time.Hour)
	heard, err := tones.spoken(sound.pcm, edgeReplies[0])
	if err != nil {
		e.t.Error(err)
	}
	all[0].holds(e.t, "the reply", strings.Join(heard, " "), time.Duration(len(heard))*wordTime, false)
	if text := strings.Join(heard, " "); text != edgeReplies[0] {
		e.t.Errorf("the capture holds %q", text)
	}
	if len(of(e.events, agent.EventFalseBargeIn)) != 1 {
		e.t.Errorf("it was no false interruption: %+v", e.events)
	}
}

// wentOnWhereCut: what was not heard is said, from the word on that was cut.
func (e *edge) wentOnWhereCut() {
	e.asked(1)
	all := accounts(e.t, e.events, e.kept, 2)
	begin := e.speaks(0)
	again := e.speaks(begin + 2500*time.Millisecond)
	first, rest := capture(e.t, e.call, begin, again-1), capture(e.t, e.call, again, time.Hour)
	before, err := tones.spoken(first.pcm, edgeReplies[0])
	if err != nil {
		e.t.Error(err)
	}
	left := words(edgeReplies[0])[len(before):]
	after, err := tones.spoken(rest.pcm, strings.Join(left, " "))
	if err != nil || !slices.Equal(after, left) {
		e.t.Errorf("after %q came %q, %v; want %q", before, after, err, left)
	}
	all[0].holds(e.t, "what was cut", strings.Join(before, " "), lengthOf(first.pcm), true)
	if got := of(e.events, agent.EventAgentStopped)[1]; got.Heard != edgeReplies[0] || got.Interrupted {
		e.t.Errorf("%+v", got)
	}
	if len(of(e.events, agent.EventFalseBargeIn)) != 1 {
		e.t.Errorf("it was no false interruption: %+v", e.events)
	}
}
