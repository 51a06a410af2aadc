package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
	"parley/test/audio"
	"parley/test/phone"
)

var demoEpoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// marks are packets every 20 ms for 20 s, loud in the spans.
func marks(spans ...[2]float64) []audio.Mark {
	var out []audio.Mark
	for at := 0.0; at < 20; at += 0.02 {
		m := audio.Mark{At: seconds(at), Level: audio.Floor}
		for _, s := range spans {
			if at >= s[0]-0.001 && at <= s[1]+0.001 {
				m.Level = -20
			}
		}
		out = append(out, m)
	}
	return out
}

// goodCall is a call as it should be: greeting, a question, a reply that is
// interrupted by another question, a key, a goodbye.
func goodCall(t *testing.T) *demoResult {
	t.Helper()
	r := &demoResult{call: demoCalls()[0]}
	c := &r.caller
	c.Epoch, c.Invited, c.Answered, c.Codec, c.Digits = demoEpoch, seconds(1), seconds(1.1), "PCMU", "1"
	c.End = phone.End{ByPeer: true, At: seconds(18)}
	c.Sent = marks([2]float64{4, 4.5}, [2]float64{7, 7.6}, [2]float64{11, 11.2}, [2]float64{14, 14.5})
	c.Heard = marks([2]float64{1.4, 3}, [2]float64{5, 7.14}, [2]float64{8.2, 10}, [2]float64{11.6, 13}, [2]float64{15, 17})
	c.Answers = audio.Utterances(c.Heard, audio.DefaultRule())
	c.Asked = audio.Utterances(c.Sent, audio.DefaultRule())
	c.LostSent, c.LostHeard, c.SentPackets, c.HeardPackets = []time.Duration{seconds(2)}, []time.Duration{seconds(3), seconds(5)}, 50, 100
	c.Origin = seconds(1.1)
	c.Said = []callerSaid{
		{Text: "hours", First: seconds(4), Last: seconds(4.5)},
		{Text: "location", BargeIn: true, First: seconds(7), Last: seconds(7.6)},
		{Key: "1", First: seconds(11), Last: seconds(11.2)},
		{Text: "goodbye", First: seconds(14), Last: seconds(14.5)},
	}
	var err error
	if c.Sound.Caller, err = packSound(make([]int16, 800)); err != nil {
		t.Fatal(err)
	}
	c.Sound.Agent = c.Sound.Caller
	add := func(at float64, e agent.Event) {
		e.At = demoEpoch.Add(seconds(at))
		r.journal = append(r.journal, journalEntry{CallID: "a", Event: e})
	}
	reply := func(from, to float64, text, heard string, cut bool) {
		add(from, agent.Event{Type: agent.EventAgentText, Text: text})
		add(from, agent.Event{Type: agent.EventAgentStarted})
		add(to, agent.Event{Type: agent.EventAgentStopped, Text: text, Heard: heard, Interrupted: cut})
	}
	reply(1.4, 3, "Hello </script>.", "Hello </script>.", false)
	add(4.9, agent.Event{Type: agent.EventUserStopped, Text: "hours"})
	reply(5, 7.1, "We are open from nine to five.", "We are open", true)
	add(7.1, agent.Event{Type: agent.EventBargeIn, Reason: "voice"})
	add(8, agent.Event{Type: agent.EventUserStopped, Text: "Location"})
	reply(8.2, 10, "By the harbour.", "By the harbour.", false)
	add(11, agent.Event{Type: agent.EventDigit, Text: "1"})
	reply(11.6, 13, "Tickets.", "Tickets.", false)
	add(14.9, agent.Event{Type: agent.EventUserStopped, Text: "goodbye"})
	reply(15, 17, "Goodbye.", "Goodbye.", false)
	r.journal = append(r.journal, journalEntry{CallID: "a", Record: &call.Record{Cause: call.CauseAgentHungUp, Ended: demoEpoch.Add(seconds(18))}})
	return r
}

func TestDemoIsContentWithAGoodCall(t *testing.T) {
	if errs := judge([]*demoResult{goodCall(t)}); len(errs) > 0 {
		t.Errorf("%v", errs)
	}
}

