package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"parley/agent/llm/ollama"
	"parley/agent/llm/openai"
	"parley/agent/llm/runtime"
	"parley/agent/stream"
)

// unset is a number that is the service's own.
const unset = -1

// OpenAI is the model of llm.provider "openai": any service that speaks OpenAI's chat
// completions.
type OpenAI struct {
	// APIKey goes into the Authorization header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile string
	// Headers go with each request besides.
	Headers map[string]Secret
	// Temperature is between 0 and 2; -1: the service's own.
	Temperature float64
	// Usage asks the service for the number of tokens.
	Usage         bool
	openai.Config `hide:"api_key,header,temperature,no_usage,embedding_model,embedding_dimensions"`
}

// Ollama is the model of llm.provider "ollama": any service that speaks Ollama's API.
type Ollama struct {
	// APIKey goes into the Authorization header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile string
	// Headers go with each request besides.
	Headers map[string]Secret
	// Temperature is between 0 and 2; -1: the model's own.
	Temperature   float64
	ollama.Config `hide:"api_key,header,temperature,embedding_model"`
}

// Runtime is how the built-in agent behaves, over whichever model.
type Runtime struct {
	// SystemFile names a file that holds System.
	SystemFile string
	// Memory tells the model what is known of the caller, MemoryTools lets it remember
	// more, MemorySummary keeps a summary of the call, in MemorySummaryTime at most.
	Memory            bool
	MemoryTools       bool
	MemorySummary     bool
	MemorySummaryTime time.Duration
	// MemoryVerifiedOnly leaves callers without a memory whose identity was not proved.
	MemoryVerifiedOnly bool
	// SummaryTokens, SummaryMessages, SummaryKeep and SummaryTimeout are those of
	// runtime.SummaryConfig. SummaryModel is another model of the same service for it.
	SummaryTokens   int
	SummaryMessages int
	SummaryKeep     int
	SummaryTimeout  time.Duration
	SummaryModel    string
	runtime.Config  `hide:"memory,max_tokens,temperature,tool_timeout,speak_questions"`
}

// Stream is your own agent that takes the sound itself, of llm.provider "stream".
type Stream struct {
	// APIKey goes into the Authorization header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile string
	// AuthToken signs the address, in X-Twilio-Signature. Empty: nothing is signed.
	AuthToken Secret
	// AuthTokenFile names a file that holds it.
	AuthTokenFile string
	stream.Config `hide:"api_key,auth_token,secret_digits"`
}

func defaultOpenAI() OpenAI {
	return OpenAI{Temperature: unset, Usage: true, Config: openai.DefaultConfig()}
}

func defaultOllama() Ollama { return Ollama{Temperature: unset, Config: ollama.DefaultConfig()} }

func defaultRuntime() Runtime {
	c := runtime.DefaultConfig()
	return Runtime{
		Memory: c.Memory.Tell, MemoryTools: c.Memory.Tools, MemorySummary: c.Memory.KeepSummary, MemorySummaryTime: c.Memory.SummaryTime,
		SummaryTokens: c.Summary.MaxTokens, SummaryMessages: c.Summary.MaxMessages, SummaryKeep: c.Summary.Keep, SummaryTimeout: c.Summary.Timeout,
		Config: c,
	}
}

// revealed are headers with their secrets.
func revealed(headers map[string]Secret) map[string]string {
	out := make(map[string]string, len(headers))
	for name, value := range headers {
		out[name] = value.Reveal()
	}
	return out
}

// optional is nil for the service's own.
func optional(n float64) *float64 {
	if n == unset {
		return nil
	}
	return &n
}

// OpenAIConfig is the configuration of the model of "openai". model takes the place of
// the configured one unless it is empty.
func (a *Assistant) OpenAIConfig(model string) openai.Config {
	out := a.OpenAI.Config
	out.APIKey, out.Header = a.OpenAI.APIKey.Reveal(), revealed(a.OpenAI.Headers)
	out.Temperature, out.NoUsage = optional(a.OpenAI.Temperature), !a.OpenAI.Usage
	out.Model = cmp.Or(model, out.Model)
	return out
}

