package tool

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"
)

// Why a confirmation does not count. The texts are for models.
var (
	ErrNotAsked     = errors.New("the caller has not been asked yet: ask the question, and wait for the answer")
	ErrNotConfirmed = errors.New("the caller has not said yes yet: wait for a clear yes")
	ErrDeclined     = errors.New("the caller has said no: nothing was done")
	ErrBadToken     = errors.New("this confirmation does not count, because it is used up, too old, or for something else: call without it, and ask again")
)

// GateConfig is how a Gate confirms.
type GateConfig struct {
	// TTL is how long a confirmation can be used after the question. 0: 5 minutes.
	TTL time.Duration
	// Judge says what the caller's words are as the answer to a question. nil: Judge.
	Judge func(words string) Answer
	// Verbatim demands that the words of the question were spoken as they are. Use it
	// when the host or the model speaks prompts word by word: then a model cannot ask
	// one thing and do another.
	Verbatim bool
	// MaxSessions bounds how many conversations may wait for an answer; the longest
	// waiting one loses its question. 0: 10,000.
	MaxSessions int
}

// Gate keeps calls back until the caller has agreed. It does not trust the model: a
// confirmation is for one conversation, one tool and exactly its arguments; it is used
// once; it is void after TTL; and it counts only when the host saw the agent's
// question be heard (Asked) and the caller say yes after that (Caller). A conversation
// has one open question: a new one makes the old one void, so that a yes is never an
// answer to two. It is safe for concurrent use, by all conversations of a gateway.
type Gate struct {
	cfg GateConfig
	mu  sync.Mutex
	ask map[string]*question // by session
}

// question is one confirmation that is asked for.
type question struct {
	token  string
	hash   [sha256.Size]byte
	prompt string
	at     time.Time
	asked  bool
	answer Answer
}

// NewGate returns a Gate.
func NewGate(cfg GateConfig) *Gate {
	orElse(&cfg.TTL, 5*time.Minute)
	orElse(&cfg.MaxSessions, 10_000)
	if cfg.Judge == nil {
		cfg.Judge = Judge
	}
	return &Gate{cfg: cfg, ask: map[string]*question{}}
}

// fingerprint binds a confirmation to what is to be done. Keys are sorted by
// encoding/json, and lengths part the fields.
func fingerprint(session, name string, args map[string]any) ([sha256.Size]byte, error) {
	text, err := json.Marshal([]any{session, name, args})
	return sha256.Sum256(text), err
}

// Ask opens a question and returns the token for it.
func (g *Gate) Ask(session, name string, args map[string]any, prompt string) (token string, err error) {
	q := &question{token: rand.Text(), prompt: prompt, at: time.Now()}
	if q.hash, err = fingerprint(session, name, args); err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ask[session] == nil && len(g.ask) >= g.cfg.MaxSessions {
		g.evict()
	}
	g.ask[session] = q
	return q.token, nil
}

// evict drops what is too old, or else the oldest question.
func (g *Gate) evict() {
	oldest := ""
	for session, q := range g.ask {
		if time.Since(q.at) >= g.cfg.TTL {
			delete(g.ask, session)
		} else if oldest == "" || q.at.Before(g.ask[oldest].at) {
			oldest = session
		}
	}
	if len(g.ask) >= g.cfg.MaxSessions {
		delete(g.ask, oldest)
	}
}

// Asked tells the Gate that the agent has spoken, and which words of it the caller
// heard to their end. Before that no yes counts, so speech that was cut off by the
// caller must not be told.
func (g *Gate) Asked(session, heard string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.ask[session]
	if q == nil || strings.TrimSpace(heard) == "" {
		return
	}
	if g.cfg.Verbatim && !strings.Contains(" "+words(heard)+" ", " "+words(q.prompt)+" ") {
		return
	}
	q.asked = true
}

// Caller tells the Gate what the caller said: one whole turn. A no is final for the
// question. It returns what the words were taken for, Unclear when nothing was asked.
func (g *Gate) Caller(session, said string) Answer {
	a := g.cfg.Judge(said)
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.ask[session]
	if q == nil || !q.asked {
		return Unclear
	}
	// Whoever says yes and then "wait, no" before it is done has said no; and one who
	// goes on about something else has not agreed to be done with it.
	if q.answer != No {
		q.answer = a
	}
	return a
}

// Redeem is nil, once, when the caller has agreed to exactly this. Other errors than
// ErrNotAsked and ErrNotConfirmed make the token void.
func (g *Gate) Redeem(session, token, name string, args map[string]any) error {
	hash, err := fingerprint(session, name, args)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.ask[session]
	if q == nil || subtle.ConstantTimeCompare([]byte(q.token), []byte(token)) != 1 {
		return ErrBadToken // and the question that is open stays as it is
	}
	switch {
	case time.Since(q.at) >= g.cfg.TTL || q.hash != hash:
		err = ErrBadToken
	case q.answer == No:
		err = ErrDeclined
	case !q.asked:
		return ErrNotAsked
	case q.answer != Yes:
		return ErrNotConfirmed
	}
	delete(g.ask, session)
	return err
}

// End forgets a conversation.
func (g *Gate) End(session string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.ask, session)
}
