package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"

	"parley/api"
	"parley/call"
	"parley/config"
	"parley/identity"
	"parley/rtp"
	"parley/sip"
)

// serveCmd answers calls.
type serveCmd struct {
	configFlag
}

// Run is the life of the server: configure, build, start, wait for a signal,
// drain, end.
func (c serveCmd) Run(s *stage) error {
	cfg, err := config.Load(c.Config, s.environ)
	if err != nil {
		fmt.Fprintln(s.errOut, err)
		return errReported
	}
	log, err := newLog(cfg.Log, s.errOut)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // a terminal cannot be synced
	for _, w := range cfg.Warnings {
		log.Warn(w)
	}
	tuneMemory(s.environ, log)

	// Signals count from here: one that comes during the start ends it.
	signals, release := s.signals()
	defer release()
	g, err := newGateway(cfg, log)
	if err != nil {
		return err
	}
	for _, line := range dialHints(g.sip.Addrs(), cfg.SIP.Advertise, localAddr()) {
		fmt.Fprintln(s.out, line)
	}
	return g.run(s.ctx, signals)
}

// terminationSignals is the signals that end the server.
func terminationSignals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	return c, func() { signal.Stop(c) }
}

// The phases of a gateway's life, as /readyz names them.
const (
	starting int32 = iota
	serving
	draining
)

// gateway is all parts of the server, plugged together.
type gateway struct {
	cfg   *config.Config
	log   *zap.Logger
	phase atomic.Int32
	parts *plugs
	wheel *rtp.Wheel
	calls *call.Server
	sip   *sip.Server
	api   *api.Server
	undo  []func() // releases what was built, last first
}

// newGateway builds the parts and binds their addresses. When it returns an error
// nothing is left behind.
func newGateway(cfg *config.Config, log *zap.Logger) (_ *gateway, err error) {
	g := &gateway{cfg: cfg, log: log}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if g.parts, err = plug(cfg, log); err != nil {
		return nil, err
	}
	g.undo = append(g.undo, g.parts.close)

	media, err := cfg.RTPConfig()
	if err != nil {
		return nil, err
	}
	if g.wheel, err = rtp.NewWheel(media); err != nil {
		return nil, err
	}
	g.undo = append(g.undo, func() { g.complain("wheel", g.wheel.Close()) })

	who, err := identity.New(cfg.Identity)
	if err != nil {
		return nil, err
	}
	metrics := api.NewMetrics(g.sources())
	g.calls, err = call.NewServer(cfg.Call, call.Parts{
		Wheel: g.wheel, Codecs: g.parts.codecs, Route: g.parts.route, Voice: g.parts.voice,
		Identity: who, Observer: metrics, Log: log,
	})
	if err != nil {
		return nil, err
	}
	g.undo = append(g.undo, func() { g.complain("calls", g.calls.Close()) })

	signalling, err := cfg.SIPConfig()
	if err != nil {
		return nil, err
	}
	if g.sip, err = sip.NewServer(signalling, log); err != nil {
		return nil, err
	}
	if g.api, err = api.New(cfg.API, g.ready, metrics, log); err != nil {
		return nil, err
	}
	return g, g.bind()
}

// bind binds the addresses of SIP and HTTP.
func (g *gateway) bind() error {
	if err := g.sip.Listen(); err != nil {
		return err
	}
	if _, err := g.api.Listen(); err != nil {
		return errors.Join(err, g.unbindSIP())
	}
	return nil
}

// unbindSIP closes what sip.Listen bound when Serve is never to run.
func (g *gateway) unbindSIP() error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	return g.sip.Serve(over, g.calls.Handle)
}

// run serves until a signal comes, ctx is done, or a server fails; then it drains
// and ends everything. A second signal ends the calls at once, a third the
// process.
func (g *gateway) run(ctx context.Context, signals <-chan os.Signal) error {
	defer g.close()
	// The servers outlive ctx: calls are to end properly before they do.
	life := context.WithoutCancel(ctx)
	stopSIP, sipDone := start(life, func(ctx context.Context) error { return g.sip.Serve(ctx, g.calls.Handle) })
	stopAPI, apiDone := start(life, g.api.Serve)

	g.phase.Store(serving)
	g.log.Info("ready", g.about()...)
	for _, note := range g.parts.notes {
		g.log.Warn(note)
	}

	var failed error
	select {
	case sig := <-signals:
		g.log.Info("draining", zap.Stringer("signal", sig), zap.Int("calls", g.calls.Active()), zap.Duration("timeout", g.cfg.Server.DrainTimeout))
	case <-ctx.Done():
	case failed = <-sipDone:
	case failed = <-apiDone:
	}
	if failed != nil {
		g.log.Error("a server has failed; ending", zap.Error(failed))
	}
	g.drain(life, signals, failed == nil)
	stopSIP()
	stopAPI()
	err := errors.Join(failed, <-sipDone, <-apiDone)
	g.log.Info("ended", zap.Error(err))
	return err
}

