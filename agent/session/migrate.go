package session

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"strings"
)

// migrate runs the files that were not run yet, in one transaction. The number of those
// that were is the version in parley_schema. Files are only ever added.
func (s *SQL) migrate(ctx context.Context) error {
	names, err := fs.Glob(s.c.Migrations, "*.sql") // sorted
	if err != nil {
		return fmt.Errorf("session: migrations: %w", err)
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		if s.c.MigrationLock != "" {
			if _, err := tx.ExecContext(ctx, s.c.MigrationLock); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS parley_schema (version INTEGER PRIMARY KEY, name TEXT NOT NULL)`); err != nil {
			return err
		}
		var version int
		if err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(version), 0) FROM parley_schema`).Scan(&version); err != nil {
			return err
		}
		if version > len(names) {
			return fmt.Errorf("its tables are of version %d and this program knows %d: it was used by a newer one", version, len(names))
		}
		for i, name := range names[version:] {
			if err := s.runFile(ctx, tx, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO parley_schema (version, name) VALUES ($1, $2)`, version+i+1, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// runFile runs the statements of a file. Each ends with a semicolon at the end of a
// line.
func (s *SQL) runFile(ctx context.Context, tx *sql.Tx, name string) error {
	text, err := fs.ReadFile(s.c.Migrations, name)
	if err != nil {
		return err
	}
	for statement := range strings.SplitSeq(string(text), ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
