package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"parley/media/resample"
	"parley/test/audio"
	"parley/test/phone"
)

// callerFlags make the demo command the caller's process.
type callerFlags struct {
	To     string  `hidden:"" help:"URI to call."`
	Number string  `hidden:"" help:"The caller's number."`
	Name   string  `hidden:"" help:"The caller's display name."`
	Script string  `hidden:"" help:"Script file."`
	Sounds string  `hidden:"" help:"Folder of recordings."`
	Out    string  `hidden:"" help:"Where the report goes, without its ending."`
	Loss   float64 `hidden:"" help:"Share of packets lost each way."`
	Seed   uint64  `hidden:"" help:"Which packets are lost."`
	Noise  float64 `hidden:"" help:"Level of the room's noise in dBFS; 0 for none."`
}

// callerLine is what the caller tells while the call goes on, as one JSON line.
type callerLine struct {
	At time.Time `json:"at"`
	// Type is "invited", "answered", "said", "pressed", "reply", "barge-in" or
	// "ended".
	Type    string        `json:"type"`
	Text    string        `json:"text,omitempty"`
	Latency time.Duration `json:"latency_ns,omitempty"`
}

// callerReport is what the caller knows after the call. Times are on the phone's
// clock, whose zero is Epoch.
type callerReport struct {
	Epoch                       time.Time
	Invited, Answered           time.Duration
	End                         phone.End
	Asked, Answers              []audio.Span // what the caller said or pressed, what the agent said
	Sent, Heard                 []audio.Mark
	Said                        []callerSaid
	LostSent, LostHeard         []time.Duration
	SentPackets, HeardPackets   int
	Codec, Digits, Failure, WAV string
	Origin                      time.Duration // of the sound
	Sound                       pageSound
}

// callerSaid is something the caller said, or keys pressed in a row.
type callerSaid struct {
	Text, Key   string
	BargeIn     bool
	First, Last time.Duration
}

func (r *callerReport) wall(at time.Duration) time.Time { return r.Epoch.Add(at) }

