package cascade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"parley/agent/live"
	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/tts"
	"parley/agent/turn"
)

// ProviderConfig plugs a recogniser, a language model and a voice together as one
// realtime model. Start from DefaultProviderConfig.
type ProviderConfig struct {
	STT stt.Recognizer
	LLM llm.Completer
	TTS tts.Voice
	// Turn says when the caller's turn is over, unless live.LiveConfig.LocalTurns leaves
	// that to the host.
	Turn turn.Config
	// Detector makes a detector for a connection: it is given the caller's sound at
	// live.InputRate, as it comes, and says whether a voice is on. nil: turns are taken
	// by the recogniser's words alone.
	Detector func() func(pcm []int16) bool
	// FirstToken is how long the language model may be silent, before its first word
	// and between two; then the reply has failed.
	FirstToken time.Duration
	// MaxTokens bounds a reply; 0: the service's own bound.
	MaxTokens int
	// MaxMessages is of how many messages, the newest, the model is told; 0: 200.
	MaxMessages int
}

// DefaultProviderConfig is everything but the three parts.
func DefaultProviderConfig() ProviderConfig {
	return ProviderConfig{Turn: turn.DefaultConfig(), FirstToken: 8 * time.Second}
}

// Validate says all that is wrong with c.
func (c ProviderConfig) Validate() error {
	errs := []error{c.Turn.Validate()}
	if c.STT == nil || c.TTS == nil || c.LLM == nil {
		errs = append(errs, errors.New("cascade: a recogniser, a voice and a model are needed"))
	}
	if c.FirstToken <= 0 || c.MaxTokens < 0 || c.MaxMessages < 0 {
		errs = append(errs, errors.New("cascade: first token must be positive, max tokens and max messages not negative"))
	}
	return errors.Join(errs...)
}

// NewProvider shows a recogniser, a language model and a voice as one realtime model:
// audio in, audio out, tools. It hears at live.InputRate and speaks at live.OutputRate,
// whatever the rates of its parts, tells which words lie where where the voice does, and
// cuts its own context down to what was heard. A cfg that does not Validate makes
// Connect fail with an error that wraps live.ErrRejected.
//
// It is a live.Truncator, a live.TurnTaker and a live.Instructor. It never ends a
// connection by itself; when the recogniser is lost the connection is.
func NewProvider(cfg ProviderConfig) live.LiveProvider { return &provider{cfg: cfg} }

type provider struct {
	cfg ProviderConfig

	mu     sync.Mutex
	talk   *talk
	closed bool
}

// Name implements live.LiveProvider.
func (p *provider) Name() string { return "cascade" }

// Connect implements live.LiveProvider.
func (p *provider) Connect(ctx context.Context, cfg live.LiveConfig) error {
	if err := errors.Join(p.cfg.Validate(), cfg.Validate()); err != nil {
		return fmt.Errorf("cascade: %w: %w", live.ErrRejected, err)
	}
	if cfg.Wire != "" && cfg.Wire != live.PCM16 {
		return fmt.Errorf("cascade: %w: %s is not spoken here", live.ErrRejected, cfg.Wire)
	}
	p.mu.Lock()
	old := p.talk
	p.mu.Unlock()
	if old != nil {
		if err := old.close(ctx); err != nil {
			return err
		}
	}
	t, err := newTalk(ctx, p.cfg, cfg)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.talk, p.closed = t, false
	return nil
}

// open is the connection; nil when there is none.
func (p *provider) open() *talk {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	return p.talk
}

// do has the loop of the connection do something.
func (p *provider) do(ctx context.Context, what request) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	t := p.open()
	if t == nil {
		return fmt.Errorf("cascade: %w", live.ErrClosed)
	}
	if err := context.Cause(t.life); err != nil {
		return err
	}
	t.in.put(what)
	return nil
}

// SendAudio implements live.LiveProvider.
func (p *provider) SendAudio(ctx context.Context, pcm []byte) error {
	heard := make([]int16, len(pcm)/2)
	for i := range heard {
		heard[i] = int16(uint16(pcm[2*i]) | uint16(pcm[2*i+1])<<8)
	}
	return p.do(ctx, heardSound{heard})
}

