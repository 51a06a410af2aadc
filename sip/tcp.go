package sip

import (
	"context"
	"crypto/tls"
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

// tcpConn is one connection, accepted or made, over TCP or TLS.
type tcpConn struct {
	conn  net.Conn
	tls   TLS          // to connect again with
	names []string     // what the peer's certificate was verified for
	calls atomic.Int32 // dialogs that count on this connection
	mu    sync.Mutex   // held while writing: messages never mix
	gone  atomic.Bool
	ours  bool          // we made it
	over  chan struct{} // closed when nothing is read any more
}

// write sends one whole message or closes the connection: half a message would
// spoil all that follow.
func (c *tcpConn) write(b []byte) error {
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
		if !s.adopt(l, c) {
			s.noise.warn("connections", "sip: connection refused", zap.String("rule", "max_connections"),
				zap.String("peer", conn.RemoteAddr().String()))
			conn.Close()
		}
	}
}

// adopt puts a connection into the table and reads from it. False: the table is
// full, or the server is stopping.
func (s *Server) adopt(l *listener, c *tcpConn) bool {
	s.mu.Lock()
	if s.closing || len(s.conns) >= s.cfg.MaxConnections {
		s.mu.Unlock()
		return false
	}
	c.over = make(chan struct{})
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.spawn(func() {
		defer func() {
			c.close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			close(c.over)
			s.lost(c)
		}()
		f := s.tcpFlow(l, c)
		if err := c.handshake(); err != nil {
			s.noise.warn("handshake", "sip: TLS handshake failed", zap.String("peer", f.remote.String()), zap.Error(err))
			return
		}
		s.readTCP(f)
	})
	return true
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

// readTCP reads messages until the connection ends.
func (s *Server) readTCP(f *flow) {
	c := f.conn
	frames := framer{max: s.cfg.MaxMessage}
	buf := make([]byte, 4096)
	begun := time.Time{} // when the unfinished message began
	for {
		deadline := time.Now().Add(idleTimeout)
		if frames.partial() {
			deadline = begun.Add(messageTimeout)
		}
		if c.conn.SetReadDeadline(deadline) != nil {
			return
		}
		n, err := c.conn.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) && !frames.partial() && c.calls.Load() > 0 {
			continue
		}
		if err != nil {
			return
		}
		if !frames.partial() {
			begun = time.Now()
		}
		frames.push(buf[:n])
		if done, err := s.drainFrames(f, &frames); err != nil {
			s.count(func(st *Stats) { st.Malformed++ })
			s.noise.warn("stream", "sip: connection closed", zap.String("peer", f.remote.String()), zap.Error(err))
			return
		} else if done {
			begun = time.Now()
		}
	}
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
	if !s.adopt(l, c) {
		conn.Close()
		return nil, fmt.Errorf("%w: too many connections", ErrTransport)
	}
	return s.tcpFlow(l, c), nil
}
