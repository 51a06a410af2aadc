package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"go.uber.org/zap"

	"parley/api"
	"parley/call"
	"parley/config"
	"parley/identity"
	"parley/rtp"
	"parley/sip"
)

// The phases of a gateway's life, as /readyz names them.
const (
	starting int32 = iota
	serving
	draining
)

// gateway is all parts of the server, plugged together.
type gateway struct {
	cfg        *config.Config
	log        *zap.Logger
	phase      atomic.Int32
	parts      *plugs
	wheel      *rtp.Wheel
	calls      *call.Server
	sip        *sip.Server
	api        *api.Server
	lines      []*sip.Registration // at the trunks
	advertised []string            // of the listeners
	undo       []func()            // releases what was built, last first
	// verify checks tokens; nil when none counts.
	verify func(token string) (identity.Claims, error)
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
	if err := g.parts.keepSessions(context.Background(), log); err != nil {
		return nil, err
	}
	g.parts.startTools(context.Background(), log)
	g.parts.startDocuments()
	g.parts.startPhrases(log)

	media, err := cfg.RTPConfig()
	if err != nil {
		return nil, err
	}
	if g.wheel, err = rtp.NewWheel(media); err != nil {
		return nil, err
	}
	g.undo = append(g.undo, func() { g.complain("wheel", g.wheel.Close()) })

	who, err := g.identities()
	if err != nil {
		return nil, err
	}
	sources, err := cfg.Sources()
	if err != nil {
		return nil, err
	}
	gate, err := sip.NewGate(cfg.Auth.Access, cfg.Passwords(), sources)
	if err != nil {
		return nil, err
	}
	tokens, err := g.minter()
	if err != nil {
		return nil, err
	}
	announcement, err := g.parts.announcement()
	if err != nil {
		return nil, err
	}
	metrics := api.NewMetrics(g.sources())
	g.calls, err = call.NewServer(cfg.CallConfig(), call.Parts{
		Wheel: g.wheel, Codecs: g.parts.codecs, Admit: gate.Admit, Trunks: cfg.Trunks(), Route: g.parts.route, Agent: g.parts.agent,
		Voice: g.parts.voice, Identity: who, NewSoundFile: soundFile, Announcement: announcement,
		Tokens: tokens, Observer: metrics, Log: log,
	})
	if err != nil {
		return nil, err
	}
	g.undo = append(g.undo, func() { g.complain("calls", g.calls.Close()) })

	signalling, err := cfg.SIPConfig()
	if err != nil {
		return nil, err
	}
	for _, l := range signalling.Listen {
		g.advertised = append(g.advertised, l.Advertise)
	}
	signalling.Gate, signalling.Refused = gate, metrics.CallRefused
	if g.sip, err = sip.NewServer(signalling, log); err != nil {
		return nil, err
	}
	g.calls.Use(g.sip)
	if g.api, err = api.New(cfg.APIConfig(), g.apiParts(metrics, tokens)); err != nil {
		return nil, err
	}
	return g, g.bind()
}

// identities makes who finds out who is calling, and whose tokens count.
func (g *gateway) identities() (*identity.Resolver, error) {
	who, err := identity.New(g.cfg.Identity)
	if err != nil {
		return nil, err
	}
	token := g.cfg.TokenConfig()
	if !token.Enabled() {
		return who, nil
	}
	token.Report = func(err error) { g.log.Warn("the keys of tokens could not be read again", zap.Error(err)) }
	verifier, err := identity.NewVerifier(token)
	if err != nil {
		return nil, g.cfg.Complain("identity.token", err)
	}
	g.undo = append(g.undo, verifier.Close)
	g.verify = verifier.Verify
	return who.With(verifier), nil
}

// minter makes who signs the tokens for agents; nil when none are to be made.
func (g *gateway) minter() (call.Minter, error) {
	sign := g.cfg.SignerConfig()
	if !sign.Enabled() {
		return nil, nil
	}
	signer, err := identity.NewSigner(sign)
	if err != nil {
		return nil, g.cfg.Complain("identity.sign", err)
	}
	return signer, nil
}

// apiParts are what the HTTP side is plugged together from. tokens may be nil.
func (g *gateway) apiParts(metrics *api.Metrics, tokens call.Minter) api.Parts {
	p := api.Parts{Ready: g.ready, Metrics: metrics, Calls: g.calls, Verify: g.verify, Log: g.log}
	if tokens != nil {
		p.Mint, p.TokenTTL = tokens.Mint, g.cfg.SignerConfig().TTL
	}
	return p
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

// close releases what was built, last first.
func (g *gateway) close() {
	for i := len(g.undo) - 1; i >= 0; i-- {
		g.undo[i]()
	}
	g.undo = nil
}

// complain logs an error of a part that is being closed.
func (g *gateway) complain(part string, err error) { complainTo(g.log, part, err) }

func complainTo(log *zap.Logger, part string, err error) {
	if err != nil {
		log.Warn("closing "+part, zap.Error(err))
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
		Trunks:     g.trunks,
		TrunkLoads: func() []call.TrunkLoad { return g.calls.TrunkLoads() },
		Sound:      func() call.SoundStats { return g.calls.SoundStats() },
		Sessions:   g.parts.sessionStats,
		Switches:   g.parts.switches.all,
	}
}

// about is what the start is logged with.
func (g *gateway) about() []zap.Field {
	version, commit := build()
	var sips, trunks []string
	for _, t := range g.cfg.Trunk {
		trunks = append(trunks, t.Name)
	}
	for _, b := range g.sip.Addrs() {
		sips = append(sips, b.Network+"://"+b.Addr.String())
	}
	return append([]zap.Field{
		zap.String("version", version), zap.String("commit", commit), zap.String("go", runtime.Version()),
		zap.Strings("sip", sips), zap.String("rtp_ports", g.cfg.RTP.Ports), zap.String("http", g.cfg.API.Listen),
		zap.String("auth", g.cfg.Auth.Required), zap.Int("users", len(g.cfg.Auth.Users)), zap.Strings("trunks", trunks),
		zap.Strings("codecs", g.cfg.Call.Codecs), zap.Int("max_calls", g.cfg.Call.MaxCalls),
	}, g.parts.about...)
}
