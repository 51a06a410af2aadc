package live

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// outgoing is something for the provider.
type outgoing struct {
	send func(ctx context.Context, p LiveProvider) error
	// audio is how long it lasts, if it is audio; only so much of that is kept while
	// there is no connection.
	audio time.Duration
	// fleeting is not kept at all.
	fleeting bool
	sent     func(r *run) // notes that it was; mu is held
}

// SendAudio sends what the caller says: S16LE, mono, at InputRate, or of
// LiveConfig.Wire. Like all Send methods it does nothing and returns nil unless a
// conversation is held, and keeps what the provider cannot take while it connects. It
// does not keep pcm.
func (s *Session) SendAudio(pcm []byte) error {
	rate := int64(2 * InputRate)
	if w := s.wire(); w == PCMU || w == PCMA {
		rate = 8000
	}
	return s.send(outgoing{
		audio: max(1, time.Duration(int64(len(pcm))*int64(time.Second)/rate)),
		send:  func(ctx context.Context, p LiveProvider) error { return p.SendAudio(ctx, pcm) },
	}, func(it *outgoing) {
		own := append([]byte(nil), pcm...)
		it.send = func(ctx context.Context, p LiveProvider) error { return p.SendAudio(ctx, own) }
	})
}

// wire is the encoding of the conversation.
func (s *Session) wire() Encoding {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return ""
	}
	return s.run.cfg.Wire
}

// EndAudioStream says that no more audio comes for now.
func (s *Session) EndAudioStream() error {
	return s.send(outgoing{send: func(ctx context.Context, p LiveProvider) error { return p.EndAudioStream(ctx) }}, nil)
}

// SendText gives the model a text of the user's to answer.
func (s *Session) SendText(text string) error {
	return s.send(outgoing{
		send: func(ctx context.Context, p LiveProvider) error { return p.SendText(ctx, text) },
		sent: func(r *run) {
			r.remember(Said{Role: "user", Text: text})
			s.asked(r)
			r.silence.spoken(time.Now())
		},
	}, nil)
}

// Instruct has the model speak as instructions say; a provider that is no Instructor
// gets them as a text of the user's.
func (s *Session) Instruct(instructions string) error {
	return s.send(outgoing{
		send: func(ctx context.Context, p LiveProvider) error {
			if i, ok := p.(Instructor); ok {
				return i.Instruct(ctx, instructions)
			}
			return p.SendText(ctx, instructions)
		},
		sent: s.asked,
	}, nil)
}

// asked notes that the model was given something to answer; mu is held.
func (s *Session) asked(r *run) {
	switch s.state {
	case StateListening:
		s.process(r, time.Now())
	case StateConnecting, StateRecovering:
		r.owes = true
	}
}

// SendToolResponse answers tool calls.
func (s *Session) SendToolResponse(responses ...ToolResponse) error {
	var errs []error
	for _, response := range responses {
		errs = append(errs, s.send(outgoing{
			send: func(ctx context.Context, p LiveProvider) error { return p.SendToolResponse(ctx, response) },
			sent: func(r *run) {
				r.answered(response)
				s.asked(r)
				r.silence.spoken(time.Now())
			},
		}, nil))
	}
	return errors.Join(errs...)
}

// Activity says that the caller's turn begins or ends, when LiveConfig.LocalTurns is
// set and the provider is a TurnTaker.
func (s *Session) Activity(on bool) error {
	return s.send(outgoing{send: func(ctx context.Context, p LiveProvider) error {
		t, ok := p.(TurnTaker)
		switch {
		case !ok:
			return nil
		case on:
			return t.ActivityStart(ctx)
		}
		return t.ActivityEnd(ctx)
	}}, nil)
}

// Truncate tells the provider, if it is a Truncator, how much of an item was heard. A
// connection that is made anew has no items.
func (s *Session) Truncate(itemID string, played time.Duration) error {
	return s.send(outgoing{fleeting: true, send: func(ctx context.Context, p LiveProvider) error {
		if t, ok := p.(Truncator); ok {
			return t.Truncate(ctx, itemID, played)
		}
		return nil
	}}, nil)
}

// send sends now or keeps it for the next connection, made its own by keep.
func (s *Session) send(it outgoing, keep func(*outgoing)) error {
	s.mu.Lock()
	r := s.run
	if r == nil || r.ended || r.ctx.Err() != nil || s.state == StateDeactivating {
		s.mu.Unlock()
		return nil
	}
	if r.broken || r.flushing || !s.state.active() || s.state == StateRecovering {
		r.keep(it, keep)
		s.mu.Unlock()
		return nil
	}
	link := r.link
	s.mu.Unlock()
	err := guarded(func() error { return it.send(r.ctx, s.provider) })
	s.mu.Lock()
	defer s.tell()
	defer s.mu.Unlock()
	switch {
	case r.ended || r.ctx.Err() != nil:
		return nil
	case err == nil:
		if it.sent != nil {
			it.sent(r)
		}
		return nil
	case !isLost(err):
		return fmt.Errorf("live: %s: %w", s.provider.Name(), err)
	}
	r.keep(it, keep)
	switch {
	case s.state == StateRecovering || r.broken || r.flushing: // delivered with the rest
	case r.link == link:
		// Perhaps Receive does not see it: one that waits for what never comes.
		r.broken = true
		r.cut(errBroken)
	default: // the connection was made anew meanwhile
		r.late.Go(func() {
			if !s.flush(r, func() {}) {
				s.mu.Lock()
				defer s.mu.Unlock()
				r.broken = true
				r.cut(errBroken)
			}
		})
	}
	return nil
}

// keep keeps it for the next connection; mu is held.
func (r *run) keep(it outgoing, own func(*outgoing)) {
	if it.fleeting {
		return
	}
	if own != nil {
		own(&it)
	}
	r.pending = append(r.pending, it)
	if r.waiting += it.audio; it.audio == 0 {
		return
	}
	for i := 0; r.waiting > r.cfg.Recovery.Keep && i < len(r.pending); i++ {
		if old := r.pending[i]; old.audio > 0 {
			r.waiting -= old.audio
			r.pending = append(r.pending[:i], r.pending[i+1:]...)
			i--
		}
	}
}

// flush sends what was kept, in order, and says whether the connection took it. When
// nothing is left then runs, under mu, before anything else is sent.
func (s *Session) flush(r *run, then func()) bool {
	s.mu.Lock()
	defer s.tell()
	defer s.mu.Unlock()
	if r.flushing {
		return true // somebody is at it
	}
	r.flushing = true
	defer func() { r.flushing = false }()
	for len(r.pending) > 0 {
		if r.ended || r.ctx.Err() != nil {
			return false
		}
		it := r.pending[0]
		r.pending = r.pending[1:]
		r.waiting -= it.audio
		s.mu.Unlock()
		err := guarded(func() error { return it.send(r.ctx, s.provider) })
		s.mu.Lock()
		switch {
		case err == nil && it.sent != nil:
			it.sent(r)
		case err != nil && isLost(err):
			r.pending = append([]outgoing{it}, r.pending...)
			r.waiting += it.audio
			return false
		case err != nil:
			err = fmt.Errorf("live: %s: %w", s.provider.Name(), err)
			s.later(func() { s.report(err) })
		}
	}
	then()
	return true
}
