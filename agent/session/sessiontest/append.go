package sessiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent/session"
)

// foreign is a session that no store made.
type foreign struct{ session.Session }

func appendRefuses(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	gone := begin(t, s, user, "2", nil)
	if err := s.Delete(t.Context(), &session.DeleteRequest{AppName: app, UserID: user, SessionID: "2"}); err != nil {
		t.Fatal(err)
	}
	year := said("x", nil)
	year.Timestamp = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	name := said("x", nil)
	name.ID = "a\x00"
	for what, c := range map[string]struct {
		to   session.Session
		e    *session.Event
		want error
	}{
		"no session":      {nil, said("x", nil), session.ErrInvalid},
		"foreign session": {foreign{h}, said("x", nil), session.ErrInvalid},
		"no event":        {h, nil, session.ErrInvalid},
		"deleted":         {gone, said("x", nil), session.ErrNotFound},
		"no JSON":         {h, said("x", map[string]any{"f": func() {}}), session.ErrInvalid},
		"year":            {h, year, session.ErrInvalid},
		"id":              {h, name, session.ErrInvalid},
	} {
		wantError(t, what, s.AppendEvent(t.Context(), c.to, c.e), c.want)
	}
	wantTexts(t, h)
	wantTexts(t, get(t, s, user, "1"))
	wantTexts(t, gone)
}

func appendPartial(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	e := said("hel", map[string]any{"a": 1, "user:b": 2, "temp:c": 3})
	e.Partial = true
	add(t, s, h, e)
	wantTexts(t, h)
	wantState(t, h, map[string]any{})
	wantTexts(t, get(t, s, user, "1"))
	wantState(t, get(t, s, user, "1"), map[string]any{})
	add(t, s, h, said("hello", nil))
}

func appendOrder(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	var want []string
	for i := range 20 {
		e := said(fmt.Sprint(i), nil)
		e.ID, e.Timestamp = fmt.Sprint("id-", 99-i), at
		if i%5 == 4 {
			e.Timestamp = at.Add(-time.Duration(i) * time.Second)
		}
		add(t, s, h, e)
		want = append(want, fmt.Sprint(i))
	}
	wantTexts(t, h, want...)
	wantTexts(t, get(t, s, user, "1"), want...)
}

func appendUpdateTime(t *testing.T, open Open) {
	c := newClock()
	s := open(t, session.WithClock(c.now))
	h := begin(t, s, user, "1", nil)
	began := c.now()
	for _, step := range []struct{ at, want time.Time }{
		{began.Add(-time.Hour), began},
		{began.Add(time.Minute), began.Add(time.Minute)},
		{began.Add(time.Second), began.Add(time.Minute)},
		{began.Add(time.Minute + 1).In(time.FixedZone("", -7200)), began.Add(time.Minute + 1)},
	} {
		e := said("x", nil)
		e.Timestamp = step.at
		add(t, s, h, e)
		for what, got := range map[string]session.Session{"handle": h, "stored": get(t, s, user, "1")} {
			if !got.LastUpdateTime().Equal(step.want) {
				t.Errorf("%s after %v: updated %v, want %v", what, step.at, got.LastUpdateTime(), step.want)
			}
		}
	}
}

func appendKeepsEvent(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	make := func() *session.Event {
		return said("x", map[string]any{"a": 1, "temp:t": map[string]any{"k": "v"}, "user:u": nil, "list": []any{1, "two"}})
	}
	e := make()
	add(t, s, h, e)
	if !reflect.DeepEqual(e, make()) {
		t.Errorf("the event became %+v", e)
	}
	// Nor does the stored one follow the caller's.
	e.Content.Parts[0].Text = "changed"
	e.Actions.StateDelta["list"].([]any)[0] = "changed"
	wantTexts(t, h, "x")
	wantState(t, get(t, s, user, "1"), map[string]any{"a": 1, "list": []any{1, "two"}})
	wantState(t, h, map[string]any{"a": 1, "list": []any{1, "two"}, "temp:t": map[string]any{"k": "v"}})
}

