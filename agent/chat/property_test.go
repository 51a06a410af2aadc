package chat

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The invariants of conversation.md, whatever happens in which order: every tool call
// has an answer at every instant, heard <= sent, one message of the caller per turn
// (more only with early inferences), a summary never parts a call from its answer,
// turns begin and end in pairs.

// chaos does random things to a Pair and knows what must hold.
type chaos struct {
	t     *testing.T
	r     *rand.Rand
	p     *Pair
	calls []string

	turns, stopped, messages, inferences int    // of the caller
	begun, ended                         int    // of the agent
	last                                 string // what the last turn of the agent sent
	most                                 int    // messages; 0: no bound
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{t: t, r: rand.New(rand.NewPCG(seed, 1))}
	c.p = NewPair(PairConfig{Context: NewContext("s"), Realtime: c.r.IntN(4) == 0, Events: Events{
		UserTurnStarted:            func(UserTurnStarted) { c.turns++ },
		UserTurnStopped:            func(UserTurnStopped) { c.stopped++ },
		UserTurnInferenceTriggered: func(UserTurnInferenceTriggered) { c.inferences++ },
		UserTurnMessageAdded:       func(UserTurnMessageAdded) { c.messages++ },
		AssistantTurnStarted:       func(AssistantTurnStarted) { c.begun++ },
		AssistantTurnStopped: func(e AssistantTurnStopped) {
			c.ended++
			if !strings.HasPrefix(strings.Join(strings.Fields(c.last), " "), strings.Join(strings.Fields(e.Content), " ")) {
				t.Errorf("heard %q of %q", e.Content, c.last)
			}
		},
	}})
	if c.r.IntN(2) == 0 {
		c.most = 4 + c.r.IntN(8)
		c.p.Context().SetBound(c.most, 0)
	}
	return c
}

func (c *chaos) words(n int) string {
	var b strings.Builder
	for range 1 + c.r.IntN(n) {
		fmt.Fprintf(&b, "w%d ", c.r.IntN(1000))
	}
	return b.String()
}

// step does one random thing.
func (c *chaos) step() {
	u, a := c.p.User(), c.p.Assistant()
	switch c.r.IntN(24) {
	case 0:
		u.Start("voice")
	case 1, 2, 3:
		u.Add(Transcript{Text: c.words(3), Final: c.r.IntN(3) > 0})
	case 4:
		u.Add(final(" \n"))
	case 5:
		u.Infer("early")
	case 6, 7:
		u.Stop("silence")
	case 8:
		u.Timeout()
	case 9:
		u.Mute(c.r.IntN(3) == 0)
	case 10:
		c.last += " " // a turn of its own begins: the one before has ended as it was
		a.Start()
		c.last = ""
	case 11, 12, 13:
		text := c.words(4)
		c.last += text
		a.Write(text)
	case 14:
		for _, call := range a.Calls([]ToolCall{call(fmt.Sprint(c.r.IntN(4)), "a"), call("", "b")}[:1+c.r.IntN(2)]) {
			c.calls = append(c.calls, call.ID)
		}
	case 15, 16:
		c.settle(func(id string) { a.Result(id, "{}") })
	case 17:
		c.settle(func(id string) { a.Cancel(id) })
	case 18, 19:
		heard := c.last[:c.r.IntN(len(c.last)+1)]
		if c.r.IntN(5) == 0 {
			heard += "more than was sent"
		}
		a.Stop(Uttered{Sent: c.last, Heard: heard, Interrupted: c.r.IntN(2) == 0})
		c.last = ""
	case 20:
		a.Heard(c.last[:c.r.IntN(len(c.last)+1)])
	case 21:
		c.p.Run()
	case 22:
		c.fold()
	case 23:
		u.Retract()
	}
}

// settle answers one call, whichever, also one that was answered.
func (c *chaos) settle(do func(id string)) {
	if len(c.calls) > 0 {
		do(c.calls[c.r.IntN(len(c.calls))])
	}
}

// fold does what a summary does, with bounds of its own and with wild ones.
func (c *chaos) fold() {
	s := c.p.Context().Snapshot()
	from, to, ok := foldable(s.Messages, c.r.IntN(8), 1)
	wild := c.r.IntN(3) == 0
	if wild {
		from, to = c.r.IntN(len(s.Messages)+1), c.r.IntN(len(s.Messages)+2)
	} else if !ok {
		return
	}
	for range c.r.IntN(2) {
		c.p.User().Add(final("meanwhile"))
	}
	if _, err := c.p.Context().Fold(s.Revision, from, to, Message{Role: RoleDeveloper, Content: SummaryLead + "x"}); err != nil && !wild && (c.most == 0 || !errors.Is(err, ErrStale)) {
		c.t.Errorf("a summary of %d..%d: %v of\n%s", from, to, err, told(s.Messages))
	}
}

func (c *chaos) check() {
	messages := c.p.Context().Snapshot().Messages
	if err := Valid(messages); err != nil {
		c.t.Fatal(err)
	}
	if n := droppable(messages); c.most > 0 && len(messages) > c.most && n > 0 {
		c.t.Fatalf("%d messages where %d are the most, and %d could go:\n%s", len(messages), c.most, n, told(messages))
	}
	if !c.p.cfg.Realtime && c.messages > c.turns+c.inferences {
		c.t.Fatalf("%d messages of %d turns with %d inferences", c.messages, c.turns, c.inferences)
	}
	if d := c.turns - c.stopped; d < 0 || d > 1 {
		c.t.Fatalf("%d turns of the caller began, %d ended", c.turns, c.stopped)
	}
	if d := c.begun - c.ended; d < 0 || d > 1 {
		c.t.Fatalf("%d turns of the agent began, %d ended", c.begun, c.ended)
	}
}

// droppable is how many messages may go, newest not among them, that no tool is at work
// for and that are neither instructions nor the summary.
func droppable(messages []Message) (n int) {
	for from := 0; from < len(messages); {
		to, atWork := from+1, false
		for ; to < len(messages) && messages[to].Role == RoleTool; to++ {
			atWork = atWork || messages[to].Content == InProgress
		}
		if m := messages[from]; to < len(messages) && !atWork && m.Role != RoleSystem && !isSummary(m) {
			n += to - from
		}
		from = to
	}
	return n
}

func TestRandomOrders(t *testing.T) {
	orders := 100_000
	if testing.Short() {
		orders = 5_000
	}
	if n, err := strconv.Atoi(os.Getenv("PARLEY_ORDERS")); err == nil {
		orders = n
	}
	for seed := range orders {
		c := newChaos(t, uint64(seed))
		for range 24 {
			c.step()
			c.check()
		}
		c.p.Close()
		c.check()
		if n := len(c.p.Context().CallsInProgress()); c.turns != c.stopped || c.begun != c.ended || n > 0 {
			t.Errorf("left open: %d of %d, %d of %d, %d calls", c.stopped, c.turns, c.ended, c.begun, n)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzClip: what is heard is a beginning of what was sent, whatever is claimed.
func FuzzClip(f *testing.F) {
	f.Add("hello there", "hello  th")
	f.Add("你好世界", "你好世")
	f.Add("a\xffb c", "a\xffb")
	f.Fuzz(func(t *testing.T, sent, heard string) {
		got := clip(heard, sent)
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if !strings.HasPrefix(squeeze(sent), squeeze(got)) || !strings.HasPrefix(strings.TrimSpace(heard), got) {
			t.Errorf("%q of %q: %q", heard, sent, got)
		}
		if clip(sent, sent) != strings.TrimSpace(sent) {
			t.Errorf("%q is not heard whole: %q", sent, clip(sent, sent))
		}
	})
}
