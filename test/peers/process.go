package peers

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a program that a test started, with all that it started itself.
type Process struct {
	t       testing.TB
	name    string
	command *exec.Cmd
	input   io.WriteCloser
	done    chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
}

// Start runs a program in dir until the test ends. Its output is kept, and shown
// when the test fails.
func Start(t testing.TB, dir string, env []string, program string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, name: program, command: exec.Command(program, args...), done: make(chan struct{})}
	p.command.Dir, p.command.Env = dir, env
	p.command.Stdout, p.command.Stderr = p, p
	p.command.WaitDelay = 2 * time.Second // for what is left of its group to let go of its output
	// A group of its own, so that it can be ended with its children; and should
	// the test program die, the kernel ends it.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var err error
	if p.input, err = p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.start(); err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", program, tail(p.Output(), 6000))
		}
	})
	return p
}

// start starts the program from a thread that stays until the program has ended:
// to the kernel that thread is the parent whose death ends the program.
func (p *Process) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := p.command.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = p.command.Wait() // the status is in ProcessState
		close(p.done)
	}()
	return <-started
}

// Write takes the program's output.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

// Output is what the program wrote so far, both streams.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// Tell writes a line to the program's input.
func (p *Process) Tell(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.input, line+"\n"); err != nil {
		p.t.Fatalf("%s takes no more input: %v", p.name, err)
	}
}

// WaitFor returns when the program has written text, and fails the test when it
// has not within the time or has ended.
func (p *Process) WaitFor(text string, within time.Duration) {
	p.t.Helper()
	ended := false
	if !Eventually(within, func() bool {
		if strings.Contains(p.Output(), text) {
			return true
		}
		select {
		case <-p.done:
			ended = true
		default:
		}
		return ended
	}) || ended && !strings.Contains(p.Output(), text) {
		p.t.Fatalf("%s did not say %q within %v", p.name, text, within)
	}
}

// Signal sends the program a signal.
func (p *Process) Signal(s syscall.Signal) error { return p.command.Process.Signal(s) }

// Wait returns the program's exit status when it has ended.
func (p *Process) Wait(within time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.command.ProcessState.ExitCode(), nil
	case <-time.After(within):
		return -1, fmt.Errorf("%s still runs after %v", p.name, within)
	}
}

// Kill ends the program and all of its group as a power cut does.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// Stop ends the program as an operator would, and after 3 s by force, with all
// processes of its group.
func (p *Process) Stop() {
	group := -p.command.Process.Pid
	_ = p.input.Close()
	select {
	case <-p.done: // its group may live on
	default:
		_ = syscall.Kill(group, syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(3 * time.Second):
		}
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-p.done
}

// Eventually asks until met is true; false when it was not within the time.
func Eventually(within time.Duration, met func() bool) bool {
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if met() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func tail(text string, most int) string {
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}
