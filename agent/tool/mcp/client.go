// Package mcp makes tools of those that servers of the Model Context Protocol offer:
// processes on this machine (stdio) and services over streamable HTTP. It is a client
// over the official SDK that stays connected: lists that change are read again, and
// connections that break are made anew.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"parley/agent/tool"
)

// Bounds of what a server may send.
const (
	maxMessage     = 4 << 20 // bytes of one message
	maxTools       = 256
	maxDescription = 2000 // characters
)

// Times of reconnecting; a call waits patience for a connection.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
	goodWork   = 30 * time.Second
	patience   = 2 * time.Second
	// listPause is the least time between two readings of the list of tools, however
	// often a server says that it changed.
	listPause = time.Second
)

// errGone is what calls fail with while there is no connection; models may be told.
var errGone = errors.New("this is out of order for the moment, try again later")

// Config is one server. Exactly one of Process.Command and URL is set.
type Config struct {
	// Name is for logs.
	Name string
	// Process is a server on this machine that speaks on its standard input and output.
	Process tool.Process
	// URL is a server over streamable HTTP. Redirects are not followed.
	URL string
	// Headers are sent with every request to URL; they may hold secrets.
	Headers map[string]string
	// Prefix is put before the names of the server's tools.
	Prefix string
	// Allow are the tools to take, by the server's names; empty: all.
	Allow []string
	// Confirm are tools that the caller must agree to first; "*" is all of them.
	Confirm []string
	// Interruptible are tools whose calls are given up when the caller speaks.
	Interruptible []string
	// Timeout bounds one call; 0: 30 s. StartTimeout bounds connecting; 0: 10 s.
	Timeout, StartTimeout time.Duration
	// Log takes what becomes of the connection; nil: nothing is logged.
	Log *zap.Logger
	// Changed is called when the list of tools was read anew, from a goroutine that
	// serves the connection: it must not wait for a call. It may be nil.
	Changed func()
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	switch {
	case (len(c.Process.Command) > 0) == (c.URL != ""):
		return fmt.Errorf("mcp: %s: want a command or a URL", c.Name)
	case c.Prefix != "" && !tool.ValidName(c.Prefix):
		return fmt.Errorf("mcp: %s: prefix %q: want letters, digits, '_', '-', '.' or ':'", c.Name, c.Prefix)
	case c.URL != "":
		u, err := url.Parse(c.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("mcp: %s: want a URL of http or https", c.Name)
		}
	}
	return nil
}

// Client is the connection to one server. It is safe for concurrent use.
type Client struct {
	cfg   Config
	own   time.Duration // the configured Timeout, 0 for none
	log   *zap.Logger
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	up      chan struct{} // closed while there is a connection
	conn    *connection
	tools   []tool.Tool
	connect int // how often it was connected
}

// Open connects and reads the list of tools; ctx bounds that only. Close the Client.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	own := cfg.Timeout
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = 10 * time.Second
	}
	c := &Client{cfg: cfg, own: own, log: cfg.Log.With(zap.String("mcp", cfg.Name)), ended: make(chan struct{}), up: make(chan struct{})}
	var life context.Context
	life, c.stop = context.WithCancel(context.Background())
	first := make(chan error, 1)
	go c.keep(life, first)
	select {
	case err := <-first:
		if err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	case <-ctx.Done():
		c.Close()
		return nil, fmt.Errorf("mcp: %s: %w", cfg.Name, context.Cause(ctx))
	}
}

// keep makes connection after connection. A first that fails is the end.
func (c *Client) keep(ctx context.Context, first chan<- error) {
	defer close(c.ended)
	pause := firstPause
	for {
		began := time.Now()
		err := c.run(ctx, func() {
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
		c.log.Warn("connection lost, will be made again", zap.Error(err), zap.Duration("pause", pause))
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// run is the life of one connection; its error says why it ended.
func (c *Client) run(ctx context.Context, ready func()) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer func() {
		c.mu.Lock()
		if c.conn == conn {
			c.conn, c.up = nil, make(chan struct{})
		}
		c.mu.Unlock()
		conn.close(c.log)
	}()
	if err := c.list(ctx, conn); err != nil {
		return fmt.Errorf("mcp: %s: list of tools: %w", c.cfg.Name, err)
	}
	c.mu.Lock()
	c.conn = conn
	c.connect++
	close(c.up)
	c.mu.Unlock()
	ready()
	// One reading at a time, and none for a while after each: what changes meanwhile is
	// noted once and read then.
	pause := time.NewTimer(listPause)
	defer pause.Stop()
	var changed <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-conn.dead:
			return fmt.Errorf("mcp: %s: connection ended%s", c.cfg.Name, conn.lastWords())
		case <-conn.life.Done():
			return fmt.Errorf("mcp: %s: connection broke in a call", c.cfg.Name)
		case <-pause.C:
			changed = conn.changed
		case <-changed:
			changed = nil
			err := c.list(ctx, conn)
			if _, refused := errors.AsType[*jsonrpc.Error](err); refused {
				c.log.Warn("the list of tools is not to be had, the old one stays", zap.Error(err))
			} else if err != nil {
				return fmt.Errorf("mcp: %s: list of tools: %w", c.cfg.Name, err)
			}
			pause.Reset(listPause)
		}
	}
}

// list reads the list of tools.
func (c *Client) list(ctx context.Context, conn *connection) error {
	ctx, stop := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer stop()
	var tools []tool.Tool
	for t, err := range conn.session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		if len(tools) == maxTools {
			c.log.Warn("more tools than are taken", zap.Int("taken", maxTools))
			break
		}
		if len(c.cfg.Allow) == 0 || slices.Contains(c.cfg.Allow, t.Name) {
			tools = append(tools, c.adopt(t))
		}
	}
	c.mu.Lock()
	c.tools = tools
	c.mu.Unlock()
	if c.cfg.Changed != nil {
		c.cfg.Changed()
	}
	return nil
}

// Tools is the list of tools as it was read last. Give it to a registry with
// ToolRegistry.Sync.
func (c *Client) Tools() []tool.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tools)
}

// Connected says whether there is a connection, and how many there have been.
func (c *Client) Connected() (now bool, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn != nil, c.connect
}

// live waits a short while for a connection.
func (c *Client) live(ctx context.Context) (*connection, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		c.mu.Lock()
		if c.conn != nil && c.conn.over() {
			c.conn, c.up = nil, make(chan struct{}) // run has yet to notice
		}
		conn, up := c.conn, c.up
		c.mu.Unlock()
		if conn != nil {
			return conn, nil
		}
		select {
		case <-up:
		case <-c.ended:
			return nil, errGone
		case <-ctx.Done():
			return nil, errGone
		}
	}
}

// Close ends the connection, and the server if it is a process of ours. Calls in flight
// fail. It may be called again.
func (c *Client) Close() {
	c.stop()
	<-c.ended
}

// implementation is what servers are told of us.
func implementation() *sdk.Implementation { return &sdk.Implementation{Name: "parley", Version: "1"} }
