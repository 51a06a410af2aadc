package session

import (
	"context"
	"encoding/json"
	"time"
)

// Key names a session. Empty parts name what is shared: Key{App, User} the state of a
// user, Key{App} that of an app.
type Key struct{ App, User, Session string }

// Stored is a session as a backend keeps it.
type Stored struct {
	Key
	// Revision changes with each append. It begins at random, so that the handle of a
	// session that was deleted does not fit one that has its id later.
	Revision int64
	// Updated is the time of the last change, to the nanosecond.
	Updated time.Time
	// State is the state of session, user and app, merged, as JSON.
	State map[string]json.RawMessage
	// Events are the events as JSON, oldest first.
	Events []json.RawMessage
}

// Filter says which events to load.
type Filter struct {
	// After leaves out earlier events.
	After time.Time
	// Last is how many at most, the last ones that After leaves. 0: all.
	Last int
}

// Change is an event to be stored, with what it does to the state.
type Change struct {
	// Revision is the one that the session must have now; the event makes it one more.
	Revision int64
	// ID is the event's id, unique in its session.
	ID string
	// At is the event's timestamp.
	At time.Time
	// Event is the event as JSON.
	Event json.RawMessage
	// Set are the changes of the state, ordered by key.
	Set []Entry
}

// Cutoff says what is too old. The zero time: nothing is.
type Cutoff struct {
	// Sessions is when a session must have changed to stay.
	Sessions time.Time
	// Users is when the state of a user who has no session must have changed to stay.
	Users time.Time
}

// Removed counts what was removed.
type Removed struct {
	// Sessions is the number of sessions.
	Sessions int
	// Events is the number of their events.
	Events int
	// Keys is the number of state values, of sessions and of users.
	Keys int
}

// add adds m to r.
func (r *Removed) add(m Removed) {
	r.Sessions += m.Sessions
	r.Events += m.Events
	r.Keys += m.Keys
}

// Backend stores sessions for a Store. Each method happens at once or not at all, and
// what it returned nil for survives the end of the process, where there is a disk. All
// are safe for concurrent use. Slices and maps that pass either way are not changed
// afterwards.
type Backend interface {
	// Create stores a session whose State holds no values yet, applies set, and returns
	// the merged state. ErrExists.
	Create(ctx context.Context, s Stored, set []Entry) (map[string]json.RawMessage, error)
	// Load reads a session. ErrNotFound.
	Load(ctx context.Context, k Key, f Filter) (Stored, error)
	// List reads the sessions of an app, or of one of its users, with merged state and
	// without events, ordered by user and id.
	List(ctx context.Context, app, user string) ([]Stored, error)
	// Delete removes a session, its events and its own state.
	Delete(ctx context.Context, k Key) error
	// Append stores an event and returns when the session was updated last: the later
	// of that and the event's time. ErrNotFound, ErrStaleSession, ErrDuplicateEvent.
	Append(ctx context.Context, k Key, c Change) (time.Time, error)
	// Forget removes up to limit sessions of a user, whatever the app, and when none is
	// left the user's state. more says that it has to be called again.
	Forget(ctx context.Context, user string, limit int) (r Removed, more bool, err error)
	// Expire removes up to limit sessions, and the state of up to limit users, that are
	// too old. more says that it has to be called again.
	Expire(ctx context.Context, c Cutoff, limit int) (r Removed, more bool, err error)
	// Close gives everything back. Other methods return ErrClosed afterwards.
	Close() error
}
