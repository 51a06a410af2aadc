package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"parley/agent"
	"parley/call"
)

// journalEntry is one line of the gateway's journal: an event, or the record that
// ends it.
type journalEntry struct {
	CallID string
	Event  agent.Event
	Record *call.Record
}

// journalReader follows the files of a journal's folder while they grow.
type journalReader struct {
	dir  string
	read map[string]int64 // bytes taken of each file
}

func newJournalReader(dir string) *journalReader {
	return &journalReader{dir: dir, read: map[string]int64{}}
}

// next gives the lines that were added since it was last asked. Only whole lines
// are taken.
func (r *journalReader) next() []journalEntry {
	files, _ := filepath.Glob(filepath.Join(r.dir, "*.jsonl"))
	var out []journalEntry
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || int64(len(text)) <= r.read[file] {
			continue
		}
		text = text[r.read[file]:]
		end := bytes.LastIndexByte(text, '\n') + 1
		r.read[file] += int64(end)
		id := filepath.Base(file[:len(file)-len(".jsonl")])
		for line := range bytes.Lines(text[:end]) {
			if e, err := parseEntry(id, line); err == nil {
				out = append(out, e)
			}
		}
	}
	return out
}

func parseEntry(id string, line []byte) (journalEntry, error) {
	e := journalEntry{CallID: id}
	if err := json.Unmarshal(line, &e.Event); err != nil {
		return e, err
	}
	if e.Event.Type == "call_ended" {
		e.Record = &call.Record{}
		return e, json.Unmarshal(line, e.Record)
	}
	return e, nil
}

// narrator prints a call as it happens, with the time since the INVITE in front.
type narrator struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
	zero   time.Time
}

func newNarrator(out io.Writer) *narrator {
	return &narrator{out: out, colour: isTerminal(out) && os.Getenv("NO_COLOR") == ""}
}

// begin prints the head of a call.
func (n *narrator) begin(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.zero = time.Time{}
	_, _ = fmt.Fprintf(n.out, "\n%s\n", name)
}

// line prints one line; at is "" or a time.
func (n *narrator) line(at, who, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	colours := map[string]string{"caller": "\x1b[34m", "agent": "\x1b[32m", "measured": "\x1b[35m"}
	on, off := "", ""
	if n.colour && colours[who] != "" {
		on, off = colours[who], "\x1b[0m"
	}
	_, _ = fmt.Fprintf(n.out, "%9s  %s%-8s%s  %s\n", at, on, who, off, fmt.Sprintf(format, args...))
}

func (n *narrator) since(at time.Time) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.zero.IsZero() {
		n.zero = at
	}
	return fmt.Sprintf("%.2f s", at.Sub(n.zero).Seconds())
}

// caller prints what the caller does and measures.
func (n *narrator) caller(l callerLine) {
	at := n.since(l.At)
	ms := inMS(l.Latency)
	switch l.Type {
	case "invited":
		n.line(at, "caller", "calls %s", l.Text)
	case "answered":
		n.line(at, "measured", "answered after %s", ms)
	case "said":
		n.line(at, "caller", "says “%s”", l.Text)
	case "pressed":
		n.line(at, "caller", "presses %s", l.Text)
	case "reply":
		what := map[bool]string{true: "greeting, %s after the answer", false: "reply, %s after the caller's last sound"}[l.Text == "greeting"]
		n.line(at, "measured", what, ms)
	case "barge-in":
		n.line(at, "measured", "silent, %s after the caller's first sound over the agent", ms)
	case "ended":
		n.line(at, "caller", "hears the end of the call")
	}
}

// agent prints what the gateway reports.
func (n *narrator) agent(e journalEntry) {
	if e.Record != nil {
		s := e.Record.Stats
		n.line(n.since(e.Record.Ended), "gateway", "%s; %d packets in, %d out, %d lost, %d ms concealed, %d barge-in, %d digit",
			e.Record.Cause, s.PacketsIn, s.PacketsOut, s.Lost, s.ConcealedMS, s.BargeIns, s.Digits)
		return
	}
	at := n.since(e.Event.At)
	switch v := e.Event; v.Type {
	case agent.EventUserStopped:
		if v.Text != "" {
			n.line(at, "agent", "understands “%s”", v.Text)
		}
	case agent.EventAgentText:
		n.line(at, "agent", "says “%s”", v.Text)
	case agent.EventBargeIn:
		n.line(at, "agent", "is interrupted by %s", v.Reason)
	case agent.EventAgentStopped:
		if v.Interrupted {
			n.line(at, "agent", "was heard up to “%s”", v.Heard)
		}
	case agent.EventDigit:
		n.line(at, "agent", "hears the key %s", v.Text)
	case agent.EventAction:
		n.line(at, "agent", "does: %s", v.Reason)
	case agent.EventError:
		n.line(at, "agent", "error: %s", v.Reason)
	}
}
