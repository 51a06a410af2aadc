package sip

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Times of a TCP connection. They are bounds against peers that hold on to
// connections, and far from what a working one needs.
const (
	writeTimeout   = 5 * time.Second
	messageTimeout = 30 * time.Second // for one message to arrive whole
	idleTimeout    = 10 * time.Minute // without a call
	dialTimeout    = 5 * time.Second
)

// tcpConn is one connection, accepted or made, over TCP, TLS or WebSocket.
type tcpConn struct {
	conn  net.Conn
	tls   TLS               // to connect again with
	names []string          // what the peer's certificate was verified for
	peer  *x509.Certificate // of a client, verified; nil without
	from  netip.Addr        // of an accepted one, for the count of each source
	calls atomic.Int32      // dialogs that count on this connection
	mu    sync.Mutex        // held while writing: messages never mix
	gone  atomic.Bool
	web   atomic.Bool   // it has become a WebSocket
	ours  bool          // we made it
	over  chan struct{} // closed when nothing is read any more
}

// write sends one whole message or closes the connection: half a message would
// spoil all that follow.
func (c *tcpConn) write(b []byte) error {
	if c.web.Load() {
		b = wsMessage(b)
	}
	return c.put(b)
}

// frame writes one WebSocket frame.
func (c *tcpConn) frame(op byte, b []byte) error { return c.put(wsEncode(op, b)) }

func (c *tcpConn) put(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone.Load() {
		return net.ErrClosed
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(b); err != nil {
		c.close()
		return err
	}
	return nil
}

func (c *tcpConn) close() {
	if !c.gone.Swap(true) {
		c.conn.Close()
	}
}

// accept takes connections until the listener is closed.
func (s *Server) accept(ctx context.Context, l *listener) {
	for {
		conn, err := l.tcp.Accept()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		if err != nil {
			s.noise.warn("accept", "sip: cannot accept", zap.Error(err))
			if !s.pause(50 * time.Millisecond) {
				return
			}
			continue
		}
		c := &tcpConn{conn: conn, tls: l.cfg.TLS}
		if l.tls != nil {
			c.conn = tls.Server(conn, l.tls)
		}
		if rule := s.adopt(l, c); rule != "" {
			s.noise.warn("connections "+rule, "sip: connection refused", zap.String("rule", rule),
				zap.String("peer", conn.RemoteAddr().String()))
			conn.Close()
		}
	}
}

// adopt puts a connection into the table and reads from it. Otherwise it returns
// the rule that refused it.
func (s *Server) adopt(l *listener, c *tcpConn) (rule string) {
	f := s.tcpFlow(l, c)
	if !c.ours {
		c.from = f.remote.Addr()
	}
	c.over = make(chan struct{})
	if rule := s.enter(c); rule != "" {
		return rule
	}
	if !s.spawn(func() { s.attend(f) }) {
		s.leave(c)
		return "shutdown"
	}
	return ""
}

// enter puts a connection into the table, where there is room for it.
func (s *Server) enter(c *tcpConn) (rule string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.cfg.MaxConnectionsPerSource
	switch {
	case s.closing:
		return "shutdown"
	case len(s.conns) >= s.cfg.MaxConnections:
		return "max_connections"
	case c.from.IsValid() && limit > 0 && s.sources[c.from] >= limit:
		return "max_connections_per_source"
	}
	s.conns[c] = struct{}{}
	if c.from.IsValid() {
		s.sources[c.from]++
	}
	return ""
}

// leave takes it out again.
func (s *Server) leave(c *tcpConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if !c.from.IsValid() {
		return
	}
	if s.sources[c.from]--; s.sources[c.from] <= 0 {
		delete(s.sources, c.from)
	}
}

// attend is the life of a connection.
func (s *Server) attend(f *flow) {
	c := f.conn
	defer func() {
		c.close()
		s.leave(c)
		close(c.over)
		s.lost(c)
	}()
	if err := c.handshake(); err != nil {
		s.noise.warn("handshake", "sip: TLS handshake failed", zap.String("peer", f.remote.String()), zap.Error(err))
		return
	}
	if !f.lis.websocket() {
		s.readStream(f, &tcpStream{framer{max: s.cfg.MaxMessage}}, nil)
		return
	}
	rest, err := c.upgrade(s.cfg.Origins)
	if err != nil {
		s.refusedUpgrade(f, err)
		return
	}
	c.web.Store(true)
	s.readStream(f, &wsStream{wsFramer{max: s.cfg.MaxMessage}}, rest)
}

func (s *Server) tcpFlow(l *listener, c *tcpConn) *flow {
	f := &flow{lis: l, conn: c}
	if a, ok := c.conn.RemoteAddr().(*net.TCPAddr); ok {
		f.remote = netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), uint16(a.Port))
	}
	if a, ok := c.conn.LocalAddr().(*net.TCPAddr); ok {
		f.local = netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), uint16(a.Port))
	}
	return f
}

// stream cuts what is read from a connection into messages and handles them.
type stream interface {
	push(b []byte)
	// partial says that a message has begun and not ended.
	partial() bool
	// drain handles what is whole. done says that there was a message.
	drain(s *Server, f *flow) (done bool, err error)
}

type tcpStream struct{ framer }

func (t *tcpStream) drain(s *Server, f *flow) (bool, error) { return s.drainFrames(f, &t.framer) }

type wsStream struct{ wsFramer }

func (w *wsStream) drain(s *Server, f *flow) (bool, error) { return s.drainWS(f, &w.wsFramer) }

