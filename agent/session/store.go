package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Store is a Service on a Backend.
type Store struct {
	backend Backend
	clock   func() time.Time
	ids     func() string
}

// Option changes a Store that is being made.
type Option func(*Store)

// WithClock takes the time from clock.
func WithClock(clock func() time.Time) Option { return func(s *Store) { s.clock = clock } }

// WithIDs takes the ids of sessions and events from next.
func WithIDs(next func() string) Option { return func(s *Store) { s.ids = next } }

// NewStore returns the Service that keeps its sessions in b. Closing it closes b.
func NewStore(b Backend, opts ...Option) *Store {
	s := &Store{backend: b}
	for _, o := range opts {
		o(s)
	}
	return s
}

// InMemoryService returns a Service that forgets everything with the process. It is a
// *Store.
func InMemoryService() Service { return NewStore(NewMemory()) }

// Close closes the backend.
func (s *Store) Close() error { return s.backend.Close() }

// Create implements Service.
func (s *Store) Create(ctx context.Context, r *CreateRequest) (*CreateResponse, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: no request", ErrInvalid)
	}
	stored, set, err := s.plan(ctx, r)
	if err != nil {
		return nil, err
	}
	if stored.State, err = s.backend.Create(ctx, stored, set); err != nil {
		return nil, of(stored.Key, err)
	}
	h, err := newHandle(stored, time.Time{})
	if err != nil {
		return nil, err
	}
	return &CreateResponse{Session: h}, nil
}

// plan makes a session ready to be created.
func (s *Store) plan(ctx context.Context, r *CreateRequest) (Stored, []Entry, error) {
	k := Key{r.AppName, r.UserID, r.SessionID}
	if k.Session == "" {
		k.Session = newID(ctx, s.ids)
	}
	if err := k.check(); err != nil {
		return Stored{}, nil, err
	}
	set, _, err := split(r.State)
	if err != nil {
		return Stored{}, nil, err
	}
	at := now(ctx, s.clock)
	if err := inRange(at); err != nil {
		return Stored{}, nil, err
	}
	return Stored{Key: k, Revision: rand.Int64N(1 << 62), Updated: at.UTC().Round(0)}, set, nil
}

// Get implements Service.
func (s *Store) Get(ctx context.Context, r *GetRequest) (*GetResponse, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: no request", ErrInvalid)
	}
	k := Key{r.AppName, r.UserID, r.SessionID}
	if err := k.check(); err != nil {
		return nil, err
	}
	if r.NumRecentEvents < 0 {
		return nil, fmt.Errorf("%w: %d recent events", ErrInvalid, r.NumRecentEvents)
	}
	if err := inRange(r.After); err != nil {
		return nil, err
	}
	stored, err := s.backend.Load(ctx, k, Filter{After: r.After, Last: r.NumRecentEvents})
	if err != nil {
		return nil, of(k, err)
	}
	h, err := newHandle(stored, r.After)
	if err != nil {
		return nil, err
	}
	return &GetResponse{Session: h}, nil
}

// List implements Service.
func (s *Store) List(ctx context.Context, r *ListRequest) (*ListResponse, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: no request", ErrInvalid)
	}
	if r.AppName == "" {
		return nil, fmt.Errorf("%w: no app name", ErrInvalid)
	}
	if err := (Key{r.AppName, r.UserID, ""}).checkText(); err != nil {
		return nil, err
	}
	found, err := s.backend.List(ctx, r.AppName, r.UserID)
	if err != nil {
		return nil, err
	}
	out := make([]Session, 0, len(found))
	for _, stored := range found {
		h, err := newHandle(stored, time.Time{})
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return &ListResponse{Sessions: out}, nil
}

// Delete implements Service.
func (s *Store) Delete(ctx context.Context, r *DeleteRequest) error {
	if r == nil {
		return fmt.Errorf("%w: no request", ErrInvalid)
	}
	k := Key{r.AppName, r.UserID, r.SessionID}
	if err := k.check(); err != nil {
		return err
	}
	return of(k, s.backend.Delete(ctx, k))
}

// AppendEvent implements Service. The session must be one that a Store returned, this
// or another on the same storage.
func (s *Store) AppendEvent(ctx context.Context, sess Session, e *Event) error {
	h, ok := sess.(*handle)
	if !ok || h == nil || e == nil {
		return fmt.Errorf("%w: an append needs a session of a store, and an event", ErrInvalid)
	}
	if e.Partial {
		return nil
	}
	p, err := s.prepare(ctx, e)
	if err != nil {
		return err
	}
	if err := h.lock(ctx); err != nil {
		return err
	}
	defer h.unlock()
	p.Revision = h.revision // nobody else writes it while we have the turn
	updated, err := s.backend.Append(ctx, h.key, p.Change)
	if err != nil {
		return of(h.key, err)
	}
	return h.apply(p, p.Revision+1, updated)
}

// prepared is an event made ready to be stored: a copy that shares nothing with the
// caller's.
type prepared struct {
	Change
	event *Event // as it is stored
	temp  map[string]any
}

// prepare copies and encodes an event.
func (s *Store) prepare(ctx context.Context, e *Event) (prepared, error) {
	stored := *e
	if stored.ID == "" {
		stored.ID = newID(ctx, s.ids)
	}
	if stored.Timestamp.IsZero() {
		stored.Timestamp = now(ctx, s.clock)
	}
	if err := checkText("event id", stored.ID); err != nil {
		return prepared{}, err
	}
	if err := inRange(stored.Timestamp); err != nil {
		return prepared{}, err
	}
	set, temp, err := split(e.Actions.StateDelta)
	if err != nil {
		return prepared{}, err
	}
	if len(temp) > 0 {
		stored.Actions.StateDelta = make(map[string]any, len(e.Actions.StateDelta))
		for key, value := range e.Actions.StateDelta {
			if !strings.HasPrefix(key, KeyPrefixTemp) {
				stored.Actions.StateDelta[key] = value
			}
		}
	}
	raw, err := json.Marshal(stored)
	if err != nil {
		return prepared{}, fmt.Errorf("%w: event: %w", ErrInvalid, err)
	}
	raw = bytes.ToValidUTF8(raw, []byte("\uFFFD")) // fields that are kept raw are not checked by encoding/json
	if len(raw) > MaxEvent {
		return prepared{}, fmt.Errorf("%w: event has %d bytes, at most %d", ErrInvalid, len(raw), MaxEvent)
	}
	copied := new(Event)
	if err := json.Unmarshal(raw, copied); err != nil {
		return prepared{}, fmt.Errorf("%w: event: %w", ErrInvalid, err)
	}
	return prepared{
		Change: Change{ID: stored.ID, At: copied.Timestamp.UTC(), Event: raw, Set: set},
		event:  copied, temp: temp,
	}, nil
}

// check refuses a key that does not name a session.
func (k Key) check() error {
	for _, part := range [...]struct{ what, text string }{{"app name", k.App}, {"user id", k.User}, {"session id", k.Session}} {
		if part.text == "" {
			return fmt.Errorf("%w: no %s", ErrInvalid, part.what)
		}
	}
	return k.checkText()
}

func (k Key) checkText() error {
	for _, part := range [...]struct{ what, text string }{{"app name", k.App}, {"user id", k.User}, {"session id", k.Session}} {
		if err := checkText(part.what, part.text); err != nil {
			return err
		}
	}
	return nil
}

// of says which session an error is about. Users are telephone numbers: they do not
// belong in error texts.
func of(k Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (session %q)", err, k.Session)
}
