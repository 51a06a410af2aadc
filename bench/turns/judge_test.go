package main

import (
	"testing"
	"time"

	"parley/agent"
	"parley/test/audio"
)

const msec = time.Millisecond

// heard makes the packets of a call: "+" is 100 ms of speech, "-" of silence, "." 100 ms in
// which nothing came.
func heard(picture string) (marks []audio.Mark) {
	at := time.Duration(0)
	for _, c := range picture {
		for range 5 {
			switch c {
			case '+':
				marks = append(marks, audio.Mark{At: at, Level: -20})
			case '-':
				marks = append(marks, audio.Mark{At: at, Level: audio.Floor})
			}
			at += packet
		}
	}
	return marks
}

func event(kind agent.EventType, at int, reason, text string) moment {
	return moment{agent.Event{Type: kind, Reason: reason, Text: text}, time.Duration(at) * msec}
}

func TestJudgeOverTheAgent(t *testing.T) {
	for _, c := range []struct {
		name, packets string
		events        []moment
		kind          kind
		want          outcome
	}{
		{
			name: "stopped", packets: "+++++++++++---------++++++++++", kind: sentence,
			events: []moment{event(agent.EventBargeIn, 1500, "voice", ""), event(agent.EventUserStopped, 1900, "", "no")},
			want:   outcome{stopped: true, stop: 80 * msec},
		},
		{
			name: "paused, went on and stopped by its words", packets: "+++++++++++--+++++++---------++++++++++", kind: command,
			events: []moment{event(agent.EventBargeIn, 2000, "voice", "")}, want: outcome{stopped: true, stop: 980 * msec},
		},
		{
			name: "paused", packets: "+++++++++++----++++++++++++++++++++", kind: backchannel,
			want: outcome{gap: 400 * msec},
		},
		{
			name: "the machine stood still: no pause", packets: "+++++++++++....++++++++++++++++++++", kind: backchannel,
		},
		{
			name: "stopped and went on", packets: "+++++++++++---------++++++++++", kind: backchannel,
			events: []moment{event(agent.EventBargeIn, 1500, "voice", ""), event(agent.EventUserStopped, 1950, "backchannel", "okay"), event(agent.EventFalseBargeIn, 1960, "", "")},
			want:   outcome{stopped: true, wentOn: true, stop: 80 * msec, gap: 920 * msec},
		},
		{
			name: "silent already", packets: "+++++++------------++++++++++", kind: sentence,
			events: []moment{event(agent.EventBargeIn, 1500, "voice", "")}, want: outcome{stopped: true, silent: true},
		},
		{
			name: "what came before is not its doing", packets: "++++--+++++++++++++++++++++++++", kind: burst,
			events: []moment{event(agent.EventBargeIn, 500, "voice", "")},
		},
	} {
		course := courseOf(heard(c.packets))
		course.events = c.events
		got := judge([]said{{item{kind: c.kind}, 1000 * msec, 1400 * msec}}, course)[0]
		c.want.kind = c.kind
		if !same(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// same leaves out what was said, which cannot be compared.
func same(a, b outcome) bool {
	return a.kind == b.kind && a.silent == b.silent && a.stopped == b.stopped && a.wentOn == b.wentOn && a.stop == b.stop && a.gap == b.gap &&
		a.stops == b.stops && a.pauses == b.pauses && a.quiet == b.quiet &&
		a.ended == b.ended && a.turn == b.turn && a.sound == b.sound && a.cut == b.cut && a.cutGap == b.cutGap
}

func TestJudgeSilence(t *testing.T) {
	course := courseOf(heard("++++++++++++---++++++--------++++....+++++++"))
	course.events = []moment{event(agent.EventBargeIn, 1900, "voice", ""), event(agent.EventBargeIn, 200, "voice", "")}
	got := judge([]said{{item{kind: alone}, 1000 * msec, 4200 * msec}}, course)[0]
	if got.stops != 1 || got.pauses != 2 || got.quiet != 1100*msec {
		t.Errorf("%+v, want 1 stop, 2 pauses, 1.1 s of silence", got)
	}
	course = courseOf(heard("++++++++++++---------------------"))
	if got := judge([]said{{item{kind: alone}, 1000 * msec, 3000 * msec}}, course)[0]; got.quiet < 1700*msec {
		t.Errorf("%+v: silent to the end", got)
	}
}

func TestJudgeEnds(t *testing.T) {
	says := utterance{gaps: []span{{400 * msec, 900 * msec}, {1200 * msec, 1700 * msec}}}
	for _, c := range []struct {
		name   string
		events []moment
		want   outcome
	}{
		{
			name: "ends", events: []moment{event(agent.EventUserStopped, 3600, "", "all of it")},
			want: outcome{ended: true, turn: 600 * msec, sound: 700 * msec, cutGap: -1},
		},
		{
			name: "cut off", events: []moment{event(agent.EventUserStopped, 2500, "", "half"), event(agent.EventUserStopped, 3600, "", "rest")},
			want: outcome{ended: true, turn: 600 * msec, sound: 700 * msec, cut: true, cutGap: 1},
		},
		{
			name: "no turn of its own", events: []moment{event(agent.EventUserStopped, 2500, "noise", "")},
			want: outcome{cutGap: -1},
		},
	} {
		course := courseOf(heard("-------------------------------------++++++-----"))
		course.events = c.events
		got := judge([]said{{item{kind: digits, says: says}, 1000 * msec, 3000 * msec}}, course)[0]
		c.want.kind = digits
		if !same(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestScore(t *testing.T) {
	s := newScore()
	for _, o := range []outcome{
		{item: item{kind: sentence}, stopped: true, stop: 30 * msec}, {item: item{kind: sentence}, stopped: true, silent: true},
		{item: item{kind: sentence}}, {item: item{kind: sentence}, stopped: true, wentOn: true, stop: 50 * msec},
		{item: item{kind: burst}, gap: 100 * msec}, {item: item{kind: burst}, stopped: true}, {item: item{kind: burst}},
		{item: item{kind: digits, pause: time.Second}, cut: true}, {item: item{kind: digits, pause: time.Second}, ended: true, turn: time.Second},
	} {
		s.add(o)
	}
	for _, c := range []struct {
		what string
		got  count
		want count
	}{
		{"missed", *s.missed[sentence], count{2, 4}}, {"silent", *s.hushed[sentence], count{1, 4}},
		{"stopped", *s.stopped[burst], count{1, 3}}, {"paused", *s.paused[burst], count{1, 3}},
		{"cut", *s.cut[digits][time.Second], count{1, 2}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if f := *s.stop[sentence]; len(f) != 2 || f.at(0.5) != 50*msec || f.text() != "50 ms / 50 ms" {
		t.Errorf("stops %v", f)
	}
	if len(s.given) != 1 || (figures{}).text() != "–" || (count{}).text() != "–" {
		t.Error("what there is none of")
	}
}
