package api

import (
	"fmt"
	"net"
	"strconv"
)

// Config says where the HTTP side is served.
type Config struct {
	// Listen is host:port. Empty turns the HTTP side off. It has no
	// authentication of its own: keep it on loopback or a private network.
	Listen string
}

// DefaultConfig is port 8080 of loopback.
func DefaultConfig() Config { return Config{Listen: "127.0.0.1:8080"} }

// Validate says what is wrong with c.
func (c Config) Validate() error {
	if c.Listen == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("api: listen: %q is not host:port", c.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("api: listen: %q is not a port number", port)
	}
	return nil
}
