package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"parley/agent"
	"parley/agent/cascade"
	"parley/agent/echo"
	"parley/agent/llm"
	"parley/agent/llm/httpagent"
	"parley/agent/llm/script"
	"parley/agent/session"
	"parley/agent/stream"
	"parley/agent/stt"
	"parley/agent/tts"
	"parley/agent/tts/prepared"
	"parley/call"
	"parley/config"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/media/opus"
	"parley/media/vad"
	"parley/media/vad/silero"
	"parley/media/wav"
)

// plugs are the concrete parts that a configuration names. The files plugs*.go are the
// only ones that know them.
type plugs struct {
	cfg     *config.Config
	log     *zap.Logger
	codecs  []media.Codec
	routes  *call.Routes            // nil: all calls are the default agent's
	agents  map[string]agent.Opener // by name
	pool    *vad.Pool               // nil: loudness alone
	energy  vad.EnergyConfig
	about   []zap.Field // the parts' names, for the log
	notes   []string    // what is missing, with the remedy
	unheard []error     // words of scripts that the recogniser does not know
	undo    []func()

	libraries map[config.Retrieval]*library

	phrases []*prepared.Voice // to be made when the gateway runs

	recorder *session.Recorder // nil: nothing is recorded
	tools    *workshop

	// What agents share whose settings are alike.
	recognizers []part[stt.Recognizer]
	voices      []part[tts.Voice]
	switches    switches
}

