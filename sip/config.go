package sip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Config is all a Server has to know. Copy it freely; it is not changed after
// NewServer.
type Config struct {
	// Listen are the addresses to bind, one transport each.
	Listen []Listener
	// UserAgent is written into the Server and User-Agent headers. Empty leaves
	// them out.
	UserAgent string
	// MaxMessage bounds one message in bytes, headers and body. A longer one is
	// answered 513.
	MaxMessage int
	// MaxTransactions bounds the server transactions alive at one time. A new
	// request above it is answered 503 with Retry-After and leaves no state;
	// requests inside a dialog may use as many again, so that calls can be ended
	// under a flood.
	MaxTransactions int
	// MaxConnections bounds the connections (TCP, TLS, WebSocket) open at one time.
	MaxConnections int
	// MaxConnectionsPerSource bounds those accepted from one address, so that one
	// peer cannot take them all. 0: no bound but MaxConnections, as behind a
	// proxy from which everybody comes.
	MaxConnectionsPerSource int
	// Origins are the web pages whose telephones may connect over WebSocket, such
	// as "https://phone.example.com"; "*" is all. Empty: pages of loopback and
	// private addresses. Clients that are no browsers send no Origin and are not
	// asked for one.
	Origins []string
	// T1, T2 and T4 are the timers of RFC 3261 table 4: the round trip estimate,
	// the longest retransmission interval, and how long a message lives in the
	// network.
	T1, T2, T4 time.Duration
	// RetryAfter is what a caller is told to wait when the server drains or is
	// at a limit. It is sent in whole seconds, rounded up.
	RetryAfter time.Duration
	// NAT says where requests of ours go when a peer's Contact looks wrong.
	NAT NAT
	// TLS is for listeners, trunks and connections that have none of their own.
	TLS TLS
	// Timer is for sessions whose peer may have gone.
	Timer SessionTimer
	// Resolver finds names. nil is the system's.
	Resolver Resolver
	// Gate judges new calls before there is any state for them, keeps sources to
	// their rates and answers or ignores strangers. nil lets everything through
	// to the handler.
	Gate *Gate
	// Refused, when set, is told of each INVITE that Gate refused, with the status
	// and the rule; status 0 is one that got no answer. It must not wait.
	Refused func(code int, rule string) `json:"-"`
}

// Listener is one address to bind.
type Listener struct {
	// Network is "udp", "tcp", "tls", "ws" or "wss" (RFC 7118).
	Network string
	// Addr is the address to bind, such as "0.0.0.0:5060", "[::]:5060" or
	// "127.0.0.1:0".
	Addr string
	// Advertise is host[:port] for Contact and Via, when peers reach this
	// listener under another address than the one bound. Empty: the address the
	// peer's packet was sent to.
	Advertise string
	// TLS is for this listener only. The zero value is Config.TLS.
	TLS TLS
}

// secure says that the listener needs a certificate.
func (l Listener) secure() bool { return l.Network == "tls" || l.Network == "wss" }

// NAT is a policy for sending requests to peers behind address translation.
type NAT string

const (
	// NATAuto sends to where the peer's INVITE came from when its Contact is a
	// private address that is not the source, and to the Contact otherwise.
	NATAuto NAT = "auto"
	// NATAlways sends to the source of the INVITE always.
	NATAlways NAT = "always"
	// NATNever believes the Contact, as RFC 3261 section 12.2.1.1 has it.
	NATNever NAT = "never"
)

// DefaultConfig is a server on UDP and TCP port 5060 of all addresses with the
// timers of RFC 3261.
func DefaultConfig() Config {
	return Config{
		Listen: []Listener{
			{Network: "udp", Addr: "0.0.0.0:5060"},
			{Network: "tcp", Addr: "0.0.0.0:5060"},
		},
		UserAgent:               "Parley",
		MaxMessage:              65535,
		MaxTransactions:         20000,
		MaxConnections:          2000,
		MaxConnectionsPerSource: 500,
		T1:                      500 * time.Millisecond,
		T2:                      4 * time.Second,
		T4:                      5 * time.Second,
		RetryAfter:              5 * time.Second,
		NAT:                     NATAuto,
		Timer:                   SessionTimer{Expires: 30 * time.Minute, Min: 90 * time.Second},
	}
}

