package cascade

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/turn"
)

// TestAnyOrderOfEvents has everything happen in any order, with a model and a voice
// that are slow, silent or broken at random. What must hold: turns and replies
// follow each other one at a time, what is reported as heard is a prefix of what was
// said and just what was on the wire, nothing of an older reply is heard after a
// newer one, nothing is left open, and a caller who falls silent is let go.
func TestAnyOrderOfEvents(t *testing.T) {
	orders := uint64(500)
	if testing.Short() {
		orders = 100
	}
	for seed := range orders {
		if !anyOrder(t, seed) {
			return
		}
	}
}

func anyOrder(t *testing.T, seed uint64) bool {
	t.Helper()
	return t.Run(fmt.Sprint(seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &chance{r: rand.New(rand.NewPCG(seed, 7))}
			r := newRig(t, c.prepare)
			defer func() {
				if t.Failed() {
					t.Log(r.log())
				}
			}()
			defer r.hangUp()
			c.events(r)
			c.check(r)
		})
	})
}

// chance decides; providers ask it too.
type chance struct {
	mu     sync.Mutex
	r      *rand.Rand
	model  *hearing
	broken bool // the voice fails now and then
}

func (c *chance) n(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(n)
}

func (c *chance) upTo(d time.Duration) time.Duration { return time.Duration(c.n(int(d))) }

func (c *chance) prepare(r *rig) {
	r.cfg.Greeting = []string{"", "g0w0 g0w1 g0w2. g0w3."}[c.n(2)]
	r.cfg.Turn.MuteGreeting = c.n(4) == 0
	r.cfg.FirstToken, r.cfg.VoiceTries = 3*time.Second, 0
	r.cfg.Turn.Idle = 2 * time.Second
	r.voice.firstByte = c.upTo(600 * ms)
	if c.broken = c.n(5) == 0; c.broken {
		r.voice.failAfter = c.n(3)
		r.voice.fails = func(string) error {
			if c.n(4) == 0 {
				return errBroken
			}
			return nil
		}
	}
	if c.n(3) == 0 {
		r.cfg.Filler, r.cfg.FillerAfter = "filler.", 400*ms
	}
	if c.n(4) == 0 {
		r.cfg.Eager = 200 * ms
	}
	if c.n(4) == 0 {
		r.cfg.Turn.Stop = []turn.StopStrategy{turn.StopTimeout, turn.StopDeferred}
	}
	r.model.reply = c.reply
	c.model = hears(r)
}

