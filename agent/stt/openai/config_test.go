package openai

import (
	"strings"
	"testing"
	"time"

	"parley/agent/stt"
)

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	two := 2.0
	for key, change := range map[string]func(*Config){
		"base_url: must be set":             func(c *Config) { c.BaseURL = "" },
		"base_url: is no address":           func(c *Config) { c.BaseURL = "http://a b.c/" + secret },
		"base_url: must begin":              func(c *Config) { c.BaseURL = "ws://x" },
		"base_url: must not hold":           func(c *Config) { c.BaseURL = "http://u:" + secret + "@x" },
		"api_key: holds":                    func(c *Config) { c.APIKey = secret + "\n" },
		"model: must be set":                func(c *Config) { c.Model = "" },
		"header: \"a b\"":                   func(c *Config) { c.Header = map[string]string{"a b": secret} },
		"prompt: ":                          func(c *Config) { c.Prompt = strings.Repeat("x", 801) },
		"temperature: 2":                    func(c *Config) { c.Temperature = &two },
		"format: \"srt\"":                   func(c *Config) { c.Format = "srt" },
		"words: ":                           func(c *Config) { c.Words = true },
		"extra: \"file\"":                   func(c *Config) { c.Extra = map[string]string{"file": "x"} },
		"rate: 44100":                       func(c *Config) { c.Rate = 44100 },
		"pre_roll: 3s":                      func(c *Config) { c.PreRoll = 3 * time.Second },
		"max_utterance: 10ms":               func(c *Config) { c.MaxUtterance = 10 * time.Millisecond },
		"timeout: 0s":                       func(c *Config) { c.Timeout = 0 },
		"interims: 1ms, must":               func(c *Config) { c.Interims = time.Millisecond },
		"failures: 0":                       func(c *Config) { c.Failures = 0 },
		"min_level: 1 dB":                   func(c *Config) { c.MinLevel = 1 },
		"no_speech: 0":                      func(c *Config) { c.NoSpeech = 0 },
		"reject: 1, must be from 0 to belo": func(c *Config) { c.Reject = 1 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		_, err := New(cfg)
		if err == nil || !strings.HasPrefix(err.Error(), "stt/openai: "+key) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v, want %q", err, key)
		}
	}
}

const secret = "s3cret"

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"https://api.openai.com/v1":           "https://api.openai.com/v1/audio/transcriptions",
		"http://127.0.0.1:8000":               "http://127.0.0.1:8000/v1/audio/transcriptions",
		"http://127.0.0.1:8080/inference":     "http://127.0.0.1:8080/inference",
		"http://x/v1/audio/transcriptions/":   "http://x/v1/audio/transcriptions",
		"https://x/openai?api-version=2#part": "https://x/openai/audio/transcriptions?api-version=2",
	} {
		c := Config{BaseURL: in}
		if got, _, err := c.address(); got != want || err != nil {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
}

func TestFormat(t *testing.T) {
	for model, want := range map[string]string{
		"whisper-1": VerboseJSON, "whisper-large-v3-turbo": VerboseJSON, "Systran/faster-whisper-small": VerboseJSON,
		"gpt-4o-transcribe": JSON, "gpt-4o-mini-transcribe": JSON, "mistralai/Voxtral-Mini-3B-2507": JSON,
	} {
		if got := (Config{Model: model}).format(); got != want {
			t.Errorf("%s: %s", model, got)
		}
	}
}

// FuzzAnswer: whatever a service sends, what is taken of it keeps the contract.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"text":" hi","segments":[{"text":" hi","start":0,"end":1,"avg_logprob":-0.1,"no_speech_prob":0.1,"words":[{"word":"hi","start":0.1,"end":"0.3","probability":2}]}]}`)
	f.Add(`{"text":"a","words":[{"word":"a","start":-1e300,"end":1e300}],"logprobs":[{"logprob":5}]}`)
	f.Add(`{"error":{"message":"no"}}`)
	f.Add("\ufeff{\"type\":\"transcript.text.delta\",\"delta\":\"x\"}\n[DONE]\n{\"type\":\"x.done\",\"text\":\"♪\"}")
	f.Add(`{"choices":[{"delta":{"content":"[("}}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		a, err := parseAnswer([]byte(body), 0.6)
		if err == nil {
			fit(t, a)
		}
		g := gatherer{noSpeech: 0.6}
		for line := range strings.Lines(body) {
			if last, err := g.add(line); last || err != nil {
				break
			}
		}
		fit(t, g.transcript())
	})
}

func fit(t *testing.T, a transcript) {
	if a.text != strings.TrimSpace(a.text) || len(a.text) > maxText || strings.ContainsAny(a.text, "\n\r\x00\x1b") {
		t.Errorf("text %q", a.text)
	}
	if !(a.confidence >= 0 && a.confidence <= 1) {
		t.Errorf("confidence %v", a.confidence)
	}
	if len(a.words) > maxWords || a.text == "" && len(a.words) > 0 {
		t.Errorf("%d words of %q", len(a.words), a.text)
	}
	for _, w := range a.words {
		if (stt.Word{}) == w || w.Start < 0 || w.End < w.Start || w.End > time.Hour || w.Text == "" {
			t.Errorf("word %+v", w)
		}
	}
}
