package config

import (
	"errors"
	"fmt"
	"slices"

	sttdeepgram "parley/agent/stt/deepgram"
	sttfailover "parley/agent/stt/failover"
	sttopenai "parley/agent/stt/openai"
	"parley/agent/stt/pocketsphinx"
	"parley/agent/tts/cartesia"
	ttsdeepgram "parley/agent/tts/deepgram"
	"parley/agent/tts/elevenlabs"
	ttsfailover "parley/agent/tts/failover"
	"parley/agent/tts/flite"
	ttsopenai "parley/agent/tts/openai"
)

// STT is the recogniser: which, and the settings of the embedded one.
type STT struct {
	// Provider is one of Recognizers.
	Provider string
	// Fallback are those that take over when it fails, in this order.
	Fallback []string
	pocketsphinx.Config
}

// TTS is the voice: which, and the settings of the embedded one.
type TTS struct {
	// Provider is one of Voices.
	Provider string
	// Fallback are those that take over when it fails, in this order.
	Fallback []string
	flite.Config
}

// STTFailover is how a recogniser takes over from another.
type STTFailover struct {
	sttfailover.Config `json:"-"` // it holds a function
}

// TTSFailover is how a voice takes over from another.
type TTSFailover struct {
	ttsfailover.Config `json:"-"` // it holds a function
}

// STTOpenAI is the recogniser of stt.provider "openai": any service that speaks OpenAI's
// /audio/transcriptions.
type STTOpenAI struct {
	// APIKey goes into the Authorization header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile string
	// Headers go with each request besides.
	Headers map[string]Secret
	// Temperature is between 0 and 1; -1: the service's own.
	Temperature      float64
	sttopenai.Config `hide:"api_key,header,temperature"`
}

// STTDeepgram is the recogniser of stt.provider "deepgram".
type STTDeepgram struct {
	// APIKey goes into the Authorization header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile string
	// Headers go with each handshake besides.
	Headers            map[string]Secret
	sttdeepgram.Config `hide:"api_key,header"`
}

// TTSOpenAI is the voice of tts.provider "openai": any service that speaks OpenAI's
// /audio/speech.
type TTSOpenAI struct {
	// APIKey goes into the Authorization header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile string
	// Headers go with each request besides.
	Headers          map[string]Secret
	ttsopenai.Config `hide:"api_key,header"`
}

// TTSDeepgram is the voice of tts.provider "deepgram".
type TTSDeepgram struct {
	// APIKey goes into the Authorization header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile         string
	ttsdeepgram.Config `hide:"api_key"`
}

// TTSElevenLabs is the voice of tts.provider "elevenlabs".
type TTSElevenLabs struct {
	// APIKey goes into the xi-api-key header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile string
	// Stability, SimilarityBoost and Style are those of elevenlabs.Settings; -1: the
	// voice's own. SpeakerBoost is "on", "off", or empty for the voice's own.
	Stability       float64
	SimilarityBoost float64
	Style           float64
	SpeakerBoost    string
	// Speed is 0.7 to 1.2; 0: the voice's own.
	Speed             float64
	elevenlabs.Config `hide:"api_key,settings"`
}

// TTSCartesia is the voice of tts.provider "cartesia".
type TTSCartesia struct {
	// APIKey goes into the X-API-Key header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile      string
	cartesia.Config `hide:"api_key"`
}

// defaultElevenLabs has a voice's own settings.
func defaultElevenLabs() TTSElevenLabs {
	return TTSElevenLabs{Stability: unset, SimilarityBoost: unset, Style: unset, Config: elevenlabs.DefaultConfig()}
}

// All are the recognisers of an agent, the preferred one first.
func (s STT) All() []string { return append([]string{s.Provider}, s.Fallback...) }

// All are the voices of an agent, the preferred one first.
func (t TTS) All() []string { return append([]string{t.Provider}, t.Fallback...) }

// RecognizerConfig is the configuration of the embedded recogniser. An agent of
// your own tells it no grammar, so it must take dictation then.
func (a *Assistant) RecognizerConfig() pocketsphinx.Config {
	out := a.STT.Config
	out.Dictation = out.Dictation || a.LLM.Provider == "agent" || a.thinks()
	return out
}

// STTOpenAIConfig is the configuration of the recogniser of "openai". Where another one
// follows it, the first utterance that fails is the last: the next can still hear it.
func (a *Assistant) STTOpenAIConfig() sttopenai.Config {
	out := a.STTOpenAI.Config
	out.APIKey, out.Header, out.Temperature = a.STTOpenAI.APIKey.Reveal(), revealed(a.STTOpenAI.Headers), optional(a.STTOpenAI.Temperature)
	if n := slices.Index(a.STT.All(), "openai"); n >= 0 && n < len(a.STT.Fallback) {
		out.Failures = min(out.Failures, 1)
	}
	return out
}

// STTDeepgramConfig is the configuration of the recogniser of "deepgram".
func (a *Assistant) STTDeepgramConfig() sttdeepgram.Config {
	out := a.STTDeepgram.Config
	out.APIKey, out.Header = a.STTDeepgram.APIKey.Reveal(), revealed(a.STTDeepgram.Headers)
	return out
}

