package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"parley/agent/live"
	"parley/agent/llm"
	"parley/agent/tool/plugin"
	"parley/agent/tts"
	"parley/config"
	"parley/test/phone"
)

// talker is a service that speaks chat completions or Ollama's API. answer gives the
// reply to the conversation: words, or a tool to call.
type talker struct {
	*httptest.Server
	answer func(last string, body []byte) (words, tool string)

	mu     sync.Mutex
	bodies [][]byte
}

func newTalker(t *testing.T, answer func(last string, body []byte) (words, tool string)) *talker {
	t.Helper()
	k := &talker{answer: answer}
	k.Server = httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.Close)
	return k
}

func (k *talker) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	k.mu.Lock()
	k.bodies = append(k.bodies, body)
	k.mu.Unlock()
	var in struct {
		Messages []struct{ Role, Content string }
	}
	_ = json.Unmarshal(body, &in)
	last := ""
	if n := len(in.Messages); n > 0 {
		last = in.Messages[n-1].Role + " " + in.Messages[n-1].Content
	}
	words, tool := k.answer(last, body)
	if strings.HasSuffix(r.URL.Path, "/api/chat") {
		w.Header().Set("Content-Type", "application/x-ndjson")
		calls := ""
		if tool != "" {
			calls = fmt.Sprintf(`,"tool_calls":[{"function":{"name":%q,"arguments":{}}}]`, tool)
		}
		fmt.Fprintf(w, `{"message":{"role":"assistant","content":%q%s},"done":false}`+"\n", words, calls)
		fmt.Fprintln(w, `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	finish := "stop"
	if tool != "" {
		finish = "tool_calls"
		fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":%q,"arguments":"{}"}}]}}]}`+"\n\n", tool)
	} else {
		fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", words)
	}
	fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`+"\n\ndata: [DONE]\n\n", finish)
}

// asked says whether a request had text in it.
func (k *talker) asked(text string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range k.bodies {
		if bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}

// A call is answered by the built-in agent over a model of either protocol: it greets,
// takes keys, calls a plugin, hangs up by a tool, and all of it is on record. The next
// call of the same number is told what is known.
func TestTheBuiltInAgentAnswersCalls(t *testing.T) {
	for _, provider := range []string{"openai", "ollama"} {
		t.Run(provider, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			tools := t.TempDir()
			saying(t, tools, "weather", "rain")
			skill(t, tools, "kind")
			model := newTalker(t, func(last string, body []byte) (string, string) {
				switch {
				case strings.HasPrefix(last, "tool ") && strings.Contains(last, "rain"):
					return "It rains.", ""
				case strings.HasPrefix(last, "tool "):
					return "Goodbye.", ""
				case strings.HasPrefix(last, "user ") && strings.HasSuffix(last, "42"):
					return "", "weather"
				case strings.HasPrefix(last, "user ") && strings.HasSuffix(last, "9"):
					return "", "hang_up"
				}
				return "A summary.", ""
			})
			dir := t.TempDir()
			cfg := keeping(t, dir)
			own := fromFile(t, fmt.Sprintf(`[llm]
