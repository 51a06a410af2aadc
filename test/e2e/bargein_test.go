package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
	"parley/sip"
	"parley/test/audio"
	"parley/test/phone"
)

// What the caller says to interrupt; each begins loud.
var interruptions = []string{"one-moment-please", "transfer", "cancelled", "number", "please-try-again", "goodbye"}

// bargeIns gathers what the calls of TestBargeIn measure.
type bargeIns struct {
	t      *testing.T
	g      *gateway
	agent  *httpAgent
	probe  *probe
	random *rand.Rand

	voiceStop, voiceConfirm figures // first loud packet -> silence; confirmed -> last speech packet
	digitStop, digitConfirm figures

	mu      sync.Mutex
	torn    int
	ours    int // those that are torn without the machine having stood still
	compare int
}

// The two replies that are cut off differ in the lengths of their sentences, so
// that a rest of the first would be heard in the second.
var (
	firstReply  = numbered("word", 5, 7, 4, 8, 6)
	secondReply = numbered("thing", 8, 3, 9, 6, 4)
	thirdReply  = numbered("last", 3)
)

// Two replies are cut off in each of the usual calls. A machine that stands still makes
// gaps, which show nothing of words: further calls are made then, up to the most, until so
// many replies were compared.
const usualCalls, mostCalls, wholeReplies = 30, 45, 30

// thinks is how long the agent thinks about the third reply.
const thinks = 300 * time.Millisecond

// TestBargeIn cuts replies off at random instants, by voice and by key, and holds
// what the gateway says about it against the phone's capture.
func TestBargeIn(t *testing.T) {
	const atOnce = 5
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	b := &bargeIns{t: t, random: rand.New(rand.NewPCG(seed, 7))}
	b.agent = newAgent(t, func(w http.ResponseWriter, r *http.Request, _ turn, before int) {
		if before == 2 {
			think(r, thinks) // a key is answered at once: the cut reply is to be seen alone
		}
		say(w, []string{firstReply, secondReply, thirdReply}[min(before, 2)])
	})
	b.g = startGateway(t, func(c *call.Config, _ *sip.Config) { c.MaxCalls = mostCalls })
	b.probe = newProbe(t)
	begin := time.Now()
	plans := make([]*interrupted, mostCalls)
	for i := range plans {
		plans[i] = b.plan(i)
	}
	together(t, atOnce, mostCalls, func(i int) string { return plans[i].name }, func(t *testing.T, i int) {
		if i < usualCalls || b.whole() < wholeReplies && !raced {
			plans[i].run(t)
		}
	})
	b.report(time.Since(begin))
}

// report prints the figures and judges them.
func (b *bargeIns) report(took time.Duration) {
	wheel := b.g.wheel.Stats()
	fmt.Printf("%d calls in %v; wheel: %d turns, %d missed, %d slots skipped, lateness p99 %v\n",
		len(b.voiceStop.raw), took.Round(time.Second), wheel.Turns, wheel.MissedTurns, wheel.SkippedSlots, wheel.Lateness.Quantile(0.99))
	const ms = time.Millisecond
	b.voiceStop.hold(b.t, "P7 voice: first loud packet to silence", bar{130 * ms, 180 * ms, 0.99, 70 * ms})
	b.voiceConfirm.hold(b.t, "P7 voice: confirmed to last speech packet", bar{20 * ms, 20 * ms, 0.99, 20 * ms})
	b.digitStop.hold(b.t, "P7 key: first event packet to silence", bar{130 * ms, 180 * ms, 0.99, 40 * ms})
	b.digitConfirm.hold(b.t, "P7 key: confirmed to last speech packet", bar{20 * ms, 20 * ms, 0.99, 20 * ms})
	fmt.Printf("%d replies came whole, %d with gaps, of which %d are not the machine's\n", b.whole(), b.torn, b.ours)
	if raced {
		return
	}
	if b.ours > b.compare/10 {
		b.t.Errorf("%d of %d replies came with gaps that are not the machine's", b.ours, b.compare)
	}
	if got := b.whole(); got < wholeReplies {
		b.t.Errorf("%d replies came whole: too few to compare words, want %d", got, wholeReplies)
	}
}

// whole is how many replies came without gaps, so that their words were compared.
func (b *bargeIns) whole() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.compare - b.torn
}

// interrupted is one call and what is to happen in it.
type interrupted struct {
	*bargeIns
	name          string
	number        int
	voice, key    time.Duration // into the reply
	with          string
	t             *testing.T
	phone         *phone.Phone
	call          *phone.Call
	parts         *parts
	first, second captured
}

func (b *bargeIns) plan(i int) *interrupted {
	instant := func() time.Duration { return time.Duration(60+b.random.IntN(2400)) * time.Millisecond }
	return &interrupted{
		bargeIns: b, number: i, name: fmt.Sprintf("call%d", i), voice: instant(), key: instant(),
		with: interruptions[b.random.IntN(len(interruptions))],
	}
}

