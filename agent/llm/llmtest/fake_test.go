package llmtest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/llm"
	"parley/agent/llm/llmtest"
)

func collect(to *string) func(llm.Chunk) error {
	return func(c llm.Chunk) error { *to += c.Text + "|"; return nil }
}

func TestFakeFollowsItsScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		f := &llmtest.Fake{
			Greeting: []llmtest.Step{llmtest.Say("Hi.")},
			Replies: [][]llmtest.Step{
				llmtest.Slowly("abcde", 2, time.Second),
				{llmtest.Say("half "), llmtest.Fail(boom)},
				{{Text: "grüße", Split: 3, Action: &llm.Action{Kind: llm.Hangup}}, llmtest.Hang()},
			},
			Answer: func(t llm.Turn) []llmtest.Step { return []llmtest.Step{llmtest.Say("echo " + t.Text)} },
		}
		opened, err := f.Open(t.Context(), llm.Conversation{SessionID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		m := f.Models()[0]
		var text string
		began := time.Now()
		for i, want := range []error{nil, nil, boom} {
			if i == 0 {
				err = opened.Greet(t.Context(), collect(&text))
			} else {
				err = opened.Reply(t.Context(), llm.Turn{Text: "x"}, collect(&text))
			}
			if !errors.Is(err, want) {
				t.Errorf("%d: %v, want %v", i, err, want)
			}
		}
		if got := time.Since(began); got != 3*time.Second {
			t.Errorf("took %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := opened.Reply(ctx, llm.Turn{}, collect(&text)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := opened.Reply(t.Context(), llm.Turn{Text: "a"}, collect(&text)); err != nil {
			t.Error(err)
		}
		if want := "Hi.|ab|cd|e|half |grü|ße|echo a|"; text != want {
			t.Errorf("text %q, want %q", text, want)
		}
		if m.Given() != "Hi.abcdehalf grüßeecho a" || len(m.Turns()) != 4 || m.Greeted() != 1 || m.Cancelled() != 1 || m.Overlaps() != 0 {
			t.Errorf("record: %q %d %d %d %d", m.Given(), len(m.Turns()), m.Greeted(), m.Cancelled(), m.Overlaps())
		}
	})
}

func TestFakeCloseEndsAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &llmtest.Fake{Answer: func(llm.Turn) []llmtest.Step { return []llmtest.Step{llmtest.Hang()} }}
		m, _ := f.Open(t.Context(), llm.Conversation{})
		done := make(chan error)
		for range 2 {
			go func() { done <- m.Reply(t.Context(), llm.Turn{}, nil) }()
		}
		synctest.Wait()
		m.Close(t.Context(), llm.End{Cause: "caller hung up"})
		for range 2 {
			if err := <-done; !errors.Is(err, llmtest.ErrClosed) {
				t.Error(err)
			}
		}
		rec := f.Models()[0]
		if ends := rec.Ends(); len(ends) != 1 || ends[0].Cause != "caller hung up" || rec.Overlaps() != 1 {
			t.Errorf("ends %v, overlaps %d", ends, rec.Overlaps())
		}
	})
}

func TestFakeRefuses(t *testing.T) {
	refused := errors.New("no")
	if _, err := (&llmtest.Fake{OpenErr: refused}).Open(t.Context(), llm.Conversation{}); !errors.Is(err, refused) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&llmtest.Fake{}).Open(ctx, llm.Conversation{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	m, _ := (&llmtest.Fake{Greeting: []llmtest.Step{llmtest.Act(llm.Action{Kind: llm.Hangup})}}).Open(t.Context(), llm.Conversation{})
	stop := errors.New("stop")
	if err := m.Greet(t.Context(), func(llm.Chunk) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if err := m.Reply(t.Context(), llm.Turn{}, nil); err != nil {
		t.Error(err)
	}
}

func TestFakeThinksAndHears(t *testing.T) {
	f := &llmtest.Fake{Replies: [][]llmtest.Step{
		{{Incomplete: time.Second}},
		{{Thinking: true}, {Text: "abcd", Style: "warm", Split: 2}},
	}}
	m, _ := f.Open(t.Context(), llm.Conversation{})
	var chunks []llm.Chunk
	for range 2 {
		if err := m.Reply(t.Context(), llm.Turn{}, func(c llm.Chunk) error { chunks = append(chunks, c); return nil }); err != nil {
			t.Error(err)
		}
	}
	want := []llm.Chunk{{Incomplete: time.Second}, {Thinking: true}, {Text: "ab", Style: "warm"}, {Text: "cd"}}
	if !slices.Equal(chunks, want) {
		t.Errorf("%+v", chunks)
	}
	rec := f.Models()[0]
	rec.Heard(llm.Heard{Heard: "ab"})
	rec.CallerSpeaks()
	if got := rec.HeardAll(); len(got) != 1 || got[0].Heard != "ab" || rec.CallerSpoke() != 1 {
		t.Errorf("%+v, %d", got, rec.CallerSpoke())
	}
}
