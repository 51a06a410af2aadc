package main

import (
	"fmt"
	"os"

	"parley/agent/llm"
	"parley/agent/stt/pocketsphinx"
)

// grammar is what the embedded recogniser is told to expect: commands, and what somebody
// says who listens.
const grammar = `#JSGF V1.0;
grammar over;
public <over> = <command> | <listens>;
<command> = stop | wait | wait a minute | hold on | operator | agent | goodbye | no | sorry | one moment please;
<listens> = okay | right | all right | yeah | i see | got it | uh-huh | mhm;
`

// commandTrials are commands and backchannels as the embedded recogniser hears them, not
// the witness. Without it there are none.
func (b *bench) commandTrials(o options) *table {
	t := &table{}
	c := pocketsphinx.DefaultConfig()
	c.Interims = true
	hears, err := pocketsphinx.New(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "turns: no commands by the embedded recogniser:", err)
		return t
	}
	share := 1
	if o.quick {
		share = 3
	}
	var items []item
	for i := 0; i < len(b.callers.commands); i += share {
		items = append(items, item{kind: command, says: b.callers.commands[i]})
	}
	for i := 0; i < len(b.callers.backchannels); i += share {
		items = append(items, item{kind: backchannel, says: b.callers.backchannels[i]})
	}
	detector := b.detectors()[len(b.detectors())-1]
	s := &setting{name: "pocketsphinx", detector: detector, hears: hears, expect: &llm.Expect{Grammar: grammar}}
	for i, l := range []line{{codec: "PCMU"}, {codec: "PCMU", noise: "babble", snr: 10}, {codec: "PCMU", echo: true}} {
		t.add(l, s, plan(l, s, 8, o.seed+uint64(i), items))
	}
	return t
}

// printCommands is their table.
func (t *table) printCommands() {
	var rows [][]string
	for _, r := range t.rows {
		s := t.row(r)
		rows = append(rows, []string{
			r.line.String(), in(s.stop, command).text(), in(s.missed, command).text(),
			in(s.stopped, backchannel).text(), in(s.gaps, backchannel).text(),
		})
	}
	if len(rows) == 0 {
		return
	}
	print("Commands and backchannels by the embedded recogniser. Times p50 / p95.", []string{"line", "commands stop it after", "missed", "backchannels stop it", "silent for"}, rows)
}
