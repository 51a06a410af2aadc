package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"parley/api"
	"parley/call"
	"parley/identity"
	"parley/rtp"
	"parley/sip"
)

// SIPConfig is the configuration of the SIP server, without its gate.
func (c *Config) SIPConfig() (sip.Config, error) {
	out := c.SIP.Config
	out.Listen, out.TLS = nil, c.TLS.TLS
	var errs []error
	for _, s := range c.SIP.Listen {
		l, err := c.listener(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("listen: %q, %w", s, err))
			continue
		}
		out.Listen = append(out.Listen, l)
	}
	return out, errors.Join(errs...)
}

// networks are what may stand before "://" in sip.listen.
var networks = []string{"udp", "tcp", "tls", "ws", "wss"}

// listener reads one of sip.listen.
func (c *Config) listener(s string) (sip.Listener, error) {
	network, rest, ok := strings.Cut(s, "://")
	addr, query, more := strings.Cut(rest, "?")
	if _, err := netip.ParseAddrPort(addr); !ok || err != nil || !slices.Contains(networks, network) {
		return sip.Listener{}, errors.New(`must be such as "udp://0.0.0.0:5060", "tcp://[::]:5060", "tls://0.0.0.0:5061", "ws://…" or "wss://…"`)
	}
	l := sip.Listener{Network: network, Addr: addr, Advertise: c.SIP.Advertise}
	if more {
		if l.Advertise, ok = strings.CutPrefix(query, "advertise="); !ok || l.Advertise == "" {
			return l, errors.New(`after "?" only advertise=HOST or advertise=HOST:PORT may stand`)
		}
	}
	return l, nil
}

// RTPConfig is the configuration of the wheel.
func (c *Config) RTPConfig() (rtp.Config, error) {
	out := c.RTP.Config
	out.Addr, out.PortMin, out.PortMax = netip.Addr{}, 0, 0
	var errs []error
	if c.RTP.Address != "" {
		addr, err := netip.ParseAddr(c.RTP.Address)
		if err != nil {
			errs = append(errs, fmt.Errorf("address: %q is not an IP address", c.RTP.Address))
		}
		out.Addr = addr
	}
	if c.RTP.Ports != "" {
		low, high, ok := strings.Cut(c.RTP.Ports, "-")
		first, err1 := strconv.ParseUint(strings.TrimSpace(low), 10, 16)
		last, err2 := strconv.ParseUint(strings.TrimSpace(high), 10, 16)
		if !ok || err1 != nil || err2 != nil || first > last || first == 0 {
			errs = append(errs, fmt.Errorf("ports: %q, must be a range such as \"20000-20999\"", c.RTP.Ports))
		}
		out.PortMin, out.PortMax = uint16(first), uint16(last)
	}
	return out, errors.Join(errs...)
}

// CallConfig is the configuration of calls.
func (c *Config) CallConfig() call.Config {
	out := c.Call
	out.Recording, out.Transfer = c.Recording, c.Transfer.TransferConfig
	out.Transfer.Hosts, out.Transfer.Region = c.Transfer.AllowHosts, cmp.Or(c.Transfer.Region, c.Identity.Region)
	return out
}

// TokenConfig says which tokens are believed.
func (c *Config) TokenConfig() identity.TokenConfig {
	out := c.Token.TokenConfig
	out.Secret = c.Token.Secret.Reveal()
	return out
}

// SignerConfig says how tokens are made.
func (c *Config) SignerConfig() identity.SignerConfig {
	out := c.Sign.SignerConfig
	out.Secret = c.Sign.Secret.Reveal()
	return out
}

// APIConfig is the configuration of the HTTP side.
func (c *Config) APIConfig() api.Config {
	out := c.API.Config
	for _, name := range slices.Sorted(maps.Keys(c.API.Keys)) {
		k := c.API.Keys[name]
		out.Keys = append(out.Keys, api.Key{Name: name, Secret: k.Key.Reveal(), Scopes: k.Scopes})
	}
	return out
}
