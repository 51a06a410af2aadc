package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/agent/cascade"
	"parley/rtp"
	"parley/sip"
)

// SIPConfig is the configuration of the SIP server.
func (c *Config) SIPConfig() (sip.Config, error) {
	out := c.SIP.Config
	out.Listen = nil
	var errs []error
	for _, s := range c.SIP.Listen {
		network, addr, ok := strings.Cut(s, "://")
		if _, err := netip.ParseAddrPort(addr); !ok || err != nil || network != "udp" && network != "tcp" {
			errs = append(errs, fmt.Errorf("listen: %q, must be such as \"udp://0.0.0.0:5060\" or \"tcp://[::]:5060\"", s))
			continue
		}
		out.Listen = append(out.Listen, sip.Listener{Network: network, Addr: addr, Advertise: c.SIP.Advertise})
	}
	return out, errors.Join(errs...)
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

// CascadeConfig is the configuration of the conversation, but for its parts.
func (c *Config) CascadeConfig() cascade.Config {
	out := c.Conversation.Config
	out.Turn = c.Turn
	out.FirstToken = milliseconds(c.Agent.FirstTokenTimeoutMS)
	out.Fallback = c.Agent.FallbackPhrase
	return out
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// checkAgent says what is wrong with the agent section, when it is used.
func (c *Config) checkAgent() error {
	var errs []error
	if c.LLM.Provider == "agent" {
		u, err := url.Parse(c.Agent.URL)
		switch {
		case c.Agent.URL == "":
			errs = append(errs, errors.New("url: must be set, because llm.provider is \"agent\""))
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			errs = append(errs, errors.New("url: must be such as \"http://127.0.0.1:9000/agent\""))
		}
	}
	if c.Agent.TimeoutMS < 1 {
		errs = append(errs, fmt.Errorf("timeout_ms: %d, must be at least 1", c.Agent.TimeoutMS))
	}
	if c.Agent.FirstTokenTimeoutMS < 1 {
		errs = append(errs, fmt.Errorf("first_token_timeout_ms: %d, must be at least 1", c.Agent.FirstTokenTimeoutMS))
	}
	return errors.Join(errs...)
}
