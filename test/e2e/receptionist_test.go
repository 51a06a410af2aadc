package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/agent/tts"
	"parley/agent/tts/flite"
	"parley/call"
	"parley/test/audio"
	"parley/test/phone"
)

// answer is one thing that a caller says or keys in, and what comes of it.
type answer struct {
	// file is a recording of a human voice, keys are pressed instead.
	file, keys string
	// understood is what the recogniser makes of it; for keys they themselves.
	understood string
	// reply are the pieces, as they are given to the voice, that must be heard to
	// their end. {} stands for whatever the receptionist fills in.
	reply []string
}

// The receptionist's dialogue, by voice and by key.
var dialogues = []struct {
	name    string
	answers []answer
}{
	{"by voice", []answer{
		{file: "hours", understood: "hours", reply: []string{"We are open Monday to Friday,", "from nine in the morning until six in the evening."}},
		{file: "location", understood: "location", reply: []string{"You find us at twelve Harbor Street,", "across from the main station."}},
		{file: "vm-goodbye", understood: "goodbye", reply: []string{"Thank you for calling{}", "Goodbye."}},
	}},
	{"by key", []answer{
		{keys: "1", understood: "1", reply: []string{"We are open Monday to Friday,", "from nine in the morning until six in the evening."}},
		{keys: "3", understood: "3", reply: []string{"Please say your order number,", "one digit at a time."}},
		{keys: "4711#", understood: "4711", reply: []string{"I heard {}", "Is that right?"}},
		{keys: "1", understood: "1", reply: []string{"Thank you.", "The order that ends in {} is ready."}},
		{keys: "9", understood: "9", reply: []string{"Thank you for calling{}", "Goodbye."}},
	}},
}

// TestTheReceptionist calls the built server as it comes: the embedded recogniser and
// voice, the receptionist's script. A scripted caller with a recorded human voice
// interrupts the prompts, as people who call often do.
func TestTheReceptionist(t *testing.T) {
	voice, err := flite.New(flite.DefaultConfig())
	if err != nil {
		t.Skipf("without the embedded voice: %v", err)
	}
	needSpeech(t)
	if recordings() == "" {
		t.Skip("no recordings: install asterisk-core-sounds-en-wav")
	}
	s := serve(t, settings{"llm": `provider = "script"`}).ready(t)
	together(t, len(dialogues), len(dialogues), func(i int) string { return dialogues[i].name }, func(t *testing.T, i int) {
		on := newPhone(t, phone.Config{Number: fmt.Sprintf("+1415555040%d", i), Name: "Ann"})
		c := dial(t, on, s.uri("reception"))
		v := &visitor{t: t, call: c, voice: voice}
		v.hears([]string{"Hello Ann, and welcome to the Parley front desk."})
		for _, a := range dialogues[i].answers {
			v.answers(a)
		}
		wait(t, "the agent hangs up", patience, func(ctx context.Context) error {
			end, err := c.WaitEnd(ctx)
			if err == nil && !end.ByPeer {
				err = fmt.Errorf("ended by %+v", end)
			}
			return err
		})
		v.judge(s, i)
	})
	s.term(t)
	s.exits(t, 0, patience)
}

// visitor is one call to the receptionist.
type visitor struct {
	t     *testing.T
	call  *phone.Call
	voice tts.Voice
	heard []string // sentences that must be in the capture
	asked []answer
	after time.Duration // the last answer was given
}