// lifetime says when a connection is given up.
type lifetime struct {
	begun  time.Time // when the unfinished message began
	last   time.Time // when the last message ended
	first  bool      // there was one, or the connection is ours
	pinged bool      // we asked a silent WebSocket whether it is there
}

// deadline is how long to wait for more bytes. A stranger that connects has to
// say something soon.
func (l *lifetime) deadline(c *tcpConn, partial bool) time.Time {
	end := l.last.Add(idleTimeout)
	switch {
	case partial:
		return l.begun.Add(messageTimeout)
	case !l.first:
		return l.last.Add(messageTimeout)
	case c.calls.Load() > 0:
		end = time.Now().Add(idleTimeout)
	}
	if ask := time.Now().Add(wsPingInterval); c.web.Load() && ask.Before(end) {
		return ask
	}
	return end
}

// late says what a deadline that passed without a message under way means: true,
// and the connection is over.
func (l *lifetime) late(c *tcpConn) bool {
	if !l.first || l.pinged {
		return true
	}
	if c.calls.Load() == 0 && time.Since(l.last) >= idleTimeout {
		return true
	}
	if c.web.Load() {
		l.pinged = true
		return c.frame(wsPing, nil) != nil
	}
	return false
}

// readStream reads messages until the connection ends. rest was read already.
func (s *Server) readStream(f *flow, frames stream, rest []byte) {
	c := f.conn
	buf := make([]byte, 4096)
	life := lifetime{last: time.Now(), begun: time.Now(), first: c.ours}
	frames.push(rest)
	for n := len(rest); ; {
		if n > 0 {
			done, err := frames.drain(s, f)
			if err != nil {
				s.brokenStream(f, err)
				return
			}
			if done {
				life.begun, life.last, life.first = time.Now(), time.Now(), true
			}
		}
		if c.conn.SetReadDeadline(life.deadline(c, frames.partial())) != nil {
			return
		}
		var err error
		n, err = c.conn.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) && !frames.partial() && !life.late(c) {
			continue
		}
		if err != nil {
			return
		}
		life.pinged = false
		if !frames.partial() {
			life.begun = time.Now()
		}
		frames.push(buf[:n])
	}
}

// brokenStream notes why a connection is closed. Peers may say good-bye.
func (s *Server) brokenStream(f *flow, err error) {
	if errors.Is(err, errWSDone) {
		return
	}
	s.count(func(st *Stats) { st.Malformed++ })
	s.noise.warn("stream", "sip: connection closed", zap.String("peer", f.remote.String()), zap.Error(err))
}

// drainFrames handles all whole messages. done says that there was one.
func (s *Server) drainFrames(f *flow, frames *framer) (done bool, err error) {
	for {
		msg, pings, err := frames.next()
		if f.conn.ours {
			pings = 0 // they are answers to ours (RFC 5626 section 4.4.1)
		}
		for range pings {
			if werr := f.conn.write([]byte("\r\n")); werr != nil {
				return done, werr
			}
		}
		if err != nil {
			s.refuseFrame(f, msg, err)
			return done, err
		}
		if msg == nil {
			return done, nil
		}
		done = true
		s.receive(f, msg)
	}
}

// refuseFrame tells the sender why its connection is closed, when the head of
// the message could be read.
func (s *Server) refuseFrame(f *flow, head []byte, err error) {
	if head == nil {
		return
	}
	m := salvage(head, "No usable Content-Length")
	if m == nil || !m.request {
		return
	}
	if errors.Is(err, errFrameSize) {
		m.fault = &RejectError{Code: 513, Rule: "size", Text: "The message is too large"}
	}
	s.refuseMessage(f, m)
}

// listenerFor is the listener that a connection or datagram of ours to the given
// address belongs to: its address is in our Contact. For a network that we do not
// listen on it is one without a socket, as long as that is no UDP.
func (s *Server) listenerFor(network string, to netip.Addr) (*listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var second *listener
	for _, l := range s.listeners {
		if l.cfg.Network != network {
			continue
		}
		if own := l.bound().Addr().Unmap(); own.Is4() == to.Unmap().Is4() {
			return l, nil
		} else if own.IsUnspecified() { // [::] speaks IPv4 too
			second = l
		}
	}
	if second != nil {
		return second, nil
	}
	if network == "udp" {
		return nil, fmt.Errorf("%w: no UDP listener of the family of %v", ErrTransport, to)
	}
	return &listener{cfg: Listener{Network: network, TLS: s.cfg.TLS}}, nil
}

// connect opens a connection of ours over TCP or TLS. names are those that a
// server's certificate may be for.
func (s *Server) connect(ctx context.Context, network string, to netip.AddrPort, t TLS, names []string) (*flow, error) {
	if network == "ws" || network == "wss" {
		return nil, fmt.Errorf("%w: a browser's connection is gone, and it cannot be connected to", ErrTransport)
	}
	l, err := s.listenerFor(network, to.Addr())
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTransport, err)
	}
	c := &tcpConn{conn: conn, tls: t, names: names, ours: true}
	if network == "tls" {
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		secured, err := secure(conn, t, names)
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			conn.Close()
			return nil, fmt.Errorf("%w: TLS to %v: %w", ErrTransport, to, err)
		}
		c.conn = secured
	}
	if rule := s.adopt(l, c); rule != "" {
		conn.Close()
		return nil, fmt.Errorf("%w: too many connections (%s)", ErrTransport, rule)
	}
	return s.tcpFlow(l, c), nil
}
