package session

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// SQLConfig is what differs between the databases that SQL speaks to.
type SQLConfig struct {
	// Write is where transactions that change something run.
	Write *sql.DB
	// Read is where the others run. It may be Write. Both are closed with the backend.
	Read *sql.DB
	// ReadTx makes a transaction see one state of the database from its first
	// statement to its last.
	ReadTx *sql.TxOptions
	// Migrations holds the statements that make the tables, in files that are run in
	// the order of their names, each once.
	Migrations fs.FS
	// MigrationLock is a statement that keeps other processes from migrating until the
	// transaction ends. Empty: a transaction does so by itself.
	MigrationLock string
	// SkipLocked is what a SELECT that is followed by a DELETE ends with.
	SkipLocked string
	// Again says that a transaction failed for no fault of its own and was undone: it
	// is run again.
	Again func(error) bool
	// Erased runs after things were removed for good, to remove their traces from
	// files. Nil: nothing.
	Erased func(context.Context) error
}

// SQL is a Backend on a database that understands the subset of SQL that SQLite and
// PostgreSQL share. Its tables are parley_session, parley_event, parley_state and
// parley_schema.
type SQL struct{ c SQLConfig }

// NewSQL brings the tables up to date and returns the backend. When it fails, the
// databases are still open.
func NewSQL(ctx context.Context, c SQLConfig) (*SQL, error) {
	s := &SQL{c}
	if err := s.migrate(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// timeLayout is how times are stored: text of one width, which sorts as the times do.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

func timeText(t time.Time) string { return t.UTC().Format(timeLayout) }

// Rows of state are shared by those whose key has the same scope: see Key.Scope.
const (
	insertSession = `INSERT INTO parley_session (app, user_id, id, revision, updated) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`
	selectSession = `SELECT revision, updated FROM parley_session WHERE app = $1 AND user_id = $2 AND id = $3`
	bumpSession   = `UPDATE parley_session SET revision = revision + 1, updated = CASE WHEN updated < $1 THEN $1 ELSE updated END
		WHERE app = $2 AND user_id = $3 AND id = $4 AND revision = $5 RETURNING updated`
	insertEvent = `INSERT INTO parley_event (app, user_id, session_id, seq, id, at, body) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`
	selectAll   = `SELECT body FROM parley_event WHERE app = $1 AND user_id = $2 AND session_id = $3 AND at >= $4 ORDER BY seq`
	selectLast  = `SELECT body FROM (SELECT seq, body FROM parley_event WHERE app = $1 AND user_id = $2 AND session_id = $3 AND at >= $4 ORDER BY seq DESC LIMIT $5) AS last ORDER BY seq`
	upsertState = `INSERT INTO parley_state (app, user_id, session_id, name, value, updated) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (app, user_id, session_id, name) DO UPDATE SET value = excluded.value, updated = excluded.updated`
	deleteState = `DELETE FROM parley_state WHERE app = $1 AND user_id = $2 AND session_id = $3 AND name = $4`
	// Of one session: its own state, that of its user, that of its app.
	selectState = `SELECT user_id, session_id, name, value FROM parley_state WHERE app = $1 AND (
		(user_id = $2 AND session_id = $3) OR (user_id = $2 AND session_id = '') OR (user_id = '' AND session_id = ''))`
	listUser      = `SELECT user_id, id, revision, updated FROM parley_session WHERE app = $1 AND user_id = $2 ORDER BY user_id, id`
	listAll       = `SELECT user_id, id, revision, updated FROM parley_session WHERE app = $1 ORDER BY user_id, id`
	listStateUser = `SELECT user_id, session_id, name, value FROM parley_state WHERE app = $1 AND (user_id = $2 OR user_id = '')`
	listStateAll  = `SELECT user_id, session_id, name, value FROM parley_state WHERE app = $1`
)

// Create implements Backend.
func (s *SQL) Create(ctx context.Context, v Stored, set []Entry) (state map[string]json.RawMessage, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		n, err := affected(tx.ExecContext(ctx, insertSession, v.App, v.User, v.Session, v.Revision, timeText(v.Updated)))
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrExists
		}
		if err := setState(ctx, tx, v.Key, set, timeText(v.Updated)); err != nil {
			return err
		}
		rows, err := stateRows(ctx, tx, selectState, v.App, v.User, v.Session)
		state = rows.of(v.User, v.Session)
		return err
	})
	return state, err
}

// Load implements Backend.
func (s *SQL) Load(ctx context.Context, k Key, f Filter) (out Stored, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		out = Stored{Key: k}
		if err := scanSession(tx.QueryRowContext(ctx, selectSession, k.App, k.User, k.Session), &out); err != nil {
			return err
		}
		query, args := selectAll, []any{k.App, k.User, k.Session, timeText(f.After)}
		if f.Last > 0 {
			query, args = selectLast, append(args, f.Last)
		}
		rows, err := tx.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var body string
			if err := rows.Scan(&body); err != nil {
				return err
			}
			out.Events = append(out.Events, json.RawMessage(body))
		}
		if err := rows.Err(); err != nil {
			return err
		}
		state, err := stateRows(ctx, tx, selectState, k.App, k.User, k.Session)
		out.State = state.of(k.User, k.Session)
		return err
	})
	return out, err
}

