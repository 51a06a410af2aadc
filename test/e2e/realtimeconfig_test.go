package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/live"
	"parley/agent/session/sqlite"
	"parley/call"
	"parley/test/phone"
)

// modelSide is what a realtime service knows of a call.
type modelSide struct {
	heard   time.Duration // of the caller's sound
	setup   string        // as it was asked for
	told    []string      // texts and instructions
	answers []string      // of tools
	cuts    []time.Duration
}

// realtimeCase is an agent of a realtime model as an operator writes it down.
type realtimeCase struct {
	name string
	// start starts the service; it returns the sections and what the service knows.
	start func(t *testing.T, replies []string) (settings, func() modelSide)
	tones diction
	// truncates: the service is told what of a reply was heard.
	truncates bool
}

// openaiCase is OpenAI's Realtime API with sound in the call's own code or as PCM.
func openaiCase(name string, coded bool) realtimeCase {
	return realtimeCase{name: name, tones: realtimeTones(coded), truncates: true, start: func(t *testing.T, replies []string) (settings, func() modelSide) {
		s := newRealtimeService(t, replies...)
		s.think = thinks
		set := settings{
			"llm":             `provider = "openai-realtime"`,
			"realtime":        fmt.Sprintf("system = \"You are Ada.\"\npass_through = %v", coded),
			"realtime.openai": fmt.Sprintf("base_url = \"ws%s/v1/realtime\"\napi_key = \"k\"\nvoice = \"cedar\"", strings.TrimPrefix(s.URL, "http")),
		}
		return set, func() (m modelSide) {
			for _, c := range s.Connections() {
				c.mu.Lock()
				bytes := 2 * live.OutputRate
				if c.coded {
					bytes = 8000
				}
				m.heard += time.Duration(c.heard) * time.Second / time.Duration(bytes)
				m.setup += asText(c.setup)
				if c.coded != coded {
					t.Errorf("coded is %v", c.coded)
				}
				c.mu.Unlock()
			}
			for _, e := range s.toldOf("conversation.item.create") {
				m.answers = append(m.answers, e.text)
			}
			for _, e := range s.toldOf("conversation.item.truncate") {
				m.cuts = append(m.cuts, time.Duration(e.ms)*time.Millisecond)
			}
			return m
		}
	}}
}

func geminiCase() realtimeCase {
	return realtimeCase{name: "gemini", tones: realtimeTones(false), start: func(t *testing.T, replies []string) (settings, func() modelSide) {
		s := newGeminiService(t, replies...)
		s.think = thinks
		set := settings{
			"llm":             `provider = "gemini-live"`,
			"realtime":        `system = "You are Ada."`,
			"realtime.gemini": fmt.Sprintf("base_url = \"ws%s\"\napi_key = \"k\"\nvoice = \"cedar\"", strings.TrimPrefix(s.URL, "http")),
		}
		return set, func() modelSide {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.key != "k" {
				t.Errorf("the key is %q", s.key)
			}
			return modelSide{
				heard: time.Duration(s.heard) * time.Second / (2 * live.InputRate), setup: asText(s.setup), told: s.told, answers: s.answers,
			}
		}
	}}
}

