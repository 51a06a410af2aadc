package e2e

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent/echo"
	"parley/agent/stt/stttest"
	"parley/call"
	"parley/sip"
	"parley/test/audio"
	"parley/test/peers"
	"parley/test/phone"
)

// TestAHundredCallsAtOnce: every caller hears its own agent, and a call costs no more
// goroutines than its budget.
func TestAHundredCallsAtOnce(t *testing.T) {
	calls := 100
	if raced {
		calls = 30 // every one of the phones is a thread of high priority
	}
	for _, kind := range []struct {
		name   string
		budget float64 // goroutines a call
	}{{"echo", 2}, {"cascade", 6}} {
		t.Run(kind.name, func(t *testing.T) {
			g := startGateway(t, func(c *call.Config, _ *sip.Config) { c.MaxCalls = calls })
			warm(t, g)
			reply := numbered("word", 6, 8, 5)
			if kind.name == "echo" {
				opener, err := echo.New(echo.DefaultConfig())
				if err != nil {
					t.Fatal(err)
				}
				g.serve("load", opener)
			} else {
				a := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ turn, _ int) { say(w, reply) })
				p := newParts(a.URL)
				for range calls {
					p.hears.Add(stttest.Utterance{Text: "hello", Confidence: 0.9})
				}
				p.plug(t, g, "load")
			}
			idle, _ := gateways()
			on := newPhone(t, phone.Config{Number: "+14155550100"})
			all := make([]*phone.Call, calls)
			together(t, 20, calls, func(i int) string { return fmt.Sprint("dial", i) }, func(t *testing.T, i int) {
				wait(t, "the answer", patience, func(ctx context.Context) (err error) {
					all[i], err = on.Dial(ctx, g.uri("load"))
					return err
				})
			})
			t.Cleanup(func() { end(t, all) })
			hello := human(t, "hello")
			for _, c := range all {
				c.Say(hello)
			}
			for i, c := range all {
				if !peers.Eventually(patience, func() bool {
					return len(audio.Utterances(c.Log().Marks(phone.Heard), audio.DefaultRule())) > 0
				}) {
					hangUp(t, c)
					record, events := g.ended(t, c)
					t.Fatalf("call %d hears nothing within %v\n%+v\n%+v", i, patience, record.Stats, events)
				}
			}
			busy, stacks := gateways()
			if each := float64(busy-idle) / float64(calls); each > kind.budget {
				t.Errorf("%.2f goroutines a call, want at most %v\n%s", each, kind.budget, common(stacks))
			} else {
				t.Logf("%.2f goroutines a call", each)
			}
			if n := g.calls.Active(); n != calls {
				t.Errorf("%d calls are up, want %d", n, calls)
			}
			for _, c := range all {
				wait(t, "the end of what is heard", patience, func(ctx context.Context) error { return c.WaitAgentSilent(ctx, 500*time.Millisecond) })
			}
			end(t, all)
			for i, c := range all {
				heard(t, g, c, i, kind.name, hello, reply)
			}
			eventually(t, patience, "no goroutine of a call is left", func() bool {
				now, _ := gateways()
				return now <= idle
			})
		})
	}
}

// heard judges what one of the callers heard.
func heard(t *testing.T, g *gateway, c *phone.Call, i int, kind string, hello []int16, reply string) {
	t.Helper()
	record, _ := g.ended(t, c)
	if record.Cause != call.CauseCallerHungUp {
		t.Errorf("call %d ended by %q", i, record.Cause)
	}
	if kind == "echo" {
		sound, least := c.Log().Stereo(), 0.8
		if record.Stats.SkippedSlots > 0 || record.Stats.Lost > 0 || raced {
			least = 0.6 // holes, but still no other sound
		}
		if m := audio.FindEnvelope(hello, 8000, sound.Right, sound.Rate); m.Score < least {
			t.Errorf("call %d hears its echo with a score of %.2f", i, m.Score)
		}
		return
	}
	sound := capture(t, c, 0, time.Hour)
	if got, err := sound.heard(reply); !sound.torn && (err != nil || got != reply) {
		t.Errorf("call %d heard %q, %v; want %q", i, got, err, reply)
	}
}

// end hangs up what is still up, all at once.
func end(t *testing.T, all []*phone.Call) {
	t.Helper()
	var wait sync.WaitGroup
	for _, c := range all {
		if c != nil {
			wait.Go(func() { hangUp(t, c) })
		}
	}
	wait.Wait()
}

// gateways counts the goroutines that are not the phone's, not HTTP's and not the
// tests' own.
func gateways() (n int, stacks []string) {
	buf := make([]byte, 16<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, "parley/test/phone") || strings.Contains(stack, "net/http") || strings.Contains(stack, "testing.") {
			continue
		}
		stacks = append(stacks, stack)
	}
	return len(stacks), stacks
}

// common lists where goroutines were made, the most frequent first enough to find it.
func common(stacks []string) string {
	counts := map[string]int{}
	for _, s := range stacks {
		if i := strings.LastIndex(s, "created by "); i >= 0 {
			s = s[i:]
		}
		at, _, _ := strings.Cut(s, " in goroutine")
		counts[at]++
	}
	var b strings.Builder
	for at, n := range counts {
		if n > 1 {
			fmt.Fprintf(&b, "%4d %s\n", n, at)
		}
	}
	return b.String()
}
