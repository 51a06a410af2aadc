// Package chromem keeps the passages of a retrieval.Index in the process, and in a
// folder if there is one: the default, for one gateway.
package chromem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	db "github.com/philippgille/chromem-go"

	"parley/agent/retrieval"
)

// Store is a retrieval.Store in memory. Searching looks at every passage, which takes a
// millisecond for some thousand.
type Store struct {
	dir string // "": nothing is written

	mu       sync.RWMutex
	passages *db.Collection
	sources  map[string]source
	length   int // of vectors; 0: not known yet
}

// source is what is known of a document.
type source struct {
	Version string `json:"version"`
	// IDs are those of its passages.
	IDs []string `json:"ids"`
	// Next numbers passages, so that those of two versions are never mixed up.
	Next int `json:"next"`
}

const (
	collection = "passages"
	listFile   = "documents.json"
)

// Open reads the store of a folder, which it makes when it is not there. Without a
// folder the store begins empty and is gone at the end.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, sources: map[string]source{}}
	base := db.NewDB()
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("retrieval: %w", err)
		}
		var err error
		if base, err = db.NewPersistentDB(filepath.Join(dir, "passages"), false); err != nil {
			return nil, fmt.Errorf("retrieval: %s: %w", dir, err)
		}
		if err := s.read(); err != nil {
			return nil, err
		}
	}
	if len(s.sources) == 0 { // what a run that was killed has left is nobody's
		if err := base.DeleteCollection(collection); err != nil {
			return nil, fmt.Errorf("retrieval: %s: %w", dir, err)
		}
	}
	var err error
	if s.passages, err = base.GetOrCreateCollection(collection, nil, embedNothing); err != nil {
		return nil, fmt.Errorf("retrieval: %s: %w", dir, err)
	}
	return s, s.tidy(context.Background())
}

// tidy finds out how long vectors are, and removes passages that are on no list: a run
// was killed between writing them and writing the list.
func (s *Store) tidy(ctx context.Context) error {
	live := map[string]bool{}
	for name, known := range s.sources {
		for _, id := range known.IDs {
			live[id] = true
			if s.length > 0 {
				continue
			}
			d, err := s.passages.GetByID(ctx, id)
			if err != nil {
				return fmt.Errorf("retrieval: %s: a passage of %s is lost; remove the folder, and the documents are embedded anew", s.dir, name)
			}
			s.length = len(d.Embedding)
		}
	}
	n := s.passages.Count()
	if n == len(live) || s.length == 0 {
		return nil
	}
	any := make([]float32, s.length)
	any[0] = 1
	all, err := s.passages.QueryEmbedding(ctx, any, n, nil, nil)
	if err != nil {
		return fmt.Errorf("retrieval: %w", err)
	}
	var ids []string
	for _, p := range all {
		if !live[p.ID] {
			ids = append(ids, p.ID)
		}
	}
	return s.drop(ctx, ids)
}

// embedNothing is for a library that would ask a service on the network otherwise.
func embedNothing(context.Context, string) ([]float32, error) {
	return nil, errors.New("retrieval: a passage without a vector")
}

// read reads the list of documents. It is written after their passages: what is not on
// it is not there.
func (s *Store) read() error {
	file := filepath.Join(s.dir, listFile)
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s.sources)
	}
	if err != nil {
		return fmt.Errorf("retrieval: %s: %w; remove the folder, and the documents are embedded anew", file, err)
	}
	return nil
}

// write writes the list of documents, as a whole or not at all.
func (s *Store) write() error {
	if s.dir == "" {
		return nil
	}
	b, err := json.Marshal(s.sources)
	if err != nil {
		return fmt.Errorf("retrieval: %w", err)
	}
	file := filepath.Join(s.dir, listFile)
	if err := os.WriteFile(file+".new", b, 0o600); err != nil {
		return fmt.Errorf("retrieval: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("retrieval: %w", err)
	}
	return nil
}

// Replace implements retrieval.Store.
func (s *Store) Replace(ctx context.Context, name, version string, chunks []retrieval.Chunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.sources[name]
	is := source{Version: version, Next: was.Next}
	docs := make([]db.Document, 0, len(chunks))
	length := s.length
	if _, held := s.sources[name]; len(s.sources) == 0 || held && len(s.sources) == 1 {
		length = 0 // nothing else is held that it must be like
	}
	for _, c := range chunks {
		if length == 0 {
			length = len(c.Vector)
		}
		if len(c.Vector) != length {
			return fmt.Errorf("%w: %d, not %d", retrieval.ErrDimensions, len(c.Vector), length)
		}
		id := name + "#" + strconv.Itoa(is.Next)
		is.Next++
		is.IDs = append(is.IDs, id)
		docs = append(docs, db.Document{ID: id, Metadata: map[string]string{"source": name}, Embedding: c.Vector, Content: c.Text})
	}
	if len(docs) > 0 {
		if err := s.passages.AddDocuments(ctx, docs, 1); err != nil {
			return errors.Join(fmt.Errorf("retrieval: %w", err), s.drop(context.WithoutCancel(ctx), is.IDs))
		}
	}
	s.sources[name] = is
	if err := s.write(); err != nil {
		if was.Version == "" {
			delete(s.sources, name)
		} else {
			s.sources[name] = was
		}
		return errors.Join(err, s.drop(context.WithoutCancel(ctx), is.IDs))
	}
	s.length = length
	return s.drop(context.WithoutCancel(ctx), was.IDs)
}

// drop removes passages.
func (s *Store) drop(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.passages.Delete(ctx, nil, nil, ids...); err != nil {
		return fmt.Errorf("retrieval: %w", err)
	}
	return nil
}

// Remove implements retrieval.Store.
func (s *Store) Remove(ctx context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.sources[name]
	if !known {
		return nil
	}
	delete(s.sources, name)
	if err := s.write(); err != nil {
		s.sources[name] = was
		return err
	}
	return s.drop(context.WithoutCancel(ctx), was.IDs)
}

// Sources implements retrieval.Store.
func (s *Store) Sources(context.Context) (map[string]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[string]string, len(s.sources))
	for name, known := range s.sources {
		out[name] = known.Version
	}
	return out, nil
}

// Search implements retrieval.Store.
func (s *Store) Search(ctx context.Context, vector []float32, limit int) ([]retrieval.Hit, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	limit = min(limit, s.passages.Count())
	if limit <= 0 {
		return nil, nil
	}
	if len(vector) != s.length {
		return nil, fmt.Errorf("%w: %d, not %d", retrieval.ErrDimensions, len(vector), s.length)
	}
	found, err := s.passages.QueryEmbedding(ctx, vector, limit, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("retrieval: %w", err)
	}
	out := make([]retrieval.Hit, 0, len(found))
	for _, f := range found {
		out = append(out, retrieval.Hit{Text: f.Content, Source: f.Metadata["source"], Similarity: f.Similarity})
	}
	return out, nil
}

// Close implements retrieval.Store.
func (s *Store) Close() error { return nil }

var _ retrieval.Store = (*Store)(nil)
