// Package call joins a SIP dialog, an RTP session and an agent to one phone call.
// No algorithm lives here: sip, rtp, media and agent do the work, and this
// package is the picture of how they hang together.
//
//	             ┌────────────────────────── Call ──────────────────────────┐
//	caller ─RTP─>│ rtp.Session ─> ear ─> agent.Session.Hear, Notice         │
//	caller <─RTP─│ rtp.Session <─ Mouth <─ agent.Speaker.Say                │
//	caller ─SIP─>│ side: sip.Dialog ─> negotiation ─> change ─> (wheel)     │
//	             └──────────────────────────────────────────────────────────┘
//
// A call that came in gets its side from setUp (inbound.go), a call that is placed from
// the leg that is answered (outbound.go, fork.go, leg.go); takeover.go gives it another.
//
// A call ends when the first of its parties ends it: the dialog, the agent, a
// watchdog, the shutdown. The cause travels as the cause of the call's context.
package call

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/identity"
	"parley/rtp"
	"parley/sip"
)

// The causes of a call's context; causes has the words for the record.
var (
	errAgentDone    = errors.New(CauseAgentHungUp)
	errMediaTimeout = errors.New(CauseMediaTimeout)
	errMaxDuration  = errors.New(CauseMaxDuration)
	errShutdown     = errors.New(CauseShutdown)
	errTransferred  = errors.New(CauseTransferred)
)

// The directions of a call.
const (
	inbound  = "inbound"
	outbound = "outbound"
)

// Call is one phone call.
type Call struct {
	server    *Server
	log       *zap.Logger
	id        string
	sessionID string
	direction string
	caller    identity.Caller // of an outbound call: who is called
	from      string          // the number shown, of an outbound call
	called    string
	trunk     *trunk // nil: none
	picks     pickup // of an outbound call
	routed    Routed
	headers   map[string]string // X- headers of a trusted trunk
	context   map[string]string // for the agent, of an outbound call
	token     string            // for the agent; a secret
	codec     string            // the one of the answer
	began     time.Time

	ctx context.Context
	end context.CancelCauseFunc

	rtp     *rtp.Session
	mouth   *Mouth
	ear     *ear
	session agent.Session
	side    atomic.Pointer[side] // the dialog in force; nil before it has one

	pending  atomic.Pointer[change] // for the wheel to put into force
	line     *line                  // in force; the wheel's
	held     atomic.Bool
	heldWas  bool // the wheel's
	keys     keys
	answered time.Time
	suite    atomic.Pointer[string] // how the sound is encrypted, "" for not
	early    atomic.Uint64          // packets before the answer
	bargeIns atomic.Uint64
	turns    atomic.Uint64
	digits   atomic.Uint64
	freed    sync.Once
	taping   taping
	prompt   announcement
	ran      bool

	acts   acts     // what is being done to the call
	events *history // of the conversation

	mu   sync.Mutex
	view Status // without what changes by itself, and without StateHeld
	peer string // where its signalling comes from

	stopWatch func()
	gone      chan struct{} // closed when the agent has returned
}

func newCall(s *Server, id, direction string) *Call {
	c := &Call{server: s, id: id, sessionID: newID(), direction: direction, began: time.Now()}
	c.view = Status{ID: id, SessionID: c.sessionID, Direction: direction, State: StateRinging, Began: c.began}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.log = s.log.With(zap.String("call_id", c.id), zap.String("session_id", c.sessionID))
	c.keys.free = make(chan struct{}, 1)
	c.events = &history{}
	return c
}

// newID is an unguessable id of 128 bits.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	return hex.EncodeToString(b[:])
}

// listen takes a port and begins the negotiation for the first dialog. local is the
// address of ours that the peer knows, if it has reached us.
func (c *Call) listen(local netip.Addr) (*negotiation, error) {
	var err error
	if c.rtp, err = c.server.parts.Wheel.Listen(); err != nil {
		return nil, err
	}
	return c.negotiation(c.trunk, c.rtp, local), nil
}

// negotiation begins one with a peer, for a session of the call.
func (c *Call) negotiation(t *trunk, session *rtp.Session, local netip.Addr) *negotiation {
	codecs := c.server.parts.Codecs
	if t != nil {
		codecs = t.codecs
	}
	var id [8]byte
	_, _ = rand.Read(id[:])
	set := c.address(t, session)
	n := newNegotiation(c.server.cfg, codecs, local, session.Local().Port(), binary.BigEndian.Uint64(id[:])>>2)
	if set.IsValid() {
		n.local.Addr = set
	} else {
		n.facing = facing
	}
	n.listenRTCP = func() uint16 { return c.listenRTCP(session) }
	c.protect(n, t)
	return n
}

