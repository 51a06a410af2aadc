package chat

import (
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// PairConfig is what a Pair needs.
type PairConfig struct {
	// Context is the conversation; nil: a new one.
	Context *Context
	Events  Events
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Realtime is for models that hear the caller themselves: what they transcribe may
	// come late. It never opens a turn, and is written when the agent's turn begins or
	// the conversation ends.
	Realtime bool
}

// Pair writes a conversation: its two halves collect what the caller and the agent say
// and put it into one Context, one message for each turn. It decides nothing about
// whose turn it is. It starts no goroutine and is safe for concurrent use.
type Pair struct {
	cfg  PairConfig
	ctx  *Context
	out  outbox
	mu   sync.Mutex
	user userTurn
	bot  botTurn
}

// NewPair returns a Pair.
func NewPair(cfg PairConfig) *Pair {
	if cfg.Context == nil {
		cfg.Context = NewContext("")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Pair{cfg: cfg, ctx: cfg.Context}
}

// Context is the conversation.
func (p *Pair) Context() *Context { return p.ctx }

// User is the half that collects what the caller says.
func (p *Pair) User() User { return User{p} }

// Assistant is the half that collects what the agent says and calls.
func (p *Pair) Assistant() Assistant { return Assistant{p} }

// lock begins a change; the returned function ends it and delivers its events.
func (p *Pair) lock() (unlock func()) {
	p.mu.Lock()
	return func() {
		p.mu.Unlock()
		p.out.deliver()
	}
}

// append writes a message that calls no tool, which is always valid.
func (p *Pair) append(m Message) uint64 {
	id, err := p.ctx.Append(m)
	if err != nil {
		return 0
	}
	return id
}

// Run begins a run of the model: it returns what the model is run over, and notes that
// the results of tools in it are being told. Words that the model has generated in the
// agent's open turn are in it, though nobody has heard them yet: it would say them again.
func (p *Pair) Run() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bot.untold = false
	texts := map[uint64]string{}
	last := ""
	for _, s := range p.bot.segments {
		if last = strings.TrimSpace(s.text); s.calls != 0 {
			texts[s.calls], last = last, ""
		}
	}
	s := p.ctx.snapshot(texts)
	if last != "" {
		s.Messages = append(s.Messages, Message{Role: RoleAssistant, Content: last, At: p.bot.at})
		s.IDs = append(s.IDs, 0)
	}
	return s
}

// RunDue says whether the model is to be run because of results of tools that it has
// not seen: after the last of the calls in progress, not over the caller who speaks,
// and not before the agent has finished to speak.
func (p *Pair) RunDue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bot.untold && !p.user.open && !p.bot.speaking && len(p.ctx.CallsInProgress()) == 0
}

// Untold says whether there are results of tools that the model has not seen.
func (p *Pair) Untold() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bot.untold
}

// Close ends both turns where they are: the caller's with what was said, the agent's as
// interrupted, and tool calls that have no answer are given up.
func (p *Pair) Close() {
	defer p.lock()()
	p.stopUser("")
	p.writeUser()
	p.stopBot(Uttered{Heard: p.bot.heard, Interrupted: true})
	for _, id := range p.ctx.CallsInProgress() {
		p.ctx.Answer(id, Cancelled)
	}
	p.bot.untold = false
}

// join adds a segment to a text, with one space between them unless one of them brings
// its own.
func join(text, segment string) string {
	if text == "" {
		return strings.TrimSpace(segment)
	}
	last, _ := utf8.DecodeLastRuneInString(text)
	first, _ := utf8.DecodeRuneInString(segment)
	if unicode.IsSpace(last) || unicode.IsSpace(first) {
		return text + segment
	}
	return text + " " + segment
}
