package turn

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// FuzzOrders gives a Controller events in any order at any pace and checks what
// must hold for all of them: at most one turn is open and every turn ends once, a
// reply is cut off only while there is one, what was paused goes on or stops, and
// when the caller falls silent the conversation comes to its end.
func FuzzOrders(f *testing.F) {
	f.Add(uint64(0), []byte{1, 10, 2, 60, 4, 1, 8, 1})
	f.Add(uint64(1), []byte{7, 1, 1, 5, 5, 1, 2, 200, 3, 3, 8, 40})
	f.Add(uint64(3), []byte{5, 1, 5, 1, 1, 1, 2, 200, 9, 3, 10, 40})
	f.Fuzz(func(t *testing.T, options uint64, events []byte) {
		if err := checkOrder(options, events); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRandomOrders(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		events := make([]byte, 2*r.IntN(80))
		for i := range events {
			events[i] = byte(r.Uint32())
		}
		if err := checkOrder(r.Uint64(), events); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

type checker struct {
	c                      *Controller
	now                    time.Time
	open, replying, paused bool
	goodbye                bool
	turns, ends            int
}

func checkOrder(options uint64, events []byte) error {
	cfg := DefaultConfig()
	cfg.MuteGreeting = options&1 != 0
	if options&2 != 0 {
		cfg.Confirm = 0
	}
	if options&4 != 0 {
		cfg.MaxDigits = 2
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
	in := Input{Kind: InputKind(b % 12), Lag: time.Duration(b) * time.Millisecond}
	switch in.Kind {
	case Interim, Final:
		in.Text = [...]string{"", "one", "one two", "yes.", " "}[int(b)/11%5]
	case Digit:
		in.Digit = "0123456789*#"[int(b)/11%12]
	case Expect:
		in.MaxDigits = int(b) / 11 % 4
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
	}
	return fmt.Errorf("due again and again without end")
}

// silence: the caller hangs on and says nothing, replies are heard out.
func (k *checker) silence() error {
	for _, kind := range []InputKind{Unhold, VoiceOff} {
		if err := k.step(Input{Kind: kind}); err != nil {
			return err
		}
	}
	for range 20 {
		if err := k.wait(15 * time.Second); err != nil {
			return err
		}
		if k.open || k.paused {
			return fmt.Errorf("after 15 s of silence: open %v, paused %v", k.open, k.paused)
		}
		if k.goodbye {
			if k.turns != k.ends {
				return fmt.Errorf("%d turns, %d ends", k.turns, k.ends)
			}
			return nil
		}
		if !k.replying {
			return fmt.Errorf("after 15 s of silence nobody speaks")
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
	}
	for _, d := range k.c.Step(in) {
		if err := k.check(d); err != nil {
			return fmt.Errorf("%v after %+v: %w", d.Kind, in, err)
		}
	}
	if k.open != k.c.Open() {
		return fmt.Errorf("the turn is open: %v, said to be: %v", k.open, k.c.Open())
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
		err := bad(!k.replying || k.paused, "nothing to pause")
		k.paused = true
		return err
	case Resume:
		err := bad(!k.paused, "not paused")
		k.paused = false
		return err
	case Open:
		err := bad(k.open || k.c.Muted(), "a second turn, or one while muted")
		k.open = true
		k.turns++
		return err
	case Stop:
		err := bad(!k.replying || !k.open, "no reply to cut off, or nobody who does")
		k.replying, k.paused = false, false
		return err
	case Finalize:
		return nil
	case Close, GoOn, Discard:
		err := bad(!k.open || k.replying, "no turn to end, or a second reply")
		k.open = false
		k.ends++
		k.replying = d.Kind != Discard
		if err == nil && d.Kind == Close {
			err = bad((d.Text == "") != d.Garbled, "words and garbled at once, or neither")
		}
		return err
	case Idle, Goodbye:
		err := bad(k.open || k.replying, "not idle")
		k.replying = true
		k.goodbye = k.goodbye || d.Kind == Goodbye
		return err
	}
	return nil
}