// OllamaConfig is the configuration of the model of "ollama". model takes the place of
// the configured one unless it is empty.
func (a *Assistant) OllamaConfig(model string) ollama.Config {
	out := a.Ollama.Config
	out.APIKey, out.Header, out.Temperature = a.Ollama.APIKey.Reveal(), revealed(a.Ollama.Headers), optional(a.Ollama.Temperature)
	out.Model = cmp.Or(model, out.Model)
	return out
}

// RuntimeConfig is the configuration of the built-in agent, with the text of SystemFile.
func (a *Assistant) RuntimeConfig() (runtime.Config, error) {
	r, out := a.Runtime, a.Runtime.Config
	out.Memory = runtime.MemoryConfig{Tell: r.Memory, Tools: r.MemoryTools, KeepSummary: r.MemorySummary, SummaryTime: r.MemorySummaryTime, VerifiedOnly: r.MemoryVerifiedOnly}
	out.Summary = runtime.SummaryConfig{MaxTokens: r.SummaryTokens, MaxMessages: r.SummaryMessages, Keep: r.SummaryKeep, Timeout: r.SummaryTimeout}
	out.Retrieval = runtime.RetrievalConfig{Limit: a.Retrieval.Limit, MinWords: a.Retrieval.MinWords, Wait: a.Retrieval.Wait}
	out.ToolTimeout, out.SpeakQuestions = a.Tools.Timeout, a.Tools.Verbatim
	system, err := instructions(out.System, r.SystemFile)
	out.System = system
	return out, err
}

// maxInstructions is the most bytes of a file of instructions.
const maxInstructions = 256 << 10

// instructions are a text, or those of a file.
func instructions(text, file string) (string, error) {
	if file == "" {
		return text, nil
	}
	read, err := os.ReadFile(file)
	if err != nil {
		return text, fmt.Errorf("system_file: %w", err)
	}
	if len(read) > maxInstructions {
		return text, fmt.Errorf("system_file: %s has %d bytes, at most %d", file, len(read), maxInstructions)
	}
	return strings.TrimSpace(string(read)), nil
}

// StreamConfig is the configuration of an agent that takes the sound itself.
func (a *Assistant) StreamConfig() stream.Config {
	out := a.Stream.Config
	out.APIKey, out.AuthToken, out.SecretDigits = a.Stream.APIKey.Reveal(), a.Stream.AuthToken.Reveal(), a.Conversation.SecretDigits
	return out
}

// keyed says that the service of a section wants a key and has none. A file of it that
// cannot be read was told of.
func (l *loader) keyed(section, base, host string, key Secret, headers map[string]Secret) error {
	if key.Reveal() != "" || len(headers) > 0 || !strings.Contains(base, "//"+host) || l.fromFile(section) {
		return nil
	}
	return fmt.Errorf("api_key: must be set for %s: in PARLEY_%s_API_KEY, or by api_key_file", host, variable(section))
}

// fromFile says that the key of a section comes from a file.
func (l *loader) fromFile(section string) bool {
	from, ok := l.find(section + ".api_key_file")
	return ok && from.value.String() != ""
}

// validateModel asks the rooms about the model that an agent has.
func (l *loader) validateModel(prefix string, a *Assistant) {
	switch a.LLM.Provider {
	case "openai":
		l.room(prefix+"openai", errors.Join(a.OpenAIConfig("").Validate(),
			l.keyed(prefix+"openai", a.OpenAI.BaseURL, "api.openai.com", a.OpenAI.APIKey, a.OpenAI.Headers)))
	case "ollama":
		l.room(prefix+"ollama", a.OllamaConfig("").Validate())
	case "stream":
		l.room(prefix+"stream", a.StreamConfig().Validate())
	}
	l.validateRealtime(prefix, a)
	if a.thinks() {
		c, err := a.RuntimeConfig()
		l.room(prefix+"runtime", errors.Join(err, c.Validate()))
	}
}

