package call

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/media"
	"parley/sip"
)

// trunk is a Trunk at work. The figures are under Server.mu, those of the guardrails
// under their own lock.
type trunk struct {
	cfg    Trunk
	codecs []media.Codec // of Parts.Codecs those it takes, in its order
	strict bool          // operators may no more than agents

	active int // calls and legs that are up or being set up
	bucket bucket

	mu   sync.Mutex
	hour window // of what agents began
}

// newTrunks puts the trunks to work.
func newTrunks(p Parts) (map[string]*trunk, error) {
	trunks := make(map[string]*trunk, len(p.Trunks))
	for _, cfg := range p.Trunks {
		if cfg.Name == "" || trunks[cfg.Name] != nil {
			return nil, fmt.Errorf("call: trunk %q: every trunk needs a name of its own", cfg.Name)
		}
		t := &trunk{cfg: cfg, codecs: p.Codecs, bucket: bucket{rate: cfg.CallsPerSecond}}
		if len(cfg.Codecs) > 0 {
			t.codecs = nil
		}
		for _, name := range cfg.Codecs {
			i := slices.IndexFunc(p.Codecs, func(c media.Codec) bool { return strings.EqualFold(c.Name, name) })
			if i < 0 {
				return nil, fmt.Errorf("call: trunk %s: codec %q is not one of the server's", cfg.Name, name)
			}
			t.codecs = append(t.codecs, p.Codecs[i])
		}
		trunks[cfg.Name] = t
	}
	return trunks, nil
}

// newInside are the guardrails of calls that came by no trunk, nil when they are sent
// nowhere.
func newInside(c TransferConfig) *trunk {
	if len(c.Allow)+len(c.Hosts) == 0 {
		return nil
	}
	return &trunk{strict: true, cfg: Trunk{
		SIP: sip.Trunk{Domain: c.Domain}, Region: c.Region, ReferHeaders: c.ReferHeaders, Outbound: c.Outbound,
	}}
}

// name is the trunk's name, "" of none.
func (t *trunk) name() string {
	if t == nil {
		return ""
	}
	return t.cfg.Name
}

// host is where it is, as configured; empty when calls only come from there.
func (t *trunk) host() string {
	if len(t.cfg.SIP.Hosts) == 0 {
		return ""
	}
	return t.cfg.SIP.Hosts[0]
}

// full says whether it has as many calls as it may.
func (t *trunk) full() bool { return t != nil && t.cfg.MaxCalls > 0 && t.active >= t.cfg.MaxCalls }

// bucket lets so many pass in a second, and as many at once.
type bucket struct {
	rate, level float64
	last        time.Time
}

// take says whether one more may pass now; one that may not can after wait.
func (b *bucket) take(now time.Time) (ok bool, wait time.Duration) {
	if b.rate <= 0 {
		return true, 0
	}
	if most := math.Max(1, b.rate); b.last.IsZero() {
		b.level = most
	} else {
		b.level = math.Min(most, b.level+now.Sub(b.last).Seconds()*b.rate)
	}
	b.last = now
	if b.level < 1 {
		return false, time.Duration((1 - b.level) / b.rate * float64(time.Second))
	}
	b.level--
	return true, 0
}

// window counts what happened in the last hour, to the minute.
type window struct {
	minutes [60]int
	at      int64 // the minute of the newest, since 1970
}

// add counts one unless there are most of them already.
func (w *window) add(now time.Time, most int) bool {
	minute := now.Unix() / 60
	for ; w.at < minute; w.at++ {
		if minute-w.at > int64(len(w.minutes)) {
			w.minutes, w.at = [60]int{}, minute
			break
		}
		w.minutes[(w.at+1)%int64(len(w.minutes))] = 0
	}
	sum := 0
	for _, n := range w.minutes {
		sum += n
	}
	if sum >= most {
		return false
	}
	w.minutes[w.at%int64(len(w.minutes))]++
	return true
}

// enter gives a new call its place. The error is one of reject's.
func (s *Server) enter(c *Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(c.trunk); err != nil {
		return err
	}
	s.calls[c.id] = c
	if c.trunk != nil {
		c.trunk.active++
	}
	s.active.Store(int64(len(s.calls)))
	return nil
}

// room says whether one more call may be set up. s.mu is held.
func (s *Server) room(t *trunk) error {
	switch {
	case s.draining:
		return ErrDraining
	case len(s.calls)+s.legs >= s.cfg.MaxCalls:
		return errTooMany
	case t.full():
		return errTrunkFull
	}
	return nil
}

// leg takes the place of a second dialog of a call; done gives it back.
func (s *Server) leg(t *trunk) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(t); err != nil {
		return nil, err
	}
	if ok, _ := t.bucket.take(time.Now()); !ok {
		return nil, errTrunkRate
	}
	s.legs++
	t.active++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.legs--
		t.active--
		s.idle.Broadcast()
	}), nil
}

// pace says whether one more call may go out through a trunk now.
func (s *Server) pace(t *trunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok, _ := t.bucket.take(time.Now()); !ok {
		return errTrunkRate
	}
	return nil
}

// reseat moves a call into the place of its leg, which may be another trunk's.
func (s *Server) reseat(c *Call, l *leg) {
	s.mu.Lock()
	c.trunk.active--
	l.trunk.active++
	c.trunk = l.trunk
	s.mu.Unlock()
	if l.done != nil {
		l.done()
	}
}

// release gives the call's place back and frees what is left of it.
func (s *Server) release(c *Call) {
	c.free()
	c.enter(StateEnded)
	c.events.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c.id)
	if c.trunk != nil {
		c.trunk.active--
	}
	s.active.Store(int64(len(s.calls)))
	s.idle.Broadcast()
}
