package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"parley/agent"
	"parley/agent/cascade"
	"parley/agent/llm"
	"parley/agent/stt"
	"parley/media/vad"
	"parley/test/phone"
)

// line is what a caller's line and room are like.
type line struct {
	codec string
	noise string // "": none
	snr   float64
	echo  bool
}

// String is the line as rows of tables name it.
func (l line) String() string {
	s := l.codec
	if l.noise == "" {
		s += ", clean"
	} else {
		s += fmt.Sprintf(", %s %.0f dB", l.noise, l.snr)
	}
	if l.echo {
		s += ", echo"
	}
	return s
}

// setting is how the gateway is set.
type setting struct {
	name     string
	detector string // "energy" or "silero"
	vad      func(*vad.EnergyConfig)
	change   func(*cascade.Config)
	marks    bool        // the recogniser ends sentences with full stops
	expect   *llm.Expect // what the agent says that it expects
	hears    stt.Recognizer
}

// kind is what somebody does.
type kind string

const (
	sentence    kind = "sentence"    // interrupts, and means it
	command     kind = "command"     // the same by a command
	backchannel kind = "backchannel" // only says to be listening
	burst       kind = "burst"       // coughs, breathes, knocks
	alone       kind = "alone"       // is silent: there is only what is around
	ending      kind = "ending"      // says something to an agent that is silent
	pausing     kind = "pausing"     // and pauses within the sentence
	digits      kind = "digits"      // gives digits, or spells, in groups
)

// over says whether the agent speaks meanwhile.
func (k kind) over() bool { return k != ending && k != pausing && k != digits }

type item struct {
	kind  kind
	says  utterance
	pause time.Duration // within the sentence, or between two groups
}

// trial is one call.
type trial struct {
	line    line
	setting *setting
	items   []item
	seed    uint64

	outcomes []outcome
	err      error
}

// aloneFor is how long nothing is said in an item of that kind.
const aloneFor = 10 * time.Second

// said is an item of a call and when it was said, on the phone's clock.
type said struct {
	item
	from, to time.Duration
}

// run places the call, says all items and judges what the phone heard.
func (t *trial) run(ctx context.Context, b *bench, number int) error {
	random := rand.New(rand.NewPCG(t.seed, 3))
	g, err := b.gateway(t.setting)
	if err != nil {
		return err
	}
	w := &witness{marks: t.setting.marks}
	opener, err := t.agent(w, b.voice)
	if err != nil {
		return err
	}
	pc := phone.Config{
		Number: fmt.Sprintf("+1415556%04d", number), Codecs: codecNames(t.line.codec), Coders: []phone.Coder{coder()}, Noise: -66,
		Room: b.noises.room(t.line.noise, t.line.snr, random),
	}
	if t.line.echo {
		pc.Echo = phone.Echo{Level: -20, Delay: time.Duration(40+random.IntN(81)) * time.Millisecond}
	}
	p, err := phone.New(pc)
	if err != nil {
		return err
	}
	defer p.Close()
	dialling, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := p.Dial(dialling, g.serve(fmt.Sprintf("agent%d", number), opener))
	if err != nil {
		return err
	}
	s := &speaker{ctx: ctx, phone: p, call: c, witness: w, random: random}
	all, err := s.sayAll(t.items)
	if err != nil {
		return err
	}
	leaving, left := context.WithTimeout(ctx, 10*time.Second)
	defer left()
	if err := c.Hangup(leaving); err != nil {
		return err
	}
	select {
	case events := <-g.record(c.ID()):
		t.outcomes = judge(all, timeline(p, c, events))
		return nil
	case <-time.After(10 * time.Second):
		return fmt.Errorf("no record of the call")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// agent is whom the call reaches.
func (t *trial) agent(w *witness, v *voice) (agent.Opener, error) {
	c := cascade.DefaultConfig()
	c.FillerAfter = 0
	c.Turn.Idle = 0
	if t.setting.change != nil {
		t.setting.change(&c)
	}
	c.STT, c.TTS, c.LLM = w, v, teller{tells: t.items[0].kind.over(), expect: t.setting.expect}
	if t.setting.hears != nil {
		c.STT = t.setting.hears
	}
	return cascade.New(c)
}

// speaker is a caller at work.
type speaker struct {
	ctx     context.Context
	phone   *phone.Phone
	call    *phone.Call
	witness *witness
	random  *rand.Rand
}

func (s *speaker) sayAll(items []item) ([]said, error) {
	var out []said
	for _, it := range items {
		if it.kind.over() {
			s.patient(8*time.Second, func(ctx context.Context) error { return s.call.WaitAgentSpeaking(ctx, 1200*time.Millisecond) })
		} else {
			s.patient(8*time.Second, func(ctx context.Context) error { return s.call.WaitAgentSilent(ctx, 400*time.Millisecond) })
		}
		if err := s.call.Pause(s.ctx, time.Duration(100+s.random.IntN(700))*time.Millisecond); err != nil {
			return nil, err
		}
		one, err := s.say(it)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// patient waits for something that may not come, such as an agent that speaks on in
// noise, for so long at most.
func (s *speaker) patient(most time.Duration, wait func(context.Context) error) {
	ctx, cancel := context.WithTimeout(s.ctx, most)
	defer cancel()
	_ = wait(ctx)
}

// say does one item and waits until what comes of it can be seen.
func (s *speaker) say(it item) (said, error) {
	if it.kind == alone {
		from := s.phone.Now()
		err := s.call.Pause(s.ctx, aloneFor)
		return said{it, from, s.phone.Now()}, err
	}
	u := s.call.Say(it.says.pcm)
	for told := false; !told; {
		if first, _, ok := u.Sent(); ok {
			s.witness.says(it.says, s.phone.Wall(first))
			told = true
		} else if err := s.call.Pause(s.ctx, 2*time.Millisecond); err != nil {
			return said{}, err
		}
	}
	if err := u.Wait(s.ctx); err != nil {
		return said{}, err
	}
	first, last, _ := u.Sent()
	one := said{it, first, last}
	if !it.kind.over() {
		s.patient(7*time.Second, func(ctx context.Context) error { return s.call.WaitAgentSpeaking(ctx, 60*time.Millisecond) })
		return one, s.call.Pause(s.ctx, 100*time.Millisecond)
	}
	if err := s.call.Pause(s.ctx, 1500*time.Millisecond); err != nil {
		return said{}, err
	}
	s.patient(2500*time.Millisecond, func(ctx context.Context) error { return s.call.WaitAgentSpeaking(ctx, 300*time.Millisecond) })
	return one, nil
}
