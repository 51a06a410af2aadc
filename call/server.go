package call

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/identity"
	"parley/media"
	"parley/media/vad"
	"parley/rtp"
	"parley/sip"
)

// Parts are what a Server is plugged together from.
type Parts struct {
	// Wheel moves the packets.
	Wheel *rtp.Wheel
	// Codecs are the codecs of Config.Codecs, in the same order.
	Codecs []media.Codec
	// Admit says whether a call may come in and by which trunk; a refusal is what the
	// caller is told. It is asked before anything is taken for the call. nil lets
	// everybody in, by none.
	Admit func(*sip.Invite) (sip.Admission, *sip.RejectError)
	// Trunks are the peers that calls come from and go through.
	Trunks []Trunk
	// Route finds the agent for a call; false answers 404. It may be called
	// concurrently.
	Route func(Request) (Routed, bool)
	// Agent finds an agent by its name, for outbound calls that ask for one; nil when
	// there is none. May be nil.
	Agent func(name string) agent.Opener
	// Voice makes a call's voice detector for PCM at rate. When the detector is an
	// io.Closer, the call closes it.
	Voice func(rate int) (vad.Detector, error)
	// Identity finds out who is calling.
	Identity *identity.Resolver
	// NewSoundFile begins a file of a recording: format is one of RecordingConfig's,
	// path where it will be, rate in Hz 8000 or 16000. Only for a Config that records.
	NewSoundFile func(format, path string, rate int) (SoundFile, error)
	// Announcement is told to callers before the agent speaks; none if it is empty.
	Announcement Announcement
	// Tokens mints what agents show to services as the caller's; nil: nothing.
	// *identity.Signer is one.
	Tokens Minter
	// Observer is told what happens; nil for nobody.
	Observer Observer
	// Log is nil for none.
	Log *zap.Logger
}

// Minter makes signed tokens. sub is whom one is about, aud whom it is for (empty: the
// usual one); extra are further claims, and a ttl of 0 is the usual one.
type Minter interface {
	Mint(sub, aud string, extra map[string]any, ttl time.Duration) (string, error)
}

// Server takes calls: it is the sip.Handler of the gateway. It is safe for
// concurrent use.
type Server struct {
	cfg     Config
	parts   Parts
	log     *zap.Logger
	journal *journal
	// recorder is nil when nothing is recorded.
	recorder *recorder
	delays   delays
	rings    rings
	// certificate is what calls shake hands with (DTLS).
	certificate *rtp.Certificate

	dialer Dialer // nil: no calls are placed
	trunks map[string]*trunk
	inside *trunk // the guardrails of calls without a trunk; nil: they are sent nowhere

	mu       sync.Mutex
	calls    map[string]*Call
	legs     int // dialogs of calls beside their own
	ended    []endedCall
	draining bool
	idle     *sync.Cond // signalled when calls shrinks
	active   atomic.Int64
}

// NewServer makes a Server. It starts one goroutine when Config.EventsDir is set;
// Close ends it.
func NewServer(cfg Config, p Parts) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("call: %w", err)
	}
	if p.Wheel == nil || p.Route == nil || p.Voice == nil || p.Identity == nil || len(p.Codecs) == 0 {
		return nil, errors.New("call: a server needs a wheel, codecs, a route, a voice detector and an identity resolver")
	}
	if p.Observer == nil {
		p.Observer = nobody{}
	}
	if p.Log == nil {
		p.Log = zap.NewNop()
	}
	s := &Server{cfg: cfg, parts: p, log: p.Log, calls: make(map[string]*Call)}
	s.idle = sync.NewCond(&s.mu)
	var err error
	if s.trunks, err = newTrunks(p); err != nil {
		return nil, err
	}
	s.inside = newInside(cfg.Transfer)
	if s.recorder, err = newRecorder(cfg.Recording, p.NewSoundFile); err != nil {
		return nil, err
	}
	if s.certificate, err = rtp.NewCertificate(); err != nil {
		return nil, errors.Join(err, s.recorder.close())
	}
	if cfg.EventsDir != "" {
		if s.journal, err = openJournal(cfg.EventsDir, p.Log); err != nil {
			return nil, errors.Join(err, s.recorder.close())
		}
	}
	return s, nil
}

// Active is how many calls are up or being set up.
func (s *Server) Active() int { return int(s.active.Load()) }

// Drain refuses new calls from now on, or takes them again.
func (s *Server) Drain(on bool) {
	s.mu.Lock()
	s.draining = on
	s.mu.Unlock()
}

// Shutdown drains, waits until all calls have ended or ctx is done, ends the rest
// with CauseShutdown, and returns when every call is gone.
func (s *Server) Shutdown(ctx context.Context) {
	s.Drain(true)
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.calls {
			c.end(errShutdown)
		}
	})
	defer stop()
	s.mu.Lock()
	for len(s.calls)+s.legs > 0 {
		s.idle.Wait()
	}
	s.mu.Unlock()
}

// Close ends what NewServer started. Call it after Shutdown.
func (s *Server) Close() error {
	err := s.recorder.close()
	if s.journal != nil {
		err = errors.Join(err, s.journal.close())
	}
	return err
}

// refuse answers an INVITE that becomes no call. sip writes the one log line, with
// the rule; why an agent or a port was not to be had is added here.
func (s *Server) refuse(inv *sip.Invite, err error) {
	log := s.log.With(zap.String("call_id", inv.ID()))
	if cause := context.Cause(inv.Context()); cause != nil {
		s.parts.Observer.CallRefused(487, "cancelled")
		log.Info("caller gave up", zap.String("peer", inv.Source().String()), zap.NamedError("cause", cause))
		return
	}
	r := reject(err)
	s.parts.Observer.CallRefused(r.Code, r.Rule)
	if r.Rule == "agent_unavailable" || r.Rule == "agent_timeout" || r.Rule == "no_port" || r.Rule == "internal" {
		log.Warn("call not taken", zap.String("rule", r.Rule), zap.Error(err))
	}
	if err := inv.Reject(r); err != nil {
		log.Debug("refusal not sent", zap.Error(err))
	}
}

// event passes on what happened in a conversation.
func (s *Server) event(c *Call, e agent.Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	switch e.Type {
	case agent.EventBargeIn:
		c.bargeIns.Add(1)
	case agent.EventUserStopped:
		c.turns.Add(1)
	}
	c.events.add(e)
	s.parts.Observer.CallEvent(c.id, e)
	if s.journal != nil {
		s.journal.write(c.id, e)
	}
	c.logEvent(e)
}
