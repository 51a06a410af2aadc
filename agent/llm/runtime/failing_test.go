package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/llm"
)

// BR-132: nothing, no word in time, too many requests.
func TestModelsThatGiveNothing(t *testing.T) {
	boom := errors.New("boom")
	half := func(then run) run {
		return func(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
			_ = out(llm.Delta{Text: "Half "})
			return then(ctx, r, out)
		}
	}
	thinks := func(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
		for range 5 {
			_ = out(llm.Delta{Thought: "hm "})
			time.Sleep(3 * time.Second)
		}
		return says("Yes.")(ctx, r, out)
	}
	writes := func(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
		for range 5 {
			_ = out(llm.Delta{}) // a piece of a tool call
			time.Sleep(3 * time.Second)
		}
		return calls("", "look_up")(ctx, r, out)
	}
	for name, c := range map[string]struct {
		script []run
		words  string
		err    error
		runs   int
		takes  time.Duration
	}{
		"words":                {[]run{says("Yes.")}, "Yes.", nil, 1, 0},
		"empty once":           {[]run{nothing, says("Yes.")}, "Yes.", nil, 2, 0},
		"empty twice":          {[]run{nothing, nothing}, "", llm.ErrEmpty, 2, 0},
		"white space is empty": {[]run{says(" \n"), says("Yes.")}, " \nYes.", nil, 2, 0},
		"hangs once":           {[]run{hangs, says("Yes.")}, "Yes.", nil, 2, 4 * time.Second},
		"hangs twice":          {[]run{hangs, hangs}, "", errNoWord, 2, 8 * time.Second},
		"hangs, then empty":    {[]run{hangs, nothing}, "", llm.ErrEmpty, 2, 4 * time.Second},
		"slow, in time":        {[]run{after(3*time.Second, says("Yes."))}, "Yes.", nil, 1, 3 * time.Second},
		"busy":                 {[]run{fails(llm.ErrBusy)}, "", llm.ErrBusy, 1, 0}, // the Completer has asked again
		"fails":                {[]run{fails(boom)}, "", boom, 1, 0},
		"fails half way":       {[]run{half(fails(boom))}, "Half ", boom, 1, 0},
		"hangs half way":       {[]run{half(hangs)}, "Half ", errSilent, 1, 8 * time.Second},
		"reasons for long":     {[]run{thinks}, "Yes.", nil, 1, 15 * time.Second},
		"a long tool call":     {[]run{writes, says("Yes.")}, "Yes.", nil, 2, 15 * time.Second},
		"no word after a tool": {[]run{calls("One moment.", "look_up"), nothing}, "One moment.", nil, 2, 0},
		"panics":               {[]run{func(context.Context, llm.Request, func(llm.Delta) error) (llm.Completion, error) { panic("x") }}, "", nil, 1, 0},
		"its service refused to": {[]run{nothing, func(context.Context, llm.Request, func(llm.Delta) error) (llm.Completion, error) {
			return llm.Completion{Finish: llm.FinishFiltered}, nil
		}}, "", llm.ErrEmpty, 2, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigConfig(), Parts{}, c.script...)
			began := time.Now()
			words, err := r.reply(t.Context(), llm.Turn{Text: "hm"})
			if words != c.words || c.err != nil && !errors.Is(err, c.err) || c.err == nil && err != nil && name != "panics" {
				t.Errorf("%s: %q, %v", name, words, err)
			}
			if name == "panics" && err == nil {
				t.Error("a panic is no error")
			}
			if took := time.Since(began); took != c.takes || r.fake.runs() != c.runs {
				t.Errorf("%s: %d runs in %v", name, r.fake.runs(), took)
			}
			// The call goes on, and what was not said is not in the conversation.
			r.tell(llm.Heard{Text: strings.TrimSpace(words), Heard: strings.TrimSpace(words)})
			if r.fake.script = nil; r.say("and now") != "Okay." {
				t.Errorf("%s: the next turn failed", name)
			}
		})
	}
}

// conversation.md line 18: a long wait for the model is to be filled, once.
func TestLongWaitForTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig(), Parts{}, after(3*time.Second, says("Yes.")), after(500*time.Millisecond, says("No.")))
		r.say("slow")
		if r.thinks() != 1 || !r.chunks[0].Thinking || r.chunks[0].Text != "" {
			t.Errorf("%+v", r.chunks)
		}
		r.say("fast")
		if r.thinks() != 0 {
			t.Errorf("%+v", r.chunks)
		}
	})
}

// What the voice needs is not the model's time.
func TestSlowVoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig(), Parts{}, says("One. Two. Three."))
		text := ""
		err := r.model.Reply(t.Context(), llm.Turn{Text: "hm"}, func(c llm.Chunk) error {
			time.Sleep(time.Minute)
			text += c.Text
			return nil
		})
		if err != nil || text != "One. Two. Three." {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// conversation.md line 17, seen from the model.
func TestMisheardTurns(t *testing.T) {
	r := newRig(t, rigConfig(), Parts{})
	for i, step := range []struct {
		turn llm.Turn
		want string
		not  string
	}{
		{llm.Turn{Text: "fish", Confidence: 0.2}, "say it again", "choices"},
		{llm.Turn{Nothing: true, Garbled: true}, "choices", "say it again"},
		{llm.Turn{Text: "fisch", Confidence: 0.1}, "person", "choices. "},
		{llm.Turn{Text: "a table for two", Confidence: 0.9}, "", "hard to understand"},
		{llm.Turn{Text: "at eight", Confidence: 0.3}, "say it again", "choices"},
		{llm.Turn{Text: "no confidence told"}, "", "hard to understand"},
		{llm.Turn{Text: "42", Digits: true, Confidence: 0.1}, "keypad", "hard to understand"},
		{llm.Turn{Nothing: true}, "says nothing", "hard to understand"},
	} {
		if _, err := r.reply(t.Context(), step.turn); err != nil {
			t.Error(err)
		}
		r.heard("Okay.")
		req := r.fake.asked(-1)
		all := req.Messages
		last := shown(all[max(0, len(all)-2):])
		if !strings.Contains(last, step.want) || strings.Contains(last, step.not) {
			t.Errorf("%d: told %s", i, last)
		}
		// The words stay exactly what was said.
		if text := step.turn.Text; text != "" && all[len(all)-1].Content != text {
			t.Errorf("%d: the caller said %q", i, all[len(all)-1].Content)
		}
	}
}
