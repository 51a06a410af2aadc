//go:build unix

package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/agent/tool"
	"parley/agent/tool/plugin"
)

// telling is a plugin of version 2 in sh with the tool name. It emits its word for s1
// after every event, and at the beginning of a call, which ends when somebody writes to
// the pipe beside it.
func telling(name, word, schema string) string {
	return `read -r line; echo '{"id":1,"result":{"tools":[{"name":"` + name + `","parameters":` + schema + `}]}}'
while read -r line; do
	case "$line" in
	*'"event"'*) echo '{"id":"sdk-1","method":"emit","params":{"topic":"event ` + word + `","session_id":"s1"}}' ;;
	*'"execute"'*)
		id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
		echo '{"id":"sdk-2","method":"emit","params":{"topic":"call ` + word + `","session_id":"s1"}}'
		read -r go < gate
		echo "{\"id\":$id,\"result\":\"` + word + `\"}" ;;
	esac
done
`
}

const anything = `{"type":"object"}`

// version2 makes a plugin folder with a pipe.
func version2(t *testing.T, directory, name, script string) {
	t.Helper()
	write(t, directory, name, script)
	dir := filepath.Join(directory, "plugins", name)
	manifest := "name: " + name + "\ndescription: d\nlanguage: exec\nentrypoint: main.sh\n"
	if err := os.WriteFile(filepath.Join(dir, "plugin.yaml"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "gate"), 0o600); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

// pass lets one call of a plugin end; it returns when the plugin waits for that.
func pass(t *testing.T, directory, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(directory, "plugins", name, "gate"), []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
}

// TestReplacedInLiveCalls: a plugin that is replaced during a conversation finishes the
// calls that it has, the new one attends the conversation, and tools that it knew before
// are the new ones.
func TestReplacedInLiveCalls(t *testing.T) {
	directory := t.TempDir()
	version2(t, directory, "a", telling("a", "one", anything))
	version2(t, directory, "b", telling("b", "unwanted", anything))
	told := make(chan string, 100)
	s := opened(t, directory, "sh", plugin.Options{Host: plugin.Host{Emit: func(_ string, e plugin.Emission) { told <- e.Topic }}})
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Fatalf("%q, want %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("never: %q", want)
		}
	}
	end := s.Attend("s1", func(name string) bool { return name == "a" })
	s.Event(plugin.Event{Type: "state", Session: "s1"})
	expect("event one")
	known, _ := registry(t, s).Lookup("a")
	answer := make(chan string, 1)
	call := func(session string) {
		got, err := known.Invoke(tool.WithSession(t.Context(), session), nil)
		word, _ := got["result"].(string)
		if err != nil {
			word = err.Error()
		}
		answer <- word
	}
	go call("s1")
	expect("call one")

	version2(t, directory, "a", telling("a", "two", anything))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Event(plugin.Event{Type: "state", Session: "s1"})
	expect("event two")
	pass(t, directory, "a") // only the old one waits there
	if got := <-answer; got != "one" {
		t.Errorf("the call that was under way: %q", got)
	}
	go call("s1")
	expect("call two")
	pass(t, directory, "a")
	if got := <-answer; got != "two" {
		t.Errorf("a tool known from before: %q", got)
	}

	// It is over: nothing more for s1, neither after an event nor in calls of others.
	end()
	s.Event(plugin.Event{Type: "state", Session: "s1"})
	go call("s2")
	pass(t, directory, "a")
	if got := <-answer; got != "two" || len(told) != 0 {
		t.Errorf("%q, and %d emissions after the end", got, len(told))
	}

	// Other arguments were never checked by who knew the tool before.
	version2(t, directory, "a", telling("a", "three", `{"type":"object","required":["sum"]}`))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	call("s1")
	if got := <-answer; !strings.Contains(got, "works differently") {
		t.Errorf("a tool that changed: %q", got)
	}
}

// TestCloseEndsReplaced: the end of all does not wait for the calls of a plugin that was
// replaced.
func TestCloseEndsReplaced(t *testing.T) {
	directory := t.TempDir()
	version2(t, directory, "a", telling("a", "one", anything))
	told := make(chan string, 1)
	s := opened(t, directory, "sh", plugin.Options{Timeout: time.Hour, Host: plugin.Host{Emit: func(_ string, e plugin.Emission) { told <- e.Topic }}})
	one, _ := registry(t, s).Lookup("a")
	answer := make(chan error, 1)
	go func() {
		_, err := one.Invoke(tool.WithSession(t.Context(), "s1"), nil)
		answer <- err
	}()
	<-told
	version2(t, directory, "a", telling("a", "two", anything))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.Close()
	if err := <-answer; err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
