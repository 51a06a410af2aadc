package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"parley/config"
)

// checkCmd says all that is wrong with a configuration.
type checkCmd struct {
	configFlag
	Ports    bool `help:"Also try whether the addresses and ports can be bound."`
	Agent    bool `help:"Also try whether the agents' URLs, over HTTP and WebSocket, can be reached."`
	Sessions bool `help:"Also try whether the database of sessions can be opened."`
}

// Run prints every mistake on a line of its own, or "ok".
func (c checkCmd) Run(s *stage) error {
	cfg, err := config.Load(c.Config, s.environ)
	if err != nil {
		fmt.Fprintln(s.out, err)
		return errReported
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(s.out, "warning:", w)
	}
	var wrong []error
	note := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	note(cfg.CheckFiles())
	note(checkFolders(cfg))
	note(checkStore(cfg))
	if c.Sessions {
		note(checkDatabase(s.ctx, cfg))
	}
	parts, err := plug(cfg, zap.NewNop())
	if err != nil {
		note(err)
	} else {
		for _, note := range parts.notes {
			fmt.Fprintln(s.out, "note:", note)
		}
		wrong = append(wrong, parts.unheard...)
		_, err := parts.announcement()
		note(err)
		note(parts.checkTools())
		note(parts.checkDocuments())
		parts.close()
	}
	if c.Ports {
		wrong = append(wrong, checkPorts(cfg)...)
	}
	if c.Agent {
		for _, name := range cfg.AgentNames() {
			a := cfg.AgentNamed(name)
			section, address := "agent", a.Agent.URL
			switch a.LLM.Provider {
			case "agent":
			case "stream":
				section, address = "stream", a.Stream.URL
			default:
				continue
			}
			if name != config.DefaultAgent {
				section = "agents." + name + "." + section
			}
			note(cfg.Complain(section, checkAgent(s.ctx, address)))
		}
	}
	if len(wrong) == 0 {
		_, err := fmt.Fprintln(s.out, "ok")
		return err
	}
	for _, err := range wrong {
		fmt.Fprintln(s.out, err)
	}
	return errReported
}

// checkFolders says which folders that the server writes to it could not.
func checkFolders(cfg *config.Config) error {
	var errs []error
	if dir := cfg.Call.EventsDir; dir != "" {
		errs = append(errs, cfg.Complain("call", wrapped("events_dir", writable(dir))))
	}
	if dir := recordingDir(cfg); dir != "" {
		errs = append(errs, cfg.Complain("recording", wrapped("dir", writable(dir))))
	}
	return errors.Join(errs...)
}

// writable says why no file can be made in a folder, which is made when it is not there:
// so will be what is above it.
func writable(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is no folder", dir)
		case err == nil:
			return creatable(dir)
		case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return err
		}
		dir = filepath.Dir(dir)
	}
}

// checkPorts binds all that the server would, and lets go again.
func checkPorts(cfg *config.Config) []error {
	var wrong []error
	try := func(path, network, addr string) {
		if err := bindable(network, addr); err != nil {
			remedy := ""
			if errors.Is(err, syscall.EADDRINUSE) {
				remedy = "; another process has this port (`ss -lnp` shows which): end it, or choose another port"
			}
			wrong = append(wrong, fmt.Errorf("%s: %s://%s cannot be bound: %w%s", path, network, addr, err, remedy))
		}
	}
	for _, l := range cfg.SIP.Listen {
		network, addr, _ := strings.Cut(l, "://")
		addr, _, _ = strings.Cut(addr, "?")
		try("sip.listen", network, addr)
	}
	if cfg.API.Listen != "" {
		try("api.listen", "tcp", cfg.API.Listen)
	}
	media, err := cfg.RTPConfig()
	if err != nil {
		return append(wrong, err)
	}
	addr := media.Addr
	if !addr.IsValid() {
		addr = netip.IPv6Unspecified()
	}
	if media.PortMax == 0 {
		try("rtp.address", "udp", netip.AddrPortFrom(addr, 0).String())
		return wrong
	}
	busy, total := []string{}, 0
	for port := int(media.PortMin); port <= int(media.PortMax); port++ {
		total++
		err := bindable("udp", netip.AddrPortFrom(addr, uint16(port)).String())
		if err != nil && total == 1 && !errors.Is(err, syscall.EADDRINUSE) {
			return append(wrong, fmt.Errorf("rtp.address: %w", err)) // the address itself is wrong
		}
		if err != nil {
			busy = append(busy, fmt.Sprint(port))
		}
	}
	if n := len(busy); n > 0 {
		if n > 5 {
			busy = append(busy[:5], "…")
		}
		wrong = append(wrong, fmt.Errorf("rtp.ports: %d of %d ports of %s are taken: %s", n, total, cfg.RTP.Ports, strings.Join(busy, ", ")))
	}
	return wrong
}

// bindable says why addr cannot be bound.
func bindable(network, addr string) error {
	if network != "udp" {
		network = "tcp"
		l, err := net.Listen(network, addr)
		if err != nil {
			return err
		}
		return l.Close()
	}
	c, err := net.ListenPacket(network, addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// agentPatience is how long a check waits for the agent.
const agentPatience = 5 * time.Second

// checkAgent connects to the host of an agent over HTTP or a WebSocket, with TLS where
// the URL says so. No
// request is made: an agent would take one for a caller's turn.
func checkAgent(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("url: is no address")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443"}[u.Scheme]
	}
	host := net.JoinHostPort(u.Hostname(), port)
	ctx, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	var conn net.Conn
	if u.Scheme == "https" || u.Scheme == "wss" {
		conn, err = (&tls.Dialer{}).DialContext(ctx, "tcp", host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", host)
	}
	if err != nil {
		return fmt.Errorf("url: %s cannot be reached, is the agent running? %w", host, err)
	}
	return conn.Close()
}
