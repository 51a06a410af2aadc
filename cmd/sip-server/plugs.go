package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"parley/agent"
	"parley/agent/cascade"
	"parley/agent/echo"
	"parley/agent/llm"
	"parley/agent/llm/httpagent"
	"parley/agent/llm/script"
	"parley/agent/stt"
	"parley/agent/stt/pocketsphinx"
	"parley/agent/tts"
	"parley/agent/tts/flite"
	"parley/call"
	"parley/config"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/media/opus"
	"parley/media/vad"
	"parley/media/vad/silero"
)

// plugs are the concrete parts that a configuration names. This file is the only
// one that knows them.
type plugs struct {
	codecs []media.Codec
	opener agent.Opener
	pool   *vad.Pool // nil: loudness alone
	energy vad.EnergyConfig
	about  []zap.Field // the parts' names, for the log
	notes  []string    // what is missing, with the remedy
	undo   []func()
}

// plug makes the parts that cfg names. Its errors begin with the key to change.
func plug(cfg *config.Config, log *zap.Logger) (_ *plugs, err error) {
	p := &plugs{energy: cfg.VAD.EnergyConfig}
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
	return p, p.plugAgent(cfg)
}

// close frees the parts, last first.
func (p *plugs) close() {
	for i := len(p.undo) - 1; i >= 0; i-- {
		p.undo[i]()
	}
	p.undo = nil
}

// route gives every call to the one agent there is.
func (p *plugs) route(call.Request) (call.Routed, bool) { return call.Routed{Opener: p.opener}, true }

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

// findWeights is the file with silero's weights: the named one, or where
// deploy/weights/fetch-silero.sh puts it, seen from the working folder and from
// the program.
func findWeights(named string) (string, error) {
	if named != "" {
		_, err := os.Stat(named)
		return named, err
	}
	const file = "silero_vad.onnx"
	places := []string{filepath.Join(".cache", file)}
	if cache, err := os.UserCacheDir(); err == nil {
		places = append(places, filepath.Join(cache, "parley", file))
	}
	if self, err := os.Executable(); err == nil {
		places = append(places, filepath.Join(filepath.Dir(self), "..", ".cache", file))
	}
	places = append(places, filepath.Join("/usr/local/share/parley", file), filepath.Join("/usr/share/parley", file))
	for _, place := range places {
		if _, err := os.Stat(place); err == nil {
			return place, nil
		}
	}
	return "", fmt.Errorf("%s is in none of %s", file, strings.Join(places, ", "))
}

// plugAgent makes the agent of all calls.
func (p *plugs) plugAgent(cfg *config.Config) error {
	p.about = append(p.about, zap.String("agent", cfg.LLM.Provider))
	if cfg.LLM.Provider == "echo" {
		opener, err := echo.New(cfg.Echo)
		p.opener = opener
		return err
	}
	c := cfg.CascadeConfig()
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	var err error
	c.STT, err = p.recognizer(cfg)
	note(err)
	c.TTS, err = speaker(cfg.TTS)
	note(err)
	c.LLM, err = p.model(cfg)
	note(err)
	if len(errs) > 0 {
		if !embeddedSpeech {
			errs = append(errs, errors.New("this build has no speech inside: run deploy/install-deps.sh build and build with CGO_ENABLED=1, or set llm.provider = \"echo\" to try the line"))
		}
		return errors.Join(errs...)
	}
	p.about = append(p.about, zap.String("stt", cfg.STT.Provider), zap.String("tts", cfg.TTS.Provider+"/"+cfg.TTS.Voice))
	p.opener, err = cascade.New(c)
	return err
}

// model makes who thinks up the replies.
func (p *plugs) model(cfg *config.Config) (llm.Provider, error) {
	switch cfg.LLM.Provider {
	case "script":
		provider, err := script.New(script.Config{File: cfg.Script.File})
		if err != nil {
			return nil, fmt.Errorf("script.file: %w", err)
		}
		return provider, nil
	case "agent":
		provider, err := httpagent.New(cfg.AgentConfig())
		if err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
		p.undo = append(p.undo, provider.Close)
		return provider, nil
	}
	return nil, fmt.Errorf("llm.provider: no provider %q", cfg.LLM.Provider)
}

// recognizer makes what hears words.
func (p *plugs) recognizer(cfg *config.Config) (stt.Recognizer, error) {
	switch cfg.STT.Provider {
	case "pocketsphinx":
		c := cfg.RecognizerConfig()
		r, err := pocketsphinx.New(c)
		if err != nil {
			return nil, fmt.Errorf("stt: %w", err)
		}
		if c.Dictation {
			p.notes = append(p.notes, "pocketsphinx takes dictation: a third of the words will be wrong and each call takes 250 MB; good for trying things out, not for callers")
		}
		return r, nil
	}
	return nil, fmt.Errorf("stt.provider: no recogniser %q", cfg.STT.Provider)
}

// speaker makes what speaks words.
func speaker(cfg config.TTS) (tts.Voice, error) {
	switch cfg.Provider {
	case "flite":
		voice, err := flite.New(cfg.Config)
		if err != nil {
			return nil, fmt.Errorf("tts: %w", err)
		}
		return voice, nil
	}
	return nil, fmt.Errorf("tts.provider: no voice %q", cfg.Provider)
}
