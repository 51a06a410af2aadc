package stream

import (
	"bufio"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent"
)

// example is a bot of examples/ that runs.
type example struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	lines []string
}

// start runs a bot until the test ends; a test whose interpreter is not there is skipped.
func start(t *testing.T, folder string, command ...string) *example {
	t.Helper()
	path, err := exec.LookPath(command[0])
	if err != nil {
		t.Skipf("%s is not installed", command[0])
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, path, command[1:]...)
	c.Dir = filepath.Join("..", "..", "examples", folder)
	c.Env = append(os.Environ(), "PORT=0", "BOT_KEY=k3y", "PYTHONDONTWRITEBYTECODE=1")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	e := &example{t: t}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			e.mu.Lock()
			e.lines = append(e.lines, s.Text())
			e.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = c.Wait() // it was killed
	})
	e.url = e.line("ws://")
	return e
}

// eventually waits for something that is to come soon.
func eventually(t *testing.T, what string, met func() bool) {
	t.Helper()
	for limit := time.Now().Add(15 * time.Second); !met(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// line waits for a line of the bot's that begins so.
func (e *example) line(begin string) (line string) {
	e.t.Helper()
	eventually(e.t, "a line "+begin, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		i := slices.IndexFunc(e.lines, func(s string) bool { return strings.HasPrefix(s, begin) })
		if i >= 0 {
			line = e.lines[i]
		}
		return i >= 0
	})
	return line
}

// onLine is a call with a bot in real time.
type onLine struct {
	*rig
	speaking bool
	mu       sync.Mutex
	stopped  chan struct{}
}

// talks begins a call with a bot.
func talks(t *testing.T, e *example, dialect string) *onLine {
	t.Helper()
	r := newRig(t, dialect, nil, func(r *rig) {
		r.cfg.URL, r.cfg.APIKey, r.cfg.Transport = e.url, "k3y", nil
		r.mouth.coded = false
		if dialect == PCM {
			r.cfg.Rate, r.mouth.rate = 24000, 24000
		}
		r.call.Payloads = nil
	})
	c := &onLine{rig: r, stopped: make(chan struct{})}
	s, err := r.opener.Open(t.Context(), r.call)
	if err != nil {
		t.Fatal(err)
	}
	r.session, r.mouth.notice = s, s.Notice
	ctx, cancel := context.WithCancelCause(context.Background())
	r.hangUp = cancel
	go r.mouth.run(r.stop)
	go func() { r.ran <- s.Run(ctx) }()
	go c.sound()
	return c
}

// sound is the caller's line, every 20 ms: a voice, or silence.
func (c *onLine) sound() {
	defer close(c.stopped)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	pcm := make([]int16, c.mouth.rate/50)
	for {
		select {
		case <-c.stop:
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		speaking := c.speaking
		c.mu.Unlock()
		for i := range pcm {
			pcm[i] = 0
			if speaking {
				pcm[i] = int16(9000 * math.Sin(float64(i)/3))
			}
		}
		c.session.Hear(pcm)
	}
}

// speak turns the voice on or off, and tells as the call does.
func (c *onLine) speak(on bool) {
	c.mu.Lock()
	c.speaking = on
	c.mu.Unlock()
	notice := func(k agent.NoticeKind) { c.session.Notice(agent.Notice{Kind: k, At: time.Now()}) }
	if !on {
		time.Sleep(200 * time.Millisecond)
		notice(agent.VoiceOff)
		return
	}
	notice(agent.VoiceOn)
	time.Sleep(100 * time.Millisecond)
	notice(agent.VoiceConfirmed)
}

func (c *onLine) press(digit byte) {
	c.session.Notice(agent.Notice{Kind: agent.Digit, At: time.Now(), Digit: digit})
}

func (c *onLine) end() {
	close(c.stop)
	<-c.stopped
	_ = c.server.Close()
	_ = c.net.Close()
}

// said is how much the bot has said, in ms.
func (c *onLine) said() int { return int(c.mouth.Played().Milliseconds()) }

// The bots under examples/ work as they are: they greet, echo, are interrupted, answer
// keys, tell their marks and end the call.
func TestExamples(t *testing.T) {
	for _, x := range []struct {
		folder, dialect string
		command         []string
	}{
		{"stream-twilio-python", Twilio, []string{"python3", "bot.py"}},
		{"stream-twilio-node", Twilio, []string{"node", "bot.mjs"}},
		{"stream-pcm-python", PCM, []string{"python3", "bot.py"}},
		{"stream-pcm-node", PCM, []string{"node", "bot.mjs"}},
	} {
		t.Run(x.folder, func(t *testing.T) {
			t.Parallel()
			e := start(t, x.folder, x.command...)
			c := talks(t, e, x.dialect)
			defer c.end()
			e.line("mark greeting")
			if ms := c.said(); ms < 800 || ms > 840 {
				t.Errorf("the greeting took %d ms", ms)
			}
			c.speak(true)
			time.Sleep(1200 * time.Millisecond)
			c.speak(false)
			eventually(t, "the echo", func() bool { return c.said() > 1200 })
			c.speak(true)
			e.line("clear")
			e.line("mark echo 1")
			c.speak(false)
			cut := c.said()
			if cut > 2000 {
				t.Errorf("%d ms were said before the echo was cut off", cut)
			}
			e.line("mark echo 2")
			c.press('2')
			e.line("mark key 2")
			c.press('#')
			if err := c.waitRun(10 * time.Second); err != nil {
				t.Errorf("Run returned %v", err)
			}
			e.line("mark goodbye")
			if x.dialect == PCM {
				e.line("stop agent hung up")
				if v, _ := c.memory.Get("user:bot_calls"); v != 1.0 {
					t.Errorf("memory: %v", v)
				}
				if s := c.of(agent.EventAgentStopped); len(s) == 0 || s[0].Heard != "Hello." {
					t.Errorf("stopped %+v", s)
				}
			}
			if b := c.of(agent.EventBargeIn); len(b) != 1 {
				t.Errorf("barge-ins %+v", b)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if i := slices.IndexFunc(e.lines, func(s string) bool { return strings.HasPrefix(s, "error") }); i >= 0 {
				t.Error(e.lines[i])
			}
			if errs := c.of(agent.EventError); len(errs) > 0 {
				t.Errorf("complaints %+v", errs)
			}
		})
	}
}

// A bot with a key lets nobody in without it.
func TestExamplesAskForTheirKey(t *testing.T) {
	for folder, command := range map[string][]string{"stream-pcm-python": {"python3", "bot.py"}, "stream-pcm-node": {"node", "bot.mjs"}} {
		t.Run(folder, func(t *testing.T) {
			e := start(t, folder, command...)
			cfg := DefaultConfig()
			cfg.URL, cfg.APIKey = e.url, "wrong"
			o, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := o.Open(t.Context(), fakeCall()); err == nil || !strings.Contains(err.Error(), "401") {
				t.Errorf("let in: %v", err)
			}
		})
	}
}

// The two copies of each WebSocket are the same.
func TestExamplesShareTheirWebSocket(t *testing.T) {
	for _, name := range []string{"python/ws.py", "node/ws.mjs"} {
		one, err := os.ReadFile("../../examples/stream-pcm-" + name)
		if err != nil {
			t.Fatal(err)
		}
		two, err := os.ReadFile("../../examples/stream-twilio-" + name)
		if err != nil || string(one) != string(two) {
			t.Errorf("%s: they differ, %v", name, err)
		}
	}
}
