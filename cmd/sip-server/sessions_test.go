package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"parley/agent/session"
	"parley/agent/session/sqlite"
	"parley/config"
	"parley/test/phone"
)

// short is a script that greets and then waits.
const short = `start = "a"
else = "What?"
lost = "b"
[[state]]
name = "a"
say = "Hello stranger."
welcome_back = ["Welcome back. You had {topic}.", "Welcome back."]
expect = [{ say = "stop", key = "1", next = "b" }]
[[state]]
name = "b"
say = "Bye."
remember = { topic = "stopped" }
action = "hangup"
`

// keeping is a gateway whose script agent keeps conversations in a file.
func keeping(t *testing.T, dir string) *config.Config {
	t.Helper()
	if !embeddedSpeech {
		t.Skip("needs the embedded voice")
	}
	cfg := testConfig(t)
	cfg.LLM.Provider = "script"
	cfg.Script.File = filepath.Join(dir, "short.toml")
	if err := os.WriteFile(cfg.Script.File, []byte(short), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Sessions.Backend, cfg.Sessions.Path = "sqlite", filepath.Join(dir, "parley.db")
	return cfg
}

// kept are the conversations in a file, the latest first.
func kept(t *testing.T, file string) []session.Session {
	t.Helper()
	store, err := sqlite.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	list, err := listSessions(t.Context(), store, []string{"default"}, "")
	if err != nil {
		t.Fatal(err)
	}
	var out []session.Session
	for _, one := range list {
		got, err := store.Get(t.Context(), &session.GetRequest{AppName: one.AppName(), UserID: one.UserID(), SessionID: one.ID()})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, got.Session)
	}
	return out
}

// said is what was heard of the agent in a conversation, and what the caller said.
func said(one session.Session) string {
	var out []string
	for e := range one.Events().All() {
		if e.Content != nil {
			out = append(out, e.Author+" "+e.Content.Parts[0].Text)
		}
	}
	return strings.Join(out, "|")
}

// ring calls, waits until the greeting was heard, does more, and hangs up.
func ring(t *testing.T, ctx context.Context, r *running, file, number string, more func(*phone.Call)) {
	t.Helper()
	p, err := phone.New(phone.Config{Number: number, T1: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	before := len(kept(t, file))
	c, err := p.Dial(ctx, r.uri())
	if err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		all := kept(t, file)
		return len(all) == before+1 && said(all[0]) != ""
	})
	if more != nil {
		more(c)
	} else if err := c.Hangup(ctx); err != nil {
		t.Error(err)
	}
	until(t, func() bool { return r.calls.Active() == 0 })
}

