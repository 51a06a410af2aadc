package plugin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"parley/agent/tool"
)

// What calls of a plugin fail with; models may be told.
var (
	errGone    = errors.New("this is out of order for the moment, try again later")
	errBlocked = errors.New("this is overloaded, try again later")
)

// maxWaiting is how many lines may wait for a plugin to read them, and how many calls
// for its answers.
const maxWaiting = 256

// conn is the conversation with one process: lines out, lines in, matched by id. It
// knows no processes, so a pair of pipes will do.
type conn struct {
	out   io.WriteCloser
	queue chan []byte
	done  chan struct{} // the other side has ended its output
	quit  chan struct{} // nothing more is to be written
	once  sync.Once
	serve func(received)          // a request or notification of the plugin
	stray func(why string, n int) // a line that belongs to nothing
	write sync.WaitGroup

	mu      sync.Mutex
	next    uint64
	gone    bool
	waiting map[string]chan received
	initial string // the id of initialize while it waits: it takes an answer without one
}

// newConn begins to write to out. The caller then runs read.
func newConn(out io.WriteCloser, serve func(received), stray func(string, int)) *conn {
	c := &conn{
		out: out, queue: make(chan []byte, maxWaiting), done: make(chan struct{}), quit: make(chan struct{}),
		serve: serve, stray: stray, waiting: map[string]chan received{},
	}
	c.write.Go(c.drain)
	return c
}

// drain writes what is queued. A plugin that does not read blocks nobody but this.
func (c *conn) drain() {
	defer c.out.Close()
	for {
		select {
		case line := <-c.queue:
			if _, err := c.out.Write(line); err != nil {
				return // its output ends soon as well; that is what counts
			}
		case <-c.quit:
			return
		}
	}
}

// read takes lines until the plugin's output ends, then fails all who wait.
func (c *conn) read(in io.Reader) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, long, err := tool.ReadLine(r, maxLine)
		if err != nil {
			break
		}
		switch {
		case long:
			c.stray("line too long", maxLine)
		case len(bytes.TrimSpace(line)) > 0:
			c.take(line)
		}
	}
	c.mu.Lock()
	c.gone = true
	for id, w := range c.waiting {
		delete(c.waiting, id)
		close(w)
	}
	c.mu.Unlock()
	close(c.done)
}

// over says whether the plugin's output has ended.
func (c *conn) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// take gives a line to whom it belongs.
func (c *conn) take(line []byte) {
	f, err := parseFrame(line)
	switch {
	case err != nil:
		c.stray("not JSON-RPC", len(line))
		return
	case f.Method != "":
		c.serve(f)
		return
	}
	c.mu.Lock()
	id := string(f.ID)
	if f.ID == nil && f.Error == nil {
		id = c.initial
	}
	w := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if w == nil {
		c.stray("answer to nothing that waits", len(line))
		return
	}
	w <- f // has room for one, and got none before
}

// send queues a message.
func (c *conn) send(f frame) error {
	f.JSONRPC = "2.0"
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	select {
	case <-c.done:
		return errGone
	case <-c.quit:
		return errGone
	default:
	}
	select {
	case c.queue <- append(line, '\n'):
		return nil
	default:
		return errBlocked
	}
}

// call sends a request and waits for its answer. cancelled is called with the id when
// ctx ends first; the answer that may still come is then a stray line.
func (c *conn) call(ctx context.Context, f frame, cancelled func(id json.RawMessage)) (json.RawMessage, error) {
	w := make(chan received, 1)
	c.mu.Lock()
	switch {
	case c.gone:
		c.mu.Unlock()
		return nil, errGone
	case len(c.waiting) >= maxWaiting:
		c.mu.Unlock()
		return nil, errBlocked
	}
	c.next++
	id := strconv.FormatUint(c.next, 10)
	c.waiting[id] = w
	if f.Method == "initialize" {
		c.initial = id
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		if c.initial == id {
			c.initial = ""
		}
		c.mu.Unlock()
	}()
	f.ID = json.RawMessage(id)
	if err := c.send(f); err != nil {
		return nil, err
	}
	select {
	case r, ok := <-w:
		switch {
		case !ok:
			return nil, errGone
		case r.Error != nil:
			return nil, r.Error
		}
		return r.Result, nil
	case <-ctx.Done():
		if cancelled != nil {
			cancelled(f.ID)
		}
		return nil, context.Cause(ctx)
	}
}

// close ends the plugin's input, which asks it to end. It does not wait for the writer
// (write), which ends at the latest when the process does.
func (c *conn) close() {
	c.once.Do(func() { close(c.quit) })
}

// initialised is what a plugin says to initialize.
type initialised struct {
	Tools []described `json:"tools"`
}

// described is a tool of a plugin of version 2.
type described struct {
	Name                 string      `json:"name"`
	Description          string      `json:"description"`
	Parameters           tool.Schema `json:"parameters"`
	ConfirmationRequired bool        `json:"confirmation_required"`
	ConfirmationPrompt   string      `json:"confirmation_prompt"`
	Internal             bool        `json:"internal"`
	ThinkingSound        bool        `json:"thinking_sound"`
	Cancellable          bool        `json:"cancellable"`
}

// greet does the handshake and says which tools there are. speaks2 says whether the
// plugin may be sent notifications: one of version 1 may fall over them.
func (c *conn) greet(ctx context.Context, m Manifest, config map[string]any, timeout time.Duration) (tools []described, speaks2 bool, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, timeout, errors.New("no answer to initialize in "+timeout.String()))
	defer stop()
	f := frame{Method: "initialize"}
	if m.Protocol != 1 {
		if config == nil {
			config = map[string]any{}
		}
		f.Params = map[string]any{"plugin": m.Name, "protocol": 2, "config": config}
	}
	raw, err := c.call(ctx, f, nil)
	if err != nil {
		return nil, false, err
	}
	var answer initialised
	if err := json.Unmarshal(raw, &answer); err == nil && len(answer.Tools) > 0 && m.Protocol != 1 {
		return answer.Tools, true, nil
	}
	return []described{{
		Name: m.Name, Description: m.Description, Parameters: m.Parameters, Cancellable: m.Cancellable,
		ConfirmationRequired: m.ConfirmationRequired, ConfirmationPrompt: m.ConfirmationPrompt, ThinkingSound: m.ThinkingSound,
	}}, m.Protocol == 2, nil
}
