package chat

import "sync"

// GateConfig says what opens and closes a Gate.
type GateConfig[T any] struct {
	// Opens is asked while the gate is closed, Closes while it is open.
	Opens, Closes func(T) bool
	// Control says what is never held, whatever the gate says: an interruption that
	// waited behind a gate could not open it. nil: nothing.
	Control func(T) bool
	// StartOpen has the gate open at first.
	StartOpen bool
	// Max bounds what is held; the oldest goes. 0: 1024.
	Max int
}

// Gate holds things back until one of them opens it. That one goes first, then what was
// held, in order. The one that closes it is held, and so the first to be released next
// time. It is safe for concurrent use.
type Gate[T any] struct {
	cfg     GateConfig[T]
	mu      sync.Mutex
	open    bool
	held    []T
	dropped int
}

// NewGate returns a Gate.
func NewGate[T any](cfg GateConfig[T]) *Gate[T] {
	if cfg.Max <= 0 {
		cfg.Max = 1024
	}
	return &Gate[T]{cfg: cfg, open: cfg.StartOpen}
}

// Pass takes a thing and returns what goes on now, in order.
func (g *Gate[T]) Pass(thing T) []T {
	if g.cfg.Control != nil && g.cfg.Control(thing) {
		return []T{thing}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.open && (g.cfg.Closes == nil || !g.cfg.Closes(thing)):
		return []T{thing}
	case !g.open && g.cfg.Opens != nil && g.cfg.Opens(thing):
		out := append([]T{thing}, g.held...)
		g.open, g.held = true, nil
		return out
	}
	g.open = false
	if g.held = append(g.held, thing); len(g.held) > g.cfg.Max {
		g.held = g.held[1:]
		g.dropped++
	}
	return nil
}

// Dropped is how many things went because too many were held.
func (g *Gate[T]) Dropped() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dropped
}

// ContextGate holds a conversation back from the model until something else, such as a
// lookup, says to go on. Only the newest is held: an older one is of a conversation
// that has moved on. It is safe for concurrent use.
type ContextGate[T any] struct {
	mu   sync.Mutex
	open bool
	held *T
}

// NewContextGate returns a gate. With startOpen the first conversation goes through at
// once.
func NewContextGate[T any](startOpen bool) *ContextGate[T] {
	return &ContextGate[T]{open: startOpen}
}

// Offer returns context and true when it goes through, and holds it otherwise.
func (g *ContextGate[T]) Offer(context T) (T, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		g.open = false
		return context, true
	}
	g.held = &context
	var none T
	return none, false
}

// Release returns what is held, once; false when that is nothing.
func (g *ContextGate[T]) Release() (T, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		var none T
		return none, false
	}
	held := *g.held
	g.held = nil
	return held, true
}
