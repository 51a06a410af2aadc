package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"parley/test/phone"
)

// demoServer is the server in a process of its own.
type demoServer struct {
	command *exec.Cmd
	port    int
	events  string
	log     string
	ended   chan struct{} // closed when the process has ended
}

const demoConfig = `# The demo's server: loopback only, free ports, what is built in.
[sip]
listen = ["udp://127.0.0.1:%[1]d", "tcp://127.0.0.1:%[1]d"]
[rtp]
address = "127.0.0.1"
ports = ""
[call]
events_dir = %[2]q
[llm]
provider = "script"
[sessions]
backend = "memory"
[api]
listen = ""
[log]
format = "json"
`

// startDemoServer starts the server on free ports and waits until it answers.
// The environment's settings for a real server do not reach it.
func startDemoServer(ctx context.Context, dir string, environ []string) (*demoServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &demoServer{events: filepath.Join(dir, "events"), log: filepath.Join(dir, "server.log"), ended: make(chan struct{})}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "demo.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, demoConfig, s.port, s.events), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.command = exec.Command(self, "serve", "--config", config)
	s.command.Stdout, s.command.Stderr = log, log
	for _, e := range environ {
		if !strings.HasPrefix(e, "PARLEY_") {
			s.command.Env = append(s.command.Env, e)
		}
	}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.command.Wait()
		close(s.ended)
	}()
	if err := s.ready(ctx); err != nil {
		s.stop()
		text, _ := os.ReadFile(s.log)
		return nil, fmt.Errorf("demo: the server did not start: %w\n%s", err, bytes.TrimSpace(text))
	}
	return s, nil
}

// ready asks the server with OPTIONS until it answers.
func (s *demoServer) ready(ctx context.Context) error {
	p, err := phone.New(phone.Config{T1: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	defer p.Close()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		try, cancel := context.WithTimeout(ctx, time.Second)
		m, err := p.Options(try, s.uri())
		cancel()
		if err == nil && m.Code == 200 {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errors.New("it did not answer OPTIONS for 20 s")
}

func (s *demoServer) uri() string { return fmt.Sprintf("sip:reception@127.0.0.1:%d", s.port) }

// stop ends the server as an operator would, and by force when that fails.
func (s *demoServer) stop() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
		_ = s.command.Process.Kill()
		<-s.ended
	}
}

// saveLog keeps the log for the reader of an error and tells where.
func (s *demoServer) saveLog(dir string) string {
	kept := filepath.Join(dir, "demo-server.log")
	text, err := os.ReadFile(s.log)
	if err != nil || os.WriteFile(kept, text, 0o644) != nil {
		return s.log
	}
	return kept
}

// freePort is a port of loopback that is free for UDP and TCP now.
func freePort() (int, error) {
	for range 50 {
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return 0, err
		}
		tcp, err := net.Listen("tcp", udp.LocalAddr().String())
		_ = udp.Close()
		if err != nil {
			continue
		}
		port := tcp.Addr().(*net.TCPAddr).Port
		_ = tcp.Close()
		return port, nil
	}
	return 0, errors.New("demo: no port of loopback is free for both UDP and TCP")
}
