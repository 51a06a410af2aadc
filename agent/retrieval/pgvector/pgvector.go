// Package pgvector keeps the passages of a retrieval.Index in PostgreSQL with the
// extension pgvector, for gateways that share them.
package pgvector

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/agent/retrieval"
)

// Store is a retrieval.Store in PostgreSQL. All gateways that open the same database
// see the same passages.
type Store struct{ pool *pgxpool.Pool }

// setUp makes the tables. The lock keeps gateways that start together from making them
// at the same time, which PostgreSQL answers with an error.
const setUp = `
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE IF NOT EXISTS parley_documents (
  name    text PRIMARY KEY,
  version text NOT NULL
);
CREATE TABLE IF NOT EXISTS parley_passages (
  document text   NOT NULL REFERENCES parley_documents ON DELETE CASCADE,
  position int    NOT NULL,
  passage  text   NOT NULL,
  length   int    NOT NULL,
  vector   vector NOT NULL,
  PRIMARY KEY (document, position)
);`

// The keys of advisory locks: one while the tables are made, one while a document is
// written.
const (
	setUpLock   = 0x7061726c65790001
	replaceLock = 0x7061726c65790002
)

// maxIndexed is the most numbers that a vector may have to be in an index of pgvector.
const maxIndexed = 2000

// Open connects to the database of a DSN, as "postgres://user@host/name", and makes the
// tables when they are not there. The extension must be installed on the server; to
// create it in a database the user must own that.
func Open(ctx context.Context, dsn string) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("retrieval: the DSN of PostgreSQL cannot be read") // its text may hold a password
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("retrieval: %w", err)
	}
	s := &Store{pool: pool}
	err = s.within(ctx, setUpLock, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, setUp)
		return err
	})
	if err != nil {
		pool.Close()
		var refused *pgconn.PgError
		// feature_not_supported, or undefined_file before PostgreSQL 16
		if errors.As(err, &refused) && (refused.Code == "0A000" || refused.Code == "58P01") {
			return nil, fmt.Errorf("retrieval: the server has no pgvector (%s): install it there, or use the store in the process", refused.Message)
		}
		return nil, fmt.Errorf("retrieval: %w", err)
	}
	return s, nil
}

// within runs do in a transaction that others of its lock wait for.
func (s *Store) within(ctx context.Context, lock int64, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lock); err != nil {
			return err
		}
		return do(tx)
	})
}

// Replace implements retrieval.Store.
func (s *Store) Replace(ctx context.Context, name, version string, chunks []retrieval.Chunk) error {
	err := s.within(ctx, replaceLock, func(tx pgx.Tx) error {
		if err := fits(ctx, tx, name, chunks); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO parley_documents (name, version) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET version = EXCLUDED.version`, name, version)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM parley_passages WHERE document = $1`, name); err != nil {
			return err
		}
		for i, c := range chunks {
			_, err := tx.Exec(ctx, `INSERT INTO parley_passages (document, position, passage, length, vector) VALUES ($1, $2, $3, $4, $5::text::vector)`,
				name, i, c.Text, len(c.Vector), text(c.Vector))
			if err != nil {
				return err
			}
		}
		return indexed(ctx, tx, chunks)
	})
	if err != nil {
		return fmt.Errorf("retrieval: %w", err)
	}
	return nil
}

// fits says whether chunks are as long as what other documents hold.
func fits(ctx context.Context, tx pgx.Tx, name string, chunks []retrieval.Chunk) error {
	if len(chunks) == 0 {
		return nil
	}
	length := len(chunks[0].Vector)
	err := tx.QueryRow(ctx, `SELECT length FROM parley_passages WHERE document <> $1 LIMIT 1`, name).Scan(&length)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	for _, c := range chunks {
		if len(c.Vector) != length {
			return fmt.Errorf("%w: %d, not %d", retrieval.ErrDimensions, len(c.Vector), length)
		}
	}
	return nil
}

// indexed makes the index for vectors of this length when it is not there.
func indexed(ctx context.Context, tx pgx.Tx, chunks []retrieval.Chunk) error {
	if len(chunks) == 0 || len(chunks[0].Vector) > maxIndexed {
		return nil
	}
	n := strconv.Itoa(len(chunks[0].Vector))
	_, err := tx.Exec(ctx, `CREATE INDEX IF NOT EXISTS parley_passages_`+n+` ON parley_passages
		USING hnsw ((vector::vector(`+n+`)) vector_cosine_ops) WHERE length = `+n)
	return err
}

// Remove implements retrieval.Store.
func (s *Store) Remove(ctx context.Context, name string) error {
	if _, err := s.pool.Exec(ctx, `DELETE FROM parley_documents WHERE name = $1`, name); err != nil {
		return fmt.Errorf("retrieval: %w", err)
	}
	return nil
}

// Sources implements retrieval.Store.
func (s *Store) Sources(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	rows, err := s.pool.Query(ctx, `SELECT name, version FROM parley_documents`)
	if err != nil {
		return nil, fmt.Errorf("retrieval: %w", err)
	}
	var name, version string
	if _, err = pgx.ForEachRow(rows, []any{&name, &version}, func() error {
		out[name] = version
		return nil
	}); err != nil {
		return nil, fmt.Errorf("retrieval: %w", err)
	}
	return out, nil
}

// Search implements retrieval.Store.
func (s *Store) Search(ctx context.Context, vector []float32, limit int) ([]retrieval.Hit, error) {
	if limit <= 0 || len(vector) == 0 {
		return nil, nil
	}
	n := strconv.Itoa(len(vector))
	order := "vector::vector(" + n + ")"
	rows, err := s.pool.Query(ctx, `SELECT passage, document, 1 - (`+order+` <=> $1::text::vector)
		FROM parley_passages WHERE length = `+n+` ORDER BY `+order+` <=> $1::text::vector, document, position LIMIT $2`, text(vector), limit)
	if err != nil {
		return nil, fmt.Errorf("retrieval: %w", err)
	}
	hits, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h retrieval.Hit, err error) {
		var similarity float64
		err = row.Scan(&h.Text, &h.Source, &similarity)
		h.Similarity = float32(similarity)
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("retrieval: %w", err)
	}
	if len(hits) > 0 {
		return hits, nil
	}
	var other int
	switch err := s.pool.QueryRow(ctx, `SELECT length FROM parley_passages LIMIT 1`).Scan(&other); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("retrieval: %w", err)
	case other != len(vector):
		return nil, fmt.Errorf("%w: %d, not %d", retrieval.ErrDimensions, len(vector), other)
	}
	return nil, nil
}

// Close implements retrieval.Store.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// text is a vector as pgvector reads it.
func text(v []float32) string {
	b := append(make([]byte, 0, 12*len(v)), '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return string(append(b, ']'))
}

var _ retrieval.Store = (*Store)(nil)
