package main

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"parley/agent/tts"
	"parley/agent/tts/prepared"
)

// ready is a voice that has the phrases of an agent ready, for the case that it fails.
func (p *plugs) ready(voice tts.Voice, phrases ...string) tts.Voice {
	v := prepared.New(voice, phrases...)
	p.phrases = append(p.phrases, v)
	return v
}

// startPhrases makes the phrases in the background.
func (p *plugs) startPhrases(log *zap.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, v := range p.phrases {
		all.Go(func() {
			v.Keep(ctx, func(err error) {
				log.Warn("phrases that callers hear when something fails could not be prepared; it is tried again", zap.Error(err))
			})
		})
	}
	p.undo = append(p.undo, func() { cancel(); all.Wait() })
}
