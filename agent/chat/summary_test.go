package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// summaries is a Summarizer over a conversation, with what it told.
type summaries struct {
	*Summarizer
	c        *Context
	asked    [][]Message
	told     []string
	failures []error
}

func newSummaries(t *testing.T, cfg SummarizerConfig, take time.Duration) *summaries {
	s := &summaries{c: NewContext("be kind")}
	if cfg.Summarize == nil {
		cfg.Summarize = func(ctx context.Context, m []Message) (string, error) {
			s.asked = append(s.asked, m)
			select {
			case <-time.After(take):
				return fmt.Sprintf("%d messages", len(m)), nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	}
	cfg.Events = Events{
		SummaryRequested: func(e SummaryRequested) { s.told = append(s.told, fmt.Sprintf("%d of %d", e.Summarized, e.Messages)) },
		SummaryApplied: func(e SummaryApplied) {
			s.told = append(s.told, fmt.Sprintf("%d -> %d: %d summarised, %d kept: %s",
				e.OriginalMessageCount, e.NewMessageCount, e.SummarizedMessageCount, e.PreservedMessageCount, e.Summary))
		},
		SummaryFailed: func(err error) { s.failures = append(s.failures, err) },
	}
	s.Summarizer = NewSummarizer(s.c, cfg)
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *summaries) say(n int) {
	for i := range n {
		role := RoleUser
		if i%2 == 1 {
			role = RoleAssistant
		}
		_, _ = s.c.Append(Message{Role: role, Content: fmt.Sprint("words ", i)})
	}
}

// conversation.md line 13: thresholds by messages or tokens, whichever comes first.
func TestSummaryThresholds(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  SummarizerConfig
		say  int
		want bool
	}{
		"none":             {SummarizerConfig{}, 100, false},
		"few messages":     {SummarizerConfig{MaxMessages: 10, Keep: 2}, 9, false},
		"messages":         {SummarizerConfig{MaxMessages: 10, Keep: 2}, 10, true},
		"few tokens":       {SummarizerConfig{MaxTokens: 100, Keep: 2}, 12, false},
		"tokens":           {SummarizerConfig{MaxTokens: 100, Keep: 2}, 20, true},
		"tokens first":     {SummarizerConfig{MaxTokens: 100, MaxMessages: 1000, Keep: 2}, 20, true},
		"messages first":   {SummarizerConfig{MaxTokens: 10000, MaxMessages: 10, Keep: 2}, 20, true},
		"nothing but kept": {SummarizerConfig{MaxMessages: 4, Keep: 6}, 8, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSummaries(t, c.cfg, time.Second)
			s.say(c.say)
			if got := s.Check(); got != c.want {
				t.Errorf("%s: %v", name, got)
			}
			synctest.Wait()
		})
	}
}

// conversation.md line 13: beside the conversation, one at a time, and what it keeps.
func TestSummaryIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSummaries(t, SummarizerConfig{MaxMessages: 8, Keep: 2}, time.Second)
		s.say(8)
		if !s.Check() || s.Check() || !errors.Is(s.Summarize(), ErrSummaryUnderWay) {
			t.Error("one summary is made at a time")
		}
		s.say(1) // meanwhile
		time.Sleep(2 * time.Second)
		synctest.Wait()
		m := s.c.Snapshot().Messages
		want := "system: be kind\ndeveloper: " + SummaryLead + "6 messages\nuser: words 6\nassistant: words 7\nuser: words 0"
		if told(m) != want {
			t.Errorf("got\n%s\nwant\n%s", told(m), want)
		}
		if s.Check() {
			t.Error("messages in the summary count again")
		}
		s.say(8)
		if !s.Check() {
			t.Error("not summarised again")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !isSummary(s.asked[1][0]) {
			t.Error("the summary before is not part of the next")
		}
		events := strings.Join(s.told, "\n")
		if events != "6 of 9\n10 -> 5: 6 summarised, 4 kept: 6 messages\n10 of 13\n13 -> 4: 10 summarised, 3 kept: 10 messages" {
			t.Error(events)
		}
	})
}

