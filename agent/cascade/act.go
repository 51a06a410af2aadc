package cascade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/agent"
	"parley/agent/llm"
)

// maxAnnouncements bounds what waits to be announced.
const maxAnnouncements = 8

// act does what the model wants done to the call. The call waits for the peer, so a
// goroutine does; the conversation goes on meanwhile.
func (s *session) act(r *reply, a markedAction) {
	s.emitAction(a.Action)
	s.workers.Go(func() { s.post(s.life, acted{r, a, s.control(s.life, a.Action)}) })
}

// acted: an action was done, or could not be.
type acted struct {
	reply  *reply
	action markedAction
	err    error
}

func (e acted) happen(s *session) {
	defer close(e.action.done)
	if e.err == nil || errors.Is(e.err, agent.ErrClosed) {
		return // after a transfer the call is about to end
	}
	s.complain(fmt.Errorf("cascade: %s: %w", e.action.Kind, e.err))
	if m, ok := s.model.(llm.Refuser); ok {
		m.Refused(refusal(e.action.Action, e.err))
	}
	if e.action.Kind != llm.Transfer {
		return
	}
	if e.reply == s.reply {
		e.reply.sorry(s.cfg.TransferFailed)
	}
}

// announcement is a text that somebody else wants said.
type announcement struct {
	ctx  context.Context
	text string
	told chan error // has room for one
}

var errTooMuchToSay = errors.New("cascade: too much waits to be announced")

// Announce implements agent.Announcer.
func (s *session) Announce(ctx context.Context, text string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(agent.ErrClosed) })()
	a := announcement{ctx: ctx, text: text, told: make(chan error, 1)}
	s.post(ctx, a)
	select {
	case err := <-a.told:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a announcement) happen(s *session) {
	if len(s.announcements) >= maxAnnouncements || s.closing || s.over {
		a.told <- errTooMuchToSay
		return
	}
	s.announcements = append(s.announcements, a)
}

// announceNext says the next announcement when nobody speaks.
func (s *session) announceNext(now time.Time) {
	for len(s.announcements) > 0 && s.reply == nil && !s.turns.Open() && !s.closing && !s.over && !s.screens() {
		a := s.announcements[0]
		s.announcements = s.announcements[1:]
		if err := context.Cause(a.ctx); err != nil {
			a.told <- err
			continue
		}
		r := newReply(s.life, prompt, s.cfg.Language, "")
		r.phrase(a.text)
		r.closed, r.told = true, a.told
		s.began(now)
		s.start(r)
	}
}
