package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/agent/cascade"
	"parley/agent/llm/httpagent"
	"parley/agent/stt/pocketsphinx"
	"parley/rtp"
	"parley/sip"
)

// SIPConfig is the configuration of the SIP server.
func (c *Config) SIPConfig() (sip.Config, error) {
	out := c.SIP.Config
	out.Listen, out.TLS = nil, c.TLS.TLS
	var errs []error
	for _, s := range c.SIP.Listen {
		network, addr, ok := strings.Cut(s, "://")
		if _, err := netip.ParseAddrPort(addr); !ok || err != nil || !slices.Contains([]string{"udp", "tcp", "tls"}, network) {
			errs = append(errs, fmt.Errorf("listen: %q, must be such as \"udp://0.0.0.0:5060\", \"tcp://[::]:5060\" or \"tls://0.0.0.0:5061\"", s))
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

// RecognizerConfig is the configuration of the embedded recogniser. An agent of
// your own tells it no grammar, so it must take dictation then.
func (c *Config) RecognizerConfig() pocketsphinx.Config {
	out := c.STT.Config
	out.Dictation = out.Dictation || c.LLM.Provider == "agent"
	return out
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

// AgentConfig is the configuration of your own agent over HTTP.
func (c *Config) AgentConfig() httpagent.Config {
	out := httpagent.DefaultConfig()
	out.URL = c.Agent.URL
	out.APIKey = c.Agent.APIKey.Reveal()
	out.Timeout = milliseconds(c.Agent.TimeoutMS)
	out.FirstTokenTimeout = milliseconds(c.Agent.FirstTokenTimeoutMS)
	out.Notify = c.Agent.Notify
	out.Actions = c.Agent.Actions
	out.System = c.Agent.System
	out.Greeting = c.Conversation.Greeting
	return out
}