func TestDemoFailsWhenTheCallDoes(t *testing.T) {
	hear := func(r *demoResult, spans ...[2]float64) {
		r.caller.Answers = audio.Utterances(marks(spans...), audio.DefaultRule())
	}
	for _, c := range []struct {
		spoil func(*demoResult)
		want  string
	}{
		{func(r *demoResult) { r.caller.Failure = "script line 3" }, "the caller gave up: script line 3"},
		{func(r *demoResult) { r.caller.Answered = seconds(9) }, "answered after 8s"},
		{func(r *demoResult) { r.caller.End.ByPeer = false }, "did not hang up"},
		{func(r *demoResult) { r.record().Cause = call.CauseMediaTimeout }, "media timeout"},
		{func(r *demoResult) { hear(r, [2]float64{1.4, 3}) }, "no reply to “hours”"},
		{func(r *demoResult) {
			hear(r, [2]float64{5, 7.14}, [2]float64{8.2, 10}, [2]float64{18.9, 19.4})
		}, "the reply to “goodbye” came after 4.4s"},
		{func(r *demoResult) {
			hear(r, [2]float64{5, 7.9}, [2]float64{8.5, 10}, [2]float64{11.6, 13}, [2]float64{15, 17})
		}, "later than 600ms"},
		{func(r *demoResult) {
			hear(r, [2]float64{5, 6.8}, [2]float64{8.5, 10}, [2]float64{11.6, 13}, [2]float64{15, 17})
		}, "did not get to interrupt"},
		{func(r *demoResult) {
			for i := range r.journal {
				r.journal[i].Event.Interrupted = false
			}
		}, "no interrupted reply"},
		{func(r *demoResult) { r.caller.Digits = "12" }, `the keys "1", pressed were "12"`},
		{func(r *demoResult) { r.caller.Said[0].Text = "ours" }, "“ours” was not understood"},
		{func(r *demoResult) { r.call.check = checkSecond }, "not remembered"},
	} {
		r := goodCall(t)
		c.spoil(r)
		if got := fmt.Sprint(errors.Join(judge([]*demoResult{r})...)); !strings.Contains(got, c.want) {
			t.Errorf("%q does not say %q", got, c.want)
		}
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	var b bytes.Buffer
	if err := writePage(&b, "A <call>", "Words & more", []pageCall{goodCall(t).page()}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, bad := range []string{`https?://`, `<link`, ` src=`, `url\(`, `@import`, `import\(`, `fetch\(`} {
		if found := regexp.MustCompile(bad).FindString(page); found != "" {
			t.Errorf("the page refers to something outside itself: %s", found)
		}
	}
	if !strings.Contains(page, "A &lt;call&gt;") || strings.Count(page, "</script>") != 2 {
		t.Error("text of the call got into the markup")
	}
	_, data, _ := strings.Cut(page, `id="calls">`)
	data, _, _ = strings.Cut(data, "</script>")
	var calls []pageCall
	if err := json.Unmarshal([]byte(data), &calls); err != nil || len(calls) != 1 {
		t.Fatal(err)
	}
}

func TestPageShowsTheCall(t *testing.T) {
	p := goodCall(t).page()
	var turns []string
	for _, turn := range p.Turns {
		heard := ""
		if turn.Heard != nil {
			heard = " heard:" + *turn.Heard
		}
		turns = append(turns, fmt.Sprintf("%s %.2f-%.2f %s%s%s [%s] %s", turn.Who, turn.From, turn.To, turn.Text, turn.Key, heard, turn.Tag, turn.Note))
	}
	want := []string{
		"agent 0.40-2.02 Hello </script>. [] ",
		"caller 3.00-3.52 hours [] ",
		"agent 4.00-6.16 We are open from nine to five. heard:We are open [silent after 140 ms] ",
		"caller 6.00-6.62 location [interrupts] ",
		"agent 7.20-9.02 By the harbour. [after 600 ms] ",
		"caller 10.00-10.22 1 [] ",
		"agent 10.60-12.02 Tickets. [after 400 ms] ",
		"caller 13.00-13.52 goodbye [] ",
		"agent 14.00-16.02 Goodbye. [after 500 ms] ",
	}
	if got := strings.Join(turns, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("turns:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
	var waits []string
	for _, w := range p.Waits {
		waits = append(waits, w.Kind+" "+w.Text)
	}
	if got := strings.Join(waits, ", "); got != "answer greeting 300 ms, reply reply 500 ms, barge-in silent after 140 ms, reply reply 600 ms, reply reply 400 ms, reply reply 500 ms" {
		t.Error(got)
	}
	if len(p.Voice.Caller) != 4 || len(p.Voice.Agent) != 5 || len(p.Lost.Agent) != 2 || p.Offset < 0.09 || p.Offset > 0.11 {
		t.Errorf("%+v %+v %v", p.Voice, p.Lost, p.Offset)
	}
	var figures []string
	for _, f := range p.Figures {
		figures = append(figures, f.Name+" "+f.Value+" "+f.Unit)
	}
	if got := strings.Join(figures, "; "); got != "Answered after 100 ms; Reply after 500 ms, median of 4; Silent after barge-in 140 ms; Lost on the way 2.0 % up, 2.0 % down; Length 0:17 PCMU" {
		t.Error(got)
	}
}

func TestPageShowsWhatWasMisheard(t *testing.T) {
	r := goodCall(t)
	for i := range r.journal {
		if r.journal[i].Event.Text == "hours" {
			r.journal[i].Event.Text = "ours"
		}
	}
	if note := r.page().Turns[1].Note; note != "understood: ours" {
		t.Error(note)
	}
}

func TestJournalReaderTakesWholeLines(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "00ff.jsonl")
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := newJournalReader(dir)
	if got := r.next(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	add(`{"type":"user_stopped","at":"2026-03-01T12:00:00Z","text":"hours"}` + "\n" + `{"type":"dig`)
	if got := r.next(); len(got) != 1 || got[0].Event.Text != "hours" || got[0].CallID != "00ff" {
		t.Errorf("%+v", got)
	}
	add(`it","at":"2026-03-01T12:00:01Z","text":"5"}` + "\nno json\n" + `{"type":"call_ended","cause":"shutdown","stats":{"lost":3}}` + "\n")
	got := r.next()
	if len(got) != 2 || got[0].Event.Text != "5" || got[1].Record == nil || got[1].Record.Stats.Lost != 3 {
		t.Errorf("%+v", got)
	}
	if got := r.next(); len(got) != 0 {
		t.Errorf("a line was taken twice: %+v", got)
	}
}

func TestNarratorTellsTheCall(t *testing.T) {
	var b bytes.Buffer
	n := newNarrator(&b)
	n.begin("First call")
	at := func(s float64) time.Time { return demoEpoch.Add(seconds(s)) }
	n.caller(callerLine{At: at(0), Type: "invited", Text: "sip:a@b"})
	n.caller(callerLine{At: at(0.012), Type: "answered", Latency: seconds(0.012)})
	n.agent(journalEntry{Event: agent.Event{Type: agent.EventAgentText, At: at(0.3), Text: "Hello."}})
	n.caller(callerLine{At: at(0.4), Type: "reply", Text: "greeting", Latency: seconds(0.388)})
	n.caller(callerLine{At: at(2), Type: "said", Text: "hours"})
	n.agent(journalEntry{Event: agent.Event{Type: agent.EventUserStopped, At: at(3), Text: "hours"}})
	n.caller(callerLine{At: at(3.5), Type: "reply", Latency: seconds(0.65)})
	n.caller(callerLine{At: at(4), Type: "barge-in", Latency: seconds(0.14)})
	n.agent(journalEntry{Record: &call.Record{Cause: call.CauseAgentHungUp, Ended: at(5)}})
	want := "\nFirst call\n" +
		"   0.00 s  caller    calls sip:a@b\n" +
		"   0.01 s  measured  answered after 12 ms\n" +
		"   0.30 s  agent     says “Hello.”\n" +
		"   0.40 s  measured  greeting, 388 ms after the answer\n" +
		"   2.00 s  caller    says “hours”\n" +
		"   3.00 s  agent     understands “hours”\n" +
		"   3.50 s  measured  reply, 650 ms after the caller's last sound\n" +
		"   4.00 s  measured  silent, 140 ms after the caller's first sound over the agent\n" +
		"   5.00 s  gateway   agent hung up; 0 packets in, 0 out, 0 lost, 0 ms concealed, 0 barge-in, 0 digit\n"
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
}

// What no call could be held over is refused before anything is started.
func TestDemoRefusesWhatNoCallStands(t *testing.T) {
	for flag, want := range map[string]string{
		"--loss=2":              "--loss: 2, must be a share from 0 to 0.5",
		"--loss=-0.1":           "--loss: -0.1, must be",
		"--loss=NaN":            "--loss: NaN, must be",
		"--noise=5":             "--noise: 5, must be a level from -100 to 0",
		"--sounds=/nonexistent": "--sounds: there is no folder /nonexistent",
	} {
		if code, out, errOut := execute(t, nil, "demo", "--sounds=/nonexistent", flag); code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d %s%s", flag, code, out, errOut)
		}
	}
	if _, _, err := (demoCmd{Out: "/dev/null/a"}).workDir(); err == nil || !strings.Contains(err.Error(), "--out: ") {
		t.Errorf("%v", err)
	}
}

func TestDemoScriptsCanBePlayed(t *testing.T) {
	for _, c := range demoCalls() {
		if _, err := phone.ParseScript(c.script); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestKeysInARowAreOne(t *testing.T) {
	key := func(k string, first, last float64) callerSaid {
		return callerSaid{Key: k, First: seconds(first), Last: seconds(last)}
	}
	word := callerSaid{Text: "hours", First: seconds(0), Last: seconds(1)}
	got := joinKeys([]callerSaid{word, key("4", 1.1, 1.3), key("7", 1.5, 1.7), key("#", 2, 2.2), key("1", 4, 4.2)})
	if len(got) != 3 || got[1].Key != "47#" || got[1].Last != seconds(2.2) || got[2].Key != "1" {
		t.Errorf("%+v", got)
	}
}

func TestWordsOfRecordings(t *testing.T) {
	for file, want := range map[string]string{"hours": "hours", "vm-Work": "Work", "digits/1": "1", "one-moment-please": "one moment please"} {
		if got := wordsOf(file); got != want {
			t.Errorf("%s says %q, want %q", file, got, want)
		}
	}
	if _, err := soundsDir(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("took a folder that is not there")
	}
}
