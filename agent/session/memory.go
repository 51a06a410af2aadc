package session

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"
)

// Memory is a Backend that forgets everything with the process.
type Memory struct {
	mu       sync.Mutex
	closed   bool
	sessions map[Key]*memSession
	shared   map[Key]*memState // of apps and users
}

type memSession struct {
	revision int64
	updated  time.Time
	state    map[string]json.RawMessage
	events   []memEvent
	ids      map[string]struct{}
}

type memEvent struct {
	at  time.Time
	raw json.RawMessage
}

type memState struct {
	updated time.Time
	values  map[string]json.RawMessage
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{sessions: map[Key]*memSession{}, shared: map[Key]*memState{}}
}

// enter locks m, unless it is closed or ctx is done.
func (m *Memory) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ErrClosed
	}
	return nil
}

// Create implements Backend.
func (m *Memory) Create(ctx context.Context, s Stored, set []Entry) (map[string]json.RawMessage, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if m.sessions[s.Key] != nil {
		return nil, ErrExists
	}
	m.sessions[s.Key] = &memSession{
		revision: s.Revision, updated: s.Updated,
		state: map[string]json.RawMessage{}, ids: map[string]struct{}{},
	}
	m.set(s.Key, set, s.Updated)
	return m.merged(s.Key), nil
}

// set changes values where they belong.
func (m *Memory) set(k Key, entries []Entry, at time.Time) {
	for _, e := range entries {
		scope := k.Scope(e.Key)
		var values map[string]json.RawMessage
		if scope == k {
			values = m.sessions[k].state
		} else {
			if m.shared[scope] == nil {
				m.shared[scope] = &memState{values: map[string]json.RawMessage{}}
			}
			values, m.shared[scope].updated = m.shared[scope].values, at
		}
		if e.Value == nil {
			delete(values, e.Key)
		} else {
			values[e.Key] = e.Value
		}
	}
}

// merged is what a session sees.
func (m *Memory) merged(k Key) map[string]json.RawMessage {
	out := maps.Clone(m.sessions[k].state)
	for _, scope := range [...]Key{{App: k.App}, {App: k.App, User: k.User}} {
		if s := m.shared[scope]; s != nil {
			maps.Copy(out, s.values)
		}
	}
	return out
}

// Load implements Backend.
func (m *Memory) Load(ctx context.Context, k Key, f Filter) (Stored, error) {
	if err := m.enter(ctx); err != nil {
		return Stored{}, err
	}
	defer m.mu.Unlock()
	s := m.sessions[k]
	if s == nil {
		return Stored{}, ErrNotFound
	}
	out := Stored{Key: k, Revision: s.revision, Updated: s.updated, State: m.merged(k)}
	for _, e := range s.events {
		if !e.at.Before(f.After) {
			out.Events = append(out.Events, e.raw)
		}
	}
	if n := len(out.Events); f.Last > 0 && n > f.Last {
		out.Events = slices.Clone(out.Events[n-f.Last:])
	}
	return out, nil
}

// List implements Backend.
func (m *Memory) List(ctx context.Context, app, user string) ([]Stored, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var out []Stored
	for k, s := range m.sessions {
		if k.App == app && (user == "" || k.User == user) {
			out = append(out, Stored{Key: k, Revision: s.revision, Updated: s.updated, State: m.merged(k)})
		}
	}
	slices.SortFunc(out, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Session, b.Session))
	})
	return out, nil
}

// Delete implements Backend.
func (m *Memory) Delete(ctx context.Context, k Key) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	delete(m.sessions, k)
	return nil
}

// Append implements Backend.
func (m *Memory) Append(ctx context.Context, k Key, c Change) (time.Time, error) {
	if err := m.enter(ctx); err != nil {
		return time.Time{}, err
	}
	defer m.mu.Unlock()
	s := m.sessions[k]
	switch {
	case s == nil:
		return time.Time{}, ErrNotFound
	case s.revision != c.Revision:
		return time.Time{}, ErrStaleSession
	}
	if _, there := s.ids[c.ID]; there {
		return time.Time{}, ErrDuplicateEvent
	}
	s.ids[c.ID] = struct{}{}
	s.revision++
	s.events = append(s.events, memEvent{c.At, c.Event})
	if c.At.After(s.updated) {
		s.updated = c.At
	}
	m.set(k, c.Set, s.updated)
	return s.updated, nil
}

// remove removes a session and counts it.
func (m *Memory) remove(k Key, r *Removed) {
	s := m.sessions[k]
	r.add(Removed{Sessions: 1, Events: len(s.events), Keys: len(s.state)})
	delete(m.sessions, k)
}

// Forget implements Backend.
func (m *Memory) Forget(ctx context.Context, user string, limit int) (r Removed, more bool, err error) {
	if err := m.enter(ctx); err != nil {
		return r, false, err
	}
	defer m.mu.Unlock()
	for k := range m.sessions {
		if k.User != user {
			continue
		}
		if r.Sessions == limit {
			return r, true, nil
		}
		m.remove(k, &r)
	}
	for k, s := range m.shared {
		if k.User == user {
			r.Keys += len(s.values)
			delete(m.shared, k)
		}
	}
	return r, false, nil
}

// Expire implements Backend.
func (m *Memory) Expire(ctx context.Context, c Cutoff, limit int) (r Removed, more bool, err error) {
	if err := m.enter(ctx); err != nil {
		return r, false, err
	}
	defer m.mu.Unlock()
	for k, s := range m.sessions {
		if !s.updated.Before(c.Sessions) {
			continue
		}
		if r.Sessions == limit {
			return r, true, nil
		}
		m.remove(k, &r)
	}
	users := map[Key]bool{}
	for k := range m.sessions {
		users[Key{App: k.App, User: k.User}] = true
	}
	gone := 0
	for k, s := range m.shared {
		if k.User == "" || users[k] || !s.updated.Before(c.Users) {
			continue
		}
		if gone == limit {
			return r, true, nil
		}
		r.Keys += len(s.values)
		delete(m.shared, k)
		gone++
	}
	return r, false, nil
}

// Close implements Backend.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.sessions, m.shared = true, nil, nil
	return nil
}
