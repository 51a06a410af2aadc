package kit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/agent"
	"parley/agent/live"
	"parley/agent/tool"
	"parley/agent/turn"
)

// Voice speaks words of the gateway's own when the model cannot: mono at rate Hz, which
// is live.OutputRate or 8000, given to say in pieces, which may block. It returns with
// the first error of say, of ctx, or its own.
type Voice func(ctx context.Context, text string, rate int, say func(pcm []int16) error) error

// Config makes an agent for calls of a realtime model. Provider must be set; start from
// DefaultConfig for the rest.
//
// Instructions to the model (Opening, Reprompt, Goodbye, Resumed, GoOn) are told to it
// and not spoken as they are. What is empty is left out.
type Config struct {
	// Provider makes the connection to the model, one for each call. All that it makes
	// take the same encodings (live.Supporter); New makes one only to ask for them.
	Provider func() live.LiveProvider
	// Session is how each is set up. LocalCuts and Transcribe are always set.
	// LocalTurns has the gateway say when the caller's turn begins and ends, with
	// providers that can be told (live.TurnTaker); without it the service's voice
	// detection ends turns, and the gateway decides only what cuts a reply. Tools are
	// answered by nobody: use the field Tools. Wire must be PCM:
	// see PassThrough.
	Session live.LiveConfig
	// PassThrough gives the model the G.711 of a call as it comes from the network, and
	// the call what the model says, byte for byte, where the provider takes that
	// (live.Supporter) and the call begins with it: nothing is decoded, resampled or
	// coded again. A call that changes its codec goes on, converted here at 8 kHz.
	PassThrough bool
	// NoFacts leaves out of the instructions what is known of the call: direction, both
	// parties, X- headers of a trusted trunk, the context of an outbound call, the time,
	// and what is remembered of the caller.
	NoFacts bool

	// Turn says whose turn it is. With the service's own detection, SpeechTimeout and
	// SentenceTimeout do not matter.
	Turn turn.Config

	// Greeting is what the model says first, word for word. Opening is told to it in the
	// stead of a Greeting. Both empty: the caller speaks first.
	Greeting, Opening string
	// Reprompt is told when nobody has said anything for Turn.Idle, Goodbye before the
	// call is ended because of that.
	Reprompt, Goodbye string
	// Resumed is told when a connection was lost together with a reply.
	Resumed string
	// GoOn is told when a noise cut off a reply that had not come to its end; what the
	// caller heard of it follows.
	GoOn string
	// Keyed is the user's text that digits become; %s stands for them.
	Keyed string
	// SecretDigits leaves digits out of all events.
	SecretDigits bool

	// Tools are what the model may call, in every call.
	Tools *tool.ToolRegistry
	// CallTools makes tools anew for each call; nil: none.
	CallTools func(c agent.Call) []tool.Tool
	// Policy is what the model may do with its call.
	Policy tool.CallPolicy
	// Gate keeps calls of tools that need it until the caller has said yes. nil: one of
	// the agent's own.
	Gate *tool.Gate
	// Hooks are called for every call's session.
	Hooks LifecycleHooks

	// ReplyTimeout is how long the model may take to the first sound of a reply, tools
	// that run not counted. Then the connection is made anew, once in a row.
	ReplyTimeout time.Duration
	// Voice speaks Apology and Filler, and announcements to the call. Without one
	// Apology and Filler are not spoken.
	Voice Voice
	// Filler is spoken when a caller who waits has heard nothing for FillerAfter, and with
	// FillerTone a soft tone is played every two seconds from then on, or from FillerAfter
	// on where there is no Filler or no Voice. 0: never.
	Filler      string
	FillerTone  bool
	FillerAfter time.Duration
	// Apology is spoken when the model is gone for good.
	Apology string
	// LostTo is who the call is transferred to then: a number or URI, as the guardrails
	// of the trunk allow. Empty: the call is ended.
	LostTo string

	// NoAudio ends the caller's voice when no sound, not even silence, has come for so
	// long. 0: never.
	NoAudio time.Duration
	// Ahead bounds how much speech may wait to be spoken; then the model waits.
	Ahead time.Duration
}

// DefaultConfig is everything but the provider.
func DefaultConfig() Config {
	return Config{
		Session:     live.LiveConfig{Recovery: live.Recovery{Tries: 4, Budget: 10 * time.Second}},
		Turn:        turn.DefaultConfig(),
		PassThrough: true,
		Opening:     "Greet the caller in one short sentence and ask how you can help.",
		Reprompt: "The caller has said nothing for a while. Ask in a few words whether they are still there, " +
			"or repeat your last question.",
		Goodbye: "The caller does not answer any more. Say in one short sentence that you end the call, and goodbye.",
		Resumed: "The connection to the caller was interrupted for a moment, and your last reply or the caller's last " +
			"words may be lost. Say sorry in a few words, and go on; if you do not know what the caller wanted, ask.",
		GoOn:         "A noise on the line cut you off. Go on where you were, without a new greeting or an excuse. The caller heard: ",
		Keyed:        "I pressed these keys of my telephone: %s",
		ReplyTimeout: 10 * time.Second,
		FillerTone:   true,
		FillerAfter:  time.Second,
		Apology:      "I am sorry, I have lost my connection. Please call again later.",
		NoAudio:      time.Second,
		Ahead:        2 * time.Minute,
	}
}

// Validate says all that is wrong with c.
func (c Config) Validate() error {
	errs := []error{c.Session.Validate(), c.Turn.Validate()}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("kit: "+format, args...)) }
	if c.Provider == nil {
		errs = append(errs, errors.New("kit: a provider is needed"))
	}
	if c.Session.Wire != "" && c.Session.Wire != live.PCM16 {
		wrong("the wire of calls is pcm16, not %s", c.Session.Wire)
	}
	if len(c.Session.Tools) > 0 {
		wrong("tools of the session have nobody to answer them: use Tools")
	}
	if c.ReplyTimeout < time.Second {
		wrong("reply timeout %v is less than 1s", c.ReplyTimeout)
	}
	if c.FillerAfter < 0 || c.NoAudio < 0 || c.NoAudio > 0 && c.NoAudio < 100*time.Millisecond {
		wrong("filler after %v or no audio %v: negative, or less than 100ms", c.FillerAfter, c.NoAudio)
	}
	if c.Ahead < time.Second {
		wrong("ahead %v is less than 1s", c.Ahead)
	}
	if _, err := tool.CallTools(tool.NewLine(agent.Control(agent.NoControl{}), func() {}), c.Policy); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// New makes the agent for calls.
func New(cfg Config) (agent.Opener, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Gate == nil {
		cfg.Gate = tool.NewGate(tool.GateConfig{})
	}
	return &opener{cfg: cfg, passes: passesG711(cfg)}, nil
}

type opener struct {
	cfg    Config
	passes bool // calls of G.711 are to be given to the model as they are
}

// Format is what goes over the contract with providers.
func (o *opener) Format() agent.Format {
	return agent.Format{HearRate: live.InputRate, SayRate: live.OutputRate, Payloads: o.passes}
}
