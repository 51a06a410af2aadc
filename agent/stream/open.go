package stream

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"parley/agent"
)

// New makes an agent of whoever listens at cfg.URL, or returns everything that is wrong
// with cfg. It does not connect. The Opener is safe for concurrent use.
func New(cfg Config) (agent.Opener, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("stream: %w", err)
	}
	if cfg.Transport == nil {
		cfg.Transport = newTransport()
	}
	return &opener{cfg: cfg, client: &http.Client{Transport: cfg.Transport, CheckRedirect: noRedirects}}, nil
}

type opener struct {
	cfg    Config
	client *http.Client
}

// Format is the dialect's rate, both ways.
func (o *opener) Format() agent.Format {
	rate := o.rate()
	return agent.Format{HearRate: rate, SayRate: rate}
}

func (o *opener) rate() int {
	if o.cfg.Dialect == Twilio {
		return 8000
	}
	return o.cfg.Rate
}

// Open connects to the agent. The call is refused when it is not there in time.
func (o *opener) Open(ctx context.Context, c agent.Call) (agent.Session, error) {
	s, err := o.newSession(c)
	if err != nil {
		return nil, fmt.Errorf("stream: %w", err)
	}
	l, err := o.dial(ctx, c)
	if err == nil {
		if err = s.greet(l, nil); err != nil {
			_ = l.conn.CloseNow()
		}
	}
	if err != nil {
		s.end()
		return nil, fmt.Errorf("stream: %w", err)
	}
	s.take(l)
	if s.passes = c.Payloads != nil && o.cfg.Dialect == Twilio; s.passes {
		c.Payloads(mulaw, s.heard.put)
	}
	return s, nil
}

// newSession makes everything of a session but its connection.
func (o *opener) newSession(c agent.Call) (*session, error) {
	rate := o.rate()
	s := &session{
		opener: o, cfg: o.cfg, call: c, rate: rate,
		notices: make(chan agent.Notice, 128), news: make(chan news, 16), outbox: make(chan any, 256),
		redialled: make(chan redialled, 1), acts: make(chan actCommand, 16), opened: time.Now(),
	}
	width := 2
	if o.cfg.Dialect == Twilio {
		d, err := newTwilio(o.cfg, c)
		if err != nil {
			return nil, err
		}
		s.dialect, width = d, 1
		s.payload, _ = c.Speaker.(agent.PayloadSpeaker)
	} else {
		s.dialect = newPCM(c, rate)
	}
	// The session outlives the context of its opening.
	s.life, s.end = context.WithCancel(context.Background())
	s.heard = newHeard(o.cfg.HearBuffer, int(samples(frameTime, rate)), width)
	s.scratch = make([]byte, 0, int(samples(frameTime, rate))*width)
	s.speech = newSpeech(s.life, width, int(samples(o.cfg.Buffer, rate))*width)
	s.sends.Store(true)
	return s, nil
}
