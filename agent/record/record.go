// Package record keeps the conversations of any agent on record: an Opener around
// another one. Each call becomes a session of package session: what the caller said,
// what of the replies was heard, which tools were called, and state that the agent
// finds again when the same person calls next. A call never waits for the store, and
// goes on when there is none.
package record

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.uber.org/zap"

	"parley/agent"
	"parley/agent/session"
)

// The state keys that a session begins with, and those that the end of a call sets.
const (
	KeyCallID     = "call_id"
	KeyDirection  = "direction"
	KeyCalled     = "called"
	KeyCallerName = "caller_name"
	KeyTrunk      = "trunk"
	// KeyCalls is how many conversations there were with the user, a number.
	KeyCalls = session.KeyPrefixUser + "calls"
	// KeyLastCall is when the last one began, RFC 3339 in UTC.
	KeyLastCall = session.KeyPrefixUser + "last_call_at"
)

// anonymous begins the user ids of callers who cannot be told from others.
const anonymous = "anonymous:"

const (
	// maxText is the most characters of a text from outside in the state.
	maxText = 256
	// patience is how long a call waits for what the last one of its user left to write.
	patience = 300 * time.Millisecond
)

// Config is how calls are recorded.
type Config struct {
	// App is the app name of calls whose agent has no name. Empty: "default".
	App string
	// Now tells the time; nil: time.Now.
	Now func() time.Time
	// Log gets a line when a call cannot be recorded, and one when a value that an
	// agent wanted kept cannot be. Nil: nobody.
	Log *zap.Logger
}

// New returns an opener of the same agent, whose calls are recorded. The recorder is
// closed by its owner, after the last call.
func New(of agent.Opener, recorder *session.Recorder, cfg Config) agent.Opener {
	cfg.App = cmp.Or(cfg.App, "default")
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &opener{Opener: of, recorder: recorder, cfg: cfg, leaving: map[string][]*session.Recording{}}
}

type opener struct {
	agent.Opener
	recorder *session.Recorder
	cfg      Config

	mu sync.Mutex
	// leaving are the records of calls that ended and may not be written, by user.
	leaving map[string][]*session.Recording
	prune   int // how many there may be before those that are written are taken out
}

// Open begins the record, and opens the agent with the memory of its user. A call that
// cannot be recorded is opened without.
func (o *opener) Open(ctx context.Context, c agent.Call) (agent.Session, error) {
	app, user := cmp.Or(c.Agent, o.cfg.App), c.Caller.ResourceID
	known := user != ""
	if !known {
		user = anonymous + c.SessionID
	}
	if known {
		o.settled(ctx, app+"\x00"+user)
	}
	rec, err := o.recorder.Open(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: c.SessionID, State: state(c)})
	if err != nil {
		o.cfg.Log.Warn("a call is not recorded", zap.String("call_id", c.ID), zap.String("session_id", c.SessionID), zap.Error(err))
		return o.Opener.Open(ctx, c)
	}
	t := &tape{
		o: o, call: c, rec: rec, app: app, user: app + "\x00" + user, known: known,
		began: o.cfg.Now(), forward: c.Emit, delta: map[string]any{}, tools: map[string]string{},
	}
	c.Memory, c.Emit = memory{t}, t.emit
	inner, err := o.Opener.Open(ctx, c)
	if err != nil {
		t.end("the agent could not be opened", false)
		return nil, err
	}
	s := &recorded{Session: inner, tape: t}
	if a, ok := inner.(agent.Announcer); ok {
		return &announcing{s, a}, nil
	}
	return s, nil
}

// state is what a session knows of its call.
func state(c agent.Call) map[string]any {
	out := map[string]any{}
	for key, text := range map[string]string{
		KeyCallID: c.ID, KeyDirection: c.Direction, KeyCalled: c.Called, KeyCallerName: c.Caller.Name, KeyTrunk: c.Trunk,
	} {
		if text = clean(text); text != "" {
			out[key] = text
		}
	}
	return out
}

// clean makes one bounded line of a text from outside.
func clean(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.ToValidUTF8(s, "") {
		if n++; n > maxText {
			break
		}
		if unicode.IsSpace(r) {
			r = ' '
		}
		if !unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}

// settled waits, for a moment, until what the user's last calls left is in the store:
// who calls again at once is known.
func (o *opener) settled(ctx context.Context, user string) {
	o.mu.Lock()
	wait := o.leaving[user]
	o.mu.Unlock()
	if len(wait) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, r := range wait {
		if r.Flush(ctx) != nil {
			return // they stay: the next call may wait for them too
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep()
}

// leaves notes a record that may not be written yet.
func (o *opener) leaves(user string, rec *session.Recording) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.leaving[user] = append(o.leaving[user], rec)
	if len(o.leaving) > o.prune {
		o.sweep()
		o.prune = 2*len(o.leaving) + 64
	}
}

// sweep takes out the records that are written. The caller holds mu.
func (o *opener) sweep() {
	now, cancel := context.WithCancel(context.Background())
	cancel() // Flush says at once whether something waits
	for user, recs := range o.leaving {
		var left []*session.Recording
		for _, r := range recs {
			if r.Flush(now) != nil {
				left = append(left, r)
			}
		}
		if o.leaving[user] = left; len(left) == 0 {
			delete(o.leaving, user)
		}
	}
}

// recorded is a session on record. Hear goes straight through.
type recorded struct {
	agent.Session
	tape *tape
}

// Notice passes n on, and notes where speech began.
func (s *recorded) Notice(n agent.Notice) {
	if n.Kind == agent.SpeechStarted {
		s.tape.sounds.Store(int64(n.Position))
	}
	s.Session.Notice(n)
}

// Run holds the conversation, and ends the record whatever becomes of it.
func (s *recorded) Run(ctx context.Context) (err error) {
	lived, over := ctx.Err() == nil, false
	defer func() {
		cause := "the agent failed"
		switch {
		case !over: // a panic, which is the call's to handle
		case err != nil && context.Cause(ctx) != err && errors.Is(context.Cause(ctx), err): // it ended the call itself
		case ctx.Err() != nil:
			cause = context.Cause(ctx).Error()
		case err == nil:
			cause = "agent hung up"
		}
		s.tape.end(cause, lived)
	}()
	err = s.Session.Run(ctx)
	over = true
	return err
}

// announcing is a session on record whose agent can be made to say something.
type announcing struct {
	*recorded
	agent.Announcer
}
