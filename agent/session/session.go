// Package session keeps conversations on record: sessions, their events, and state
// that is shared by an app, by a user, or by nobody. The names, and the JSON of an
// event, are those of the Agent Development Kit (ADK), so records can be read by its
// tools and by its Python runtime.
//
// A Store does the thinking and a Backend the storing: in memory here, in SQLite and
// PostgreSQL in the folders below. A Recorder writes the record of a call without
// ever making the call wait.
//
// State values are JSON values: what is read back is what encoding/json makes of
// them, so numbers are float64. Only integers that a float64 cannot hold stay what
// they are, as json.Number.
package session

import (
	"context"
	"errors"
	"iter"
	"time"
)

// The prefixes of state keys say who shares the value.
const (
	// KeyPrefixApp begins keys that all users and sessions of an app share.
	KeyPrefixApp string = "app:"
	// KeyPrefixTemp begins keys that live for one invocation and are never stored.
	KeyPrefixTemp string = "temp:"
	// KeyPrefixUser begins keys that all sessions of one user of an app share.
	KeyPrefixUser string = "user:"
)

var (
	// ErrStateKeyNotExist is returned by State.Get for a key that is not there.
	ErrStateKeyNotExist = errors.New("state key does not exist")
	// ErrNotFound is wrapped when there is no such session, or it is another user's.
	ErrNotFound = errors.New("session: not found")
	// ErrExists is wrapped by Create when the id is taken.
	ErrExists = errors.New("session: exists already")
	// ErrStaleSession is wrapped by AppendEvent when the session was changed through
	// another handle: Get it again and retry.
	ErrStaleSession = errors.New("session: changed meanwhile")
	// ErrDuplicateEvent is wrapped by AppendEvent when the session holds an event of
	// this id: it was stored before, perhaps by a call whose answer was lost.
	ErrDuplicateEvent = errors.New("session: event is stored already")
	// ErrInvalid is wrapped when a request can never succeed: an id is missing, or a
	// value cannot be stored.
	ErrInvalid = errors.New("session: invalid")
	// ErrClosed is wrapped when the store was closed.
	ErrClosed = errors.New("session: store is closed")
)

// Service stores sessions. It is safe for concurrent use.
type Service interface {
	// Create makes a session. A missing id is made up; a taken one is ErrExists.
	Create(context.Context, *CreateRequest) (*CreateResponse, error)
	// Get reads one session with its events, oldest first. ErrNotFound.
	Get(context.Context, *GetRequest) (*GetResponse, error)
	// List reads the sessions of one user, or of all users of an app, without their
	// events.
	List(context.Context, *ListRequest) (*ListResponse, error)
	// Delete removes a session and its events. State of the user and of the app
	// stays. It is no error when there is no such session.
	Delete(context.Context, *DeleteRequest) error
	// AppendEvent stores an event, applies its state delta, and brings the handle up to
	// date. The event is not changed. A partial event is neither stored nor applied.
	// Keys that begin with KeyPrefixTemp are seen on the handle until an event of
	// another invocation is appended, and nowhere else. A nil value deletes its key.
	// ErrNotFound, ErrStaleSession, ErrDuplicateEvent and ErrInvalid leave the handle
	// as it was. Appends through one handle take turns.
	AppendEvent(context.Context, Session, *Event) error
}

// CreateRequest asks for a new session.
type CreateRequest struct {
	AppName string
	UserID  string
	// SessionID is the id of the session. Optional: it is made up when empty.
	SessionID string
	// State is what the session begins with. Keys with a prefix go where the prefix
	// says.
	State map[string]any
}

// CreateResponse is a session that was made.
type CreateResponse struct{ Session Session }

// GetRequest asks for one session.
type GetRequest struct {
	AppName   string
	UserID    string
	SessionID string
	// NumRecentEvents is how many events at most to return, the last ones. 0: all.
	NumRecentEvents int
	// After leaves out events with an earlier timestamp. The zero time: none.
	After time.Time
}

// GetResponse is a session that was found.
type GetResponse struct{ Session Session }

// ListRequest asks for the sessions of an app.
type ListRequest struct {
	AppName string
	// UserID is whose sessions. Empty: everybody's.
	UserID string
}

// ListResponse is what was found, ordered by user and id.
type ListResponse struct{ Sessions []Session }

// DeleteRequest names the session to remove.
type DeleteRequest struct {
	AppName   string
	UserID    string
	SessionID string
}

// Session is a copy of one stored session, a handle to append events with. It is safe
// for concurrent use.
type Session interface {
	// ID is the session's id, unique for its app and user.
	ID() string
	// AppName is the app's name.
	AppName() string
	// UserID is the user's id.
	UserID() string
	// State is the state of the session, its user and its app, merged.
	State() State
	// Events are the events as they are now; later ones need another call.
	Events() Events
	// LastUpdateTime is when the session was changed last. It never goes back.
	LastUpdateTime() time.Time
}

// ReadonlyState is state that can be looked at.
type ReadonlyState interface {
	// Get returns the value of a key, or ErrStateKeyNotExist.
	Get(string) (any, error)
	// All yields all keys and values as they were when it was called, in no order.
	All() iter.Seq2[string, any]
}

// State is the state of a handle.
type State interface {
	// Get returns the value of a key, or ErrStateKeyNotExist.
	Get(string) (any, error)
	// Set changes the handle only: to store a value, append an event with a state
	// delta. A nil value deletes the key. It returns ErrInvalid for a value that JSON
	// cannot hold; keys that begin with KeyPrefixTemp may hold any value.
	Set(string, any) error
	// All yields all keys and values as they were when it was called, in no order.
	All() iter.Seq2[string, any]
}

// Events is a list of events, oldest first.
type Events interface {
	// All yields the events in order.
	All() iter.Seq[*Event]
	// Len is their number.
	Len() int
	// At is the event at index i, or nil when there is none.
	At(i int) *Event
}
