//go:build linux

package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"parley/agent/session"
	"parley/agent/session/postgres"
	"parley/agent/session/sessiontest"
)

// shared is the server of all tests, nil when there is none. It is started here because
// it has to outlive each of them.
var (
	shared  *server
	schemas atomic.Int32
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv("PARLEY_TEST_WRITER"); dsn != "" {
		os.Exit(writer(dsn))
	}
	runtime.LockOSThread() // Pdeathsig watches the thread that starts the server
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if shared, err = startServer(); err != nil && !errors.Is(err, errNoPostgres) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if shared != nil {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// place is a new empty place for tables on the server.
func place(t *testing.T) string {
	t.Helper()
	if shared == nil {
		t.Skip(errNoPostgres)
	}
	name := fmt.Sprint("test_", schemas.Add(1))
	c, err := pgx.Connect(t.Context(), shared.dsn("public"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), "CREATE SCHEMA "+name); err != nil {
		t.Fatal(err)
	}
	return shared.dsn(name)
}

func open(t *testing.T, dsn string, opts ...session.Option) *session.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn, opts...)
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

func TestPostgres(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T, opts ...session.Option) *session.Store { return open(t, place(t), opts...) })
}