// TTSOpenAIConfig is the configuration of the voice of "openai".
func (a *Assistant) TTSOpenAIConfig() ttsopenai.Config {
	out := a.TTSOpenAI.Config
	out.APIKey, out.Header = a.TTSOpenAI.APIKey.Reveal(), revealed(a.TTSOpenAI.Headers)
	return out
}

// TTSDeepgramConfig is the configuration of the voice of "deepgram".
func (a *Assistant) TTSDeepgramConfig() ttsdeepgram.Config {
	out := a.TTSDeepgram.Config
	out.APIKey = a.TTSDeepgram.APIKey.Reveal()
	return out
}

// TTSElevenLabsConfig is the configuration of the voice of "elevenlabs".
func (a *Assistant) TTSElevenLabsConfig() elevenlabs.Config {
	e, out := a.TTSElevenLabs, a.TTSElevenLabs.Config
	out.APIKey = e.APIKey.Reveal()
	out.Settings = elevenlabs.Settings{
		Stability: optional(e.Stability), SimilarityBoost: optional(e.SimilarityBoost), Style: optional(e.Style), Speed: e.Speed,
	}
	if e.SpeakerBoost != "" {
		on := e.SpeakerBoost == "on"
		out.Settings.SpeakerBoost = &on
	}
	return out
}

// TTSCartesiaConfig is the configuration of the voice of "cartesia".
func (a *Assistant) TTSCartesiaConfig() cartesia.Config {
	out := a.TTSCartesia.Config
	out.APIKey = a.TTSCartesia.APIKey.Reveal()
	return out
}

// validateSpeech asks the rooms about the recognisers and voices of an agent. Of services
// only those that it has are asked.
func (l *loader) validateSpeech(prefix string, a *Assistant) {
	l.room(prefix+"stt", a.RecognizerConfig().Validate())
	l.room(prefix+"tts", a.TTS.Validate())
	l.room(prefix+"stt.failover", a.STTFailover.Validate())
	l.room(prefix+"tts.failover", a.TTSFailover.Validate())
	l.fallbacks(prefix+"stt", a.STT.Provider, a.STT.Fallback, Recognizers)
	l.fallbacks(prefix+"tts", a.TTS.Provider, a.TTS.Fallback, Voices)
	if a.LLM.Provider == "stream" || a.LLM.Provider == "echo" {
		return // they need neither
	}
	for _, name := range a.STT.All() {
		if !a.hearsItself() {
			l.validateRecognizer(prefix+"stt."+name, name, a)
		}
	}
	for _, name := range a.TTS.All() {
		l.validateVoice(prefix+"tts."+name, name, a)
	}
}

// validateRecognizer asks the room of a service's recogniser.
func (l *loader) validateRecognizer(section, name string, a *Assistant) {
	switch name {
	case "deepgram":
		d := a.STTDeepgram
		l.room(section, errors.Join(a.STTDeepgramConfig().Validate(), l.keyed(section, d.BaseURL, "api.deepgram.com", d.APIKey, d.Headers)))
	case "openai":
		o := a.STTOpenAI
		l.room(section, errors.Join(a.STTOpenAIConfig().Validate(), l.keyed(section, o.BaseURL, "api.openai.com", o.APIKey, o.Headers)))
	}
}

// validateVoice asks the room of a service's voice.
func (l *loader) validateVoice(section, name string, a *Assistant) {
	switch name {
	case "openai":
		o := a.TTSOpenAI
		l.room(section, errors.Join(a.TTSOpenAIConfig().Validate(),
			l.keyed(section, o.BaseURL, "api.openai.com", o.APIKey, o.Headers)))
	case "deepgram":
		d := a.TTSDeepgram
		l.room(section, errors.Join(a.TTSDeepgramConfig().Validate(),
			l.keyed(section, d.BaseURL, "api.deepgram.com", d.APIKey, nil)))
	case "cartesia":
		c := a.TTSCartesia
		l.room(section, errors.Join(a.TTSCartesiaConfig().Validate(), l.keyed(section, c.BaseURL, "api.cartesia.ai", c.APIKey, nil)))
	case "elevenlabs":
		e := a.TTSElevenLabs
		if e.SpeakerBoost != "" {
			l.choice(section+".speaker_boost", e.SpeakerBoost, []string{"on", "off"})
		}
		l.room(section, errors.Join(a.TTSElevenLabsConfig().Validate(),
			l.keyed(section, e.BaseURL, "api.elevenlabs.io", e.APIKey, nil)))
	}
}

// fallbacks checks a provider and those that take over from it.
func (l *loader) fallbacks(section, provider string, others, known []string) {
	l.choice(section+".provider", provider, known)
	for i, name := range others {
		l.choice(section+".fallback", name, known)
		if name == provider || slices.Index(others, name) < i {
			l.wrong(section+".fallback", fmt.Sprintf("%q is named twice", name))
		}
	}
}
