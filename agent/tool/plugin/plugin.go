// Package plugin makes tools of processes that speak newline-delimited JSON-RPC 2.0 on
// their standard input and output, in any language. A folder with a plugin.yaml is a
// plugin; docs/tools.md says what it looks like and what goes over the wire.
//
// A plugin is one process for all calls. It may be slow, crash, hang or talk nonsense:
// answers are matched by id, every call has its own deadline, a crash fails the calls
// in flight and nothing else, and what it says is bounded.
package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"parley/agent/tool"
)

// State is what becomes of a plugin.
type State string

// The states.
const (
	Starting   State = "starting"
	Ready      State = "ready"
	Restarting State = "restarting"
	Closed     State = "closed"
)

// Restarts: the first at once after a while of good work, then ever slower.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
	goodWork   = 30 * time.Second
	// patience is how long a call waits for a plugin that is being restarted.
	patience = 2 * time.Second
)

// plugin is one plugin and whatever process it has at the time.
type plugin struct {
	m      Manifest
	own    Settings
	opts   *Options
	log    *zap.Logger
	launch func() (*process, error)
	stop   context.CancelFunc
	ended  chan struct{}
	strays *rate.Limiter
	// restarted is called when a process that was started again is ready; may be nil.
	restarted func()
	// attends says whether the plugin is to act for a conversation by itself; may be nil.
	attends func(p *plugin, session string) bool
	// successor is the plugin that has the name by now; may be nil.
	successor func(name string) *plugin

	mu       sync.Mutex
	state    State
	up       chan struct{} // closed while there is a conn
	conn     *conn
	speaks2  bool
	tools    []described
	restarts int
	fault    string         // why it is not ready
	sessions map[string]int // conversations that it works for
	idle     chan struct{}  // closed when the last work ends; nil: nobody waits for that
}

// open starts a plugin and returns when it is ready, or why it is not.
func open(ctx context.Context, m Manifest, opts *Options, set *Set) (*plugin, error) {
	own := opts.Plugins[m.Name]
	log := opts.Log.With(zap.String("plugin", m.Name))
	p := newPlugin(m, opts)
	p.restarted, p.attends, p.successor = set.tellReady, set.attends, set.named
	p.launch = func() (*process, error) {
		return start(tool.Process{
			Command: m.command(opts.Runtimes), Dir: m.Dir, Env: own.Env, Pass: append(append([]string{}, m.Env...), own.Pass...),
		}, log)
	}
	return p, p.begin(ctx)
}

func newPlugin(m Manifest, opts *Options) *plugin {
	return &plugin{
		m: m, own: opts.Plugins[m.Name], opts: opts, log: opts.Log.With(zap.String("plugin", m.Name)),
		ended: make(chan struct{}), state: Starting, up: make(chan struct{}), sessions: map[string]int{},
		strays: rate.NewLimiter(1, 5),
	}
}

// begin starts the first process. The goroutine that keeps the plugin alive ends with
// close; ctx only bounds the start.
func (p *plugin) begin(ctx context.Context) error {
	var life context.Context
	life, p.stop = context.WithCancel(context.Background())
	first := make(chan error, 1)
	go p.keep(life, first)
	select {
	case err := <-first:
		if err != nil {
			<-p.ended
		}
		return err
	case <-ctx.Done():
		p.close()
		return context.Cause(ctx)
	}
}

