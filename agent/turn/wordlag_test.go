package turn

import "testing"

// A voice that goes on though no words come any more is somebody else's, or music.
func TestVoiceWithoutWords(t *testing.T) {
	for _, c := range []struct {
		name, script, want string
		change             func(*Config)
	}{
		{
			name:   "the turn ends when the words of the caller would have come by now",
			script: "1.00 on\n 1.50 interim book a\n 2.40 final book a table\n 9.00 tick",
			want:   "1.00 begin\n 1.10 open by voice\n 3.90 close by no_words \"book a table\"",
		},
		{
			name:   "also when the voice goes off and on",
			script: "1.00 on\n 1.50 interim book a\n 2.40 final book a table\n 2.60 off 200\n 2.90 on\n 9.00 tick",
			want:   "1.00 begin\n 1.10 open by voice\n 2.90 begin\n 3.90 close by no_words \"book a table\"",
		},
		{
			name:   "more words revoke that",
			script: "1.00 on\n 1.50 interim book a\n 2.40 final book a table\n 3.80 interim for\n 4.50 final for two\n 9.00 tick",
			want:   "1.00 begin\n 1.10 open by voice\n 6.00 close by no_words \"book a table for two\"",
		},
		{
			name:   "silence ends it sooner",
			script: "1.00 on\n 1.50 interim book a\n 2.40 final book a table\n 2.50 off 200\n 9.00 tick",
			want:   "1.00 begin\n 1.10 open by voice\n 2.90 close by timeout \"book a table\"",
		},
		{
			name:   "digits are waited for as long as in silence",
			script: "1.00 on\n 1.50 interim four one\n 2.40 final four one five\n 9.00 tick",
			want:   "1.00 begin\n 1.10 open by voice\n 4.80 close by no_words \"four one five\"",
		},
		{
			name:   "and whole sentences are not",
			script: "1.00 on\n 1.50 interim book a\n 2.40 final Book a table.\n 9.00 tick",
			want:   "1.00 begin\n 1.10 open by voice\n 3.60 close by no_words \"Book a table.\"",
		},
		{
			name:   "a recogniser without interim transcripts may only be slow",
			script: "1.00 on\n 2.40 final book a table\n 9.00 tick",
			want:   "1.00 begin\n 1.10 open by voice",
		},
		{
			name:   "nor does it end a turn that nobody but somebody else ends",
			script: "1.00 on\n 1.50 interim book a\n 2.40 final book a table\n 9.00 tick",
			want:   "1.00 begin\n 1.10 open by voice",
			change: func(c *Config) { c.Stop = []StopStrategy{StopExternal} },
		},
		{
			name:   "0 turns it off",
			script: "1.00 on\n 1.50 interim book a\n 2.40 final book a table\n 9.00 tick",
			want:   "1.00 begin\n 1.10 open by voice",
			change: func(c *Config) { c.WordLag = 0 },
		},
		{
			name:   "the model is asked whether the turn is complete as at any end",
			script: "1.00 on\n 1.50 interim book a\n 2.40 final book a table\n 4.00 complete\n 9.00 tick",
			want:   "1.00 begin\n 1.10 open by voice\n 3.90 infer by deferred \"book a table\" tentative\n 4.00 close by complete \"book a table\" inferred",
			change: func(c *Config) { c.Stop = []StopStrategy{StopTimeout, StopDeferred} },
		},
		{
			name: "the voice that is over for the turn is no new one until it begins again",
			script: "1.00 on\n 1.50 interim book a\n 2.40 final book a table\n 3.90 reply\n 4.50 sure\n 5.00 off 200\n" +
				" 6.00 on\n 6.10 sure\n 6.40 off 200\n 6.50 final\n 9.00 tick",
			want: "1.00 begin\n 1.10 open by voice\n 3.90 close by no_words \"book a table\"\n" +
				" 6.00 begin\n 6.00 pause\n 6.10 open by voice\n 6.10 stop by voice\n 6.80 finalize\n 8.20 go on by noise",
		},
	} {
		cfg := testConfig()
		if c.change != nil {
			c.change(&cfg)
		}
		if got, want := reasons(t, cfg, c.script), trim(c.want); got != want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

// What is heard of a backchannel ends the pause as soon as the voice is over, without the
// final transcript; one that has more words stops the agent still.
func TestBackchannelIsKnownFromAnInterim(t *testing.T) {
	for script, want := range map[string]string{
		"0.00 reply\n 1.00 on 40\n 1.10 sure\n 1.50 off 200\n 1.60 interim okay\n 2.50 final okay\n 4.00 tick":                "1.00 begin\n 1.00 pause\n 1.50 finalize\n 1.60 resume by backchannel",
		"0.00 reply\n 1.00 on 40\n 1.10 sure\n 1.50 off 200\n 1.60 interim right\n 2.50 final right turn, please\n 4.00 tick": "1.00 begin\n 1.00 pause\n 1.50 finalize\n 1.60 resume by backchannel\n 2.50 open by transcript\n 2.50 stop by transcript\n 3.10 close by timeout \"right turn, please\"",
		// While the voice is on there may be more.
		"0.00 reply\n 1.00 on 40\n 1.10 sure\n 1.40 interim okay\n 1.70 off 200\n 2.50 final okay\n 4.00 tick": "1.00 begin\n 1.00 pause\n 1.70 finalize\n 2.50 resume by backchannel",
	} {
		if got := reasons(t, DefaultConfig(), script); got != trim(want) {
			t.Errorf("%s\ngot\n%s\nwant\n%s", script, got, trim(want))
		}
	}
}
