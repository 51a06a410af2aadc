package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"
	"go.uber.org/goleak"

	"parley/agent/session"
	"parley/agent/session/sessiontest"
	"parley/agent/session/sqlite"
)

// writerEnv makes this process the one that is killed.
const writerEnv = "PARLEY_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		store, err := sqlite.Open(context.Background(), path)
		if err == nil {
			err = sessiontest.Writer(store, os.Stdout)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string, opts ...session.Option) *session.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opts...)
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

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "with space?&#%.db") }

func TestSQLite(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T, opts ...session.Option) *session.Store { return open(t, file(t), opts...) })
	sessiontest.RunShared(t, func(t *testing.T) sessiontest.Again {
		path := file(t)
		return func(t *testing.T) *session.Store { return open(t, path) }
	})
}

func TestKilled(t *testing.T) {
	path := file(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), writerEnv+"="+path)
	sessiontest.Killed(t, cmd, func(t *testing.T) *session.Store { return open(t, path) })
}

// The file, and those beside it, hold what callers said: nobody else may read them.
func TestPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has other permissions")
	}
	path := file(t)
	s := open(t, path)
	create(t, s, "u", nil)
	found, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(found) < 3 { // the log and its index too
		t.Fatalf("%q, %v", found, err)
	}
	for _, name := range found {
		if i, err := os.Stat(name); err != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, i.Mode(), err)
		}
	}
}

// What is forgotten, or too old, is not in the files any more.
func TestNoTraces(t *testing.T) {
	const secret = "my number is 5550142"
	path := file(t)
	s := open(t, path)
	traces := func() bool {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		if err != nil {
			t.Fatal(err)
		}
		there := false
		for _, name := range found {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			there = there || bytes.Contains(raw, []byte("5550142"))
		}
		return there
	}
	for i := range 50 {
		create(t, s, fmt.Sprint("other ", i), map[string]any{"user:n": i})
	}
	h := create(t, s, "+15550142", map[string]any{"user:secret": secret})
	e := session.NewEvent(t.Context(), "i")
	e.Content = session.NewText("user", secret)
	if err := s.AppendEvent(t.Context(), h, e); err != nil {
		t.Fatal(err)
	}
	if !traces() {
		t.Fatal("not found even before")
	}
	if r, err := s.Forget(t.Context(), "+15550142"); err != nil || r != (session.Removed{Sessions: 1, Events: 1, Keys: 1}) {
		t.Fatalf("%+v, %v", r, err)
	}
	if traces() {
		t.Error("found after Forget")
	}
}

func create(t *testing.T, s *session.Store, user string, state map[string]any) session.Session {
	t.Helper()
	r, err := s.Create(t.Context(), &session.CreateRequest{AppName: "a", UserID: user, State: state})
	if err != nil {
		t.Fatal(err)
	}
	return r.Session
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	open(t, newer)
	change(t, newer, `INSERT INTO parley_schema (version, name) VALUES (99, '0099_future.sql')`)
	for name, c := range map[string]struct{ path, want string }{
		"no name":   {"", "no file is named"},
		"no folder": {filepath.Join(dir, "missing", "x.db"), "no such file"},
		"a folder":  {dir, "is a directory"},
		"garbage":   {garbage, "not a database"},
		"newer":     {newer, "of version 99 and this program knows 1"},
	} {
		s, err := sqlite.Open(t.Context(), c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "session/sqlite: ") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if s != nil {
			s.Close()
		}
	}
}

func change(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// A disk that is full is an error of one append, not the end of the store.
func TestFull(t *testing.T) {
	path := file(t)
	s := open(t, path)
	h := create(t, s, "u", nil)
	big := func() error {
		e := session.NewEvent(t.Context(), "i")
		e.Content = session.NewText("user", strings.Repeat("x", session.MaxEvent/2))
		return s.AppendEvent(t.Context(), h, e)
	}
	change(t, path, `CREATE TRIGGER full BEFORE INSERT ON parley_event BEGIN SELECT RAISE(ABORT, 'disk full'); END`)
	if err := big(); err == nil || errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("%v", err)
	}
	if h.Events().Len() != 0 {
		t.Error("the handle has what was not stored")
	}
	change(t, path, `DROP TRIGGER full`)
	if err := big(); err != nil {
		t.Error(err)
	}
}

func BenchmarkAppend(b *testing.B) {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "x.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	r, err := s.Create(b.Context(), &session.CreateRequest{AppName: "a", UserID: "u"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		e := session.NewEvent(b.Context(), "i")
		e.Content = session.NewText("user", "a sentence as callers say it, of about sixty characters or so")
		e.Actions.StateDelta = map[string]any{"user:last": "x"}
		if err := s.AppendEvent(b.Context(), r.Session, e); err != nil {
			b.Fatal(err)
		}
	}
}
