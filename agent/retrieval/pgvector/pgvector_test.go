package pgvector

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/retrieval"
	"parley/agent/retrieval/retrievaltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server starts a PostgreSQL with pgvector and returns its DSN.
func server(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "test", "pgvector")
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing; deploy/install-deps.sh test installs it")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		t.Skip("pgvector is missing; run test/pgvector/install.sh")
	}
	command := exec.Command(node, "server.mjs")
	command.Dir, command.Stderr = dir, os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		ended := time.AfterFunc(5*time.Second, func() { _ = command.Process.Kill() })
		defer ended.Stop()
		_, _ = io.Copy(io.Discard, output)
		_ = command.Wait()
	})
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(output).ReadString('\n')
		line <- strings.TrimSpace(text)
	}()
	select {
	case port := <-line:
		// It runs one transaction at a time and knows no prepared statements by name.
		return fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable&pool_max_conns=1&default_query_exec_mode=exec", port)
	case <-time.After(2 * time.Minute): // it is a database in WebAssembly, on a machine that may be busy
		t.Fatal("the server does not say its port")
	}
	return ""
}

func TestStore(t *testing.T) {
	dsn := server(t)
	retrievaltest.Run(t, func(t *testing.T) (retrieval.Store, func() retrieval.Store) {
		open := func() *Store {
			s, err := Open(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		s := open()
		if _, err := s.pool.Exec(t.Context(), "TRUNCATE parley_documents CASCADE"); err != nil {
			t.Fatal(err)
		}
		return s, func() retrieval.Store { return open() }
	})
	t.Run("an index is used", func(t *testing.T) {
		s, err := Open(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var found bool
		err = s.pool.QueryRow(t.Context(), "SELECT exists (SELECT FROM pg_indexes WHERE indexname = 'parley_passages_3' AND indexdef LIKE '%hnsw%')").Scan(&found)
		if err != nil || !found {
			t.Errorf("no index: %v, %v", found, err)
		}
	})
}

func TestOpenFails(t *testing.T) {
	if _, err := Open(t.Context(), "postgres://user:secret@%zz"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad DSN: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := Open(ctx, "postgres://user:secret@127.0.0.1:1/none"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("nobody there: %v", err)
	}
}