func (c *interrupted) run(t *testing.T) {
	c.t = t
	c.parts = newParts(c.agent.URL, "tell me everything", "stop there")
	c.parts.cascade.Turn.MaxDigits = 1
	c.parts.plug(t, c.g, c.name)
	c.phone = newPhone(t, phone.Config{Number: fmt.Sprintf("+141555501%02d", c.number)})
	c.call = dial(t, c.phone, c.g.uri(c.name))
	c.say("hello")
	c.speaks(0)

	// By voice.
	c.pause(c.voice)
	u := c.say(c.with)
	c.requests(2)
	begin, _, _ := u.Loud()
	second := c.speaks(begin + 300*time.Millisecond)
	c.first = capture(t, c.call, 0, begin+300*time.Millisecond)
	measure(&c.voiceStop, c.probe, c.phone, begin, c.first.last)

	// By key.
	c.pause(c.key)
	u, err := c.call.Press('5', 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the key is sent", patience, u.Wait)
	c.requests(3)
	begin, _, _ = u.Loud()
	third := c.speaks(begin + thinks)
	c.second = capture(t, c.call, second, third-1)
	measure(&c.digitStop, c.probe, c.phone, begin, c.second.last)
	// Silence alone may be the machine's.
	eventually(t, patience, "the gateway has said the last reply", func() bool {
		c.g.mu.Lock()
		defer c.g.mu.Unlock()
		return len(of(c.g.events[c.asked()[0].call], agent.EventAgentStopped)) >= 3
	})
	wait(t, "the last reply", patience, func(ctx context.Context) error {
		return c.call.WaitAgentSilent(ctx, 300*time.Millisecond)
	})
	hangUp(t, c.call)
	c.judge(capture(t, c.call, third, time.Hour))
}

// say speaks and returns when it was said.
func (c *interrupted) say(name string) *phone.Utterance {
	u := c.call.Say(human(c.t, name))
	wait(c.t, "saying "+name, patience, u.Wait)
	return u
}

func (c *interrupted) pause(d time.Duration) {
	wait(c.t, "the call goes on", patience, func(ctx context.Context) error { return c.call.Pause(ctx, d) })
}

// speaks waits for the first packet of speech after a time and returns when it came.
func (c *interrupted) speaks(after time.Duration) (came time.Duration) {
	c.t.Helper()
	eventually(c.t, patience, "the agent speaks", func() bool {
		for _, m := range c.call.Log().Marks(phone.Heard) {
			if m.At > after && m.Level >= audio.Loud {
				came = m.At
				return true
			}
		}
		return false
	})
	return came
}

// requests waits until the agent was asked n times in this call.
func (c *interrupted) requests(n int) {
	c.t.Helper()
	eventually(c.t, patience, "the agent is asked", func() bool { return len(c.asked()) >= n })
}

// asked are the requests with this caller's number.
func (c *interrupted) asked() (out []turn) {
	for _, got := range c.agent.asked("") {
		if got.ResourceID == fmt.Sprintf("+141555501%02d", c.number) {
			out = append(out, got)
		}
	}
	return out
}

// judge compares what the gateway says about the call with the capture.
func (c *interrupted) judge(third captured) {
	t := c.t
	record, events := c.g.ended(t, c.call)
	barges := of(events, agent.EventBargeIn)
	if len(barges) != 2 || barges[0].Reason != "voice" || barges[1].Reason != "digit" || record.Stats.BargeIns != 2 {
		t.Fatalf("barge-ins %+v, %d on record; want one by voice, one by digit", barges, record.Stats.BargeIns)
	}
	for i, last := range []time.Duration{c.first.last, c.second.last} {
		f := []*figures{&c.voiceConfirm, &c.digitConfirm}[i]
		went := max(0, c.phone.Wall(last).Sub(barges[i].At))
		f.add(went, min(went, c.probe.taken(barges[i].At, barges[i].At.Add(went+packet))))
	}
	asked := c.asked()
	if len(asked) != 3 || asked[0].Text != "tell me everything" || asked[1].Text != "stop there" || asked[2].Text != "5" {
		t.Fatalf("the agent was asked %+v", asked)
	}
	if asked[0].Interrupted != "" {
		t.Errorf("interrupted %q before any reply", asked[0].Interrupted)
	}
	stopped := of(events, agent.EventAgentStopped)
	for i, cut := range []struct {
		captured
		reply string
	}{{c.first, firstReply}, {c.second, secondReply}} {
		told := asked[i+1].Interrupted
		if !strings.HasPrefix(cut.reply, told) {
			t.Errorf("interrupted_text %q is no beginning of %q", told, cut.reply)
		}
		c.count(cut.captured)
		if cut.torn {
			continue
		}
		heard, err := cut.heard(cut.reply)
		if err != nil {
			t.Errorf("reply %d: %v", i+1, err)
		} else if told != heard {
			t.Errorf("reply %d: the agent was told %q; the capture holds %q (%v of speech)", i+1, told, heard, time.Duration(len(cut.pcm))*time.Second/8000)
		}
		if i < len(stopped) && (stopped[i].Heard != told || !stopped[i].Interrupted) {
			t.Errorf("the event says heard %q (interrupted %v), the agent was told %q", stopped[i].Heard, stopped[i].Interrupted, told)
		}
	}
	if heard, err := third.heard(thirdReply); !third.torn && (err != nil || heard != thirdReply) {
		t.Errorf("the last reply was heard as %q, %v; want %q", heard, err, thirdReply)
	}
}

func (c *interrupted) count(s captured) {
	taken := c.probe.taken(c.phone.Wall(s.first-beside), c.phone.Wall(s.last+beside))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compare++; s.torn {
		c.torn++
		if taken < packet {
			c.ours++
		}
	}
}
