//go:build linux

package postgres_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// server is a PostgreSQL of the tests' own: an unprivileged process on a free port of
// loopback, with its files in a temporary folder.
type server struct {
	dir      string
	password string
	port     int
	cmd      *exec.Cmd
	ended    chan struct{}
	log      bytes.Buffer // read only after ended
}

// errNoPostgres says that the package is not installed.
var errNoPostgres = errors.New("PostgreSQL is not installed: deploy/install-deps.sh test")

// startServer starts one. It has to be stopped.
func startServer() (*server, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return nil, errNoPostgres
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "parley-postgres-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, password: rand.Text()}
	if err := s.start(bin); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *server) start(bin string) error {
	password := filepath.Join(s.dir, "password")
	if err := os.WriteFile(password, []byte(s.password), 0o600); err != nil {
		return err
	}
	who, err := unprivileged()
	if err != nil {
		return err
	}
	if who != nil {
		for _, name := range []string{s.dir, password} {
			if err := os.Chown(name, int(who.Uid), int(who.Gid)); err != nil {
				return err
			}
		}
	}
	files := filepath.Join(s.dir, "files")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", files, "-U", "parley", "--pwfile="+password, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: who}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	for try := 0; ; try++ { // somebody may take the port that was free
		if err = s.run(bin, files, who); err == nil || try == 4 {
			return err
		}
	}
}

// run starts the server on a port that is free now and waits until it answers.
func (s *server) run(bin, files string, who *syscall.Credential) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return err
	}
	s.log.Reset()
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", files, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-k", "",
		"-c", "fsync=off", "-c", "max_connections=100", "-c", "shared_buffers=16MB", "-c", "timezone=UTC")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, &s.log, &s.log
	// It ends with the test process, however that ends.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who, Pdeathsig: syscall.SIGQUIT}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan struct{})
	go func() {
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, s.dsn("public"))
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-s.ended:
			return fmt.Errorf("postgres ended: %s", s.log.String())
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the server and removes its files.
func (s *server) stop() error {
	if s.ended != nil {
		if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-s.ended
	}
	return os.RemoveAll(s.dir)
}

// dsn names the server, for tables in a schema.
func (s *server) dsn(schema string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("parley", s.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "postgres",
		RawQuery: url.Values{"sslmode": {"disable"}, "search_path": {schema}}.Encode(),
	}
	return u.String()
}

// unprivileged is who runs the server: PostgreSQL refuses to be run by root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("no user to run PostgreSQL as")
}
