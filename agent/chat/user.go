package chat

import (
	"strings"
	"time"
)

// Transcript is what a recogniser understood.
type Transcript struct {
	Text string
	// Final says that it will not be revised. What is not final is never written.
	Final bool
	// UserID is who spoke, where that is known.
	UserID string
}

// ByTranscription is the strategy of a turn that words opened.
const ByTranscription = "transcription"

// userTurn is the caller's turn, and what was said in it.
type userTurn struct {
	open    bool
	muted   bool
	at      time.Time
	id      string // who spoke
	whole   string // of the turn
	pending string // of whole, what is not written yet
	message uint64 // what was written last
	written string // its text
}

// User is the caller's half of a Pair: it collects final transcripts and writes one
// message for each turn.
type User struct{ p *Pair }

// Start opens a turn, if none is open.
func (u User) Start(strategy string) {
	defer u.p.lock()()
	u.p.startUser(strategy)
}

func (p *Pair) startUser(strategy string) {
	if p.user.open || p.user.muted {
		return
	}
	p.user.open, p.user.at = true, p.cfg.Now()
	p.user.whole, p.user.id = p.user.pending, "" // of a realtime model: what was said by then
	tell(&p.out, p.cfg.Events.UserTurnStarted, UserTurnStarted{strategy, p.user.at})
}

// Add takes a transcript. Interim ones are dropped, and so is all while the caller is
// muted. White space opens nothing and adds nothing; words open a turn when none is
// open, unless the model hears the caller itself.
func (u User) Add(t Transcript) {
	defer u.p.lock()()
	p := u.p
	if !t.Final || p.user.muted || strings.TrimSpace(t.Text) == "" {
		return
	}
	if !p.user.open && !p.cfg.Realtime {
		p.startUser(ByTranscription)
	}
	if p.user.at.IsZero() || p.cfg.Realtime && p.user.pending == "" && !p.user.open {
		p.user.at = p.cfg.Now()
	}
	p.user.whole = join(p.user.whole, t.Text)
	p.user.pending = join(p.user.pending, t.Text)
	if t.UserID != "" {
		p.user.id = t.UserID
	}
}

// Draft is what Stop would write now; "" when that is nothing.
func (u User) Draft() string {
	u.p.mu.Lock()
	defer u.p.mu.Unlock()
	return strings.TrimSpace(u.p.user.pending)
}

// Open says whether a turn is open.
func (u User) Open() bool {
	u.p.mu.Lock()
	defer u.p.mu.Unlock()
	return u.p.user.open
}

// Infer says that there is enough to answer. It writes what was said so far; the turn
// stays open, and what follows becomes a message of its own.
func (u User) Infer(strategy string) {
	defer u.p.lock()()
	p := u.p
	if !p.user.open {
		return
	}
	tell(&p.out, p.cfg.Events.UserTurnInferenceTriggered, UserTurnInferenceTriggered{strategy})
	if !p.cfg.Realtime {
		p.writeUser()
	}
}

// Stop ends the turn and writes what was not written yet. Without an open turn it does
// nothing.
func (u User) Stop(strategy string) {
	defer u.p.lock()()
	u.p.stopUser(strategy)
}

func (p *Pair) stopUser(strategy string) {
	if !p.user.open {
		return
	}
	if !p.cfg.Realtime {
		p.writeUser()
	}
	p.user.open = false
	tell(&p.out, p.cfg.Events.UserTurnStopped, UserTurnStopped{
		Strategy: strategy, Content: strings.TrimSpace(p.user.whole), At: p.user.at, UserID: p.user.id,
	})
	p.user.whole = ""
}

// writeUser writes what was said and not written yet as one message.
func (p *Pair) writeUser() {
	text := strings.TrimSpace(p.user.pending)
	p.user.pending = ""
	if text == "" {
		return
	}
	p.user.message = p.append(Message{Role: RoleUser, Content: text, At: p.user.at, UserID: p.user.id})
	p.user.written = text
	tell(&p.out, p.cfg.Events.UserTurnMessageAdded, UserTurnMessageAdded{text, p.user.at, p.user.id})
}

// Retract forgets what was said in the open turn and not written yet: the words come
// again with what the caller adds.
func (u User) Retract() {
	u.p.mu.Lock()
	defer u.p.mu.Unlock()
	p := u.p
	p.user.whole = strings.TrimSuffix(p.user.whole, p.user.pending)
	p.user.pending = ""
}

// Amend changes the text of the message that was written last: the turn that was
// thought complete has gone on. It is false when the message is gone, or more was said
// after it.
func (u User) Amend(text string) bool {
	u.p.mu.Lock()
	defer u.p.mu.Unlock()
	p := u.p
	if p.user.message == 0 || !p.ctx.isLastOf(p.user.message, RoleUser) || !p.ctx.Revise(p.user.message, text, false) {
		return false
	}
	p.user.written = text
	return true
}

// Last is the name of the message that was written last, and its text; 0 when there is
// none.
func (u User) Last() (id uint64, text string) {
	u.p.mu.Lock()
	defer u.p.mu.Unlock()
	return u.p.user.message, u.p.user.written
}

// Timeout closes a turn that nothing else has closed.
func (u User) Timeout() {
	defer u.p.lock()()
	if u.p.user.open {
		u.p.out.note(u.p.cfg.Events.UserTurnStopTimeout)
		u.p.stopUser("")
	}
}

// Idle tells that the caller has said nothing for the idle time. While a turn is open
// or a tool is at work that is no news.
func (u User) Idle() {
	defer u.p.lock()()
	if !u.p.user.open && len(u.p.ctx.CallsInProgress()) == 0 {
		u.p.out.note(u.p.cfg.Events.UserTurnIdle)
	}
}

// Mute drops what the caller says from now on, or ends that. An edge is told once. A
// turn that is open stays so.
func (u User) Mute(on bool) {
	defer u.p.lock()()
	if u.p.user.muted == on {
		return
	}
	u.p.user.muted = on
	if on {
		u.p.out.note(u.p.cfg.Events.UserMuteStarted)
	} else {
		u.p.out.note(u.p.cfg.Events.UserMuteStopped)
	}
}
