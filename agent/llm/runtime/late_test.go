package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/llm"
)

// BR-129: a tool of 30 s. The silence is filled, the caller can speak, the result comes
// as a reply of its own, and the end of the call ends the tool.
func TestLongTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := false
		slow := waitTool("slow", 20*time.Second, traitsNone)
		r := newRig(t, rigConfig(), Parts{Tools: tools(t, slow)}, calls("One moment.", "slow"), says("Yes, I am here."), says("Your parcel is in Bonn."), calls("", "slow"))
		ctx, interrupt := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() { _, err := r.reply(ctx, llm.Turn{Text: "where is my parcel"}); done <- err }()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if r.thinks() != 1 {
			t.Errorf("the silence is to be filled %d times", r.thinks())
		}
		// The caller speaks.
		r.hearer().CallerSpeaks()
		interrupt(errors.New("interrupted"))
		if err := <-done; err == nil {
			t.Error("the reply went on")
		}
		r.tell(llm.Heard{Text: "One moment.", Heard: "One moment.", Interrupted: true})
		r.holds("user: where is my parcel", "assistant: One moment. <slow {}> [cut]", "slow = IN_PROGRESS")
		if words := r.say("are you there"); words != "Yes, I am here." {
			t.Error(words)
		}
		if n := notes(r.fake.asked(-1)); !strings.Contains(n, "Still at work: slow.") {
			t.Error(n)
		}
		if r.wakes() != 0 {
			t.Error("woken for nothing")
		}
		// The result comes when nobody waits.
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if r.wakes() != 1 {
			t.Errorf("woken %d times", r.wakes())
		}
		words, err := r.reply(t.Context(), llm.Turn{Woken: true})
		if words != "Your parcel is in Bonn." || err != nil {
			t.Errorf("%q, %v", words, err)
		}
		if n := notes(r.fake.asked(-1)); !strings.Contains(n, "The result of slow has come") {
			t.Error(n)
		}
		r.heard(words)
		// Woken once more, there is nothing to tell.
		if words, err := r.reply(t.Context(), llm.Turn{Woken: true}); words != "" || err != nil || r.fake.runs() != 3 {
			t.Errorf("%q, %v after %d runs", words, err, r.fake.runs())
		}
		// The caller hangs up while a tool is at work.
		slow.Fn = func(ctx context.Context, _ map[string]any) (map[string]any, error) {
			<-ctx.Done()
			cancelled = true
			return nil, context.Cause(ctx)
		}
		go func() { _, err := r.reply(context.Background(), llm.Turn{Text: "again"}); done <- err }()
		time.Sleep(time.Second)
		r.close()
		isErr(t, <-done, ErrClosed)
		if !cancelled {
			t.Error("the tool went on after the end of the call")
		}
	})
}

// Several late results: one reply, after the last.
func TestLateResultsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig(), Parts{Tools: tools(t, waitTool("a", 5*time.Second, traitsNone), waitTool("b", 10*time.Second, traitsNone))}, calls("", "a", "b"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = r.reply(ctx, llm.Turn{Text: "both"})
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if r.wakes() != 0 {
			t.Error("woken after the first")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if r.wakes() != 1 {
			t.Errorf("woken %d times after the last", r.wakes())
		}
		_, _ = r.reply(t.Context(), llm.Turn{Woken: true})
		if n := notes(r.fake.asked(-1)); !strings.Contains(n, "The result of a, b has come.") {
			t.Error(n)
		}
	})
}

// A caller who is answered meanwhile has been told: the model is not woken for that.
func TestLateResultInTheNextReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig(), Parts{Tools: tools(t, waitTool("slow", 5*time.Second, traitsNone))}, calls("", "slow"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = r.reply(ctx, llm.Turn{Text: "where"})
		time.Sleep(10 * time.Second)
		r.say("well")
		if n := notes(r.fake.asked(-1)); !strings.Contains(n, "Results that came meanwhile, of: slow.") {
			t.Error(n)
		}
		if words, err := r.reply(t.Context(), llm.Turn{Woken: true}); words != "" || err != nil {
			t.Errorf("told twice: %q, %v", words, err)
		}
	})
}