// address is the address that the configuration puts into session descriptions; the
// zero value when it does not say.
func (c *Call) address(t *trunk, session *rtp.Session) netip.Addr {
	if t != nil && t.cfg.Advertise.IsValid() {
		return t.cfg.Advertise
	}
	if a := c.server.cfg.Advertise; a.IsValid() {
		return a
	}
	if a := session.Local().Addr(); !a.IsUnspecified() {
		return a
	}
	return netip.Addr{}
}

// connect makes ear and mouth for the agent's rates.
func (c *Call) connect(first *change, f agent.Format) error {
	rate := first.line.codec.SampleRate
	if f.Payloads && first.line.bytewise() {
		f.HearRate, f.SayRate = rate, rate
	}
	if f.HearRate == 0 {
		f.HearRate = rate
	}
	if f.SayRate == 0 {
		f.SayRate = rate
	}
	voice, err := c.server.parts.Voice(rate)
	if err != nil {
		return fmt.Errorf("call: voice detector: %w", err)
	}
	c.ear = &ear{voice: voice, voiceRate: rate, hearRate: f.HearRate, notice: c.notice,
		hear: func(pcm []int16) { c.session.Hear(pcm) }}
	if c.server.cfg.EchoFloor {
		if err := c.ear.guard(); err != nil {
			return err
		}
	}
	if err := c.ear.use(first.line, first.accept, first.jitter, first.digits); err != nil {
		return err
	}
	c.line, c.codec = first.line, first.line.codec.Name
	c.show(func(s *Status) { s.Codec = c.codec })
	if c.mouth, err = newMouth(first.line, f.SayRate, c.server.rings.take(c.server.cfg.SpeechBuffer), c.notice); err != nil {
		return err
	}
	c.equip()
	return nil
}

// mint makes the token that stands for the caller.
func (c *Call) mint() (err error) {
	if c.server.parts.Tokens == nil || c.caller.ResourceID == "" {
		return nil
	}
	c.token, err = c.server.parts.Tokens.Mint(c.caller.ResourceID, "", map[string]any{"call_id": c.id, "session_id": c.sessionID}, 0)
	return err
}

// open makes the agent's session while the caller hears ringing.
func (c *Call) open() error {
	ctx, cancel := context.WithTimeout(c.ctx, c.server.cfg.OpenTimeout)
	defer cancel()
	info := agent.Call{
		ID: c.id, SessionID: c.sessionID, Direction: c.direction,
		Caller: agent.Caller{
			ResourceID: c.caller.ResourceID, Number: c.caller.Number, Name: c.caller.Name, Verified: c.caller.Verified,
		},
		Called:   c.called,
		Original: c.caller.Original,
		Trunk:    c.trunk.name(),
		Agent:    c.routed.Agent,
		Headers:  c.headers,
		Context:  c.context,
		Token:    c.token,
		Rate:     c.line.codec.SampleRate,
		Codec:    c.codec,
		Speaker:  c.mouth,
		Payloads: c.ear.payloads,
		Control:  handle{c},
		Emit:     func(e agent.Event) { c.server.event(c, e) },
		Over:     c.agentOver,
	}
	session, err := c.routed.Opener.Open(ctx, info)
	if err != nil {
		return fmt.Errorf("%w: %w", errOpen, err)
	}
	c.session = session
	return nil
}

// up makes a dialog the one in force.
func (c *Call) up(d *side) {
	d.mu.Lock()
	c.side.Store(d)
	if d.first != nil {
		c.apply(d.first)
	}
	d.mu.Unlock()
	// The peer's port may belong to another call of its once the dialog is over:
	// nothing more is sent, however long the agent takes to leave.
	context.AfterFunc(d.dialog.Context(), func() { c.over(d) })
}

// over ends the call when the dialog in force has ended.
func (c *Call) over(d *side) {
	if c.side.Load() != d {
		return // another one has taken over
	}
	cause := context.Cause(d.dialog.Context())
	if c.acts.accepted.Load() && errors.Is(cause, sip.ErrPeerBye) {
		// It was sent elsewhere, went, and does not tell how that ended.
		cause = errTransferred
	}
	c.end(cause)
	c.rtp.Close()
}