// keep runs process after process. A first that does not start is the end.
func (p *plugin) keep(ctx context.Context, first chan<- error) {
	defer close(p.ended)
	defer p.set(Closed, "")
	pause := firstPause
	for {
		began := time.Now()
		err := p.run(ctx, func() {
			if first != nil {
				first <- nil
				first = nil
			}
		})
		if first != nil {
			first <- err
			return
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= goodWork {
			pause = firstPause
		}
		p.set(Restarting, err.Error())
		p.log.Warn("plugin stopped, will be started again", zap.Error(err), zap.Duration("pause", pause))
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		pause = min(2*pause, lastPause)
		p.mu.Lock()
		p.restarts++
		p.mu.Unlock()
	}
}

// run is the life of one process. It always returns an error, which says why it ended.
func (p *plugin) run(ctx context.Context, ready func()) error {
	proc, err := p.launch()
	if err != nil {
		return fmt.Errorf("plugin %s: %w", p.m.Name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	requests := &requests{p: p, ctx: ctx, slot: make(chan struct{}, maxRequests)}
	c := newConn(proc.in, requests.serve, p.stray)
	requests.c = c
	go c.read(proc.out)
	nice := false
	defer func() {
		p.mu.Lock()
		if p.conn == c {
			p.conn, p.up = nil, make(chan struct{})
		}
		p.mu.Unlock()
		cancel()
		proc.end(c, nice, p.log)
		requests.left.Wait()
	}()
	tools, speaks2, err := c.greet(ctx, p.m, p.own.Config, p.opts.StartTimeout)
	if err != nil {
		if errors.Is(err, errGone) {
			proc.gone(tool.Grace) // its last words are on the way
			err = errors.New("ended before it answered initialize")
		}
		if said := proc.said(); said != "" {
			err = fmt.Errorf("%w; it said: %s", err, said)
		}
		return fmt.Errorf("plugin %s: %w", p.m.Name, err)
	}
	p.mu.Lock()
	p.conn, p.speaks2, p.tools, p.state, p.fault = c, speaks2, tools, Ready, ""
	close(p.up)
	again := p.restarts > 0
	p.mu.Unlock()
	ready()
	if again {
		if p.restarted != nil {
			p.restarted()
		}
		p.opts.changed()
	}
	select {
	case <-ctx.Done():
		nice = true
		return ctx.Err()
	case <-c.done:
		return fmt.Errorf("plugin %s: ended its output", p.m.Name)
	case <-proc.exited:
		return fmt.Errorf("plugin %s: ended", p.m.Name)
	}
}

func (p *plugin) set(s State, fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.fault = s, fault
}

// stray logs a line that belongs to nothing, at most one a second, and never what is
// in it.
func (p *plugin) stray(why string, bytes int) {
	if p.strays.Allow() {
		p.log.Warn("line of a plugin dropped", zap.String("why", why), zap.Int("bytes", bytes))
	}
}

// close ends the process and waits for it. It may be called again.
func (p *plugin) close() {
	p.stop()
	<-p.ended
}

// live waits for a process that is ready, for a short while.
func (p *plugin) live(ctx context.Context) (c *conn, speaks2 bool, err error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		p.mu.Lock()
		if p.conn != nil && p.conn.over() {
			p.conn, p.up = nil, make(chan struct{}) // run has yet to notice
		}
		c, up, state, speaks2 := p.conn, p.up, p.state, p.speaks2
		p.mu.Unlock()
		if c != nil {
			return c, speaks2, nil
		}
		if state == Closed {
			return nil, false, errGone
		}
		select {
		case <-up:
		case <-p.ended:
			return nil, false, errGone
		case <-ctx.Done():
			return nil, false, errGone
		}
	}
}

// retire ends a plugin that was replaced once the calls that it has are done, after what
// one call may take at most, or when ctx is done.
func (p *plugin) retire(ctx context.Context) {
	p.mu.Lock()
	idle := make(chan struct{})
	if p.idle = idle; len(p.sessions) == 0 {
		close(idle)
		p.idle = nil
	}
	p.mu.Unlock()
	t := time.NewTimer(p.timeout())
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	case <-ctx.Done():
	}
	p.close()
}

// work counts a conversation that the plugin works for; the returned function ends it.
func (p *plugin) work(session string) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[session]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.sessions[session]--; p.sessions[session] <= 0 {
			delete(p.sessions, session)
		}
		if len(p.sessions) == 0 && p.idle != nil {
			close(p.idle)
			p.idle = nil
		}
	}
}

// serves says whether the plugin may act for a conversation: it is at work for it, or
// attends it.
func (p *plugin) serves(session string) bool {
	p.mu.Lock()
	works := p.sessions[session] > 0
	p.mu.Unlock()
	return works || p.attends != nil && p.attends(p, session)
}

// timeout bounds one call.
func (p *plugin) timeout() time.Duration {
	if p.own.Timeout > 0 {
		return p.own.Timeout
	}
	return p.opts.Timeout
}

// request asks the plugin something on behalf of a conversation.
func (p *plugin) request(ctx context.Context, f frame, cancellable bool) (json.RawMessage, error) {
	ctx, stop := context.WithTimeoutCause(ctx, p.timeout(), tool.ErrTimeout)
	defer stop()
	f.Session = tool.SessionFrom(ctx)
	defer p.work(f.Session)() // before it is waited for: a plugin that was replaced goes when it has no work
	c, speaks2, err := p.live(ctx)
	if err != nil {
		return nil, err
	}
	return c.call(ctx, f, func(id json.RawMessage) {
		if !speaks2 && !cancellable {
			return
		}
		// A queue that is full is one that the plugin does not read: nothing is lost.
		if err := c.send(frame{Method: "$/cancelRequest", Params: map[string]any{"id": id}}); err != nil {
			p.log.Debug("plugin not told of a cancellation", zap.Error(err))
		}
	})
}

// notify tells a plugin of version 2 something, if it is there.
func (p *plugin) notify(method string, params any) {
	p.mu.Lock()
	c, speaks2 := p.conn, p.speaks2
	p.mu.Unlock()
	if c == nil || !speaks2 {
		return
	}
	if err := c.send(frame{Method: method, Params: params}); err != nil {
		p.log.Warn("plugin not told", zap.String("method", method), zap.Error(err))
	}
}
