package chromem

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"parley/agent/retrieval"
	"parley/agent/retrieval/retrievaltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func store(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreInMemory(t *testing.T) {
	retrievaltest.Run(t, func(t *testing.T) (retrieval.Store, func() retrieval.Store) { return store(t, ""), nil })
}

func TestStoreInAFolder(t *testing.T) {
	retrievaltest.Run(t, func(t *testing.T) (retrieval.Store, func() retrieval.Store) {
		dir := filepath.Join(t.TempDir(), "made", "when needed")
		return store(t, dir), func() retrieval.Store { return store(t, dir) }
	})
}

func chunk(text string, v ...float32) []retrieval.Chunk {
	retrieval.Normalize(v)
	return []retrieval.Chunk{{Text: text, Vector: v}}
}

// A run that was killed after it wrote passages and before it wrote the list.
func TestPassagesOnNoListAreGone(t *testing.T) {
	for _, held := range []bool{true, false} {
		dir := t.TempDir()
		s := store(t, dir)
		if held {
			if err := s.Replace(t.Context(), "a.md", "1", chunk("kept", 1, 0)); err != nil {
				t.Fatal(err)
			}
		}
		list, _ := os.ReadFile(filepath.Join(dir, listFile))
		if err := s.Replace(t.Context(), "b.md", "1", chunk("half done", 0, 1)); err != nil {
			t.Fatal(err)
		}
		if held {
			if err := os.WriteFile(filepath.Join(dir, listFile), list, 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Remove(filepath.Join(dir, listFile)); err != nil {
			t.Fatal(err)
		}
		s = store(t, dir)
		hits, err := s.Search(t.Context(), chunk("", 0, 1)[0].Vector, 9)
		if err != nil || held && (len(hits) != 1 || hits[0].Text != "kept") || !held && len(hits) != 0 {
			t.Errorf("held %v: %+v, %v", held, hits, err)
		}
	}
}

func TestADamagedFolderSaysSo(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, listFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "remove the folder") {
		t.Errorf("no remedy: %v", err)
	}
	dir = t.TempDir()
	if err := store(t, dir).Replace(t.Context(), "a.md", "1", chunk("lost", 1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "passages")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "a.md") {
		t.Errorf("a lost passage is not told: %v", err)
	}
}

// What cannot be written to disk is not in memory either.
func TestAFullDisk(t *testing.T) {
	dir := t.TempDir()
	s := store(t, dir)
	if err := s.Replace(t.Context(), "a.md", "1", chunk("old", 1, 0)); err != nil {
		t.Fatal(err)
	}
	// A folder in the list's place: it cannot be renamed over.
	if err := os.Remove(filepath.Join(dir, listFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, listFile, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(t.Context(), "a.md", "2", chunk("new", 1, 0)); err == nil {
		t.Error("a list that cannot be written is no error")
	}
	if err := s.Remove(t.Context(), "a.md"); err == nil {
		t.Error("nor when a document is removed")
	}
	hits, err := s.Search(t.Context(), chunk("", 1, 0)[0].Vector, 9)
	if err != nil || len(hits) != 1 || hits[0].Text != "old" {
		t.Errorf("hits %+v, %v", hits, err)
	}
}
