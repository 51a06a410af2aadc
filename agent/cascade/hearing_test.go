package cascade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/llm"
)

// hearing is a model that wants to know everything, and keeps a log of it.
type hearing struct {
	*mind
	version atomic.Uint64

	mu         sync.Mutex
	log        []string
	heard      []llm.Heard
	prefetched []string
}

// hears makes the rig's model one.
func hears(r *rig) *hearing {
	h := &hearing{mind: r.model}
	r.cfg.LLM = h
	return h
}

func (h *hearing) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *hearing) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.log, "\n")
}

func (h *hearing) Open(ctx context.Context, c llm.Conversation) (llm.Model, error) {
	_, err := h.mind.Open(ctx, c)
	return h, err
}

func (h *hearing) Reply(ctx context.Context, t llm.Turn, out func(llm.Chunk) error) error {
	words := t.Text
	switch {
	case t.Woken:
		words += "woken"
	case t.Nothing:
		words += "nothing"
	case t.Tentative:
		words += "?"
	}
	h.note("reply to %q", words)
	return h.mind.Reply(ctx, t, out)
}

func (h *hearing) Greet(ctx context.Context, out func(llm.Chunk) error) error {
	h.note("reply to nobody")
	return h.mind.Greet(ctx, out)
}

func (h *hearing) Heard(x llm.Heard) {
	h.mu.Lock()
	h.heard = append(h.heard, x)
	h.mu.Unlock()
	var flags []string
	if x.Interrupted {
		flags = append(flags, "cut")
	}
	if x.Own {
		flags = append(flags, "own")
	}
	if x.Withdrawn {
		flags = append(flags, "again")
	}
	h.note("heard %q of %q in %v %v", x.Heard, x.Text, x.Played.Round(ms), flags)
}

func (h *hearing) CallerSpeaks()   { h.note("caller") }
func (h *hearing) Version() uint64 { return h.version.Load() }
func (h *hearing) Prefetch(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.prefetched = append(h.prefetched, text)
}

var _ interface {
	llm.Hearer
	llm.Versioned
	llm.Prefetcher
} = (*hearing)(nil)

func lines(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

func TestAModelIsToldWhatBecameOfItsReplies(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(*rig)
		script  func(*rig)
		want    string
	}{
		{
			name:   "a conversation",
			script: func(r *rig) { r.quiet(1); r.say("one", time.Second); r.quiet(2); r.say("two", time.Second); r.quiet(3) },
			want: `heard "Welcome to Parley." of "Welcome to Parley." in 600ms [own]
				caller
				reply to "one"
				heard "Reply number 1." of "Reply number 1." in 600ms []
				caller
				reply to "two"
				heard "Reply number 2." of "Reply number 2." in 600ms []`,
		},
		{
			name:    "a barge-in is told of before the next reply",
			prepare: func(r *rig) { r.model.reply = saying(numbers(10)) },
			script: func(r *rig) {
				r.quiet(1)
				r.say("go", time.Second)
				r.speaks(2)
				r.wait(510 * ms)
				r.say("stop", time.Second, "stop")
				r.quiet(3)
			},
			want: `heard "Welcome to Parley." of "Welcome to Parley." in 600ms [own]
				caller
				reply to "go"
				caller
				heard "Word0 Word1" of "Word0 Word1 Word2 Word3 Word4. Word5 Word6 Word7 Word8 Word9." in 560ms [cut]
				reply to "stop"
				heard "Short2." of "Short2." in 200ms []`,
		},
		{
			name:    "a reply that a noise had cut is told of once, whole",
			prepare: func(r *rig) { r.model.reply = saying(numbers(10)) },
			script: func(r *rig) {
				r.quiet(1)
				r.say("go", time.Second)
				r.speaks(2)
				r.wait(510 * ms)
				r.sound(time.Second)
				r.quiet(3)
			},
			want: `heard "Welcome to Parley." of "Welcome to Parley." in 600ms [own]
				caller
				reply to "go"
				caller
				heard "Word0 Word1 Word2 Word3 Word4. Word5 Word6 Word7 Word8 Word9." of "Word0 Word1 Word2 Word3 Word4. Word5 Word6 Word7 Word8 Word9." in 2.16s []`,
		},
		{
			name:    "one that is asked for again is withdrawn",
			prepare: func(r *rig) { r.model.delay = 2 * time.Second },
			script: func(r *rig) {
				r.quiet(1)
				r.say("go", time.Second)
				r.until("it is asked", func() bool { return len(r.model.asked()) == 1 })
				r.sound(time.Second)
				r.quiet(2)
			},
			want: `heard "Welcome to Parley." of "Welcome to Parley." in 600ms [own]
				caller
				reply to "go"
				caller
				heard "" of "" in 0s [cut again]
				reply to "go"
				heard "Reply number 2." of "Reply number 2." in 600ms []`,
		},
		{
			name:    "prompts are ours",
			prepare: func(r *rig) { r.cfg.Reprompts = []string{"Well?"}; r.cfg.Turn.Reprompts = 1; r.cfg.Goodbye = "" },
			script:  func(r *rig) { r.ends() },
			want: `heard "Welcome to Parley." of "Welcome to Parley." in 600ms [own]
				heard "Well?" of "Well?" in 200ms [own]`,
		},
		{
			name:    "the end of the call cuts off",
			prepare: func(r *rig) { r.model.reply = saying(numbers(10)) },
			script: func(r *rig) {
				r.quiet(1)
				r.say("go", time.Second)
				r.speaks(2)
				r.wait(510 * ms)
				r.hangUpOnce()
			},
			want: `heard "Welcome to Parley." of "Welcome to Parley." in 600ms [own]
				caller
				reply to "go"
				heard "Word0 Word1" of "Word0 Word1 Word2 Word3 Word4. Word5 Word6 Word7 Word8 Word9." in 520ms [cut]`,
		},
		{
			name: "a reply without words is one",
			prepare: func(r *rig) {
				r.model.reply = func(context.Context, int, llm.Turn, func(llm.Chunk) error) error { return nil }
			},
			script: func(r *rig) { r.quiet(1); r.say("go", time.Second); r.wait(time.Second) },
			want: `heard "Welcome to Parley." of "Welcome to Parley." in 600ms [own]
				caller
				reply to "go"
				heard "" of "" in 0s []`,
		},
		{
			name: "a fallback is not what the model said",
			prepare: func(r *rig) {
				r.model.reply = func(context.Context, int, llm.Turn, func(llm.Chunk) error) error { return errBroken }
			},
			script: func(r *rig) { r.quiet(1); r.say("go", time.Second); r.quiet(2) },
			want: `heard "Welcome to Parley." of "Welcome to Parley." in 600ms [own]
				caller
				reply to "go"
				heard "" of "" in 2.2s []`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h *hearing
			converse(t, func(r *rig) {
				if c.prepare != nil {
					c.prepare(r)
				}
				h = hears(r)
			}, c.script)
			if got := lines(h.all()); got != lines(c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, lines(c.want))
			}
		})
	}
}

