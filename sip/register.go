package sip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Registration keeps us registered with a trunk (RFC 3261 section 10) until Close
// or the end of the server. Its methods may be called from any goroutine.
type Registration struct {
	s      *Server
	link   *link
	line   string // in our Contact: says which registration a call came by
	callID string
	tag    string

	ctx    context.Context
	cancel context.CancelFunc
	rounds context.Context // of ctx; ended by Close
	leave  context.CancelFunc
	ended  chan struct{} // closed when the loop has ended

	mu    sync.Mutex
	cseq  uint32
	open  bool   // a REGISTER has had no final response
	last  target // that was tried
	flow  *flow  // to it
	state RegistrationState
	asked time.Duration // lifetime to ask for; a registrar may want more
}

// RegistrationState is a registration as it is now.
type RegistrationState struct {
	// Trunk is the trunk's name.
	Trunk string
	// Registered says that the registrar holds a binding of ours that has not
	// expired.
	Registered bool
	// Registrar is the address that took it, or that was tried last.
	Registrar string
	// Contact is the address that was registered.
	Contact string
	// Since is when the present registration began, Expires when it ends unless it
	// is refreshed, Next when it will be refreshed or tried again.
	Since, Expires, Next time.Time
	// Code is the status of the last final response; 0 before the first.
	Code int
	// Err is why the last attempt failed; nil when it did not.
	Err error
	// Attempts counts rounds over the registrars, Failures those in a row that
	// failed, Failed all that did.
	Attempts, Failures, Failed uint64

	taken time.Time // when the registrar last said yes
}

// Register registers with a trunk and keeps the registration: it is refreshed
// before it expires, and begun anew, at the next registrar when one does not
// answer, whenever it fails or the connection is lost. Calls that come by it are
// found with Invite.Registration. Call it after Listen. A second registration of
// the same trunk is refused.
func (s *Server) Register(t Trunk) (*Registration, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	l := s.linkOf(t)
	r := &Registration{s: s, link: l, line: newID(), callID: newID() + newID(), tag: newID(),
		ended: make(chan struct{}), asked: t.Expires}
	r.ctx, r.cancel = context.WithCancel(s.life)
	r.rounds, r.leave = context.WithCancel(r.ctx)
	r.state.Trunk = t.Name
	s.mu.Lock()
	switch {
	case s.listeners == nil:
		s.mu.Unlock()
		return nil, errors.New("sip: Register before Listen")
	case s.lines[t.Name] != nil:
		s.mu.Unlock()
		return nil, fmt.Errorf("sip: trunk %s is registered already", t.Name)
	}
	s.lines[t.Name] = r
	s.mu.Unlock()
	if !s.spawn(r.run) {
		r.forget()
		return nil, ErrShutdown
	}
	return r, nil
}

// Registrations are those that were not closed, in no order.
func (s *Server) Registrations() []*Registration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Registration
	for _, r := range s.lines {
		all = append(all, r)
	}
	return all
}

// Trunk is what it registers with.
func (r *Registration) Trunk() Trunk { return r.link.t }

// State is how it is now.
func (r *Registration) State() RegistrationState {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.state
	st.Registered = st.Registered && time.Now().Before(st.Expires)
	return st
}

// Close takes our binding back and ends the registration. It returns when the
// registrar has answered, or with the error of ctx; the binding then lasts until
// it expires. More calls wait for the first.
func (r *Registration) Close(ctx context.Context) error {
	r.leave()
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		r.cancel()
		<-r.ended
		return ctx.Err()
	}
}

func (r *Registration) forget() {
	r.cancel()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.lines[r.link.t.Name] == r {
		delete(r.s.lines, r.link.t.Name)
	}
}

// run registers until it is told to stop.
func (r *Registration) run() {
	defer close(r.ended)
	defer r.forget()
	defer r.s.recovered("registration", func() {}, func() []zap.Field { return []zap.Field{zap.String("trunk", r.link.t.Name)} })
	for {
		next := r.round()
		r.mu.Lock()
		r.state.Next = time.Now().Add(next)
		r.mu.Unlock()
		if r.rounds.Err() != nil || !r.rest(next) {
			break
		}
	}
	if r.ctx.Err() == nil {
		r.unregister()
	}
}

// round asks the registrars, one after the other, beginning with the one that
// took us last. It returns how long to wait before the next round.
func (r *Registration) round() time.Duration {
	t := r.link.t
	r.mu.Lock()
	r.state.Attempts++
	r.mu.Unlock()
	all, err := r.s.targets(r.rounds, t)
	if last, ok := r.link.settled(); ok {
		for i, other := range all {
			if other.addr == last.addr {
				all = append([]target{last}, append(all[:i:i], all[i+1:]...)...)
				break
			}
		}
	}
	var wait time.Duration // that a registrar asked for
	for i, to := range all {
		limit := time.Duration(0)
		if i+1 < len(all) {
			limit = 16 * r.s.cfg.T1 // another one may answer
		}
		var m *message
		var granted time.Duration
		m, granted, err = r.register(to, limit)
		if err == nil {
			return granted*3/4 - rand.N(granted/10+1)
		}
		if r.rounds.Err() != nil {
			return 0
		}
		if m != nil {
			wait = max(wait, retryAfter(m))
			if m.code/100 != 5 && m.code != 408 && m.code != 480 && m.code != 430 {
				break // the next would say the same (RFC 3263 section 4.3)
			}
		}
	}
	return max(wait, r.failed(err))
}

