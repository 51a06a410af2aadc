package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/sip"
)

// asServer makes the test program the server.
const asServer = "PARLEY_ATTACK_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measure is what the server takes, after everything that can be freed was.
type measure struct {
	RSS, Heap, Goroutines, Files int
	Stats                        sip.Stats
}

type handler struct{}

func (handler) Offer(b []byte) ([]byte, *sip.RejectError) { return b, nil }
func (handler) MakeOffer() []byte                         { return nil }
func (handler) Answer([]byte) error                       { return nil }
func (handler) Info(string, []byte) bool                  { return true }

const description = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4002 RTP/AVP 0\r\n"

// serve is the server: it prints its addresses, then a measure for each line that
// it reads, until there are no more.
func serve(in io.Reader, out io.Writer) error {
	access := sip.DefaultAccess()
	access.Required = sip.RequireAlways // all of 127.0.0.0/8 would be let in otherwise
	gate, err := sip.NewGate(access, map[string]string{"alice": "secret"}, nil)
	if err != nil {
		return err
	}
	cfg := sip.DefaultConfig()
	cfg.Gate = gate
	cfg.Listen = nil
	for _, network := range []string{"udp", "tcp", "ws"} {
		cfg.Listen = append(cfg.Listen, sip.Listener{Network: network, Addr: "127.0.0.1:0"})
	}
	s, err := sip.NewServer(cfg, nil)
	if err != nil {
		return err
	}
	if err := s.Listen(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- s.Serve(ctx, func(_ context.Context, inv *sip.Invite) {
			if _, rej := gate.Admit(inv); rej != nil {
				_ = inv.Reject(rej) // the caller may have gone
				return
			}
			_, _ = inv.Answer([]byte(description), handler{})
		})
	}()
	for _, a := range s.Addrs() {
		fmt.Fprintln(out, a.Addr)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		runtime.GC()
		debug.FreeOSMemory()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(measure{residentKB() << 10, int(mem.HeapInuse + mem.StackInuse), runtime.NumGoroutine(), len(files), s.Stats()}); err != nil {
			return err
		}
	}
	cancel()
	return <-done
}

// residentKB is the memory that the process holds.
func residentKB() int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			n, _ := strconv.Atoi(f[1])
			return n
		}
	}
	return 0
}

// victim is the server as its attackers see it.
type victim struct {
	t            *testing.T
	udp, tcp, ws string
	in           io.WriteCloser
	out          *bufio.Reader
}

func start(t *testing.T) *victim {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("sources are made up by means of Linux")
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), asServer+"=1"), os.Stderr
	v := &victim{t: t}
	if v.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v.out = bufio.NewReader(out)
	t.Cleanup(func() {
		v.in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	for _, at := range []*string{&v.udp, &v.tcp, &v.ws} {
		line, err := v.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		*at = strings.TrimSpace(line)
	}
	return v
}

// measure asks the server what it takes.
func (v *victim) measure() (m measure) {
	v.t.Helper()
	if _, err := io.WriteString(v.in, "\n"); err != nil {
		v.t.Fatal(err)
	}
	line, err := v.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	if err != nil {
		v.t.Fatal(err)
	}
	return m
}

// settled is a measure once there are no more than n connections.
func (v *victim) settled(n int) measure {
	v.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if m := v.measure(); m.Stats.Connections <= n || time.Now().After(deadline) {
			return m
		}
	}
}
