//go:build linux

package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	if dsn := os.Getenv(writerEnv); dsn != "" {
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
		t.Error(err)
		return nil
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
	sessiontest.RunShared(t, func(t *testing.T) sessiontest.Again {
		dsn := place(t)
		return func(t *testing.T) *session.Store { return open(t, dsn) }
	})
}

func TestKilled(t *testing.T) {
	dsn := place(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), writerEnv+"="+dsn)
	sessiontest.Killed(t, cmd, func(t *testing.T) *session.Store { return open(t, dsn) })
}

// Two gateways sweep at the same time: each session is removed once.
func TestSweepAtOnce(t *testing.T) {
	dsn := place(t)
	later := session.WithClock(func() time.Time { return time.Now().Add(time.Hour) })
	stores := []*session.Store{open(t, dsn, later), open(t, dsn, later)}
	const n = 300
	now := open(t, dsn)
	for i := range n {
		if _, err := now.Create(t.Context(), &session.CreateRequest{AppName: "a", UserID: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	var removed atomic.Int64
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() {
			r, err := s.Sweep(t.Context(), session.Retention{Sessions: time.Minute})
			if err != nil {
				t.Error(err)
			}
			removed.Add(int64(r.Sessions))
		})
	}
	wg.Wait()
	if removed.Load() != n {
		t.Errorf("%d removed, want %d", removed.Load(), n)
	}
}

// A connection that the server cuts costs no event.
func TestConnectionsCut(t *testing.T) {
	dsn := place(t)
	s := open(t, dsn)
	r := session.NewRecorder(s, session.RecorderConfig{RetryMin: 10 * time.Millisecond})
	c, err := r.Open(t.Context(), &session.CreateRequest{AppName: "a", UserID: "u", SessionID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := pgx.Connect(t.Context(), shared.dsn("admin"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	for i := range 60 {
		e := session.NewEvent(t.Context(), "i")
		e.Content = session.NewText("user", fmt.Sprint(i))
		if err := c.Append(e); err != nil {
			t.Error(err)
		}
		if i%20 == 10 {
			if _, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'parley' AND pid <> pg_backend_pid()"); err != nil {
				t.Fatal(err)
			}
		}
		if i%3 == 0 {
			if err := c.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	got, err := s.Get(t.Context(), &session.GetRequest{AppName: "a", UserID: "u", SessionID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for e := range got.Session.Events().All() {
		if e.Content.Parts[0].Text != fmt.Sprint(i) {
			t.Fatalf("event %d is %q", i, e.Content.Parts[0].Text)
		}
		i++
	}
	if i != 60 {
		t.Errorf("%d events, want 60", i)
	}
}

func TestOpenRefuses(t *testing.T) {
	newer := place(t)
	open(t, newer)
	c, err := pgx.Connect(t.Context(), newer)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), `INSERT INTO parley_schema (version, name) VALUES (99, '0099_future.sql')`); err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(newer, shared.password, "not-the-password", 1)
	for name, c := range map[string]struct{ dsn, want string }{
		"no DSN":         {"postgres://user:hunter2@host:port/", "session/postgres: "},
		"nobody there":   {"postgres://user:hunter2@127.0.0.1:1/x", "session/postgres: "},
		"wrong password": {wrong, "password authentication failed"},
		"newer":          {newer, "of version 99 and this program knows 1"},
	} {
		s, err := postgres.Open(t.Context(), c.dsn)
		if err == nil || !strings.HasPrefix(err.Error(), "session/postgres: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "not-the-password") || strings.Contains(err.Error(), shared.password)) {
			t.Errorf("%s: the password is in %q", name, err)
		}
		if s != nil {
			s.Close()
		}
	}
}
