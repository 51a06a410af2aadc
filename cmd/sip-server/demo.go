package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// demoCmd shows a whole conversation over real SIP and RTP on loopback: it starts
// the server as one process and a caller with a microphone of recorded speech as
// another, prints both sides while they talk, and leaves the call as a stereo file
// and as a page. It fails when the conversation does not go as it should.
type demoCmd struct {
	Out    string  `default:"out" type:"path" placeholder:"DIR" help:"Where call.wav and call.html go (${default})."`
	Sounds string  `type:"path" placeholder:"DIR" help:"Folder with the caller's recordings; found by itself when Debian's asterisk-core-sounds-en-wav is installed."`
	Loss   float64 `default:"0.02" help:"Share of packets the line loses each way (${default})."`
	Seed   uint64  `default:"1" help:"Which packets are lost."`
	Noise  float64 `help:"Level in dBFS of the noise around the caller, such as -65; 0 for none (${default})." default:"0"`
	Keep   bool    `help:"Keep the configuration, events and captures of the run in the output folder."`

	Caller callerFlags `embed:"" prefix:"caller-"`
}

// demoCall is one call of the demo.
type demoCall struct {
	name, script string
	number       string
	display      string
	check        func(*demoResult) []error
}

// demoResult is all that is known about a call afterwards.
type demoResult struct {
	call    demoCall
	caller  callerReport
	journal []journalEntry
}

// demoCalls are the calls in their order: a stranger, then the same person again.
func demoCalls() []demoCall {
	const number, display = "+12025550143", "Ada Byron"
	return []demoCall{
		{"First call", demoFirstScript, number, display, checkFirst},
		{"Second call", demoSecondScript, number, display, checkSecond},
	}
}