// List implements Backend.
func (s *SQL) List(ctx context.Context, app, user string) (out []Stored, err error) {
	sessions, states, args := listAll, listStateAll, []any{app}
	if user != "" {
		sessions, states, args = listUser, listStateUser, []any{app, user}
	}
	err = s.read(ctx, func(tx *sql.Tx) error {
		out = nil
		rows, err := tx.QueryContext(ctx, sessions, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			v := Stored{Key: Key{App: app}}
			var updated string
			if err := rows.Scan(&v.User, &v.Session, &v.Revision, &updated); err != nil {
				return err
			}
			if v.Updated, err = time.Parse(timeLayout, updated); err != nil {
				return err
			}
			out = append(out, v)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		state, err := stateRows(ctx, tx, states, args...)
		for i := range out {
			out[i].State = state.of(out[i].User, out[i].Session)
		}
		return err
	})
	return out, err
}

// Append implements Backend.
func (s *SQL) Append(ctx context.Context, k Key, c Change) (updated time.Time, err error) {
	at := timeText(c.At)
	err = s.write(ctx, func(tx *sql.Tx) error {
		var now string
		err := tx.QueryRowContext(ctx, bumpSession, at, k.App, k.User, k.Session, c.Revision).Scan(&now)
		if errors.Is(err, sql.ErrNoRows) { // not there, or another revision
			var there Stored
			if err := scanSession(tx.QueryRowContext(ctx, selectSession, k.App, k.User, k.Session), &there); err != nil {
				return err
			}
			return ErrStaleSession
		}
		if err != nil {
			return err
		}
		n, err := affected(tx.ExecContext(ctx, insertEvent, k.App, k.User, k.Session, c.Revision+1, c.ID, at, string(c.Event)))
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrDuplicateEvent
		}
		if updated, err = time.Parse(timeLayout, now); err != nil {
			return err
		}
		return setState(ctx, tx, k, c.Set, now)
	})
	return updated, err
}

// setState changes values where they belong.
func setState(ctx context.Context, tx *sql.Tx, k Key, set []Entry, at string) error {
	for _, e := range set {
		scope, err := k.Scope(e.Key), error(nil)
		if e.Value == nil {
			_, err = tx.ExecContext(ctx, deleteState, scope.App, scope.User, scope.Session, e.Key)
		} else {
			_, err = tx.ExecContext(ctx, upsertState, scope.App, scope.User, scope.Session, e.Key, string(e.Value), at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scanSession reads revision and time into v.
func scanSession(row *sql.Row, v *Stored) error {
	var updated string
	if err := row.Scan(&v.Revision, &updated); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		return err
	}
	t, err := time.Parse(timeLayout, updated)
	v.Updated = t
	return err
}

// scopes are state values by user and session, which are empty for what is shared.
type scopes map[[2]string]map[string]json.RawMessage

// of merges what a session sees.
func (s scopes) of(user, session string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, scope := range [][2]string{{}, {user}, {user, session}} {
		for key, value := range s[scope] {
			out[key] = value
		}
	}
	return out
}

// stateRows reads state values.
func stateRows(ctx context.Context, tx *sql.Tx, query string, args ...any) (scopes, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := scopes{}
	for rows.Next() {
		var scope [2]string
		var name, value string
		if err := rows.Scan(&scope[0], &scope[1], &name, &value); err != nil {
			return nil, err
		}
		if out[scope] == nil {
			out[scope] = map[string]json.RawMessage{}
		}
		out[scope][name] = json.RawMessage(value)
	}
	return out, rows.Err()
}

// Close implements Backend.
func (s *SQL) Close() error {
	if s.c.Read == s.c.Write {
		return s.c.Write.Close()
	}
	return errors.Join(s.c.Read.Close(), s.c.Write.Close())
}

// attempts is how often a transaction is tried that another one was in the way of.
const attempts = 5

// write runs do in a transaction that is undone when it fails.
func (s *SQL) write(ctx context.Context, do func(*sql.Tx) error) error {
	var err error
	for range attempts {
		if err = transact(ctx, s.c.Write, nil, do); err == nil || s.c.Again == nil || !s.c.Again(err) {
			break
		}
	}
	return wrapSQL(err)
}

// read runs do in a transaction that sees one state of the database.
func (s *SQL) read(ctx context.Context, do func(*sql.Tx) error) error {
	return wrapSQL(transact(ctx, s.c.Read, s.c.ReadTx, do))
}

func transact(ctx context.Context, db *sql.DB, o *sql.TxOptions, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, rolledBack(tx.Rollback()))
	}
	return tx.Commit()
}

// rolledBack is no error when the transaction was over already, as after its context's
// end.
func rolledBack(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// wrapSQL says whose error it is; those that callers look for stay what they are.
func wrapSQL(err error) error {
	switch {
	case err == nil:
		return nil
	case err.Error() == "sql: database is closed": // database/sql has no name for it
		return ErrClosed
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrExists), errors.Is(err, ErrStaleSession), errors.Is(err, ErrDuplicateEvent):
		return err
	}
	return fmt.Errorf("session: database: %w", err)
}

func affected(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}
