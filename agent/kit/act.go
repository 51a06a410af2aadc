package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"parley/agent"
	"parley/agent/tool"
	"parley/agent/turn"
)

// acting is the call's control for the model's tools: it tells of what is done.
type acting struct {
	agent.Control
	s *conversation
}

// Transfer implements agent.Control.
func (a acting) Transfer(ctx context.Context, t agent.Transfer) error {
	return a.did("transfer", t.To, a.Control.Transfer(ctx, t))
}

// SendDigits implements agent.Control.
func (a acting) SendDigits(ctx context.Context, digits string) error {
	text := digits
	if a.s.cfg.SecretDigits {
		text = ""
	}
	return a.did("dtmf", text, a.Control.SendDigits(ctx, digits))
}

// Hold implements agent.Control.
func (a acting) Hold(ctx context.Context) error { return a.did("hold", "", a.Control.Hold(ctx)) }

// Resume implements agent.Control.
func (a acting) Resume(ctx context.Context) error { return a.did("resume", "", a.Control.Resume(ctx)) }

func (a acting) did(what, text string, err error) error {
	if err == nil {
		a.s.emit(agent.Event{Type: agent.EventAction, Reason: what, Text: text})
	}
	return err
}

// confirmWait is how long a call that needs the caller's yes waits for the words of the
// turn that led to it: services call tools before they have written down what they
// heard.
const confirmWait = 2 * time.Second

// hooks are the host's, with what calls need before them.
func (s *conversation) hooks() LifecycleHooks {
	h := s.cfg.Hooks
	then := h.OnToolCall
	h.OnToolCall = func(ctx context.Context, sc SessionContext, call ToolCall) {
		if t, ok := sc.Registry.Lookup(call.Name); ok {
			if c, ok := t.(tool.Traited); ok && c.Traits().Confirm {
				s.awaitWords(ctx)
			}
		}
		if then != nil {
			then(ctx, sc, call)
		}
	}
	thinking := h.OnToolThinking
	h.OnToolThinking = func(ctx context.Context, sc SessionContext, call ToolCall, on bool) {
		s.post(toolThinks(on))
		if thinking != nil {
			thinking(ctx, sc, call, on)
		}
	}
	return h
}

// awaitWords waits until it is known what the caller said last.
func (s *conversation) awaitWords(ctx context.Context) {
	pending := s.words.Load()
	if pending == nil {
		return
	}
	select {
	case <-*pending:
	case <-time.After(confirmWait):
	case <-ctx.Done():
	}
}

// toolCalled tells of a call, on the goroutine that receives and before the tool is
// asked.
func (s *conversation) toolCalled(c ToolCall) {
	args := maps.Clone(c.Args)
	delete(args, tool.TokenArgument)
	if s.cfg.SecretDigits && c.Name == "send_digits" {
		args = nil
	}
	if _, twice := s.unanswered.LoadOrStore(c.ID, c.Name); twice {
		return // it is not made a second time
	}
	s.emit(agent.Event{Type: agent.EventToolCall, ID: c.ID, Reason: tool.CleanText(c.Name, 128), Text: asJSON(args)})
	s.post(toolBegan{c.ID})
}

// toolAnswered tells of an answer before the model is told.
func (s *conversation) toolAnswered(r ToolResponse) {
	name, open := s.unanswered.LoadAndDelete(r.ID)
	if !open {
		return
	}
	r.Name, _ = name.(string)
	response := maps.Clone(r.Response)
	delete(response, tool.TokenArgument)
	s.emit(agent.Event{Type: agent.EventToolResult, ID: r.ID, Reason: tool.CleanText(r.Name, 128), Text: asJSON(response)})
	s.post(toolEnded{r.ID})
}

// asJSON is a map as JSON.
func asJSON(m map[string]any) string {
	if len(m) == 0 {
		return "{}"
	}
	text, err := json.Marshal(m)
	if err != nil {
		return "{}"
	}
	return string(text)
}

// announcement is a text that somebody else wants said.
type announcement struct {
	ctx  context.Context
	text string
	told chan error // has room for one
}

// maxAnnouncements bounds what waits to be announced.
const maxAnnouncements = 8

var errTooMuchToSay = errors.New("kit: too much waits to be announced")

// Announce implements agent.Announcer: with Config.Voice word for word, else the model
// is told to say it.
func (s *conversation) Announce(ctx context.Context, text string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(agent.ErrClosed) })()
	a := announcement{ctx: ctx, text: text, told: make(chan error, 1)}
	select {
	case s.events <- a:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-a.told:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a announcement) happen(s *conversation) {
	if len(s.announcements) >= maxAnnouncements || s.closing || s.over {
		a.told <- errTooMuchToSay
		return
	}
	s.announcements = append(s.announcements, a)
}

// announceNext says the next announcement when nobody speaks.
func (s *conversation) announceNext(now time.Time) {
	for len(s.announcements) > 0 && len(s.replies) == 0 && !s.awaits() && !s.away && s.told == nil &&
		!s.turns.Open() && !s.closing && !s.over {
		a := s.announcements[0]
		s.announcements = s.announcements[1:]
		if err := context.Cause(a.ctx); err != nil {
			a.told <- err
			continue
		}
		s.replying = true
		s.decide(turn.Input{Kind: turn.ReplyBegan, At: now})
		if s.cfg.Voice != nil {
			s.ownReply(a.text, false, a.told)
			continue
		}
		s.told = a.told
		s.instruct("Say to the caller, word for word and nothing else: "+a.text, time.Time{})
	}
}

var errNoReply = errors.New("kit: the model does not reply in time")

// watchModel connects anew when the model does not reply at all. When it does not reply
// then either, it is gone.
func (s *conversation) watchModel(now time.Time) {
	if s.closing || !s.awaits() {
		return
	}
	if now.Sub(s.expected) < s.cfg.ReplyTimeout {
		return
	}
	s.complain(errNoReply)
	if s.stalled++; s.stalled > 1 {
		s.fail(errNoReply)
		return
	}
	s.expected = time.Time{}
	s.lost = true
	s.session.live.Renew(true)
}

// fail says the last words and ends the call, or has somebody else take it.
func (s *conversation) fail(err error) {
	if s.closing || s.over {
		return
	}
	s.userOver("")
	s.closing, s.failed = true, fmt.Errorf("kit: the model is lost: %w", err)
	s.expected = time.Time{}
	s.replyComplete()
	s.speech.hold(false)
	s.call.Speaker.Resume() // nothing else will
	if s.cfg.Voice != nil && s.cfg.Apology != "" {
		s.ownReply(s.cfg.Apology, false, nil)
	}
	s.progress = progress{next: time.Now()}
}

// transferWait is how long the call may take to end after it was transferred.
const transferWait = 10 * time.Second

// leave ends the call once the last words were heard.
func (s *conversation) leave() {
	if s.cfg.LostTo == "" {
		s.finish(s.failed)
		return
	}
	if s.leaving {
		return
	}
	s.leaving = true
	s.work(func() {
		err := acting{s.call.Control, s}.Transfer(s.life, agent.Transfer{To: s.cfg.LostTo})
		if err != nil {
			s.post(trouble{fmt.Errorf("kit: transfer after the model was lost: %w", err)})
		} else {
			select {
			case <-s.life.Done():
			case <-time.After(transferWait):
			}
		}
		s.post(left{})
	})
}

// left: the call could not be transferred, or did not end though it was.
type left struct{}

func (left) happen(s *conversation) { s.finish(s.failed) }
