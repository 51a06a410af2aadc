package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/llm"
	"parley/agent/tool"
)

var traitsNone = tool.Traits{}

// conversation.md line 12: call and answer, several calls at a time, one run after the
// last.
func TestToolRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig(), Parts{Tools: tools(t, waitTool("a", 3*time.Second, traitsNone), waitTool("b", time.Second, traitsNone))},
			calls("One moment.", `a {"x":1}`, "b"), says(" It is done."))
		began := time.Now()
		words, err := r.reply(t.Context(), llm.Turn{Text: "do it"})
		if words != "One moment. It is done." || err != nil {
			t.Errorf("%q, %v", words, err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the calls took %v: not side by side", took)
		}
		if r.fake.runs() != 2 {
			t.Errorf("%d runs", r.fake.runs())
		}
		// The second run knows what was said and what came of the calls.
		if got := shown(r.fake.asked(1).Messages); got != "user: do it\nassistant: One moment. <a {\"x\":1}> <b {}>\na = {\"from\":\"a\"}\nb = {\"from\":\"b\"}" {
			t.Error(got)
		}
		r.tell(llm.Heard{Text: words, Heard: "One moment. It", Interrupted: true})
		r.holds("user: do it", `assistant: One moment. <a {"x":1}> <b {}>`, `a = {"from":"a"}`, `b = {"from":"b"}`, "assistant: It [cut]")
		equal(t, "calls", r.kinds("tool_call"), []string{`a {"x":1}`, "b {}"})
		equal(t, "results", r.kinds("tool_result"), []string{`b {"from":"b"}`, `a {"from":"a"}`})
		if r.wakes() != 0 {
			t.Error("woken for results that were waited for")
		}
	})
}

// What models call that is not there, or with what is no arguments, is answered too.
func TestBadCalls(t *testing.T) {
	r := newRig(t, rigConfig(), Parts{Tools: tools(t, &tool.FuncTool{ToolName: "a", ToolSchema: tool.Schema{"type": "object", "required": []any{"x"}}})},
		calls("", "nope", `a "text"`, `a [1]`, `a {"y":1}`, "a {bro", "a"), says("Sorry."))
	r.say("do it")
	got := shown(r.fake.asked(1).Messages)
	for _, want := range []string{"nope = {\"error\":\"unknown tool", "a = {\"error\":\"invalid arguments: want one JSON object\"}", "missing property"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "a = {\"error\""); n != 5 {
		t.Errorf("%d of 5 answers", n)
	}
	for _, m := range r.fake.asked(1).Messages {
		for _, c := range m.ToolCalls {
			if !json.Valid(c.Arguments) {
				t.Errorf("%s is no JSON", c.Arguments)
			}
		}
	}
}

func TestToolRoundsAreBounded(t *testing.T) {
	cfg := rigConfig()
	cfg.MaxRounds = 2
	r := newRig(t, cfg, Parts{Tools: tools(t, waitTool("a", 0, traitsNone))},
		calls("", "a"), calls("", "a"), says("Enough."))
	if words := r.say("do it"); words != "Enough." || r.fake.runs() != 3 {
		t.Errorf("%q after %d runs", words, r.fake.runs())
	}
	if last := r.fake.asked(2); len(last.Tools) != 0 || !strings.Contains(notes(last), "enough tools") {
		t.Errorf("the last run may call tools: %v", last.Tools)
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = "a"
	}
	r = newRig(t, rigConfig(), Parts{Tools: tools(t, waitTool("a", 0, traitsNone))}, calls("", many...), says("Done."))
	r.say("do it")
	if n := len(r.kinds("tool_call")); n != maxCalls {
		t.Errorf("%d calls of one answer", n)
	}
}

