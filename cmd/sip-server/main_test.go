package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"parley/config"
)

// execute runs a command line and returns its exit status and outputs.
func execute(t *testing.T, environ []string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(args, &stage{
		ctx: t.Context(), environ: environ, out: &o, errOut: &e,
		signals: func() (<-chan os.Signal, func()) {
			c := make(chan os.Signal, 1)
			c <- syscall.SIGTERM // as soon as it serves, it ends
			return c, func() {}
		},
	})
	return code, o.String(), e.String()
}

// echoEnvironment makes a server that needs nothing and disturbs nobody.
var echoEnvironment = []string{
	"PARLEY_LLM_PROVIDER=echo", "PARLEY_VAD_KIND=energy", "PARLEY_SIP_LISTEN=udp://127.0.0.1:0", "PARLEY_API_LISTEN=127.0.0.1:0",
	"PARLEY_RTP_ADDRESS=127.0.0.1", "PARLEY_LOG_FORMAT=json", "GOGC=100", "GOMEMLIMIT=off",
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args        []string
		code        int
		out, errOut string
	}{
		{[]string{"version"}, 0, "sip-server ", ""},
		{[]string{"--help"}, 0, "Commands:", ""},
		{[]string{}, 1, "", "expected one of"},
		{[]string{"serv"}, 1, "", "did you mean \"serve\""},
		{[]string{"check", "--nope"}, 1, "", "unknown flag --nope"},
		{[]string{"check"}, 0, "ok\n", ""},
		{[]string{"check", "-c", "/nonexistent.toml"}, 1, "/nonexistent.toml", ""},
		{[]string{"serve", "-c", "/nonexistent.toml"}, 1, "", "/nonexistent.toml"},
		{[]string{"serve"}, 0, "Dial sip:hello@127.0.0.1:", `"msg":"ready"`},
	} {
		code, out, errOut := execute(t, echoEnvironment, c.args...)
		if (code == 0) != (c.code == 0) || !strings.Contains(out, c.out) || !strings.Contains(errOut, c.errOut) {
			t.Errorf("%q: exit %d\n%s%s", c.args, code, out, errOut)
		}
	}
}

func TestCheckShowsEveryMistakeWithItsLine(t *testing.T) {
	file := write(t, "[call]\nmax_cals = 3\n[log]\nlevel = \"loud\"\n")
	code, out, _ := execute(t, echoEnvironment, "check", "-c", file)
	want := file + `:2: call.max_cals: no such key; did you mean "max_calls"?` + "\n" +
		file + `:4: log.level: "loud", must be one of debug, info, warn, error` + "\n"
	if code != 1 || out != want {
		t.Errorf("exit %d\n%s\nwant\n%s", code, out, want)
	}
}

func TestCheckTriesTheParts(t *testing.T) {
	code, out, _ := execute(t, echoEnvironment, "check", "-c", write(t, "[vad]\nweights = \"/nonexistent.onnx\"\n"))
	if code != 0 {
		t.Errorf("weights that are not used: exit %d %s", code, out)
	}
	environ := append([]string{}, echoEnvironment...)
	environ[1] = "PARLEY_VAD_KIND=silero"
	code, out, _ = execute(t, environ, "check", "-c", write(t, "[vad]\nweights = \"/nonexistent.onnx\"\n"))
	if code != 1 || !strings.Contains(out, "vad.weights: ") {
		t.Errorf("exit %d %s", code, out)
	}
}

func TestEveryNameInTheConfigurationHasAPart(t *testing.T) {
	base := config.Default()
	base.VAD.Kind = "energy"
	base.Agent.URL, base.Stream.URL = "http://127.0.0.1:9/", "ws://127.0.0.1:9/"
	base.OpenAI.Model, base.Ollama.Model = "m", "m"
	try := func(name string, change func(*config.Config)) {
		cfg := base
		change(&cfg)
		p, err := plug(&cfg, zap.NewNop())
		if err != nil {
			if embeddedSpeech || !strings.Contains(err.Error(), "no speech inside") {
				t.Errorf("%s: %v", name, err)
			}
			return
		}
		p.close()
	}
	for _, name := range config.Codecs {
		try(name, func(c *config.Config) { c.LLM.Provider, c.Call.Codecs = "echo", []string{name} })
	}
	for _, name := range config.Models {
		try(name, func(c *config.Config) { c.LLM.Provider = name })
	}
	for _, name := range config.Recognizers {
		try(name, func(c *config.Config) { c.STT.Provider = name })
	}
	for _, name := range config.Voices {
		try(name, func(c *config.Config) { c.TTS.Provider = name })
	}
}

