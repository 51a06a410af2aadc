// Package sessiontest holds the tests that every storage of sessions passes.
package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/agent/session"
)

// Open returns a store on storage that nobody else uses, closed when the test ends.
type Open func(t *testing.T, opts ...session.Option) *session.Store

// The names that the tests use.
const (
	app  = "receptionist"
	user = "+15550100"
)

// Run runs every test on stores that open makes.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"Create", create},
		{"CreateGeneratesID", createGeneratesID},
		{"CreateRefuses", createRefuses},
		{"CreateAtOnce", createAtOnce},
		{"StateScopes", stateScopes},
		{"GetOnlyOwn", getOnlyOwn},
		{"GetFilters", getFilters},
		{"List", list},
		{"Delete", del},
		{"AppendRefuses", appendRefuses},
		{"AppendPartial", appendPartial},
		{"AppendOrder", appendOrder},
		{"AppendUpdateTime", appendUpdateTime},
		{"AppendKeepsEvent", appendKeepsEvent},
		{"AppendSetsIDAndTime", appendSetsIDAndTime},
		{"AppendTemp", appendTemp},
		{"AppendNilDeletes", appendNilDeletes},
		{"AppendStale", appendStale},
		{"AppendDuplicate", appendDuplicate},
		{"AppendWholeEvent", appendWholeEvent},
		{"AppendCancelled", appendCancelled},
		{"AppendTooLarge", appendTooLarge},
		{"TwoCallsOfOneUser", twoCalls},
		{"AppendAtOnce", appendAtOnce},
		{"Copies", copies},
		{"StateSet", stateSet},
		{"StateMissing", stateMissing},
		{"Races", races},
		{"Text", text},
		{"Forget", forget},
		{"ForgetMany", forgetMany},
		{"ForgetDuringCall", forgetDuringCall},
		{"Sweep", sweep},
		{"Closed", closed},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// begin creates a session.
func begin(t *testing.T, s session.Service, user, id string, state map[string]any) session.Session {
	t.Helper()
	r, err := s.Create(t.Context(), &session.CreateRequest{AppName: app, UserID: user, SessionID: id, State: state})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return r.Session
}

// get reads a session.
func get(t *testing.T, s session.Service, user, id string) session.Session {
	t.Helper()
	r, err := s.Get(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: id})
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return r.Session
}

// said is an event with a text and a state delta.
func said(text string, delta map[string]any) *session.Event {
	return &session.Event{
		LLMResponse:  session.LLMResponse{Content: session.NewText("user", text)},
		InvocationID: "turn-1", Author: "user", Actions: session.EventActions{StateDelta: delta},
	}
}

// add appends an event.
func add(t *testing.T, s session.Service, to session.Session, e *session.Event) {
	t.Helper()
	if err := s.AppendEvent(t.Context(), to, e); err != nil {
		t.Fatalf("AppendEvent: %v", err)
	}
}

// texts are the texts of a session's events.
func texts(s session.Session) []string {
	out := []string{}
	for e := range s.Events().All() {
		out = append(out, e.Content.Parts[0].Text)
	}
	return out
}

// wantState compares the whole state.
func wantState(t *testing.T, s session.Session, want map[string]any) {
	t.Helper()
	got := map[string]any{}
	for k, v := range s.State().All() {
		got[k] = v
	}
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(g) != string(w) {
		t.Errorf("state\n got %s\nwant %s", g, w)
	}
}

func wantTexts(t *testing.T, s session.Session, want ...string) {
	t.Helper()
	if got := texts(s); !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Errorf("events %q, want %q", got, want)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// clock is a clock that is set by hand.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 12, 1, 9, 0, 0, 123456789, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func create(t *testing.T, open Open) {
	c := newClock()
	s := open(t, session.WithClock(c.now))
	made := begin(t, s, user, "call-1", map[string]any{"a": "x"})
	for what, h := range map[string]session.Session{"created": made, "read": get(t, s, user, "call-1")} {
		if h.ID() != "call-1" || h.AppName() != app || h.UserID() != user {
			t.Errorf("%s: %s %s %s", what, h.ID(), h.AppName(), h.UserID())
		}
		if !h.LastUpdateTime().Equal(c.now()) {
			t.Errorf("%s: updated %v, want %v", what, h.LastUpdateTime(), c.now())
		}
		if h.Events().Len() != 0 || h.Events().At(0) != nil {
			t.Errorf("%s: %d events", what, h.Events().Len())
		}
		wantState(t, h, map[string]any{"a": "x"})
	}
	_, err := s.Create(t.Context(), &session.CreateRequest{AppName: app, UserID: user, SessionID: "call-1", State: map[string]any{"user:b": 1}})
	wantError(t, "second Create", err, session.ErrExists)
	wantState(t, get(t, s, user, "call-1"), map[string]any{"a": "x"}) // what failed changed nothing
	begin(t, s, "+15550199", "call-1", nil)                           // another user's may have the same id
}

