package sessiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"parley/agent/session"
)

func copies(t *testing.T, open Open) {
	s := open(t)
	given := map[string]any{"m": map[string]any{"k": "v"}}
	made := begin(t, s, user, "1", given)
	given["m"].(map[string]any)["k"] = "changed by the caller"
	add(t, s, made, said("x", nil))
	a := get(t, s, user, "1")
	v, err := a.State().Get("m")
	if err != nil {
		t.Fatal(err)
	}
	v.(map[string]any)["k"] = "changed on a copy"
	a.Events().At(0).Content.Parts[0].Text = "changed on a copy"
	if err := a.State().Set("n", 1); err != nil {
		t.Fatal(err)
	}
	r, err := s.List(t.Context(), &session.ListRequest{AppName: app, UserID: user})
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range r.Sessions {
		for _, v := range listed.State().All() {
			v.(map[string]any)["k"] = "changed on one of a list"
		}
	}
	for _, h := range []session.Session{made, get(t, s, user, "1")} {
		wantState(t, h, map[string]any{"m": map[string]any{"k": "v"}})
		wantTexts(t, h, "x")
	}
}

func stateSet(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", map[string]any{"gone": 1})
	list := []any{1}
	for key, value := range map[string]any{"a": list, "user:b": "x", "temp:c": "y", "gone": nil} {
		if err := h.State().Set(key, value); err != nil {
			t.Errorf("Set %s: %v", key, err)
		}
	}
	list[0] = "changed by the caller"
	wantError(t, "no JSON", h.State().Set("f", func() {}), session.ErrInvalid)
	if err := h.State().Set("temp:f", func() {}); err != nil { // it never leaves the process
		t.Errorf("temp: %v", err)
	}
	if err := h.State().Set("temp:f", nil); err != nil {
		t.Error(err)
	}
	want := map[string]any{"a": []any{1}, "user:b": "x", "temp:c": "y"}
	wantState(t, h, want)
	wantState(t, get(t, s, user, "1"), map[string]any{"gone": 1})
	add(t, s, h, said("x", nil))
	wantState(t, h, want)
	wantState(t, get(t, s, user, "1"), map[string]any{"gone": 1})
}

func stateMissing(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", map[string]any{"there": false, "big": json.Number("12345678901234567890"), "n": 7, "deep": []any{int64(1)}})
	_, err := h.State().Get("missing")
	wantError(t, "missing", err, session.ErrStateKeyNotExist)
	for _, h := range []session.Session{h, get(t, s, user, "1")} {
		for key, want := range map[string]any{"there": false, "big": json.Number("12345678901234567890"), "n": 7.0} {
			if v, err := h.State().Get(key); err != nil || v != want {
				t.Errorf("%s: %v (%T), %v; want %v", key, v, v, err, want)
			}
		}
	}
	for range h.State().All() {
		break // an iteration may end early
	}
}

