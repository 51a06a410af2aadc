package kit

import (
	"slices"
	"sync"
	"testing"

	"parley/agent"
	"parley/agent/session"
)

// callState is the memory of a caller as calls lend it.
type callState struct {
	mu     sync.Mutex
	values map[string]any
}

func (m *callState) Get(key string) (any, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	return v, ok
}

func (m *callState) Set(key string, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value == nil {
		delete(m.values, key)
		return
	}
	m.values[key] = value
}

func (m *callState) Keys(prefix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for k := range m.values {
		keys = append(keys, k)
	}
	return withPrefix(keys, prefix)
}

// 10: every Memory keeps the contract.
func TestMemory(t *testing.T) {
	store := session.InMemoryService()
	created, err := store.Create(t.Context(), &session.CreateRequest{AppName: "app", UserID: "u", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	state := created.Session.State()
	if err := state.Set("user:visits", 3); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]Memory{
		"in memory": NewInMemory(), "state": OfState(state), "no call": OfCall(nil),
		"call": OfCall(&callState{values: map[string]any{"user:visits": 3}}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if v, ok, err := m.Get(ctx, "none"); v != "" || ok || err != nil {
				t.Errorf("Get of what is not there: %q %v %v", v, ok, err)
			}
			for _, k := range []string{"s/b", "s/a", "t/c"} {
				if err := m.Set(ctx, k, "first"); err != nil {
					t.Error(err)
				}
				if err := m.Set(ctx, k, "second"); err != nil {
					t.Error(err)
				}
			}
			if v, ok, err := m.Get(ctx, "s/a"); v != "second" || !ok || err != nil {
				t.Errorf("Get: %q %v %v", v, ok, err)
			}
			if keys, err := m.List(ctx, "s/"); !slices.Equal(keys, []string{"s/a", "s/b"}) || err != nil {
				t.Errorf("List: %q %v", keys, err)
			}
			for range 2 {
				if err := m.Delete(ctx, "s/a"); err != nil {
					t.Errorf("Delete: %v", err)
				}
			}
			if _, ok, _ := m.Get(ctx, "s/a"); ok {
				t.Error("deleted, and still there")
			}
			if keys, err := m.List(ctx, "s/"); !slices.Equal(keys, []string{"s/b"}) || err != nil {
				t.Errorf("List: %q %v", keys, err)
			}
			if name == "state" || name == "call" {
				if v, ok, err := m.Get(ctx, "user:visits"); v != "3" || !ok || err != nil {
					t.Errorf("a number: %q %v %v", v, ok, err)
				}
			}
		})
	}
}

var _ agent.Memory = (*callState)(nil)
