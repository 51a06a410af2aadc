package turn

import "testing"

// bargeCases are what becomes of sounds over the agent, with the defaults: contract line 7,
// and 5, 8, 21.
var bargeCases = []struct {
	name, script, want string
	change             func(*Config)
}{
	{
		name:   "7 BR-143 a backchannel pauses the agent, which goes on where it was",
		script: "0.00 reply\n 1.00 on 40\n 1.10 sure\n 1.60 off 200\n 1.70 final Mm-hmm.\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.60 finalize\n 1.70 resume by backchannel",
	},
	{
		name:   "7 several of them as well, and a yes when nothing was asked",
		script: "0.00 reply\n 1.00 on\n 1.10 interim yes\n 1.20 interim yes okay\n 1.70 off 200\n 1.80 final Yes, okay. Mhm!\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.70 finalize\n 1.80 resume by backchannel",
	},
	{
		name:   "7 a yes after a question is an answer",
		script: "0.00 reply\n 1.00 on\n 1.10 answering yes\n 1.50 off 200\n 1.60 answer Yes.\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.10 open by answer\n 1.10 stop by answer\n 1.60 close by sentence \"Yes.\"",
	},
	{
		name:   "7 also when there was no interim",
		script: "0.00 reply\n 1.00 on\n 1.50 off 200\n 1.60 answer Okay.\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.50 finalize\n 1.60 open by answer\n 1.60 stop by answer\n 1.60 close by sentence \"Okay.\"",
	},
	{
		name:   "7 a no never is a backchannel",
		script: "0.00 reply\n 1.00 on\n 1.30 interim no\n 1.50 off 200\n 1.60 final No.\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.30 open by command\n 1.30 stop by command\n 1.60 close by sentence \"No.\"",
	},
	{
		name:   "7 BR-153 a command in an interim stops the agent at once",
		script: "0.00 reply\n 1.00 on 40\n 1.26 interim stop\n 1.51 off 200\n 2.46 final stop\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.26 open by command\n 1.26 stop by command\n 1.91 finalize\n 2.46 close by timeout \"stop\"",
	},
	{
		name:   "7 two words do, one waits for more",
		script: "0.00 reply\n 1.00 on\n 1.20 interim book\n 1.40 interim book a\n 2.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.40 open by words\n 1.40 stop by words",
	},
	{
		name:   "7 a voice that is too long for a backchannel stops it without words",
		script: "0.00 reply\n 1.00 on 40\n 1.10 sure\n 2.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.76 open by voice\n 1.76 stop by voice",
	},
	{
		name:   "7 also one in two pieces",
		script: "0.00 reply\n 1.00 on\n 1.50 off 100\n 1.60 on\n 2.20 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.50 finalize\n 1.60 begin\n 2.00 open by voice\n 2.00 stop by voice",
	},
	{
		name:   "7 a short word that is no backchannel stops it when it is known",
		script: "0.00 reply\n 1.00 on\n 1.50 off 200\n 1.70 final Tuesday\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.50 finalize\n 1.70 open by transcript\n 1.70 stop by transcript\n 1.90 close by timeout \"Tuesday\"",
	},
	{
		name:   "7 a cough without words: the agent goes on when there is a blank transcript",
		script: "0.00 reply\n 1.00 on\n 1.50 off 200\n 1.70 final  \n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.50 finalize\n 1.70 resume by noise",
	},
	{
		name:   "7 BR-131 and within 2 s when there is none",
		script: "0.00 reply\n 1.00 on\n 1.50 off 200\n 5.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.50 finalize\n 3.00 resume by noise",
	},
	{
		name:   "7 words that come after it still stop it; a backchannel that does is none",
		script: "0.00 reply\n 1.00 on\n 1.50 off 200\n 3.40 final okay\n 3.50 final not that one\n 5.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.50 finalize\n 3.00 resume by noise\n 3.50 open by transcript\n 3.50 stop by transcript\n 4.10 close by timeout \"not that one\"",
	},
	{
		name:   "7 BR-123 a cough before the reply is heard does not kill it",
		script: "1.00 final book a table.\n 1.50 on\n 1.80 off 100\n 1.90 final  \n 3.00 heard\n 4.00 tick",
		want:   "1.00 open by transcript\n 1.30 close by sentence \"book a table.\"\n 1.50 begin\n 1.50 pause\n 1.80 finalize\n 1.90 resume by noise",
	},
	{
		name:   "7 it works to the last sample: a voice that outlives the reply opens a turn",
		script: "0.00 reply\n 1.00 on\n 1.30 end\n 2.00 off\n 2.10 final wait.\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.30 resume by reply_ended\n 1.30 open by voice\n 2.30 close by sentence \"wait.\"",
	},
	{
		name:   "7 and words of one that did not",
		script: "0.00 reply\n 1.00 on\n 1.50 off 200\n 1.60 end\n 1.70 final Tuesday.\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.50 finalize\n 1.60 resume by reply_ended\n 1.70 open by transcript\n 2.00 close by sentence \"Tuesday.\"",
	},
	{
		name:   "7 a long backchannel that cut the agent off lets it go on, however often",
		script: "0.00 reply\n 1.00 on\n 2.00 off 100\n 2.10 final mmmm hm, okay.\n 3.00 on\n 4.00 off 100\n 4.10 final right.\n 5.00 tick",
		want: `1.00 begin
			1.00 pause
			1.80 open by voice
			1.80 stop by voice
			2.20 go on by backchannel "mmmm hm, okay."
			3.00 begin
			3.00 pause
			3.80 open by voice
			3.80 stop by voice
			4.20 go on by backchannel "right."`,
	},
	{
		name:   "7 what is added to the language is known",
		change: func(c *Config) { c.Backchannels, c.Commands = []string{"roger that"}, []string{"time out"} },
		script: "0.00 reply\n 1.00 on\n 1.50 off 200\n 1.60 final Roger that!\n 2.00 on\n 2.20 interim time out\n 2.30 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.50 finalize\n 1.60 resume by backchannel\n 2.00 begin\n 2.00 pause\n 2.20 open by command\n 2.20 stop by command",
	},
	{
		name:   "7 so is another language",
		change: func(c *Config) { c.Language = "de-AT" },
		script: "0.00 reply\n 1.00 on\n 1.50 off 200\n 1.60 final Alles klar.\n 2.00 on\n 2.20 interim Moment\n 2.30 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.50 finalize\n 1.60 resume by backchannel\n 2.00 begin\n 2.00 pause\n 2.20 open by command\n 2.20 stop by command",
	},
	// 8: the agent's own words.
	{
		name:   "8 what the agent says, come back without a voice, is an echo",
		script: "0.00 reply\n 0.10 says We are open from nine to five, Monday to Friday.\n 1.00 interim we are open\n 1.50 final open from nine to nine Monday\n 3.00 end\n 3.50 final to Friday\n 6.00 final to Friday\n 7.00 tick",
		want:   "6.00 open by transcript\n 6.60 close by timeout \"to Friday\"",
	},
	{
		name:   "8 of who is heard to say them it is an answer",
		script: "0.00 reply\n 0.10 says Pizza or pasta?\n 1.00 on\n 1.20 answering pasta\n 1.50 off\n 1.60 answer Pasta.\n 3.00 tick",
		want:   "1.00 begin\n 1.00 pause\n 1.20 open by answer\n 1.20 stop by answer\n 1.80 close by sentence \"Pasta.\"",
	},
	{
		name:   "8 other words are none of the agent's",
		script: "0.00 reply\n 0.10 says We are open from nine to five.\n 1.00 final I would like to book.\n 2.00 tick",
		want:   "1.00 open by transcript\n 1.00 stop by transcript\n 1.30 close by sentence \"I would like to book.\"",
	},
	{
		name:   "8 nor are those of the reply before",
		script: "0.00 reply\n 0.10 says We are open from nine to five.\n 3.00 end\n 3.10 reply\n 3.20 says What else?\n 4.00 final from nine to five.\n 5.00 tick",
		want:   "4.00 open by transcript\n 4.00 stop by transcript\n 4.30 close by sentence \"from nine to five.\"",
	},
	// 5: mute.
	{
		name:   "5 BR-144 until the first agent turn is complete, also before it is heard",
		change: func(c *Config) { c.Mute = []MuteStrategy{MuteFirstTurn} },
		script: "0.10 final hello\n 0.20 reply\n 0.50 heard\n 0.60 on\n 0.80 interim stop\n 1.00 off\n 3.00 end\n 3.10 final hello?\n 5.00 heard\n 5.10 interim stop\n 5.50 tick",
		want: `0.10 muted
			3.00 unmuted
			3.10 open by transcript
			3.40 close by sentence "hello?"
			5.10 open by command
			5.10 stop by command`,
	},
	{
		name:   "5 while the first is heard, not before it, nor any other",
		change: func(c *Config) { c.Mute = []MuteStrategy{MuteFirstSpeech} },
		script: "0.00 reply\n 0.50 heard\n 0.60 interim stop\n 3.00 end\n 4.00 reply\n 4.10 heard\n 4.20 interim stop\n 4.50 tick",
		want:   "0.50 muted\n 3.00 unmuted\n 4.20 open by command\n 4.20 stop by command",
	},
	{
		name:   "5 while the agent is heard; not while it thinks",
		change: func(c *Config) { c.Mute = []MuteStrategy{MuteAgent} },
		script: "1.00 final one.\n 1.40 final two.\n 2.00 heard\n 2.10 on\n 2.20 final stop\n 3.00 off\n 4.00 end\n 5.00 tick",
		want: `1.00 open by transcript
			1.30 close by sentence "one."
			1.40 open by transcript
			1.40 stop by transcript
			1.70 close by sentence "two."
			2.00 muted
			4.00 unmuted`,
	},
	{
		name:   "5 while a tool runs; edges are told once",
		change: func(c *Config) { c.Mute = []MuteStrategy{MuteTools, MuteAgent} },
		script: "0.00 reply\n 1.00 tool\n 1.10 tool\n 1.20 heard\n 2.00 result\n 2.10 final stop\n 3.00 result\n 4.00 end\n 4.10 tick",
		want:   "1.00 muted\n 4.00 unmuted",
	},
	{
		name:   "5 a turn that is open then ends with its words, a candidate without a trace",
		change: func(c *Config) { c.Mute = []MuteStrategy{MuteTools} },
		script: "1.00 on\n 1.50 final one\n 2.00 tool\n 2.50 off\n 3.00 result\n 4.00 on\n 4.10 tool\n 4.20 result\n 4.50 tick",
		want: `1.00 begin
			1.16 open by voice
			2.00 muted
			2.00 finalize
			2.00 close by muted "one"
			3.00 unmuted
			4.00 begin
			4.00 pause
			4.10 muted
			4.10 finalize
			4.10 resume by muted
			4.20 unmuted
			4.20 begin
			4.20 pause`,
	},
	{
		name:   "5 one without words is none",
		change: func(c *Config) { c.Mute = []MuteStrategy{MuteTools} },
		script: "1.00 on\n 1.50 interim one\n 2.00 tool\n 2.50 off\n 2.60 digit 5\n 2.70 digit #\n 3.00 result\n 4.10 tick",
		want: `1.00 begin
			1.16 open by voice
			2.00 muted
			2.00 finalize
			2.00 discard by muted
			3.00 unmuted
			3.00 open by digit
			3.00 close by hash keyed "5"`,
	},
	// 21: deferred completion and eager replies.
	{
		name:   "21 the model finds the turn complete: its reply is heard",
		change: deferred,
		script: "1.00 final book a table.\n 1.80 complete\n 2.00 heard\n 3.00 tick",
		want:   "1.00 open by transcript\n 1.30 infer by deferred \"book a table.\" tentative\n 1.80 close by complete \"book a table.\" inferred",
	},
	{
		name:   "21 it finds it incomplete: nothing is heard, and the caller is asked to go on after 5 s",
		change: deferred,
		script: "1.00 final I would like\n 2.00 incomplete\n 9.00 tick",
		want:   "1.00 open by transcript\n 1.60 infer by deferred \"I would like\" tentative\n 7.00 drop\n 7.00 close by incomplete \"I would like\" unfinished",
	},
	{
		name:   "21 or after 10 s",
		change: deferred,
		script: "1.00 final let me think\n 2.00 incomplete 10\n 13.00 tick",
		want:   "1.00 open by transcript\n 1.60 infer by deferred \"let me think\" tentative\n 12.00 drop\n 12.00 close by incomplete \"let me think\" unfinished",
	},
	{
		name:   "21 unless the caller goes on: the turn is one, and the model is asked about all of it",
		change: deferred,
		script: "1.00 final I would like\n 2.00 incomplete\n 4.00 on\n 5.00 off\n 5.10 final a table.\n 6.00 complete\n 7.00 tick",
		want: `1.00 open by transcript
			1.60 infer by deferred "I would like" tentative
			4.00 begin
			5.10 drop
			5.30 infer by deferred "I would like a table." tentative
			6.00 close by complete "I would like a table." inferred`,
	},
	{
		name:   "21 a noise meanwhile changes nothing",
		change: deferred,
		script: "1.00 final a table.\n 1.50 on\n 1.70 complete\n 1.80 off\n 2.45 final  \n 3.00 tick",
		want:   "1.00 open by transcript\n 1.30 infer by deferred \"a table.\" tentative\n 1.50 begin\n 2.40 finalize\n 2.45 close by complete \"a table.\" inferred",
	},
	{
		name:   "21 a model that says nothing is believed after 5 s",
		change: deferred,
		script: "1.00 final a table.\n 9.00 tick",
		want:   "1.00 open by transcript\n 1.30 infer by deferred \"a table.\" tentative\n 6.30 close by stop_timeout \"a table.\" inferred",
	},
	{
		name:   "21 an eager reply is used when nothing was said since",
		change: eager,
		script: "1.00 on\n 2.00 off\n 2.10 final book a table\n 3.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 2.20 infer by eager \"book a table\"\n 2.60 close by timeout \"book a table\" inferred",
	},
	{
		name:   "21 and dropped when there was",
		change: eager,
		script: "1.00 on\n 2.00 off\n 2.10 final book\n 2.40 on\n 3.00 off\n 3.10 final a table\n 4.00 tick",
		want: `1.00 begin
			1.16 open by voice
			2.20 infer by eager "book"
			2.40 begin
			3.10 drop
			3.20 infer by eager "book a table"
			3.60 close by timeout "book a table" inferred`,
	},
	{
		name:   "21 also by a key",
		change: eager,
		script: "1.00 on\n 2.00 off\n 2.10 final book\n 2.40 digit 1\n 2.50 digit #\n 3.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 2.20 infer by eager \"book\"\n 2.40 drop\n 2.50 close by hash keyed \"1\"",
	},
	{
		name:   "21 somebody else may ask for one",
		script: "1.00 on\n 1.50 final book a table.\n 1.60 eager\n 1.70 eager\n 1.80 off\n 1.90 final  \n 4.00 tick",
		want:   "1.00 begin\n 1.16 open by voice\n 1.60 infer by eager \"book a table.\"\n 2.10 close by sentence \"book a table.\" inferred",
	},
	{
		name:   "23 a turn without a transcript lets the agent go on, once; then it is garbled",
		script: "0.00 reply\n 1.00 on\n 2.00 off 100\n 2.60 final  \n 3.00 on\n 4.00 off 100\n 4.60 final  \n 5.00 tick",
		want: `1.00 begin
			1.00 pause
			1.80 open by voice
			1.80 stop by voice
			2.50 finalize
			2.60 go on by noise
			3.00 begin
			3.00 pause
			3.80 open by voice
			3.80 stop by voice
			4.50 finalize
			4.60 close by timeout garbled repeat`,
	},
}

func deferred(c *Config) { c.Stop = []StopStrategy{StopTimeout, StopDeferred} }

func eager(c *Config) { c.EagerTimeout = 200 * 1e6 }

func TestBargeIn(t *testing.T) {
	for _, c := range bargeCases {
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
