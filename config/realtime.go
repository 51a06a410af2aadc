package config

import (
	"errors"
	"time"

	"parley/agent/kit"
	"parley/agent/live"
	"parley/agent/live/gemini"
	"parley/agent/live/openai"
)

// Realtime is how agents of realtime models behave.
type Realtime struct {
	// System is who the agent is and what it does, SystemFile a file that holds it.
	System     string
	SystemFile string
	// Temperature is the model's; -1: the service's own.
	Temperature float64
	// LocalTurns has the gateway say when turns begin and end, instead of the service.
	LocalTurns bool
	// PassThrough gives the model a call's own G.711, where the service takes it.
	PassThrough bool
	// Memory tells the model what is known of the call and its caller.
	Memory bool
	// ReconnectTries and ReconnectBudget are how a lost connection is made anew.
	ReconnectTries  int
	ReconnectBudget time.Duration
	// The others are those of kit.Config.
	Opening      string
	Reprompt     string
	Goodbye      string
	Resumed      string
	GoOn         string
	Keyed        string
	ReplyTimeout time.Duration
	FillerAfter  time.Duration
	Apology      string
	LostTo       string
	Ahead        time.Duration
}

// RealtimeOpenAI is the model of llm.provider "openai-realtime".
type RealtimeOpenAI struct {
	// APIKey goes into the Authorization header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile string
	// TurnDetection, Threshold, PrefixPadding, Silence and Eagerness are those of
	// openai.TurnDetection.
	TurnDetection string
	Threshold     float64
	PrefixPadding time.Duration
	Silence       time.Duration
	Eagerness     string
	openai.Config `hide:"api_key,turn_detection"`
}

// RealtimeGemini is the model of llm.provider "gemini-live".
type RealtimeGemini struct {
	// APIKey goes into the x-goog-api-key header. Empty: none is sent.
	APIKey Secret
	// APIKeyFile names a file that holds it.
	APIKeyFile string
	// Start, End, PrefixPadding and Silence are those of gemini.TurnDetection.
	Start         string
	End           string
	PrefixPadding time.Duration
	Silence       time.Duration
	gemini.Config `hide:"api_key,turn_detection"`
}

func defaultRealtime() Realtime {
	c := kit.DefaultConfig()
	return Realtime{
		System: "You are a friendly and helpful assistant.", Temperature: unset, LocalTurns: true, PassThrough: c.PassThrough, Memory: true,
		ReconnectTries: c.Session.Recovery.Tries, ReconnectBudget: c.Session.Recovery.Budget,
		Opening: c.Opening, Reprompt: c.Reprompt, Goodbye: c.Goodbye, Resumed: c.Resumed, GoOn: c.GoOn, Keyed: c.Keyed,
		ReplyTimeout: c.ReplyTimeout, FillerAfter: c.FillerAfter, Apology: c.Apology, LostTo: c.LostTo, Ahead: c.Ahead,
	}
}

func defaultRealtimeOpenAI() RealtimeOpenAI {
	c := openai.DefaultConfig()
	return RealtimeOpenAI{TurnDetection: c.TurnDetection.Mode, Config: c}
}

// RealtimeConfig is the configuration of an agent of a realtime model, but for its
// provider, its tools and its voice.
func (a *Assistant) RealtimeConfig() (kit.Config, error) {
	r, out := a.Realtime, kit.DefaultConfig()
	out.Opening, out.Reprompt, out.Goodbye, out.Resumed, out.GoOn, out.Keyed = r.Opening, r.Reprompt, r.Goodbye, r.Resumed, r.GoOn, r.Keyed
	out.ReplyTimeout, out.FillerAfter, out.Apology, out.LostTo, out.Ahead = r.ReplyTimeout, r.FillerAfter, r.Apology, r.LostTo, r.Ahead
	system, err := instructions(r.System, r.SystemFile)
	out.Session = live.LiveConfig{
		Instructions: system, Language: a.Conversation.Language, Temperature: optional(r.Temperature), LocalTurns: r.LocalTurns,
		Recovery: live.Recovery{Tries: r.ReconnectTries, Budget: r.ReconnectBudget},
	}
	out.PassThrough, out.NoFacts = r.PassThrough, !r.Memory
	out.Turn = a.Turn
	out.Turn.Language = a.Conversation.Language
	out.Greeting, out.SecretDigits, out.NoAudio = a.Conversation.Greeting, a.Conversation.SecretDigits, a.Conversation.NoAudio
	out.Filler, out.FillerTone = a.Conversation.Filler, a.Conversation.FillerTone
	out.Policy = a.CallPolicy()
	return out, err
}

// RealtimeOpenAIConfig is the configuration of the model of "openai-realtime".
func (a *Assistant) RealtimeOpenAIConfig() openai.Config {
	r, out := a.RealtimeOpenAI, a.RealtimeOpenAI.Config
	out.APIKey = r.APIKey.Reveal()
	out.TurnDetection = openai.TurnDetection{
		Mode: r.TurnDetection, Threshold: r.Threshold, PrefixPadding: r.PrefixPadding, Silence: r.Silence, Eagerness: r.Eagerness,
	}
	return out
}

// RealtimeGeminiConfig is the configuration of the model of "gemini-live".
func (a *Assistant) RealtimeGeminiConfig() gemini.Config {
	r, out := a.RealtimeGemini, a.RealtimeGemini.Config
	out.APIKey = r.APIKey.Reveal()
	out.TurnDetection = gemini.TurnDetection{Start: r.Start, End: r.End, PrefixPadding: r.PrefixPadding, Silence: r.Silence}
	return out
}

// hearsItself says that a realtime model answers.
func (a *Assistant) hearsItself() bool {
	return a.LLM.Provider == "openai-realtime" || a.LLM.Provider == "gemini-live"
}

// validateRealtime asks the rooms about an agent of a realtime model.
func (l *loader) validateRealtime(prefix string, a *Assistant) {
	if !a.hearsItself() {
		return
	}
	c, err := a.RealtimeConfig()
	c.Provider = func() live.LiveProvider { return nil }      // the room wants one to be there
	c.Turn, c.NoAudio = kit.DefaultConfig().Turn, time.Second // sections of their own
	l.room(prefix+"realtime", errors.Join(err, c.Validate()))
	if a.LLM.Provider == "gemini-live" {
		g := a.RealtimeGemini
		l.room(prefix+"realtime.gemini", errors.Join(a.RealtimeGeminiConfig().Validate(),
			l.keyed(prefix+"realtime.gemini", g.BaseURL, "generativelanguage.googleapis.com", g.APIKey, nil)))
	}
	if a.LLM.Provider == "openai-realtime" {
		o := a.RealtimeOpenAI
		l.room(prefix+"realtime.openai", errors.Join(a.RealtimeOpenAIConfig().Validate(),
			l.keyed(prefix+"realtime.openai", o.BaseURL, "api.openai.com", o.APIKey, nil)))
	}
}
