// Command audio measures how an agent hears a caller over bad lines. A speech file
// goes through calls, one for each kind of line and codec, and what the agent heard is
// compared with the file. The same packets at the same times are also given to two
// other receivers: one that conceals nothing, and one with a fixed buffer of 60 ms. It
// ends with one line per bar. docs/sound.md says how to read the table.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"parley/media"
	"parley/media/opus"
)

func main() {
	file := flag.String("speech", "", "WAV file to use in place of the recordings or the voice that are found")
	length := flag.Duration("length", 20*time.Second, "how much of it")
	seed := flag.Uint64("seed", 1, "luck of the lines")
	codecs := flag.String("codecs", "PCMU,PCMA,G722,opus", "codecs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *file, *length, *seed, strings.Split(*codecs, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "audio:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string, length time.Duration, seed uint64, names []string) error {
	speech, source, err := loadSpeech(file, length)
	if err != nil {
		return err
	}
	codecs, err := codecsOf(names)
	if err != nil {
		return err
	}
	var runs []*trial
	for _, codec := range codecs {
		for _, l := range lines() {
			runs = append(runs, &trial{codec: codec, line: l})
		}
	}
	fmt.Printf("%s, %s; %s of %s\n", runtime.Version(), opus.Library(), length, source)
	for _, t := range runs {
		if t.clean, t.payloads, err = encode(t.codec, speech); err != nil {
			return err
		}
		t.trace, t.every = t.line.trace(len(t.payloads), seed)
	}
	if err := calls(ctx, runs); err != nil {
		return err
	}
	for _, t := range runs {
		if err := t.judge(); err != nil {
			return err
		}
	}
	table(runs)
	bars(runs)
	return nil
}

// trial is one codec over one line.
type trial struct {
	codec media.Codec
	line  line

	clean    []int16   // what is said, at the codec's rate
	payloads [][]byte  // in packets of 20 ms
	trace    []arrival // when which of them arrives
	every    time.Duration

	ours, bare, fixed, noFEC result
}

// result is what one receiver made of the packets.
type result struct {
	pcm              []int16
	delays           []time.Duration // of each 20 ms: from when it should be sent until it is given
	lost, late       int
	concealed        time.Duration
	score, shift     float64 // shift in ms
	mean, percentile time.Duration
}
