package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"parley/agent/tool/plugin"
	"parley/config"
)

// saying is a plugin in sh that says a word.
func saying(t *testing.T, dir, name, word string) {
	t.Helper()
	folder := filepath.Join(dir, "plugins", name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	manifest := "name: " + name + "\ndescription: says a word\nversion: 1.2\nlanguage: exec\nentrypoint: run.sh\n"
	program := `#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":\"initialized\"}" ;;
    *'"execute"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":\"` + word + `\"}" ;;
  esac
done
`
	if err := os.WriteFile(filepath.Join(folder, "plugin.yaml"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "run.sh"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
}

// skill writes a SKILL.md.
func skill(t *testing.T, dir, name string) {
	t.Helper()
	folder := filepath.Join(dir, "skills", name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "SKILL.md"), []byte("---\nname: "+name+"\ntriggers: [refund]\n---\nBe kind.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Agents have what their sections allow, and on a reload what there is then; a tool that
// a call knows by name is the new one.
func TestToolboxesFollowTheDirectory(t *testing.T) {
	dir := t.TempDir()
	saying(t, dir, "crm_find", "one")
	saying(t, dir, "weather", "rain")
	skill(t, dir, "kind")
	cfg := config.Default()
	cfg.Plugins.Directory = dir
	cfg.MCP = map[string]*config.MCP{"gone": {Command: []string{"/nonexistent"}}}
	few := cfg.Assistant
	few.Tools.Allow = []string{"crm_*"}
	few.Tools.Skills = []string{"other"}
	w := newWorkshop(&cfg)
	defer w.close()
	all, crm := w.box(&cfg.Assistant), w.box(&few)
	err := w.open(t.Context(), zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)))
	if err == nil || !strings.Contains(err.Error(), "mcp.gone") {
		t.Errorf("%v", err)
	}
	if all.registry.Len() != 2 || crm.registry.Len() != 1 {
		t.Errorf("%d and %d tools", all.registry.Len(), crm.registry.Len())
	}
	if len(all.skills(w.skills)) != 1 || len(crm.skills(w.skills)) != 0 {
		t.Errorf("skills: %v", w.skills)
	}
	call := func(b *toolbox, name string) string {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		got, err := b.registry.Call(ctx, name, nil)
		if err != nil {
			return err.Error()
		}
		s, _ := got["result"].(string)
		return s
	}
	if got := call(crm, "crm_find"); got != "one" {
		t.Errorf("%q", got)
	}
	seen := 0
	w.watchSkills(func(s []plugin.Skill) { seen = len(s) })
	saying(t, dir, "crm_find", "two") // edited
	saying(t, dir, "crm_more", "more")
	if err := os.RemoveAll(filepath.Join(dir, "plugins", "weather")); err != nil {
		t.Fatal(err)
	}
	skill(t, dir, "other")
	if err := w.reload(t.Context()); err != nil {
		t.Error(err)
	}
	if got := call(crm, "crm_find"); got != "two" {
		t.Errorf("after the reload: %q", got)
	}
	if got := call(all, "weather"); !strings.Contains(got, "unknown tool") {
		t.Errorf("a plugin that went: %q", got)
	}
	if crm.registry.Len() != 2 || seen != 2 || len(crm.skills(w.skills)) != 1 {
		t.Errorf("%d tools, %d skills", crm.registry.Len(), seen)
	}
}

func TestPluginsCommand(t *testing.T) {
	dir := t.TempDir()
	saying(t, dir, "weather", "rain")
	skill(t, dir, "kind")
	conf := write(t, "[plugins]\ndirectory = \""+dir+"\"\n")
	code, out, errOut := execute(t, nil, "plugins", "-c", conf)
	for _, want := range []string{"plugin  weather  1.2      ready", "skill   kind     -        on refund"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, missing %q in\n%s%s", code, want, out, errOut)
		}
	}
	conf = write(t, "[plugins]\ndirectory = \""+dir+"\"\n[mcp.gone]\ncommand = [\"/nonexistent\"]\n")
	code, out, _ = execute(t, nil, "plugins", "-c", conf)
	if code != 1 || !strings.Contains(out, "not connected") || !strings.Contains(out, conf+":3: mcp.gone: ") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// check reads manifests and skills, and starts nothing.
func TestCheckReadsManifests(t *testing.T) {
	dir := t.TempDir()
	saying(t, dir, "fine", "x")
	bad := filepath.Join(dir, "plugins", "bad")
	if err := os.MkdirAll(bad, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bad, "plugin.yaml"), []byte("name: bad\nlanguage: cobol\nentrypoint: x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, _ := execute(t, echoEnvironment, "check", "-c", write(t, "[plugins]\ndirectory = \""+dir+"\"\n"))
	if code != 1 || !strings.Contains(out, `bad/plugin.yaml: language "cobol"`) {
		t.Errorf("exit %d\n%s", code, out)
	}
	code, out, _ = execute(t, echoEnvironment, "check", "-c", write(t, "[plugins]\ndirectory = \"/nonexistent\"\n"))
	if code != 1 || !strings.Contains(out, ":2: plugins.directory: ") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// A signal makes the gateway read again, also when there is nothing.
func TestReloadOnASignal(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(t)
	cfg.Plugins.Directory = dir
	r := launch(t, cfg)
	box := r.parts.toolbox(&cfg.Assistant)
	r.parts.startTools(t.Context(), zap.NewNop())
	hups := make(chan os.Signal)
	end := r.reloadOn(hups)
	defer end()
	saying(t, dir, "weather", "rain")
	hups <- syscall.SIGHUP
	until(t, func() bool { return box.registry.Len() == 1 })
	select {
	case hups <- syscall.SIGHUP:
	case <-time.After(patience):
		t.Error("the second signal is not taken")
	}
}