func asText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// weatherPlugin puts a tool into a directory: a program that says it rains.
func weatherPlugin(t *testing.T, dir string) {
	t.Helper()
	folder := filepath.Join(dir, "plugins", "weather")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"plugin.yaml": "name: weather\ndescription: says what the weather is\nversion: 1.0\nlanguage: exec\nentrypoint: run.sh\n",
		"run.sh": `#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":\"initialized\"}" ;;
    *'"execute"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":\"it rains\"}" ;;
  esac
done
`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRealtimeAgentsFromAFile calls the built server, whose file names a realtime service
// and nothing else of the agent: it greets, hears the caller, is cut off, asks a tool, says
// goodbye and hangs up; and what was heard agrees with the capture to the word.
func TestRealtimeAgentsFromAFile(t *testing.T) {
	for _, c := range []realtimeCase{openaiCase("openai", true), openaiCase("openai decoded", false), geminiCase()} {
		t.Run(c.name, c.run)
	}
}

func (c realtimeCase) run(t *testing.T) {
	greeting, cutOff, answer, goodbye := even("greet", 4, 6), even("word", 5, 7, 4), even("thing", 6), even("last", 5)
	set, side := c.start(t, []string{greeting, cutOff, "call weather", answer, "call hang_up", goodbye})
	tools, kept := t.TempDir(), filepath.Join(t.TempDir(), "parley.db")
	weatherPlugin(t, tools)
	set["plugins"] = fmt.Sprintf("directory = %q", tools)
	set["sessions"] = fmt.Sprintf("backend = \"sqlite\"\npath = %q", kept)
	s := serve(t, set).ready(t)

	caller := &cutter{t: t, number: "+14155551700"}
	caller.phone = newPhone(t, phone.Config{Number: caller.number})
	caller.call = dial(t, caller.phone, s.uri("a"))
	begins := []time.Duration{caller.speaks(0)}
	caller.quiet()
	spoke := caller.say(human(t, "hello"))
	begins = append(begins, caller.speaksAnew(spoke))
	caller.at(begins[1], 1300*time.Millisecond)
	spoke = caller.say(human(t, "cancelled"))
	begins = append(begins, caller.speaksAnew(spoke)) // what the tool said
	caller.quiet()
	spoke = caller.say(human(t, "goodbye"))
	begins = append(begins, caller.speaksAnew(spoke))
	s.byes(t, caller.call)

	_, record := readJournal(t, s.journals()[0])
	if record.Cause != call.CauseAgentHungUp {
		t.Errorf("the call ended by %q", record.Cause)
	}
	c.account(t, s, caller, begins, []string{greeting, cutOff, answer, goodbye}, kept, side())
	s.term(t)
	s.exits(t, 0, 5*time.Second)
}

// account holds what the events, the record and the service say against the capture.
func (c realtimeCase) account(t *testing.T, s *server, caller *cutter, begins []time.Duration, replies []string, kept string, side modelSide) {
	t.Helper()
	for _, want := range []string{"You are Ada.", "cedar", "weather", "hang_up"} {
		if !strings.Contains(side.setup, want) {
			t.Errorf("the service was not told of %q: %s", want, side.setup)
		}
	}
	// The last words go by the way the model was asked: both tools were answered.
	if all := strings.Join(side.answers, "|"); !strings.Contains(all, "it rains") || !strings.Contains(all, "the call ends after your last words") {
		t.Errorf("the tools answered %q", all)
	}
	if side.heard < time.Second {
		t.Errorf("the service heard %v of the caller", side.heard)
	}
	events, _ := readJournal(t, s.journals()[0])
	if barges := of(events, agent.EventBargeIn); len(barges) != 1 {
		t.Errorf("barge-ins: %+v", barges)
	}
	for _, kind := range []agent.EventType{agent.EventToolCall, agent.EventToolResult} {
		if len(of(events, kind)) != 2 {
			t.Errorf("%s: %+v", kind, of(events, kind))
		}
	}
	if capture(t, caller.call, 0, time.Hour).torn {
		t.Skip("the call came with gaps: its words cannot be told")
	}
	store, err := sqlite.Open(context.Background(), kept)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	all := accounts(t, events, (&records{t: t, service: store}).replies(t, caller.number), len(replies))
	for n, reply := range replies {
		end := time.Hour
		if n+1 < len(begins) {
			end = begins[n+1] - 1
		}
		sound := capture(t, caller.call, begins[n], end)
		heard, err := c.tones.spoken(sound.pcm, reply)
		if err != nil {
			t.Errorf("reply %d: %v", n, err)
			continue
		}
		cut := n == 1
		if text := strings.Join(heard, " "); !cut && text != reply {
			t.Errorf("reply %d: the capture holds %q of %q", n, text, reply)
		}
		all[n].holds(t, fmt.Sprint("reply ", n), strings.Join(heard, " "), lengthOf(sound.pcm), cut)
		if !cut {
			continue
		}
		if len(heard) < 2 || len(heard) == len(words(reply)) {
			t.Errorf("reply %d was not cut off amid its words: %q", n, heard)
		}
		if !c.truncates {
			continue
		}
		if len(side.cuts) != 1 || side.cuts[0] > lengthOf(sound.pcm) || side.cuts[0] < lengthOf(sound.pcm)-packet {
			t.Errorf("cut down to %v, the capture holds %v", side.cuts, lengthOf(sound.pcm))
		}
	}
	var said []string
	for _, e := range of(events, agent.EventUserStopped) {
		said = append(said, e.Text)
	}
	if len(said) != 3 || said[1] != "stop there" {
		t.Errorf("the caller's turns: %q", said)
	}
}