// conversation.md line 13: a call and its answer are not parted, nor one that has none.
func TestSummaryNeverPartsACall(t *testing.T) {
	for name, c := range map[string]struct {
		keep   int
		answer bool
		want   string // what is asked about
	}{
		"kept at the answer":   {4, true, "words 0 words 1"},
		"kept at the call":     {6, true, "words 0 words 1"},
		"behind it":            {3, true, "words 0 words 1  {} {}"},
		"it is in progress":    {1, false, "words 0 words 1"},
		"kept between answers": {5, true, "words 0 words 1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSummaries(t, SummarizerConfig{Keep: c.keep}, 0)
			s.say(2)
			_, as := s.c.AppendCalls(Message{}, []ToolCall{call("1", "a"), call("2", "b")})
			s.c.Answer(as[0].ID, "{}")
			if c.answer {
				s.c.Answer(as[1].ID, "{}")
			}
			s.say(3)
			if err := s.Summarize(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			synctest.Wait()
			time.Sleep(time.Second)
			var got []string
			for _, m := range s.asked[0] {
				got = append(got, m.Content)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
			if err := Valid(s.c.Snapshot().Messages); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// conversation.md line 13: a stale result is dropped.
func TestStaleSummary(t *testing.T) {
	for name, change := range map[string]func(c *Context){
		"a message has changed": func(c *Context) { c.Revise(3, "other words", false) },
		"a new conversation":    func(c *Context) { c.Reset() },
		"replaced":              func(c *Context) { _ = c.Replace(c.Revision(), []Message{{Role: RoleUser, Content: "x"}}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSummaries(t, SummarizerConfig{Keep: 2}, time.Second)
			s.say(8)
			if err := s.Summarize(); err != nil {
				t.Fatal(err)
			}
			change(s.c)
			before := told(s.c.Snapshot().Messages)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if after := told(s.c.Snapshot().Messages); after != before {
				t.Errorf("%s: changed to %s", name, after)
			}
			if len(s.failures) != 1 || !errors.Is(s.failures[0], ErrStale) {
				t.Errorf("%s: %v", name, s.failures)
			}
		})
	}
	// What does not touch its messages does not make it stale.
	synctest.Test(t, func(t *testing.T) {
		s := newSummaries(t, SummarizerConfig{Keep: 2}, time.Second)
		s.say(8)
		_ = s.Summarize()
		s.c.SetSystem("be kinder")
		s.c.Revise(9, "corrected", true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want := "system: be kinder\ndeveloper: " + SummaryLead + "6 messages\nuser: words 6\nassistant: corrected [cut]"
		if got := told(s.c.Snapshot().Messages); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	})
}

func TestSummaryFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s := newSummaries(t, SummarizerConfig{MaxMessages: 6, Keep: 2, Timeout: time.Second, Retry: time.Minute, Summarize: func(ctx context.Context, _ []Message) (string, error) {
			switch tries++; tries {
			case 1:
				panic("boom")
			case 2:
				return " \n", nil
			}
			<-ctx.Done()
			return "too late", nil
		}}, 0)
		s.say(8)
		before := told(s.c.Snapshot().Messages)
		for want := 1; want <= 3; want++ {
			if !s.Check() {
				t.Error("not tried")
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if s.Check() || tries != want {
				t.Errorf("tried again at once: %d", tries)
			}
			time.Sleep(time.Minute)
		}
		if len(s.failures) != 3 || told(s.c.Snapshot().Messages) != before {
			t.Errorf("%v", s.failures)
		}
	})
}

// A Summarizer that is closed in the middle waits for its work, and begins none.
func TestSummarizerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSummaries(t, SummarizerConfig{Keep: 2}, time.Hour)
		s.say(8)
		if err := s.Summarize(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if len(s.failures) != 1 || !errors.Is(s.failures[0], context.Canceled) {
			t.Errorf("%v", s.failures)
		}
		if s.Summarize() == nil {
			t.Error("a summary of one that is closed")
		}
	})
}
