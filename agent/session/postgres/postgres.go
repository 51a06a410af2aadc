// Package postgres keeps sessions in PostgreSQL, for gateways that share their records.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"parley/agent/session"
)

//go:embed migrations/*.sql
var migrations embed.FS

// connections is how many a gateway holds at most. An event keeps one for a few
// milliseconds.
const connections = 16

// Open connects to the database that dsn names, as a URL or as "key=value" words; what
// it leaves open comes from the PG* variables of the environment. The tables are made
// in the first schema of its search_path. Passwords do not show up in errors. The
// store is to be closed.
func Open(ctx context.Context, dsn string, opts ...session.Option) (*session.Store, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("session/postgres: %w", err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "parley"
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(5 * time.Minute)
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("session/postgres: %w", err), db.Close())
	}
	backend, err := session.NewSQL(ctx, session.SQLConfig{
		Write: db, Read: db,
		ReadTx:        &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
		Migrations:    files,
		MigrationLock: `SELECT pg_advisory_xact_lock(8249087514)`, // any number, the same in every version
		SkipLocked:    `FOR UPDATE SKIP LOCKED`,
		Again:         again,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("session/postgres: %w", err), db.Close())
	}
	return session.NewStore(backend, opts...), nil
}

// again is true for serialization_failure and deadlock_detected: the transaction was
// undone because of another one.
func again(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01")
}
