package session_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"parley/agent/session"
	"parley/agent/session/sessiontest"
	"parley/agent/session/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	sessiontest.Run(t, func(_ *testing.T, opts ...session.Option) *session.Store {
		return session.NewStore(session.NewMemory(), opts...)
	})
}

// SQL is tested here on the database that is always there.
func TestSQL(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T, opts ...session.Option) *session.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "sessions.db"), opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	})
}

func TestInMemoryService(t *testing.T) {
	s := session.InMemoryService()
	r, err := s.Create(t.Context(), &session.CreateRequest{AppName: "a", UserID: "u"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AppendEvent(t.Context(), r.Session, session.NewEvent(t.Context(), "i")); err != nil {
		t.Fatal(err)
	}
}