// run is the caller's process: one call by its script.
func (c callerFlags) run(s *stage) error {
	ctx, cancel := context.WithTimeout(s.ctx, 3*time.Minute)
	defer cancel()
	text, err := os.ReadFile(c.Script)
	if err != nil {
		return err
	}
	steps, err := phone.ParseScript(string(text))
	if err != nil {
		return err
	}
	p, err := phone.New(phone.Config{
		Name: c.Name, Number: c.Number, Noise: c.Noise,
		Line: phone.Impairment{Loss: c.Loss, Seed: c.Seed}, HeardLine: phone.Impairment{Loss: c.Loss, Seed: c.Seed + 1000},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	k := &caller{flags: c, phone: p, tell: json.NewEncoder(s.out), seen: map[time.Duration]bool{}}
	return errors.Join(k.call(ctx, steps), k.write())
}

// caller is one call in the making.
type caller struct {
	flags  callerFlags
	phone  *phone.Phone
	active *phone.Call
	tell   *json.Encoder
	report callerReport
	spoken []spoken
	seen   map[time.Duration]bool // replies and barge-ins already told, by their start
}

type spoken struct {
	step      phone.Step
	key       string
	utterance *phone.Utterance
}

func (k *caller) say(kind, text string, at, latency time.Duration) {
	_ = k.tell.Encode(callerLine{At: k.phone.Wall(at), Type: kind, Text: text, Latency: latency})
}

// call dials, plays the script and tells what the phone measures meanwhile. A
// script that fails is part of the report, not an error of the process.
func (k *caller) call(ctx context.Context, steps []phone.Step) error {
	k.say("invited", k.flags.To, k.phone.Now(), 0)
	call, err := k.phone.Dial(ctx, k.flags.To)
	if err != nil {
		return err
	}
	k.active = call
	t := call.Times()
	k.report = callerReport{Epoch: k.phone.Wall(0), Invited: t.Invited, Answered: t.Answered, Codec: "PCMU"}
	k.say("answered", "", t.Answered, t.Answered-t.Invited)
	began := make(chan spoken, len(steps))
	failed := make(chan error, 1)
	go func() {
		actor := &phone.Actor{Call: call, Load: k.flags.load, Began: func(s phone.Step, u *phone.Utterance) { began <- spoken{s, s.Keys, u} }}
		failed <- actor.Play(ctx, steps)
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case s := <-began:
			k.begin(s)
		case <-tick.C:
			k.measure(false)
		case err := <-failed:
			if err != nil {
				k.report.Failure = err.Error()
				_ = call.Hangup(ctx)
			}
			if _, err := call.WaitEnd(ctx); err != nil {
				return err
			}
			k.measure(true)
			k.report.End = call.End()
			k.say("ended", k.report.End.Reason, k.report.End.At, 0)
			return nil
		}
	}
}

func (k *caller) begin(s spoken) {
	switch {
	case s.utterance != nil:
		k.spoken = append(k.spoken, s)
		k.say("said", wordsOf(s.step.File), k.phone.Now(), 0)
	case s.key != "":
		k.spoken = append(k.spoken, s)
		k.say("pressed", s.key, k.phone.Now(), 0)
	}
}

// measure tells new replies and barge-ins. A barge-in is told when the agent has
// been silent for long enough that its end is certain.
func (k *caller) measure(final bool) {
	rule := audio.DefaultRule()
	asked, answers := k.asked(), audio.Utterances(k.active.Log().Marks(phone.Heard), rule)
	if len(answers) > 0 && !k.seen[-1] {
		k.seen[-1] = true
		k.say("reply", "greeting", answers[0].Start, answers[0].Start-k.report.Answered)
	}
	for _, t := range audio.Replies(asked, answers) {
		if !k.seen[t.Answered.Start] {
			k.seen[t.Answered.Start] = true
			k.say("reply", "", t.Answered.Start, t.Latency)
		}
	}
	for _, b := range audio.Interruptions(asked, answers) {
		if !k.seen[b.Caller.Start] && (final || k.phone.Now()-b.Agent.End > rule.Hang+100*time.Millisecond) {
			k.seen[b.Caller.Start] = true
			k.say("barge-in", "", b.Agent.End, b.Stop)
		}
	}
}

// asked are the caller's utterances and, as spans without length, the keys, in
// order of time. Of several keys in a row only the last can expect a reply.
func (k *caller) asked() []audio.Span {
	out := audio.Utterances(k.active.Log().Marks(phone.Sent), audio.DefaultRule())
	last := uint32(0)
	for _, p := range k.active.Log().Packets() {
		if p.Direction == phone.Sent && p.Digit != 0 && p.Timestamp != last {
			last = p.Timestamp
			out = append(out, audio.Span{Start: p.At, End: p.At})
		}
	}
	slices.SortFunc(out, func(a, b audio.Span) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// write leaves the report, the stereo sound and the capture.
func (k *caller) write() error {
	if k.active == nil {
		return nil
	}
	log := k.active.Log()
	r := &k.report
	r.Sent, r.Heard, r.Digits = log.Marks(phone.Sent), log.Marks(phone.Heard), log.Digits(phone.Sent)
	r.Asked, r.Answers = k.asked(), audio.Utterances(r.Heard, audio.DefaultRule())
	for _, p := range log.Packets() {
		switch {
		case p.Direction == phone.Sent:
			r.SentPackets++
			if p.Dropped {
				r.LostSent = append(r.LostSent, p.At)
			}
		case p.Direction == phone.Heard:
			r.HeardPackets++
			if p.Dropped {
				r.LostHeard = append(r.LostHeard, p.At)
			}
		}
	}
	r.Said = k.said(log.Packets())
	sound := log.Stereo()
	r.Origin, r.WAV = sound.Origin, k.flags.Out+".wav"
	var err1, err2 error
	r.Sound.Caller, err1 = packSound(sound.Left)
	r.Sound.Agent, err2 = packSound(sound.Right)
	b, err := json.Marshal(r)
	if err := errors.Join(err1, err2, err); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(k.flags.Out+".json", b, 0o600),
		sound.WriteFile(r.WAV),
		create(k.flags.Out+".pcap", func(w io.Writer) error { return k.phone.WriteCapture(w, k.active) }),
	)
}

// said are the words and keys with their times on the wire.
func (k *caller) said(packets []phone.Packet) []callerSaid {
	var out []callerSaid
	keys := map[uint32]int{} // press by timestamp
	for _, s := range k.spoken {
		if s.utterance == nil {
			continue
		}
		if first, last, ok := s.utterance.Loud(); ok {
			out = append(out, callerSaid{Text: wordsOf(s.step.File), BargeIn: s.step.Verb == "barge-in", First: first, Last: last})
		}
	}
	for _, p := range packets {
		if p.Direction != phone.Sent || p.Digit == 0 {
			continue
		}
		i, known := keys[p.Timestamp]
		if !known {
			i = len(out)
			keys[p.Timestamp] = i
			out = append(out, callerSaid{Key: string(p.Digit), First: p.At})
		}
		out[i].Last = p.At
	}
	slices.SortFunc(out, func(a, b callerSaid) int { return cmp.Compare(a.First, b.First) })
	return joinKeys(out)
}

// joinKeys makes one of the keys that follow each other within a second.
func joinKeys(said []callerSaid) []callerSaid {
	var out []callerSaid
	for _, s := range said {
		if n := len(out); n > 0 && s.Key != "" && out[n-1].Key != "" && s.First-out[n-1].Last < time.Second {
			out[n-1].Key += s.Key
			out[n-1].Last = s.Last
			continue
		}
		out = append(out, s)
	}
	return out
}

func create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// wordsOf is what a recording says, which its name tells.
func wordsOf(file string) string {
	return strings.ReplaceAll(strings.TrimPrefix(filepath.Base(file), "vm-"), "-", " ")
}

// load gives a recording, or the same words by flite when there is none.
func (c callerFlags) load(name string) ([]int16, error) {
	if c.Sounds != "" {
		pcm, err := phone.LoadSound(filepath.Join(c.Sounds, name+".wav"))
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return pcm, err
		}
	}
	flite, err := exec.LookPath("flite")
	if err != nil {
		return nil, fmt.Errorf("demo: no recording of %q and no flite to speak it; on Debian install asterisk-core-sounds-en-wav or flite", wordsOf(name))
	}
	made := c.Out + "-" + filepath.Base(name) + ".wav"
	if out, err := exec.Command(flite, "-voice", "slt", "-t", wordsOf(name), "-o", made).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("demo: flite: %w: %s", err, out)
	}
	pcm, rate, err := phone.LoadSoundAt(made)
	if err != nil {
		return nil, err
	}
	return resample.Convert(rate, 8000, resample.Voice, pcm)
}

