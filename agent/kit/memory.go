package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"parley/agent"
	"parley/agent/session"
)

// Memory is a store of texts for a session's tools and hooks. It is safe for
// concurrent use. By convention keys begin with "{SessionID}/", so that
// List(SessionID+"/") gives those of one session; implementations do not demand it.
type Memory interface {
	// Get returns the value of key; "", false and no error when there is none.
	Get(ctx context.Context, key string) (value string, ok bool, err error)
	// Set overwrites.
	Set(ctx context.Context, key, value string) error
	// List returns the keys that begin with prefix, sorted.
	List(ctx context.Context, prefix string) ([]string, error)
	// Delete of a key that is not there does nothing.
	Delete(ctx context.Context, key string) error
}

// NewInMemory returns a Memory that lasts as long as it is held.
func NewInMemory() Memory { return &inMemory{values: map[string]string{}} }

type inMemory struct {
	mu     sync.RWMutex
	values map[string]string
}

// Get implements Memory.
func (m *inMemory) Get(_ context.Context, key string) (string, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.values[key]
	return v, ok, nil
}

// Set implements Memory.
func (m *inMemory) Set(_ context.Context, key, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = value
	return nil
}

// List implements Memory.
func (m *inMemory) List(_ context.Context, prefix string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return withPrefix(slices.Collect(maps.Keys(m.values)), prefix), nil
}

// Delete implements Memory.
func (m *inMemory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
	return nil
}

// withPrefix keeps the keys that begin with prefix, sorted.
func withPrefix(keys []string, prefix string) []string {
	keys = slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, prefix) })
	slices.Sort(keys)
	return keys
}

// OfState returns a Memory that is a view of the state of a session on record. Values
// that are no texts are given as JSON. The state's prefixes mean what they mean there:
// "user:" keys are the user's, in all sessions.
func OfState(s session.State) Memory { return stateMemory{s} }

type stateMemory struct{ state session.State }

// Get implements Memory.
func (m stateMemory) Get(_ context.Context, key string) (string, bool, error) {
	v, err := m.state.Get(key)
	switch {
	case errors.Is(err, session.ErrStateKeyNotExist), err == nil && v == nil:
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("kit: memory: %w", err)
	}
	return textOf(v)
}

// textOf is a JSON value as text.
func textOf(v any) (string, bool, error) {
	if text, ok := v.(string); ok {
		return text, true, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "", false, fmt.Errorf("kit: memory: %w", err)
	}
	return string(raw), true, nil
}

// Set implements Memory.
func (m stateMemory) Set(_ context.Context, key, value string) error {
	if err := m.state.Set(key, value); err != nil {
		return fmt.Errorf("kit: memory: %w", err)
	}
	return nil
}

// List implements Memory.
func (m stateMemory) List(_ context.Context, prefix string) ([]string, error) {
	var keys []string
	for k, v := range m.state.All() {
		if v != nil {
			keys = append(keys, k)
		}
	}
	return withPrefix(keys, prefix), nil
}

// Delete implements Memory.
func (m stateMemory) Delete(_ context.Context, key string) error {
	if err := m.state.Set(key, nil); err != nil {
		return fmt.Errorf("kit: memory: %w", err)
	}
	return nil
}

// OfCall returns a Memory that is a view of what is kept of a call's caller; nil gives
// one that lasts for the call.
func OfCall(m agent.Memory) Memory {
	if m == nil {
		return NewInMemory()
	}
	return callMemory{m}
}

type callMemory struct{ memory agent.Memory }

// Get implements Memory.
func (m callMemory) Get(_ context.Context, key string) (string, bool, error) {
	v, ok := m.memory.Get(key)
	if !ok || v == nil {
		return "", false, nil
	}
	return textOf(v)
}

// Set implements Memory.
func (m callMemory) Set(_ context.Context, key, value string) error {
	m.memory.Set(key, value)
	return nil
}

// List implements Memory.
func (m callMemory) List(_ context.Context, prefix string) ([]string, error) {
	return withPrefix(slices.Clone(m.memory.Keys(prefix)), prefix), nil
}

// Delete implements Memory.
func (m callMemory) Delete(_ context.Context, key string) error {
	m.memory.Set(key, nil)
	return nil
}