// thinks says that the built-in agent runs over a model.
func (a *Assistant) thinks() bool { return a.LLM.Provider == "openai" || a.LLM.Provider == "ollama" }

// service is a section of an agent that names a service which wants secrets.
type service struct {
	// at are the keys that say which service is meant.
	at      []string
	secrets []*Secret
	files   []*string          // that hold secrets
	headers *map[string]Secret // may be nil
}

// services are those of an agent, by section.
func (a *Assistant) services() map[string]service {
	return map[string]service{
		"agent":           {[]string{"url"}, []*Secret{&a.Agent.APIKey}, []*string{&a.Agent.APIKeyFile}, nil},
		"openai":          {[]string{"base_url"}, []*Secret{&a.OpenAI.APIKey}, []*string{&a.OpenAI.APIKeyFile}, &a.OpenAI.Headers},
		"ollama":          {[]string{"base_url"}, []*Secret{&a.Ollama.APIKey}, []*string{&a.Ollama.APIKeyFile}, &a.Ollama.Headers},
		"realtime.openai": {[]string{"base_url"}, []*Secret{&a.RealtimeOpenAI.APIKey}, []*string{&a.RealtimeOpenAI.APIKeyFile}, nil},
		"retrieval":       {[]string{"embedder", "base_url"}, []*Secret{&a.Retrieval.APIKey}, []*string{&a.Retrieval.APIKeyFile}, nil},
		"realtime.gemini": {[]string{"base_url"}, []*Secret{&a.RealtimeGemini.APIKey}, []*string{&a.RealtimeGemini.APIKeyFile}, nil},
		"stt.deepgram":    {[]string{"base_url"}, []*Secret{&a.STTDeepgram.APIKey}, []*string{&a.STTDeepgram.APIKeyFile}, &a.STTDeepgram.Headers},
		"stt.openai":      {[]string{"base_url"}, []*Secret{&a.STTOpenAI.APIKey}, []*string{&a.STTOpenAI.APIKeyFile}, &a.STTOpenAI.Headers},
		"tts.cartesia":    {[]string{"base_url"}, []*Secret{&a.TTSCartesia.APIKey}, []*string{&a.TTSCartesia.APIKeyFile}, nil},
		"tts.openai":      {[]string{"base_url"}, []*Secret{&a.TTSOpenAI.APIKey}, []*string{&a.TTSOpenAI.APIKeyFile}, &a.TTSOpenAI.Headers},
		"tts.deepgram":    {[]string{"base_url"}, []*Secret{&a.TTSDeepgram.APIKey}, []*string{&a.TTSDeepgram.APIKeyFile}, nil},
		"tts.elevenlabs":  {[]string{"base_url"}, []*Secret{&a.TTSElevenLabs.APIKey}, []*string{&a.TTSElevenLabs.APIKeyFile}, nil},
		"stream":          {[]string{"url"}, []*Secret{&a.Stream.APIKey, &a.Stream.AuthToken}, []*string{&a.Stream.APIKeyFile, &a.Stream.AuthTokenFile}, nil},
	}
}

// parted takes from an agent the secrets that it has from the top level and that are not
// for the service of its own sections: one service's secrets are not for another. A
// file's secret was read already.
func (a *Assistant) parted(sections map[string]any) {
	for name, s := range a.services() {
		own := sections
		for part := range strings.SplitSeq(name, ".") {
			own, _ = own[part].(map[string]any)
		}
		elsewhere := false
		for _, key := range s.at {
			_, says := own[key]
			elsewhere = elsewhere || says
		}
		for i, secret := range s.secrets {
			key := secretKeys[i]
			_, text := own[key]
			_, file := own[key+"_file"]
			if elsewhere || text || file {
				*secret = Secret{}
			}
			*s.files[i] = ""
		}
		if elsewhere && s.headers != nil {
			*s.headers = nil
		}
	}
}

// secretKeys are the keys of service.secrets.
var secretKeys = []string{"api_key", "auth_token"}