// EndAudioStream implements live.LiveProvider.
func (p *provider) EndAudioStream(ctx context.Context) error { return p.do(ctx, soundEnds{}) }

// SendText implements live.LiveProvider.
func (p *provider) SendText(ctx context.Context, text string) error {
	return p.do(ctx, typed{text})
}

// Instruct implements live.Instructor.
func (p *provider) Instruct(ctx context.Context, instructions string) error {
	return p.do(ctx, instructed{instructions})
}

// SendToolResponse implements live.LiveProvider.
func (p *provider) SendToolResponse(ctx context.Context, responses ...live.ToolResponse) error {
	return p.do(ctx, answered{responses})
}

// Truncate implements live.Truncator.
func (p *provider) Truncate(ctx context.Context, itemID string, played time.Duration) error {
	return p.do(ctx, truncated{itemID, played})
}

// ActivityStart implements live.TurnTaker.
func (p *provider) ActivityStart(ctx context.Context) error { return p.do(ctx, activity(true)) }

// ActivityEnd implements live.TurnTaker.
func (p *provider) ActivityEnd(ctx context.Context) error { return p.do(ctx, activity(false)) }

// Receive implements live.LiveProvider.
func (p *provider) Receive(ctx context.Context) (live.Message, error) {
	p.mu.Lock()
	t := p.talk
	p.mu.Unlock()
	if t == nil {
		return live.Message{}, fmt.Errorf("cascade: %w", live.ErrClosed)
	}
	return t.out.take(ctx)
}

// Close implements live.LiveProvider.
func (p *provider) Close(ctx context.Context) error {
	p.mu.Lock()
	t := p.talk
	p.closed = true
	p.mu.Unlock()
	if t == nil {
		return nil
	}
	return t.close(ctx)
}

// maxOut bounds the messages that wait to be received; then the reply waits.
const maxOut = 64

// outbox is what waits to be received.
type outbox struct {
	mu         sync.Mutex
	queue      []live.Message
	err        error // once nothing more comes
	more, room chan struct{}
}

func newOutbox() *outbox {
	return &outbox{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds a message at once.
func (o *outbox) put(m live.Message) {
	o.mu.Lock()
	o.queue = append(o.queue, m)
	o.mu.Unlock()
	token(o.more)
}

// say adds a message when there is room, for a reply that waits.
func (o *outbox) say(ctx context.Context, m live.Message) error {
	for {
		o.mu.Lock()
		full := len(o.queue) >= maxOut
		if !full && ctx.Err() == nil {
			o.queue = append(o.queue, m)
		}
		o.mu.Unlock()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if !full {
			token(o.more)
			return nil
		}
		select {
		case <-o.room:
		case <-ctx.Done():
		}
	}
}

// forget takes the sound and words of an item out.
func (o *outbox) forget(item string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.queue {
		if m := &o.queue[i]; m.ItemID == item {
			m.Audio, m.Agent, m.ItemID = nil, live.Transcript{}, ""
		}
	}
}

// end has take return err when the queue is empty, or at once.
func (o *outbox) end(err error, now bool) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	if now {
		o.queue, o.err = nil, err
	}
	o.mu.Unlock()
	token(o.more)
}

func (o *outbox) take(ctx context.Context) (live.Message, error) {
	for {
		o.mu.Lock()
		if len(o.queue) > 0 {
			m := o.queue[0]
			o.queue = o.queue[1:]
			o.mu.Unlock()
			token(o.room)
			return m, nil
		}
		err := o.err
		o.mu.Unlock()
		if err != nil {
			token(o.more) // for whoever asks next
			return live.Message{}, err
		}
		select {
		case <-o.more:
		case <-ctx.Done():
			return live.Message{}, fmt.Errorf("cascade: %w: %w", live.ErrLost, context.Cause(ctx))
		}
	}
}

// errOver is what Receive returns after Close.
var errOver = io.EOF

var (
	_ live.Truncator  = (*provider)(nil)
	_ live.TurnTaker  = (*provider)(nil)
	_ live.Instructor = (*provider)(nil)
)
