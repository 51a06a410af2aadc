package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
	"parley/test/phone"
)

// Server is the built server in a process of its own, with the echo agent unless
// the settings say otherwise.
type Server struct {
	*Process
	t      testing.TB
	events string
	// Host is "127.0.0.1:port", the same for UDP and TCP.
	Host string
	// Host6 is "[::1]:port" of a server that has IPv6, API "http://127.0.0.1:port" of
	// one that has an API.
	Host6, API string
}

// program is the server that all tests of the process use, built once.
var program = sync.OnceValues(func() (string, error) {
	if named := os.Getenv("PARLEY_SERVER"); named != "" {
		return filepath.Abs(named)
	}
	dir, err := os.MkdirTemp("", "parley-server-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "sip-server")
	out, err := exec.Command("go", "build", "-o", path, "parley/cmd/sip-server").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the server: %w\n%s", err, out)
	}
	return path, nil
})

// Settings are lines of the server's configuration file, beyond what the tests
// need: free ports of loopback, a folder for events, the echo agent.
type Settings struct {
	// SIP, Call are lines for the sections of these names. LLM are those of [llm]
	// and replace the echo. Rest are whole sections.
	SIP, Call, LLM, Rest string
	// API has it serve its HTTP API, IPv6 listen on ::1 too.
	API, IPv6 bool
	// Port is where it listens for SIP, 0 for any that is free.
	Port int
}

// StartServer runs the server on free ports of 127.0.0.1 until the test ends. The
// program is the one that PARLEY_SERVER names, or else is built.
func StartServer(t testing.TB, settings Settings) *Server {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if settings.Port == 0 {
		settings.Port = FreePort(t)
	}
	s := &Server{t: t, events: filepath.Join(dir, "events"), Host: fmt.Sprintf("127.0.0.1:%d", settings.Port)}
	if settings.API {
		s.API = fmt.Sprintf("http://127.0.0.1:%d", FreePort(t))
	}
	if settings.IPv6 {
		s.Host6 = strings.Replace(s.Host, "127.0.0.1", "[::1]", 1)
	}
	config := filepath.Join(dir, "sip-server.toml")
	if err := os.WriteFile(config, []byte(s.config(settings)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Process = Start(t, dir, environment(), path, "serve", "--config", config)
	if !Eventually(20*time.Second, s.answers) {
		t.Fatalf("the server does not answer OPTIONS:\n%s", s.Output())
	}
	return s
}

func (s *Server) config(set Settings) string {
	if set.LLM == "" {
		set.LLM = `provider = "echo"`
	}
	hosts, media := []string{s.Host}, "127.0.0.1"
	if set.IPv6 {
		hosts, media = append(hosts, s.Host6), "::"
	}
	var listen []string
	for _, h := range hosts {
		listen = append(listen, fmt.Sprintf("%q", "udp://"+h), fmt.Sprintf("%q", "tcp://"+h))
	}
	return fmt.Sprintf("[sip]\nlisten = [%s]\n%s\n[rtp]\naddress = %q\nports = \"\"\n[call]\nevents_dir = %q\n%s\n"+
		"[llm]\n%s\n[api]\nlisten = %q\nrate_per_second = 1000.0\nrate_burst = 1000\n[log]\nformat = \"json\"\n%s\n",
		strings.Join(listen, ", "), set.SIP, media, s.events, set.Call, set.LLM, strings.TrimPrefix(s.API, "http://"), set.Rest)
}

// Ask sends a request to the API, with body as JSON unless it is nil, and reads the
// answer's JSON into answer unless that is nil. It returns the status, 0 when there
// was no answer.
func (s *Server) Ask(ctx context.Context, method, path string, body, answer any) int {
	s.t.Helper()
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			s.t.Error(err)
			return 0
		}
		text = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.API+path, text)
	if err != nil {
		s.t.Error(err)
		return 0
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Logf("%s %s: %v", method, path, err)
		return 0
	}
	defer res.Body.Close()
	if answer != nil && res.StatusCode < 300 {
		if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
			s.t.Errorf("%s %s: %v", method, path, err)
		}
	}
	return res.StatusCode
}

