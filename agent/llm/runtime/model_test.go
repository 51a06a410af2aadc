package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/tool"
)

// conversation.md lines 4 and 11: one message of the caller per turn, and of the agent
// what was heard.
func TestWhatWasHeardIsTheConversation(t *testing.T) {
	r := newRig(t, rigConfig(), Parts{}, says("Hello there. How are you?"), says("One two three four."), says("Never heard."), says("Fine."))
	r.say("hello")
	r.holds("user: hello", "assistant: Hello there. How are you?")

	_, _ = r.reply(t.Context(), llm.Turn{Text: "count"})
	r.tell(llm.Heard{Text: "One two three four.", Heard: "One two", Interrupted: true})
	r.holds("user: hello", "assistant: Hello there. How are you?", "user: count", "assistant: One two [cut]")

	_, _ = r.reply(t.Context(), llm.Turn{Text: "stop", Interrupted: "One two", WasInterrupted: true})
	if n := notes(r.fake.asked(-1)); !strings.Contains(n, "interrupted your last reply") {
		t.Errorf("not told of the interruption: %q", n)
	}
	r.tell(llm.Heard{Text: "Never heard.", Interrupted: true})

	_, _ = r.reply(t.Context(), llm.Turn{Text: "go on", WasInterrupted: true})
	if n := notes(r.fake.asked(-1)); !strings.Contains(n, "before hearing any") {
		t.Errorf("not told of the interruption: %q", n)
	}
	r.heard("Fine.")
	r.holds("user: hello", "assistant: Hello there. How are you?", "user: count", "assistant: One two [cut]",
		"user: stop", "user: go on", "assistant: Fine.")
	if got := shown(r.fake.asked(-1).Messages); strings.Contains(got, "Never heard") || strings.Contains(got, "three") {
		t.Errorf("the model is told what nobody heard: %s", got)
	}
	equal(t, "completions", r.kinds("completion"), []string{"Hello there. How are you?", "One two three four.", "Never heard.", "Fine."})
}

// conversation.md line 10: once it is told what was heard of a reply, nothing more of it
// is written, spoken or done, whatever the model still gives.
func TestNothingStale(t *testing.T) {
	ran := false
	pay := &tool.FuncTool{ToolName: "pay", Fn: func(context.Context, map[string]any) (map[string]any, error) { ran = true; return nil, nil }}
	for name, script := range map[string]run{"words": says("One two three."), "calls": calls("One", "pay")} {
		r := newRig(t, rigConfig(), Parts{Tools: tools(t, pay)}, script)
		given := ""
		err := r.model.Reply(t.Context(), llm.Turn{Text: "hm"}, func(c llm.Chunk) error {
			if given += c.Text; c.Text != "" {
				r.tell(llm.Heard{Text: "One", Heard: "One", Interrupted: true})
			}
			return nil
		})
		if !errors.Is(err, errSuperseded) || strings.TrimSpace(given) != "One" || ran {
			t.Errorf("%s: %v, %q, ran: %v", name, err, given, ran)
		}
		r.holds("user: hm", "assistant: One [cut]")
	}
}

// A host that is no teller of what was heard says it with the next turn.
func TestHeardByTheNextTurn(t *testing.T) {
	r := newRig(t, rigConfig(), Parts{}, says("**One** two."), says("Three four five."), says("Six."))
	for _, turn := range []llm.Turn{{Text: "a"}, {Text: "b"}, {Text: "c", WasInterrupted: true, Interrupted: "Three four"}} {
		if _, err := r.reply(t.Context(), turn); err != nil {
			t.Error(err)
		}
	}
	r.holds("user: a", "assistant: One two.", "user: b", "assistant: Three four [cut]", "user: c")
}

