package plugin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"parley/agent/tool"
)

// script is what a fake plugin does with a line; it answers by write.
type script func(f map[string]any, write func(string))

// fake is a process of pipes.
func fake(do script) (*process, func()) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	exited := make(chan struct{})
	die := sync.OnceFunc(func() { outW.Close(); inR.Close(); close(exited) })
	var left sync.WaitGroup
	left.Go(func() {
		defer die()
		r := bufio.NewReader(inR)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			var f map[string]any
			if json.Unmarshal(line, &f) != nil {
				return
			}
			do(f, func(s string) { io.WriteString(outW, s+"\n") })
		}
	})
	kill := func() error { die(); return nil }
	return &process{in: inW, out: outR, exited: exited, ask: kill, kill: kill, said: func() string { return "" }, wait: left.Wait}, die
}

// twoTools answers initialize of version 2.
const twoTools = `{"id":%v,"result":{"tools":[{"name":"a","description":"d","parameters":{"type":"object"},"cancellable":true},{"name":"b","description":"d","confirmation_required":true},{"name":"c","description":"d","internal":true,"confirmation_required":true,"confirmation_prompt":"Sure?"}]}}`

// running is a plugin over fakes in a bubble.
func running(t *testing.T, opts *Options, m Manifest, launch func() (*process, error), f func(p *plugin)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opts.Log = zap.NewNop()
		if opts.Timeout == 0 {
			opts.Timeout = 30 * time.Second
		}
		if opts.StartTimeout == 0 {
			opts.StartTimeout = 10 * time.Second
		}
		m.Name = "p"
		p := newPlugin(m, opts)
		p.strays = rate.NewLimiter(rate.Inf, 1)
		p.launch = launch
		if err := p.begin(context.Background()); err != nil {
			t.Fatal(err)
		}
		f(p)
		p.close()
	})
}

func one(do script) func() (*process, error) {
	return func() (*process, error) {
		p, _ := fake(do)
		return p, nil
	}
}

