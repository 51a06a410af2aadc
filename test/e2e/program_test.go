package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/test/peers"
	"parley/test/phone"
)

// built is the server, built once for all tests of the package.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// program is the path of the server: the one that PARLEY_SERVER names, or built.
func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if named := os.Getenv("PARLEY_SERVER"); named != "" {
			built.path, built.err = filepath.Abs(named)
			return
		}
		if built.dir, built.err = os.MkdirTemp("", "parley-e2e-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "sip-server")
		if out, err := exec.Command("go", "build", "-o", built.path, "parley/cmd/sip-server").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("building the server: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// removePrograms removes what was built.
func removePrograms() {
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
}

// server is the built server in a process of its own.
type server struct {
	*peers.Process
	dir, host, api string
}

// settings are sections of a configuration file; by default the agent echoes.
type settings map[string]string

// serve starts the server on free ports of loopback. It does not wait until it is
// ready: it may not become so.
func serve(t *testing.T, set settings) *server {
	t.Helper()
	s := &server{dir: t.TempDir()}
	s.host = fmt.Sprintf("127.0.0.1:%d", peers.FreePort(t))
	s.api = fmt.Sprintf("127.0.0.1:%d", peers.FreePort(t))
	config := settings{
		"sip":  fmt.Sprintf("listen = [\"udp://%[1]s\", \"tcp://%[1]s\"]", s.host),
		"rtp":  "address = \"127.0.0.1\"\nports = \"\"",
		"call": fmt.Sprintf("events_dir = %q", filepath.Join(s.dir, "events")),
		"vad":  `kind = "energy"`,
		"llm":  `provider = "echo"`,
		"api":  fmt.Sprintf("listen = %q", s.api),
		"log":  `format = "json"`,
	}
	for section, text := range set {
		config[section] = text
	}
	var b strings.Builder
	for section, text := range config {
		fmt.Fprintf(&b, "[%s]\n%s\n", section, text)
	}
	file := filepath.Join(s.dir, "sip-server.toml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Process = peers.Start(t, s.dir, environment(), program(t), "serve", "-c", file)
	return s
}

// environment is the test's own without the settings of a real server.
func environment() (out []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PARLEY_") {
			out = append(out, e)
		}
	}
	return out
}

// ready waits until the server takes calls.
func (s *server) ready(t *testing.T) *server {
	t.Helper()
	eventually(t, patience, "the server is ready", func() bool {
		resp, err := http.Get("http://" + s.api + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == 200
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s
}

func (s *server) uri(name string) string { return "sip:" + name + "@" + s.host }

// journals are the files of the calls so far.
func (s *server) journals() []string {
	files, _ := filepath.Glob(filepath.Join(s.dir, "events", "*.jsonl"))
	return files
}

// exits waits for the end of the process and compares its status.
func (s *server) exits(t *testing.T, status int, within time.Duration) {
	t.Helper()
	got, err := s.Wait(within)
	if err != nil {
		t.Fatal(err)
	}
	if got != status {
		t.Errorf("the server ended with status %d, want %d:\n%s", got, status, s.Output())
	}
}

// TestAServerThatCannotStart says what is wrong and what to do, with a status that
// a supervisor sees, and at once.
func TestAServerThatCannotStart(t *testing.T) {
	busyTCP, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busyTCP.Close()
	busyUDP, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer busyUDP.Close()
	missing := filepath.Join(t.TempDir(), "nowhere")
	cases := []struct {
		name  string
		set   settings
		speak bool     // needs the embedded speech
		says  []string // parts of what it says
	}{
		{name: "an unknown key", set: settings{"turn": "speech_timout = \"1s\""},
			says: []string{"speech_timout", "speech_timeout", "sip-server.toml:"}},
		{name: "a wrong value", set: settings{"turn": "speech_timeout = \"soon\""},
			says: []string{"speech_timeout", "sip-server.toml:"}},
		{name: "a value out of bounds", set: settings{"turn": "speech_timeout = \"1h\""}, says: []string{"turn.speech_timeout", "1h", "10s"}},
		{name: "no TOML", set: settings{"turn": "speech_timeout = "}, says: []string{"sip-server.toml:"}},
		{name: "an unknown provider", set: settings{"llm": `provider = "oracle"`}, says: []string{"provider", "oracle"}},
		{name: "an agent without an address", set: settings{"llm": `provider = "agent"`}, says: []string{"url"}},
		{name: "a busy SIP port", set: settings{"sip": fmt.Sprintf("listen = [\"udp://%s\"]", busyUDP.LocalAddr())},
			says: []string{busyUDP.LocalAddr().String(), "in use"}},
		{name: "a busy API port", set: settings{"api": fmt.Sprintf("listen = %q", busyTCP.Addr())},
			says: []string{busyTCP.Addr().String(), "in use"}},
		{name: "an address of another machine", set: settings{"rtp": "address = \"192.0.2.1\""}, says: []string{"192.0.2.1"}},
		{name: "missing weights", set: settings{"vad": fmt.Sprintf("kind = \"silero\"\nweights = %q", missing)},
			says: []string{"vad.weights", missing}},
		{name: "a missing folder of the recogniser", speak: true,
			set:  settings{"llm": `provider = "script"`, "stt": fmt.Sprintf("model = %q", missing)},
			says: []string{"stt", missing}},
		{name: "a missing script", speak: true,
			set:  settings{"llm": `provider = "script"`, "script": fmt.Sprintf("file = %q", missing)},
			says: []string{"script.file", missing}},
		{name: "a folder for events that cannot be", set: settings{"call": `events_dir = "/dev/null/events"`},
			says: []string{"events_dir", "/dev/null"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.speak {
				needSpeech(t)
			}
			s := serve(t, c.set)
			s.exits(t, 1, patience)
			for _, part := range c.says {
				if !strings.Contains(s.Output(), part) {
					t.Errorf("it does not say %q:\n%s", part, s.Output())
				}
			}
			if n := strings.Count(s.Output(), "\n"); n > 12 || strings.Contains(s.Output(), "goroutine ") {
				t.Errorf("it says more than an operator wants to read:\n%s", s.Output())
			}
		})
	}
	t.Run("no such file", func(t *testing.T) {
		p := peers.Start(t, t.TempDir(), environment(), program(t), "serve", "-c", missing)
		if status, err := p.Wait(patience); err != nil || status != 1 || !strings.Contains(p.Output(), missing) {
			t.Errorf("status %d, %v:\n%s", status, err, p.Output())
		}
	})
}

// needSpeech skips a test on a build without the embedded recogniser and voice.
func needSpeech(t *testing.T) {
	t.Helper()
	out, err := exec.Command(program(t), "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "without embedded speech") {
		t.Skip("the server was built without cgo, so without embedded speech")
	}
}

// TestSignals: the first SIGTERM takes no new calls and waits for those that are up,
// the second ends them, and both leave in order.
func TestSignals(t *testing.T) {
	t.Run("calls may end by themselves", func(t *testing.T) {
		s := serve(t, settings{"server": `drain_timeout = "1m"`}).ready(t)
		c := dial(t, newPhone(t, phone.Config{T1: 100 * time.Millisecond}), s.uri("a"))
		s.term(t)
		s.refuses(t)
		before := c.Log().Quality(phone.Heard).Packets
		eventually(t, patience, "the call goes on while the server drains", func() bool { return c.Log().Quality(phone.Heard).Packets >= before+10 })
		hangUp(t, c)
		s.exits(t, 0, 5*time.Second)
		s.recorded(t, "caller hung up")
	})
	t.Run("the rest is ended after the drain timeout", func(t *testing.T) {
		s := serve(t, settings{"server": `drain_timeout = "700ms"`}).ready(t)
		c := dial(t, newPhone(t, phone.Config{T1: 100 * time.Millisecond}), s.uri("a"))
		began := time.Now()
		s.term(t)
		s.refuses(t)
		s.byes(t, c)
		if took := time.Since(began); took < 700*time.Millisecond || took > 3*time.Second {
			t.Errorf("the BYE came after %v", took)
		}
		s.exits(t, 0, 5*time.Second)
		s.recorded(t, "shutdown")
	})
	t.Run("the second signal ends calls now", func(t *testing.T) {
		s := serve(t, settings{"server": `drain_timeout = "10m"`}).ready(t)
		c := dial(t, newPhone(t, phone.Config{T1: 100 * time.Millisecond}), s.uri("a"))
		s.term(t)
		s.refuses(t)
		s.term(t)
		s.byes(t, c)
		s.exits(t, 0, 5*time.Second)
		s.recorded(t, "shutdown")
	})
}

func (s *server) term(t *testing.T) {
	t.Helper()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// refuses checks, once the server drains, that new calls get 503 with Retry-After.
func (s *server) refuses(t *testing.T) {
	t.Helper()
	s.WaitFor(`"msg":"draining"`, 3*time.Second)
	p := newPhone(t, phone.Config{T1: 100 * time.Millisecond})
	eventually(t, 3*time.Second, "OPTIONS get 503", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		m, err := p.Options(ctx, s.uri("ping"))
		return err == nil && m.Code == 503
	})
	var refused *phone.StatusError
	wait(t, "a new call is refused", 3*time.Second, func(ctx context.Context) error {
		if _, err := p.Dial(ctx, s.uri("new")); !errors.As(err, &refused) {
			return fmt.Errorf("a new call got %w", err)
		}
		return nil
	})
	if refused.Code != 503 || refused.Response.Get("Retry-After") == "" {
		t.Errorf("a new call got %v with Retry-After %q", refused, refused.Response.Get("Retry-After"))
	}
}

// byes waits for the server's BYE.
func (s *server) byes(t *testing.T, c *phone.Call) {
	t.Helper()
	wait(t, "the BYE", 5*time.Second, func(ctx context.Context) error {
		end, err := c.WaitEnd(ctx)
		if err == nil && (!end.ByPeer || end.Reason == "") {
			err = fmt.Errorf("ended by %+v, want a BYE with a reason", end)
		}
		return err
	})
}

// recorded checks the one record of a server that is gone.
func (s *server) recorded(t *testing.T, cause string) {
	t.Helper()
	files := s.journals()
	if len(files) != 1 {
		t.Fatalf("%d journals, want one: %v", len(files), files)
	}
	if _, record := readJournal(t, files[0]); record.Cause != cause {
		t.Errorf("the record says %q, want %q", record.Cause, cause)
	}
	for line := range strings.Lines(s.Output()) {
		if strings.Contains(line, `"level":"error"`) || strings.Contains(line, "panic") {
			t.Errorf("the server said: %s", line)
		}
	}
}

// TestAServerThatIsKilled leaves nothing that keeps the next one from starting.
func TestAServerThatIsKilled(t *testing.T) {
	s := serve(t, nil).ready(t)
	p := newPhone(t, phone.Config{T1: 50 * time.Millisecond})
	c := dial(t, p, s.uri("a"))
	eventually(t, patience, "sound goes both ways", func() bool { return c.Log().Quality(phone.Heard).Packets >= 10 })
	if err := s.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(patience); err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, pattern := range []string{filepath.Join(s.dir, "*"), filepath.Join(s.dir, "events", "*")} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			left[strings.TrimPrefix(file, s.dir+"/")] = true
		}
	}
	for file := range left {
		if file != "sip-server.toml" && file != "events" && !strings.HasSuffix(file, ".jsonl") {
			t.Errorf("%s is left behind", file)
		}
	}
	// The next one starts on the same ports and takes calls; the old call's BYE
	// finds no dialog, and that is all.
	next := peers.Start(t, s.dir, environment(), program(t), "serve", "-c", filepath.Join(s.dir, "sip-server.toml"))
	again := &server{Process: next, dir: s.dir, host: s.host, api: s.api}
	again.ready(t)
	hangUp(t, c) // 481 is what the phone takes for an end
	c = dial(t, newPhone(t, phone.Config{T1: 100 * time.Millisecond}), again.uri("a"))
	hangUp(t, c)
	again.term(t)
	again.exits(t, 0, 5*time.Second)
}
