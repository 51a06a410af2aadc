package deepgram_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"parley/agent/tts"
	"parley/agent/tts/deepgram"
	"parley/agent/tts/ttstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "dg-secret-0123456789"

func voice(t *testing.T, base string, change func(*deepgram.Config)) *deepgram.Voice {
	t.Helper()
	cfg := deepgram.DefaultConfig()
	cfg.BaseURL, cfg.APIKey, cfg.Timeout = base, key, ttstest.Silence
	if change != nil {
		change(&cfg)
	}
	v, err := deepgram.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// check checks a request, and is its text.
func check(t *testing.T, r *http.Request, want string) string {
	t.Helper()
	if r.Method != http.MethodPost || r.URL.String() != want {
		t.Errorf("%s %s, want POST %s", r.Method, r.URL, want)
	}
	for name, want := range map[string]string{"Authorization": "Token " + key, "Content-Type": "application/json", "User-Agent": "parley"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	var asked struct {
		Text string `json:"text"`
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&asked); err != nil || dec.More() {
		t.Errorf("the request: %v", err)
	}
	if strings.TrimSpace(asked.Text) == "" {
		t.Error("asked for the sound of nothing")
	}
	return asked.Text
}

const usual = "/v1/speak?container=none&encoding=linear16&model=aura-2-thalia-en&sample_rate=16000"

func answer(t *testing.T, r *http.Request) (string, []string) {
	pcm, _ := ttstest.Sound(check(t, r, usual), 16000)
	b := ttstest.S16LE(pcm)
	n := len(b)/2 + 1 // an odd byte
	return "audio/l16;rate=16000;channels=1", []string{b[:n], b[n:]}
}

func serve(t *testing.T, answer func(*testing.T, *http.Request) (string, []string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, pieces := answer(t, r)
		w.Header().Set("Content-Type", kind)
		for _, p := range pieces {
			_, _ = w.Write([]byte(p))
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestVoice(t *testing.T) {
	ttstest.Run(t, ttstest.Subject{New: func(t *testing.T) tts.Voice { return voice(t, serve(t, answer), nil) }})
}

func TestService(t *testing.T) {
	ttstest.RunService(t, ttstest.Service{
		Room: "tts/deepgram", Key: key, Answer: answer,
		New: func(t *testing.T, base string) tts.Voice { return voice(t, base, nil) },
	})
}

func TestWhatItAsksFor(t *testing.T) {
	for _, c := range []struct {
		path   string
		change func(*deepgram.Config)
		want   string
		rate   int
	}{
		{"", nil, usual, 16000},
		{"/v1/", nil, usual, 16000},
		{"/proxy?tenant=a", nil, "/proxy/v1/speak?container=none&encoding=linear16&model=aura-2-thalia-en&sample_rate=16000&tenant=a", 16000},
		{"", func(c *deepgram.Config) { c.Model, c.SampleRate, c.OptOut = "aura-2-celeste-es", 8000, true },
			"/v1/speak?container=none&encoding=linear16&mip_opt_out=true&model=aura-2-celeste-es&sample_rate=8000", 8000},
	} {
		base := serve(t, func(t *testing.T, r *http.Request) (string, []string) {
			pcm, _ := ttstest.Sound(check(t, r, c.want), c.rate)
			return "audio/pcm", []string{ttstest.S16LE(pcm)}
		})
		samples := 0
		v := voice(t, base+c.path, c.change)
		if err := v.Speak(t.Context(), "one two three four", func(c tts.Chunk) error { samples += len(c.PCM); return nil }); err != nil {
			t.Error(err)
		}
		if samples != c.rate || v.Rate() != c.rate {
			t.Errorf("%s: %d samples", c.want, samples)
		}
	}
}

// TestAModelIsNoSecret: errors name it, and the parameters of the address not.
func TestAModelIsNoSecret(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"err_code":"INVALID","err_msg":"no model aura-2-thalia-en for 0123456789abcdef"}`))
	}))
	t.Cleanup(s.Close)
	err := voice(t, s.URL+"?token=0123456789abcdef", nil).Speak(t.Context(), "hello", func(tts.Chunk) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "aura-2-thalia-en") || strings.Contains(err.Error(), "0123456789abcdef") || strings.Contains(err.Error(), "?") && !strings.Contains(err.Error(), "right?") {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	if err := deepgram.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		change func(*deepgram.Config)
		want   string
	}{
		{func(c *deepgram.Config) { c.BaseURL = "wss://api.deepgram.com" }, "base_url: "},
		{func(c *deepgram.Config) { c.APIKey = "a\nb" }, "api_key: "},
		{func(c *deepgram.Config) { c.Model = "" }, "model: "},
		{func(c *deepgram.Config) { c.SampleRate = 22050 }, "sample_rate: "},
		{func(c *deepgram.Config) { c.Timeout = 0 }, "timeout: "},
	} {
		cfg := deepgram.DefaultConfig()
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s…", err, c.want)
		}
		if _, err := deepgram.New(cfg); err == nil {
			t.Errorf("%s: a voice was made", c.want)
		}
	}
}