// The default receptionist's kind of agent knows who calls again, also after a restart;
// who hides the number is a stranger every time.
func TestACallerWhoRingsTwiceIsKnown(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cfg := keeping(t, t.TempDir())
	file := cfg.Sessions.Path
	r := launch(t, cfg)
	ring(t, ctx, r, file, "+12025550143", func(c *phone.Call) {
		if _, err := c.Press('1', 100*time.Millisecond); err != nil {
			t.Error(err)
		}
		if _, err := c.WaitEnd(ctx); err != nil {
			t.Error(err)
		}
	})
	if got, want := said(kept(t, file)[0]), "default Hello stranger.|user 1|default Bye."; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
	ring(t, ctx, r, file, "+12025550143", nil)
	if got := said(kept(t, file)[0]); !strings.HasPrefix(got, "default Welcome back. You had stopped.") {
		t.Errorf("the second call: %q", got)
	}
	r.signals <- syscall.SIGTERM
	r.wait(t)
	r = launch(t, cfg)
	ring(t, ctx, r, file, "+12025550143", nil)
	if got := said(kept(t, file)[0]); !strings.HasPrefix(got, "default Welcome back.") {
		t.Errorf("the call after a restart: %q", got)
	}
	for range 2 {
		ring(t, ctx, r, file, "anonymous", nil)
		if got := kept(t, file)[0]; said(got) != "default Hello stranger." || !strings.HasPrefix(got.UserID(), "anonymous:") {
			t.Errorf("an anonymous call: %q of %s", said(got), got.UserID())
		}
	}
	all := kept(t, file)
	if all[0].UserID() == all[1].UserID() {
		t.Error("two anonymous callers are one")
	}

	// An operator looks, and removes a caller while the server runs.
	text := fmt.Sprintf("[sessions]\nbackend = \"sqlite\"\npath = %q\n[call]\nevents_dir = %q\n", file, t.TempDir())
	conf := write(t, text)
	code, out, errOut := execute(t, nil, "sessions", "list", "-c", conf, "--caller", "(202) 555-0143", "--limit", "2")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != 0 || len(lines) != 3 || !strings.Contains(lines[1], "+12025550143") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	id := all[4].ID()
	code, out, _ = execute(t, nil, "sessions", "show", "-c", conf, id[:8])
	for _, want := range []string{"caller   +12025550143", `state    user:calls = 3`, `default: "Hello stranger." {"played_ms":`, `user: "1" {"digits":true}`, `"ended":"agent hung up"`} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, missing %s in\n%s", code, want, out)
		}
	}
	if code, out, _ := execute(t, nil, "sessions", "show", "-c", conf, "--json", id); code != 0 || !strings.Contains(out, `"author":"user"`) {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, _, errOut := execute(t, nil, "sessions", "show", "-c", conf, "zzz"); code != 1 || !strings.Contains(errOut, `no conversation "zzz" is kept`) {
		t.Errorf("exit %d\n%s", code, errOut)
	}
	code, out, errOut = execute(t, nil, "forget", "-c", conf, "202-555-0143")
	if code != 0 || !strings.Contains(out, "removed of +12025550143: 3 conversations, ") || !strings.Contains(out, "note: events of calls are in ") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	if code, out, _ := execute(t, nil, "forget", "-c", conf, "+12025550143"); code != 0 || !strings.Contains(out, "nothing is kept of +12025550143") {
		t.Errorf("exit %d\n%s", code, out)
	}
	ring(t, ctx, r, file, "+12025550143", nil)
	if got := said(kept(t, file)[0]); !strings.HasPrefix(got, "default Hello stranger.") {
		t.Errorf("a caller who was forgotten: %q", got)
	}
	stats := r.parts.sessionStats()
	if stats.Written == 0 || stats.Lost != 0 {
		t.Errorf("%+v", stats)
	}
	r.signals <- syscall.SIGTERM
	r.wait(t)
}

// What is in the store survives the death of the server in the middle of a call.
func TestAServerThatIsKilledLosesNoAcknowledgedEvent(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	dir := t.TempDir()
	cfg := keeping(t, dir)
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(self, "serve")
	server.Env = append(os.Environ(), asServer+"=1", fmt.Sprintf("PARLEY_SIP_LISTEN=udp://127.0.0.1:%d", port), "PARLEY_RTP_ADDRESS=127.0.0.1",
		"PARLEY_RTP_PORTS=40200-40299", "PARLEY_CALL_MAX_CALLS=10", "PARLEY_API_LISTEN=127.0.0.1:0", "PARLEY_VAD_KIND=energy", "PARLEY_LLM_PROVIDER=script",
		"PARLEY_SCRIPT_FILE="+cfg.Script.File, "PARLEY_SESSIONS_BACKEND=sqlite", "PARLEY_SESSIONS_PATH="+cfg.Sessions.Path)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	defer func() {
		if !killed {
			_ = server.Process.Kill()
			_ = server.Wait()
		}
	}()
	p := newPhone(t)
	uri := fmt.Sprintf("sip:hello@127.0.0.1:%d", port)
	until(t, func() bool {
		try, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		m, err := p.Options(try, uri)
		return err == nil && m.Code == 200
	})
	if _, err := p.Dial(ctx, uri); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		all := kept(t, cfg.Sessions.Path)
		return len(all) == 1 && said(all[0]) == "default Hello stranger."
	})
	if err := server.Process.Kill(); err != nil { // SIGKILL
		t.Fatal(err)
	}
	_ = server.Wait()
	killed = true
	if all := kept(t, cfg.Sessions.Path); len(all) != 1 || said(all[0]) != "default Hello stranger." {
		t.Errorf("lost: %v", all)
	}
}