// TestWire: what goes over the wire to a plugin of version 2, word for word.
func TestWire(t *testing.T) {
	var got []string
	var mu sync.Mutex
	do := func(f map[string]any, write func(string)) {
		text, _ := json.Marshal(f)
		mu.Lock()
		got = append(got, string(text))
		mu.Unlock()
		switch f["method"] {
		case "initialize":
			write(fmt.Sprintf(twoTools, f["id"]))
		case "confirm":
			write(fmt.Sprintf(`{"id":%v,"result":"Shall I book it?"}`, f["id"]))
		case "execute":
			if f["tool"] == "a" {
				write(fmt.Sprintf(`{"id":%v,"result":"fine"}`, f["id"]))
			}
		}
	}
	opts := &Options{Plugins: map[string]Settings{"p": {Config: map[string]any{"shop": 3}}}}
	running(t, opts, Manifest{}, one(do), func(p *plugin) {
		tools := p.list()
		ctx := tool.WithSession(context.Background(), "s1")
		if r, err := tools[0].Invoke(ctx, map[string]any{"x": 1}); err != nil || r["result"] != "fine" {
			t.Error(r, err)
		}
		if prompt, err := tools[1].(tool.Prompter).ConfirmationPrompt(ctx, map[string]any{"x": 1}); err != nil || prompt != "Shall I book it?" {
			t.Error(prompt, err)
		}
		if prompt, err := tools[2].(tool.Prompter).ConfirmationPrompt(ctx, nil); err != nil || prompt != "Sure?" {
			t.Error(prompt, err)
		}
		began := time.Now()
		if _, err := tools[1].Invoke(ctx, nil); !errors.Is(err, tool.ErrTimeout) || time.Since(began) != 30*time.Second {
			t.Error(err, time.Since(began))
		}
		p.notify("event", Event{Type: "turn", Session: "s1", TurnSeq: 2})
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		want := []string{
			`{"id":1,"jsonrpc":"2.0","method":"initialize","params":{"config":{"shop":3},"plugin":"p","protocol":2}}`,
			`{"id":2,"jsonrpc":"2.0","method":"execute","params":{"x":1},"session_id":"s1","tool":"a"}`,
			`{"id":3,"jsonrpc":"2.0","method":"confirm","params":{"x":1},"session_id":"s1","tool":"b"}`,
			`{"id":4,"jsonrpc":"2.0","method":"execute","params":{},"session_id":"s1","tool":"b"}`,
			`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":4}}`,
			`{"jsonrpc":"2.0","method":"event","params":{"session_id":"s1","turn_seq":2,"type":"turn"}}`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestVersionOneIsLeftAlone: it gets initialize without parameters and no notifications.
func TestVersionOneIsLeftAlone(t *testing.T) {
	var methods []string
	do := func(f map[string]any, write func(string)) {
		methods = append(methods, fmt.Sprint(f["method"], " ", f["params"] != nil))
		if f["method"] == "initialize" {
			write(`{"jsonrpc":"2.0","result":"initialized","id":1}`)
		}
	}
	running(t, &Options{}, Manifest{Protocol: 1, Description: "d"}, one(do), func(p *plugin) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := p.list()[0].Invoke(ctx, nil); err == nil {
			t.Error("answered")
		}
		p.notify("ready", nil)
		synctest.Wait()
		if got := strings.Join(methods, ", "); got != "initialize false, execute true" {
			t.Error(got)
		}
	})
}

// TestBackoff: a plugin that crashes again and again is started ever less often, and
// calls meanwhile fail within 2 s.
func TestBackoff(t *testing.T) {
	var starts []time.Duration
	var began time.Time
	launch := func() (*process, error) {
		if len(starts) == 0 {
			began = time.Now()
		}
		starts = append(starts, time.Since(began))
		var die func()
		p, die := fake(func(f map[string]any, write func(string)) {
			if f["method"] == "initialize" {
				write(fmt.Sprintf(twoTools, f["id"]))
				return
			}
			die()
		})
		return p, nil
	}
	running(t, &Options{}, Manifest{}, launch, func(p *plugin) {
		for range 5 {
			_, err := p.list()[0].Invoke(context.Background(), nil)
			if !errors.Is(err, errGone) {
				t.Error(err)
			}
		}
		at := time.Now()
		for range 20 {
			if _, err := p.list()[0].Invoke(context.Background(), nil); !errors.Is(err, errGone) {
				t.Error(err)
			}
		}
		if most := time.Since(at); most > 40*time.Second {
			t.Errorf("20 calls took %v", most)
		}
		for i := 2; i < len(starts); i++ {
			if pause, before := starts[i]-starts[i-1], starts[i-1]-starts[i-2]; pause < before {
				t.Errorf("pause %d is %v after %v", i, pause, before)
			}
		}
		if len(starts) < 4 || starts[1] != firstPause {
			t.Errorf("starts: %v", starts)
		}
	})
}

// TestDeafPlugin: one that reads nothing holds nobody up for longer than a deadline.
func TestDeafPlugin(t *testing.T) {
	block := make(chan struct{})
	do := func(f map[string]any, write func(string)) {
		if f["method"] == "initialize" {
			write(fmt.Sprintf(twoTools, f["id"]))
			return
		}
		<-block
	}
	synctest.Test(t, func(t *testing.T) { block = make(chan struct{}) })
	launch := func() (*process, error) {
		stop := make(chan struct{})
		block = stop
		p, die := fake(do)
		p.kill = func() error {
			select {
			case <-stop:
			default:
				close(stop)
			}
			die()
			return nil
		}
		return p, nil
	}
	running(t, &Options{Timeout: 5 * time.Second}, Manifest{}, launch, func(p *plugin) {
		var all sync.WaitGroup
		var mu sync.Mutex
		blocked, late := 0, 0
		for range 600 {
			all.Go(func() {
				_, err := p.list()[0].Invoke(context.Background(), nil)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, errBlocked):
					blocked++
				case errors.Is(err, tool.ErrTimeout):
					late++
				}
			})
		}
		all.Wait()
		if blocked+late != 600 || blocked < 300 {
			t.Errorf("%d blocked, %d late", blocked, late)
		}
	})
}

// TestHost: what a plugin may ask for, and for whom.
func TestHost(t *testing.T) {
	reg := tool.NewRegistry()
	for _, f := range []*tool.FuncTool{
		{ToolName: "other", Fn: func(ctx context.Context, args map[string]any) (map[string]any, error) {
			return map[string]any{"for": tool.SessionFrom(ctx), "got": args["x"]}, nil
		}},
		{ToolName: "gated", ToolTraits: tool.Traits{Confirm: true}},
	} {
		if err := reg.Register(f); err != nil {
			t.Fatal(err)
		}
	}
	var emitted []string
	opts := &Options{Host: Host{
		Tools: func(session string) *tool.ToolRegistry {
			if session == "s1" {
				return reg
			}
			return nil
		},
		Emit: func(p string, e Emission) {
			emitted = append(emitted, fmt.Sprint(p, " ", e.Topic, " ", string(e.Payload), " ", e.Session))
		},
		Complete: func(_ context.Context, c Completion) (string, error) { return c.System + "/" + c.Prompt, nil },
		Search: func(_ context.Context, s Search) (any, error) {
			if s.Query == "panic" {
				panic("oh")
			}
			return []string{fmt.Sprint(s.Query, s.Limit)}, nil
		},
	}}
	asks := []struct{ ask, want string }{
		{`{"id":"sdk-1","method":"tools/call","params":{"tool":"other","params":{"x":1},"session_id":"s1"}}`, `{"id":"sdk-1","jsonrpc":"2.0","result":{"for":"s1","got":1}}`},
		{`{"id":"sdk-2","method":"tools/call","params":{"tool":"gated","session_id":"s1"}}`, `{"error":{"code":-32000,"message":"tool: gated needs the caller's confirmation"},"id":"sdk-2","jsonrpc":"2.0"}`},
		{`{"id":"sdk-3","method":"tools/call","params":{"tool":"a","session_id":"s1"}}`, `{"error":{"code":-32000,"message":"a plugin does not call its own tools this way"},"id":"sdk-3","jsonrpc":"2.0"}`},
		{`{"id":"sdk-4","method":"tools/call","params":{"tool":"other","session_id":"s2"}}`, `{"error":{"code":-32000,"message":"not at work for this session_id"},"id":"sdk-4","jsonrpc":"2.0"}`},
		{`{"id":"sdk-5","method":"llm/complete","params":{"system":"a","prompt":"b","session_id":"s1"}}`, `{"id":"sdk-5","jsonrpc":"2.0","result":"a/b"}`},
		{`{"id":"sdk-6","method":"rag/search","params":{"query":"q","limit":900,"session_id":"s1"}}`, `{"id":"sdk-6","jsonrpc":"2.0","result":["q50"]}`},
		{`{"id":"sdk-7","method":"rag/search","params":{"query":"panic","session_id":"s1"}}`, `{"error":{"code":-32000,"message":"plugin: panic in rag/search"},"id":"sdk-7","jsonrpc":"2.0"}`},
		{`{"id":"sdk-8","method":"emit","params":{"topic":"t","payload":{"a":1},"session_id":"s1"}}`, `{"id":"sdk-8","jsonrpc":"2.0","result":"ok"}`},
		{`{"id":"sdk-9","method":"hangup"}`, `{"error":{"code":-32601,"message":"no such method here"},"id":"sdk-9","jsonrpc":"2.0"}`},
		{`{"id":"sdk-10","method":"emit","params":7}`, `{"error":{"code":-32602,"message":"bad params"},"id":"sdk-10","jsonrpc":"2.0"}`},
	}
	var execute any
	next := 0
	do := func(f map[string]any, write func(string)) {
		switch f["method"] {
		case "initialize":
			write(fmt.Sprintf(twoTools, f["id"]))
			return
		case "execute":
			execute = f["id"]
		default:
			text, _ := json.Marshal(f)
			if string(text) != asks[next].want {
				t.Errorf("%s\nwant %s", text, asks[next].want)
			}
			next++
		}
		if next < len(asks) {
			write(asks[next].ask)
			return
		}
		write(fmt.Sprintf(`{"id":%v,"result":{"speak":"done","emit":[{"topic":"mine","payload":2},{"topic":"other","session_id":"s2"}]}}`, execute))
	}
	running(t, opts, Manifest{}, one(do), func(p *plugin) {
		if _, _, err := reg.Sync("plugins", p.list()); err != nil {
			t.Fatal(err)
		}
		r, err := p.list()[0].Invoke(tool.WithSession(context.Background(), "s1"), nil)
		if err != nil || fmt.Sprint(r) != "map[speak:done]" || next != len(asks) {
			t.Error(r, err, next)
		}
		if got := strings.Join(emitted, "; "); got != `p t {"a":1} s1; p mine 2 s1` {
			t.Error(got)
		}
		if p.serves("s1") {
			t.Error("still at work for s1")
		}
	})
}

// Large numbers stay what they are.
func TestLargeNumbersOfPlugins(t *testing.T) {
	for raw, want := range map[string]string{
		`{"order":12345678901234567}`: `{"order":12345678901234567}`,
		`12345678901234567`:           `{"result":12345678901234567}`,
	} {
		o, err := readOutcome(json.RawMessage(raw))
		if got, _ := json.Marshal(o.result); string(got) != want || err != nil {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	if _, err := readOutcome(json.RawMessage(`1,"speak":"x"`)); err == nil {
		t.Error("taken")
	}
}

func TestOutcome(t *testing.T) {
	for raw, want := range map[string]string{
		`"text"`: "map[result:text]", `null`: "map[]", `{"a":1}`: "map[a:1]", `[1,2]`: "map[result:[1 2]]", `7`: "map[result:7]", `true`: "map[result:true]",
		`{"speak":"hi"}`: "map[speak:hi]", `{"speak":"hi","emit":[]}`: "map[speak:hi]", `{"emit":[{"topic":7}]}`: "bad emit",
	} {
		o, err := readOutcome(json.RawMessage(raw))
		if got := fmt.Sprint(o.result, err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestManifest(t *testing.T) {
	for text, want := range map[string]string{
		"name: a\nlanguage: python\nentrypoint: main.py\nicon: x\n": "",
		"name: a b\nlanguage: python\nentrypoint: main.py\n":        "name",
		"name: a\nlanguage: cobol\nentrypoint: main.py\n":           "language",
		"name: a\nlanguage: python\n":                               "entrypoint is missing",
		"name: a\nlanguage: exec\nentrypoint: ../../bin/sh\n":       "must be a file in",
		"name: a\nlanguage: exec\nentrypoint: /bin/sh\n":            "must be a file in",
		"name: a\nlanguage: exec\nentrypoint: b\nprotocol: 3\n":     "protocol",
		"": "EOF", "- a\n": "unmarshal",
	} {
		_, err := parseManifest([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestSkill(t *testing.T) {
	s, err := parseSkill("\ufeff---\r\nname: refunds\r\ndescription: d\r\ntriggers: [refund, money back]\r\nplugins: [orders]\r\n---\r\n\r\nBe kind.\r\n---\r\nAlways.\r\n")
	if err != nil || s.Name != "refunds" || len(s.Triggers) != 2 || s.Plugins[0] != "orders" || s.Text != "Be kind.\n---\nAlways." {
		t.Errorf("%+v %v", s, err)
	}
	for _, bad := range []string{"", "name: a", "---\nname: a\n", "---\ndescription: a\n---\n", "---\n[\n---\n"} {
		if _, err := parseSkill(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzFrame(f *testing.F) {
	for _, s := range []string{`{"id":1,"result":"a"}`, `{"id":null,"result":null}`, `{"method":"emit"}`, `{"error":{"code":1,"message":"\u001b"}}`, `[]`, `{"id":{}}`, "\x00", `{"result":{"speak":"a","emit":[{}]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseFrame(line)
		if err != nil {
			return
		}
		if r.Method == "" && r.Result == nil && r.Error == nil {
			t.Error("neither request nor answer")
		}
		if r.Error != nil && strings.ContainsAny(r.Error.Error(), "\x00\x1b\r\n") {
			t.Errorf("%q", r.Error.Error())
		}
		if o, err := readOutcome(r.Result); err == nil {
			if _, err := json.Marshal(o.result); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzConn feeds bytes to a conversation in which a call waits: it ends, with an answer
// of its own id or an error, and nothing hangs.
func FuzzConn(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"result\":\"a\"}\n{\"id\":1,\"result\":\"b\"}\n"))
	f.Add([]byte("noise\n\n{\"id\":2}\r\n{\"method\":\"x\"}\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, w := io.Pipe()
		c := newConn(w, func(received) {}, func(string, int) {})
		done := make(chan error, 1)
		started := make(chan struct{})
		go func() {
			close(started)
			_, err := c.call(context.Background(), frame{Method: "execute"}, nil)
			done <- err
		}()
		<-started
		c.read(strings.NewReader(string(in)))
		<-done
		c.close()
		w.Close()
		c.write.Wait()
	})
}

func FuzzManifest(f *testing.F) {
	f.Add("name: a\nlanguage: python\nentrypoint: main.py\nparameters: {type: object}\n")
	f.Add("---\nname: a\n---\ntext")
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := parseManifest([]byte(text)); err == nil && (m.Name == "" || strings.HasPrefix(m.Entrypoint, "/") || strings.HasPrefix(m.Entrypoint, "..")) {
			t.Errorf("%+v", m)
		}
		if s, err := parseSkill(text); err == nil && s.Name == "" {
			t.Error("no name")
		}
	})
}