func appendSetsIDAndTime(t *testing.T, open Open) {
	c := newClock()
	n := 0
	s := open(t, session.WithClock(c.now), session.WithIDs(func() string { n++; return fmt.Sprint("id-", n) }))
	h := begin(t, s, user, "", nil)
	add(t, s, h, said("x", nil))
	named := said("y", nil)
	named.ID, named.Timestamp = "mine", c.now().Add(time.Second)
	add(t, s, h, named)
	for what, got := range map[string]session.Session{"handle": h, "stored": get(t, s, user, h.ID())} {
		first, second := got.Events().At(0), got.Events().At(1)
		if first.ID != "id-2" || !first.Timestamp.Equal(c.now()) {
			t.Errorf("%s: first event %q at %v", what, first.ID, first.Timestamp)
		}
		if second.ID != "mine" || !second.Timestamp.Equal(named.Timestamp) {
			t.Errorf("%s: second event %q at %v", what, second.ID, second.Timestamp)
		}
	}
}

func appendTemp(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	add(t, s, h, said("x", map[string]any{"temp:t": "now", "kept": 1}))
	wantState(t, h, map[string]any{"temp:t": "now", "kept": 1})
	add(t, s, h, said("y", map[string]any{"temp:only": true}))
	wantState(t, h, map[string]any{"temp:t": "now", "temp:only": true, "kept": 1})
	wantState(t, get(t, s, user, "1"), map[string]any{"kept": 1})
	for what, got := range map[string]session.Session{"handle": h, "stored": get(t, s, user, "1")} {
		if d := got.Events().At(0).Actions.StateDelta; len(d) != 1 || d["kept"] != 1.0 {
			t.Errorf("%s: stored delta %v", what, d)
		}
		if d := got.Events().At(1).Actions.StateDelta; d == nil || len(d) != 0 {
			t.Errorf("%s: stored delta %v, want an empty one", what, d)
		}
	}
	add(t, s, h, said("z", map[string]any{"temp:t": nil}))
	wantState(t, h, map[string]any{"temp:only": true, "kept": 1})
	next := said("next turn", nil)
	next.InvocationID = "turn-2"
	add(t, s, h, next)
	wantState(t, h, map[string]any{"kept": 1})
}

func appendNilDeletes(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", map[string]any{"a": 1, "user:b": 2, "app:c": 3, "d": 4})
	add(t, s, h, said("x", map[string]any{"a": nil, "user:b": nil, "app:c": nil, "never": nil}))
	wantState(t, h, map[string]any{"d": 4})
	wantState(t, get(t, s, user, "1"), map[string]any{"d": 4})
	wantState(t, begin(t, s, user, "2", nil), map[string]any{})
}

func appendStale(t *testing.T, open Open) {
	s := open(t)
	a := begin(t, s, user, "1", map[string]any{"n": 0})
	b := get(t, s, user, "1")
	add(t, s, a, said("first", map[string]any{"n": 1}))
	was := b.LastUpdateTime()
	wantError(t, "stale", s.AppendEvent(t.Context(), b, said("second", map[string]any{"n": 2, "temp:t": 1, "user:u": 1})), session.ErrStaleSession)
	wantTexts(t, b)
	wantState(t, b, map[string]any{"n": 0})
	if !b.LastUpdateTime().Equal(was) {
		t.Error("the stale handle's time changed")
	}
	wantTexts(t, get(t, s, user, "1"), "first")
	wantState(t, get(t, s, user, "1"), map[string]any{"n": 1})
	b = get(t, s, user, "1")
	add(t, s, b, said("second", map[string]any{"n": 2}))
	wantTexts(t, get(t, s, user, "1"), "first", "second")
	wantError(t, "the other", s.AppendEvent(t.Context(), a, said("third", nil)), session.ErrStaleSession)
}

func appendDuplicate(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	e := said("once", map[string]any{"n": 1})
	e.ID = "same"
	add(t, s, h, e)
	e.Actions.StateDelta["n"] = 2
	wantError(t, "again", s.AppendEvent(t.Context(), h, e), session.ErrDuplicateEvent)
	wantTexts(t, h, "once")
	wantTexts(t, get(t, s, user, "1"), "once")
	wantState(t, get(t, s, user, "1"), map[string]any{"n": 1})
	add(t, s, h, said("after", nil)) // the handle is still good
	add(t, s, begin(t, s, user, "2", nil), e)
}