// conversation.md line 12: CANCELLED, when the caller speaks over what may be given up.
func TestInterruptibleTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig(), Parts{Tools: tools(t,
			waitTool("search", time.Minute, tool.Traits{Interruptible: true}), waitTool("pay", 10*time.Second, traitsNone))},
			calls("", "search", "pay"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { _, err := r.reply(ctx, llm.Turn{Text: "pay"}); done <- err }()
		time.Sleep(time.Second)
		r.hearer().CallerSpeaks()
		cancel()
		<-done
		synctest.Wait()
		r.holds("user: pay", "assistant:  <search {}> <pay {}>", "search = CANCELLED", "pay = IN_PROGRESS")
		time.Sleep(time.Minute)
		synctest.Wait()
		r.holds("user: pay", "assistant:  <search {}> <pay {}>", "search = CANCELLED", `pay = {"from":"pay"}`)
		if r.wakes() != 1 {
			t.Errorf("woken %d times", r.wakes())
		}
		equal(t, "results", r.kinds("tool_result"), []string{`search "CANCELLED"`, `pay {"from":"pay"}`})
	})
}

// A reply does not wait for tools for ever, nor at all for those that do not block.
func TestToolsThatAreNotWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		traits tool.Traits
		after  time.Duration // when the reply is there
		wakes  int
	}{
		"too slow":     {traitsNone, 15 * time.Second, 1},
		"non-blocking": {tool.Traits{Behavior: tool.ToolBehaviorNonBlocking}, 0, 1},
		"silent":       {tool.Traits{Behavior: tool.ToolBehaviorNonBlocking, Scheduling: tool.ToolResponseSchedulingSilent}, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigConfig(), Parts{Tools: tools(t, waitTool("slow", 20*time.Second, c.traits))}, calls("", "slow"), says("I am looking."))
			began := time.Now()
			if words := r.say("where"); words != "I am looking." || time.Since(began) != c.after {
				t.Errorf("%s: %q after %v", name, words, time.Since(began))
			}
			if !strings.Contains(notes(r.fake.asked(-1)), "Still at work: slow") {
				t.Errorf("%s: %s", name, notes(r.fake.asked(-1)))
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if r.wakes() != c.wakes {
				t.Errorf("%s: woken %d times", name, r.wakes())
			}
			r.holds("user: where", "assistant:  <slow {}>", `slow = {"from":"slow"}`, "assistant: I am looking.")
		})
	}
}

// conversation.md line 18: tools with a thinking sound have it after 500 ms.
func TestThinkingSound(t *testing.T) {
	for _, c := range []struct {
		sound bool
		takes time.Duration
		want  int
	}{{true, 700 * time.Millisecond, 1}, {true, 300 * time.Millisecond, 0}, {false, 700 * time.Millisecond, 0}, {false, 2 * time.Second, 1}, {true, 5 * time.Second, 1}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigConfig(), Parts{Tools: tools(t, waitTool("slow", c.takes, tool.Traits{ThinkingSound: c.sound}))}, calls("", "slow"))
			r.say("where")
			if r.thinks() != c.want {
				t.Errorf("%+v: %d", c, r.thinks())
			}
		})
	}
}

// A turn that may not be over does nothing that cannot be taken back.
func TestToolsOfATentativeTurn(t *testing.T) {
	for _, c := range []struct {
		goesOn time.Duration // when the caller goes on; 0: not
		called bool
	}{{300 * time.Millisecond, false}, {0, true}} {
		synctest.Test(t, func(t *testing.T) {
			called := false
			pay := &tool.FuncTool{ToolName: "pay", Fn: func(context.Context, map[string]any) (map[string]any, error) { called = true; return nil, nil }}
			r := newRig(t, rigConfig(), Parts{Tools: tools(t, pay)}, calls("", "pay"), says("✓ Paid."))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.goesOn > 0 {
				time.AfterFunc(c.goesOn, cancel)
			}
			_, _ = r.reply(ctx, llm.Turn{Text: "pay", Tentative: true})
			if called != c.called {
				t.Errorf("%+v: called: %v", c, called)
			}
			if c.called {
				r.holds("user: pay", "assistant:  <pay {}>", "pay = COMPLETED")
			} else {
				r.holds()
			}
		})
	}
}

