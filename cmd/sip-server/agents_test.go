package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"parley/call"
	"parley/config"
	"parley/identity"
	"parley/media/wav"
	"parley/test/phone"
)

// Calls come to the agents that the rules name; one that no rule takes is refused.
func TestRoutesLeadToAgents(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cfg := testConfig(t)
	sales := cfg.Assistant
	cfg.Agents = map[string]*config.Assistant{"sales": &sales}
	cfg.Trunk = []config.Trunk{{Sources: []string{"127.0.0.1"}, SRTP: "off"}}
	cfg.Trunk[0].Name = "local"
	cfg.Route = []call.Route{{Name: "hotline", Trunk: "local", Called: "202-555-0100", Agent: "sales"}, {Name: "hello", Called: "hello"}}
	r := launch(t, cfg)
	host := r.sip.Addrs()[0].Addr.String()
	for user, want := range map[string]string{"+12025550100": "hotline sales", "hello": "hello default"} {
		c := dial(t, ctx, "sip:"+user+"@"+host)
		all := r.calls.Calls()
		if len(all) != 1 || all[0].Route+" "+all[0].Agent != want || all[0].Trunk != "local" {
			t.Errorf("%s: %+v, want %s", user, all, want)
		}
		if err := c.Hangup(ctx); err != nil {
			t.Error(err)
		}
		until(t, func() bool { return r.calls.Active() == 0 })
	}
	refused(t, ctx, "sip:nobody@"+host, 404)
	r.signals <- syscall.SIGTERM
	r.wait(t)
}

// Agents whose settings are alike share recogniser and voice, and an agent that no
// call can come to is not made.
func TestAgentsThatAreNeeded(t *testing.T) {
	cfg := config.Default()
	cfg.VAD.Kind = "energy"
	cfg.LLM.Provider, cfg.Script.File = "script", "/nonexistent"
	echoes := cfg.Assistant
	echoes.LLM.Provider = "echo"
	cfg.Agents = map[string]*config.Assistant{"a": &echoes, "b": &echoes}
	cfg.Route = []call.Route{{Name: "a", Called: "a", Agent: "a"}}
	p, err := plug(&cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err) // the default agent has no script
	}
	defer p.close()
	if p.agent("a") == nil || p.agent("b") == nil || p.agent("") != nil || p.agent("default") != nil || p.agent("c") != nil {
		t.Errorf("%v", p.agents)
	}
	if _, ok := p.route(call.Request{Called: "b"}); ok {
		t.Error("a call that no rule takes was taken")
	}
	if got, ok := p.route(call.Request{Called: "a"}); !ok || got.Agent != "a" || got.Route != "a" || got.Opener == nil {
		t.Errorf("%+v", got)
	}
	cfg.Route = append(cfg.Route, call.Route{Name: "rest"})
	if _, err := plug(&cfg, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "script.file: ") {
		t.Errorf("%v", err)
	}

	if !embeddedSpeech {
		return
	}
	cfg.Route, cfg.Script.File = nil, ""
	same, other := cfg.Assistant, cfg.Assistant
	other.STT.Interims = !other.STT.Interims
	cfg.Agents = map[string]*config.Assistant{"same": &same, "other": &other}
	if p, err = plug(&cfg, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if len(p.recognizers) != 2 || len(p.voices) != 1 {
		t.Errorf("%d recognisers, %d voices", len(p.recognizers), len(p.voices))
	}
}

// check names the mistakes of a named agent and of its script with their lines.
func TestCheckLooksAtAgentsAndWords(t *testing.T) {
	if !embeddedSpeech {
		t.Skip("no recogniser in this build")
	}
	script := write(t, `start = "a"
else = "What?"
lost = "a"
[[state]]
name = "a"
say = "Say it."
expect = [{ say = "flurble", next = "a" }]
`)
	file := write(t, "[agents.odd.llm]\nprovider = \"script\"\n[agents.odd.script]\nfile = \""+script+"\"\n[agents.none.llm]\nprovider = \"script\"\n[agents.none.script]\nfile = \"/nonexistent\"\n[tls]\nca_file = \"/nonexistent\"\n")
	code, out, _ := execute(t, echoEnvironment[:2], "check", "-c", file) // "echo" is the top level's
	for _, want := range []string{file + ":10: tls.ca_file: open /nonexistent", file + ":8: agents.none.script.file: "} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit %d, missing %s in\n%s", code, want, out)
		}
	}
	code, out, _ = execute(t, echoEnvironment[:2], "check", "-c", write(t, "[agents.odd.llm]\nprovider = \"script\"\n[agents.odd.script]\nfile = \""+script+"\"\n"))
	if want := script + `:7: state.a.expect.0.say: the recogniser does not know "flurble"`; code != 1 || !strings.Contains(out, want) {
		t.Errorf("exit %d, missing %s in\n%s", code, want, out)
	}
	if code, out, errOut := execute(t, echoEnvironment, "serve", "-c", file); code != 1 || !strings.Contains(errOut, "tls.ca_file") {
		t.Errorf("serve: exit %d\n%s%s", code, out, errOut)
	}
}

