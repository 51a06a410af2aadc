package runtime

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/agent/chat"
	"parley/agent/llm"
)

// hands are what runs the tools of a conversation. Each call ends with one
// core.answered, unless the conversation is over first.
type hands interface {
	definitions() []llm.ToolDefinition
	// start begins a call and does not wait for it. ctx is that of the reply.
	start(ctx context.Context, call chat.ToolCall)
	// waits says whether a reply waits for the tool's result.
	waits(name string) bool
	// interrupt gives up what may be, because the caller speaks.
	interrupt()
	// close ends all calls and waits for them, or for ctx.
	close(ctx context.Context) error
}

// core is a conversation with a model: who runs it, what was said, which reply is under
// way. A model for calls and a Client are made of it.
type core struct {
	cfg        Config
	completer  llm.Completer
	pair       *chat.Pair
	summarizer *chat.Summarizer
	hands      hands
	out        outbox
	now        func() time.Time

	life context.Context
	end  context.CancelCauseFunc

	news chan struct{} // a token: a tool was answered

	mu      sync.Mutex
	current *exchange // the reply under way, or the one that is being heard
	before  *exchange // the one that was settled last
	late    []string  // tools whose results came when no reply waited for them
	version uint64    // of what replies are made of
	ran     bool      // the model has been run
	refused []string  // what was not done, for the next run
}

// exchange is one reply on its way.
type exchange struct {
	notes      []string // for the model, besides what was said
	at         uint64   // the message that they stand before; 0: they stand at the end
	draft      bool     // what the caller said is not written yet
	wrote      bool     // it was written by this reply
	unsure     bool     // the caller may not be done
	woken      bool
	out        func(llm.Chunk) error
	said       bool // words were given
	retried    bool
	incomplete bool // the model found that the caller is not done

	// Guarded by core.mu.
	over    bool            // it was heard, or another took its place
	waiting map[string]bool // calls that it waits for
	asking  string          // the question of a confirmation that a tool has answered with
	think   bool            // a tool wants the silence filled
}

// newCore makes a conversation that lasts until end is called.
func newCore(ctx context.Context, cfg Config, completer, summaries llm.Completer, now func() time.Time, emit func(llm.Happening)) *core {
	c := &core{cfg: cfg, completer: completer, out: outbox{emit: emit}, now: now, news: make(chan struct{}, 1)}
	c.life, c.end = context.WithCancelCause(ctx)
	if summaries == nil {
		summaries = completer
	}
	events := chat.Events{
		AssistantThought: func(e chat.AssistantThought) {
			c.out.put(llm.Happening{Kind: "thought", Text: bounded(e.Content, 4000)})
		},
		Completion: func(e chat.Completion) {
			if e.Completed {
				c.out.put(llm.Happening{Kind: "completion", Text: e.Text})
			}
		},
		SummaryApplied: func(e chat.SummaryApplied) {
			c.report(llm.Happening{Kind: "summary", Text: e.Summary, Messages: e.NewMessageCount, Before: e.OriginalMessageCount})
		},
		SummaryFailed: func(err error) { c.report(llm.Happening{Kind: "summary", Err: err}) },
	}
	c.pair = chat.NewPair(chat.PairConfig{Events: events, Now: now})
	c.summarizer = chat.NewSummarizer(c.pair.Context(), chat.SummarizerConfig{
		MaxTokens: cfg.Summary.MaxTokens, MaxMessages: cfg.Summary.MaxMessages, Keep: cfg.Summary.Keep,
		Timeout: cfg.Summary.Timeout, Events: events, Now: now,
		Summarize: func(ctx context.Context, m []chat.Message) (string, error) {
			return summarise(ctx, summaries, rollingPrompt, m, maxDigest)
		},
	})
	return c
}

// enter makes x the reply under way, and a context that ends with the conversation.
func (c *core) enter(ctx context.Context, x *exchange) (context.Context, func(), error) {
	if err := context.Cause(c.life); err != nil {
		return nil, nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })
	c.mu.Lock()
	c.current = x
	c.mu.Unlock()
	return ctx, func() { stop(); cancel(nil) }, nil
}

// leave says that nothing waits for the calls of x any more.
func (c *core) leave(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.waiting = nil
}

// settle ends the reply that is under way or being heard, and returns it, or the one
// before; nothing more is written of it.
func (c *core) settle() *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.over = true
		c.before, c.current = c.current, nil
	}
	return c.before
}

