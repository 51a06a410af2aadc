package main

import (
	"context"
	"fmt"
	"time"

	"parley/agent/tts"
	"parley/call"
)

// announcePatience is how long the voice may take for an announcement.
const announcePatience = 20 * time.Second

// announcement is what callers are told before the agent speaks: of a file, or by
// the voice of the top level's [tts].
func (p *plugs) announcement() (call.Announcement, error) {
	var a call.Announcement
	var err error
	switch r := p.cfg.Recording; {
	case r.AnnounceFile != "":
		if a.PCM, a.Rate, err = prompt(r.AnnounceFile); err != nil {
			return a, p.cfg.Complain("recording", fmt.Errorf("announce_file: %w", err))
		}
	case r.Announce != "":
		voice, err := p.speaker("", &p.cfg.Assistant)
		if err != nil {
			return a, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), announcePatience)
		defer cancel()
		a.Rate = voice.Rate()
		err = voice.Speak(ctx, r.Announce, func(c tts.Chunk) error {
			a.PCM = append(a.PCM, c.PCM...)
			return nil
		})
		if err == nil && len(a.PCM) == 0 {
			err = fmt.Errorf("%q is nothing that can be said", r.Announce)
		}
		if err != nil {
			return a, p.cfg.Complain("recording", fmt.Errorf("announce: %w", err))
		}
	}
	return a, nil
}
