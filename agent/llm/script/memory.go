package script

import (
	"container/list"
	"maps"
	"sync"
	"time"
)

// memory is what is known of callers, by resource id. It forgets whoever was not
// heard of for the longest time when it is full.
type memory struct {
	max int

	mu    sync.Mutex
	byID  map[string]*list.Element
	order *list.List // of *person; front: heard of last
}

// person is what is known of one caller.
type person struct {
	id     string
	last   time.Time // of the last call; zero: this is the first
	values map[string]string
}

func newMemory(most int) *memory {
	return &memory{max: most, byID: make(map[string]*list.Element), order: list.New()}
}

// recall returns a copy of what is known of a caller who called before.
func (m *memory) recall(id string) (person, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byID[id]
	if !ok || id == "" {
		return person{}, false
	}
	m.order.MoveToFront(e)
	p := *e.Value.(*person)
	p.values = maps.Clone(p.values)
	return p, true
}

// note changes what is known of a caller. Nothing is noted of nobody.
func (m *memory) note(id string, change func(*person)) {
	if id == "" || m.max == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byID[id]
	if !ok {
		e = m.order.PushFront(&person{id: id, values: make(map[string]string)})
		m.byID[id] = e
	}
	m.order.MoveToFront(e)
	change(e.Value.(*person))
	for m.order.Len() > m.max {
		oldest := m.order.Back()
		m.order.Remove(oldest)
		delete(m.byID, oldest.Value.(*person).id)
	}
}
