// Package sqlite keeps sessions in one file, with SQLite compiled to Go: no server and
// no cgo. It is meant for one gateway; several processes may use the file at the same
// time on one machine, not over a network.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	sqlite3 "github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"parley/agent/session"
)

//go:embed migrations/*.sql
var migrations embed.FS

// readers is how many can read at the same time, while one writes.
const readers = 4

// Every connection waits for others up to ten seconds. A commit is on the disk when it
// is acknowledged (synchronous), what is removed is overwritten (secure_delete), and the
// log is kept short once it was copied.
const pragmas = "_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=secure_delete(on)&_pragma=journal_size_limit(8388608)"

// Open opens the file at path, which is made when it is not there, readable only for
// its owner; its folder must be there. The store is to be closed.
func Open(ctx context.Context, path string, opts ...session.Option) (*session.Store, error) {
	if err := claim(path); err != nil {
		return nil, fmt.Errorf("session/sqlite: %w", err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("session/sqlite: %w", err)
	}
	// modeof gives the log the permissions of the file.
	file := (&url.URL{Scheme: "file", Path: filepath.ToSlash(absolute)}).String() +
		"?modeof=" + strings.ReplaceAll(url.QueryEscape(absolute), "+", "%20") + "&" + pragmas
	write, err := driver.Open(file + "&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("session/sqlite: %s: %w", path, err)
	}
	// One writer: calls wait for each other here, in order, not in the file's lock.
	write.SetMaxOpenConns(1)
	read, err := driver.Open(file + "&_pragma=query_only(on)&_txlock=deferred")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("session/sqlite: %s: %w", path, err), write.Close())
	}
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	store, err := open(ctx, write, read, opts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("session/sqlite: %s: %w", path, err), read.Close(), write.Close())
	}
	return store, nil
}

func open(ctx context.Context, write, read *sql.DB, opts []session.Option) (*session.Store, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	backend, err := session.NewSQL(ctx, session.SQLConfig{
		Write: write, Read: read, ReadTx: &sql.TxOptions{ReadOnly: true},
		Migrations: files,
		Again:      func(err error) bool { return errors.Is(err, sqlite3.BUSY_SNAPSHOT) },
		Erased:     func(ctx context.Context) error { return checkpoint(ctx, write) },
	})
	if err != nil {
		return nil, err
	}
	return session.NewStore(backend, opts...), nil
}

// claim makes the file, and the log's index beside it, before SQLite does: what that
// makes, everybody may read.
func claim(path string) error {
	if path == "" || strings.ContainsRune(path, 0) {
		return errors.New("no file is named")
	}
	for _, name := range [...]string{path, path + "-shm"} {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint copies the log into the file and empties it, so that nothing of what was
// removed is left there. A reader can be in the way: the next writer does it then.
func checkpoint(ctx context.Context, db *sql.DB) error {
	var busy, logged, copied int
	return db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &logged, &copied)
}
