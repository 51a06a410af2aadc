package call

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"parley/agent"
	"parley/identity"
	"parley/media"
	"parley/media/g711"
	"parley/media/vad"
	"parley/rtp"
	"parley/sip"
	"parley/test/phone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway is a Server on loopback with everything real but the agent.
type gateway struct {
	*Server
	uri   string
	agent *fakeAgent
	seen  *watcher
	wheel *rtp.Wheel
	sip   *sip.Server

	refusal atomic.Pointer[sip.RejectError] // of all callers
	routed  atomic.Int32
}

// trunkTo is a trunk that leads to a phone, with a number that agents may call.
func trunkTo(p *phone.Phone) Trunk {
	t := Trunk{Name: "carrier", SIP: sip.DefaultTrunk(), Region: "US"}
	t.SIP.Name, t.SIP.Hosts, t.SIP.User = t.Name, []string{p.Local().String()}, "+14155550000"
	t.Outbound.CallerIDs = []string{"+14155550000", "+14155550001"}
	return t
}

// withTrunk starts a gateway with one trunk to a phone; change may alter it.
func withTrunk(t *testing.T, p *phone.Phone, change func(*Trunk)) *gateway {
	t.Helper()
	trunk := trunkTo(p)
	if change != nil {
		change(&trunk)
	}
	return startGatewayOf(t, nil, func(parts *Parts) {
		parts.Trunks = []Trunk{trunk}
	})
}

// startGateway starts one; change may alter its configuration.
func startGateway(t *testing.T, change func(*Config, *sip.Config)) *gateway {
	t.Helper()
	return startGatewayOf(t, change, nil)
}

// startGatewayOf is startGateway; plug, when there is one, may alter the parts.
func startGatewayOf(t *testing.T, change func(*Config, *sip.Config), plug func(*Parts)) *gateway {
	t.Helper()
	g := &gateway{agent: &fakeAgent{}, seen: newWatcher()}
	rc := rtp.DefaultConfig()
	rc.Addr, rc.PortMin, rc.PortMax = netip.MustParseAddr("127.0.0.1"), 0, 0
	var err error
	if g.wheel, err = rtp.NewWheel(rc); err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(identity.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg, sc := DefaultConfig(), sip.DefaultConfig()
	sc.Listen = []sip.Listener{{Network: "udp", Addr: "127.0.0.1:0"}}
	if change != nil {
		change(&cfg, &sc)
	}
	codecs := slices.DeleteFunc([]media.Codec{g711.PCMU(), g711.PCMA()}, func(c media.Codec) bool { return !slices.Contains(cfg.Codecs, c.Name) })
	log := zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	parts := Parts{
		Wheel: g.wheel, Identity: who, Codecs: codecs, Observer: g.seen, Log: log,
		Voice: func(rate int) (vad.Detector, error) { return vad.NewEnergy(vad.DefaultEnergyConfig(rate)) },
		Admit: func(inv *sip.Invite) (sip.Admission, *sip.RejectError) {
			return sip.Admission{Trunk: trunkOf(inv)}, g.refusal.Load()
		},
		Route: func(r Request) (Routed, bool) {
			g.routed.Add(1)
			return Routed{Route: "all", Agent: "fake", Opener: g.agent}, r.Called != "nobody"
		},
	}
	if plug != nil {
		plug(&parts)
	}
	g.Server, err = NewServer(cfg, parts)
	if err != nil {
		t.Fatal(err)
	}
	server, err := sip.NewServer(sc, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(); err != nil {
		t.Fatal(err)
	}
	g.Use(server)
	g.sip = server
	g.uri = fmt.Sprintf("sip:agent@%v", server.Addrs()[0].Addr)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, g.Handle) }()
	t.Cleanup(func() {
		over, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer stop()
		g.Shutdown(over)
		cancel()
		if err := <-served; err != nil {
			t.Error("serve:", err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := g.wheel.Close(); err != nil {
			t.Error(err)
		}
		if n := g.Active(); n != 0 {
			t.Errorf("%d calls left", n)
		}
	})
	return g
}

// awaitNone waits until no call is left.
func (g *gateway) awaitNone() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.calls) > 0 {
		g.idle.Wait()
	}
}

