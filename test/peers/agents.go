package peers

import (
	"context"
	"sync"
	"time"

	"parley/agent"
	"parley/media"
)

// Performer is an agent that says one thing over and over, notes what it hears,
// and may be slow to open.
type Performer struct {
	// OpenAfter is how long the caller hears ringing.
	OpenAfter time.Duration
	// Rate is that of its speech and hearing in Hz; 0 means 8000.
	Rate int
	// Says is speech, repeated with Pause between. Empty: it is silent.
	Says  []int16
	Pause time.Duration

	mu      sync.Mutex
	heard   []int16
	notices []agent.Notice
	calls   []agent.Call
}

// Format is that of a G.711 call, unless Rate says otherwise.
func (p *Performer) Format() agent.Format { return agent.Format{HearRate: p.rate(), SayRate: p.rate()} }

func (p *Performer) rate() int { return max(p.Rate, 8000) }

// Open waits and then makes a session.
func (p *Performer) Open(ctx context.Context, c agent.Call) (agent.Session, error) {
	select {
	case <-time.After(p.OpenAfter):
		p.mu.Lock()
		p.calls = append(p.calls, c)
		p.mu.Unlock()
		return &performance{p, c}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Heard is all that the callers said, at Rate.
func (p *Performer) Heard() []int16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int16(nil), p.heard...)
}

// Notices are the events of the calls so far.
func (p *Performer) Notices(kind agent.NoticeKind) []agent.Notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []agent.Notice
	for _, n := range p.notices {
		if n.Kind == kind {
			out = append(out, n)
		}
	}
	return out
}

// Calls are the calls so far, as the agent is told of them.
func (p *Performer) Calls() []agent.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]agent.Call(nil), p.calls...)
}

// Digits are the keys pressed so far.
func (p *Performer) Digits() string {
	var out []byte
	for _, n := range p.Notices(agent.Digit) {
		out = append(out, n.Digit)
	}
	return string(out)
}

type performance struct {
	*Performer
	call agent.Call
}

// Hear keeps the frame.
func (p *performance) Hear(pcm []int16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, pcm...)
}

// Notice keeps the notice.
func (p *performance) Notice(n agent.Notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notices = append(p.notices, n)
}

// Run performs until the call is over.
func (p *performance) Run(ctx context.Context) error {
	for len(p.Says) > 0 {
		if err := p.call.Speaker.Say(ctx, p.Says); err != nil {
			return err
		}
		if err := p.call.Speaker.Say(ctx, make([]int16, media.Samples(p.Pause, p.rate()))); err != nil {
			return err
		}
		p.call.Speaker.Flush()
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// Brief is an agent that hangs up after a while without a word.
type Brief struct {
	For time.Duration
}

// Format is that of a G.711 call.
func (*Brief) Format() agent.Format { return agent.Format{HearRate: 8000, SayRate: 8000} }

// Open makes a session.
func (b *Brief) Open(context.Context, agent.Call) (agent.Session, error) { return b, nil }

// Hear ignores the caller.
func (*Brief) Hear([]int16) {}

// Notice ignores the call.
func (*Brief) Notice(agent.Notice) {}

// Run waits and ends the call.
func (b *Brief) Run(ctx context.Context) error {
	select {
	case <-time.After(b.For):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
