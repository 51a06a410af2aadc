package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// sut is a system under test, running.
type sut struct {
	name string
	cmd  *exec.Cmd
	addr string

	mu   sync.Mutex
	last status
}

// status is a line of parleysrv's report.
type status struct {
	Calls      int     `json:"calls"`
	Goroutines int     `json:"goroutines"`
	HeapMB     float64 `json:"heap_mb"`
	Heard      uint64  `json:"heard"`
	Mallocs    uint64  `json:"mallocs"`
	Driver     string  `json:"driver"`
	Delays     delays  `json:"delays"`
}

// delays are quantiles in milliseconds, and how many they are of.
type delays struct {
	HearP50 float64 `json:"hear_p50"`
	HearP99 float64 `json:"hear_p99"`
	Hear    float64 `json:"hear"`
	SayP50  float64 `json:"say_p50"`
	SayP99  float64 `json:"say_p99"`
	Say     float64 `json:"say"`
}

// system says how to start one.
type system struct {
	name string
	bin  string
	port int
	args []string
}

const (
	sutIP  = "127.77.0.1"
	sippIP = "127.77.0.8"
	farmIP = "127.77.0.9"
)

func (s system) start(extra ...string) (*sut, error) {
	args := append([]string{"-host", sutIP, "-port", strconv.Itoa(s.port)}, s.args...)
	cmd := exec.Command(s.bin, append(args, extra...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	u := &sut{name: s.name, cmd: cmd, addr: fmt.Sprintf("%s:%d", sutIP, s.port)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var st status
			if json.Unmarshal(lines.Bytes(), &st) == nil {
				u.mu.Lock()
				u.last = st
				u.mu.Unlock()
			}
		}
	}()
	time.Sleep(1500 * time.Millisecond) // until it listens and its start-up cost is over
	return u, nil
}

func (u *sut) status() status {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last
}

// stop ends it and waits.
func (u *sut) stop() {
	_ = u.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = u.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = u.cmd.Process.Kill()
		<-done
	}
}

// cpu is the CPU time used so far.
func (u *sut) cpu() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", u.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// The second field, the name in parentheses, may hold blanks.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// rssKB is the resident set.
func (u *sut) rssKB() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", u.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(v)[0])
			return n
		}
	}
	return 0
}

// fds is how many descriptors are open.
func (u *sut) fds() int {
	e, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", u.cmd.Process.Pid))
	if err != nil {
		return -1
	}
	return len(e)
}

// loadavg is the one-minute load average.
func loadavg() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	v, _ := strconv.ParseFloat(strings.Fields(string(b))[0], 64)
	return v
}