// render is what the voice makes of a sentence.
func (v *visitor) render(text string) (pcm []int16) {
	v.t.Helper()
	err := v.voice.Speak(context.Background(), text, func(c tts.Chunk) error {
		pcm = append(pcm, c.PCM...)
		return nil
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return pcm
}

// hears waits until so many sentences were heard, reckoned by their lengths.
func (v *visitor) hears(sentences []string) {
	v.t.Helper()
	v.heard = append(v.heard, sentences...)
	length := 300 * time.Millisecond
	for _, s := range sentences {
		length += time.Duration(len(v.render(strings.ReplaceAll(s, "{}", ", four seven one one.")))) * time.Second / time.Duration(v.voice.Rate())
	}
	var began time.Duration
	eventually(v.t, patience, fmt.Sprintf("the agent says %q", sentences), func() bool {
		for _, m := range v.call.Log().Marks(phone.Heard) {
			if m.At > v.after && m.Level > audio.Loud {
				began = m.At
				return true
			}
		}
		return false
	})
	wait(v.t, "hearing it", patience, func(ctx context.Context) error {
		last := v.call.Log().Packets()
		err := v.call.Pause(ctx, began+length-last[len(last)-1].At)
		if err == phone.ErrEnded {
			return nil // the goodbye
		}
		return err
	})
}

// answers says or keys in something and hears the reply.
func (v *visitor) answers(a answer) {
	v.t.Helper()
	v.asked = append(v.asked, a)
	if a.file != "" {
		u := v.call.Say(human(v.t, a.file))
		wait(v.t, "saying "+a.file, patience, u.Wait)
		_, v.after, _ = u.Loud()
	}
	for i := range len(a.keys) {
		u, err := v.call.Press(a.keys[i], 120*time.Millisecond)
		if err != nil {
			v.t.Fatal(err)
		}
		wait(v.t, "keying in "+a.keys, patience, u.Wait)
		_, v.after, _ = u.Loud()
		wait(v.t, "a moment", patience, func(ctx context.Context) error { return v.call.Pause(ctx, 80*time.Millisecond) })
	}
	v.hears(a.reply)
}

// judge holds the call against the journal and the capture.
func (v *visitor) judge(s *server, i int) {
	t := v.t
	events, record := v.journal(s, fmt.Sprintf("+1415555040%d", i))
	if record.Cause != call.CauseAgentHungUp || record.Error != "" {
		t.Errorf("ended by %q %s", record.Cause, record.Error)
	}
	if errs := of(events, agent.EventError); len(errs) > 0 {
		t.Errorf("complaints %+v", errs)
	}
	var understood []string
	for _, e := range of(events, agent.EventUserStopped) {
		understood = append(understood, e.Text)
	}
	var want []string
	for _, a := range v.asked {
		want = append(want, a.understood)
	}
	if strings.Join(understood, "|") != strings.Join(want, "|") {
		t.Errorf("understood %q, want %q", understood, want)
	}
	opened, speaks := len(of(events, agent.EventUserStarted)), 0
	for _, e := range of(events, agent.EventState) {
		if e.Reason == "agent speaks" {
			speaks++
		}
	}
	if opened != len(v.asked) || speaks != len(v.asked)+1 {
		t.Errorf("the caller had %d turns and the agent spoke %d times, want %d and one more", opened, speaks, len(v.asked))
	}
	if got, want := len(of(events, agent.EventBargeIn)), len(v.asked); got < want-2 {
		t.Errorf("%d barge-ins for %d answers given over the prompts", got, want)
	}
	var spoken []string
	for _, e := range of(events, agent.EventAgentText) {
		spoken = append(spoken, e.Text)
	}
	sound := v.call.Log().Stereo()
	from := 0
	for _, sentence := range v.heard {
		text, ok := find(spoken, sentence)
		if !ok {
			t.Errorf("%q was not said; said was %q", sentence, spoken)
			continue
		}
		within := sound.Right[from:min(from+at(15*time.Second), len(sound.Right))]
		score, at := likeness(v.render(text), v.voice.Rate(), within, sound.Rate)
		other, _ := likeness(v.render("I still did not understand a word of that."), v.voice.Rate(), within, sound.Rate)
		least := 0.8
		if record.Stats.SkippedSlots > 0 {
			least = 0.65 // a stall of the machine left a hole somewhere
		}
		if score < least || score < other+0.1 {
			t.Errorf("%q has a score of %.2f in the capture, a sentence that was not said has %.2f (%d slots were skipped)",
				text, score, other, record.Stats.SkippedSlots)
		}
		from += at
	}
	if stopped := of(events, agent.EventAgentStopped); len(stopped) == 0 || !strings.HasSuffix(stopped[len(stopped)-1].Heard, "Goodbye.") {
		t.Errorf("the goodbye was not heard: %+v", stopped)
	}
}

// likeness is how much a recording holds of a reference, and from where on. The
// reference is looked for in pieces of a second, because a stall of the machine in
// the middle moves what follows; the middle one of their scores counts.
func likeness(reference []int16, rate int, recording []int16, recordingRate int) (score float64, begin int) {
	whole := audio.FindEnvelope(reference, rate, recording, recordingRate)
	if whole.Score >= 0.8 {
		return whole.Score, at(whole.At)
	}
	var scores []float64
	const slack = 400 * time.Millisecond
	for n := 0; n+rate <= len(reference); n += rate {
		place := whole.At + time.Duration(n)*time.Second/time.Duration(rate)
		from, to := at(max(0, place-slack)), min(len(recording), at(place+slack+time.Second))
		if from+recordingRate > to {
			return 0, 0
		}
		scores = append(scores, audio.FindEnvelope(reference[n:n+rate], rate, recording[from:to], recordingRate).Score)
	}
	slices.Sort(scores)
	if len(scores) < 2 {
		return whole.Score, at(whole.At)
	}
	return scores[(len(scores)-1)/2], at(whole.At)
}

// journal finds the journal of a caller.
func (v *visitor) journal(s *server, number string) (events []agent.Event, record call.Record) {
	v.t.Helper()
	for _, file := range s.journals() {
		if events, record := readJournal(v.t, file); record.ResourceID == number {
			return events, record
		}
	}
	v.t.Fatalf("no journal of %s", number)
	return nil, call.Record{}
}

// find is the sentence that matches, {} matching anything.
func find(spoken []string, sentence string) (string, bool) {
	head, tail, _ := strings.Cut(sentence, "{}")
	for _, s := range spoken {
		if s == sentence || strings.Contains(sentence, "{}") && strings.HasPrefix(s, head) && strings.HasSuffix(s, tail) {
			return s, true
		}
	}
	return "", false
}
