package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/agent/chat"
	"parley/agent/llm"
)

// What ends a run of a model before its time.
var (
	errSuperseded = errors.New("runtime: another reply has taken its place")
	errIncomplete = errors.New("runtime: the caller is not done")
	errNoWord     = errors.New("runtime: the model gave no word in time")
	errSilent     = errors.New("runtime: the model stopped in the middle")
)

// answer runs the model over r; once more when it gives nothing, and no word in time.
// A service that is busy was asked again by the Completer. Completers tell of an empty
// answer as llm.ErrEmpty: whether that is a failure is known here.
func (c *core) answer(ctx context.Context, x *exchange, r llm.Request) (llm.Completion, error) {
	for {
		done, gave, err := c.run(ctx, x, r)
		empty := !gave && len(done.ToolCalls) == 0 && (err == nil || errors.Is(err, llm.ErrEmpty))
		again := !gave && !x.retried && (empty && !x.mayBeSilent() || errors.Is(err, errNoWord))
		if again && ctx.Err() == nil {
			x.retried = true
			continue
		}
		switch {
		case !empty:
		case x.mayBeSilent():
			err = nil
		case done.Finish == llm.FinishFiltered:
			err = fmt.Errorf("%w: its service refused to", firstOf(err, llm.ErrEmpty))
		default:
			err = firstOf(err, llm.ErrEmpty)
		}
		return done, err
	}
}

// mayBeSilent says whether no word is an answer as well.
func (x *exchange) mayBeSilent() bool { return x.said || x.woken }

// run runs the model once and passes its words on. gave says whether there were any.
// The Completer works on a goroutine of its own, so that the caller of Reply is told of
// silence meanwhile; it has ended when run returns.
func (c *core) run(ctx context.Context, x *exchange, r llm.Request) (done llm.Completion, gave bool, err error) {
	w := &words{core: c, x: x, styler: llm.NewStyler(c.cfg.Styles), marked: c.cfg.Markers}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	deltas, ended := make(chan llm.Delta), make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("runtime: panic in the model: %v", p)
			}
			ended <- err
		}()
		done, err = c.completer.Complete(within, r, func(d llm.Delta) error {
			select {
			case deltas <- d:
				return nil
			case <-within.Done():
				return context.Cause(within)
			}
		})
	}()
	err = c.listen(within, w, deltas, ended)
	if !w.ended {
		cancel(err)
		<-ended //nolint:errcheck // what it makes of being stopped
	}
	return done, w.gave, err
}

// listen takes what the model gives until it has ended, or is to.
func (c *core) listen(ctx context.Context, w *words, deltas <-chan llm.Delta, ended <-chan error) error {
	limit := time.NewTimer(c.cfg.FirstToken)
	defer limit.Stop()
	think, stop := c.thinkTimer()
	defer stop()
	for {
		select {
		case d := <-deltas:
			if err := w.take(ctx, d); err != nil {
				return err
			}
			limit.Reset(c.cfg.Silence) // what the voice needed was not the model's time
		case err := <-ended:
			w.ended = true
			if err == nil {
				err = w.flush(ctx)
			}
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return err
		case <-limit.C:
			if w.alive {
				return errSilent
			}
			return errNoWord
		case <-think:
			if think = nil; !w.gave {
				if err := w.x.out(llm.Chunk{Thinking: true}); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// thinkTimer fires once, when the silence is to be filled.
func (c *core) thinkTimer() (fires <-chan time.Time, stop func()) {
	if c.cfg.ThinkAfter <= 0 {
		return nil, func() {}
	}
	t := time.NewTimer(c.cfg.ThinkAfter)
	return t.C, func() { t.Stop() }
}

// words are those of one run on their way out.
type words struct {
	core   *core
	x      *exchange
	styler *llm.Styler
	marker chat.Marker
	marked bool // it may begin with a marker, now and then also when it was not told to
	alive  bool // it has given something
	gave   bool // it has given words
	began  bool // white space counts
	ended  bool
}

// take takes a piece.
func (w *words) take(ctx context.Context, d llm.Delta) error {
	w.alive = w.alive || d.Text != "" || d.Thought != ""
	w.core.pair.Assistant().Think(d.Thought)
	return w.text(ctx, d.Text)
}

func (w *words) text(ctx context.Context, text string) error {
	if w.marked && text != "" {
		var v chat.Verdict
		if text, v = w.marker.Write(text); v.Pause() > 0 && w.x.unsure {
			if err := w.x.out(llm.Chunk{Incomplete: v.Pause()}); err != nil {
				return err
			}
			return errIncomplete
		}
	}
	if text == "" {
		return nil
	}
	return w.pass(ctx, w.styler.Write(text))
}

func (w *words) pass(ctx context.Context, chunks []llm.Chunk) error {
	for _, chunk := range chunks {
		// What follows words from before a tool call is no part of their last word.
		if first, _ := utf8.DecodeRuneInString(chunk.Text); !w.began && w.x.said && !unicode.IsSpace(first) {
			chunk.Text = " " + chunk.Text
		}
		w.began = true
		w.gave = w.gave || strings.TrimSpace(chunk.Text) != ""
		if err := w.core.give(ctx, w.x, chunk); err != nil {
			return err
		}
	}
	return nil
}

// flush gives what the end of the answer leaves.
func (w *words) flush(ctx context.Context) error {
	if w.marked {
		if rest, _ := w.marker.End(); rest != "" {
			if err := w.pass(ctx, w.styler.Write(rest)); err != nil {
				return err
			}
		}
	}
	return w.pass(ctx, w.styler.Flush())
}
