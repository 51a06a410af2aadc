package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"go.uber.org/zap"

	"parley/agent/stt"
	sttdeepgram "parley/agent/stt/deepgram"
	sttfailover "parley/agent/stt/failover"
	sttopenai "parley/agent/stt/openai"
	"parley/agent/stt/pocketsphinx"
	"parley/agent/tts"
	"parley/agent/tts/cartesia"
	ttsdeepgram "parley/agent/tts/deepgram"
	"parley/agent/tts/elevenlabs"
	ttsfailover "parley/agent/tts/failover"
	"parley/agent/tts/flite"
	ttsopenai "parley/agent/tts/openai"
	"parley/api"
	"parley/config"
)

// part is a recogniser or a voice that agents with the same settings share.
type part[T any] struct {
	settings any // a room's Config
	made     T
}

// shared is the part of these settings, made when there is none.
func shared[T any](parts *[]part[T], settings any, make func() (T, error)) (T, error) {
	for _, p := range *parts {
		if reflect.DeepEqual(p.settings, settings) {
			return p.made, nil
		}
	}
	made, err := make()
	if err == nil {
		*parts = append(*parts, part[T]{settings, made})
	}
	return made, err
}

// recognizer makes what hears words: the agent's recogniser, and those that take over.
func (p *plugs) recognizer(prefix string, a *config.Assistant) (stt.Recognizer, error) {
	var choices []sttfailover.Choice
	var errs []error
	for _, name := range a.STT.All() {
		r, err := p.oneRecognizer(prefix, name, a)
		errs = append(errs, err)
		choices = append(choices, sttfailover.Choice{Name: name, Recognizer: r})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(choices) == 1 {
		return choices[0].Recognizer, nil
	}
	cfg := a.STTFailover.Config
	cfg.OnSwitch = p.switching("stt", prefix)
	r, err := sttfailover.New(cfg, choices...)
	if err != nil {
		return nil, p.cfg.Complain(prefix+"stt.failover", err)
	}
	return r, nil
}

// oneRecognizer makes one recogniser.
func (p *plugs) oneRecognizer(prefix, name string, a *config.Assistant) (stt.Recognizer, error) {
	switch name {
	case "pocketsphinx":
		c := a.RecognizerConfig()
		return shared(&p.recognizers, c, func() (stt.Recognizer, error) {
			r, err := pocketsphinx.New(c)
			if err != nil {
				return nil, p.cfg.Complain(prefix+"stt", err)
			}
			if c.Dictation {
				p.notes = append(p.notes, "pocketsphinx takes dictation: a third of the words will be wrong and each call takes 250 MB; good for trying things out, not for callers")
			}
			return r, nil
		})
	case "openai":
		return hearing(p, prefix+"stt.openai", a.STTOpenAIConfig(), sttopenai.New)
	case "deepgram":
		return hearing(p, prefix+"stt.deepgram", a.STTDeepgramConfig(), sttdeepgram.New)
	}
	return nil, p.cfg.Complain(prefix+"stt", fmt.Errorf("provider: no recogniser %q", name))
}

// speaker makes what speaks words: the agent's voice, and those that take over.
func (p *plugs) speaker(prefix string, a *config.Assistant) (tts.Voice, error) {
	var choices []ttsfailover.Choice
	var errs []error
	for _, name := range a.TTS.All() {
		voice, err := p.oneVoice(prefix, name, a)
		errs = append(errs, err)
		choices = append(choices, ttsfailover.Choice{Name: name, Voice: voice})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(choices) == 1 {
		return choices[0].Voice, nil
	}
	cfg := a.TTSFailover.Config
	cfg.OnSwitch = p.switching("tts", prefix)
	voice, err := ttsfailover.New(cfg, choices...)
	if err != nil {
		return nil, p.cfg.Complain(prefix+"tts.failover", err)
	}
	return voice, nil
}

// oneVoice makes one voice.
func (p *plugs) oneVoice(prefix, name string, a *config.Assistant) (tts.Voice, error) {
	switch name {
	case "flite":
		return speaking(p, prefix+"tts", a.TTS.Config, flite.New)
	case "openai":
		return speaking(p, prefix+"tts.openai", a.TTSOpenAIConfig(), ttsopenai.New)
	case "deepgram":
		return speaking(p, prefix+"tts.deepgram", a.TTSDeepgramConfig(), ttsdeepgram.New)
	case "elevenlabs":
		return speaking(p, prefix+"tts.elevenlabs", a.TTSElevenLabsConfig(), elevenlabs.New)
	case "cartesia":
		return speaking(p, prefix+"tts.cartesia", a.TTSCartesiaConfig(), cartesia.New)
	}
	return nil, p.cfg.Complain(prefix+"tts", fmt.Errorf("provider: no voice %q", name))
}

// hearing is the recogniser of these settings.
func hearing[C any, R stt.Recognizer](p *plugs, section string, settings C, make func(C) (R, error)) (stt.Recognizer, error) {
	return shared(&p.recognizers, settings, func() (stt.Recognizer, error) {
		r, err := make(settings)
		if err != nil {
			return nil, p.cfg.Complain(section, err)
		}
		p.closeLater(r)
		return r, nil
	})
}

// speaking is the voice of these settings.
func speaking[C any, V tts.Voice](p *plugs, section string, settings C, make func(C) (V, error)) (tts.Voice, error) {
	return shared(&p.voices, settings, func() (tts.Voice, error) {
		voice, err := make(settings)
		if err != nil {
			return nil, p.cfg.Complain(section, err)
		}
		p.closeLater(voice)
		return voice, nil
	})
}

// closeLater has a part that wants to be closed closed with the others.
func (p *plugs) closeLater(part any) {
	if c, ok := part.(interface{ Close() }); ok {
		p.undo = append(p.undo, c.Close)
	}
}

// embedded says that an agent has a recogniser or a voice that is built in.
func embedded(a *config.Assistant) bool {
	return slices.Contains(a.STT.All(), "pocketsphinx") || slices.Contains(a.TTS.All(), "flite")
}

// switches counts which recognisers and voices failed, and who took over.
type switches struct {
	mu     sync.Mutex
	counts map[api.Switch]uint64
}

func (s *switches) add(of api.Switch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[api.Switch]uint64{}
	}
	s.counts[of]++
}

// all are the counts until now.
func (s *switches) all() map[api.Switch]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[api.Switch]uint64, len(s.counts))
	for of, n := range s.counts {
		out[of] = n
	}
	return out
}

// switching tells of a recogniser or a voice that failed, and of the next one.
func (p *plugs) switching(part, prefix string) func(failed, next string, err error) {
	section := prefix + part
	return func(failed, next string, err error) {
		p.switches.add(api.Switch{Part: part, From: failed, To: next})
		log := p.log.With(zap.String("section", section), zap.String("failed", failed), zap.Error(err))
		if next == "" {
			log.Error("speech service failed, and none is left to take over")
			return
		}
		log.Warn("speech service failed, another takes over", zap.String("next", next))
	}
}