// The file of a recording holds the announcement, on the agent's side.
func TestRecordingsAndAnnouncements(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pcm := make([]int16, 4000) // half a second, loud
	for i := range pcm {
		pcm[i] = int16(8000 * (i / 8 % 2 * 2))
	}
	prompt := filepath.Join(t.TempDir(), "prompt.wav")
	w, err := wav.Create(prompt, 8000, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(pcm), w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"wav", "opus"} {
		if format == "opus" && !embeddedSpeech { // no encoder for files without cgo
			continue
		}
		cfg := testConfig(t)
		cfg.Recording.When, cfg.Recording.Dir, cfg.Recording.Format, cfg.Recording.AnnounceFile = "always", t.TempDir(), format, prompt
		r := launch(t, cfg)
		c := dial(t, ctx, r.uri())
		until(t, func() bool {
			for _, m := range c.Log().Marks(phone.Heard) {
				if m.Level > -40 {
					return true
				}
			}
			return false
		})
		if err := c.Hangup(ctx); err != nil {
			t.Error(err)
		}
		r.signals <- syscall.SIGTERM
		r.wait(t)
		files, _ := filepath.Glob(filepath.Join(cfg.Recording.Dir, "*", "*."+format))
		if len(files) != 1 {
			t.Fatalf("%s: %q", format, files)
		}
		info, err := os.Stat(files[0])
		if err != nil || info.Size() < 100 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", format, info, err)
		}
	}
	if _, err := soundFile("mp3", "x", 8000); err == nil {
		t.Error("a format that is none is taken")
	}
}