// conversation.md line 23: words of the gateway are turns of their own.
func TestOwnWords(t *testing.T) {
	r := newRig(t, rigConfig(), Parts{}, says("Yes."))
	r.tell(llm.Heard{Text: "Welcome to Parley.", Heard: "Welcome to Parley.", Own: true})
	r.say("are you there")
	r.tell(llm.Heard{Text: "Are you still there?", Heard: "Are you", Own: true, Interrupted: true})
	r.tell(llm.Heard{Text: "Goodbye.", Own: true, Interrupted: true})
	r.holds("assistant: Welcome to Parley.", "user: are you there", "assistant: Yes.", "assistant: Are you [cut]")
}

// conversation.md line 7: a reply that was cut off by a noise goes on.
func TestReplyGoesOn(t *testing.T) {
	r := newRig(t, rigConfig(), Parts{}, says("One two three four."))
	_, _ = r.reply(t.Context(), llm.Turn{Text: "count"})
	r.tell(llm.Heard{Text: "One two three four.", Heard: "One two", Interrupted: true})
	r.tell(llm.Heard{Text: "One two three four.", Heard: "One two three four."})
	r.holds("user: count", "assistant: One two three four.")

	// Cut before its first word, and spoken after all.
	r.fake.script = []run{says("Five.")}
	_, _ = r.reply(t.Context(), llm.Turn{Text: "more"})
	r.tell(llm.Heard{Text: "Five.", Interrupted: true})
	r.tell(llm.Heard{Text: "Five.", Heard: "Five."})
	r.holds("user: count", "assistant: One two three four.", "user: more", "assistant: Five.")
}

// llm.Heard.Withdrawn: the words of the turn come again; they are one message.
func TestTurnsThatComeAgain(t *testing.T) {
	r := newRig(t, rigConfig(), Parts{}, says("Sure."), says("Sure, a table."), says("Yes."), says("Here."))
	_, _ = r.reply(t.Context(), llm.Turn{Text: "I would like"})
	r.tell(llm.Heard{Text: "Sure.", Interrupted: true, Withdrawn: true})
	_, _ = r.reply(t.Context(), llm.Turn{Text: "I would like a table"})
	r.tell(llm.Heard{Text: "Sure, a table.", Heard: "Sure,", Interrupted: true, Withdrawn: true})
	_, _ = r.reply(t.Context(), llm.Turn{Text: "I would like a table", WasInterrupted: true, Interrupted: "Sure,"})
	r.heard("Yes.")
	r.holds("user: I would like a table", "assistant: Sure, [cut]", "assistant: Yes.")
	_, _ = r.reply(t.Context(), llm.Turn{Text: "I would like a table"}) // said again, truly
	r.heard("Here.")
	r.holds("user: I would like a table", "assistant: Sure, [cut]", "assistant: Yes.", "user: I would like a table", "assistant: Here.")
}

// conversation.md line 21: the model's own markers.
func TestTentativeTurns(t *testing.T) {
	for name, c := range map[string]struct {
		model run
		words string
		pause time.Duration
		then  []string // the conversation, after the turn came again
	}{
		"complete":         {says("✓ It is noon."), "It is noon.", 0, []string{"user: what time", "assistant: It is noon.", "user: what time is it", "assistant: Okay."}},
		"no marker":        {says("It is noon."), "It is noon.", 0, []string{"user: what time", "assistant: It is noon.", "user: what time is it", "assistant: Okay."}},
		"within a thought": {says("○"), "", 5 * time.Second, []string{"user: what time is it", "assistant: Okay."}},
		"time to think":    {says("◐ and more"), "", 10 * time.Second, []string{"user: what time is it", "assistant: Okay."}},
		"it failed":        {fails(errors.New("boom")), "", 0, []string{"user: what time", "user: what time is it", "assistant: Okay."}},
	} {
		r := newRig(t, rigConfig(), Parts{}, c.model)
		words, err := r.reply(t.Context(), llm.Turn{Text: "what time", Tentative: true})
		if words != c.words || (err != nil) != (name == "it failed") {
			t.Errorf("%s: %q, %v", name, words, err)
		}
		req := r.fake.asked(0)
		if !strings.Contains(notes(req), "✓") || req.Messages[len(req.Messages)-1].Content != "what time" {
			t.Errorf("%s: told %s", name, shown(req.Messages))
		}
		pause := time.Duration(0)
		for _, chunk := range r.chunks {
			pause = max(pause, chunk.Incomplete)
		}
		if pause != c.pause {
			t.Errorf("%s: waits %v, want %v", name, pause, c.pause)
		}
		if words != "" {
			r.heard(words)
		}
		r.say("what time is it")
		if strings.Contains(notes(r.fake.asked(-1)), "✓") {
			t.Errorf("%s: markers in a turn that is over", name)
		}
		r.holds(c.then...)
	}
	// Markers that nobody has asked for are not spoken.
	r := newRig(t, rigConfig(), Parts{}, says("✓ Yes."), says("○"), says("No."))
	if words := r.say("hm"); words != "Yes." {
		t.Error(words)
	}
	if words := r.say("hm"); words != "No." {
		t.Error(words)
	}
}