func races(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	ctx := context.WithoutCancel(t.Context())
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for last := 0; ; {
				select {
				case <-done:
					return
				default:
				}
				n := 0
				for e := range h.Events().All() {
					n++
					_ = e.IsFinalResponse()
				}
				if n < last {
					t.Errorf("%d events after %d", n, last)
				}
				last = n
				for range h.State().All() {
				}
				_, _ = h.State().Get("k0")
				_ = h.LastUpdateTime()
				if r, err := s.Get(ctx, &session.GetRequest{AppName: app, UserID: user, SessionID: "1"}); err != nil || r.Session.Events().Len() < n {
					t.Errorf("Get: %v", err)
				}
			}
		})
	}
	for w := range 4 {
		writers.Go(func() {
			for i := range 5 {
				key := fmt.Sprint("k", w)
				if err := h.State().Set(key, i); err != nil {
					t.Error(err)
				}
				if err := s.AppendEvent(ctx, h, said(key, map[string]any{key: i, "temp:t": i})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if n := get(t, s, user, "1").Events().Len(); n != 20 {
		t.Errorf("%d events, want 20", n)
	}
}

// text: what callers and models may say, and what a query may take for something else.
func text(t *testing.T, open Open) {
	s := open(t)
	for i, v := range []string{"'; DROP TABLE parley_event; --", "$1 ?1 :a @b %_\\", "\x00\x01\u2028 \"{}[]", "\xff\xfe", "😀 ünï 日本語 \u202e", " leading and trailing "} {
		name := fmt.Sprint(i)
		id := name
		if i != 2 && i != 3 { // these cannot be ids
			id = v
		}
		h := begin(t, s, id, id, map[string]any{"user:" + id: v})
		add(t, s, h, said(v, map[string]any{id: v}))
		back := get(t, s, id, id)
		if back.ID() != id || back.UserID() != id {
			t.Errorf("%q: read as %q %q", id, back.ID(), back.UserID())
		}
		want := string([]rune(v)) // what is not UTF-8 becomes U+FFFD
		for _, key := range []string{id, "user:" + id} {
			if got, err := back.State().Get(key); err != nil || got != want {
				t.Errorf("%q: %q, %v", v, got, err)
			}
		}
		wantTexts(t, back, want)
	}
}

func closed(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, "append", s.AppendEvent(t.Context(), h, said("x", nil)), session.ErrClosed)
	_, err := s.Get(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: "1"})
	wantError(t, "get", err, session.ErrClosed)
	_, err = s.Forget(t.Context(), user)
	wantError(t, "forget", err, session.ErrClosed)
}

func forget(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", map[string]any{"user:n": 1, "app:a": 2, "s": 3})
	add(t, s, h, said("hello", nil))
	add(t, s, h, said("bye", nil))
	begin(t, s, user, "2", nil)
	if _, err := s.Create(t.Context(), &session.CreateRequest{AppName: "other app", UserID: user, SessionID: "3", State: map[string]any{"user:o": 1}}); err != nil {
		t.Fatal(err)
	}
	other := begin(t, s, user+"1", "1", map[string]any{"user:n": 5})
	add(t, s, other, said("stays", nil))

	got, err := s.Forget(t.Context(), user)
	if want := (session.Removed{Sessions: 3, Events: 2, Keys: 3}); err != nil || got != want {
		t.Errorf("removed %+v, %v; want %+v", got, err, want)
	}
	for _, name := range []string{app, "other app"} {
		if r, err := s.List(t.Context(), &session.ListRequest{AppName: name, UserID: user}); err != nil || len(r.Sessions) != 0 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	wantState(t, begin(t, s, user, "1", nil), map[string]any{"app:a": 2})
	wantTexts(t, get(t, s, user+"1", "1"), "stays")
	wantState(t, get(t, s, user+"1", "1"), map[string]any{"app:a": 2, "user:n": 5})
	if got, err := s.Forget(t.Context(), "nobody"); err != nil || got != (session.Removed{}) {
		t.Errorf("of nobody: %+v, %v", got, err)
	}
	_, err = s.Forget(t.Context(), "")
	wantError(t, "no user", err, session.ErrInvalid)
}

func forgetMany(t *testing.T, open Open) {
	s := open(t)
	const n = 230 // more than two batches
	for i := range n {
		begin(t, s, user, fmt.Sprint(i), map[string]any{"user:n": i})
	}
	got, err := s.Forget(t.Context(), user)
	if want := (session.Removed{Sessions: n, Keys: 1}); err != nil || got != want {
		t.Errorf("removed %+v, %v; want %+v", got, err, want)
	}
}

func forgetDuringCall(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", nil)
	if _, err := s.Forget(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	wantError(t, "append", s.AppendEvent(t.Context(), h, said("x", map[string]any{"user:last_call_at": "now"})), session.ErrNotFound)
	wantState(t, begin(t, s, user, "2", nil), map[string]any{})
}

func sweep(t *testing.T, open Open) {
	c := newClock()
	s := open(t, session.WithClock(c.now))
	const day = 24 * time.Hour
	const n = 130 // more than a batch
	for i := range n {
		begin(t, s, fmt.Sprint("user ", i), "old", map[string]any{"user:n": i, "app:a": 1})
	}
	add(t, s, begin(t, s, user, "old", map[string]any{"user:n": 1}), said("x", map[string]any{"s": 1}))
	long := begin(t, s, user, "long", nil)
	c.add(10 * day)
	add(t, s, long, said("still there", nil))
	begin(t, s, "new", "new", map[string]any{"user:n": 1})
	c.add(day)

	// Nothing is that old, and users who have sessions keep their state.
	for _, r := range []session.Retention{{}, {Sessions: 12 * day, Users: 12 * day}, {Users: day / 2}} {
		if got, err := s.Sweep(t.Context(), r); err != nil || got != (session.Removed{}) {
			t.Errorf("%+v removed %+v, %v", r, got, err)
		}
	}
	got, err := s.Sweep(t.Context(), session.Retention{Sessions: 5 * day})
	if want := (session.Removed{Sessions: n + 1, Events: 1, Keys: 1}); err != nil || got != want {
		t.Errorf("removed %+v, %v; want %+v", got, err, want)
	}
	wantTexts(t, get(t, s, user, "long"), "still there")
	wantState(t, begin(t, s, "user 7", "again", nil), map[string]any{"user:n": 7, "app:a": 1})
	got, err = s.Sweep(t.Context(), session.Retention{Users: 5 * day})
	if want := (session.Removed{Keys: n - 1}); err != nil || got != want {
		t.Errorf("removed %+v, %v; want %+v", got, err, want)
	}
	wantState(t, get(t, s, user, "long"), map[string]any{"user:n": 1, "app:a": 1})
	wantState(t, get(t, s, "user 7", "again"), map[string]any{"user:n": 7, "app:a": 1})
	wantState(t, begin(t, s, "user 8", "again", nil), map[string]any{"app:a": 1})
}
