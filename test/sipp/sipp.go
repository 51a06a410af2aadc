// Package sipp runs SIPp scenarios against the server: what a caller's telephone,
// a carrier's trunk and a careless implementation do, each written down as one
// file named role-what. Besides SIPp's own verdict every scenario is held against
// what the server recorded of it and against the messages on the wire.
//
// The target is the built server on a free port in a network namespace of its own,
// or any host that PARLEY_SIPP_TARGET names as host:port; then only SIPp's verdict
// and the messages count.
package sipp

import (
	"embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zaf/g711"

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
	Sent bool
	Text string
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

// Play runs a scenario against target, "host:port", for the called user. args are
// added to SIPp's command line. The file speech.ulaw is there for it to stream.
func Play(t testing.TB, scenario, target, user string, args ...string) Run {
	t.Helper()
	peers.Need(t, "sipp", "sip-tester")
	dir := t.TempDir()
	text, err := Scenarios.ReadFile(scenario + ".xml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"scenario.xml": text, "speech.ulaw": speech()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, _, _ := strings.Cut(target, ":")
	local := "0.0.0.0"
	if strings.HasPrefix(host, "127.") {
		local = "127.0.0.1"
	}
	all := []string{
		"-sf", "scenario.xml", "-s", user, target, "-i", local, "-mi", local, "-p", fmt.Sprint(peers.FreePort(t)), "-mp", fmt.Sprint(evenPort(t)),
		"-nostdin", "-timeout", "90s", "-timeout_error", "-trace_err", "-error_file", "errors.log", "-trace_msg", "-message_file", "messages.log",
	}
	if !contains(args, "-m") {
		all = append(all, "-m", "1")
	}
	began := time.Now()
	p := peers.Start(t, dir, append(os.Environ(), "TERM=xterm"), "sipp", append(all, args...)...)
	status, err := p.Wait(100 * time.Second)
	if err != nil {
		t.Error(err)
	}
	errors, _ := os.ReadFile(filepath.Join(dir, "errors.log"))
	messages, _ := os.ReadFile(filepath.Join(dir, "messages.log"))
	return Run{Status: status, Messages: parseMessages(string(messages)), Output: string(errors), Took: time.Since(began)}
}

func contains(args []string, flag string) bool {
	for _, a := range args {
		if a == flag {
			return true
		}
	}
	return false
}

// evenPort is a free port for RTP.
func evenPort(t testing.TB) int {
	for {
		if p := peers.FreePort(t); p%2 == 0 {
			return p
		}
	}
}

// parseMessages reads SIPp's message log.
func parseMessages(log string) []Message {
	var out []Message
	for _, part := range strings.Split(log, "\n----") {
		head, text, ok := strings.Cut(part, ":\n\n")
		if !ok {
			continue
		}
		switch {
		case strings.Contains(head, "message sent"):
			out = append(out, Message{true, text})
		case strings.Contains(head, "message received"):
			out = append(out, Message{false, text})
		}
	}
	return out
}

// speech is two seconds of sound in u-law without a header, as SIPp streams it.
func speech() []byte {
	out := make([]byte, 16000)
	for i := range out {
		t := float64(i) / 8000
		out[i] = g711.EncodeUlawFrame(int16(8000 * math.Abs(math.Sin(5*t)) * math.Sin(2*math.Pi*(220+80*math.Sin(3*t))*t)))
	}
	return out
}