func createGeneratesID(t *testing.T, open Open) {
	s := open(t)
	a, b := begin(t, s, user, "", nil), begin(t, s, user, "", nil)
	if a.ID() == "" || a.ID() == b.ID() {
		t.Errorf("ids %q and %q", a.ID(), b.ID())
	}
	n := 0
	s = open(t, session.WithIDs(func() string { n++; return fmt.Sprint("id-", n) }))
	if a := begin(t, s, user, "", nil); a.ID() != "id-1" {
		t.Errorf("id %q, want that of WithIDs", a.ID())
	}
	ctx := session.WithUUIDProvider(t.Context(), func() string { return "from-context" })
	at := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	ctx = session.WithTimeProvider(ctx, func() time.Time { return at })
	r, err := s.Create(ctx, &session.CreateRequest{AppName: app, UserID: user})
	if err != nil || r.Session.ID() != "from-context" || !r.Session.LastUpdateTime().Equal(at) {
		t.Errorf("with a context's providers: %v, %v", r, err)
	}
}

func createRefuses(t *testing.T, open Open) {
	s := open(t)
	long := string(make([]byte, session.MaxID+1))
	for name, r := range map[string]*session.CreateRequest{
		"nil":          nil,
		"no app":       {UserID: user},
		"no user":      {AppName: app},
		"not text":     {AppName: app, UserID: "a\x00b"},
		"not UTF-8":    {AppName: app, UserID: "a\xffb"},
		"long":         {AppName: app, UserID: user, SessionID: long},
		"state":        {AppName: app, UserID: user, State: map[string]any{"f": func() {}}},
		"state's name": {AppName: app, UserID: user, State: map[string]any{"a\x00": 1}},
	} {
		_, err := s.Create(t.Context(), r)
		wantError(t, name, err, session.ErrInvalid)
	}
	if r, err := s.List(t.Context(), &session.ListRequest{AppName: app}); err != nil || len(r.Sessions) != 0 {
		t.Errorf("refused, but there are %v, %v", r, err)
	}
}

func createAtOnce(t *testing.T, open Open) {
	s := open(t)
	const n = 512
	results := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			_, results[i] = s.Create(context.WithoutCancel(t.Context()), &session.CreateRequest{AppName: app, UserID: user, SessionID: "one", State: map[string]any{"winner": i}})
		})
	}
	close(start)
	wg.Wait()
	won := -1
	for i, err := range results {
		switch {
		case err == nil && won >= 0:
			t.Errorf("both %d and %d created it", won, i)
		case err == nil:
			won = i
		default:
			wantError(t, fmt.Sprint("create ", i), err, session.ErrExists)
		}
	}
	wantState(t, get(t, s, user, "one"), map[string]any{"winner": won})
}

func stateScopes(t *testing.T, open Open) {
	s := open(t)
	made := begin(t, s, user, "1", map[string]any{"app:greeting": "hi", "user:name": "Ann", "step": 1, "temp:x": 2, "gone": nil})
	wantState(t, made, map[string]any{"app:greeting": "hi", "step": 1, "user:name": "Ann"})
	wantState(t, get(t, s, user, "1"), map[string]any{"app:greeting": "hi", "step": 1, "user:name": "Ann"})
	wantState(t, begin(t, s, user, "2", nil), map[string]any{"app:greeting": "hi", "user:name": "Ann"})
	wantState(t, begin(t, s, "other", "3", map[string]any{"user:name": "Bob"}), map[string]any{"app:greeting": "hi", "user:name": "Bob"})
	r, err := s.Create(t.Context(), &session.CreateRequest{AppName: "other app", UserID: user})
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, r.Session, map[string]any{})
	wantState(t, get(t, s, user, "2"), map[string]any{"app:greeting": "hi", "user:name": "Ann"})
}

func getOnlyOwn(t *testing.T, open Open) {
	s := open(t)
	begin(t, s, user, "1", nil)
	for name, c := range map[string]struct {
		r    *session.GetRequest
		want error
	}{
		"nil":             {nil, session.ErrInvalid},
		"no app":          {&session.GetRequest{UserID: user, SessionID: "1"}, session.ErrInvalid},
		"no user":         {&session.GetRequest{AppName: app, SessionID: "1"}, session.ErrInvalid},
		"no id":           {&session.GetRequest{AppName: app, UserID: user}, session.ErrInvalid},
		"negative":        {&session.GetRequest{AppName: app, UserID: user, SessionID: "1", NumRecentEvents: -1}, session.ErrInvalid},
		"missing":         {&session.GetRequest{AppName: app, UserID: user, SessionID: "2"}, session.ErrNotFound},
		"another user's":  {&session.GetRequest{AppName: app, UserID: "other", SessionID: "1"}, session.ErrNotFound},
		"another app's":   {&session.GetRequest{AppName: "other", UserID: user, SessionID: "1"}, session.ErrNotFound},
		"case":            {&session.GetRequest{AppName: "Receptionist", UserID: user, SessionID: "1"}, session.ErrNotFound},
		"trailing spaces": {&session.GetRequest{AppName: app, UserID: user, SessionID: "1 "}, session.ErrNotFound},
	} {
		_, err := s.Get(t.Context(), c.r)
		wantError(t, name, err, c.want)
	}
}

