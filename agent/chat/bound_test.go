package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// talk is n exchanges: the caller asks, the agent calls a tool and answers.
func talk(t *testing.T, c *Context, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		if _, err := c.Append(Message{Role: RoleUser, Content: fmt.Sprint("ask ", i)}); err != nil {
			t.Fatal(err)
		}
		_, calls := c.AppendCalls(Message{}, []ToolCall{{ID: fmt.Sprint("c", i), Name: "look", Arguments: json.RawMessage(`{}`)}})
		c.Answer(calls[0].ID, "found")
		if _, err := c.Append(Message{Role: RoleAssistant, Content: fmt.Sprint("say ", i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// When summaries fail, and fail again, the conversation stays bounded, whole exchanges
// go, the instructions and the summary from before stay, and it is told once.
func TestAConversationWithoutASummaryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSummaries(t, SummarizerConfig{MaxMessages: 20, Keep: 4, Retry: time.Second, Summarize: func(context.Context, []Message) (string, error) {
			return "", errors.New("the model is away")
		}}, 0)
		if _, err := s.c.Append(Message{Role: RoleDeveloper, Content: SummaryLead + "before"}); err != nil {
			t.Fatal(err)
		}
		most := 0
		for i := range 500 {
			talk(t, s.c, i, 1)
			s.Check()
			time.Sleep(2 * time.Second)
			n, _ := s.c.Size()
			most = max(most, n)
		}
		synctest.Wait()
		m := s.c.Snapshot().Messages
		if most > 40 || most < 30 || len(m) < 24 {
			t.Errorf("%d messages at the most, %d at the end", most, len(m))
		}
		if err := Valid(m); err != nil || m[0].Content != "be kind" || m[1].Content != SummaryLead+"before" || m[2].Role != RoleUser {
			t.Errorf("%v:\n%s", err, told(m))
		}
		if last := m[len(m)-1]; last.Content != "say 499" || s.c.Dropped()+len(m) != 2+2000 {
			t.Errorf("%d dropped, %d left, the last is %q", s.c.Dropped(), len(m), last.Content)
		}
		forgotten := 0
		for _, err := range s.failures {
			if errors.Is(err, ErrForgotten) {
				forgotten++
			}
		}
		if forgotten != 1 || len(s.failures) < 100 {
			t.Errorf("told %d times, with %d failures", forgotten, len(s.failures))
		}
	})
}

// Without thresholds, too; and by tokens.
func TestTheBounds(t *testing.T) {
	for name, c := range map[string]struct {
		cfg              SummarizerConfig
		messages, tokens int
	}{
		"no thresholds":       {SummarizerConfig{}, mostMessages, mostTokens},
		"twice the threshold": {SummarizerConfig{MaxMessages: 30, MaxTokens: 500}, 60, 1000},
		"more is kept":        {SummarizerConfig{MaxMessages: 8, Keep: 20}, 40, mostTokens},
		"set":                 {SummarizerConfig{MaxMessages: 30, MostMessages: 35, MostTokens: 100}, 35, 100},
	} {
		s := newSummaries(t, c.cfg, 0)
		talk(t, s.c, 0, 600)
		if n, tokens := s.c.Size(); n > c.messages || tokens > c.tokens || s.c.mostMessages != c.messages || s.c.mostTokens != c.tokens {
			t.Errorf("%s: %d messages, %d tokens; the bounds are %d and %d", name, n, tokens, s.c.mostMessages, s.c.mostTokens)
		}
	}
}

// A tool at work keeps its call; an exchange that alone is too long loses its oldest
// rounds, a text that alone is too long stays.
func TestWhatTheBoundLeaves(t *testing.T) {
	c := NewContext("s")
	c.SetBound(10, 0)
	_, _ = c.Append(Message{Role: RoleUser, Content: "begin"})
	_, calls := c.AppendCalls(Message{}, []ToolCall{{ID: "slow", Name: "slow"}})
	talk(t, c, 0, 20)
	m := c.Snapshot().Messages
	if n := len(m); n > 10 || !strings.Contains(told(m), "slow") || Valid(m) != nil {
		t.Errorf("%d messages, or the call of a tool at work is gone:\n%s", n, told(m))
	}
	if !c.Answer(calls[0].ID, "done") {
		t.Error("a tool at work cannot answer")
	}
	talk(t, c, 20, 5)
	if strings.Contains(told(c.Snapshot().Messages), "slow") {
		t.Error("an answered call stays for ever")
	}

	c = NewContext("s")
	c.SetBound(10, 0)
	_, _ = c.Append(Message{Role: RoleUser, Content: "do it all"})
	for i := range 30 {
		_, calls := c.AppendCalls(Message{}, []ToolCall{{ID: fmt.Sprint(i), Name: "step"}})
		c.Answer(calls[0].ID, "ok")
	}
	m = c.Snapshot().Messages
	if len(m) > 10 || Valid(m) != nil || m[len(m)-1].ToolCallID != "29" || m[0].Role != RoleSystem {
		t.Errorf("an endless exchange: %d messages:\n%s", len(m), told(m))
	}

	c = NewContext("s")
	c.SetBound(0, 100)
	talk(t, c, 0, 3)
	_, _ = c.Append(Message{Role: RoleUser, Content: strings.Repeat("word ", 1000)})
	if m = c.Snapshot().Messages; len(m) != 2 || m[1].Role != RoleUser {
		t.Errorf("a long text:\n%.300s", told(m))
	}
}

// What a summary was made of may be dropped meanwhile; then it is not written.
func TestASummaryOfWhatWasDroppedIsStale(t *testing.T) {
	c := NewContext("s")
	c.SetBound(12, 0)
	talk(t, c, 0, 2)
	snap := c.Snapshot()
	talk(t, c, 2, 3)
	if _, err := c.Fold(snap.Revision, 1, 5, Message{Role: RoleDeveloper, Content: SummaryLead}); !errors.Is(err, ErrStale) {
		t.Error(err)
	}
}