func (s *Server) answers() bool {
	p, err := phone.New(phone.Config{T1: 50 * time.Millisecond})
	if err != nil {
		return false
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	m, err := p.Options(ctx, s.URI("ping"))
	return err == nil && m.Code == 200
}

// environment is the test's own without the settings of a real server.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "PARLEY_") })
}

// URI is the server's SIP URI for a user.
func (s *Server) URI(user string) string { return "sip:" + user + "@" + s.Host }

// Journal reads what the server wrote about its calls: the events by call, and the
// records of the calls that are over, in the order of their ends.
func (s *Server) Journal() (events map[string][]agent.Event, records []call.Record) {
	events = map[string][]agent.Event{}
	files, _ := filepath.Glob(filepath.Join(s.events, "*.jsonl"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		id := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		for line := range bytes.Lines(text) {
			var e agent.Event
			if err := json.Unmarshal(line, &e); err != nil {
				continue // a line that is being written
			}
			if e.Type != "call_ended" {
				events[id] = append(events[id], e)
				continue
			}
			var r call.Record
			if err := json.Unmarshal(line, &r); err != nil {
				s.t.Fatal(err)
			}
			records = append(records, r)
		}
	}
	return events, records
}

// Records waits until n calls are over and returns their records. It fails the
// test when there are not exactly n after a while.
func (s *Server) Records(n int) []call.Record {
	s.t.Helper()
	var records []call.Record
	Eventually(5*time.Second, func() bool {
		_, records = s.Journal()
		return len(records) >= n
	})
	if len(records) != n {
		s.t.Errorf("the server has records of %d calls, want %d", len(records), n)
	}
	return records
}

// End stops the server as an operator does and checks that it ends by itself, in
// order, and with nothing of its own left to say that went wrong.
func (s *Server) End() {
	s.t.Helper()
	_ = s.command.Process.Signal(syscall.SIGTERM)
	status, err := s.Wait(10 * time.Second)
	if err != nil {
		s.t.Error(err)
		return
	}
	if status != 0 {
		s.t.Errorf("the server ended with status %d", status)
	}
	for line := range strings.Lines(s.Output()) {
		if strings.Contains(line, `"level":"error"`) || strings.Contains(line, "panic") || strings.Contains(line, "DATA RACE") {
			s.t.Errorf("the server said: %s", line)
		}
	}
}

// Refused waits for the log line of a refused INVITE and returns whether it came.
func (s *Server) Refused(code int) bool {
	return Eventually(3*time.Second, func() bool {
		for line := range strings.Lines(s.Output()) {
			if strings.Contains(line, fmt.Sprintf(`"code":%d`, code)) || strings.Contains(line, fmt.Sprintf(`"status":%d`, code)) {
				return true
			}
		}
		return false
	})
}

// Free ports are looked for here: below those that the kernel gives to who asks for any,
// and beside those of the telephones' sound.
const firstPort, lastPort = 22000, 31999

// nextPort counts the ports that were given away.
var nextPort atomic.Uint32

// FreePort is a port of 127.0.0.1 that is free for UDP and TCP now, as are the three
// above it most likely, and that nobody else is given for a long time.
func FreePort(t testing.TB) int {
	t.Helper()
	// A program that is started meanwhile would hold the sockets until it runs, and
	// the port would be taken for a moment yet.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for range 50 {
		port := firstPort + int(4*nextPort.Add(1))%(lastPort-firstPort)
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			continue
		}
		tcp, err := net.Listen("tcp", udp.LocalAddr().String())
		_ = udp.Close()
		if err == nil {
			_ = tcp.Close()
			return port
		}
	}
	t.Fatal("no port is free for both UDP and TCP")
	return 0
}