func getFilters(t *testing.T, open Open) {
	s := open(t)
	at := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	h := begin(t, s, user, "1", nil)
	for i := range 5 {
		e := said(fmt.Sprint(i), nil)
		e.Timestamp = at.Add(time.Duration(i) * time.Nanosecond)
		add(t, s, h, e)
	}
	for _, c := range []struct {
		last  int
		after time.Time
		want  []string
	}{
		{0, time.Time{}, []string{"0", "1", "2", "3", "4"}},
		{2, time.Time{}, []string{"3", "4"}},
		{9, time.Time{}, []string{"0", "1", "2", "3", "4"}},
		{0, at.Add(3), []string{"3", "4"}},
		{0, at.Add(3).In(time.FixedZone("", 3600)), []string{"3", "4"}},
		{1, at.Add(1), []string{"4"}},
		{4, at.Add(3), []string{"3", "4"}},
		{0, at.Add(time.Hour), nil},
	} {
		r, err := s.Get(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: "1", NumRecentEvents: c.last, After: c.after})
		if err != nil {
			t.Fatal(err)
		}
		wantTexts(t, r.Session, c.want...)
		if c.last == 1 { // what was filtered is a handle like any other
			add(t, s, r.Session, said("5", nil))
			wantTexts(t, get(t, s, user, "1"), "0", "1", "2", "3", "4", "5")
			return
		}
	}
}

func list(t *testing.T, open Open) {
	s := open(t)
	r, err := s.List(t.Context(), &session.ListRequest{AppName: app})
	if err != nil || r.Sessions == nil || len(r.Sessions) != 0 {
		t.Fatalf("of nothing: %v, %v", r, err)
	}
	h := begin(t, s, user, "1", map[string]any{"user:n": 1, "app:a": true, "s": "one"})
	add(t, s, h, said("hello", nil))
	begin(t, s, user, "2", nil)
	begin(t, s, "zoe", "3", map[string]any{"user:n": 2})
	names := func(user string) []string {
		r, err := s.List(t.Context(), &session.ListRequest{AppName: app, UserID: user})
		if err != nil {
			t.Fatal(err)
		}
		out := []string{}
		for _, h := range r.Sessions {
			out = append(out, h.UserID()+"/"+h.ID())
			if h.Events().Len() != 0 {
				t.Errorf("%s has events", h.ID())
			}
			switch h.ID() {
			case "1":
				wantState(t, h, map[string]any{"user:n": 1, "app:a": true, "s": "one"})
			case "2":
				wantState(t, h, map[string]any{"user:n": 1, "app:a": true})
			case "3":
				wantState(t, h, map[string]any{"user:n": 2, "app:a": true})
			}
		}
		return out
	}
	for who, want := range map[string][]string{
		"": {user + "/1", user + "/2", "zoe/3"}, user: {user + "/1", user + "/2"}, "zoe": {"zoe/3"}, "nobody": {},
	} {
		if got := names(who); !slices.Equal(got, want) {
			t.Errorf("of %q: %q, want %q", who, got, want)
		}
	}
	for _, r := range []*session.ListRequest{nil, {}} {
		_, err = s.List(t.Context(), r)
		wantError(t, "no app", err, session.ErrInvalid)
	}
}

func del(t *testing.T, open Open) {
	s := open(t)
	h := begin(t, s, user, "1", map[string]any{"user:n": 1, "app:a": 2, "s": 3})
	add(t, s, h, said("hello", nil))
	remove := func(user, id string) {
		t.Helper()
		if err := s.Delete(t.Context(), &session.DeleteRequest{AppName: app, UserID: user, SessionID: id}); err != nil {
			t.Errorf("Delete: %v", err)
		}
	}
	remove("other", "1")
	wantTexts(t, get(t, s, user, "1"), "hello")
	remove(user, "1")
	remove(user, "1")
	remove(user, "never was")
	_, err := s.Get(t.Context(), &session.GetRequest{AppName: app, UserID: user, SessionID: "1"})
	wantError(t, "Get after Delete", err, session.ErrNotFound)
	again := begin(t, s, user, "1", nil)
	wantTexts(t, again)
	wantState(t, again, map[string]any{"user:n": 1, "app:a": 2})
	wantTexts(t, get(t, s, user, "1"))
	// The handle of the session that was deleted is none of the new one.
	wantError(t, "old handle", s.AppendEvent(t.Context(), h, said("ghost", nil)), session.ErrStaleSession)
	for _, r := range []*session.DeleteRequest{nil, {AppName: app, UserID: user}, {AppName: app, SessionID: "1"}, {UserID: user, SessionID: "1"}} {
		wantError(t, "Delete", s.Delete(t.Context(), r), session.ErrInvalid)
	}
}
