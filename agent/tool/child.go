package tool

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of what a process says on its standard error.
const (
	maxErrorLine = 4 << 10 // bytes of a line
	keptLines    = 8       // kept for errors
)

// Grace is how long a process may take to end by itself once its input is closed, and
// again once it was asked to.
const Grace = time.Second

// Child is a process of a tool that runs. Its owner reads Out to the end and calls Wait.
type Child struct {
	In  io.WriteCloser
	Out io.ReadCloser
	// Exited is closed when the process has ended; those it started may live.
	Exited <-chan struct{}

	cmd    *exec.Cmd
	stderr *complaints
	errs   io.ReadCloser
	heard  chan struct{} // closed when the standard error has ended
	left   sync.WaitGroup
}

// Start runs the process. Its standard error goes to say line by line, cleaned, at most
// 20 a second; dropped counts those left out since the last.
func (p Process) Start(say func(line string, dropped int)) (*Child, error) {
	cmd, err := p.Prepare()
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: cmd, stderr: &complaints{say: say, limit: rate.NewLimiter(20, 100)}}
	if c.In, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.Out, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if c.errs, err = cmd.StderrPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.heard = make(chan struct{})
	c.left.Go(func() {
		defer close(c.heard)
		c.stderr.read(c.errs)
	})
	exited := make(chan struct{})
	c.Exited = exited
	c.left.Go(func() {
		defer close(exited)
		// Not cmd.Wait: it closes the pipes, and with them what is yet to be read. How
		// the process ended is told by what it said.
		if state, err := cmd.Process.Wait(); err != nil || !state.Success() {
			c.stderr.end("(" + endText(state, err) + ")")
		}
	})
	return c, nil
}

// endText says how a process ended.
func endText(state interface{ String() string }, err error) string {
	if err != nil {
		return err.Error()
	}
	return state.String()
}

// Said is the last of the standard error, on one line. Of a process that has ended its
// last words are waited for, for a moment.
func (c *Child) Said() string {
	select {
	case <-c.Exited:
		t := time.NewTimer(Grace)
		defer t.Stop()
		select {
		case <-c.heard:
		case <-t.C:
		}
	default:
	}
	return c.stderr.last()
}

// Terminate asks the process and all it has started to end.
func (c *Child) Terminate() error { return TerminateGroup(c.cmd) }

// Kill ends the process and all it has started.
func (c *Child) Kill() error { return KillGroup(c.cmd) }

// Wait returns when nothing is left of the process here. Call it after Kill.
func (c *Child) Wait() {
	// Whoever left the group and holds the pipes does not hold us.
	t := time.AfterFunc(Grace, func() { c.errs.Close() })
	defer t.Stop()
	c.left.Wait()
	c.errs.Close()
	c.Out.Close()
	c.In.Close()
}

// complaints is the standard error of a process.
type complaints struct {
	say   func(string, int)
	limit *rate.Limiter

	mu      sync.Mutex
	kept    []string
	ended   string // how the process did, if not well
	dropped int
}

func (c *complaints) end(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = how
}

func (c *complaints) read(in io.Reader) {
	r := bufio.NewReaderSize(in, maxErrorLine)
	for {
		line, long, err := ReadLine(r, maxErrorLine)
		if err != nil {
			return
		}
		text := CleanText(string(line), 500)
		if long {
			text = "(a line too long)"
		}
		if text == "" {
			continue
		}
		c.keep(text)
		c.mu.Lock()
		dropped, allowed := c.dropped, c.limit.Allow()
		if c.dropped++; allowed {
			c.dropped = 0
		}
		c.mu.Unlock()
		if allowed {
			c.say(text, dropped)
		}
	}
}

func (c *complaints) keep(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, text)
	c.kept = c.kept[max(0, len(c.kept)-keptLines):]
}

func (c *complaints) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CleanText(strings.Join(c.kept, " | ")+" "+c.ended, 1000)
}

// ReadLine reads a line of at most limit bytes, without its end. Of a longer one the
// rest is read over, and long is true. What follows the last end of a line counts as one.
func ReadLine(r *bufio.Reader, limit int) (line []byte, long bool, err error) {
	any := false
	for {
		part, err := r.ReadSlice('\n')
		any = any || len(part) > 0
		if text := bytes.TrimRight(part, "\r\n"); !long && len(line)+len(text) <= limit {
			line = append(line, part...)
		} else {
			line, long = nil, true
		}
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), long, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && any:
			return bytes.TrimRight(line, "\r\n"), long, nil // the next is EOF
		default:
			return nil, long, err
		}
	}
}