// Where conversations go, by what the configuration says and the disk allows.
func TestWhereSessionsAreKept(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, backend, path, provider string
		about, note, wrong            string
		file                          bool
	}{
		{"auto", "auto", "a.db", "agent", "sqlite " + filepath.Join(dir, "a.db"), "", "", true},
		{"auto without a place", "auto", "none/b.db", "agent", "memory", "cannot be made here; set sessions.path", "", false},
		{"sqlite without a place", "sqlite", "none/c.db", "agent", "", "", "sessions.path: ", false},
		{"memory", "memory", "d.db", "agent", "memory", "", "", false},
		{"off", "off", "e.db", "agent", "off", "", "", false},
		{"an echo says nothing worth keeping", "auto", "f.db", "echo", "off", "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !embeddedSpeech {
				t.Skip("needs the embedded voice")
			}
			cfg := testConfig(t)
			cfg.LLM.Provider, cfg.Agent.URL = c.provider, "http://127.0.0.1:9/"
			cfg.Sessions.Backend, cfg.Sessions.Path = c.backend, filepath.Join(dir, c.path)
			g, err := newGateway(cfg, zap.NewNop())
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = g.unbindSIP()
			g.close()
			about := ""
			for _, f := range g.parts.about {
				if f.Key == "sessions" {
					about = f.String
				}
			}
			if about != c.about || !strings.Contains(strings.Join(g.parts.notes, "\n"), c.note) {
				t.Errorf("sessions are in %q, notes %q", about, g.parts.notes)
			}
			if _, err := os.Stat(cfg.Sessions.Path); (err == nil) != c.file {
				t.Errorf("%s: %v", cfg.Sessions.Path, err)
			}
		})
	}
}

func TestForgetSaysWhyItCannot(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[sessions]\nbackend = \"off\"\n", `sessions.backend is "off"`},
		{"[sessions]\nbackend = \"memory\"\n", `in the server's own memory`},
		{"[sessions]\npath = \"/nonexistent/parley.db\"\n", `there is no /nonexistent/parley.db here`},
		{"[sessions]\nbackend = \"postgres\"\ndsn = \"postgres://127.0.0.1:1/x?connect_timeout=1\"\n", `sessions.dsn: `},
		{"[sessions]\nbackend = \"disk\"\n", `"disk", must be one of`},
	} {
		code, out, errOut := execute(t, nil, "forget", "-c", write(t, c.text), "+12025550143")
		if code != 1 || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit %d\n%s%s", c.text, code, out, errOut)
		}
	}
	if code, _, errOut := execute(t, nil, "forget", " "); code != 1 || !strings.Contains(errOut, "the caller is empty; name a number") {
		t.Errorf("exit %d %s", code, errOut)
	}
	if code, _, errOut := execute(t, nil, "forget", "--region", "XX", "030 1234"); code != 1 || !strings.Contains(errOut, `"XX" is not an ISO 3166`) {
		t.Errorf("exit %d %s", code, errOut)
	}
	if id := callerID("030 901820", "DE"); id != "+4930901820" {
		t.Errorf("%s", id)
	}
	if id := callerID("user-7", "DE"); id != "user-7" {
		t.Errorf("%s", id)
	}
}

// check sees folders and files that the server could not make.
func TestCheckSeesWhatCannotBeWritten(t *testing.T) {
	file := write(t, "x")
	text := fmt.Sprintf("[call]\nevents_dir = %[1]q\n[recording]\nwhen = \"always\"\ndir = %[1]q\n[sessions]\nbackend = \"sqlite\"\npath = %[2]q\n",
		filepath.Join(file, "below"), filepath.Join(file, "parley.db"))
	conf := write(t, text)
	code, out, _ := execute(t, echoEnvironment, "check", "-c", conf)
	for _, want := range []string{conf + ":2: call.events_dir: ", conf + ":5: recording.dir: ", conf + ":8: sessions.path: "} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit %d, missing %s in\n%s", code, want, out)
		}
	}
	dir := t.TempDir()
	text = fmt.Sprintf("[call]\nevents_dir = %q\n[recording]\nwhen = \"always\"\ndir = %q\n[sessions]\nbackend = \"sqlite\"\npath = %q\n",
		filepath.Join(dir, "a", "b"), filepath.Join(dir, "c"), filepath.Join(dir, "d.db"))
	code, out, _ = execute(t, echoEnvironment, "check", "-c", write(t, text))
	left, err := os.ReadDir(dir)
	if code != 0 || err != nil || len(left) != 0 {
		t.Errorf("exit %d\n%s\nleft %v %v", code, out, left, err)
	}
	code, out, _ = execute(t, echoEnvironment, "check", "--sessions", "-c", write(t, "[sessions]\nbackend = \"postgres\"\ndsn = \"postgres://127.0.0.1:1/x?connect_timeout=1\"\n"))
	if code != 1 || !strings.Contains(out, "sessions.dsn: ") {
		t.Errorf("exit %d\n%s", code, out)
	}
}