// demoCaller is the caller's process seen from the demo.
type demoCaller struct {
	command *exec.Cmd
	lines   chan callerLine // closed when the caller has told all
	out     string
	errOut  *strings.Builder
	ended   chan error
}

func startDemoCaller(ctx context.Context, f callerFlags) (*demoCaller, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &demoCaller{lines: make(chan callerLine, 64), out: f.Out, errOut: &strings.Builder{}, ended: make(chan error, 1)}
	c.command = exec.CommandContext(ctx, self, "demo", "--caller-to="+f.To, "--caller-number="+f.Number, "--caller-name="+f.Name,
		"--caller-script="+f.Script, "--caller-sounds="+f.Sounds, "--caller-out="+f.Out,
		"--caller-loss="+strconv.FormatFloat(f.Loss, 'g', -1, 64), "--caller-seed="+strconv.FormatUint(f.Seed, 10),
		"--caller-noise="+strconv.FormatFloat(f.Noise, 'g', -1, 64))
	c.command.Stderr = c.errOut
	c.command.Cancel = func() error { return c.command.Process.Signal(syscall.SIGTERM) }
	c.command.WaitDelay = 5 * time.Second
	pipe, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		for s := bufio.NewScanner(pipe); s.Scan(); {
			var l callerLine
			if json.Unmarshal(s.Bytes(), &l) == nil {
				c.lines <- l
			}
		}
		c.ended <- c.command.Wait()
		close(c.lines)
	}()
	return c, nil
}

// report reads what the caller wrote down. It waits for the process.
func (c *demoCaller) report(r *callerReport) error {
	if err := <-c.ended; err != nil {
		return fmt.Errorf("the caller failed: %w: %s", err, strings.TrimSpace(c.errOut.String()))
	}
	b, err := os.ReadFile(c.out + ".json")
	if err != nil {
		return err
	}
	return json.Unmarshal(b, r)
}

// stop ends a caller that is still there.
func (c *demoCaller) stop() {
	_ = c.command.Process.Signal(syscall.SIGTERM)
	for range c.lines { // until its process has ended
	}
}
