package main

import (
	"context"
	"errors"
	"sync"

	"parley/agent/retrieval"
)

// later is a store of passages that is opened when it is first used: a check opens none,
// and a database that is away at the start is tried again.
type later struct {
	open func(context.Context) (retrieval.Store, error)

	mu     sync.Mutex
	store  retrieval.Store
	closed bool
}

var errStoreClosed = errors.New("the store of documents is closed")

func (l *later) get(ctx context.Context) (retrieval.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errStoreClosed
	case l.store != nil:
		return l.store, nil
	}
	store, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	l.store = store
	return store, nil
}

// Replace implements retrieval.Store.
func (l *later) Replace(ctx context.Context, source, version string, chunks []retrieval.Chunk) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Replace(ctx, source, version, chunks)
}

// Remove implements retrieval.Store.
func (l *later) Remove(ctx context.Context, source string) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.Remove(ctx, source)
}

// Sources implements retrieval.Store.
func (l *later) Sources(ctx context.Context) (map[string]string, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return s.Sources(ctx)
}

// Search implements retrieval.Store.
func (l *later) Search(ctx context.Context, vector []float32, limit int) ([]retrieval.Hit, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return s.Search(ctx, vector, limit)
}

// Close implements retrieval.Store.
func (l *later) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.store == nil {
		return nil
	}
	return l.store.Close()
}
