package mcp

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"parley/agent/tool"
)

// connection is one session with a server.
type connection struct {
	session *sdk.ClientSession
	child   *tool.Child // nil over HTTP
	http    *http.Transport
	cancel  context.CancelCauseFunc
	life    context.Context // of the calls, which end first
	end     context.CancelFunc
	changed chan struct{} // the list of tools did
	dead    chan struct{}
}

// dial connects. The SDK's session lives as long as the context it is made with, so
// the time to connect is bounded by ending that, not by a deadline.
func (c *Client) dial(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	n := &connection{cancel: cancel, changed: make(chan struct{}, 1), dead: make(chan struct{})}
	n.life, n.end = context.WithCancel(context.Background())
	transport, err := c.transport(n)
	if err != nil {
		n.end()
		cancel(nil)
		return nil, fmt.Errorf("mcp: %s: %w", c.cfg.Name, err)
	}
	client := sdk.NewClient(implementation(), &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, // no roots: the server learns nothing of our files
		KeepAlive:    30 * time.Second,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case n.changed <- struct{}{}:
			default: // it is to be read already
			}
		},
	})
	late := errors.New("no answer in " + c.cfg.StartTimeout.String())
	t := time.AfterFunc(c.cfg.StartTimeout, func() { cancel(late) })
	session, err := client.Connect(ctx, transport, nil)
	if !t.Stop() && err == nil {
		session.Close()
		err = late
	}
	if err != nil {
		if errors.Is(context.Cause(ctx), late) {
			err = late
		}
		n.release(c.log)
		return nil, fmt.Errorf("mcp: %s: %w%s", c.cfg.Name, err, n.lastWords())
	}
	n.session = session
	go func() {
		defer close(n.dead)
		session.Wait() //nolint:errcheck // that it ended is all there is to know, the calls have their errors
	}()
	return n, nil
}

// transport starts what the session runs over.
func (c *Client) transport(n *connection) (sdk.Transport, error) {
	if c.cfg.URL == "" {
		child, err := c.cfg.Process.Start(func(line string, dropped int) {
			c.log.Info("server says", zap.String("text", line), zap.Int("lines_dropped", dropped))
		})
		if err != nil {
			return nil, err
		}
		n.child = child
		return &sdk.IOTransport{Reader: newSieve(child.Out, false, c.dropped), Writer: child.In, MaxLineLength: maxGrown}, nil
	}
	n.http = &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		ResponseHeaderTimeout: c.cfg.Timeout + c.cfg.StartTimeout, TLSHandshakeTimeout: c.cfg.StartTimeout,
	}
	return &sdk.StreamableClientTransport{
		Endpoint: c.cfg.URL, MaxRetries: 3, MaxEventSize: maxGrown,
		HTTPClient: &http.Client{
			Transport:     &headers{to: n.http, add: c.cfg.Headers, dropped: c.dropped},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// fail ends a connection that a call found broken.
func (n *connection) fail() { n.end() }

// over says whether calls have no use for the connection any more.
func (n *connection) over() bool {
	select {
	case <-n.dead:
		return true
	case <-n.life.Done():
		return true
	default:
		return false
	}
}

// close ends the session and waits for what it runs over.
func (n *connection) close(log *zap.Logger) {
	n.end()
	if n.child != nil {
		// The SDK's Close waits for reads that only the process's end ends.
		n.child.In.Close()
		t := time.NewTimer(tool.Grace)
		select {
		case <-n.child.Exited:
		case <-t.C:
			if err := n.child.Terminate(); err != nil {
				log.Warn("server not asked to end", zap.Error(err))
			}
		}
		t.Stop()
	}
	bound := time.AfterFunc(tool.Grace, func() { n.cancel(errGone) })
	if err := n.session.Close(); err != nil {
		log.Debug("session ended with an error", zap.Error(err))
	}
	bound.Stop()
	n.release(log)
	<-n.dead
}

// release ends what the session runs over.
func (n *connection) release(log *zap.Logger) {
	n.end()
	n.cancel(errGone)
	if n.child != nil {
		if err := n.child.Kill(); err != nil {
			log.Warn("server not killed", zap.Error(err))
		}
		n.child.Wait()
	}
	if n.http != nil {
		n.http.CloseIdleConnections()
	}
}

// lastWords is what a server's process said last, for errors.
func (n *connection) lastWords() string {
	if n.child == nil {
		return ""
	}
	if said := n.child.Said(); said != "" {
		return "; it said: " + said
	}
	return ""
}

// dropped logs that a message was too long and no answer.
func (c *Client) dropped() {
	c.log.Warn("a message of the server is too long, dropped", zap.Int("most_bytes", maxMessage))
}

// headers adds the configured headers and bounds what comes.
type headers struct {
	to      http.RoundTripper
	add     map[string]string
	dropped func()
}

// RoundTrip implements http.RoundTripper.
func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	own := r.Clone(r.Context())
	for name, value := range h.add {
		own.Header.Set(name, value)
	}
	answer, err := h.to.RoundTrip(own)
	if err != nil {
		return nil, err
	}
	answer.ContentLength = -1 // it may change
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind == "text/event-stream" {
		answer.Body = newSieve(answer.Body, true, h.dropped)
	} else {
		answer.Body = &document{Closer: answer.Body, in: answer.Body, request: r}
	}
	return answer, nil
}