// conversation.md line 14.
func TestToolsThatComeAndGo(t *testing.T) {
	registry := tools(t, waitTool("a", 0, traitsNone))
	r := newRig(t, rigConfig(), Parts{Tools: registry})
	r.say("one")
	if _, _, err := registry.Sync("p", []tool.Tool{waitTool("c", 0, traitsNone), waitTool("b", 0, traitsNone)}); err != nil {
		t.Fatal(err)
	}
	r.say("two")
	r.say("three")
	_, _, _ = registry.Sync("p", nil)
	r.say("four")
	r.holds("user: one", "assistant: Okay.", "user: two", "developer: You can call these tools now: b, c.", "assistant: Okay.",
		"user: three", "assistant: Okay.", "user: four", "developer: These tools are gone, do not call them: b, c.", "assistant: Okay.")
	var names []string
	for _, d := range r.fake.asked(1).Tools {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, " "); !strings.Contains(got, "a b c") {
		t.Errorf("told %s", got)
	}
}

// The tools on the call itself, and what was refused.
func TestCallTools(t *testing.T) {
	policy := &tool.CallPolicy{Destinations: []tool.Destination{{Name: "sales", To: "sip:hidden@example.com"}}}
	r := newRig(t, rigConfig(), Parts{Calls: policy},
		calls("", `transfer_call {"destination":"sales"}`), says("You are being connected."),
		calls("Goodbye!", "hang_up"),
		calls("", "hang_up"), says("Goodbye!"))
	r.line.err = errors.New("486 busy")
	r.say("sales please")
	if got := r.line.all(); got != "transfer sip:hidden@example.com" {
		t.Error(got)
	}
	req := shown(r.fake.asked(1).Messages)
	if !strings.Contains(req, "486 busy") || strings.Contains(req, "hidden") || strings.Contains(fmt.Sprint(r.fake.asked(0).Tools), "hidden") {
		t.Error(req)
	}
	// Who has said goodbye and hangs up does not say it again.
	if words := r.say("bye"); words != "Goodbye!" || r.fake.runs() != 3 {
		t.Errorf("%q after %d runs", words, r.fake.runs())
	}
	if words := r.say("bye"); words != "Goodbye!" || r.fake.runs() != 5 {
		t.Errorf("%q after %d runs", words, r.fake.runs())
	}
	refuser, ok := r.model.(llm.Refuser)
	if !ok {
		t.Fatal("no Refuser")
	}
	refuser.Refused("the transfer to\nx is not allowed here.")
	r.say("and now")
	if n := notes(r.fake.asked(-1)); !strings.Contains(n, "This was not done: the transfer to x is not allowed here.") {
		t.Error(n)
	}
	r.say("and now")
	if n := notes(r.fake.asked(-1)); strings.Contains(n, "not done") {
		t.Error("told twice")
	}
	// Without a policy there are none.
	r = newRig(t, rigConfig(), Parts{})
	r.say("bye")
	for _, d := range r.fake.asked(0).Tools {
		if d.Name == "hang_up" || d.Name == "transfer_call" {
			t.Errorf("%s is offered", d.Name)
		}
	}
}

// FuzzArguments: whatever a model writes as arguments becomes JSON, and is answered.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a":1}`, "null", "[", `"x"`, "\xff", strings.Repeat("[", 100), `{"confirmation_token":"x","a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		whole := wholeArguments(text)
		if !json.Valid(whole) {
			t.Errorf("%q became %q", text, whole)
		}
		if json.Valid(text) && len(text) <= maxArguments && string(whole) != string(text) {
			t.Errorf("%q was changed to %q", text, whole)
		}
		if shown := shownArguments(whole); !json.Valid([]byte(shown)) {
			t.Errorf("%q is shown as %q", text, shown)
		}
	})
}

// What is said after a tool call is no part of the word before it.
func TestWordsAcrossRoundsArePartedBySpace(t *testing.T) {
	r := newRig(t, rigConfig(), Parts{Tools: tools(t, waitTool("a", 0, traitsNone))}, calls("One moment.", "a"), says("Done."))
	if words := r.say("do it"); words != "One moment. Done." {
		t.Errorf("%q", words)
	}
	r.holds("user: do it", "assistant: One moment. <a {}>", `a = {"from":"a"}`, "assistant: Done.")
}