// start lets the call live: from here on it needs one goroutine, the agent's, and
// one more for its end.
func (c *Call) start() {
	c.ran = true
	setup := c.answered.Sub(c.began)
	c.show(func(s *Status) { s.State, s.Answered = StateAnswered, &c.answered })
	c.server.parts.Observer.CallStarted(Started{
		CallID: c.id, SessionID: c.sessionID, Direction: c.direction, Trunk: c.trunk.name(), Codec: c.codec, Setup: setup,
	})
	c.log.Info("call started", zap.String("direction", c.direction), zap.String("peer", c.source()), zap.String("called", c.calledText()),
		zap.String("resource_id", identity.Mask(c.caller.ResourceID)), zap.String("route", c.routed.Route), zap.String("trunk", c.trunk.name()),
		zap.String("agent", c.routed.Agent), zap.String("codec", c.codec), zap.Duration("setup", setup))
	c.tell(agent.Event{Type: agent.EventConnection, Reason: agent.ConnectionAnswered})
	c.tell(agent.Event{Type: agent.EventTiming, Reason: "setup", Latency: setup})
	c.stopWatch = c.watch()
	c.startRecording()
	c.gone = make(chan struct{})
	context.AfterFunc(c.ctx, c.conclude)
	go c.live()
}

// tell reports an event of the call itself.
func (c *Call) tell(e agent.Event) { c.server.event(c, e) }

// live runs the agent; when it returns the call is over.
func (c *Call) live() {
	defer close(c.gone)
	c.announce(c.ctx)
	c.agentOver(c.runAgent(c.ctx))
}

// agentOver ends the call because the agent is done, or has failed. It says nothing when
// the call was over before.
func (c *Call) agentOver(err error) {
	if err != nil {
		c.end(&agentError{err})
		return
	}
	c.end(errAgentDone)
}

// conclude hangs up, waits for the agent and writes the record. It runs once, on a
// goroutine of its own, when the call's context is done.
func (c *Call) conclude() {
	defer func() {
		if p := recover(); p != nil { // an observer's, say: other calls live on
			c.log.Error("end of the call panicked", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		}
		c.server.release(c)
	}()
	c.enter(StateEnding)
	c.stopWatch()
	c.hangUp()
	c.leave()
	c.finish()
}

// runAgent runs the agent; its panic is a fault of this call only.
func (c *Call) runAgent(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("agent panicked", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			err = fmt.Errorf("call: agent panicked: %v", p)
		}
	}()
	return c.session.Run(ctx)
}

// hangUp silences the call and sends BYE unless the peer did.
func (c *Call) hangUp() {
	c.mouth.Stop()
	c.mouth.close()
	// From here on no other dialog takes the call over.
	c.acts.mu.Lock()
	d := c.side.Load()
	c.acts.over = true
	c.acts.mu.Unlock()
	if d.dialog.Context().Err() == nil { // else the peer's port may be another call's (BR-152)
		c.rtp.Bye()
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.server.cfg.EndTimeout)
	defer cancel()
	cause := context.Cause(c.ctx)
	if err := d.dialog.Bye(ctx, byeReason(cause)); err != nil {
		c.log.Warn("BYE not answered", zap.Error(err))
	}
}

// leave waits for the agent, within bounds, and takes the call off the wheel.
func (c *Call) leave() {
	timer := time.NewTimer(c.server.cfg.EndTimeout)
	defer timer.Stop()
	select {
	case <-c.gone:
	case <-timer.C:
		c.log.Error("agent does not return from Run; going on without it", zap.Duration("waited", c.server.cfg.EndTimeout))
	}
	c.free()
	if r := c.mouth.spare(); r != nil {
		c.server.rings.give(r)
	}
}

// free gives back all that setUp took. It may be called more than once.
func (c *Call) free() {
	c.freed.Do(func() {
		c.end(errAgentDone)
		if c.rtp != nil {
			c.rtp.Close()
		}
		c.closeRecording()
		if c.ear != nil {
			if v, ok := c.ear.voice.(io.Closer); ok {
				_ = v.Close() // a detector has nothing to say at its end
			}
		}
		if c.session != nil && !c.ran {
			// Opened but never run: an agent frees what it holds in Run.
			if err := c.runAgent(c.ctx); err != nil {
				c.log.Debug("agent closed", zap.Error(err))
			}
		}
	})
}

// notice passes an event of the call to the agent.
func (c *Call) notice(n agent.Notice) {
	if n.Kind == agent.Digit {
		c.digits.Add(1)
	}
	if c.prompt.hides(n, c.server.parts.Announcement.lasts()) {
		return
	}
	c.session.Notice(n)
}