// ringUp makes a phone.
func ringUp(t *testing.T, c phone.Config) *phone.Phone {
	t.Helper()
	p, err := phone.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// fakeAgent is an agent whose behaviour a test sets before the call.
type fakeAgent struct {
	mu       sync.Mutex
	format   agent.Format
	open     func(context.Context, agent.Call) error
	run      func(context.Context, *fakeSession) error
	sessions []*fakeSession
}

// does sets what the agent does in calls from now on.
func (a *fakeAgent) does(run func(context.Context, *fakeSession) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run = run
}

// opens sets what the agent does before calls are answered.
func (a *fakeAgent) opens(open func(context.Context, agent.Call) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = open
}

func (a *fakeAgent) Format() agent.Format {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.format
}

func (a *fakeAgent) Open(ctx context.Context, c agent.Call) (agent.Session, error) {
	a.mu.Lock()
	open, run := a.open, a.run
	a.mu.Unlock()
	if open != nil {
		if err := open(ctx, c); err != nil {
			return nil, err
		}
	}
	s := &fakeSession{run: run, call: c, notices: make(chan agent.Notice, 1000), ended: make(chan struct{})}
	a.mu.Lock()
	a.sessions = append(a.sessions, s)
	a.mu.Unlock()
	return s, nil
}

// last is the newest session.
func (a *fakeAgent) last() *fakeSession {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[len(a.sessions)-1]
}

type fakeSession struct {
	run     func(context.Context, *fakeSession) error
	call    agent.Call
	notices chan agent.Notice
	ended   chan struct{}

	mu     sync.Mutex
	frames int
	loud   int
	sizes  []int
}

func (s *fakeSession) Hear(pcm []int16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames++
	if !slices.Contains(s.sizes, len(pcm)) {
		s.sizes = append(s.sizes, len(pcm))
	}
	if slices.Max(pcm) > 1000 {
		s.loud++
	}
}

func (s *fakeSession) heard() (frames, loud int, sizes []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames, s.loud, slices.Clone(s.sizes)
}

func (s *fakeSession) Notice(n agent.Notice) {
	select {
	case s.notices <- n:
	default:
	}
}

// await returns the next notice of a kind.
func (s *fakeSession) await(t *testing.T, kind agent.NoticeKind) agent.Notice {
	t.Helper()
	for limit := time.After(10 * time.Second); ; {
		select {
		case n := <-s.notices:
			if n.Kind == kind {
				return n
			}
		case <-limit:
			t.Fatalf("no notice of kind %d within 10 s", kind)
		}
	}
}

func (s *fakeSession) Run(ctx context.Context) error {
	defer close(s.ended)
	if s.run != nil {
		return s.run(ctx, s)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// watcher is an Observer that keeps all it is told.
type watcher struct {
	started chan Started
	ended   chan Record
	failed  chan Record
	refused chan string
	events  chan agent.Event
	panics  atomic.Bool // when a call ends
}

func newWatcher() *watcher {
	return &watcher{started: make(chan Started, 1000), ended: make(chan Record, 1000), failed: make(chan Record, 1000), refused: make(chan string, 1000), events: make(chan agent.Event, 1000)}
}

// offer is for tests of more calls than anybody looks at one by one.
func offer[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

func (w *watcher) CallStarted(s Started) { offer(w.started, s) }
func (w *watcher) CallEnded(r Record) {
	if w.panics.Load() {
		panic("observer")
	}
	offer(w.ended, r)
}
func (w *watcher) CallFailed(r Record)               { offer(w.failed, r) }
func (w *watcher) CallRefused(code int, rule string) { offer(w.refused, fmt.Sprint(code, " ", rule)) }
func (w *watcher) CallEvent(_ string, e agent.Event) { offer(w.events, e) }
func (w *watcher) awaitEnd(t *testing.T) (r Record)  { t.Helper(); return await(t, w.ended, "record") }
func (w *watcher) awaitRefusal(t *testing.T) (s string) {
	t.Helper()
	return await(t, w.refused, "refusal")
}

// await takes the next value of a channel.
func await[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(15 * time.Second):
		t.Fatalf("no %s within 15 s", what)
	}
	return v
}

// trunkOf is the trunk that a test says a call comes by.
func trunkOf(inv *sip.Invite) string {
	if v := inv.Header("X-Test-Trunk"); len(v) > 0 {
		return v[0]
	}
	return ""
}
