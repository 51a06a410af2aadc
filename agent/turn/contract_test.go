package turn

import (
	"testing"
	"time"
)

// contractCases are the lines of turn taking that the defaults show, by their numbers.
var contractCases = []struct {
	name, script, want string
	change             func(*Config)
}{
	// 2: start strategies.
	{
		name:   "2 one utterance opens one turn, and keeps the words that opened it",
		script: "1.00 on\n 1.10 interim book\n 2.00 off\n 2.10 final book a table.\n 3.00 tick",
		want:   "1.00 begin\n 1.10 open by transcript\n 2.30 close by sentence \"book a table.\"",
	},
	{
		name:   "2 min words: fewer over the agent are dropped, and are not counted with the next",
		change: func(c *Config) { c.Start = []StartStrategy{StartMinWords} },
		script: "0.00 reply\n 1.00 on\n 1.10 interim I would\n 1.50 off\n 1.60 final I would\n 2.00 on\n 2.30 final like a\n 2.50 final book a table.\n 2.60 off\n 4.00 tick",
		want:   "1.00 begin\n 1.50 finalize\n 2.00 begin\n 2.50 open by min_words\n 2.50 stop by min_words\n 3.20 finalize",
	},
	{
		name:   "2 min words: one word suffices while the agent is quiet",
		change: func(c *Config) { c.Start = []StartStrategy{StartMinWords} },
		script: "1.00 on\n 1.50 interim table\n 1.60 off\n 1.70 final table\n 3.00 tick",
		want:   "1.00 begin\n 1.50 open by min_words\n 2.20 close by timeout \"table\"",
	},
	{
		name:   "2 min words: a command needs no others",
		change: func(c *Config) { c.Start = []StartStrategy{StartMinWords} },
		script: "0.00 reply\n 1.30 interim stop\n 1.40 tick",
		want:   "1.30 open by command\n 1.30 stop by command",
	},
	{
		name:   "2 wake phrase: without it nothing opens, and what was said is dropped",
		change: wake(0),
		script: "1.00 on\n 1.20 sure\n 2.00 off\n 2.10 final what time is it\n 3.00 on\n 4.00 off\n 4.10 final Hey, Parley! What time is it?\n 6.00 end\n 6.50 final and tomorrow\n 7.00 tick",
		want:   "1.00 begin\n 2.00 finalize\n 3.00 begin\n 4.00 finalize\n 4.10 open by wake_phrase\n 4.40 close by sentence \"Hey, Parley! What time is it?\"",
	},
	{
		name:   "2 wake phrase: for a while no other is needed",
		change: wake(10 * time.Second),
		script: "1.00 final hey parley hello.\n 6.00 end\n 15.00 on\n 15.20 sure\n 16.00 off\n 16.10 final and tomorrow?\n 17.00 end\n 28.00 on\n 28.20 sure\n 28.50 off\n 28.60 final too late",
		want:   "1.00 open by wake_phrase\n 1.30 close by sentence \"hey parley hello.\"\n 15.00 begin\n 15.16 open by voice\n 16.30 close by sentence \"and tomorrow?\"\n 28.00 begin\n 28.50 finalize",
	},
	{
		name:   "2 wake phrase: who was woken can be interrupted as long as he speaks",
		change: wake(10 * time.Second),
		script: "1.00 final hey parley hello.\n 20.00 on\n 20.10 interim stop\n 20.20 tick",
		want:   "1.00 open by wake_phrase\n 1.30 close by sentence \"hey parley hello.\"\n 20.00 begin\n 20.00 pause\n 20.10 open by command\n 20.10 stop by command",
	},
	{
		name:   "2 external: somebody else opens and closes the turn; silence does neither",
		change: func(c *Config) { c.Start, c.Stop = []StartStrategy{StartExternal}, []StopStrategy{StopExternal} },
		script: "1.00 on\n 1.20 sure\n 1.50 start\n 1.60 interim book\n 3.00 off\n 4.00 final book a table.\n 5.00 stop\n 5.10 tick",
		want:   "1.00 begin\n 1.50 open by external\n 5.00 close by external \"book a table.\"",
	},
	// 3: stop strategies.
	{
		name:   "3 while digits are given the turn waits 1.5 s",
		script: "1.00 on\n 2.00 off\n 2.10 final my number is four one five\n 3.00 on\n 4.00 off\n 4.10 final five five.\n 6.00 tick",
		want: `1.00 begin
			1.16 open by voice
			3.00 begin
			5.50 close by spelling "my number is four one five five five."`,
	},
	{
		name:   "3 also while the words are only interim",
		script: "1.00 on\n 2.00 off\n 2.10 interim four one five\n 3.60 final four one five\n 4.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 3.50 finalize\n 3.60 close by spelling \"four one five\"",
	},
	{
		name:   "3 not when as many were given as the agent expects",
		script: "0.10 expect 4\n 1.00 on\n 2.00 off\n 2.10 final four one five two.\n 3.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 2.30 close by sentence \"four one five two.\"",
	},
	{
		name:   "3 nor at the number of guests",
		script: "1.00 on\n 2.00 off\n 2.10 final a table for two.\n 3.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 2.30 close by sentence \"a table for two.\"",
	},
	{
		name:   "3 words that trail off are no sentence",
		script: "1.00 on\n 2.00 off\n 2.10 final I would like...\n 3.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 2.60 close by timeout \"I would like...\"",
	},
	{
		name:   "3 a recogniser that takes its time by itself is given it",
		change: func(c *Config) { c.STTLatency = time.Second },
		script: "1.00 on\n 2.00 off\n 2.90 final book a table\n 4.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 2.90 close by timeout \"book a table\"",
	},
	{
		name:   "3 and asked when it takes longer",
		change: func(c *Config) { c.STTLatency = time.Second },
		script: "1.00 on\n 2.00 off\n 3.20 final book a table\n 4.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 3.00 finalize\n 3.20 close by timeout \"book a table\"",
	},
	{
		name:   "3 a detector that finds the caller done ends the turn",
		change: detector,
		script: "1.00 on\n 2.00 off 200\n 2.10 final can I\n 2.15 verdict 1 90\n 2.20 verdict 2 90\n 3.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 2.00 judge 1\n 2.10 judge \"can I\" 2\n 2.20 close by detector \"can I\"",
	},
	{
		name:   "3 one that finds him not done has the turn wait",
		change: detector,
		script: "1.00 on\n 2.00 off\n 2.10 verdict 1 20\n 4.00 on\n 4.10 verdict 1 90\n 5.00 off\n 5.10 verdict 2 10\n 5.20 final book a table.\n 5.30 verdict 3 10\n 9.00 tick",
		want: `1.00 begin
			1.16 open by voice
			2.00 judge 1
			4.00 begin
			5.00 judge 2
			5.20 judge "book a table." 3
			8.00 close by detector "book a table."`,
	},
	{
		name:   "3 one that does not answer leaves it to silence",
		change: detector,
		script: "1.00 on\n 2.00 off\n 2.10 final book a table.\n 4.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 2.00 judge 1\n 2.10 judge \"book a table.\" 2\n 2.30 close by sentence \"book a table.\"",
	},
	{
		name:   "3 external: an end while the voice is on waits for it, and words revoke it",
		change: func(c *Config) { c.Stop = []StopStrategy{StopExternal} },
		script: "1.00 on\n 1.90 stop\n 2.00 off\n 2.10 final one\n 5.00 end\n 6.00 on\n 6.50 stop\n 6.60 interim two\n 7.00 off\n 7.10 final two.\n 8.00 stop\n 9.00 tick",
		want: `1.00 begin
			1.16 open by voice
			2.00 finalize
			2.10 close by external "one"
			6.00 begin
			6.16 open by voice
			8.00 close by external "two."`,
	},
	{
		name:   "3 a turn that nothing ends is closed after 5 s of silence",
		change: func(c *Config) { c.Stop = []StopStrategy{StopExternal} },
		script: "1.00 on\n 2.00 off\n 2.10 final book a table\n 9.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 7.00 close by stop_timeout \"book a table\"",
	},
	// 4.
	{
		name:   "4 one turn is one close; a late final is a turn of its own",
		script: "1.00 on\n 2.00 off\n 2.10 final one.\n 2.90 final two.\n 4.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 2.30 close by sentence \"one.\"\n 2.90 open by transcript\n 2.90 stop by transcript\n 3.20 close by sentence \"two.\"",
	},
	// 6.
	{
		name:   "6 idle waits for a tool, and for the caller's turn",
		script: "0.00 reply\n 1.00 end\n 2.00 tool\n 30.00 result\n 39.00 on\n 39.90 off\n 40.00 final well.\n 40.50 tool\n 41.00 end\n 60.00 result\n 71.00 tick",
		want:   "39.00 begin\n 39.16 open by voice\n 40.20 close by sentence \"well.\"\n 70.00 idle 1",
	},
	// 17.
	{
		name:   "17 who is misheard is asked to repeat, then given options, then a person; a clear turn begins anew",
		change: func(c *Config) { c.MinConfidence, c.Idle = 0.3, 0 },
		script: `1.00 unsure mumble.
			2.00 end
			3.00 on
			4.00 off
			4.65 final
			5.00 end
			6.00 unsure mumble.
			7.00 end
			8.00 unsure mumble.
			9.00 end
			10.00 final clear.
			11.00 end
			12.00 unsure mumble.
			13.00 end
			14.00 digit 1
			14.10 digit #
			15.00 end
			16.00 unsure mumble.
			17.00 tick`,
		want: `1.00 open by transcript
			1.30 close by sentence "mumble." repeat
			3.00 begin
			3.16 open by voice
			4.60 finalize
			4.65 close by timeout garbled options
			6.00 open by transcript
			6.30 close by sentence "mumble." person
			8.00 open by transcript
			8.30 close by sentence "mumble." person
			10.00 open by transcript
			10.30 close by sentence "clear."
			12.00 open by transcript
			12.30 close by sentence "mumble." repeat
			14.00 open by digit
			14.10 close by hash keyed "1"
			16.00 open by transcript
			16.30 close by sentence "mumble." repeat`,
	},
	// 20.
	{
		name:   "20 sound that stops to come ends the voice",
		change: func(c *Config) { c.NoAudio = time.Second },
		script: "0.90 sound\n 1.00 on\n 1.20 sound\n 2.00 sound\n 9.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 3.00 finalize\n 5.00 close by timeout garbled repeat",
	},
	{
		name:   "20 also that of a candidate and of a caller over the agent",
		change: func(c *Config) { c.NoAudio = 100 * time.Millisecond },
		script: "0.00 reply\n 0.90 sound\n 1.00 on\n 1.02 sound\n 9.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.12 finalize\n 1.12 resume by noise",
	},
	{
		name:   "20 zero turns that off",
		change: func(c *Config) { c.NoAudio = 0 },
		script: "0.90 sound\n 1.00 on\n 9.00 tick",
		want:   "1.00 begin\n 1.16 open by voice",
	},
	// 23.
	{
		name:   "23 a standalone speech is a reply, and can be cut off",
		script: "1.00 reply\n 2.00 on\n 2.20 interim stop\n 3.00 off\n 3.10 final stop.\n 4.00 tick",
		want:   "2.00 begin\n 2.00 pause\n 2.20 open by command\n 2.20 stop by command\n 3.30 close by sentence \"stop.\"",
	},
}

func wake(after time.Duration) func(*Config) {
	return func(c *Config) {
		c.Start = []StartStrategy{StartWakePhrase, StartVoice, StartTranscript}
		c.WakePhrases, c.WakeTimeout = []string{"hey parley"}, after
		c.Idle = 0
	}
}

func detector(c *Config) { c.Stop = []StopStrategy{StopDetector} }

func TestContractOfTurns(t *testing.T) {
	for _, c := range contractCases {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			if c.change != nil {
				c.change(&cfg)
			}
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			if got, want := reasons(t, cfg, c.script), trim(c.want); got != want {
				t.Errorf("script\n%s\ngot\n%s\nwant\n%s", trim(c.script), got, want)
			}
		})
	}
}
