package stream

import (
	"errors"
	"time"

	"parley/agent"
	"parley/media"
)

// What is said at a time, and when a reply counts as complete: sound that ends amid a
// packet waits for more until the agent has paused for so long, and then until so much
// is left to be played.
const (
	pieceTime = 100 * time.Millisecond
	feedPause = 60 * time.Millisecond
	tailTime  = 40 * time.Millisecond
	leastWait = 10 * time.Millisecond
)

// speak says what the agent wants said. Say waits for the call to play it.
func (s *session) speak() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	most := int(samples(pieceTime, s.rate)) * s.speech.width
	pcm := make([]int16, 0, samples(pieceTime, s.rate))
	open := false // something was said that was not flushed
	for {
		p, ok := s.speech.next(most)
		if ok {
			err := s.utter(p, pcm)
			switch {
			case err == nil:
				s.speech.done(p)
				open = true
			case s.life.Err() != nil, errors.Is(err, agent.ErrClosed):
				return
			case p.ctx.Err() != nil, errors.Is(err, agent.ErrStopped): // a clear
			default:
				if s.send(s.life, fault{err}) != nil {
					return
				}
			}
			continue
		}
		timer.Stop()
		if open {
			wait := s.flushIn(time.Now())
			if wait <= 0 {
				s.call.Speaker.Flush()
				open = false
				continue
			}
			timer.Reset(max(wait, leastWait))
		}
		select {
		case <-s.speech.more:
		case <-timer.C:
		case <-s.life.Done():
			return
		}
	}
}

// utter says one piece, as it is if the call takes it so.
func (s *session) utter(p piece, pcm []int16) error {
	if s.payload != nil {
		if err := s.payload.SayPayload(p.ctx, mulaw, p.sound); !errors.Is(err, agent.ErrEncoding) {
			return err
		}
	}
	return s.call.Speaker.Say(p.ctx, s.dialect.say(pcm[:0], p.sound))
}

// flushIn is how long the end of what was said waits for more.
func (s *session) flushIn(now time.Time) time.Duration {
	said, last := s.speech.tail()
	left := media.Duration(int(said), s.rate) - s.call.Speaker.Played()
	return max(feedPause-now.Sub(last), left-tailTime)
}

// fault: the call takes no speech.
type fault struct{ err error }

func (f fault) happen(s *session) { s.finish(f.err) }
