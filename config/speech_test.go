package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSpeech(t *testing.T) {
	c := load(t, `
[stt]
reject = 0.4
[stt.failover]
replay = "5s"
[tts]
provider = "openai"
fallback = ["elevenlabs", "flite"]
voice = "rms"
[tts.failover]
first_sound = "900ms"
[tts.openai]
voice = "alloy"
headers = { x = "hush" }
[tts.elevenlabs]
stability = 0.5
speaker_boost = "off"
[agents.a.tts]
provider = "deepgram"
fallback = []
[agents.a.tts.deepgram]
model = "aura-2-thalia-en"
[agents.b.tts.openai]
base_url = "http://127.0.0.1:1/v1"
[[route]]
name = "a"
called = "1"
agent = "a"
[[route]]
name = "b"
agent = "b"
`, []string{"PARLEY_TTS_OPENAI_API_KEY=k1", "PARLEY_TTS_ELEVENLABS_API_KEY=k2", "PARLEY_AGENTS_A_TTS_DEEPGRAM_API_KEY=k3"})
	if all := c.TTS.All(); !slices.Equal(all, []string{"openai", "elevenlabs", "flite"}) || c.TTS.Voice != "rms" || c.STT.Reject != 0.4 || !slices.Equal(c.STT.All(), []string{"pocketsphinx"}) {
		t.Errorf("%+v %+v", c.TTS, c.STT)
	}
	if c.STTFailover.Replay != 5*time.Second || c.TTSFailover.FirstSound != 900*time.Millisecond {
		t.Errorf("%+v %+v", c.STTFailover, c.TTSFailover)
	}
	if o := c.TTSOpenAIConfig(); o.Voice != "alloy" || o.APIKey != "k1" || o.Header["x"] != "hush" || o.Model == "" {
		t.Errorf("%+v", o)
	}
	if e := c.TTSElevenLabsConfig(); e.APIKey != "k2" || *e.Settings.Stability != 0.5 || *e.Settings.SpeakerBoost || e.Settings.Style != nil {
		t.Errorf("%+v", e)
	}
	a := c.Agents["a"]
	if d := a.TTSDeepgramConfig(); d.APIKey != "k3" || len(a.TTS.All()) != 1 {
		t.Errorf("%+v %v", d, a.TTS.All())
	}
	// The key of one service is not for another.
	if o := c.Agents["b"].TTSOpenAIConfig(); o.APIKey != "" || len(o.Header) != 0 || o.Voice != "alloy" {
		t.Errorf("%+v", o)
	}
}

// What fails in front of another recogniser is that one's to hear; the last one has nobody
// behind it, and a second chance.
func TestARecogniserBeforeAnother(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"provider = \"openai\"", 2},
		{"provider = \"openai\"\nfallback = [\"pocketsphinx\"]", 1},
		{"provider = \"pocketsphinx\"\nfallback = [\"openai\"]", 2},
		{"provider = \"pocketsphinx\"", 2},
	} {
		cfg := load(t, "[stt]\n"+c.text+"\n[stt.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\n", nil)
		if got := cfg.STTOpenAIConfig().Failures; got != c.want {
			t.Errorf("%s: %d failures", c.text, got)
		}
	}
}

func TestMistakesOfSpeech(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"[tts]\nprovider = \"openai\"\n", []string{":1: tts.openai.api_key: must be set for api.openai.com: in PARLEY_TTS_OPENAI_API_KEY, or by api_key_file"}},
		{"[tts]\nfallback = [\"deepgram\", \"elevenlabs\"]\n", []string{"tts.deepgram.api_key: must be set for api.deepgram.com", "tts.elevenlabs.api_key: must be set for api.elevenlabs.io"}},
		{"[tts]\nfallback = [\"flite\", \"espeak\", \"espeak\"]\n", []string{
			":2: tts.fallback: \"flite\" is named twice", ":2: tts.fallback: \"espeak\", must be one of", ":2: tts.fallback: \"espeak\", must be one of", ":2: tts.fallback: \"espeak\" is named twice"}},
		{"[stt]\nprovider = \"sphinx\"\n", []string{":2: stt.provider: \"sphinx\", must be one of pocketsphinx"}},
		{"[stt]\nprovider = \"openai\"\n[stt.openai]\ntimeout = \"1ms\"\n[tts]\nprovider = \"cartesia\"\n", []string{
			"stt.openai.api_key: must be set for api.openai.com: in PARLEY_STT_OPENAI_API_KEY", ":4: stt.openai.timeout: 1ms, must be between", "tts.cartesia.api_key: must be set for api.cartesia.ai"}},
		{"[stt]\nprovider = \"deepgram\"\n[stt.deepgram]\nstall = \"1ms\"\nattempts = 0\n", []string{
			"stt.deepgram.api_key: must be set for api.deepgram.com", ":4: stt.deepgram.stall: 1ms, must be between", ":5: stt.deepgram.attempts: 0, must be"}},
		{"[stt.failover]\nopen_timeout = \"1ms\"\n[tts.failover]\nfirst_sound = \"1ms\"\n", []string{":2: stt.failover.open_timeout: 1ms is not between", ":4: tts.failover.first_sound: 1ms is not between"}},
		{"[agents.x.tts]\nprovider = \"deepgram\"\n[agents.x.tts.deepgram]\nsample_rate = 1\napi_key_file = \"/nonexistent\"\n[[route]]\nname = \"x\"\nagent = \"x\"\n", []string{
			":4: agents.x.tts.deepgram.sample_rate: 1, must be one of", ":5: agents.x.tts.deepgram.api_key_file: open /nonexistent"}},
		{"[tts]\nprovider = \"elevenlabs\"\n[tts.elevenlabs]\napi_key = \"k\"\nstability = 2.0\nspeaker_boost = \"yes\"\n", []string{":5: tts.elevenlabs.stability: 2, must be between 0 and 1", ":6: tts.elevenlabs.speaker_boost: \"yes\", must be one of on, off"}},
		{"[tts]\nprovider = \"openai\"\n[tts.openai]\nvoice = \"\"\nvoize = \"x\"\nbase_url = \"http://127.0.0.1:1\"\n", []string{":4: tts.openai.voice: ", ":5: tts.openai.voize: no such key; did you mean \"voice\"?"}},
	} {
		_, err := Load(write(t, c.text), nil)
		if err == nil {
			t.Errorf("%s: no error", c.text)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no mistake %s in\n%v", c.text, want, err)
			}
		}
		if n := len(strings.Split(err.Error(), "\n")); n != len(c.want) {
			t.Errorf("%s: %d mistakes:\n%v", c.text, n, err)
		}
	}
	// An agent that needs no voice is not asked for its key.
	if _, err := Load(write(t, "[tts]\nprovider = \"deepgram\"\n[llm]\nprovider = \"echo\"\n"), nil); err != nil {
		t.Error(err)
	}
}
