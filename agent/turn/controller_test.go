package turn

import (
	"strings"
	"testing"
	"time"
)

// testConfig confirms a voice after 100 ms, which keeps the scripts round, and then cuts
// the agent off: backchannels have a table of their own.
func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Confirm = 100 * time.Millisecond
	cfg.BackchannelVoice = 0
	return cfg
}

var turnCases = []struct {
	name, script, want string
	change             func(*Config)
}{
	{
		name:   "a detector that is sure opens the turn at once, and cuts the agent off",
		script: "1.00 reply\n 2.00 on\n 2.04 sure\n 3.00 off\n 3.65 final stop",
		want:   "2.00 begin\n 2.00 pause\n 2.04 open by voice\n 2.04 stop by voice\n 3.60 finalize\n 3.65 close \"stop\"",
	},
	{
		name:   "it is not asked about a sound that is over, nor twice",
		script: "1.00 reply\n 2.00 on\n 2.05 off\n 2.06 sure\n 3.00 on\n 3.05 sure\n 3.06 sure\n 4.00 off\n 4.65 final stop",
		want:   "2.00 begin\n 2.00 pause\n 2.05 finalize\n 2.05 resume\n 3.00 begin\n 3.00 pause\n 3.05 open by voice\n 3.05 stop by voice\n 4.60 finalize\n 4.65 close \"stop\"",
	},
	{
		name:   "a turn closes at the final transcript that was asked for 0.6 s after the last sound",
		script: "1.00 on 40\n 2.00 off 200\n 2.55 final book a table\n 3.00 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 2.40 finalize\n 2.55 close \"book a table\"",
	},
	{
		name:   "a final that came by itself after the last sound needs no other",
		script: "1.00 on\n 2.00 off 200\n 2.10 final book a table\n 3.00 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 2.40 close \"book a table\"",
	},
	{
		name:   "one that ends a sentence closes the turn after 0.3 s",
		script: "1.00 on\n 2.00 off 100\n 2.05 final Book a table.\n 3.00 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 2.20 close \"Book a table.\"",
	},
	{
		name:   "a later interim revokes that",
		script: "1.00 on\n 2.00 off 100\n 2.05 final Book a table.\n 2.10 interim for\n 2.60 final for two\n 3.00 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 2.50 finalize\n 2.60 close \"Book a table. for two\"",
	},
	{
		name:   "a final from before the last sound is not all of it",
		script: "1.00 on\n 1.50 final book a\n 2.00 off 100\n 2.60 final table\n 3.00 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 2.50 finalize\n 2.60 close \"book a table\"",
	},
	{
		name:   "voice that returns cancels the end of the turn, also after the final was asked for",
		script: "1.00 on\n 2.00 off\n 2.70 on\n 2.80 final book a\n 3.00 off\n 3.65 final table\n 4.00 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 2.60 finalize\n 2.70 begin\n 3.60 finalize\n 3.65 close \"book a table\"",
	},
	{
		name:   "a final that never comes is waited for 2 s; interims are not committed",
		script: "1.00 on\n 2.00 off\n 2.20 interim book\n 9.00 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 2.60 finalize\n 4.60 close garbled",
	},
	{
		name:   "a final after the turn closed starts the next turn",
		script: "1.00 on\n 2.00 off\n 5.00 final book a table\n 6.00 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 2.60 finalize\n 4.60 close garbled\n 5.00 open by transcript\n 5.00 stop by transcript\n 5.60 close \"book a table\"",
	},
	{
		name:   "white space opens nothing",
		script: "1.00 interim  \n 1.10 final \t \n 3.00 tick",
		want:   "",
	},
	{
		name:   "a voice too soft to notice opens a turn by its words",
		script: "1.00 interim book\n 1.50 interim book a\n 2.20 final book a table\n 4.00 tick",
		want:   "1.00 open by transcript\n 2.10 finalize\n 2.20 close \"book a table\"",
	},
	{
		name:   "a noise opens nothing when it is shorter than the confirm window",
		script: "1.00 on\n 1.05 off\n 1.10 final  \n 3.00 tick",
		want:   "1.00 begin\n 1.05 finalize",
	},
	{
		name:   "a short word in it does",
		script: "1.00 on\n 1.05 off\n 1.10 final No.\n 3.00 tick",
		want:   "1.00 begin\n 1.05 finalize\n 1.10 open by transcript\n 1.40 close \"No.\"",
	},
	{
		name:   "a click without words while the agent is quiet is discarded",
		script: "1.00 on\n 1.40 off 200\n 1.85 final  \n 3.00 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 1.80 finalize\n 1.85 discard",
	},
	{
		name:   "a longer voice without words is a garbled turn",
		script: "1.00 on\n 2.00 off 200\n 2.45 final  \n 3.00 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 2.40 finalize\n 2.45 close garbled",
	},
	{
		name:   "voice pauses the agent at once and cuts it off when it lasts (BR-153)",
		script: "0.00 reply\n 1.00 on 40\n 1.80 off 200\n 2.30 final stop\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.10 open by voice\n 1.10 stop by voice\n 2.20 finalize\n 2.30 close \"stop\"",
	},
	{
		name:   "two words confirm at once, one does not",
		script: "0.00 reply\n 1.00 on\n 1.02 interim could\n 1.04 interim could you\n 1.06 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.04 open by words\n 1.04 stop by words",
	},
	{
		name:   "words count in scripts without spaces",
		script: "0.00 reply\n 1.00 interim 请等\n 1.50 interim 请等一下\n 1.60 tick",
		want:   "1.50 open by words\n 1.50 stop by words",
	},
	{
		name:   "a noise within the confirm window lets the agent go on where it was paused (BR-143)",
		script: "0.00 reply\n 1.00 on\n 1.08 off\n 1.20 final  \n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.08 finalize\n 1.08 resume",
	},
	{
		name:   "a noise that cut the agent off lets it go on (BR-123)",
		script: "0.00 reply\n 1.00 on\n 1.40 off 200\n 1.90 final  \n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.10 open by voice\n 1.10 stop by voice\n 1.80 finalize\n 1.90 go on",
	},
	{
		name:   "also when no final transcript comes, 2 s after it (BR-131)",
		script: "0.00 reply\n 1.00 on\n 1.40 off 200\n 5.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.10 open by voice\n 1.10 stop by voice\n 1.80 finalize\n 3.20 go on",
	},
	{
		name:   "but once per reply",
		script: "0.00 reply\n 1.00 on\n 1.40 off 200\n 1.90 final  \n 2.00 on\n 2.40 off 200\n 2.90 final  \n 3.00 tick",
		want: `1.00 begin
			1.00 pause
			1.10 open by voice
			1.10 stop by voice
			1.80 finalize
			1.90 go on
			2.00 begin
			2.00 pause
			2.10 open by voice
			2.10 stop by voice
			2.80 finalize
			2.90 close garbled`,
	},
	{
		name:   "a long voice without words that cut the agent off is a garbled turn",
		script: "0.00 reply\n 1.00 on\n 4.00 off\n 4.70 final  \n 5.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.10 open by voice\n 1.10 stop by voice\n 4.60 finalize\n 4.70 close garbled",
	},
	{
		name:   "a reply that ends during the pause leaves nothing paused",
		script: "0.00 reply\n 1.00 on\n 1.05 end\n 1.20 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.05 resume\n 1.10 open by voice",
	},
	{
		name:   "music is cut at MaxTurn, and does not open the next turn until it pauses (BR-140)",
		script: "1.00 on\n 30.00 interim la la\n 61.20 final la la\n 61.30 end\n 70.00 off\n 71.00 on\n 71.20 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 61.10 finalize\n 61.20 close \"la la\"\n 71.00 begin\n 71.10 open by voice",
	},
	{
		name:   "digits are one turn, closed by the hash key (BR contract 9)",
		script: "1.00 digit 1\n 1.50 digit 2\n 2.00 digit #\n 5.00 tick",
		want:   "1.00 open by digit\n 2.00 close keyed \"12\"",
	},
	{
		name:   "or 2 s after the last",
		script: "1.00 digit 1\n 2.50 digit *\n 9.00 tick",
		want:   "1.00 open by digit\n 4.50 close keyed \"1*\"",
	},
	{
		name:   "or at as many as the reply asked for; the hash key from habit is not a turn",
		script: "0.50 expect 2\n 1.00 digit 1\n 1.50 digit 2\n 2.00 digit #\n 2.10 tick",
		want:   "1.00 open by digit\n 1.50 close keyed \"12\"",
	},
	{
		name:   "or at as many as configured",
		change: func(c *Config) { c.MaxDigits = 1 },
		script: "1.00 digit 7\n 1.10 tick",
		want:   "1.00 open by digit\n 1.00 close keyed \"7\"",
	},
	{
		name:   "BR-117 or at 64; what follows is a turn of its own, and is not lost at the timeout",
		script: "1.00 digit 1" + strings.Repeat("\n 1.00 digit 1", 69) + "\n 5.00 tick",
		want:   "1.00 open by digit\n 1.00 close keyed \"" + strings.Repeat("1", 64) + "\"\n 1.00 open by digit\n 1.00 stop by digit\n 3.00 close keyed \"111111\"",
	},
	{
		name:   "BR-117 what one reply expects is not expected by the next",
		script: "0.50 expect 2\n 1.00 digit 1\n 1.50 digit 2\n 2.00 expect 0\n 4.00 digit 1\n 4.10 digit 2\n 4.20 digit 3\n 9.00 tick",
		want:   "1.00 open by digit\n 1.50 close keyed \"12\"\n 4.00 open by digit\n 4.00 stop by digit\n 6.20 close keyed \"123\"",
	},
	{
		name:   "a lone hash key is a turn",
		script: "1.00 digit #\n 1.10 tick",
		want:   "1.00 open by digit\n 1.00 close keyed \"#\"",
	},
	{
		name:   "a digit cuts the agent off at once, also while it is paused",
		script: "0.00 reply\n 1.00 on\n 1.02 digit 5\n 1.30 off\n 1.40 digit #\n 2.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.02 open by digit\n 1.02 stop by digit\n 1.40 close keyed \"5\"",
	},
	{
		name:   "a digit takes a spoken turn over, and words are not listened for",
		script: "1.00 on\n 1.50 interim my\n 2.00 digit 5\n 2.50 off\n 2.60 final my number\n 3.00 digit #\n 3.10 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 3.00 close keyed \"5\"",
	},
	{
		name:   "an uninterruptible greeting is not interrupted; who still speaks then is heard (BR-144)",
		change: func(c *Config) { c.MuteGreeting = true },
		script: "0.00 reply\n 0.20 on\n 0.40 final hello\n 0.50 interim hello you there\n 3.00 end\n 3.20 tick",
		want:   "0.00 muted\n 3.00 unmuted\n 3.00 begin\n 3.10 open by voice",
	},
	{
		name:   "digits keyed during it are one turn after it",
		change: func(c *Config) { c.MuteGreeting = true },
		script: "0.00 reply\n 0.20 digit 1\n 0.40 digit 2\n 3.00 end\n 6.00 tick",
		want:   "0.00 muted\n 3.00 unmuted\n 3.00 open by digit\n 5.00 close keyed \"12\"",
	},
	{
		name:   "an interruptible greeting is",
		script: "0.00 reply\n 0.20 on\n 0.90 off\n 1.60 final hello\n 2.00 tick",
		want:   "0.20 begin\n 0.20 pause\n 0.30 open by voice\n 0.30 stop by voice\n 1.50 finalize\n 1.60 close \"hello\"",
	},
	{
		name:   "silence: two prompts, then goodbye, each counted from the end of the one before (BR-156)",
		script: "0.00 reply\n 25.00 end\n 36.00 end\n 47.00 end\n 60.00 tick",
		want:   "35.00 idle 1\n 46.00 idle 2\n 57.00 goodbye",
	},
	{
		name:   "words start the count anew",
		script: "0.00 reply\n 1.00 end\n 12.00 end\n 13.00 final yes.\n 14.00 end\n 25.00 tick",
		want:   "11.00 idle 1\n 13.00 open by transcript\n 13.30 close \"yes.\"\n 24.00 idle 1",
	},
	{
		name:   "noise does not, and a garbled turn counts (BR-128)",
		script: "0.00 reply\n 1.00 end\n 5.00 on\n 5.30 off 100\n 5.90 final  \n 12.00 end\n 13.00 on\n 14.00 off\n 14.70 final  \n 15.00 end\n 16.00 on\n 17.00 off\n 17.70 final  \n 18.00 tick",
		want: `5.00 begin
			5.10 open by voice
			5.80 finalize
			5.90 discard
			11.00 idle 1
			13.00 begin
			13.10 open by voice
			14.60 finalize
			14.70 close garbled
			16.00 begin
			16.10 open by voice
			17.60 finalize
			17.70 discard
			17.70 goodbye`,
	},
	{
		name:   "noise does not stop the goodbye, words do",
		change: func(c *Config) { c.Reprompts = 0 },
		script: "10.10 on\n 10.90 off\n 11.00 final  \n 11.10 on\n 11.30 interim wait\n 11.40 interim wait a moment\n 12.00 tick",
		want: `10.00 goodbye
			10.10 begin
			10.90 finalize
			11.10 begin
			11.30 open by command
			11.30 stop by command`,
	},
	{
		name:   "no prompt on hold; it starts anew after it",
		script: "0.00 reply\n 1.00 end\n 5.00 hold\n 40.00 unhold\n 51.00 tick",
		want:   "50.00 idle 1",
	},
	{
		name:   "a hold ends the voice, and voice on hold is none",
		script: "1.00 on\n 2.00 hold\n 2.10 on\n 2.70 final wait\n 3.00 unhold\n 3.10 tick",
		want:   "1.00 begin\n 1.10 open by voice\n 2.60 finalize\n 2.70 close \"wait\"",
	},
	{
		name:   "no idle timer when it is off",
		change: func(c *Config) { c.Idle = 0 },
		script: "0.00 reply\n 1.00 end\n 500.00 on\n 501.00 off\n 505 tick\n 506 end",
		want:   "500.00 begin\n 500.10 open by voice\n 501.60 finalize\n 503.60 close garbled",
	},
	{
		name:   "events that make no sense change nothing",
		script: "0.50 off\n 0.60 end\n 0.70 unhold\n 1.00 on\n 1.01 on\n 1.02 off\n 1.03 off\n 1.50 tick",
		want:   "1.00 begin\n 1.02 finalize",
	},
}

