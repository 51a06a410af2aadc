package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"

	"parley/config"
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
	if err := cfg.CheckFiles(); err != nil {
		fmt.Fprintln(s.errOut, err)
		return errReported
	}
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
	for _, line := range dialHints(g.sip.Addrs(), g.advertised, localAddr()) {
		fmt.Fprintln(s.out, line)
	}
	if s.reloads != nil {
		hups, release := s.reloads()
		defer release()
		defer g.reloadOn(hups)()
	}
	return g.run(s.ctx, signals)
}

// reloadSignals is the signals on which plugins are read again.
func reloadSignals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// reloadOn reads plugins, skills and documents again at each signal, on a goroutine that the
// returned function ends.
func (g *gateway) reloadOn(hups <-chan os.Signal) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-hups:
				err := errors.Join(g.parts.tools.reload(ctx), g.parts.readDocuments(ctx))
				if err != nil {
					g.log.Error("plugins and documents were read again, not all of them work", zap.Error(err))
				} else {
					g.log.Info("plugins and documents were read again", zap.Int("tools", g.parts.tools.shared.Len()))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// terminationSignals is the signals that end the server.
func terminationSignals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	return c, func() { signal.Stop(c) }
}

// run serves until a signal comes, ctx is done, or a server fails; then it drains
// and ends everything. A second signal ends the calls at once, a third the
// process.
func (g *gateway) run(ctx context.Context, signals <-chan os.Signal) error {
	defer g.close()
	// The servers outlive ctx: calls are to end properly before they do.
	life := context.WithoutCancel(ctx)
	stopSIP, sipDone := start(life, func(ctx context.Context) error { return g.sip.Serve(ctx, g.calls.Handle) })
	failed := g.register()
	stopAPI, apiDone := start(life, g.api.Serve)

	g.phase.Store(serving)
	g.log.Info("ready", g.about()...)
	for _, note := range g.parts.notes {
		g.log.Warn(note)
	}
	for _, err := range g.parts.unheard {
		g.log.Warn("words that callers say in vain", zap.Error(err))
	}

	if failed == nil {
		select {
		case sig := <-signals:
			g.log.Info("draining", zap.Stringer("signal", sig), zap.Int("calls", g.calls.Active()), zap.Duration("timeout", g.cfg.Server.DrainTimeout))
		case <-ctx.Done():
		case failed = <-sipDone:
		case failed = <-apiDone:
		}
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

// drain takes the registrations back, refuses new calls, lets those that are up go on for the drain timeout and
// ends the rest with a BYE. Without patience, or at another signal, it ends all of
// them now.
func (g *gateway) drain(ctx context.Context, signals <-chan os.Signal, patient bool) {
	g.phase.Store(draining)
	g.sip.Drain(true)
	left := make(chan struct{})
	go func(ctx context.Context) {
		defer close(left)
		g.unregister(ctx)
	}(ctx)
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
	<-left
}
