// Package retrievaltest shows that a store of passages behaves.
package retrievaltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"parley/agent/retrieval"
)

// Run holds a store against what an Index relies on. open gives an empty store for t.
// With reopen, what was stored must be there in the next store that it opens on the same
// place; without, it is nil.
func Run(t *testing.T, open func(t *testing.T) (s retrieval.Store, reopen func() retrieval.Store)) {
	t.Run("an empty store has nothing", func(t *testing.T) {
		s, _ := open(t)
		if hits, err := s.Search(t.Context(), vector(1, 0, 0), 3); err != nil || len(hits) != 0 {
			t.Errorf("hits %v, %v", hits, err)
		}
		if sources, err := s.Sources(t.Context()); err != nil || len(sources) != 0 {
			t.Errorf("sources %v, %v", sources, err)
		}
		if err := s.Remove(t.Context(), "nothing"); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	t.Run("the most similar come first", func(t *testing.T) {
		s, _ := open(t)
		put(t, s, "a.md", "1", vector(1, 0, 0), vector(1, 1, 0))
		put(t, s, "b.md", "1", vector(0, 1, 0), vector(0, 0, 1))
		hits, err := s.Search(t.Context(), vector(1, 0, 0), 3)
		if err != nil || len(hits) != 3 || hits[0].Text != "a.md 1 0" || hits[1].Text != "a.md 1 1" || hits[0].Source != "a.md" {
			t.Fatalf("hits %+v, %v", hits, err)
		}
		if hits[0].Similarity < 0.999 || hits[1].Similarity < 0.70 || hits[1].Similarity > 0.72 || hits[2].Similarity > 0.001 {
			t.Errorf("similarities %v %v %v", hits[0].Similarity, hits[1].Similarity, hits[2].Similarity)
		}
		if hits, err = s.Search(t.Context(), vector(1, 0, 0), 100); err != nil || len(hits) != 4 {
			t.Errorf("%d of 4, %v", len(hits), err)
		}
	})
	t.Run("a new version takes the place of the old one", func(t *testing.T) {
		s, _ := open(t)
		put(t, s, "a.md", "1", vector(1, 0, 0), vector(1, 1, 0))
		put(t, s, "a.md", "2", vector(0, 1, 0))
		hits, err := s.Search(t.Context(), vector(1, 0, 0), 9)
		if err != nil || len(hits) != 1 || hits[0].Text != "a.md 2 0" {
			t.Errorf("hits %+v, %v", hits, err)
		}
		put(t, s, "a.md", "3")
		if sources, err := s.Sources(t.Context()); err != nil || !maps.Equal(sources, map[string]string{"a.md": "3"}) {
			t.Errorf("a document without passages is known: %v, %v", sources, err)
		}
	})
	t.Run("a document is removed whole", func(t *testing.T) {
		s, _ := open(t)
		put(t, s, "a.md", "1", vector(1, 0, 0), vector(1, 1, 0))
		put(t, s, "b.md", "1", vector(0, 1, 0))
		if err := s.Remove(t.Context(), "a.md"); err != nil {
			t.Fatal(err)
		}
		hits, err := s.Search(t.Context(), vector(1, 0, 0), 9)
		if err != nil || len(hits) != 1 || hits[0].Source != "b.md" {
			t.Errorf("hits %+v, %v", hits, err)
		}
	})
	t.Run("vectors of another length are refused, unless nothing else is held", func(t *testing.T) {
		s, _ := open(t)
		put(t, s, "a.md", "1", vector(1, 0, 0))
		err := s.Replace(t.Context(), "b.md", "1", chunks("b.md", "1", vector(1, 0)))
		if !errors.Is(err, retrieval.ErrDimensions) {
			t.Errorf("replace: %v", err)
		}
		if _, err := s.Search(t.Context(), vector(1, 0), 1); !errors.Is(err, retrieval.ErrDimensions) {
			t.Errorf("search: %v", err)
		}
		if err := s.Remove(t.Context(), "a.md"); err != nil {
			t.Fatal(err)
		}
		put(t, s, "b.md", "1", vector(1, 0))
		if hits, err := s.Search(t.Context(), vector(1, 0), 1); err != nil || len(hits) != 1 {
			t.Errorf("hits %v, %v", hits, err)
		}
	})
	t.Run("many at once", func(t *testing.T) { atOnce(t, open) })
	t.Run("what is stored stays", func(t *testing.T) {
		s, reopen := open(t)
		if reopen == nil {
			t.Skip("this store keeps nothing")
		}
		put(t, s, "a.md", "1", vector(1, 0, 0), vector(1, 1, 0))
		put(t, s, "b.md", "7", vector(0, 1, 0))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = reopen()
		if sources, err := s.Sources(t.Context()); err != nil || !maps.Equal(sources, map[string]string{"a.md": "1", "b.md": "7"}) {
			t.Errorf("sources %v, %v", sources, err)
		}
		if hits, err := s.Search(t.Context(), vector(1, 0, 0), 9); err != nil || len(hits) != 3 || hits[0].Text != "a.md 1 0" {
			t.Errorf("hits %+v, %v", hits, err)
		}
	})
}

// atOnce has documents written and removed while others search: a search sees each
// document as it was or as it is, whole.
func atOnce(t *testing.T, open func(t *testing.T) (retrieval.Store, func() retrieval.Store)) {
	s, _ := open(t)
	put(t, s, "fixed.md", "1", vector(1, 0, 0))
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			name := fmt.Sprintf("%d.md", n)
			for version := range 10 {
				err := s.Replace(t.Context(), name, fmt.Sprint(version), chunks(name, fmt.Sprint(version), vector(0, 1, 0), vector(0, 1, 0.1)))
				if err == nil && version%3 == 0 {
					err = s.Remove(t.Context(), name)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				hits, err := s.Search(t.Context(), vector(1, 0, 0), 100)
				if err != nil || len(hits) == 0 || hits[0].Source != "fixed.md" {
					t.Errorf("hits %v, %v", hits, err)
				}
				of := map[string]int{}
				for _, h := range hits[min(1, len(hits)):] {
					of[h.Source]++
				}
				for source, n := range of {
					if n != 2 {
						t.Errorf("%d passages of %s, want 2 or none", n, source)
					}
				}
			}
		})
	}
	wg.Wait()
	sources, err := s.Sources(t.Context())
	if names := slices.Sorted(maps.Keys(sources)); err != nil || len(names) != 1 { // the last version, 9, was removed
		t.Errorf("sources %v, %v", names, err)
	}
}

// vector has length 1 and the direction of v.
func vector(v ...float32) []float32 {
	retrieval.Normalize(v)
	return v
}

func chunks(name, version string, vectors ...[]float32) []retrieval.Chunk {
	var out []retrieval.Chunk
	for i, v := range vectors {
		out = append(out, retrieval.Chunk{Text: fmt.Sprintf("%s %s %d", name, version, i), Vector: v})
	}
	return out
}

func put(t *testing.T, s retrieval.Store, name, version string, vectors ...[]float32) {
	t.Helper()
	if err := s.Replace(context.WithoutCancel(t.Context()), name, version, chunks(name, version, vectors...)); err != nil {
		t.Fatal(err)
	}
}
