package peers

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"parley/agent"
	"parley/call"
	"parley/identity"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/media/opus"
	"parley/media/vad"
	"parley/rtp"
	"parley/sip"
)

// Gateway is the gateway inside the test program, for agents that no configuration
// has: one that plays a certain sound, or is slow to answer.
type Gateway struct {
	t    testing.TB
	Host string
	// TLSHost, WSHost and WSSHost are its addresses for these transports.
	TLSHost, WSHost, WSSHost string

	wheel *rtp.Wheel
	calls *call.Server
	sip   *sip.Server
	stop  context.CancelFunc
	done  chan error

	mu      sync.Mutex
	events  []agent.Event
	records []call.Record
	refused []int
}

// StartGateway runs a gateway with that agent until the test ends. change alters what
// is configured about calls.
func StartGateway(t testing.TB, opener agent.Opener, change ...func(*call.Config)) *Gateway {
	t.Helper()
	g := &Gateway{t: t, done: make(chan error, 1)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	media1 := rtp.DefaultConfig()
	media1.Addr, media1.PortMin, media1.PortMax = netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0, 0
	var err error
	g.wheel, err = rtp.NewWheel(media1)
	must(err)
	who, err := identity.New(identity.DefaultConfig())
	must(err)
	wide, err := opus.Opus(opus.DefaultConfig())
	must(err)
	settings := call.DefaultConfig()
	for _, f := range change {
		f(&settings)
	}
	g.calls, err = call.NewServer(settings, call.Parts{
		Wheel: g.wheel, Codecs: []media.Codec{wide, g722.G722(), g711.PCMU(), g711.PCMA()}, Identity: who, Observer: g,
		Route: func(call.Request) (call.Routed, bool) { return call.Routed{Opener: opener}, true },
		Voice: func(rate int) (vad.Detector, error) { return vad.NewEnergy(vad.DefaultEnergyConfig(rate)) },
	})
	must(err)
	g.Host = fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	signalling := sip.DefaultConfig()
	signalling.Listen = []sip.Listener{{Network: "udp", Addr: g.Host}, {Network: "tcp", Addr: g.Host}}
	signalling.TLS.CertFile, signalling.TLS.KeyFile = Certificate(t)
	for network, host := range map[string]*string{"tls": &g.TLSHost, "ws": &g.WSHost, "wss": &g.WSSHost} {
		*host = fmt.Sprintf("127.0.0.1:%d", FreePort(t))
		signalling.Listen = append(signalling.Listen, sip.Listener{Network: network, Addr: *host})
	}
	g.sip, err = sip.NewServer(signalling, zap.NewNop())
	must(err)
	must(g.sip.Listen())
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	go func() { g.done <- g.sip.Serve(ctx, g.calls.Handle) }()
	t.Cleanup(g.end)
	return g
}

func (g *Gateway) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	g.calls.Shutdown(ctx)
	g.stop()
	<-g.done
	_ = g.calls.Close()
	if err := g.wheel.Close(); err != nil {
		g.t.Error(err)
	}
}

// hangUp ends all calls as an operator does.
func (g *Gateway) hangUp() {
	for _, c := range g.calls.Calls() {
		if err := g.calls.HangUp(c.ID, "test"); err != nil {
			g.t.Error(err)
		}
	}
}

// URI is the gateway's SIP URI for a user.
func (g *Gateway) URI(user string) string { return "sip:" + user + "@" + g.Host }

// CallStarted takes note of nothing.
func (g *Gateway) CallStarted(call.Started) {}

// CallEnded keeps the record.
func (g *Gateway) CallEnded(r call.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.records = append(g.records, r)
}

// CallRefused keeps the code.
func (g *Gateway) CallRefused(code int, _ string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = append(g.refused, code)
}

// CallEvent keeps the event.
func (g *Gateway) CallEvent(_ string, e agent.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events = append(g.events, e)
}

// Records waits until n calls are over and nothing of them is left, and returns
// their records.
func (g *Gateway) Records(n int) []call.Record {
	g.t.Helper()
	if !Eventually(5*time.Second, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.records) >= n && g.calls.Active() == 0 && g.wheel.Stats().Sessions == 0
	}) {
		g.t.Errorf("%d calls are still active, %d RTP sessions open", g.calls.Active(), g.wheel.Stats().Sessions)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.records) != n {
		g.t.Errorf("%d calls are on record, want %d", len(g.records), n)
	}
	return append([]call.Record(nil), g.records...)
}

// Refused waits until calls were refused with the codes, in that order.
func (g *Gateway) Refused(codes ...int) {
	g.t.Helper()
	var got []int
	Eventually(3*time.Second, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		got = append([]int(nil), g.refused...)
		return len(got) >= len(codes)
	})
	if fmt.Sprint(got) != fmt.Sprint(codes) {
		g.t.Errorf("refused with %v, want %v", got, codes)
	}
}

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
}

// Format is that of a G.711 call, unless Rate says otherwise.
func (p *Performer) Format() agent.Format { return agent.Format{HearRate: p.rate(), SayRate: p.rate()} }

func (p *Performer) rate() int { return max(p.Rate, 8000) }

// Open waits and then makes a session.
func (p *Performer) Open(ctx context.Context, c agent.Call) (agent.Session, error) {
	select {
	case <-time.After(p.OpenAfter):
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
