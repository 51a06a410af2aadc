package cascade

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/stt"
	"parley/agent/turn"
)

// TestManyOrders steps through 100,000 random orders of events (or PARLEY_ORDERS of them)
// with the loop, the model, the voice and the call on one goroutine, which takes a tenth of
// a millisecond where TestAnyOrderOfEvents takes ten. What must hold: one reply to a turn
// and one turn at a time; nothing of an older reply is sent after a newer one's; no more is
// said to have been heard than was sent; the model is told of each of its replies once, and
// before it is asked for the next; each tool call is answered; and who falls silent is let
// go.
func TestManyOrders(t *testing.T) {
	orders := 100_000
	if testing.Short() || raceDetector {
		orders = 5_000
	}
	if n, err := strconv.Atoi(os.Getenv("PARLEY_ORDERS")); err == nil {
		orders = n
	}
	const shards = 8
	for shard := range shards {
		t.Run(strconv.Itoa(shard), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for i := shard; i < orders; i += shards {
					if err := step(uint64(i)); err != nil {
						t.Fatalf("order %d: %v", i, err)
					}
				}
			})
		})
	}
}

// stepper is a conversation and everybody in it.
type stepper struct {
	c     *rand.Rand
	s     *session
	tools int // calls without an answer

	think *reply // what the model is at
	left  int    // pieces that it has yet to give
	asked int    // replies it was asked for
	told  int    // replies it was told the end of
	wrong error

	speak *reply // what the voice is at
	at    time.Duration
	wait  chan struct{} // for an action to be done
	mouth mouth

	events []agent.Event
}

func (x *stepper) n(n int) int { return x.c.IntN(n) }

func (x *stepper) fail(format string, args ...any) {
	if x.wrong == nil {
		x.wrong = fmt.Errorf(format, args...)
	}
}

// configure makes settings by chance.
func (x *stepper) configure() Config {
	cfg := DefaultConfig()
	cfg.STT, cfg.TTS, cfg.LLM = quick{x}, quick{x}, quickModel{x}
	cfg.FillerAfter, cfg.VoiceTries = 0, 0 // they need goroutines, or end calls
	cfg.FirstToken, cfg.Turn.Idle = 3*time.Second, 2*time.Second
	if x.n(2) == 0 {
		cfg.Greeting = "g0 g1 g2. g3."
	}
	if x.n(3) == 0 {
		cfg.Eager = 200 * ms
	}
	if x.n(3) == 0 {
		cfg.Turn.Stop = []turn.StopStrategy{turn.StopTimeout, turn.StopDeferred}
	}
	if x.n(3) == 0 {
		cfg.GoOn = "goon."
	}
	if x.n(4) == 0 {
		cfg.Misheard = []string{"sorry."}
	}
	if x.n(4) == 0 {
		cfg.Reprompts = []string{"well."}
	}
	cfg.Turn.MuteGreeting = x.n(5) == 0
	if x.n(6) == 0 {
		cfg.Turn.Mute = []turn.MuteStrategy{turn.MuteTools}
	}
	return cfg
}

// step plays one order.
func step(seed uint64) error {
	x := &stepper{c: rand.New(rand.NewPCG(seed, 99))}
	x.mouth = mouth{x: x, since: time.Now()}
	opener := &opener{cfg: x.configure(), filler: &filler{}}
	opened, err := opener.Open(context.Background(), agent.Call{
		Speaker: &x.mouth, Control: agent.NoControl{}, Emit: func(e agent.Event) { x.events = append(x.events, e) },
	})
	if err != nil {
		return err
	}
	x.s = opened.(*session)
	x.s.begin(time.Now())
	for range x.n(24) {
		x.pass(time.Duration(x.n(1 + x.n(1500)*int(ms))))
		x.event()
	}
	x.s.Notice(agent.Notice{Kind: agent.VoiceOff, At: time.Now()})
	if x.mouth.held {
		x.hold(false)
	}
	// The caller is silent from now on, and the model done with its tools.
	for began := time.Now(); !x.s.over && x.wrong == nil; {
		if x.pass(2 * time.Second); time.Since(began) > 3*time.Minute {
			x.fail("stuck: %s", x.s.state)
		}
	}
	x.s.shutdown(context.Background(), nil)
	x.check()
	if x.wrong != nil {
		return fmt.Errorf("%w\n%s", x.wrong, x.log())
	}
	return nil
}

