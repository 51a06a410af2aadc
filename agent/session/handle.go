package session

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// handle is a copy of a stored session.
type handle struct {
	key Key
	// turn holds one token: whoever has it may append.
	turn chan struct{}

	mu         sync.RWMutex
	revision   int64
	updated    time.Time
	state      map[string]any // never a temporary key
	temp       map[string]any // of the invocation
	invocation string
	events     []*Event // only ever appended to: a copy of the slice header is a snapshot
}

// newHandle decodes what a backend found.
func newHandle(s Stored, after time.Time) (*handle, error) {
	h := &handle{
		key: s.Key, turn: make(chan struct{}, 1),
		revision: s.Revision, updated: s.Updated, state: make(map[string]any, len(s.State)),
	}
	for key, raw := range s.State {
		v, err := decodeValue(raw)
		if err != nil {
			return nil, err
		}
		h.state[key] = v
	}
	for _, raw := range s.Events {
		e := new(Event)
		if err := e.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("session: stored event of session %q: %w", s.Session, err)
		}
		if !e.Timestamp.Before(after) {
			h.events = append(h.events, e)
		}
	}
	return h, nil
}

// lock waits for the turn to append.
func (h *handle) lock(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *handle) unlock() { <-h.turn }

// apply brings the handle up to date with an event that was stored.
func (h *handle) apply(p prepared, revision int64, updated time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.set(p.Set); err != nil {
		return err
	}
	if h.invocation != "" && p.event.InvocationID != h.invocation {
		h.temp = nil
	}
	h.invocation = p.event.InvocationID
	for key, value := range p.temp {
		setTemp(h, key, value)
	}
	h.events = append(h.events, p.event)
	h.revision = revision
	if updated.After(h.updated) {
		h.updated = updated
	}
	return nil
}

// set changes the state. The caller holds mu.
func (h *handle) set(entries []Entry) error {
	for _, e := range entries {
		if e.Value == nil {
			delete(h.state, e.Key)
			continue
		}
		v, err := decodeValue(e.Value)
		if err != nil {
			return err
		}
		h.state[e.Key] = v
	}
	return nil
}

// ID implements Session.
func (h *handle) ID() string { return h.key.Session }

// AppName implements Session.
func (h *handle) AppName() string { return h.key.App }

// UserID implements Session.
func (h *handle) UserID() string { return h.key.User }

// State implements Session.
func (h *handle) State() State { return stateView{h} }

// Events implements Session.
func (h *handle) Events() Events {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return eventList(h.events)
}

// LastUpdateTime implements Session.
func (h *handle) LastUpdateTime() time.Time {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.updated
}

// eventList is a snapshot of events.
type eventList []*Event

// All implements Events.
func (l eventList) All() iter.Seq[*Event] { return slices.Values(l) }

// Len implements Events.
func (l eventList) Len() int { return len(l) }

// At implements Events.
func (l eventList) At(i int) *Event {
	if i < 0 || i >= len(l) {
		return nil
	}
	return l[i]
}
