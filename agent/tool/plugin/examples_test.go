package plugin_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/agent/tool"
	"parley/agent/tool/plugin"
)

// TestExamples: the examples work as they are.
func TestExamples(t *testing.T) {
	py := registry(t, opened(t, "../../../examples/tool-python", "python3", plugin.Options{}))
	js := registry(t, opened(t, "../../../examples/tool-node", "node", plugin.Options{}))
	for _, c := range []struct {
		r    *tool.ToolRegistry
		tool string
		args map[string]any
		want string
	}{
		{py, "opening-hours", map[string]any{"day": "saturday"}, "map[result:open from 10 to 2] <nil>"},
		{py, "opening-hours", map[string]any{"day": "sunday"}, "map[result:closed all day] <nil>"},
		{py, "opening-hours", map[string]any{"day": "someday"}, "invalid arguments: /day"},
		{js, "order_status", map[string]any{"order": 1002}, "map[order:1002 status:being packed] <nil>"},
		{js, "order_status", map[string]any{"order": "x"}, "invalid arguments: /order"},
		{js, "cancel_order", map[string]any{"order": 1002}, "confirmation"},
	} {
		got, err := c.r.Call(t.Context(), c.tool, c.args)
		if text := fmt.Sprint(got, " ", err); !strings.Contains(text, c.want) {
			t.Errorf("%s(%v): %s, want %s", c.tool, c.args, text, c.want)
		}
	}
	cancel, _ := js.Lookup("cancel_order")
	if prompt, err := cancel.(tool.Prompter).ConfirmationPrompt(t.Context(), map[string]any{"order": 1002}); err != nil || prompt != "Shall I cancel order 1002?" {
		t.Error(prompt, err)
	}
	if _, err := cancel.Invoke(t.Context(), map[string]any{"order": 1001}); err == nil || !strings.Contains(err.Error(), "any more") {
		t.Error(err)
	}
}