// failed notes a round that failed and returns the wait before the next.
func (r *Registration) failed(err error) time.Duration {
	t := r.link.t
	r.mu.Lock()
	news := r.state.Err == nil || err == nil || r.state.Err.Error() != err.Error()
	r.state.Err = err
	r.state.Failures++
	r.state.Failed++
	n := r.state.Failures
	r.state.Registered = r.state.Registered && time.Now().Before(r.state.Expires)
	r.mu.Unlock()
	wait := t.Backoff << min(n-1, 20)
	if errors.Is(err, ErrUnauthorized) {
		// Servers lock out who tries passwords in a hurry.
		wait *= 8
		r.link.keys.forget()
	}
	if wait <= 0 || wait > t.MaxBackoff {
		wait = t.MaxBackoff
	}
	wait = wait/2 + rand.N(wait/2+1)
	log := r.s.log.Debug
	if news { // the same again is worth no line at each attempt
		log = r.s.log.Warn
	}
	log("sip: registration failed", zap.String("trunk", t.Name), zap.Uint64("failures", n), zap.Duration("retry", wait), zap.Error(err))
	return wait
}

// register asks one registrar. The response may be nil with an error.
func (r *Registration) register(to target, limit time.Duration) (*message, time.Duration, error) {
	f, err := r.link.reach(r.rounds, to)
	r.mu.Lock()
	r.last, r.flow = to, f
	r.mu.Unlock()
	if err != nil {
		r.note(to, "", nil)
		return nil, 0, err
	}
	contact := r.contact(f)
	r.note(to, contact, nil)
	l := r.link.keys.begin(true)
	m, err := r.send(r.rounds, f, contact, r.lifetime(), l, limit)
	if m != nil && m.code == 423 {
		// Once: a registrar that raises its minimum each time would keep us busy
		// (RFC 3261 section 10.2.8).
		if least := headerSeconds(m.get("min-expires")); least > r.lifetime() && least <= 24*time.Hour {
			r.mu.Lock()
			r.asked = least
			r.mu.Unlock()
			m, err = r.send(r.rounds, f, contact, least, l, limit)
		}
	}
	r.note(to, contact, m)
	if err != nil {
		return m, 0, err
	}
	if m.code/100 != 2 {
		return m, 0, fmt.Errorf("sip: registrar %v answered %d", to.addr, m.code)
	}
	granted := r.granted(m, contact)
	if granted <= 0 {
		return m, 0, fmt.Errorf("sip: registrar %v granted no time", to.addr)
	}
	r.link.keys.approved(l.use)
	r.link.learn(m.all("service-route"))
	r.link.settle(to, true)
	r.succeeded(granted)
	return m, granted, nil
}

func (r *Registration) lifetime() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// note keeps what State shows of an attempt.
func (r *Registration) note(to target, contact string, m *message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Registrar, r.state.Contact = to.addr.String(), contact
	if m != nil {
		r.state.Code = m.code
	}
}

func (r *Registration) succeeded(granted time.Duration) {
	r.mu.Lock()
	now := time.Now()
	first, back := !r.state.Registered, r.state.Err != nil
	if first {
		r.state.Since = now
	}
	r.state.Registered, r.state.Err, r.state.Failures = true, nil, 0
	r.state.Expires, r.state.taken = now.Add(granted), now
	registrar := r.state.Registrar
	r.mu.Unlock()
	if first || back {
		r.s.log.Info("sip: registered", zap.String("trunk", r.link.t.Name), zap.String("peer", registrar), zap.Duration("expires", granted))
	}
}

// send sends one REGISTER.
func (r *Registration) send(ctx context.Context, f *flow, contact string, expires time.Duration, l *login, limit time.Duration) (*message, error) {
	t := r.link.t
	own := "<" + t.aor(t.User) + ">"
	q := request{method: "REGISTER", uri: "sip:" + t.domain(), routes: t.proxies(), from: own + ";tag=" + r.tag, to: own, callID: r.callID, fields: []field{
		{"Contact", contact + ";expires=" + seconds(expires)}, {"Expires", seconds(expires)}, {"Allow", methods}, {"Supported", "path"},
	}}
	r.pending(true)
	m, err := r.s.ask(ctx, q, f, f.remote, l, r.nextCSeq, limit)
	if m != nil {
		r.pending(false)
	}
	return m, err
}

// pending notes whether the registrar may hold a binding that we do not know of.
func (r *Registration) pending(open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = open
}

func (r *Registration) nextCSeq() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cseq++
	return r.cseq
}

// unregister takes the binding back, at most for as long as one attempt may take.
func (r *Registration) unregister() {
	r.mu.Lock()
	to, registered, open := r.last, r.state.Registered, r.open
	r.mu.Unlock()
	if !registered && !open {
		return
	}
	limit := time.Duration(0)
	if !registered {
		limit = 4 * r.s.cfg.T1 // it has not answered so far
	}
	f, err := r.link.reach(r.ctx, to)
	if err == nil {
		_, err = r.send(r.ctx, f, r.contact(f), 0, r.link.keys.begin(true), limit)
	}
	r.mu.Lock()
	r.state.Registered = false
	r.mu.Unlock()
	if err != nil {
		r.s.log.Warn("sip: not unregistered", zap.String("trunk", r.link.t.Name), zap.Error(err))
		return
	}
	r.s.log.Info("sip: unregistered", zap.String("trunk", r.link.t.Name))
}
