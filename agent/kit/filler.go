package kit

import (
	"time"

	"parley/media/tone"
)

// toneEvery is from one soft tone to the next.
const toneEvery = 2 * time.Second

// silence is the wait of a caller for the model.
type silence struct {
	next   time.Time // when it is to be filled; zero: nobody waits
	phrase bool      // the phrase was said
	sought bool      // a tool has asked for the tone
}

// waits says whether the caller waits: for the service to have heard that they have
// finished, for a reply, for what a tool does, or for a new connection that has to make up
// for a reply.
func (s *conversation) waits() bool {
	for _, r := range s.replies {
		if !r.filler {
			return false
		}
	}
	switch {
	case s.closing || s.turns.Still():
		return false
	case s.turns.Open():
		return s.turns.Waiting()
	}
	return !s.expected.IsZero() || len(s.toolRuns) > 0 || s.away && s.lost
}

// fill fills the silence of a caller who waits: with the phrase, once, and then by a soft
// tone from time to time. A tool that asks for the tone has it at once and whatever is
// configured: it has waited by itself.
func (s *conversation) fill(now time.Time) {
	phrase := s.cfg.Voice != nil && s.cfg.Filler != ""
	sought := s.thinking > 0
	configured := s.cfg.FillerAfter > 0 && (phrase || s.cfg.FillerTone)
	if !configured && !sought || !s.waits() {
		s.silence = silence{}
		return
	}
	q := &s.silence
	switch {
	case sought && !q.sought && len(s.replies) == 0:
		q.sought, q.next = true, now.Add(toneEvery)
		s.soften()
	case q.next.IsZero() && s.cutOff.reply != nil: // it may go on soon
		q.next = now.Add(max(s.cfg.FillerAfter, s.cfg.Turn.FalseTimeout))
	case q.next.IsZero():
		q.next = now.Add(s.cfg.FillerAfter)
	case now.Before(q.next) || len(s.replies) > 0:
	case configured && phrase && !q.phrase:
		q.phrase, q.next = true, now.Add(toneEvery)
		s.ownReply(s.cfg.Filler, true, nil)
	case configured && s.cfg.FillerTone || sought:
		q.next = now.Add(toneEvery)
		s.soften()
	}
}

// fillDue is when fill has something to do; zero: never, as things are.
func (s *conversation) fillDue() time.Time {
	if len(s.replies) > 0 || s.silence.phrase && !s.cfg.FillerTone && s.thinking == 0 {
		return time.Time{}
	}
	return s.silence.next
}

// soften plays the soft tone.
func (s *conversation) soften() {
	r := s.ownSound(true)
	s.speech.add(chunk{reply: r, pcm: tone.Waiting(int(s.sound.says))})
	s.speech.add(chunk{reply: r, last: true})
}
