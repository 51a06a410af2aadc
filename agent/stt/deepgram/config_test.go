package deepgram

import (
	"strings"
	"testing"
	"time"
)

const secret = "s3cret"

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for key, change := range map[string]func(*Config){
		"base_url: must be set":       func(c *Config) { c.BaseURL = "" },
		"base_url: is no address":     func(c *Config) { c.BaseURL = "wss://a b.c/" + secret },
		"base_url: must begin":        func(c *Config) { c.BaseURL = "ftp://x" },
		"base_url: must not hold":     func(c *Config) { c.BaseURL = "wss://u:" + secret + "@x" },
		"api_key: holds":              func(c *Config) { c.APIKey = secret + "\n" },
		"model: must be set":          func(c *Config) { c.Model = "" },
		"model: \"flux-general-en\"":  func(c *Config) { c.Model = "flux-general-en" },
		"language: must be":           func(c *Config) { c.Language = "\x00" },
		"header: \"a b\"":             func(c *Config) { c.Header = map[string]string{"a b": secret} },
		"keyterms_field: \"x\"":       func(c *Config) { c.KeytermsField = "x" },
		"extra: \"encoding\"":         func(c *Config) { c.Extra = map[string]string{"encoding": "x"} },
		"utterance_end: needs":        func(c *Config) { c.Interims = false },
		"utterance_end: 999ms, must":  func(c *Config) { c.UtteranceEnd = 999 * time.Millisecond },
		"endpointing: -1ms":           func(c *Config) { c.Endpointing = -time.Millisecond },
		"rate: 44100":                 func(c *Config) { c.Rate = 44100 },
		"reject: 1, must be from 0":   func(c *Config) { c.Reject = 1 },
		"final_wait: 0s":              func(c *Config) { c.FinalWait = 0 },
		"stall: 0s":                   func(c *Config) { c.Stall = 0 },
		"keep_alive: 10s":             func(c *Config) { c.KeepAlive = 10 * time.Second },
		"replay: 0s":                  func(c *Config) { c.Replay = 0 },
		"connect_timeout: 0s":         func(c *Config) { c.ConnectTimeout = 0 },
		"attempts: 0":                 func(c *Config) { c.Attempts = 0 },
		"pause: 0s":                   func(c *Config) { c.Pause = 0 },
		"max_pause: 0s, must be betw": func(c *Config) { c.MaxPause = 0 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		_, err := New(cfg)
		if err == nil || !strings.HasPrefix(err.Error(), "stt/deepgram: "+key) || strings.Contains(err.Error(), secret) {
			t.Errorf("%v, want %q", err, key)
		}
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"wss://api.deepgram.com":           "wss://api.deepgram.com/v1/listen",
		"wss://api.deepgram.com/v1/":       "wss://api.deepgram.com/v1/listen",
		"http://127.0.0.1:8080/dg/listen":  "http://127.0.0.1:8080/dg/listen",
		"wss://x/v1/listen?tag=a#fragment": "wss://x/v1/listen?tag=a",
	} {
		if got, err := (Config{BaseURL: in}).base(); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
}

func TestKeytermsAreBounded(t *testing.T) {
	many := make([]string, 500)
	for i := range many {
		many[i] = strings.Repeat("x", i)
	}
	size := 0
	for _, k := range keyterms(many, many) {
		size += len(k)
	}
	if size == 0 || size > maxKeytermBytes {
		t.Errorf("%d bytes", size)
	}
	for i := range many {
		many[i] = string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	if n := len(keyterms(many)); n != maxKeyterms {
		t.Errorf("%d terms", n)
	}
}
