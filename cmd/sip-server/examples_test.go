package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/config"
)

// A call is answered by the ten lines of Flask and of Express, as they stand in examples.
func TestTenLinesAnswerACall(t *testing.T) {
	for _, c := range []struct {
		name, dir string
		there     []string // whether the library is
		start     func(port string) []string
	}{
		{"flask", "flask-agent", []string{"python3", "-c", "import flask"}, func(port string) []string {
			return []string{"python3", "-m", "flask", "--app", "agent", "run", "--port", port}
		}},
		{"express", "express-agent", []string{"node", "-e", `require("express")`}, func(string) []string { return []string{"node", "agent.js"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := append(os.Environ(), "NODE_PATH=/usr/share/nodejs:"+os.Getenv("NODE_PATH"), "PYTHONDONTWRITEBYTECODE=1")
			probe := exec.CommandContext(t.Context(), c.there[0], c.there[1:]...)
			probe.Env = env
			if err := probe.Run(); err != nil {
				t.Skipf("%s is not installed: deploy/install-deps.sh test", c.name)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			dir := t.TempDir()
			cfg := keeping(t, dir)
			free, err := freePort()
			if err != nil {
				t.Fatal(err)
			}
			port := fmt.Sprint(free)
			args := c.start(port)
			agent := exec.CommandContext(ctx, args[0], args[1:]...)
			agent.Dir, agent.Env = filepath.Join("..", "..", "examples", c.dir), append(env, "PORT="+port)
			agent.WaitDelay = time.Second
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = agent.Process.Kill()
				_ = agent.Wait() // killed: it has no other end
			}()
			until(t, func() bool {
				conn, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err == nil {
					_ = conn.Close()
				}
				return err == nil
			})
			file := filepath.Join(dir, "my.toml")
			text := fmt.Sprintf("[llm]\nprovider = \"agent\"\n[agent]\nurl = \"http://127.0.0.1:%s/agent\"\n[conversation]\ngreeting = \"Hello there.\"\n[turn]\ndigit_gap = \"400ms\"\n", port)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			own, err := config.Load(file, nil)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Assistant = own.Assistant
			r := launch(t, cfg)
			call := dial(t, ctx, r.uri())
			until(t, func() bool { return len(kept(t, cfg.Sessions.Path)) == 1 })
			for n, key := range "12" {
				if _, err := call.Press(byte(key), 100*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				want := fmt.Sprintf("You said %c. That was turn %d.", key, n+1)
				until(t, func() bool { return strings.Contains(said(kept(t, cfg.Sessions.Path)[0]), want) })
			}
			if err := call.Hangup(ctx); err != nil {
				t.Error(err)
			}
			r.signals <- syscall.SIGTERM
			r.wait(t)
		})
	}
}
