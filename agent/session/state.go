package session

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The largest things that are stored. Records are of telephone calls, not of files.
const (
	// MaxID is the most bytes of an app name, a user id, a session id, an event id and
	// the key of a state value.
	MaxID = 512
	// MaxEvent is the most bytes of one event or one state value, as JSON.
	MaxEvent = 1 << 20
)

// Entry is one change of the state.
type Entry struct {
	// Key is the whole key, with its prefix.
	Key string
	// Value is the value as JSON. Nil deletes the key.
	Value json.RawMessage
}

// Scope says which part of k shares a state key: for an "app:" key only the app is
// left, for a "user:" key app and user.
func (k Key) Scope(key string) Key {
	switch {
	case strings.HasPrefix(key, KeyPrefixApp):
		return Key{App: k.App}
	case strings.HasPrefix(key, KeyPrefixUser):
		return Key{App: k.App, User: k.User}
	}
	return k
}

// split encodes a delta for a backend, ordered by key so that two writers who change
// the same keys never wait for each other in a circle. Temporary keys are returned as
// they are.
func split(delta map[string]any) (stored []Entry, temp map[string]any, err error) {
	for _, key := range slices.Sorted(maps.Keys(delta)) {
		if strings.HasPrefix(key, KeyPrefixTemp) {
			if temp == nil {
				temp = map[string]any{}
			}
			temp[key] = delta[key]
			continue
		}
		if err := checkText("state key", key); err != nil {
			return nil, nil, err
		}
		value, err := encodeValue(key, delta[key])
		if err != nil {
			return nil, nil, err
		}
		stored = append(stored, Entry{Key: key, Value: value})
	}
	return stored, temp, nil
}

// encodeValue returns nil for nil.
func encodeValue(key string, v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: state %q: %w", ErrInvalid, key, err)
	case len(raw) > MaxEvent:
		return nil, fmt.Errorf("%w: state %q has %d bytes, at most %d", ErrInvalid, key, len(raw), MaxEvent)
	case string(raw) == "null": // a nil pointer or map
		return nil, nil
	}
	return raw, nil
}

// checkText refuses what a database cannot hold as text.
func checkText(what, s string) error {
	switch {
	case len(s) > MaxID:
		return fmt.Errorf("%w: %s has %d bytes, at most %d", ErrInvalid, what, len(s), MaxID)
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return fmt.Errorf("%w: %s is not text", ErrInvalid, what)
	}
	return nil
}

// stateView is the state of a handle.
type stateView struct{ h *handle }

// Get implements State.
func (v stateView) Get(key string) (any, error) {
	v.h.mu.RLock()
	defer v.h.mu.RUnlock()
	if value, ok := v.h.state[key]; ok {
		return value, nil
	}
	if value, ok := v.h.temp[key]; ok {
		return value, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrStateKeyNotExist, key)
}

// Set implements State.
func (v stateView) Set(key string, value any) error {
	if strings.HasPrefix(key, KeyPrefixTemp) {
		v.h.mu.Lock()
		defer v.h.mu.Unlock()
		setTemp(v.h, key, value)
		return nil
	}
	// By way of JSON, so that the handle shares nothing with the caller and the value
	// is what it would be after a Get.
	entries, _, err := split(map[string]any{key: value})
	if err != nil {
		return err
	}
	v.h.mu.Lock()
	defer v.h.mu.Unlock()
	return v.h.set(entries)
}

func setTemp(h *handle, key string, value any) {
	if value == nil {
		delete(h.temp, key)
		return
	}
	if h.temp == nil {
		h.temp = map[string]any{}
	}
	h.temp[key] = value
}

// All implements State.
func (v stateView) All() iter.Seq2[string, any] {
	v.h.mu.RLock()
	defer v.h.mu.RUnlock()
	all := make(map[string]any, len(v.h.state)+len(v.h.temp))
	maps.Copy(all, v.h.state)
	maps.Copy(all, v.h.temp)
	return maps.All(all)
}