func TestPlugNamesTheKeyToChange(t *testing.T) {
	for key, change := range map[string]func(*config.Config){
		"call.codecs":  func(c *config.Config) { c.Call.Codecs = []string{"GSM"} },
		"vad.weights":  func(c *config.Config) { c.VAD.Weights = "/nonexistent" },
		"llm.provider": func(c *config.Config) { c.LLM.Provider = "oracle" },
		"stt.provider": func(c *config.Config) { c.STT.Provider = "ear" },
		"tts.provider": func(c *config.Config) { c.TTS.Provider = "mouth" },
		"script.file":  func(c *config.Config) { c.Script.File = "/nonexistent" },
	} {
		cfg := config.Default()
		change(&cfg)
		if _, err := plug(&cfg, zap.NewNop()); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestCheckTriesPorts(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	low := port &^ 1

	code, out, _ := execute(t, append([]string{}, echoEnvironment...), "check", "--ports")
	if code != 0 && !strings.Contains(out, "rtp.ports") { // the default range may be in use on this machine
		t.Errorf("exit %d %s", code, out)
	}
	environ := append([]string{"PARLEY_RTP_PORTS=" + itoa(low) + "-" + itoa(low+1)}, echoEnvironment...)
	environ = append(environ, "PARLEY_SIP_LISTEN=udp://"+l.LocalAddr().String(), "PARLEY_API_LISTEN="+takenTCP(t), "PARLEY_CALL_MAX_CALLS=1")
	code, out, _ = execute(t, environ, "check", "--ports")
	if code != 1 || !strings.Contains(out, "rtp.ports: 1 of 2 ports") || !strings.Contains(out, "sip.listen: udp://"+l.LocalAddr().String()) || !strings.Contains(out, "api.listen: tcp://127") ||
		strings.Count(out, "another process has this port") != 2 {
		t.Errorf("exit %d %s", code, out)
	}
}

func TestCheckAgent(t *testing.T) {
	there := "http://" + takenTCP(t) + "/agent"
	gone := "http://" + listenTCP(t, true)
	if err := checkAgent(t.Context(), there); err != nil {
		t.Error(err)
	}
	if err := checkAgent(t.Context(), gone); err == nil || !strings.Contains(err.Error(), "url: ") {
		t.Errorf("%v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := checkAgent(over, "https://127.0.0.1:1"); err == nil {
		t.Error("no error")
	}
}

// The address of a bot that takes the sound is tried as that of an agent over HTTP is.
func TestCheckTriesTheAgentOfAStream(t *testing.T) {
	for url, want := range map[string]string{
		"ws://" + takenTCP(t) + "/":        "ok",
		"ws://" + listenTCP(t, true) + "/": "stream.url: 127.0.0.1:",
	} {
		conf := filepath.Join(t.TempDir(), "stream.toml")
		text := fmt.Sprintf("[llm]\nprovider = \"stream\"\n[stream]\nurl = %q\n[sessions]\nbackend = \"off\"\n", url)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, _ := execute(t, nil, "check", "--agent", "-c", conf)
		if (code == 0) != (want == "ok") || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d %s", url, code, out)
		}
	}
}

func TestTuneMemoryLeavesTheEnvironmentAlone(t *testing.T) {
	before := debug.SetGCPercent(100)
	limit := debug.SetMemoryLimit(-1)
	defer func() { debug.SetGCPercent(before); debug.SetMemoryLimit(limit) }()
	tuneMemory([]string{"GOGC=50", "GOMEMLIMIT=1GiB"}, zap.NewNop())
	if got := debug.SetGCPercent(100); got != 100 || debug.SetMemoryLimit(-1) != limit {
		t.Errorf("changed to %d, %d", got, debug.SetMemoryLimit(-1))
	}
	tuneMemory([]string{"GOGC="}, zap.NewNop())
	if got := debug.SetGCPercent(100); got != gcPercent {
		t.Errorf("GC percent %d, want %d", got, gcPercent)
	}
	if got := debug.SetMemoryLimit(-1); memory("/proc/meminfo", "") > 0 && got == limit {
		t.Error("no memory limit was set")
	}
}

func TestMemoryIsTheLesserOfMachineAndGroup(t *testing.T) {
	info := write(t, "MemFree: 1 kB\nMemTotal:        1024 kB\n")
	for group, want := range map[string]int64{"max\n": 1 << 20, "2048\n": 2048, "": 1 << 20} {
		if got := memory(info, write(t, group)); got != want {
			t.Errorf("group %q: %d, want %d", group, got, want)
		}
	}
	if got := memory("/nonexistent", "/nonexistent"); got != 0 {
		t.Errorf("%d", got)
	}
}

func TestLogFormats(t *testing.T) {
	for format, readable := range map[string]bool{"console": true, "json": false, "auto": false} { // a buffer is no terminal
		var b bytes.Buffer
		log, err := newLog(config.Log{Format: format, Level: "info"}, &b)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("unseen")
		log.Info("call ended", zap.String("call_id", "a\x1b[31m\nb"))
		line := b.String()
		if json.Valid(b.Bytes()) == readable || strings.Contains(line, "unseen") || strings.Contains(line, "\x1b") || strings.Count(line, "\n") != 1 {
			t.Errorf("%s: %q", format, line)
		}
	}
	if _, err := newLog(config.Log{Level: "loud"}, os.Stderr); err == nil {
		t.Error("a level that is none is taken")
	}
}

// write makes a file.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// listenTCP gives an address that is taken for the time of the test, or one that
// was free a moment ago.
func listenTCP(t *testing.T, free bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if free {
		_ = l.Close()
	} else {
		t.Cleanup(func() { _ = l.Close() })
	}
	return l.Addr().String()
}

func itoa(n uint16) string { return strconv.Itoa(int(n)) }
