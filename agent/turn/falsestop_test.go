package turn

import "testing"

// A room with voices keeps the detector's voice on after a backchannel, or without anybody
// who speaks to the agent: it is silent for 2 s at most all the same, and who means it
// still stops it.
func TestFalseInterruptionsInNoise(t *testing.T) {
	for _, c := range []struct {
		name, script, want string
		change             func(*Config)
	}{
		{
			name:   "a backchannel and the room after it: the agent is only paused",
			script: "0.00 reply\n 1.00 on\n 1.10 sure\n 1.60 interim okay\n 1.70 final okay\n 6.00 off 200\n 6.10 final\n 9.00 tick",
			want:   "1.00 begin\n 1.00 pause\n 2.50 resume by backchannel\n 6.00 finalize",
		},
		{
			name:   "more words stop it within the pause",
			script: "0.00 reply\n 1.00 on\n 1.10 sure\n 1.60 interim okay\n 2.00 interim okay but wait\n 2.60 off 200\n 2.80 final okay but wait\n 6.00 tick",
			want:   "1.00 begin\n 1.00 pause\n 2.00 open by command\n 2.00 stop by command\n 3.00 close by timeout \"okay but wait\"",
		},
		{
			name:   "and after it, though the voice has not ended",
			script: "0.00 reply\n 1.00 on\n 1.10 sure\n 1.60 interim okay\n 1.70 final okay\n 3.40 interim not that one\n 4.00 off 200\n 4.20 final not that one\n 6.00 tick",
			want: "1.00 begin\n 1.00 pause\n 2.50 resume by backchannel\n" +
				" 3.40 open by words\n 3.40 stop by words\n 4.40 close by timeout \"not that one\"",
		},
		{
			name:   "one that is known late is not waited for beyond 2 s",
			script: "0.00 reply\n 1.00 on\n 1.10 sure\n 1.78 interim okay\n 1.79 final okay\n 9.00 tick",
			want:   "1.00 begin\n 1.00 pause\n 2.68 resume by backchannel",
		},
		{
			name:   "slow words neither",
			script: "0.00 reply\n 1.00 on\n 1.10 sure\n 1.60 interim okay\n 9.00 tick",
			want:   "1.00 begin\n 1.00 pause\n 3.00 resume by backchannel",
			change: func(c *Config) { c.WordLag = 5e9 },
		},
		{
			name:   "one that was known after the stop",
			script: "0.00 reply\n 1.00 on\n 1.10 sure\n 2.00 interim okay\n 2.10 final okay\n 9.00 tick",
			want:   "1.00 begin\n 1.00 pause\n 1.80 open by voice\n 1.80 stop by voice\n 2.50 go on by backchannel \"okay\"",
		},
		{
			name:   "also when the voice goes off and on",
			script: "0.00 reply\n 1.00 on\n 1.10 sure\n 2.00 interim okay\n 2.10 final okay\n 2.30 off 200\n 2.45 on\n 9.00 tick",
			want:   "1.00 begin\n 1.00 pause\n 1.80 open by voice\n 1.80 stop by voice\n 2.45 begin\n 2.50 go on by backchannel \"okay\"",
		},
		{
			name:   "words that are still to come are waited for",
			script: "0.00 reply\n 1.00 on\n 1.10 sure\n 2.00 interim okay\n 2.10 final okay\n 2.40 interim and\n 3.00 final and another\n 3.10 off 200\n 9.00 tick",
			want:   "1.00 begin\n 1.00 pause\n 1.80 open by voice\n 1.80 stop by voice\n 3.50 close by timeout \"okay and another\"",
		},
		{
			name:   "voices without a word, of a recogniser that would give one",
			script: "0.50 interim hello\n 0.60 final hello\n 1.30 reply\n 2.00 on\n 2.10 sure\n 9.00 tick",
			want: "0.50 open by transcript\n 1.20 close by timeout \"hello\"\n" +
				" 2.00 begin\n 2.00 pause\n 2.80 open by voice\n 2.80 stop by voice\n 3.50 go on by noise",
		},
		{
			name:   "once a reply",
			script: "0.50 interim hello\n 0.60 final hello\n 1.30 reply\n 2.00 on\n 2.10 sure\n 4.00 off 200\n 5.00 on\n 5.10 sure\n 9.00 tick",
			want: "0.50 open by transcript\n 1.20 close by timeout \"hello\"\n" +
				" 2.00 begin\n 2.00 pause\n 2.80 open by voice\n 2.80 stop by voice\n 3.50 go on by noise\n" +
				" 5.00 begin\n 5.00 pause\n 5.80 open by voice\n 5.80 stop by voice",
		},
		{
			name:   "one that has given no interim transcript may only be slow",
			script: "0.00 reply\n 1.00 on\n 1.10 sure\n 9.00 tick",
			want:   "1.00 begin\n 1.00 pause\n 1.80 open by voice\n 1.80 stop by voice",
		},
		{
			name:   "voices on and off do not begin the wait anew",
			script: "0.00 reply\n 1.00 on\n 1.10 sure\n 1.30 off 200\n 2.20 on\n 2.30 sure\n 2.50 off 200\n 9.00 tick",
			want:   "1.00 begin\n 1.00 pause\n 1.30 finalize\n 2.20 begin\n 2.50 finalize\n 3.00 resume by noise",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			if c.change != nil {
				c.change(&cfg)
			}
			if got, want := reasons(t, cfg, c.script), trim(c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A recogniser that is seen to be slower than word_lag is waited for for longer: the words
// that it has not given yet are not cut off.
func TestSlowRecognisers(t *testing.T) {
	const slowTurn = "0.50 on\n 0.60 sure\n 1.50 off 200\n 1.80 interim my\n 2.80 final my name\n 3.00 tick\n "
	const first = "0.50 begin\n 0.60 open by voice\n 1.90 finalize\n 2.80 close by timeout \"my name\"\n "
	for _, c := range []struct{ name, script, want string }{
		{
			"one that is not known to be slow",
			"5.00 on\n 5.10 sure\n 5.50 interim book\n 6.00 final book a\n 7.90 interim table\n 8.50 final table\n 8.60 off 200\n 12.00 tick",
			"5.00 begin\n 5.10 open by voice\n 7.50 close by no_words \"book a\"\n 8.50 open by transcript\n 8.50 stop by transcript\n 9.10 close by timeout \"table\"",
		},
		{
			"one whose words came 1.5 s after the voice before",
			slowTurn + "3.10 end\n 5.00 on\n 5.10 sure\n 5.50 interim book\n 6.00 final book a\n 7.90 interim table\n 8.50 final table\n 8.60 off 200\n 12.00 tick",
			first + "5.00 begin\n 5.10 open by voice\n 9.00 close by timeout \"book a table\"",
		},
		{
			"one that a turn was ended too early for is known from then on",
			"5.00 on\n 5.10 sure\n 5.50 interim book\n 6.00 final book a\n 7.90 interim table\n 8.50 final table\n 8.60 off 200\n 9.20 end\n" +
				" 12.00 on\n 12.10 sure\n 12.50 interim for\n 13.00 final for two\n 14.90 interim people\n 15.50 final people\n 15.60 off 200\n 19.00 tick",
			"5.00 begin\n 5.10 open by voice\n 7.50 close by no_words \"book a\"\n 8.50 open by transcript\n 8.50 stop by transcript\n" +
				" 9.10 close by timeout \"table\"\n 12.00 begin\n 12.10 open by voice\n 16.00 close by timeout \"for two people\"",
		},
		{
			"a quick one after a slow one is waited for less by and by",
			slowTurn + "3.10 end\n" +
				" 5.00 on\n 5.10 sure\n 5.30 interim a\n 5.40 final a\n 5.60 off 200\n 5.70 interim b\n 5.80 final b\n 6.95 end\n" +
				" 7.00 on\n 7.10 sure\n 7.30 interim a\n 7.40 final a\n 7.60 off 200\n 7.70 interim b\n 7.80 final b\n 8.95 end\n" +
				" 10.00 on\n 10.10 sure\n 10.30 interim may\n 10.40 final may\n 19.00 tick",
			first + "5.00 begin\n 5.10 open by voice\n 6.90 close by spelling \"a b\"\n 7.00 begin\n 7.10 open by voice\n 8.90 close by spelling \"a b\"\n" +
				" 10.00 begin\n 10.10 open by voice\n 12.22 close by no_words \"may\"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := reasons(t, DefaultConfig(), c.script), trim(c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
