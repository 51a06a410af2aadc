package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/agent/llm"
	"parley/agent/tool"
)

// payTool needs the caller's yes.
func payTool(paid *int) tool.Tool {
	return &tool.FuncTool{ToolName: "pay", ToolTraits: tool.Traits{Confirm: true}, Prompt: "Shall I pay ten euros?",
		Fn: func(context.Context, map[string]any) (map[string]any, error) { *paid++; return nil, nil }}
}

// callsWithToken calls a tool with the token that its last answer gave.
func callsWithToken(name string) run {
	return func(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
		token := ""
		for _, m := range r.Messages {
			var answer map[string]any
			if m.Name == name && json.Unmarshal([]byte(m.Content), &answer) == nil && answer[tool.TokenArgument] != nil {
				token = fmt.Sprint(answer[tool.TokenArgument])
			}
		}
		return calls("", fmt.Sprintf(`%s {"confirmation_token":%q}`, name, token))(ctx, r, out)
	}
}

// The caller's own yes, after the question was heard, and nothing else.
func TestConfirmations(t *testing.T) {
	heard := func(text string, cut bool) llm.Heard { return llm.Heard{Text: text, Heard: text, Interrupted: cut} }
	for name, c := range map[string]struct {
		heard []llm.Heard // after the question was generated
		say   llm.Turn
		paid  int
	}{
		"heard, and yes":          {[]llm.Heard{heard("Shall I pay?", false)}, llm.Turn{Text: "yes"}, 1},
		"heard, and no":           {[]llm.Heard{heard("Shall I pay?", false)}, llm.Turn{Text: "no"}, 0},
		"heard, and a condition":  {[]llm.Heard{heard("Shall I pay?", false)}, llm.Turn{Text: "yes but tomorrow"}, 0},
		"cut off, and yes":        {[]llm.Heard{heard("Shall I", true)}, llm.Turn{Text: "yes"}, 0},
		"never heard":             {nil, llm.Turn{Text: "yes"}, 0},
		"other words were heard":  {[]llm.Heard{heard("Shall I", true), {Text: "Are you there?", Heard: "Are you there?", Own: true}}, llm.Turn{Text: "yes"}, 0},
		"a key is no yes":         {[]llm.Heard{heard("Shall I pay?", false)}, llm.Turn{Text: "1", Digits: true}, 0},
		"a yes to be sure of":     {[]llm.Heard{heard("Shall I pay?", false)}, llm.Turn{Text: "yes", Confidence: 0.9}, 1},
		"perhaps a yes":           {[]llm.Heard{heard("Shall I pay?", false)}, llm.Turn{Text: "yes", Confidence: 0.2}, 0},
		"the model says it is so": {[]llm.Heard{heard("Shall I pay?", false)}, llm.Turn{Nothing: true}, 0},
	} {
		paid := 0
		r := newRig(t, rigConfig(), Parts{Tools: tools(t, payTool(&paid))}, calls("", "pay"), says("Shall I pay?"), callsWithToken("pay"), says("Done."))
		_, _ = r.reply(t.Context(), llm.Turn{Text: "pay"})
		for _, h := range c.heard {
			r.tell(h)
		}
		_, _ = r.reply(t.Context(), c.say)
		if paid != c.paid {
			t.Errorf("%s: paid %d times", name, paid)
		}
		for _, text := range r.kinds("tool_call") {
			if strings.Contains(text, tool.TokenArgument) {
				t.Errorf("%s: the proof is told: %s", name, text)
			}
		}
	}
}

// SpeakQuestions: the caller hears the tool's question and not the model's.
func TestQuestionsWordByWord(t *testing.T) {
	paid := 0
	cfg := rigConfig()
	cfg.SpeakQuestions = true
	r := newRig(t, cfg, Parts{Tools: tools(t, payTool(&paid))}, calls("Sure.", "pay"), callsWithToken("pay"), says("Paid."))
	if words := r.say("pay"); words != "Sure. Shall I pay ten euros?" || r.fake.runs() != 1 {
		t.Errorf("%q after %d runs", words, r.fake.runs())
	}
	if r.say("yes"); paid != 1 {
		t.Errorf("paid %d times", paid)
	}
	// A model that asks something else in its own words gets no yes for it.
	paid = 0
	r = newRig(t, cfg, Parts{Tools: tools(t, payTool(&paid)), Gate: tool.NewGate(tool.GateConfig{Verbatim: true})},
		calls("", "pay"), callsWithToken("pay"), says("Paid."))
	_, _ = r.reply(t.Context(), llm.Turn{Text: "pay"})
	r.heard("Would you like some music?")
	if r.say("yes"); paid != 0 {
		t.Error("paid for a yes to another question")
	}
}
