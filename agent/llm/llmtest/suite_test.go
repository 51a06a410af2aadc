package llmtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"parley/agent/llm"
	"parley/agent/llm/llmtest"
)

// direct is a provider without a protocol: it calls the backend.
type direct struct {
	limits  llmtest.Limits
	backend llmtest.Backend
}

func (d direct) Open(context.Context, llm.Conversation) (llm.Model, error) {
	m := &directModel{direct: d}
	m.life, m.end = context.WithCancel(context.Background())
	return m, nil
}

type directModel struct {
	direct
	life context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup
}

func (m *directModel) Greet(context.Context, func(llm.Chunk) error) error { return nil }
func (m *directModel) Close(context.Context, llm.End)                     { m.end(); m.wg.Wait() }

func (m *directModel) Heard(llm.Heard) {}
func (m *directModel) CallerSpeaks()   {}

func (m *directModel) Reply(ctx context.Context, t llm.Turn, out func(llm.Chunk) error) error {
	if t.Woken {
		return nil
	}
	if t.Tentative {
		return out(llm.Chunk{Incomplete: time.Second})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.life, func() { cancel(errors.New("closed")) })()
	words, result := make(chan string), make(chan error, 1)
	m.wg.Go(func() {
		err := m.backend(ctx, t.Text, func(w string) error {
			select {
			case words <- w:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(words)
		result <- err
	})
	first, total, spent := m.limits.First, m.limits.Total, time.Duration(0)
	for {
		left := total - spent
		if first > 0 {
			left = min(left, first)
		}
		began, timer := time.Now(), time.NewTimer(left)
		select {
		case w, ok := <-words:
			timer.Stop()
			spent += time.Since(began)
			if !ok {
				return <-result
			}
			first = 0
			if err := out(llm.Chunk{Text: w}); err != nil {
				return err
			}
		case <-timer.C:
			return errors.New("too slow")
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

func TestSuite(t *testing.T) {
	llmtest.Run(t, func(_ *testing.T, l llmtest.Limits, b llmtest.Backend) llm.Provider { return direct{l, b} })
}