// reply is words that name it, given with pauses, and with an end of some kind.
func (c *chance) reply(ctx context.Context, n int, t llm.Turn, out func(llm.Chunk) error) error {
	if t.Tentative && c.n(4) == 0 {
		return out(llm.Chunk{Incomplete: time.Second})
	}
	if c.n(10) == 0 {
		c.model.opened.Wake()
	}
	if err := sleep(ctx, c.upTo(time.Second)); err != nil {
		return err
	}
	for i := range c.n(30) {
		text := fmt.Sprintf("r%dw%d ", n, i)
		if c.n(4) == 0 {
			text = strings.TrimSpace(text) + ". "
		}
		chunk := llm.Chunk{Text: text, Thinking: c.n(30) == 0}
		if c.n(20) == 0 {
			chunk.Expect = &llm.Expect{MaxDigits: c.n(4), Grammar: "g"}
		}
		if c.n(60) == 0 {
			chunk.Action = &llm.Action{Kind: llm.Transfer}
		}
		if err := out(chunk); err != nil {
			return err
		}
		if c.n(5) == 0 {
			if err := sleep(ctx, c.upTo(300*ms)); err != nil {
				return err
			}
		}
	}
	switch c.n(12) {
	case 0:
		return errBroken
	case 1:
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (c *chance) events(r *rig) {
	for range c.n(60) {
		r.wait(c.upTo(time.Duration(1+c.n(1500)) * ms))
		now, lag := time.Now(), c.upTo(200*ms)
		notice := func(k agent.NoticeKind) { r.session.Notice(agent.Notice{Kind: k, At: now, Lag: lag}) }
		switch c.n(13) {
		case 12:
			c.model.opened.Wake()
		case 0, 1, 2:
			notice(agent.VoiceOn)
		case 3, 4, 5:
			notice(agent.VoiceOff)
		case 6:
			r.session.Notice(agent.Notice{Kind: agent.Digit, At: now, Digit: "0123456789*#"[c.n(12)]})
		case 7:
			c.result(r, stt.Result{Text: []string{"", "one", "one two"}[c.n(3)]})
		case 8, 9:
			c.result(r, stt.Result{Text: []string{"", "one", "one two."}[c.n(3)], Final: true})
		case 10:
			if c.n(4) == 0 {
				c.result(r, stt.Result{Err: stt.ErrLost})
			}
		case 11:
			r.line.set(&r.line.held, true)
			notice(agent.Held)
			r.wait(c.upTo(500 * ms))
			r.line.set(&r.line.held, false)
			notice(agent.Resumed)
		}
	}
	r.session.Notice(agent.Notice{Kind: agent.VoiceOff, At: time.Now()})
}

func (c *chance) result(r *rig, result stt.Result) {
	streams := r.stt.Streams()
	streams[len(streams)-1].Emit(result)
}

func (c *chance) check(r *rig) {
	r.ends()
	if r.err != nil {
		r.t.Errorf("run returned %v", r.err)
	}
	if err := errors.Join(alternating(r.events), c.heardIsWire(r), inOrder(r), c.toldOnce()); err != nil {
		r.t.Error(err)
	}
}

// toldOnce checks that the model was told of each of its replies, and before the next.
func (c *chance) toldOnce() error {
	open := 0
	for line := range strings.Lines(c.model.all()) {
		switch {
		case strings.HasPrefix(line, "reply to"):
			open++
		case strings.HasPrefix(line, "heard") && !strings.Contains(line, "own"):
			open--
		}
		if open < 0 || open > 1 {
			return fmt.Errorf("at %q: %d replies whose end is not told\n%s", line, open, c.model.all())
		}
	}
	if open != 0 {
		return fmt.Errorf("the end of a reply was never told\n%s", c.model.all())
	}
	return nil
}

// alternating checks that turns and replies come one at a time.
func alternating(events []agent.Event) error {
	open, speaking := false, false
	for _, e := range events {
		wrong := false
		switch e.Type {
		case agent.EventUserStarted:
			wrong, open = open, true
		case agent.EventUserStopped:
			wrong, open = !open, false
		case agent.EventAgentStarted:
			wrong, speaking = speaking, true
		case agent.EventAgentStopped:
			speaking = false
		case agent.EventBargeIn:
			wrong = !speaking
		case agent.EventAgentText:
			wrong = open
		}
		if wrong {
			return fmt.Errorf("%s at %v does not follow what was before", e.Type, e.At)
		}
	}
	if open || speaking {
		return fmt.Errorf("at the end: turn open %v, agent speaking %v", open, speaking)
	}
	return nil
}

// heardIsWire checks what is said to have been heard against the wire.
func (c *chance) heardIsWire(r *rig) error {
	wire := map[string]bool{}
	for _, w := range r.heard() {
		wire[w] = true
	}
	told := map[string]bool{}
	for _, e := range r.all(agent.EventAgentStopped) {
		if !strings.HasPrefix(e.Text, e.Heard) {
			return fmt.Errorf("heard %q is no prefix of %q", e.Heard, e.Text)
		}
		for _, w := range strings.Fields(e.Heard) {
			if told[w] = true; !wire[w] {
				return fmt.Errorf("%q was not heard", w)
			}
		}
	}
	for w := range wire {
		if strings.Contains(w, "w") && !told[w] && !strings.Contains(r.cfg.Goodbye+fallback, w) {
			return fmt.Errorf("%q was heard and not told", w)
		}
	}
	return nil
}

// inOrder checks that no older reply is heard after a newer one.
func inOrder(r *rig) error {
	last := -1
	for _, s := range r.wire() {
		var n, w int
		word, _ := r.voice.word(s.value)
		if _, err := fmt.Sscanf(word, "r%dw%d", &n, &w); err != nil {
			continue
		}
		if n < last {
			return fmt.Errorf("reply %d was heard after %d", n, last)
		}
		last = n
	}
	return nil
}