func TestWhatTheModelKnowsAndRemembers(t *testing.T) {
	given := &memoryOfCall{kept: map[string]any{"user:name": "Ada"}}
	converse(t, func(r *rig) {
		r.about = func(c *agent.Call) {
			c.Agent, c.Memory = "sales", given
			c.Headers, c.Context = map[string]string{"X-Account": "7"}, map[string]string{"order": "12"}
		}
	}, func(r *rig) {
		c := r.model.opened
		if c.Agent != "sales" || c.Headers["X-Account"] != "7" || c.Context["order"] != "12" {
			t.Errorf("%+v", c)
		}
		if name, ok := c.Memory.Get("user:name"); !ok || name != "Ada" {
			t.Errorf("remembers %v", name)
		}
	})
	converse(t, nil, func(r *rig) { // and without one that lasts
		m := r.model.opened.Memory
		list := []any{"a", 1.0}
		m.Set("user:list", list)
		list[0] = "changed"
		m.Set("user:n", 3)
		m.Set("bad", func() {})
		m.Set("gone", "x")
		m.Set("gone", nil)
		if got, _ := m.Get("user:list"); fmt.Sprint(got) != "[a 1]" {
			t.Errorf("list %v", got)
		}
		if got, _ := m.Get("user:n"); got != 3.0 {
			t.Errorf("n %v (%T)", got, got)
		}
		if keys := m.Keys("user:"); !slices.Equal(keys, []string{"user:list", "user:n"}) || len(m.Keys("")) != 2 {
			t.Errorf("keys %v", m.Keys(""))
		}
	})
}

func TestWords(t *testing.T) {
	var h *hearing
	converse(t, func(r *rig) { h = hears(r) }, func(r *rig) {
		r.quiet(1)
		r.stt.Add(utterance("book a table"), utterance("for two"))
		r.sound(time.Second)
		r.wait(100 * ms)
		r.stt.Streams()[0].Emit(final("book a table"))
		r.wait(100 * ms)
		r.sound(time.Second)
		r.quiet(2)
		if got := strings.Join(h.prefetched, "|"); !strings.HasPrefix(got, "book a table") {
			t.Errorf("prefetched %q", got)
		}
	})
}
