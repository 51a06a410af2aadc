package plugin_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"parley/agent/tool"
	"parley/agent/tool/plugin"
	"parley/agent/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened opens a directory of plugins whose programs are installed.
func opened(t *testing.T, directory, program string, opts plugin.Options) *plugin.Set {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(program + " is not installed")
	}
	s, err := plugin.Open(t.Context(), directory, opts)
	t.Cleanup(s.Close)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	for directory, program := range map[string]string{"python": "python3", "node": "node"} {
		t.Run(directory, func(t *testing.T) {
			tooltest.Run(t, func(t *testing.T) ([]tool.Tool, func()) {
				s := opened(t, "testdata/"+directory, program, plugin.Options{})
				return s.Tools(), s.Close
			})
		})
	}
}

func registry(t *testing.T, s *plugin.Set) *tool.ToolRegistry {
	t.Helper()
	r := tool.NewRegistry()
	if _, _, err := r.Sync("plugins", s.Tools()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestVersionOneWithNoise: stray, late and double lines are dropped and logged, and
// never become the answer of another call.
func TestVersionOneWithNoise(t *testing.T) {
	seen, logs := observer.New(zap.WarnLevel)
	s := opened(t, "testdata/one", "python3", plugin.Options{Log: zap.New(seen)})
	r := registry(t, s)
	for _, city := range []string{"Berlin", "Paris", "Rome"} {
		got, err := r.Call(t.Context(), "noise", map[string]any{"city": city})
		if err != nil || got["result"] != "It is sunny in "+city {
			t.Errorf("%s: %v %v", city, got, err)
		}
	}
	if logs.FilterMessage("line of a plugin dropped").Len() == 0 {
		t.Error("nothing was logged")
	}
	if one, _ := r.Lookup("noise"); !one.(tool.Traited).Traits().ThinkingSound {
		t.Error("thinking_sound is lost")
	}
}

func TestEnvironmentAndFolder(t *testing.T) {
	t.Setenv("PARLEY_LLM_API_KEY", "very secret")
	t.Setenv("DATABASE_URL", "secret too")
	t.Setenv("PLUGIN_WANTS", "this")
	s := opened(t, "testdata/one", "sh", plugin.Options{Plugins: map[string]plugin.Settings{"env": {Env: map[string]string{"EXTRA": "that"}}, "noise": {Disabled: true}}})
	got, err := registry(t, s).Call(t.Context(), "env", nil)
	if err != nil {
		t.Fatal(err)
	}
	env, _ := got["env"].(string)
	if strings.Contains(env, "secret") || !strings.Contains(env, "PLUGIN_WANTS=this") || !strings.Contains(env, "EXTRA=that") {
		t.Errorf("environment: %s", env)
	}
	if dir, _ := got["dir"].(string); !strings.HasSuffix(dir, "testdata/one/plugins/env") {
		t.Errorf("folder: %s", dir)
	}
}

// write makes a plugin in sh of a script.
func write(t *testing.T, directory, name, script string) {
	t.Helper()
	dir := filepath.Join(directory, "plugins", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	manifest := fmt.Sprintf("name: %s\ndescription: d\nversion: \"1\"\nlanguage: exec\nentrypoint: main.sh\nprotocol: 1\n", name)
	if err := os.WriteFile(filepath.Join(dir, "plugin.yaml"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.sh"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// good answers initialize, and every execute with word.
func good(word string) string {
	return `read -r line; echo '{"id":1,"result":"initialized"}'
while read -r line; do
	id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
	echo "{\"id\":$id,\"result\":\"` + word + `\"}"
done
`
}

// TestRefusedAtStart: a plugin that hangs or dies is refused with what it said; the
// others work.
func TestRefusedAtStart(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "good", good("fine"))
	write(t, directory, "hangs", "echo 'waiting for the database' >&2; sleep 1000 & wait")
	write(t, directory, "dies", "echo 'no module named requests' >&2; exit 7")
	write(t, directory, "errors", `read -r line; echo '{"id":1,"error":{"code":-32000,"message":"no licence"}}'; cat`)
	broken := filepath.Join(directory, "plugins", "broken")
	if err := os.MkdirAll(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "plugin.yaml"), []byte("name: [\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := plugin.Open(t.Context(), directory, plugin.Options{StartTimeout: 4 * time.Second})
	t.Cleanup(s.Close)
	if err == nil {
		t.Fatal("nothing was refused")
	}
	for _, want := range []string{
		"plugin hangs: no answer to initialize in 4s; it said: waiting for the database", "plugin dies: ended before it answered initialize; it said: no module named requests",
		"exit status 7", "plugin errors: no licence", "broken",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	got, err := registry(t, s).Call(t.Context(), "good", nil)
	if err != nil || got["result"] != "fine" {
		t.Error(got, err)
	}
	if st := s.Status(); len(st) != 1 || st[0].Name != "good" || st[0].State != plugin.Ready || st[0].Tools[0] != "good" {
		t.Errorf("%+v", st)
	}
}

// TestCrash: the call in flight fails with words that can be spoken, and the next works.
func TestCrash(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "once", `read -r line; echo '{"id":1,"result":"initialized"}'
read -r line
if [ ! -e crashed ]; then touch crashed; exit 1; fi
while true; do
	id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
	echo "{\"id\":$id,\"result\":\"back\"}"
	read -r line || exit 0
done
`)
	changed := make(chan struct{}, 10)
	s := opened(t, directory, "sh", plugin.Options{Changed: func() { changed <- struct{}{} }})
	<-changed
	r := registry(t, s)
	if _, err := r.Call(t.Context(), "once", nil); err == nil || !strings.Contains(err.Error(), "try again later") {
		t.Error(err)
	}
	// No waiting here: a call waits for the new process by itself.
	if got, err := r.Call(t.Context(), "once", nil); err != nil || got["result"] != "back" {
		t.Error(got, err)
	}
	<-changed
	if st := s.Status()[0]; st.Restarts != 1 || st.State != plugin.Ready {
		t.Errorf("%+v", st)
	}
}

func TestReload(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "a", good("one"))
	write(t, directory, "b", good("same"))
	s := opened(t, directory, "sh", plugin.Options{StartTimeout: 5 * time.Second})
	r := registry(t, s)
	kept, _ := r.Lookup("b")
	write(t, directory, "a", good("another"))
	write(t, directory, "c", good("new"))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if added, removed, err := r.Sync("plugins", s.Tools()); err != nil || fmt.Sprint(added, removed) != "[c] []" {
		t.Error(added, removed, err)
	}
	for name, want := range map[string]string{"a": "another", "b": "same", "c": "new"} {
		if got, err := r.Call(t.Context(), name, nil); err != nil || got["result"] != want {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	if _, err := kept.Invoke(t.Context(), nil); err != nil {
		t.Error("the process of b was ended:", err)
	}
	// One that went, and one that is broken now: the old one goes on.
	if err := os.RemoveAll(filepath.Join(directory, "plugins", "c")); err != nil {
		t.Fatal(err)
	}
	write(t, directory, "a", "exit 1")
	if err := s.Reload(t.Context()); err == nil {
		t.Error("a broken plugin is taken")
	}
	if added, removed, err := r.Sync("plugins", s.Tools()); err != nil || fmt.Sprint(added, removed) != "[] [c]" {
		t.Error(added, removed, err)
	}
	if got, err := r.Call(t.Context(), "a", nil); err != nil || got["result"] != "another" {
		t.Error(got, err)
	}
	s.Close()
	if err := s.Reload(t.Context()); err == nil {
		t.Error("reloaded after Close")
	}
}

// TestCloseEndsStubborn: a plugin that ignores everything is ended with all it started.
func TestCloseEndsStubborn(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "stubborn", `trap "" TERM; read -r line; echo '{"id":1,"result":"initialized"}'; sleep 1000 & echo $! > child; while true; do wait; done`)
	s := opened(t, directory, "sh", plugin.Options{})
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("took %v", took)
	}
	pid, err := os.ReadFile(filepath.Join(directory, "plugins", "stubborn", "child"))
	if err != nil {
		return // killed before it wrote it
	}
	for end := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
		text, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil || strings.Contains(string(text), ") Z") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("its child lives: %s", text)
		}
	}
}

// TestOpenGivesUp: the context bounds the start.
func TestOpenGivesUp(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "hangs", "sleep 1000 & wait")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := plugin.Open(ctx, directory, plugin.Options{})
	t.Cleanup(s.Close)
	if err == nil {
		t.Error("opened")
	}
}
