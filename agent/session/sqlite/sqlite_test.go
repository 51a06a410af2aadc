package sqlite_test

import (
	"path/filepath"
	"testing"

	"parley/agent/session"
	"parley/agent/session/sessiontest"
	"parley/agent/session/sqlite"
)

func open(t *testing.T, path string, opts ...session.Option) *session.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestSQLite(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T, opts ...session.Option) *session.Store {
		return open(t, filepath.Join(t.TempDir(), "sessions.db"), opts...)
	})
}
