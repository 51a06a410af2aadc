package record_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
)

// An agent ends its call by Call.Over and goes on with what it has left to do. The call
// hears of that at once and as it was said; what the agent does after it is on record,
// the record ends once, when Run returns, and says what ended the call.
func TestTheCallIsOverBeforeTheRecord(t *testing.T) {
	boom := errors.New("boom")
	done := errors.New("call: the agent is done")
	for name, c := range map[string]struct {
		over  error // what the agent says
		cause error // of the call's end
		again bool  // it says so twice
		want  string
	}{
		"hangs up":       {nil, done, false, "call: the agent is done"},
		"fails":          {boom, errors.Join(boom), false, "the agent failed"},
		"hangs up twice": {nil, done, true, "call: the agent is done"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var told []error
				var at, wrote time.Time
				began := time.Now()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				call := r.call("12025550143")
				call.Over = func(err error) {
					told, at = append(told, err), time.Now()
					cancel(c.cause) // as a call does
				}
				a := &fake{run: func(_ context.Context, c2 agent.Call) error {
					c2.Over(c.over)
					if c.again {
						c2.Over(c.over)
					}
					time.Sleep(2 * time.Second) // a summary, say
					c2.Memory.Set("user:summary", "wanted a table")
					wrote = time.Now()
					return c.over
				}}
				s, err := r.opener(a).Open(ctx, call)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Run(ctx); !errors.Is(err, c.over) {
					t.Errorf("Run: %v", err)
				}
				n := 1
				if c.again {
					n = 2
				}
				if len(told) != n || told[0] != c.over || at != began || wrote.Sub(began) != 2*time.Second {
					t.Errorf("told %v after %v, wrote after %v", told, at.Sub(began), wrote.Sub(began))
				}
				synctest.Wait()
				stored := r.read(t, "12025550143", "session1")
				ends := 0
				for e := range stored.Events().All() {
					if e.CustomMetadata["ended"] == c.want {
						ends++
					}
				}
				summary, err := stored.State().Get("user:summary")
				if ends != 1 || err != nil || summary != "wanted a table" {
					t.Errorf("%d ends, summary %v, %v in %q", ends, summary, err, lines(stored))
				}
				r.close(t)
			})
		})
	}
}

// A host that is nobody to tell stays nobody, on record too.
func TestNobodyToTellThatItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		hold(t, r.opener(&fake{run: func(_ context.Context, c agent.Call) error {
			if c.Over != nil {
				t.Error("there is somebody to tell")
			}
			return nil
		}}), r.call("12025550143"))
		synctest.Wait()
		r.close(t)
	})
}