// request is what the model is run over next.
func (c *core) request(x *exchange, last bool) llm.Request {
	c.refreshTools()
	c.mu.Lock()
	notes := slices.Concat(x.notes, c.refused)
	if len(c.late) > 0 {
		notes = append(notes, lateNote(c.late))
	}
	c.refused, c.late, c.ran = nil, nil, true
	c.mu.Unlock()
	x.notes = notes
	s := c.pair.Run()
	if n := stillWorking(s.Messages); n != "" {
		notes = append(slices.Clone(notes), n)
	}
	if x.unsure && c.cfg.Markers {
		notes = append(slices.Clone(notes), chat.MarkerPrompt)
	}
	if last {
		notes = append(slices.Clone(notes), lastRoundNote)
	}
	messages := s.Messages
	if len(notes) > 0 {
		note := chat.Message{Role: chat.RoleDeveloper, Content: strings.Join(notes, "\n\n")}
		at := len(messages)
		if i := slices.Index(s.IDs, x.at); i >= 0 && x.at != 0 {
			at = i
		}
		messages = slices.Insert(messages, at, note)
	}
	if x.draft {
		messages = append(messages, chat.Message{Role: chat.RoleUser, Content: c.pair.User().Draft()})
	}
	r := llm.Request{Messages: messages, MaxTokens: c.cfg.MaxTokens, Temperature: c.cfg.Temperature}
	if !last {
		for _, d := range s.Tools {
			r.Tools = append(r.Tools, llm.ToolDefinition(d))
		}
	}
	return r
}

// stillWorking names tools at work that the reply does not wait for.
func stillWorking(messages []chat.Message) string {
	var names []string
	for _, m := range messages {
		if m.Role == chat.RoleTool && m.Content == chat.InProgress && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return workingNote(names)
}

// refreshTools tells the model of tools that came or went since its first run.
func (c *core) refreshTools() {
	definitions := c.hands.definitions()
	tools := make([]chat.ToolDefinition, len(definitions))
	for i, d := range definitions {
		tools[i] = chat.ToolDefinition(d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ran {
		c.pair.Context().SetTools(tools)
	} else if added, removed := c.pair.Context().ChangeTools(tools); len(added)+len(removed) > 0 {
		c.version++
	}
}

// changed notes that replies are made of something else now.
func (c *core) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
}

// write puts what the caller said into the conversation, once it is known to be a turn.
func (c *core) write(x *exchange) {
	if !x.draft {
		return
	}
	x.draft, x.wrote = false, true
	c.pair.User().Stop("model")
	x.at, _ = c.pair.User().Last()
}

// give passes words of the model on, unless nobody waits for them any more.
func (c *core) give(ctx context.Context, x *exchange, chunk llm.Chunk) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if chunk.Text != "" {
		if err := c.gather(x, chunk.Text); err != nil {
			return err
		}
		x.said = x.said || strings.TrimSpace(chunk.Text) != ""
	}
	return x.out(chunk)
}

// gather notes words as generated.
func (c *core) gather(x *exchange, text string) error {
	defer c.out.deliver()
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.over {
		return errSuperseded
	}
	c.write(x)
	c.pair.Assistant().Write(text)
	c.pair.Assistant().Speaking(true)
	return nil
}

// close ends the conversation, and waits for what works beside it.
func (c *core) close(ctx context.Context) error {
	c.settle()
	c.end(ErrClosed)
	err := c.summarizer.Close(ctx)
	c.pair.Close()
	c.out.deliver()
	return err
}

// report emits h, after what happened before.
func (c *core) report(h llm.Happening) {
	c.out.put(h)
	c.out.deliver()
}

// outbox emits happenings in their order and outside of locks: put may be called under
// any, deliver under none.
type outbox struct {
	emit func(llm.Happening)

	mu      sync.Mutex
	waiting []llm.Happening
	busy    bool
}

func (o *outbox) put(h llm.Happening) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, h)
}

// deliver emits what waits, unless somebody does already, who then emits this as well.
func (o *outbox) deliver() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.busy && len(o.waiting) > 0 {
		h := o.waiting[0]
		o.waiting, o.busy = o.waiting[1:], true
		o.mu.Unlock()
		o.emit(h)
		o.mu.Lock()
		o.busy = false
	}
}
