package httpagent

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/agent/llm"
)

// The agents under examples/ work as they are.
func TestExamples(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "examples")
	for name, command := range map[string][]string{
		"python": {"python3", "agent-python/agent.py"},
		"node":   {"node", "agent-node/agent.mjs"},
		"go":     {"go", "agent-go"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skipf("%s is not installed", command[0])
			}
			if name == "go" {
				exe := filepath.Join(t.TempDir(), "agent")
				build := exec.Command("go", "build", "-o", exe, ".")
				build.Dir = filepath.Join(dir, command[1])
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				command = []string{exe}
			} else {
				command[1] = filepath.Join(dir, command[1])
			}
			url, barged := start(t, command)
			converse(t, url, barged)
		})
	}
}

// start runs an agent, and tells when it prints that a caller barged in.
func start(t *testing.T, command []string) (url string, barged <-chan struct{}) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PORT=0", "AGENT_KEY=k3y")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	seen, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if said, _ := lines.ReadString('\n'); strings.Contains(said, "barged in") {
			close(seen)
		}
		_, _ = io.Copy(io.Discard, lines)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait()
	})
	if err != nil || !strings.HasPrefix(line, "http://127.0.0.1:") {
		t.Fatalf("the agent printed %q, %v", line, err)
	}
	return strings.TrimSpace(line), seen
}

// converse is a call to one of the examples, and a second one.
func converse(t *testing.T, url string, barged <-chan struct{}) {
	p := provider(t, url, func(c *Config) { c.APIKey, c.Notify = "k3y", true })
	m := opened(t, p, caller)
	check := func(turn llm.Turn, want string) {
		t.Helper()
		if got := strings.ReplaceAll(must(t, m, turn), "|", ""); got != want {
			t.Errorf("%q: %q, want %q", turn.Text, got, want)
		}
	}
	check(llm.Turn{Text: "My name is Ann"}, "Nice to meet you, Ann.")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	err := m.Reply(ctx, llm.Turn{Text: "count to ten"}, func(llm.Chunk) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || time.Since(began) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	select {
	case <-barged:
	case <-time.After(5 * time.Second):
		t.Error("the agent did not see the barge-in")
	}
	check(llm.Turn{Text: "stop", WasInterrupted: true, Interrupted: "One"}, "I stopped at: One. You said: stop.")
	if got, err := m.OneShot(t.Context(), "Summarise.", "one two three"); got != "3 words." || err != nil {
		t.Errorf("oneshot: %q, %v", got, err)
	}
	m.Close(t.Context(), llm.End{Cause: "caller hung up", Duration: time.Minute})

	again := caller
	again.SessionID = "sess-2"
	m = opened(t, p, again)
	check(llm.Turn{Text: "hello"}, "Welcome back, Ann. You said: hello.")
	m.Close(t.Context(), llm.End{})

	_, err = say(t, open(t, url, nil), llm.Turn{Text: "hello"})
	if err == nil || !strings.Contains(err.Error(), "api_key") {
		t.Errorf("without a key: %v", err)
	}
}
