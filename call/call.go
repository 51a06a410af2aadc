// Package call joins a SIP dialog, an RTP session and an agent to one phone call.
// No algorithm lives here: sip, rtp, media and agent do the work, and this
// package is the picture of how they hang together.
//
//	             ┌────────────────────────── Call ──────────────────────────┐
//	caller ─RTP─>│ rtp.Session ─> ear ─> agent.Session.Hear, Notice         │
//	caller <─RTP─│ rtp.Session <─ Mouth <─ agent.Speaker.Say                │
//	caller ─SIP─>│ sip.Dialog ─> negotiation ─> change ─> (wheel) ear, Mouth │
//	             └──────────────────────────────────────────────────────────┘
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
)

// Call is one phone call.
type Call struct {
	server    *Server
	inv       *sip.Invite
	log       *zap.Logger
	id        string
	sessionID string
	caller    identity.Caller
	called    string
	codec     string // the first one's name
	began     time.Time

	ctx context.Context
	end context.CancelCauseFunc

	rtp     *rtp.Session
	nego    *negotiation
	mouth   *Mouth
	ear     *ear
	session agent.Session
	dialog  *sip.Dialog

	pending  atomic.Pointer[change] // for the wheel to put into force
	line     *line                  // in force; the wheel's
	held     atomic.Bool
	heldWas  bool // the wheel's
	answered time.Time
	bargeIns atomic.Uint64
	turns    atomic.Uint64
	digits   atomic.Uint64
	freed    sync.Once
	taping   taping
	prompt   announcement
	ran      bool

	stopWatch func()
	gone      chan struct{} // closed when the agent has returned
}

func newCall(ctx context.Context, s *Server, inv *sip.Invite) *Call {
	c := &Call{server: s, inv: inv, id: inv.ID(), sessionID: newID(), began: time.Now()}
	c.ctx, c.end = context.WithCancelCause(ctx)
	c.log = s.log.With(zap.String("call_id", c.id), zap.String("session_id", c.sessionID))
	return c
}

// newID is an unguessable id of 128 bits.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	return hex.EncodeToString(b[:])
}

// setUp brings the call from the INVITE to the 200. On an error everything it
// took is given back by free.
func (c *Call) setUp() error {
	if err := c.identify(false, ""); err != nil {
		return err
	}
	routed, ok := c.server.parts.Route(Request{Called: c.called, Caller: c.caller, Direction: "inbound"})
	if !ok || routed.Opener == nil {
		return errNoRoute
	}
	opener := routed.Opener
	// The INVITE's own context ends when the caller cancels; a call's context does
	// not end with its INVITE transaction.
	stop := context.AfterFunc(c.inv.Context(), func() { c.end(context.Cause(c.inv.Context())) })
	defer stop()

	description, first, err := c.negotiate()
	if err != nil {
		return err
	}
	if err := c.connect(first, opener.Format()); err != nil {
		return err
	}
	if err := c.inv.Ring(); err != nil {
		return err
	}
	if err := c.open(opener); err != nil {
		return err
	}
	// The wheel must turn before the 200 is out: the caller may send at once.
	c.pending.Store(first)
	c.rtp.Join((*turned)(c))
	if c.dialog, err = c.inv.Answer(description, (*dialogSide)(c)); err != nil {
		return err
	}
	c.answered = time.Now()
	return nil
}

// negotiate takes a port and makes the session description for the 200.
func (c *Call) negotiate() (description []byte, first *change, err error) {
	if c.rtp, err = c.server.parts.Wheel.Listen(); err != nil {
		return nil, nil, err
	}
	var id [8]byte
	_, _ = rand.Read(id[:])
	c.nego = newNegotiation(c.server.cfg, c.server.parts.Codecs, c.address(), c.rtp.Local().Port(),
		binary.BigEndian.Uint64(id[:])>>2)
	c.nego.listenRTCP = c.listenRTCP
	if offer := c.inv.Offer(); offer != nil {
		description, first, refusal := c.nego.answer(offer)
		if refusal != nil {
			return nil, nil, refusal
		}
		return description, first, nil
	}
	// Without an offer the 200 carries ours and the ACK the answer (RFC 3264
	// section 4). Until then the call is made for our preferred codec.
	description = c.nego.propose()
	first, err = c.nego.provisional()
	return description, first, err
}

// address is the address to put into session descriptions.
func (c *Call) address() netip.Addr {
	if a := c.server.cfg.Advertise; a.IsValid() {
		return a
	}
	if a := c.rtp.Local().Addr(); !a.IsUnspecified() {
		return a
	}
	return c.inv.Local().Addr()
}

// connect makes ear and mouth for the agent's rates.
func (c *Call) connect(first *change, f agent.Format) error {
	rate := first.line.codec.SampleRate
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
	if err := c.ear.use(first.line, first.accept, first.jitter, first.digits); err != nil {
		return err
	}
	c.line, c.codec = first.line, first.line.codec.Name
	if c.mouth, err = newMouth(first.line, f.SayRate, c.server.cfg.SpeechBuffer, c.notice); err != nil {
		return err
	}
	c.equip()
	return nil
}

// open makes the agent's session while the caller hears ringing.
func (c *Call) open(opener agent.Opener) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.server.cfg.OpenTimeout)
	defer cancel()
	session, err := opener.Open(ctx, agent.Call{
		ID: c.id, SessionID: c.sessionID, Direction: "inbound",
		Caller:  agent.Caller{ResourceID: c.caller.ResourceID, Number: c.caller.Number, Name: c.caller.Name},
		Called:  c.called,
		Rate:    c.line.codec.SampleRate,
		Speaker: c.mouth,
		Control: agent.NoControl{},
		Emit:    func(e agent.Event) { c.server.event(c, e) },
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errOpen, err)
	}
	c.session = session
	return nil
}

// start lets the call live: from here on it needs one goroutine, the agent's, and
// one more for its end.
func (c *Call) start() {
	c.ran = true
	setup := c.answered.Sub(c.began)
	c.server.parts.Observer.CallStarted(Started{CallID: c.id, SessionID: c.sessionID, Codec: c.codec, Setup: setup})
	c.log.Info("call started", zap.String("peer", c.inv.Source().String()), zap.String("called", c.called),
		zap.String("resource_id", identity.Mask(c.caller.ResourceID)), zap.String("codec", c.codec), zap.Duration("setup", setup))
	c.stopWatch = c.watch()
	c.startRecording()
	c.gone = make(chan struct{})
	// The peer's port may belong to another call of its once the dialog is over:
	// nothing more is sent, however long the agent takes to leave.
	context.AfterFunc(c.dialog.Context(), c.rtp.Close)
	context.AfterFunc(c.ctx, c.conclude)
	go c.live()
}

// live runs the agent; when it returns the call is over.
func (c *Call) live() {
	defer close(c.gone)
	c.announce(c.ctx)
	if err := c.runAgent(c.ctx); err != nil {
		c.end(&agentError{err}) // which says nothing when the call was over before
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
	if c.dialog.Context().Err() == nil { // else the peer's port may be another call's (BR-152)
		c.rtp.Bye()
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.server.cfg.EndTimeout)
	defer cancel()
	cause := context.Cause(c.ctx)
	if err := c.dialog.Bye(ctx, byeReason(cause)); err != nil {
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