// Validate returns all that is wrong with c, joined into one error, each part
// beginning with the field's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("sip: "+format, args...)) }

	if len(c.Listen) == 0 {
		bad("listen: at least one address is needed")
	}
	for i, l := range c.Listen {
		switch l.Network {
		case "udp", "tcp", "ws":
		case "tls", "wss":
			if err := l.TLS.or(c.TLS).validate(true); err != nil {
				bad("listen[%d].tls: %v", i, err)
			}
		default:
			bad("listen[%d].network: %q is not udp, tcp, tls, ws or wss", i, l.Network)
		}
		if _, err := netip.ParseAddrPort(l.Addr); err != nil {
			bad("listen[%d].addr: %q is not ip:port", i, l.Addr)
		}
		if l.Advertise != "" {
			if _, _, err := splitAdvertise(l.Advertise); err != nil {
				bad("listen[%d].advertise: %v", i, err)
			}
		}
	}
	if strings.ContainsAny(c.UserAgent, "\r\n") {
		bad("user_agent: must be one line")
	}
	if c.MaxMessage < 1500 || c.MaxMessage > 65535 {
		bad("max_message: %d is not between 1500 and 65535 bytes", c.MaxMessage)
	}
	if c.MaxTransactions < 1 {
		bad("max_transactions: %d is below 1", c.MaxTransactions)
	}
	if c.MaxConnections < 1 {
		bad("max_connections: %d is below 1", c.MaxConnections)
	}
	if c.MaxConnectionsPerSource < 0 {
		bad("max_connections_per_source: %d is negative", c.MaxConnectionsPerSource)
	}
	for i, o := range c.Origins {
		if err := checkOrigin(o); err != nil {
			bad("origins[%d]: %v", i, err)
		}
	}
	if c.T1 <= 0 || c.T2 < c.T1 || c.T4 <= 0 {
		bad("t1 %v, t2 %v, t4 %v: all must be positive and t2 at least t1", c.T1, c.T2, c.T4)
	}
	if c.RetryAfter < 0 || c.RetryAfter > time.Hour {
		bad("retry_after: %v is not between 0 and 1h", c.RetryAfter)
	}
	if c.Timer.Min < time.Second || c.Timer.Expires != 0 && c.Timer.Expires < c.Timer.Min || c.Timer.Expires > 24*time.Hour {
		bad("timer: expires %v, min %v: min must be at least 1s, expires 0 or between min and 24h", c.Timer.Expires, c.Timer.Min)
	}
	if err := c.TLS.validate(false); err != nil {
		bad("tls: %v", err)
	}
	switch c.NAT {
	case NATAuto, NATAlways, NATNever:
	default:
		bad("nat: %q is not auto, always or never", c.NAT)
	}
	return errors.Join(errs...)
}

// splitAdvertise splits host[:port] into a host that can stand in a URI and a
// port that is 0 when none was given.
func splitAdvertise(s string) (host string, port int, err error) {
	host = s
	if h, p, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return "", 0, fmt.Errorf("%q: port %q is not 1 to 65535", s, p)
		}
		host, port = h, int(n)
	}
	host = strings.Trim(host, "[]")
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.IsUnspecified() {
			return "", 0, fmt.Errorf("%q: peers cannot reach an unspecified address", s)
		}
		return hostText(addr), port, nil
	}
	if !isHostname(host) {
		return "", 0, fmt.Errorf("%q is not a host name or an address", s)
	}
	return host, port, nil
}

// hostText is addr as RFC 3261 writes a host: IPv6 in brackets, without a zone.
func hostText(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		return "[" + addr.String() + "]"
	}
	return addr.String()
}