provider = %[1]q
[openai]
base_url = "%[2]s/v1"
model = "m"
api_key = "k"
[ollama]
base_url = %[2]q
model = "m"
[conversation]
greeting = "Hello there."
[runtime]
system = "You are Ada."
summary_model = "small"
[plugins]
directory = %[3]q
[turn]
digit_gap = "400ms"
[sessions]
backend = "sqlite"
path = %[4]q
`, provider, model.URL, tools, cfg.Sessions.Path))
			cfg.Assistant, cfg.Sessions, cfg.Plugins = own.Assistant, own.Sessions, own.Plugins
			file := cfg.Sessions.Path
			r := launch(t, cfg)
			press := func(c *phone.Call, keys string) {
				for _, k := range []byte(keys) {
					if _, err := c.Press(k, 100*time.Millisecond); err != nil {
						t.Error(err)
					}
					time.Sleep(200 * time.Millisecond) // keys come one after the other
				}
			}
			ring(t, ctx, r, file, "+12025550143", func(c *phone.Call) {
				press(c, "42")
				until(t, func() bool { return strings.Contains(said(kept(t, file)[0]), "It rains.") })
				press(c, "9")
				if _, err := c.WaitEnd(ctx); err != nil {
					t.Errorf("%v: %s", err, said(kept(t, file)[0]))
				}
			})
			got := kept(t, file)[0]
			text := ""
			for e := range got.Events().All() {
				text += line(e) + "\n"
			}
			for _, want := range []string{
				`default: "Hello there."`, `user: "42" {"digits":true}`, `default: calls weather`, `weather answers {"result":"rain"}`, `"It rains."`,
				`calls hang_up`, `"Goodbye."`, `"ended":"agent hung up"`,
			} {
				if !strings.Contains(text, want) {
					t.Errorf("missing %s in\n%s", want, text)
				}
			}
			if !model.asked("You are Ada.") || !model.asked("says a word") {
				t.Error("the model was not told who it is, or of its tools")
			}
			ring(t, ctx, r, file, "+12025550143", func(c *phone.Call) {
				press(c, "42")
				until(t, func() bool { return strings.Contains(said(kept(t, file)[0]), "It rains.") })
				if err := c.Hangup(ctx); err != nil {
					t.Error(err)
				}
			})
			if !model.asked(`"model":"small"`) {
				t.Error("the summary is not by the model for it")
			}
			if !model.asked("A summary.") {
				t.Error("the model was not told of the call before")
			}
			r.signals <- syscall.SIGTERM
			r.wait(t)
		})
	}
}

// What the gateway says itself to callers of realtime models has their rate.
func TestOwnWordsHaveTheRateOfTheModel(t *testing.T) {
	if !embeddedSpeech {
		t.Skip("needs the embedded voice")
	}
	cfg := config.Default()
	p := &plugs{cfg: &cfg}
	voice, err := p.speaker("", &cfg.Assistant)
	if err != nil {
		t.Fatal(err)
	}
	var plain int
	if err := voice.Speak(t.Context(), "I am sorry.", func(c tts.Chunk) error { plain += len(c.PCM); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, rate := range []int{live.OutputRate, 8000} {
		own := 0
		if err := ownWords(voice)(t.Context(), "I am sorry.", rate, func(pcm []int16) error { own += len(pcm); return nil }); err != nil {
			t.Fatal(err)
		}
		if want := plain * rate / voice.Rate(); own < want || own > want+rate/50 {
			t.Errorf("%d samples at %d Hz, want %d", own, rate, want)
		}
	}
	stop := errors.New("stop")
	if err := ownWords(voice)(t.Context(), "I am sorry.", live.OutputRate, func([]int16) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

func TestARealtimeModelIsToldOfSkills(t *testing.T) {
	got := withSkills("You are Ada.", []plugin.Skill{{Name: "a", Text: "Be kind."}, {Name: "b", Triggers: []string{"refund", "money"}, Text: "Ask for the order."}})
	if want := "You are Ada.\n\nBe kind.\n\nWhen the caller speaks of refund, money:\nAsk for the order."; got != want {
		t.Errorf("%q", got)
	}
}

// An agent over HTTP gets a token for callers who are somebody.
func TestIdentityTokensForAgents(t *testing.T) {
	cfg := config.Default()
	p := &plugs{cfg: &cfg}
	if f, err := p.identityTokens(); f != nil || err != nil {
		t.Errorf("tokens that nobody signs: %v", err)
	}
	cfg.Sign.Algorithm, cfg.Sign.Audience, cfg.Sign.Secret = "HS256", "desk", config.NewSecret(strings.Repeat("k", 32))
	f, err := p.identityTokens()
	if err != nil {
		t.Fatal(err)
	}
	if token, err := f(llm.Conversation{ResourceID: "+12025550143", CallID: "c", SessionID: "s"}); err != nil || strings.Count(token, ".") != 2 {
		t.Errorf("%q %v", token, err)
	}
	if token, err := f(llm.Conversation{}); err != nil || token != "" {
		t.Errorf("%q %v", token, err)
	}
}