// plug makes the parts that cfg names. Its errors begin with the place and the key to
// change.
func plug(cfg *config.Config, log *zap.Logger) (_ *plugs, err error) {
	p := &plugs{
		cfg: cfg, log: log, energy: cfg.VAD.EnergyConfig, agents: map[string]agent.Opener{}, tools: newWorkshop(cfg),
		libraries: map[config.Retrieval]*library{},
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.codecs, err = codecs(cfg); err != nil {
		return nil, err
	}
	if err := p.plugVAD(cfg.VAD, log); err != nil {
		return nil, err
	}
	if p.routes, err = cfg.Routes(); err != nil {
		return nil, err
	}
	return p, p.plugAgents()
}

// close frees the parts, last first.
func (p *plugs) close() {
	for i := len(p.undo) - 1; i >= 0; i-- {
		p.undo[i]()
	}
	p.undo = nil
}

// voice makes the detector of one call.
func (p *plugs) voice(rate int) (vad.Detector, error) {
	c := p.energy
	c.Rate = rate
	return p.pool.Detector(c)
}

// codecs finds codecs by name.
func codecs(cfg *config.Config) ([]media.Codec, error) {
	var out []media.Codec
	for _, name := range cfg.Call.Codecs {
		switch strings.ToUpper(name) {
		case "PCMU":
			out = append(out, g711.PCMU())
		case "PCMA":
			out = append(out, g711.PCMA())
		case "G722":
			out = append(out, g722.G722())
		case "OPUS":
			codec, err := opus.Opus(cfg.Opus)
			if err != nil {
				return nil, err // it names the section
			}
			out = append(out, codec)
		default:
			return nil, fmt.Errorf("call.codecs: no codec %q", name)
		}
	}
	return out, nil
}

// plugVAD starts the neural detector, when it is wanted and there.
func (p *plugs) plugVAD(cfg config.VAD, log *zap.Logger) error {
	kind := "energy"
	defer func() { p.about = append(p.about, zap.String("vad", kind)) }()
	if cfg.Kind == "energy" {
		return nil
	}
	weights, err := findWeights(cfg.Weights)
	if err != nil && cfg.Kind == "auto" && cfg.Weights == "" {
		p.notes = append(p.notes, "the weights of the neural voice detector are missing, so voices are told from noise by loudness; `make weights` fetches them, vad.kind = \"energy\" silences this")
		return nil
	}
	if err != nil {
		return fmt.Errorf("vad.weights: %w", err)
	}
	var models []vad.Model
	for _, rate := range []int{8000, 16000} {
		m, err := silero.Load(weights, rate)
		if err != nil {
			return fmt.Errorf("vad.weights: %w", err)
		}
		models = append(models, m)
	}
	if p.pool, err = vad.NewPool(vad.PoolConfig{}, models...); err != nil {
		return fmt.Errorf("vad: %w", err)
	}
	p.undo = append(p.undo, p.pool.Close)
	kind = "silero"
	log.Debug("neural voice detector", zap.String("weights", weights))
	return nil
}

// plugAgents makes all agents that calls may come to.
func (p *plugs) plugAgents() error {
	var errs []error
	for _, name := range p.needed() {
		prefix := ""
		if name != config.DefaultAgent {
			prefix = "agents." + name + "."
		}
		opener, err := p.assistant(prefix, p.cfg.AgentNamed(name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.agents[name] = p.tools.attend(p.cfg.AgentNamed(name), opener)
	}
	return errors.Join(errs...)
}

// assistant makes one agent, of the sections behind prefix.
func (p *plugs) assistant(prefix string, a *config.Assistant) (agent.Opener, error) {
	p.about = append(p.about, zap.String(prefix+"agent", a.LLM.Provider))
	if a.LLM.Provider == "echo" {
		opener, err := echo.New(a.Echo)
		return opener, p.cfg.Complain(prefix+"echo", err)
	}
	if a.LLM.Provider == "stream" {
		opener, err := stream.New(a.StreamConfig())
		return opener, p.cfg.Complain(prefix+"stream", err)
	}
	if a.LLM.Provider == "openai-realtime" || a.LLM.Provider == "gemini-live" {
		return p.realtime(prefix, a)
	}
	c := a.CascadeConfig()
	recognizer, err1 := p.recognizer(prefix, a)
	voice, err2 := p.speaker(prefix, a)
	model, err3 := p.model(prefix, a)
	if err := errors.Join(err1, err2, err3); err != nil {
		if !embeddedSpeech && embedded(a) {
			err = errors.Join(err, errors.New("this build has no speech inside: run deploy/install-deps.sh build and build with CGO_ENABLED=1, or set llm.provider = \"echo\" to try the line"))
		}
		return nil, err
	}
	follows, scripted := model.(*script.Provider)
	limited, ok := recognizer.(interface{ Knows(word string) bool }) // only words of its dictionary
	if scripted && ok {
		for _, m := range follows.Unknown(limited.Knows) {
			p.unheard = append(p.unheard, m)
		}
	}
	c.STT, c.TTS, c.LLM = recognizer, p.ready(voice, c.Phrases()...), model
	p.about = append(p.about, zap.Strings(prefix+"stt", a.STT.All()), zap.Strings(prefix+"tts", a.TTS.All()))
	opener, err := cascade.New(c)
	return opener, p.cfg.Complain(prefix+"conversation", err)
}

// model makes who thinks up the replies.
func (p *plugs) model(prefix string, a *config.Assistant) (llm.Provider, error) {
	switch a.LLM.Provider {
	case "script":
		provider, err := script.New(script.Config{File: a.Script.File})
		if mistakes, ok := errors.AsType[script.Mistakes](err); ok {
			return nil, mistakes // with places of their own
		}
		if err != nil {
			return nil, p.cfg.Complain(prefix+"script", fmt.Errorf("file: %w", err))
		}
		return provider, nil
	case "agent":
		cfg := a.AgentConfig()
		tokens, err := p.identityTokens()
		if err != nil {
			return nil, err
		}
		cfg.Identity = tokens
		index, err := p.library(prefix, a)
		if err != nil {
			return nil, err
		}
		if index != nil {
			cfg.Retrieve = func(ctx context.Context, _ llm.Conversation, text string) ([]string, error) {
				if len(strings.Fields(text)) < a.Retrieval.MinWords {
					return nil, nil
				}
				return index.Search(ctx, text, a.Retrieval.Limit)
			}
		}
		provider, err := httpagent.New(cfg)
		if err != nil {
			return nil, p.cfg.Complain(prefix+"agent", err)
		}
		p.undo = append(p.undo, provider.Close)
		return provider, nil
	case "openai", "ollama":
		return p.builtIn(prefix, a)
	}
	return nil, p.cfg.Complain(prefix+"llm", fmt.Errorf("provider: no provider %q", a.LLM.Provider))
}

// soundFile begins a file of a recording.
func soundFile(format, path string, rate int) (call.SoundFile, error) {
	switch format {
	case "wav":
		return wav.Create(path, rate, 2)
	case "opus":
		return opus.Create(path, rate, opus.DefaultFileConfig())
	}
	return nil, fmt.Errorf("recording.format: no format %q", format)
}

// maxPrompt bounds what is read of a sound for callers: a minute at 48 kHz.
const maxPrompt = 60 * 48000

// prompt reads a sound that is played to callers, and its rate in Hz.
func prompt(file string) (pcm []int16, rate int, err error) {
	pcm, f, err := wav.ReadFile(file, maxPrompt)
	if err == nil && f.Channels != 1 {
		err = fmt.Errorf("has %d channels, must have one", f.Channels)
	}
	return pcm, f.Rate, err
}
