// Package sipp runs SIPp scenarios against the server: what a caller's telephone,
// a carrier's trunk and a careless implementation do, each written down as one
// file named role-what. Besides SIPp's own verdict every scenario is held against
// what the server recorded of it and against the messages on the wire.
//
// The target is the built server on a free port in a network namespace of its own,
// or any host that PARLEY_SIPP_TARGET names as host:port, with the called user in
// PARLEY_SIPP_USER; then only SIPp's verdict and the messages count.
// docs/scenarios.md lists the scenarios.
package sipp

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/test/peers"
)

// Scenarios are the files.
//
//go:embed *.xml
var Scenarios embed.FS

// Run is one run of SIPp.
type Run struct {
	// Status is SIPp's exit status: 0 when every call went by the scenario.
	Status int
	// Messages are all SIP messages, as SIPp saw them.
	Messages []Message
	// Output is what SIPp printed, its list of errors included.
	Output string
	Took   time.Duration
}

// Message is one SIP message of a run.
type Message struct {
	At   time.Time
	Sent bool
	Text string
}

// Header is the first value of a header field, by its long name.
func (m Message) Header(name string) string {
	for line := range strings.Lines(m.Text) {
		if field, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(field, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// First is the first line of the message.
func (m Message) First() string {
	line, _, _ := strings.Cut(m.Text, "\r\n")
	return strings.TrimSpace(strings.SplitN(line, "\n", 2)[0])
}

// Count is how many messages in that direction begin with start.
func (r Run) Count(sent bool, start string) int {
	n := 0
	for _, m := range r.Messages {
		if m.Sent == sent && strings.HasPrefix(m.First(), start) {
			n++
		}
	}
	return n
}

// Play is a scenario to be played.
type Play struct {
	// File is the scenario's name, without ".xml".
	File string
	// Target is "host:port" of whom to call. Empty: SIPp waits to be called.
	Target string
	// User is the user part that is called.
	User string
	// Local is SIPp's own address, 127.0.0.1 when it is empty, and Port its port,
	// 0 for any that is free.
	Local string
	Port  int
	// Args are added to SIPp's command line.
	Args []string
}

// Running is SIPp at work.
type Running struct {
	t     testing.TB
	dir   string
	began time.Time
	*peers.Process
	// Tag begins the Call-ID of each call that SIPp places.
	Tag string
}

// Start starts SIPp. In its folder there are the files to be sent as sound: those of
// sounds.go, and the recordings that come with SIPp.
func Start(t testing.TB, p Play) *Running {
	t.Helper()
	peers.Need(t, "sipp", "sip-tester")
	dir := t.TempDir()
	ports := freePorts(t)
	r := &Running{t: t, dir: dir, Tag: fmt.Sprintf("%s-%d", p.File, ports)}
	text, err := Scenarios.ReadFile(p.File + ".xml")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"scenario.xml": text}
	for name, make := range sounds {
		if strings.Contains(string(text), name) {
			files[name] = make()
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.recordings(string(text))
	if p.Local == "" {
		p.Local = "127.0.0.1"
	}
	if p.Port == 0 {
		p.Port = ports
	}
	all := []string{
		"-sf", "scenario.xml", "-i", p.Local, "-mi", p.Local, "-p", fmt.Sprint(p.Port), "-mp", fmt.Sprint(ports + 2), "-cid_str", r.Tag + "-%u-%p@%s",
		"-nostdin", "-timeout", "80s", "-timeout_error", "-trace_err", "-error_file", "errors.log", "-trace_msg", "-message_file", "messages.log",
	}
	if p.Target != "" {
		all = append(all, "-s", p.User, p.Target)
	}
	if !contains(p.Args, "-m") {
		all = append(all, "-m", "1")
	}
	r.began = time.Now()
	r.Process = peers.Start(t, dir, append(os.Environ(), "TERM=xterm"), "sipp", append(all, p.Args...)...)
	return r
}

// recordings are the pcap files that the Debian package of SIPp brings, as far as the
// scenario plays them.
func (r *Running) recordings(scenario string) {
	const folder = "/usr/share/sip-tester"
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if strings.Contains(scenario, `"`+e.Name()+`"`) {
			if err := os.Symlink(filepath.Join(folder, e.Name()), filepath.Join(r.dir, e.Name())); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// Messages are those that SIPp has logged so far.
func (r *Running) Messages() []Message {
	text, _ := os.ReadFile(filepath.Join(r.dir, "messages.log"))
	return parseMessages(string(text))
}

// Saw waits until a message in that direction begins with start.
func (r *Running) Saw(sent bool, start string) bool {
	return peers.Eventually(10*time.Second, func() bool { return Run{Messages: r.Messages()}.Count(sent, start) > 0 })
}

// Finish waits for SIPp's end.
func (r *Running) Finish() Run {
	r.t.Helper()
	status, err := r.Wait(90 * time.Second)
	if err != nil {
		r.t.Error(err)
	}
	errors, _ := os.ReadFile(filepath.Join(r.dir, "errors.log"))
	return Run{Status: status, Messages: r.Messages(), Output: string(errors), Took: time.Since(r.began)}
}

func contains(args []string, flag string) bool {
	for _, a := range args {
		if a == flag {
			return true
		}
	}
	return false
}

// parseMessages reads SIPp's message log.
func parseMessages(log string) []Message {
	var out []Message
	for _, part := range strings.Split(log, "\n----") {
		head, text, ok := strings.Cut(part, ":\n\n")
		if !ok {
			continue
		}
		var at time.Time
		if fields := strings.Fields(strings.TrimLeft(head, "-")); len(fields) > 1 {
			at, _ = time.Parse("2006-01-02 15:04:05.999999", fields[0]+" "+fields[1])
		}
		switch {
		case strings.Contains(head, "message sent"):
			out = append(out, Message{at, true, text})
		case strings.Contains(head, "message received"):
			out = append(out, Message{at, false, text})
		}
	}
	return out
}