// A reply that was begun early and taken back has written nothing.
func TestTentativeTurnTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig(), Parts{}, hangs)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.reply(ctx, llm.Turn{Text: "I want", Tentative: true}); err == nil {
			t.Error("answered")
		}
		r.holds()
		r.say("I want to pay")
		r.holds("user: I want to pay", "assistant: Okay.")
	})
}

func TestGreeting(t *testing.T) {
	r := newRig(t, rigConfig(), Parts{})
	if err := r.model.Greet(t.Context(), r.out); err != nil || r.fake.runs() != 0 {
		t.Errorf("a model without a greeting spoke: %v", err)
	}
	cfg := rigConfig()
	cfg.Greeting = "Greet the caller."
	r = newRig(t, cfg, Parts{}, says("Good day!"))
	if err := r.model.Greet(t.Context(), r.out); err != nil || r.words() != "Good day!" {
		t.Errorf("%q, %v", r.words(), err)
	}
	r.heard("Good day!")
	r.say("hello")
	r.holds("developer: "+greetingLead+"Greet the caller.", "assistant: Good day!", "user: hello", "assistant: Okay.")
}

func TestStyles(t *testing.T) {
	cfg := rigConfig()
	cfg.Styles = []string{"warm"}
	r := newRig(t, cfg, Parts{}, says("[warm] Hello. [cold] Bye."))
	if words := r.say("hm"); words != "Hello. [cold] Bye." || r.chunks[0].Style != "warm" {
		t.Errorf("%q, %+v", words, r.chunks)
	}
}

// BR-135: a call that ends ends everything, wherever it is.
func TestCloseEndsEverything(t *testing.T) {
	for name, script := range map[string]run{
		"the model hangs": hangs,
		"within its words": func(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
			_ = out(llm.Delta{Text: "One "})
			return hangs(ctx, r, out)
		},
		"a tool is at work": calls("One moment.", "slow"),
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := rigConfig()
			r := newRig(t, cfg, Parts{Tools: tools(t, waitTool("slow", time.Hour, traitsNone))}, script)
			done := make(chan error)
			m := r.model
			go func() { _, err := r.reply(context.Background(), llm.Turn{Text: "hm"}); done <- err }()
			time.Sleep(time.Second)
			began := time.Now()
			r.close()
			isErr(t, <-done, ErrClosed)
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: took %v", name, took)
			}
			runs := r.fake.runs()
			isErr(t, m.Reply(t.Context(), llm.Turn{Text: "late"}, r.out), ErrClosed)
			if r.fake.runs() != runs {
				t.Errorf("%s: a request after the end", name)
			}
			if mm, ok := m.(*model); ok && len(mm.pair.Context().CallsInProgress()) > 0 {
				t.Errorf("%s: calls without an answer", name)
			}
		})
	}
}

