package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// root is Parley's own folder, seen from the bench's.
const root = ".."

// callTrial and callHeard are what passes between the bench and the call's own test
// (call/lines_test.go), which lets the packets through everything that is between a
// socket and an agent: only there can it be reached without a SIP dialog, and on a
// clock that the load of the machine does not disturb.
type callTrial struct {
	Codec    string
	Payloads [][]byte
	Trace    []callArrival
	Every    time.Duration
}

type callArrival struct {
	At time.Duration
	I  int
}

type callHeard struct {
	PCM        []int16
	Delays     []time.Duration
	Lost, Late int
	Concealed  time.Duration
}

// calls lets all trials through calls.
func calls(ctx context.Context, runs []*trial) error {
	dir, err := os.MkdirTemp("", "parley-audio")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name := func(i int, end string) string { return filepath.Join(dir, fmt.Sprintf("%03d.%s", i, end)) }
	for i, t := range runs {
		c := callTrial{Codec: t.codec.Name, Payloads: t.payloads, Every: t.every}
		for _, a := range t.trace {
			c.Trace = append(c.Trace, callArrival{a.at, a.i})
		}
		b, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name(i, "trial"), b, 0o600); err != nil {
			return err
		}
	}
	run := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=10m", "-run=^TestTrialsOfTheAudioBench$", "./call")
	run.Dir = root
	run.Env = append(os.Environ(), "PARLEY_BENCH_AUDIO="+dir)
	if out, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("the calls: %w\n%s", err, out)
	}
	for i, t := range runs {
		b, err := os.ReadFile(name(i, "heard"))
		if err != nil {
			return err
		}
		var h callHeard
		if err := json.Unmarshal(b, &h); err != nil {
			return err
		}
		t.ours = result{pcm: h.PCM, delays: h.Delays, lost: h.Lost, late: h.Late, concealed: h.Concealed}
	}
	return nil
}
