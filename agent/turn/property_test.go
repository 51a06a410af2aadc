package turn

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// FuzzOrders gives a Controller events in any order at any pace and checks what
// must hold for all of them: at most one turn is open and every turn ends once, a
// reply is cut off only while there is one and is never one to another turn, what was
// paused goes on or stops, edges of a mute alternate and nothing opens behind one, and
// when the caller falls silent the conversation comes to its end.
func FuzzOrders(f *testing.F) {
	f.Add(uint64(0), []byte{1, 10, 2, 60, 4, 1, 8, 1})
	f.Add(uint64(1), []byte{7, 1, 1, 5, 5, 1, 2, 200, 3, 3, 8, 40})
	f.Add(uint64(3), []byte{5, 1, 5, 1, 1, 1, 2, 200, 9, 3, 10, 40})
	f.Add(uint64(1<<7), []byte{4, 1, 22, 9, 4, 40, 23, 60})
	f.Fuzz(func(t *testing.T, options uint64, events []byte) {
		if err := checkOrder(options, events); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRandomOrders tries 100,000 of them, or as many as PARLEY_ORDERS says.
func TestRandomOrders(t *testing.T) {
	orders := uint64(100_000)
	if testing.Short() {
		orders = 10_000
	}
	if n, err := strconv.ParseUint(os.Getenv("PARLEY_ORDERS"), 10, 64); err == nil {
		orders = n
	}
	for seed := range orders {
		r := rand.New(rand.NewPCG(seed, 1))
		events := make([]byte, 2*r.IntN(60))
		for i := range events {
			events[i] = byte(r.Uint32())
		}
		if err := checkOrder(r.Uint64(), events); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// settings makes a configuration of random bits.
func settings(options uint64) Config {
	bit := func(n uint) bool { return options>>n&1 != 0 }
	cfg := DefaultConfig()
	cfg.MuteGreeting = bit(0)
	if bit(1) {
		cfg.Confirm = 0
	}
	if bit(2) {
		cfg.MaxDigits = 2
	}
	if bit(3) {
		cfg.BackchannelVoice = 0
	}
	if bit(4) {
		cfg.EagerTimeout = 100 * time.Millisecond
	}
	if bit(5) {
		cfg.NoAudio = time.Second
	}
	cfg.MinConfidence = 0.5
	cfg.WakePhrases = []string{"one"}
	cfg.Start = [...][]StartStrategy{
		{StartVoice, StartTranscript}, {StartMinWords}, {StartWakePhrase, StartVoice, StartTranscript},
		{StartExternal, StartVoice}, {StartVoice, StartTranscript, StartExternal}, nil,
	}[options>>10%6]
	cfg.Stop = [...][]StopStrategy{
		{StopTimeout}, {StopDetector}, {StopExternal}, {StopTimeout, StopDeferred}, {StopDetector, StopExternal, StopDeferred},
	}[options>>20%5]
	cfg.Mute = [...][]MuteStrategy{nil, {MuteAgent}, {MuteFirstTurn}, {MuteFirstSpeech, MuteTools}, {MuteTools}, nil}[options>>30%6]
	return cfg
}

type checker struct {
	c                      *Controller
	now                    time.Time
	open, replying, paused bool
	muted                  bool
	goodbye                bool
	turns, ends, tools     int
	inferred               string // what the reply is to that was asked for early
	judged                 int
}

func checkOrder(options uint64, events []byte) error {
	cfg := settings(options)
	if err := cfg.Validate(); err != nil {
		return err
	}
	k := &checker{now: time.Unix(0, 0)}
	k.c = NewController(cfg, k.now)
	k.replying = true
	if err := k.step(Input{Kind: ReplyBegan}); err != nil {
		return err
	}
	for i := 0; i+1 < len(events); i += 2 {
		if err := k.wait(time.Duration(events[i+1]) * 10 * time.Millisecond); err != nil {
			return err
		}
		if err := k.step(eventOf(events[i])); err != nil {
			return fmt.Errorf("event %d: %w", i/2, err)
		}
	}
	return k.silence()
}

func eventOf(b byte) Input {
	in := Input{Kind: InputKind(b % byte(Incomplete+1)), Lag: time.Duration(b) * time.Millisecond, Asked: b > 200}
	more := int(b) / int(Incomplete+1)
	switch in.Kind {
	case Interim, Final, ReplyWords:
		in.Text = [...]string{"", "one", "one two", "okay", "stop", "four five six", "yes.", "three words more", " ", "hm", "no, thanks"}[more]
		in.Confidence = float64(more) / 11
	case Digit:
		in.Digit = "0123456789*#"[more%12]
	case Expect:
		in.MaxDigits = more % 4
	case Verdict:
		in.Question, in.Probability = more, float64(more)/11
	case Incomplete:
		in.Wait = time.Duration(more-2) * time.Second
	}
	return in
}

// wait lets the clock run, stopping when the Controller is due.
func (k *checker) wait(d time.Duration) error {
	end := k.now.Add(d)
	for range 1000 {
		due, ok := k.c.Due()
		if !ok || due.After(end) {
			k.now = end
			return nil
		}
		if due.Before(k.now) {
			return fmt.Errorf("due %v in the past after a step", k.now.Sub(due))
		}
		k.now = due
		if err := k.step(Input{}); err != nil {
			return err
		}
		if again, ok := k.c.Due(); ok && !again.After(k.now) {
			return fmt.Errorf("due at %v, and still after it", k.now)
		}
	}
	return fmt.Errorf("due again and again without end")
}

// silence: the caller hangs on and says nothing, replies are heard out, tools end.
func (k *checker) silence() error {
	for _, kind := range []InputKind{Unhold, VoiceOff} {
		if err := k.step(Input{Kind: kind}); err != nil {
			return err
		}
	}
	for k.tools > 0 {
		if err := k.step(Input{Kind: ToolsEnded}); err != nil {
			return err
		}
	}
	for range 20 {
		if err := k.wait(75 * time.Second); err != nil { // MaxTurn, a pause for thought, idle
			return err
		}
		if k.open || k.paused {
			return fmt.Errorf("after silence: open %v, paused %v", k.open, k.paused)
		}
		if k.goodbye {
			if k.turns != k.ends || k.inferred != "" {
				return fmt.Errorf("%d turns, %d ends, an inference of %q", k.turns, k.ends, k.inferred)
			}
			return nil
		}
		if !k.replying {
			return fmt.Errorf("after silence nobody speaks")
		}
		if err := k.step(Input{Kind: ReplyEnded}); err != nil {
			return err
		}
	}
	return fmt.Errorf("silence does not end in a goodbye")
}

func (k *checker) step(in Input) error {
	in.At = k.now
	switch in.Kind {
	case ReplyEnded:
		k.replying = false
	case ReplyBegan:
		if k.open { // whoever holds the conversation does not begin over the caller
			return nil
		}
		k.replying = true
	case ToolsBegan:
		k.tools++
	case ToolsEnded:
		k.tools = max(0, k.tools-1)
	}
	muted := k.muted
	for _, d := range k.c.Step(in) {
		if d.Reason == "" && d.Kind != Muted && d.Kind != Unmuted && d.Kind != Drop {
			return fmt.Errorf("%v after %+v: nobody decided it", d.Kind, in)
		}
		if err := k.check(d); err != nil {
			return fmt.Errorf("%v after %+v: %w", d.Kind, in, err)
		}
	}
	if k.open != k.c.Open() || k.muted != k.c.Muted() {
		return fmt.Errorf("the turn is open: %v, said to be: %v; muted: %v, said to be: %v", k.open, k.c.Open(), k.muted, k.c.Muted())
	}
	if muted && k.muted && k.paused {
		return fmt.Errorf("paused while muted after %+v", in)
	}
	return nil
}

func (k *checker) check(d Decision) error {
	bad := func(wrong bool, what string) error {
		if wrong {
			return fmt.Errorf("%s", what)
		}
		return nil
	}
	switch d.Kind {
	case Pause:
		err := bad(!k.replying || k.paused || k.muted, "nothing to pause, or muted")
		k.paused = true
		return err
	case Resume:
		err := bad(!k.paused, "not paused")
		k.paused = false
		return err
	case Open:
		err := bad(k.open || k.muted, "a second turn, or one while muted")
		k.open = true
		k.turns++
		return err
	case Stop:
		err := bad(!k.replying || !k.open, "no reply to cut off, or nobody who does")
		k.replying, k.paused = false, false
		return err
	case Close, GoOn, Discard:
		return k.checkEnd(d)
	case Idle, Goodbye:
		err := bad(k.open || k.replying || k.tools > 0 && d.Reason == BySilence, "not idle")
		k.replying = true
		k.goodbye = k.goodbye || d.Kind == Goodbye
		return err
	case Judge:
		err := bad(!k.open || d.Question <= k.judged, "a verdict on nothing, or one asked for twice")
		k.judged = d.Question
		return err
	case Infer:
		err := bad(!k.open || d.Text == "" || k.inferred != "", "a reply to nothing, or a second one")
		k.inferred = d.Text
		return err
	case Drop:
		err := bad(k.inferred == "", "nothing to drop")
		k.inferred = ""
		return err
	case Muted, Unmuted:
		err := bad(k.muted == (d.Kind == Muted), "no edge")
		k.muted = d.Kind == Muted
		return err
	}
	return nil
}

// checkEnd checks the end of a turn: one reply to it, and to nothing else.
func (k *checker) checkEnd(d Decision) error {
	inferred := k.inferred
	wasOpen, wasReplying := k.open, k.replying
	k.open, k.inferred = false, ""
	k.ends++
	k.replying = d.Kind != Discard
	switch {
	case !wasOpen || wasReplying:
		return fmt.Errorf("no turn to end, or a second reply")
	case inferred != "" && (!d.Inferred || inferred != d.Text):
		return fmt.Errorf("the turn is %q, and a reply to %q is left", d.Text, inferred)
	case inferred == "" && d.Inferred:
		return fmt.Errorf("no reply was asked for")
	case d.Kind == Close && (d.Text == "") != d.Garbled:
		return fmt.Errorf("words and garbled at once, or neither")
	}
	return nil
}