// conversation.md line 13: the conversation goes on while it is summarised.
func TestRollingSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := rigConfig()
		cfg.Summary = SummaryConfig{MaxMessages: 8, Keep: 2, Timeout: time.Minute}
		own := &fake{t: t, script: []run{after(5*time.Second, says("They want a\ntable."))}}
		r := newRig(t, cfg, Parts{Summarizer: own})
		for range 4 {
			r.say("hello")
		}
		r.say("still there") // meanwhile
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.holds("developer: "+chat.SummaryLead+"They want a table.", "user: hello", "assistant: Okay.", "user: still there", "assistant: Okay.")
		if s := system(own.asked(0)); !strings.Contains(s, "Summarise") || !strings.Contains(s, "follow no instruction") {
			t.Error(s)
		}
		if got := own.asked(0).Messages[1].Content; !strings.HasPrefix(got, "Caller: hello\nAgent: Okay.\n") {
			t.Error(got)
		}
		equal(t, "summaries", r.kinds("summary"), []string{"They want a table."})
	})
}

// llm.Versioned: what a reply is made of has changed by something else than the reply.
func TestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := tools(t, waitTool("a", time.Minute, traitsNone))
		cfg := rigConfig()
		cfg.ToolWait, cfg.ToolTimeout = time.Second, time.Hour
		r := newRig(t, cfg, Parts{Tools: registry}, says("One."), calls("", "a"), says("Two."))
		v, ok := r.model.(llm.Versioned)
		if !ok {
			t.Fatal("not Versioned")
		}
		same := func(what string, before uint64, want bool) uint64 {
			t.Helper()
			now := v.Version()
			if (now == before) != want {
				t.Errorf("%s: %d, then %d", what, before, now)
			}
			return now
		}
		version := v.Version()
		_, _ = r.reply(t.Context(), llm.Turn{Text: "hm"})
		version = same("a reply of its own", version, true)
		r.heard("One.")
		version = same("what was heard of it", version, true)
		_, _ = r.reply(t.Context(), llm.Turn{Text: "hm"})
		r.heard("Two.")
		version = same("a call of its own", version, true)
		time.Sleep(2 * time.Minute)
		version = same("a result that came late", version, false)
		r.tell(llm.Heard{Text: "Notice.", Heard: "Notice.", Own: true})
		version = same("words of the gateway", version, false)
		_, _, _ = registry.Sync("x", nil)
		version = same("nothing", version, true)
		if err := registry.Register(waitTool("b", 0, traitsNone)); err != nil {
			t.Error(err)
		}
		same("a tool that came", version, false)
	})
}

func TestConfig(t *testing.T) {
	ok := DefaultConfig()
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
	negative := -1.0
	for name, change := range map[string]func(*Config){
		"first token":      func(c *Config) { c.FirstToken = 0 },
		"silence":          func(c *Config) { c.Silence = -1 },
		"tool wait":        func(c *Config) { c.ToolWait = 0 },
		"rounds":           func(c *Config) { c.MaxRounds = 0 },
		"many rounds":      func(c *Config) { c.MaxRounds = 51 },
		"think":            func(c *Config) { c.ThinkAfter = -1 },
		"confidence":       func(c *Config) { c.LowConfidence = 2 },
		"temperature":      func(c *Config) { c.Temperature = &negative },
		"tokens":           func(c *Config) { c.MaxTokens = -1 },
		"summary keeps":    func(c *Config) { c.Summary.Keep = c.Summary.MaxMessages },
		"summary time":     func(c *Config) { c.Memory.SummaryTime = 0 },
		"retrieval number": func(c *Config) { c.Retrieval.Limit = -1 },
	} {
		c := DefaultConfig()
		if change(&c); c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(ok, nil, Parts{}); err == nil {
		t.Error("no model: accepted")
	}
	if _, err := New(ok, &fake{t: t}, Parts{Skills: []Skill{{Name: "a"}, {Name: "a"}}}); err == nil {
		t.Error("a skill twice: accepted")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := New(ok, &fake{t: t}, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open(gone, llm.Conversation{}); err == nil {
		t.Error("opened for a caller who is gone")
	}
}
