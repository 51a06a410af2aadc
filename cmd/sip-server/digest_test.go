package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"parley/config"
	"parley/test/phone"
)

// fromFile reads a configuration as an operator writes it.
func fromFile(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Load(write(t, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// posted is one request to an agent over HTTP.
type posted struct {
	Session  string `json:"session_id"`
	Resource string `json:"resource_id"`
	Type     string
	Text     string
	Summary  string
}

// diary is an agent over HTTP that keeps what it was asked, and numbers its replies and
// its digests.
type diary struct {
	*httptest.Server
	mu           sync.Mutex
	turns, shots []posted
}

func newDiary(t *testing.T) *diary {
	d := &diary{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got posted
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &got) != nil {
			t.Errorf("%s %v", body, err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		w.Header().Set("Content-Type", "text/plain")
		if got.Type == "oneshot" {
			d.shots = append(d.shots, got)
			fmt.Fprintf(w, "Digest %d.", len(d.shots))
			return
		}
		d.turns = append(d.turns, got)
		fmt.Fprintf(w, "Reply %d.", len(d.turns))
	}))
	t.Cleanup(d.Close)
	return d
}

// had are the turns and digests so far.
func (d *diary) had() (turns, shots []posted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(turns, d.turns...), append(shots, d.shots...)
}

// An agent over HTTP is asked for a digest when the file says so, and each turn from then
// on has it. The next call of the same number is the same caller in a new session, which
// begins without a digest: what to remember is the agent's own.
func TestAnAgentIsAskedForADigest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	agent := newDiary(t)
	cfg := keeping(t, t.TempDir())
	own := fromFile(t, fmt.Sprintf(`[llm]
provider = "agent"
[agent]
url = %q
summary_turns = 2
[conversation]
greeting = "Hello."
[sessions]
backend = "sqlite"
path = %q
`, agent.URL, filepath.Join(t.TempDir(), "parley.db")))
	cfg.Assistant, cfg.Sessions = own.Assistant, own.Sessions
	file := cfg.Sessions.Path
	r := launch(t, cfg)
	// turn keys one digit in, and hears the reply.
	turn := func(c *phone.Call, key byte) {
		t.Helper()
		before, _ := agent.had()
		for _, k := range []byte{key, '#'} {
			u, err := c.Press(k, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := u.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		until(t, func() bool { return strings.Contains(said(kept(t, file)[0]), fmt.Sprintf("Reply %d.", len(before)+1)) })
	}
	ring(t, ctx, r, file, "+12025550143", func(c *phone.Call) {
		turn(c, '1')
		turn(c, '2')
		until(t, func() bool { _, shots := agent.had(); return len(shots) == 1 })
		turn(c, '3')
		turn(c, '4')
		until(t, func() bool { _, shots := agent.had(); return len(shots) == 2 })
		turn(c, '5')
		if err := c.Hangup(ctx); err != nil {
			t.Error(err)
		}
	})
	ring(t, ctx, r, file, "+12025550143", func(c *phone.Call) {
		turn(c, '6')
		if err := c.Hangup(ctx); err != nil {
			t.Error(err)
		}
	})
	turns, shots := agent.had()
	if len(turns) != 6 || len(shots) != 2 {
		t.Fatalf("turns %+v, digests %+v", turns, shots)
	}
	for i, want := range []string{"", "", "Digest 1.", "Digest 1.", "Digest 2.", ""} {
		if got := turns[i]; got.Summary != want || got.Text != fmt.Sprint(i+1) || got.Resource != "+12025550143" {
			t.Errorf("turn %d: %+v, want the summary %q", i, got, want)
		}
	}
	// What there was to sum up, and what was summed up before.
	for i, want := range [][]string{{"Reply 1.", "Reply 2."}, {"Digest 1.", "Reply 3.", "Reply 4."}} {
		for _, part := range want {
			if !strings.Contains(shots[i].Text, part) {
				t.Errorf("digest %d was asked for without %q: %q", i, part, shots[i].Text)
			}
		}
	}
	if turns[4].Session != turns[0].Session || turns[5].Session == turns[0].Session {
		t.Errorf("sessions %q, %q, %q", turns[0].Session, turns[4].Session, turns[5].Session)
	}
	r.signals <- syscall.SIGTERM
	r.wait(t)
}
