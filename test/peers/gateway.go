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
	return StartGatewayWith(t, opener, Setup{Call: func(c *call.Config) {
		for _, f := range change {
			f(c)
		}
	}})
}

// Setup is what a gateway may have that others do not.
type Setup struct {
	// AnyAddress has the sound at all addresses of the machine, as a configuration
	// that says nothing has it; else it is at the loopback alone.
	AnyAddress bool
	// Call alters what is configured about calls.
	Call func(*call.Config)
	// Trunk, when it has a name, is the one that all calls from this machine come by,
	// and the only one that calls can be placed through.
	Trunk call.Trunk
	// Port is where it listens for UDP and TCP, 0 for any that is free.
	Port int
}

// StartGatewayWith is StartGateway with more to choose.
func StartGatewayWith(t testing.TB, opener agent.Opener, setup Setup) *Gateway {
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
	if setup.AnyAddress {
		media1.Addr = netip.IPv4Unspecified()
	}
	var err error
	g.wheel, err = rtp.NewWheel(media1)
	must(err)
	who, err := identity.New(identity.DefaultConfig())
	must(err)
	wide, err := opus.Opus(opus.DefaultConfig())
	must(err)
	settings := call.DefaultConfig()
	if setup.Call != nil {
		setup.Call(&settings)
	}
	var trunks []call.Trunk
	var sources []sip.Source
	if setup.Trunk.Name != "" {
		trunks = append(trunks, setup.Trunk)
		sources = append(sources, sip.Source{Trunk: setup.Trunk.Name, Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	}
	gate, err := sip.NewGate(sip.DefaultAccess(), nil, sources)
	must(err)
	g.calls, err = call.NewServer(settings, call.Parts{
		Admit: gate.Admit, Trunks: trunks,
		Wheel: g.wheel, Codecs: []media.Codec{wide, g722.G722(), g711.PCMU(), g711.PCMA()}, Identity: who, Observer: g,
		Route: func(call.Request) (call.Routed, bool) { return call.Routed{Opener: opener}, true },
		Voice: func(rate int) (vad.Detector, error) { return vad.NewEnergy(vad.DefaultEnergyConfig(rate)) },
	})
	must(err)
	if setup.Port == 0 {
		setup.Port = FreePort(t)
	}
	g.Host = fmt.Sprintf("127.0.0.1:%d", setup.Port)
	signalling := sip.DefaultConfig()
	signalling.Listen = []sip.Listener{{Network: "udp", Addr: g.Host}, {Network: "tcp", Addr: g.Host}}
	signalling.TLS.CertFile, signalling.TLS.KeyFile = Certificate(t)
	for network, host := range map[string]*string{"tls": &g.TLSHost, "ws": &g.WSHost, "wss": &g.WSSHost} {
		*host = fmt.Sprintf("127.0.0.1:%d", FreePort(t))
		signalling.Listen = append(signalling.Listen, sip.Listener{Network: network, Addr: *host})
	}
	g.sip, err = sip.NewServer(signalling, zap.NewNop())
	must(err)
	g.calls.Use(g.sip)
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
