package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/tool"
)

// TestRandomCalls: whatever a caller, a model and tools do in which order, the model is
// run over a valid conversation every time (fake checks that), the caller's words stand
// in it once per turn and the agent's no further than they were heard, nothing is told
// twice, and a call that ends leaves nothing behind.
func TestRandomCalls(t *testing.T) {
	seeds := 3000
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { randomCall(t, rand.New(rand.NewPCG(uint64(seed), 2))) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// wild is a model that does anything.
func wild(r *rand.Rand) run {
	pick := r.IntN(12)
	wait := time.Duration(r.IntN(5000)) * time.Millisecond
	words := fmt.Sprintf("w%d w%d. w%d w%d.", r.IntN(1000), r.IntN(1000), r.IntN(1000), r.IntN(1000))
	switch pick {
	case 0:
		return nothing
	case 1:
		return hangs
	case 2:
		return fails(errors.New("boom"))
	case 3:
		return after(wait, says("○"))
	case 4:
		return calls("", []string{"fast", "slow", "nope"}[r.IntN(3)], "fast")
	case 5:
		return after(wait, calls(words, "slow", "interruptible", "background"))
	case 6:
		return calls(words, "fast {bro")
	}
	return after(wait, says(words))
}

func randomCall(t *testing.T, r *rand.Rand) {
	cfg := rigConfig()
	cfg.ToolWait, cfg.MaxRounds = 3*time.Second, 3
	cfg.Summary = SummaryConfig{MaxMessages: 10, Keep: 4, Timeout: 10 * time.Second}
	script := make([]run, 40)
	for i := range script {
		script[i] = wild(r)
	}
	rg := newRig(t, cfg, Parts{Tools: tools(t,
		waitTool("fast", 100*time.Millisecond, traitsNone), waitTool("slow", 7*time.Second, tool.Traits{ThinkingSound: true}),
		waitTool("interruptible", 5*time.Second, tool.Traits{Interruptible: true}),
		waitTool("background", 9*time.Second, tool.Traits{Behavior: tool.ToolBehaviorNonBlocking}))}, script...)
	rg.fake.script = append(rg.fake.script, nothing)
	said, withdrawn := map[string]bool{}, ""
	for turn := range 8 {
		text := fmt.Sprintf("turn%d of the caller", turn)
		t0 := llm.Turn{Text: text, Tentative: r.IntN(4) == 0, Confidence: r.Float64()}
		switch r.IntN(8) {
		case 0:
			t0 = llm.Turn{Woken: true}
		case 1:
			t0 = llm.Turn{Nothing: true, Garbled: r.IntN(2) == 0}
		}
		if withdrawn != "" && t0.Text != "" {
			t0.Text = withdrawn + " " + t0.Text
			delete(said, withdrawn)
		}
		if t0.Text != "" {
			said[t0.Text], withdrawn = true, ""
		}
		ctx, cancel := context.WithCancel(t.Context())
		cut := r.IntN(3) == 0
		if cut {
			h := rg.hearer()
			timer := time.AfterFunc(time.Duration(r.IntN(6000))*time.Millisecond, func() { h.CallerSpeaks(); cancel() })
			defer timer.Stop()
		}
		words, _ := rg.reply(ctx, t0)
		incomplete := false
		for _, c := range rg.chunks {
			incomplete = incomplete || c.Incomplete > 0
		}
		words = strings.TrimSpace(words)
		heard, gone := words, ctx.Err() != nil
		if gone || r.IntN(4) == 0 {
			heard = strings.TrimSpace(words[:r.IntN(len(words)+1)])
		}
		if words != "" || gone {
			h := llm.Heard{Text: words, Heard: heard, Interrupted: heard != words || gone, Withdrawn: t0.Text != "" && gone && (t0.Tentative || r.IntN(2) == 0)}
			rg.tell(h)
			if h.Withdrawn {
				withdrawn = t0.Text
			}
		}
		if incomplete && t0.Text != "" {
			withdrawn = t0.Text
		}
		cancel()
		time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
		checkCall(t, rg, said, withdrawn)
	}
	rg.close()
}

// checkCall looks at the conversation.
func checkCall(t *testing.T, rg *rig, said map[string]bool, open string) {
	m, ok := rg.model.(*model)
	if !ok {
		return
	}
	messages := m.pair.Context().Snapshot().Messages
	if err := chat.Valid(messages); err != nil {
		t.Error(err)
	}
	count := map[string]int{}
	for _, msg := range messages {
		if msg.Role == chat.RoleUser {
			count[msg.Content]++
		}
	}
	for text, n := range count {
		if n > 1 || !said[text] && text != open {
			t.Errorf("%q stands there %d times; said %v\n%s", text, n, said, shown(messages))
		}
	}
}