func TestTurns(t *testing.T) {
	for _, c := range turnCases {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig()
			if c.change != nil {
				c.change(&cfg)
			}
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			if got, want := play(t, cfg, c.script), trim(c.want); got != want {
				t.Errorf("script\n%s\ngot\n%s\nwant\n%s", trim(c.script), got, want)
			}
		})
	}
}

func TestWhatATurnSays(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	c := NewController(testConfig(), start)
	c.Step(Input{Kind: ReplyBegan, At: at(0)})
	c.Step(Input{Kind: VoiceOn, At: at(1000), Lag: 60 * time.Millisecond})
	if c.Open() || !c.Speaking() {
		t.Error("a candidate is not a turn yet")
	}
	ds := c.Step(Input{At: at(1100)})
	if len(ds) != 2 || !ds[1].Since.Equal(at(940)) {
		t.Errorf("the stop says since when the caller speaks: %v", ds)
	}
	c.Step(Input{Kind: Final, Text: "one", Confidence: 0.9, At: at(1500)})
	c.Step(Input{Kind: VoiceOff, At: at(2000), Lag: 200 * time.Millisecond})
	c.Step(Input{At: at(2400)})
	if !c.Waiting() {
		t.Error("the final transcript was not asked for")
	}
	// A clock that goes back is taken to stand still.
	ds = c.Step(Input{Kind: Final, Text: "two", Confidence: 0.4, At: at(1600)})
	if len(ds) != 1 || ds[0].Text != "one two" || ds[0].Confidence != 0.4 || !ds[0].LastSound.Equal(at(1800)) {
		t.Errorf("got %+v", ds)
	}
}

