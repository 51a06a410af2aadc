package cascade

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"parley/agent"
	"parley/agent/llm"
)

// callLine is the call as the model may act on it.
type callLine struct{ s *session }

// Transfer implements llm.Line.
func (l callLine) Transfer(ctx context.Context, to string, attended bool) error {
	return l.do(ctx, &llm.Action{Kind: llm.Transfer, To: to, Attended: attended})
}

// SendDigits implements llm.Line.
func (l callLine) SendDigits(ctx context.Context, digits string) error {
	return l.do(ctx, &llm.Action{Kind: llm.Digits, Digits: digits})
}

// Hold implements llm.Line.
func (l callLine) Hold(ctx context.Context) error { return l.do(ctx, &llm.Action{Kind: llm.Hold}) }

// Resume implements llm.Line.
func (l callLine) Resume(ctx context.Context) error { return l.do(ctx, &llm.Action{Kind: llm.Resume}) }

// HangUp implements llm.Line.
func (l callLine) HangUp() { l.s.wishes.hangUp() }

// errTurnNotOver is what a tool is told that a model has called before it was known that
// the caller is done, when the caller was not.
var errTurnNotOver = errors.New("the caller had not finished; nothing was done")

// do acts on the call and puts failures into words for the model.
func (l callLine) do(ctx context.Context, a *llm.Action) error {
	s := l.s
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(agent.ErrClosed) })()
	if r := s.early.Load(); r != nil {
		select {
		case <-r.adopted:
		case <-r.ctx.Done():
			return errTurnNotOver
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.emitAction(a)
	err := s.control(ctx, a)
	if err == nil {
		return nil
	}
	return refused{refusal(a, err), err}
}

// refused is an error whose words may be told to a model.
type refused struct {
	words string
	err   error
}

func (r refused) Error() string { return r.words }
func (r refused) Unwrap() error { return r.err }

func (s *session) emitAction(a *llm.Action) {
	text := clean(a.To, maxName)
	if a.Kind == llm.Digits && !s.cfg.SecretDigits {
		text = clean(a.Digits, maxName)
	}
	s.emit(agent.Event{Type: agent.EventAction, Reason: string(a.Kind), Text: text})
}

// control has the call do an action, and waits for the peer.
func (s *session) control(ctx context.Context, a *llm.Action) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cascade: panic in the call's control: %v", p)
		}
	}()
	switch control := s.call.Control; a.Kind {
	case llm.Transfer:
		return control.Transfer(ctx, agent.Transfer{To: a.To, Attended: a.Attended})
	case llm.Digits:
		return control.SendDigits(ctx, a.Digits)
	case llm.Hold:
		return control.Hold(ctx)
	case llm.Resume:
		return control.Resume(ctx)
	}
	return fmt.Errorf("cascade: action %q is not known", a.Kind)
}

// refusal tells the model why an action was not done.
func refusal(a *llm.Action, err error) string {
	what := string(a.Kind)
	if a.Kind == llm.Transfer {
		what = "the transfer to " + clean(a.To, maxName)
	}
	var failed *agent.TransferError
	switch {
	case errors.Is(err, agent.ErrForbidden):
		return what + " is not allowed here."
	case errors.Is(err, agent.ErrNotSupported):
		return what + " is not possible in this call."
	case errors.Is(err, agent.ErrClosed):
		return what + " came too late: the call is over."
	case errors.As(err, &failed) && failed.Code != 0:
		return fmt.Sprintf("%s.", strings.TrimSpace(fmt.Sprintf("%s failed: %d %s", what, failed.Code, clean(failed.Reason, maxName))))
	}
	return what + " failed."
}