// start runs serve on a goroutine. done gives its error, and nil ever after.
func start(ctx context.Context, serve func(context.Context) error) (stop func(), done <-chan error) {
	ctx, cancel := context.WithCancel(ctx)
	c := make(chan error, 1)
	go func() {
		defer close(c)
		if err := serve(ctx); err != nil {
			c <- err
		}
	}()
	return cancel, c
}

// drain refuses new calls, lets those that are up go on for the drain timeout and
// ends the rest with a BYE. Without patience, or at another signal, it ends all of
// them now.
func (g *gateway) drain(ctx context.Context, signals <-chan os.Signal, patient bool) {
	g.phase.Store(draining)
	g.sip.Drain(true)
	timeout := g.cfg.Server.DrainTimeout
	if !patient {
		timeout = 0
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case sig := <-signals:
			g.log.Warn("ending calls now; once more ends the process", zap.Stringer("signal", sig), zap.Int("calls", g.calls.Active()))
			cancel()
			signal.Reset(syscall.SIGTERM, syscall.SIGINT)
		case <-over:
		}
	}()
	g.calls.Shutdown(ctx)
}

// close releases what was built, last first.
func (g *gateway) close() {
	for i := len(g.undo) - 1; i >= 0; i-- {
		g.undo[i]()
	}
	g.undo = nil
}

// complain logs an error of a part that is being closed.
func (g *gateway) complain(part string, err error) {
	if err != nil {
		g.log.Warn("closing "+part, zap.Error(err))
	}
}

// What /readyz says.
var (
	errStarting = errors.New("starting")
	errDraining = errors.New("draining")
)

// ready is nil when a new call would be taken.
func (g *gateway) ready() error {
	switch g.phase.Load() {
	case starting:
		return errStarting
	case draining:
		return errDraining
	}
	if limit := g.cfg.Call.MaxCalls; g.calls.Active() >= limit {
		return fmt.Errorf("at the limit of %d calls", limit)
	}
	return nil
}

// sources are the figures that the parts keep themselves. They are asked only
// after the gateway was built.
func (g *gateway) sources() api.Sources {
	return api.Sources{
		Active: func() int { return g.calls.Active() },
		Limit:  func() int { return g.cfg.Call.MaxCalls },
		Ready:  g.ready,
		Wheel: func() api.Wheel {
			s := g.wheel.Stats()
			return api.Wheel{
				Turns: s.Turns, Missed: s.MissedTurns,
				Bounds: s.Lateness.Bounds(), Counts: s.Lateness.Counts[:], Sum: s.Lateness.Sum,
				Longest: s.LongestTurn, Faults: s.Faults, Sessions: s.Sessions,
				InUse: s.PortsInUse, Quarantined: s.PortsQuarantined, Total: s.PortsTotal,
			}
		},
		Signalling: func() api.Signalling {
			s := g.sip.Stats()
			return api.Signalling{
				Requests: s.Requests, Responses: s.Responses,
				Malformed: s.Malformed, Dropped: s.Dropped, Retransmitted: s.Retransmitted, Overloads: s.Overloads, Panics: s.Panics,
				Dialogs: s.Dialogs, Transactions: s.Transactions, Connections: s.Connections,
			}
		},
	}
}

// about is what the start is logged with.
func (g *gateway) about() []zap.Field {
	version, commit := build()
	var sips []string
	for _, b := range g.sip.Addrs() {
		sips = append(sips, b.Network+"://"+b.Addr.String())
	}
	return append([]zap.Field{
		zap.String("version", version), zap.String("commit", commit), zap.String("go", runtime.Version()),
		zap.Strings("sip", sips), zap.String("rtp_ports", g.cfg.RTP.Ports), zap.String("http", g.cfg.API.Listen),
		zap.Strings("codecs", g.cfg.Call.Codecs), zap.Int("max_calls", g.cfg.Call.MaxCalls),
	}, g.parts.about...)
}

// localAddr is an address under which others can reach this machine: the first
// IPv4 one of its network interfaces, or loopback when there is none.
func localAddr() netip.Addr {
	addrs, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
				return p.Addr()
			}
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// dialHints says what to dial in a softphone, one line per address.
func dialHints(bound []sip.Bound, advertise string, local netip.Addr) []string {
	type target struct{ host, transports string }
	var targets []target
	for _, b := range bound {
		addr := b.Addr
		if addr.Addr().IsUnspecified() {
			addr = netip.AddrPortFrom(local, addr.Port())
		}
		host := addr.String()
		if advertise != "" {
			host = advertise
		}
		known := false
		for i := range targets {
			if targets[i].host == host {
				targets[i].transports += ", " + b.Network
				known = true
			}
		}
		if !known {
			targets = append(targets, target{host, b.Network})
		}
	}
	var lines []string
	for _, t := range targets {
		lines = append(lines, fmt.Sprintf("Dial sip:hello@%s in a softphone (%s).", t.host, t.transports))
	}
	return lines
}