// pass lets time pass, with everything that happens by itself.
func (x *stepper) pass(d time.Duration) {
	for until := time.Now().Add(d); ; {
		x.settle()
		if x.s.over || x.wrong != nil {
			return
		}
		next := until
		if due := x.s.nextDue(); !due.IsZero() && due.Before(next) {
			next = due
		}
		// The model and the voice do something now and then.
		if at := time.Now().Add(80 * ms); (x.think != nil || x.speak != nil) && at.Before(next) {
			next = at
		}
		time.Sleep(max(time.Until(next), 0))
		x.workers()
		x.s.passTime()
		if !time.Now().Before(until) {
			x.settle()
			return
		}
	}
}

// settle has the loop take what waits for it.
func (x *stepper) settle() {
	for range 1000 {

		select {
		case e := <-x.s.events:
			if x.s.over {
				return
			}
			e.happen(x.s)
			x.s.passTime()
			continue
		case <-x.s.wishes.token:
			x.s.passTime()
			continue
		default:
		}
		return
	}
	x.fail("events without end")
}

// event is something from outside.
func (x *stepper) event() {
	now, lag := time.Now(), time.Duration(x.n(200))*ms
	notice := func(k agent.NoticeKind) { x.s.Notice(agent.Notice{Kind: k, At: now, Lag: lag}) }
	hear := func(texts ...string) stt.Result {
		return stt.Result{Text: texts[x.n(len(texts))], Confidence: float64(x.n(10)) / 10}
	}
	switch x.n(14) {
	case 0, 1:
		notice(agent.VoiceOn)
	case 2:
		notice(agent.VoiceConfirmed)
	case 3, 4, 5:
		notice(agent.VoiceOff)
	case 6:
		x.s.Notice(agent.Notice{Kind: agent.Digit, At: now, Digit: "0123456789*#"[x.n(12)]})
	case 7:
		x.s.results(0)(hear("", "one", "one two", "okay", "stop"))
	case 8, 9:
		r := hear("", "one", "one two.", "mhm", "stop")
		r.Final = true
		x.s.results(0)(r)
	case 10:
		x.hold(!x.mouth.held)
	case 11:
		x.s.wishes.wake()
	case 12:
		told := make(chan error, 1)
		x.s.offer(announcement{ctx: context.Background(), text: "notice.", told: told})
	case 13:
		x.s.wishes.hangUp()
	}
}

func (x *stepper) hold(on bool) {
	x.mouth.move()
	x.mouth.held = on
	kind := agent.Resumed
	if on {
		kind = agent.Held
	}
	x.s.Notice(agent.Notice{Kind: kind, At: time.Now()})
}

func (x *stepper) check() {
	if x.asked != x.told {
		x.fail("asked for %d replies, told of %d", x.asked, x.told)
	}
	if err := alternating(x.events); err != nil {
		x.fail("%v", err)
	}
	x.mouth.Stop()
	sent := map[string]int{}
	last := 0
	for _, s := range x.mouth.spans {
		sent[s.word]++
		var n, w int
		if _, err := fmt.Sscanf(s.word, "r%dw%d", &n, &w); err == nil {
			if n < last {
				x.fail("%s was sent after reply %d", s.word, last)
			}
			last = n
		}
	}
	calls, results, turns, replies := 0, 0, 0, 0
	for _, e := range x.events {
		switch e.Type {
		case agent.EventAgentStopped:
			if !strings.HasPrefix(e.Text, e.Heard) {
				x.fail("heard %q of %q", e.Heard, e.Text)
			}
			for _, w := range strings.Fields(e.Heard) {
				if sent[w] == 0 {
					x.fail("%q is said to have been heard", w)
				}
			}
		case agent.EventToolCall:
			calls++
		case agent.EventToolResult:
			results++
		case agent.EventUserStopped:
			if slices.Contains([]string{"", "digits", "garbled", "misheard", "unfinished"}, e.Reason) {
				turns++
			}
		case agent.EventInference:
			if e.Reason == agent.InferenceTurn {
				replies++
			}
		}
	}
	if calls != results {
		x.fail("%d tool calls, %d results", calls, results)
	}
	if replies > turns {
		x.fail("%d replies to %d turns", replies, turns)
	}
}

func (x *stepper) log() string {
	r := rig{events: x.events}
	if len(x.events) > 0 {
		r.began = x.events[0].At
	}
	return r.log()
}