// Run shows the conversation, or is the caller when the flags say so.
func (c demoCmd) Run(s *stage) error {
	if c.Caller.To != "" {
		return c.Caller.run(s)
	}
	if err := c.valid(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(s.ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Minute, errors.New("the demo took longer than 5 minutes"))
	defer cancel()

	sounds, err := soundsDir(c.Sounds)
	if err != nil {
		return err
	}
	work, discard, err := c.workDir()
	if err != nil {
		return err
	}
	defer discard()
	server, err := startDemoServer(ctx, work, s.environ)
	if err != nil {
		return err
	}
	defer server.stop()
	results, err := c.talk(ctx, s, server, sounds, work)
	if err != nil {
		return fmt.Errorf("%w\nThe server's log is %s", err, server.saveLog(c.Out))
	}
	if err := c.leave(s.out, results); err != nil {
		return err
	}
	if errs := judge(results); len(errs) > 0 {
		return fmt.Errorf("the conversation did not go as it should:\n%w\nThe server's log is %s", errors.Join(errs...), server.saveLog(c.Out))
	}
	return nil
}

// valid refuses lines that no call could be held over.
func (c demoCmd) valid() error {
	switch {
	case !(c.Loss >= 0 && c.Loss <= 0.5):
		return fmt.Errorf("demo: --loss: %v, must be a share from 0 to 0.5; 2 %% are 0.02", c.Loss)
	case !(c.Noise <= 0 && c.Noise >= -100):
		return fmt.Errorf("demo: --noise: %v, must be a level from -100 to 0 dBFS, such as -65; 0 is none", c.Noise)
	}
	return nil
}

// workDir is where the processes keep their files, and what removes it.
func (c demoCmd) workDir() (dir string, discard func(), err error) {
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return "", nil, fmt.Errorf("demo: --out: %w; name a folder that can be written to", err)
	}
	if c.Keep {
		dir = filepath.Join(c.Out, "demo")
		if err := os.RemoveAll(dir); err != nil {
			return "", nil, err
		}
		return dir, func() {}, os.Mkdir(dir, 0o755)
	}
	dir, err = os.MkdirTemp("", "parley-demo-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// talk places the calls one after the other.
func (c demoCmd) talk(ctx context.Context, s *stage, server *demoServer, sounds, work string) ([]*demoResult, error) {
	tell := newNarrator(s.out)
	tell.line("", "server", "on %s, with its own recogniser and voice; the line loses %.0f %% of the packets each way", server.uri(), 100*c.Loss)
	journal := newJournalReader(server.events)
	var results []*demoResult
	for i, call := range demoCalls() {
		tell.begin(call.name)
		r, err := c.place(ctx, call, server, journal, tell, callerFlags{
			To: server.uri(), Number: call.number, Name: call.display, Sounds: sounds,
			Out: filepath.Join(work, fmt.Sprintf("call%d", i+1)), Loss: c.Loss, Seed: c.Seed + uint64(i), Noise: c.Noise,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", call.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// place makes one call and follows it from both ends until both have told all.
func (c demoCmd) place(ctx context.Context, call demoCall, server *demoServer, journal *journalReader, tell *narrator, flags callerFlags) (*demoResult, error) {
	if err := os.WriteFile(flags.Out+".script", []byte(call.script), 0o600); err != nil {
		return nil, err
	}
	flags.Script = flags.Out + ".script"
	caller, err := startDemoCaller(ctx, flags)
	if err != nil {
		return nil, err
	}
	defer caller.stop()
	r := &demoResult{call: call}
	// The gateway's last line comes just after the call; it is not waited for long.
	var late <-chan time.Time
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	lines := caller.lines
	for {
		select {
		case l, ok := <-lines:
			if !ok {
				lines, late = nil, time.After(5*time.Second)
				continue
			}
			tell.caller(l)
		case <-tick.C:
			for _, e := range journal.next() {
				r.journal = append(r.journal, e)
				tell.agent(e)
			}
			if lines == nil && r.record() != nil {
				return r, caller.report(&r.caller)
			}
		case <-late:
			return nil, errors.Join(caller.report(&r.caller), errors.New("the gateway wrote no record of the call"))
		case <-server.ended:
			return nil, errors.New("the server ended in the middle of the call")
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// leave writes the sound of the first call, and all calls as a page.
func (c demoCmd) leave(out io.Writer, results []*demoResult) error {
	wav, page := filepath.Join(c.Out, "call.wav"), filepath.Join(c.Out, "call.html")
	sound, err := os.ReadFile(results[0].caller.WAV)
	if err != nil {
		return err
	}
	if err := os.WriteFile(wav, sound, 0o644); err != nil {
		return err
	}
	var calls []pageCall
	for _, r := range results {
		calls = append(calls, r.page())
	}
	f, err := os.Create(page)
	if err != nil {
		return err
	}
	subtitle := fmt.Sprintf("Written down at the caller's phone, both directions on one clock, while the call went over SIP and RTP. "+
		"The line lost %.0f %% of the packets each way. The caller's voice is recorded human speech; the agent hears, thinks and speaks inside the gateway. %s.",
		100*c.Loss, results[0].caller.wall(0).Format("2 January 2006, 15:04"))
	if err := errors.Join(writePage(f, "A phone call with an agent", subtitle, calls), f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nListen to %s (left: caller, right: agent), or open %s.\n", wav, page)
	return err
}

// judge asks every call's check what went wrong.
func judge(results []*demoResult) []error {
	var errs []error
	for _, r := range results {
		for _, err := range r.call.check(r) {
			errs = append(errs, fmt.Errorf("  %s: %w", r.call.name, err))
		}
	}
	return errs
}

// soundsDir finds the caller's recordings.
func soundsDir(wanted string) (string, error) {
	candidates := []string{"/usr/share/asterisk/sounds/en", "/usr/share/asterisk/sounds/en_US_f_Allison"}
	if wanted != "" {
		candidates = []string{wanted}
	}
	i := slices.IndexFunc(candidates, func(dir string) bool {
		info, err := os.Stat(dir)
		return err == nil && info.IsDir()
	})
	switch {
	case i >= 0:
		return candidates[i], nil
	case wanted != "":
		return "", fmt.Errorf("demo: --sounds: there is no folder %s", wanted)
	}
	return "", nil // the caller's words are made by flite then
}
