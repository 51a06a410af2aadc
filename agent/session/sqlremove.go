package session

import (
	"context"
	"database/sql"
)

const (
	deleteSession      = `DELETE FROM parley_session WHERE app = $1 AND user_id = $2 AND id = $3`
	deleteEvents       = `DELETE FROM parley_event WHERE app = $1 AND user_id = $2 AND session_id = $3`
	deleteSessionState = `DELETE FROM parley_state WHERE app = $1 AND user_id = $2 AND session_id = $3`
	deleteUserState    = `DELETE FROM parley_state WHERE user_id = $1`
	ofUser             = `SELECT app, user_id, id FROM parley_session WHERE user_id = $1 ORDER BY app, id LIMIT $2`
	oldSessions        = `SELECT app, user_id, id FROM parley_session WHERE updated < $1 ORDER BY updated LIMIT $2 `
	// Users of an app who have state of their own, but no session.
	oldUsers = `SELECT app, user_id, '' FROM parley_state WHERE user_id <> '' AND session_id = ''
		AND NOT EXISTS (SELECT 1 FROM parley_session p WHERE p.app = parley_state.app AND p.user_id = parley_state.user_id)
		GROUP BY app, user_id HAVING MAX(updated) < $1 LIMIT $2`
)

// Delete implements Backend.
func (s *SQL) Delete(ctx context.Context, k Key) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := removeSession(ctx, tx, k)
		return err
	})
}

// removeSession removes the session first: whoever appends to it at this moment either
// was before and what he wrote is removed too, or finds no session.
func removeSession(ctx context.Context, tx *sql.Tx, k Key) (r Removed, err error) {
	for _, step := range [...]struct {
		query string
		count *int
	}{{deleteSession, &r.Sessions}, {deleteEvents, &r.Events}, {deleteSessionState, &r.Keys}} {
		if *step.count, err = affected(tx.ExecContext(ctx, step.query, k.App, k.User, k.Session)); err != nil {
			return r, err
		}
		if r.Sessions == 0 { // removed by somebody else meanwhile, with all that is its own
			return r, nil
		}
	}
	return r, nil
}

// Forget implements Backend.
func (s *SQL) Forget(ctx context.Context, user string, limit int) (r Removed, more bool, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		r, more = Removed{}, false
		found, err := keys(ctx, tx, ofUser, user, limit)
		if err != nil {
			return err
		}
		for _, k := range found {
			one, err := removeSession(ctx, tx, k)
			if err != nil {
				return err
			}
			r.add(one)
		}
		if more = len(found) == limit; more {
			return nil
		}
		n, err := affected(tx.ExecContext(ctx, deleteUserState, user))
		r.Keys += n
		return err
	})
	if err == nil && !more && s.c.Erased != nil {
		err = wrapSQL(s.c.Erased(ctx))
	}
	return r, more, err
}

// Expire implements Backend.
func (s *SQL) Expire(ctx context.Context, c Cutoff, limit int) (r Removed, more bool, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		r, more = Removed{}, false
		found, err := keys(ctx, tx, oldSessions+s.c.SkipLocked, timeText(c.Sessions), limit)
		if err != nil {
			return err
		}
		for _, k := range found {
			one, err := removeSession(ctx, tx, k)
			if err != nil {
				return err
			}
			r.add(one)
		}
		if more = len(found) == limit; more {
			return nil
		}
		users, err := keys(ctx, tx, oldUsers, timeText(c.Users), limit)
		if err != nil {
			return err
		}
		for _, k := range users {
			n, err := affected(tx.ExecContext(ctx, deleteSessionState, k.App, k.User, ""))
			if err != nil {
				return err
			}
			r.Keys += n
		}
		more = len(users) == limit
		return nil
	})
	if err == nil && !more && r != (Removed{}) && s.c.Erased != nil {
		err = wrapSQL(s.c.Erased(ctx))
	}
	return r, more, err
}

// keys reads sessions' names.
func keys(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]Key, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Key
	for rows.Next() {
		var k Key
		if err := rows.Scan(&k.App, &k.User, &k.Session); err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, rows.Err()
}