func TestAnnouncements(t *testing.T) {
	cfg := config.Default()
	p := &plugs{cfg: &cfg, voices: nil}
	if a, err := p.announcement(); err != nil || len(a.PCM) > 0 {
		t.Errorf("%d samples, %v", len(a.PCM), err)
	}
	cfg.Recording.AnnounceFile = "/nonexistent"
	if _, err := p.announcement(); err == nil || !strings.HasPrefix(err.Error(), "recording.announce_file: ") {
		t.Errorf("%v", err)
	}
	stereo := filepath.Join(t.TempDir(), "s.wav")
	w, err := wav.Create(stereo, 8000, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.WriteStereo(make([]int16, 80), make([]int16, 80)), w.Close()); err != nil {
		t.Fatal(err)
	}
	cfg.Recording.AnnounceFile = stereo
	if _, err := p.announcement(); err == nil || !strings.Contains(err.Error(), "has 2 channels") {
		t.Errorf("%v", err)
	}
	cfg.Recording.AnnounceFile, cfg.Recording.Announce, cfg.TTS.Provider = "", "This call is recorded.", "none"
	if _, err := p.announcement(); err == nil || !strings.Contains(err.Error(), "tts.provider") {
		t.Errorf("%v", err)
	}
	if !embeddedSpeech {
		return
	}
	cfg.VAD.Kind, cfg.TTS.Provider, cfg.LLM.Provider = "energy", "flite", "echo"
	if p, err = plug(&cfg, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if a, err := p.announcement(); err != nil || len(a.PCM) < a.Rate/2 {
		t.Errorf("%d samples, %v", len(a.PCM), err)
	}
	cfg.Recording.Announce = "…"
	if _, err := p.announcement(); err == nil || !strings.Contains(err.Error(), "nothing that can be said") {
		t.Errorf("%v", err)
	}
}

// A caller whose token counts is known by it, one whose token does not is refused.
func TestTokens(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const secret = "0123456789abcdef0123456789abcdef"
	cfg := testConfig(t)
	cfg.Token.Secret, cfg.Token.Algorithms, cfg.Token.Issuer, cfg.Token.Audience = config.NewSecret(secret), []string{"HS256"}, "i", "parley"
	cfg.Sign.Secret, cfg.Sign.Algorithm, cfg.Sign.Audience = config.NewSecret(secret), "HS256", "agent"
	r := launch(t, cfg)
	signer, err := identity.NewSigner(identity.SignerConfig{Algorithm: "HS256", Secret: secret, Issuer: "i", Audience: "parley", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	token, err := signer.Mint("ann", "", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newPhone(t).Dial(ctx, r.uri(), phone.Header{Name: "Authorization", Value: "Bearer " + token})
	if err != nil {
		t.Fatal(err)
	}
	if all := r.calls.Calls(); len(all) != 1 || all[0].ResourceID != "ann" {
		t.Errorf("%+v", all)
	}
	if err := c.Hangup(ctx); err != nil {
		t.Error(err)
	}
	_, err = newPhone(t).Dial(ctx, r.uri(), phone.Header{Name: "Authorization", Value: "Bearer " + token + "x"})
	if status, ok := errors.AsType[*phone.StatusError](err); !ok || status.Code < 400 || status.Code >= 500 {
		t.Errorf("a forged token: %v", err)
	}
	r.signals <- syscall.SIGTERM
	r.wait(t)

	for section, change := range map[string]func(*config.Config){
		"identity.token.algorithms": func(c *config.Config) { c.Token.Algorithms = []string{"none"} },
		"identity.sign.algorithm":   func(c *config.Config) { c.Sign.Algorithm = "none" },
	} {
		bad := testConfig(t)
		bad.Token, bad.Sign = cfg.Token, cfg.Sign
		change(bad)
		if _, err := newGateway(bad, zap.NewNop()); err == nil || !strings.Contains(err.Error(), section) {
			t.Errorf("%s: %v", section, err)
		}
	}
}

// The demo's caller places a real call by its script and writes down what it heard.
func TestDemoCaller(t *testing.T) {
	r := launch(t, testConfig(t))
	out := filepath.Join(t.TempDir(), "call")
	script := out + ".script"
	if err := os.WriteFile(script, []byte("press 12\npause 300ms\npress 3\npause 500ms\nhangup\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, told, errOut := execute(t, nil, "demo", "--caller-to="+r.uri(), "--caller-number=+12025550143", "--caller-script="+script, "--caller-out="+out)
	if code != 0 || !strings.Contains(told, `"type":"answered"`) || !strings.Contains(told, `"type":"pressed"`) || !strings.Contains(told, `"type":"ended"`) {
		t.Fatalf("exit %d\n%s%s", code, told, errOut)
	}
	b, err := os.ReadFile(out + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var report callerReport
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	if report.Digits != "123" || report.Failure != "" || report.HeardPackets == 0 || len(report.Said) != 1 || report.Said[0].Key != "123" {
		t.Errorf("%q %q, %d packets heard, said %+v", report.Digits, report.Failure, report.HeardPackets, report.Said)
	}
	for _, name := range []string{".wav", ".pcap"} {
		if _, err := os.Stat(out + name); err != nil {
			t.Error(err)
		}
	}
	if code, _, errOut := execute(t, nil, "demo", "--caller-to=sip:x@127.0.0.1:1", "--caller-script=/nonexistent"); code != 1 || !strings.Contains(errOut, "/nonexistent") {
		t.Errorf("exit %d %s", code, errOut)
	}
	r.signals <- syscall.SIGTERM
	r.wait(t)
}

// The demo's two processes, a short call: a key that ends it.
func TestDemoProcesses(t *testing.T) {
	if !embeddedSpeech {
		t.Skip("no recogniser in this build")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var told strings.Builder
	s := &stage{ctx: ctx, environ: append(os.Environ(), asServer+"=1"), out: &told, errOut: &told}
	t.Setenv(asServer, "1") // for the caller, which inherits it
	c := demoCmd{Out: t.TempDir(), Keep: true}
	work, discard, err := c.workDir()
	if err != nil {
		t.Fatal(err)
	}
	defer discard()
	server, err := startDemoServer(ctx, work, s.environ)
	if err != nil {
		t.Fatal(err)
	}
	defer server.stop()
	short := demoCall{name: "Short", script: "wait agent-speaking\npress 9\nwait end\n", number: "+12025550143", display: "Ada", check: func(*demoResult) []error { return nil }}
	r, err := c.place(ctx, short, server, newJournalReader(server.events), newNarrator(s.out), callerFlags{
		To: server.uri(), Number: short.number, Name: short.display, Out: filepath.Join(work, "call1"),
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, server.saveLog(c.Out))
	}
	if record := r.record(); record == nil || record.Cause != call.CauseAgentHungUp || r.caller.Digits != "9" {
		t.Errorf("%+v, keys %q", record, r.caller.Digits)
	}
	if err := c.leave(s.out, []*demoResult{r}); err != nil {
		t.Fatal(err)
	}
	if errs := judge([]*demoResult{r}); len(errs) > 0 {
		t.Error(errs)
	}
	for _, name := range []string{"call.wav", "call.html"} {
		if info, err := os.Stat(filepath.Join(c.Out, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(told.String(), "Listen to ") {
		t.Error(told.String())
	}
}

func TestTerminals(t *testing.T) {
	f, err := os.Open(write(t, "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if isTerminal(f) {
		t.Error("a file is taken for a terminal")
	}
	signals, release := terminationSignals()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if s := <-signals; s != syscall.SIGTERM {
		t.Error(s)
	}
	release()
	if hints := dialHints(nil, nil, netip.Addr{}); len(hints) != 0 {
		t.Error(hints)
	}
	if exit(3).Error() != "exit status 3" {
		t.Error(exit(3))
	}
}
