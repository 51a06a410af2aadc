package sip

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// flow is the way between one peer and us: over UDP a pair of addresses, over
// TCP, TLS and WebSocket a connection. It is a value that does not change.
type flow struct {
	lis    *listener
	remote netip.AddrPort // where the message came from
	local  netip.AddrPort // the address of ours that it was sent to
	conn   *tcpConn       // nil over UDP
}

// transport is the name in Via, in upper case.
func (f *flow) transport() string { return strings.ToUpper(f.lis.cfg.Network) }

// param is the transport parameter of URIs (RFC 7118 section 5.2.2 has no other
// for WebSocket over TLS than for plain WebSocket).
func (f *flow) param() string {
	if f.lis.websocket() {
		return "ws"
	}
	return f.lis.cfg.Network
}

// usable says that requests can be sent on it.
func (f *flow) usable() bool { return f.conn == nil || !f.conn.gone.Load() }

func (f *flow) reliable() bool { return f.conn != nil }

// send writes one message, over UDP to the given address and over TCP into the
// connection. Responses go out whatever their size: a response cannot change its
// transport (RFC 3261 section 18.2.2), and a large one arrives in fragments or
// is sent again, where one withheld never arrives.
func (f *flow) send(b []byte, to netip.AddrPort) error {
	var err error
	if f.conn != nil {
		err = f.conn.write(b)
	} else {
		err = f.lis.udp.write(b, f.local.Addr(), to)
	}
	if err != nil {
		return fmt.Errorf("%w: %s to %v: %w", ErrTransport, f.transport(), to, err)
	}
	return nil
}

// sentBy is host[:port] of ours for Via and Contact: the advertised address, or
// the one that the peer reached. It is never an unspecified address.
func (f *flow) sentBy() string {
	host, port := f.lis.host, f.lis.port
	if host == "" {
		host = hostText(f.local.Addr())
	}
	switch {
	case port != 0:
	case f.lis.udp == nil && f.lis.tcp == nil:
		port = int(f.local.Port()) // of the connection: nothing else can be reached
	default:
		port = int(f.lis.bound().Port())
	}
	return host + ":" + strconv.Itoa(port)
}
