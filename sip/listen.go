package sip

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Bound is an address that was bound.
type Bound struct {
	// Network is "udp", "tcp", "tls", "ws" or "wss".
	Network string
	// Addr has the real port where the configuration had 0.
	Addr netip.AddrPort
}

// listener is one bound address: either udp or tcp is set, tcp also for WebSocket. Neither is set for
// connections of ours of a kind that we do not listen for.
type listener struct {
	cfg  Listener
	host string // advertised, ready for a URI; empty: what the peer reached
	port int    // advertised; 0: the bound one
	udp  *udpSocket
	tcp  net.Listener // over TLS too
	tls  *tls.Config
}

func (l *listener) bound() netip.AddrPort {
	if l.udp != nil {
		return l.udp.local
	}
	return l.tcp.Addr().(*net.TCPAddr).AddrPort()
}

func (l *listener) close() error {
	if l.udp != nil {
		return l.udp.conn.Close()
	}
	return l.tcp.Close()
}

// Listen binds all configured addresses, or none: on an error what was bound is
// closed again. The error names the address and, where it can, the remedy.
// Messages are read from Serve on.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners != nil {
		return errors.New("sip: already listening")
	}
	var all []*listener
	for _, cfg := range s.cfg.Listen {
		cfg.TLS = cfg.TLS.or(s.cfg.TLS)
		l, err := bind(cfg)
		if err != nil {
			for _, l := range all {
				err = errors.Join(err, l.close())
			}
			return err
		}
		all = append(all, l)
	}
	s.listeners = all
	return nil
}

// Addrs is what was bound, in the order of the configuration; nil before Listen.
func (s *Server) Addrs() []Bound {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Bound
	for _, l := range s.listeners {
		all = append(all, Bound{Network: l.cfg.Network, Addr: l.bound()})
	}
	return all
}

func bind(cfg Listener) (*listener, error) {
	addr, err := netip.ParseAddrPort(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("sip: listen address %q: %w", cfg.Addr, err)
	}
	l := &listener{cfg: cfg}
	if cfg.Advertise != "" {
		if l.host, l.port, err = splitAdvertise(cfg.Advertise); err != nil {
			return nil, fmt.Errorf("sip: advertise: %w", err)
		}
	}
	if cfg.secure() {
		if l.tls, err = cfg.TLS.server(); err != nil {
			return nil, err
		}
	}
	if cfg.Network == "udp" {
		l.udp, err = listenUDP(addr)
	} else {
		l.tcp, err = net.Listen(family("tcp", addr.Addr()), cfg.Addr)
	}
	if err != nil {
		return nil, bindError(cfg, err)
	}
	return l, nil
}

// family keeps an IPv4 listener out of IPv6: Go would bind both for 0.0.0.0.
func family(network string, addr netip.Addr) string {
	if addr.Unmap().Is4() {
		return network + "4"
	}
	if addr.IsUnspecified() {
		return network
	}
	return network + "6"
}

func bindError(cfg Listener, err error) error {
	remedy := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		remedy = "; another process has this port, see `ss -lnp`, or choose another one"
	case errors.Is(err, syscall.EACCES):
		remedy = "; ports below 1024 need CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		remedy = "; no interface has this address: bind 0.0.0.0 and set advertise"
	}
	return fmt.Errorf("sip: cannot listen on %s %s: %w%s", cfg.Network, cfg.Addr, err, remedy)
}

// start reads from all listeners until ctx is done.
func (s *Server) start(ctx context.Context, listeners []*listener) {
	for _, l := range listeners {
		if l.udp != nil {
			s.spawn(func() { s.readUDP(l) })
		} else {
			s.spawn(func() { s.accept(ctx, l) })
		}
	}
}