// whole is an event that uses every field.
const whole = `{"content":{"parts":[{"text":"hi \u0000 \ud83d\ude00 <&>"},{"functionCall":{"id":"1","name":"f","args":{"n":12345678901234567890}}},` +
	`{"inlineData":{"mimeType":"audio/pcm","data":"AAE="}}],"role":"model"},"modelVersion":"m","customMetadata":{"playedMs":1200,"generated":"hi there"},` +
	`"interrupted":true,"turnComplete":true,"errorCode":"E","errorMessage":"e","finishReason":"STOP","inputTranscription":{"text":"a","finished":true},` +
	`"outputTranscription":{"text":"b"},"id":"e-1","timestamp":"2026-12-01T10:00:00.123456789+01:00","invocationId":"i","branch":"a.b","isolationScope":"s","author":"a",` +
	`"actions":{"requestedToolConfirmations":{"1":{"hint":"sure?","confirmed":false,"payload":[1]}},"skipSummarization":true,"transferToAgent":"b","escalate":true,` +
	`"stateDelta":{"user:k":{"deep":[null,1.5,"x"]}},"artifactDelta":{"f.txt":3},"requestedAuthConfigs":{}},"longRunningToolIds":["1"],"routes":["r"],` +
	`"requestedInput":{"interruptId":"q","message":"m","responseSchema":{"type":"object"},"payload":1},"output":{"o":[1]},` +
	`"nodeInfo":{"path":"p@1","messageAsOutput":true,"outputFor":["p"]},"usageMetadata":{"totalTokenCount":7}}`

func appendWholeEvent(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	e := new(session.Event)
	if err := json.Unmarshal([]byte(whole), e); err != nil {
		t.Fatal(err)
	}
	add(t, s, h, e)
	want := plain(t, []byte(whole))
	for what, got := range map[string]session.Session{"handle": h, "stored": get(t, s, user, "1")} {
		raw, err := json.Marshal(got.Events().At(0))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(plain(t, raw), want) {
			t.Errorf("%s:\n got %s\nwant %s", what, raw, whole)
		}
	}
}

// plain decodes JSON without losing digits.
func plain(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func appendCancelled(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, "cancelled", s.AppendEvent(ctx, h, said("x", nil)), context.Canceled)
	_, err := s.Get(ctx, &session.GetRequest{AppName: app, UserID: user, SessionID: "1"})
	wantError(t, "cancelled", err, context.Canceled)
	add(t, s, h, said("y", nil))
	wantTexts(t, get(t, s, user, "1"), "y")
}

func appendTooLarge(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	large := strings.Repeat("x", session.MaxEvent)
	wantError(t, "text", s.AppendEvent(t.Context(), h, said(large, nil)), session.ErrInvalid)
	wantError(t, "state", s.AppendEvent(t.Context(), h, said("", map[string]any{"k": large})), session.ErrInvalid)
	add(t, s, h, said(large[:session.MaxEvent/2], nil))
}

func twoCalls(t *testing.T, open Open) {
	s := open(t)
	a, b := begin(t, s, user, "1", nil), begin(t, s, user, "2", nil)
	add(t, s, a, said("x", map[string]any{"user:a": 1}))
	add(t, s, b, said("y", map[string]any{"user:b": 2}))
	wantState(t, get(t, s, user, "1"), map[string]any{"user:a": 1, "user:b": 2})
	wantState(t, get(t, s, user, "2"), map[string]any{"user:a": 1, "user:b": 2})
}

// appendAtOnce: forty appends of two calls of one user, all at the same time, to the
// same keys in both orders.
func appendAtOnce(t *testing.T, open Open) {
	s := open(t)
	handles := []session.Session{begin(t, s, user, "1", nil), begin(t, s, user, "2", nil)}
	want := map[string]any{}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range 40 {
		key := fmt.Sprintf("user:%02d", i)
		want[key], want["user:00"], want["user:39"] = i, nil, nil
		wg.Go(func() {
			<-start
			if err := s.AppendEvent(context.WithoutCancel(t.Context()), handles[i%2], said(key, map[string]any{key: i, "user:00": i, "user:39": i, "app:last": i})); err != nil {
				t.Errorf("append %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
	for _, h := range handles {
		got := get(t, s, user, h.ID())
		if got.Events().Len() != 20 || h.Events().Len() != 20 {
			t.Errorf("session %s: %d events stored, %d on the handle, want 20", h.ID(), got.Events().Len(), h.Events().Len())
		}
		if strings.Join(texts(got), " ") != strings.Join(texts(h), " ") {
			t.Errorf("session %s: stored order %v, handle's %v", h.ID(), texts(got), texts(h))
		}
		state := maps.Collect(got.State().All())
		for key, value := range want {
			if v, there := state[key]; !there || value != nil && fmt.Sprint(v) != fmt.Sprint(value) {
				t.Errorf("session %s: %s is %v, want %v", h.ID(), key, v, value)
			}
		}
	}
}
