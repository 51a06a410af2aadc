package plugin_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// TestExampleInGo builds the example and calls it.
func TestExampleInGo(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("go is not installed")
	}
	const from = "../../../examples/tool-go/plugins/callback"
	directory := t.TempDir()
	folder := filepath.Join(directory, "plugins", "callback")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(from, "plugin.yaml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "plugin.yaml"), manifest, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "callback"), "./"+from).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := registry(t, opened(t, directory, "go", plugin.Options{}))
	one, _ := r.Lookup("call_me_back")
	args := map[string]any{"day": "tomorrow"}
	if _, err := r.Call(t.Context(), "call_me_back", args); err == nil || !strings.Contains(err.Error(), "confirmation") {
		t.Error(err)
	}
	if prompt, err := one.(tool.Prompter).ConfirmationPrompt(t.Context(), args); err != nil || prompt != "Shall we call you back tomorrow?" {
		t.Error(prompt, err)
	}
	if got, err := one.Invoke(t.Context(), args); err != nil || fmt.Sprint(got) != "map[noted:tomorrow waiting:1]" {
		t.Error(got, err)
	}
}

// TestExampleInTypeScript needs a node that strips types.
func TestExampleInTypeScript(t *testing.T) {
	const directory = "../../../examples/tool-typescript"
	if err := exec.CommandContext(t.Context(), "node", "--experimental-strip-types", "--version").Run(); err != nil {
		t.Skip("no node of 22.6 or later")
	}
	r := registry(t, opened(t, directory, "node", plugin.Options{}))
	for want, args := range map[string]map[string]any{
		"free for 2 at 20:00": {"people": 2, "time": "20:00"}, "full at 20:00": {"people": 3, "time": "20:00"}, "/people": {"people": 0, "time": "20:00"},
	} {
		got, err := r.Call(t.Context(), "table", args)
		if text := fmt.Sprint(got, " ", err); !strings.Contains(text, want) {
			t.Errorf("%v: %s, want %s", args, text, want)
		}
	}
}
