package session_test

import (
	"testing"

	"go.uber.org/goleak"

	"parley/agent/session"
	"parley/agent/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	sessiontest.Run(t, func(_ *testing.T, opts ...session.Option) *session.Store {
		return session.NewStore(session.NewMemory(), opts...)
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