func TestATurnIsBounded(t *testing.T) {
	c := NewController(DefaultConfig(), time.Unix(0, 0))
	c.Step(Input{Kind: VoiceOn, At: time.Unix(1, 0)})
	for range 100 {
		c.Step(Input{Kind: Final, Text: strings.Repeat("la ", 1000), At: time.Unix(2, 0)})
	}
	c.Step(Input{Kind: VoiceOff, At: time.Unix(2, 0)})
	ds := c.Step(Input{At: time.Unix(3, 0)})
	if len(ds) != 1 || len(ds[0].Text) > MaxText {
		t.Errorf("%d decisions", len(ds))
	}
}

func TestSegmentsJoinWithOneSpace(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"one", "two", "one two"}, {"one ", "two", "one two"}, {"one", " two", "one two"}, {"", "two", "two"},
	} {
		var tr transcript
		tr.add(time.Time{}, c.a, 0)
		if tr.add(time.Time{}, c.b, 0); tr.text != c.want {
			t.Errorf("%q + %q = %q, want %q", c.a, c.b, tr.text, c.want)
		}
	}
}

func TestEndsSentence(t *testing.T) {
	for text, want := range map[string]bool{
		"Yes.": true, "Yes": false, "Really?\" ": true, "(No!)": true, "好。": true, "हाँ।": true, "هل؟": true, "one,": false, "": false, "?": true,
	} {
		if got := newLexicon(Language{}).endsSentence(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// What costs nothing per event stays so: a voice that comes and goes, a sound every 20 ms.
func TestStepDoesNotAllocate(t *testing.T) {
	c := NewController(DefaultConfig(), time.Unix(0, 0))
	now := time.Unix(1, 0)
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(20 * time.Millisecond)
		c.Step(Input{Kind: Sound, At: now})
		c.Step(Input{Kind: VoiceOn, At: now})
		c.Step(Input{Kind: VoiceOff, At: now})
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The words of a stop say since when the agent is silent: the pause, not the decision.
func TestAStopSaysSinceWhenTheAgentIsSilent(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	c := NewController(DefaultConfig(), at(0))
	c.Step(Input{Kind: ReplyBegan, At: at(0)})
	c.Step(Input{Kind: VoiceOn, At: at(1040), Lag: 40 * time.Millisecond})
	if !c.Still() || c.Open() || c.Waiting() {
		t.Error("the agent is paused, and nothing else")
	}
	ds := c.Step(Input{Kind: Interim, Text: "stop", At: at(1300)})
	if len(ds) != 2 || !ds[1].Since.Equal(at(1000)) || !ds[1].Silent.Equal(at(1040)) || c.Still() {
		t.Errorf("%+v", ds)
	}
}
