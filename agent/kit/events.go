package kit

import (
	"errors"
	"strings"
	"time"

	"parley/agent"
	"parley/agent/live"
	"parley/agent/turn"
)

// event is something the loop is told.
type event interface{ happen(s *conversation) }

type (
	notice  agent.Notice
	message live.Message
	// said: all sound of a reply was given to the call.
	said struct{ reply *reply }
	// toolBegan and toolEnded: a call of the model's, and its answer.
	toolBegan struct{ id string }
	toolEnded struct{ id string }
	// toolThinks: a tool that wants the silence filled takes long, or no longer.
	toolThinks bool
	// gone: the connection is made anew; back: it was.
	gone struct{}
	back struct{}
	// ended: the session with the model is over.
	ended struct{}
	// trouble: something failed, and the conversation goes on.
	trouble struct{ err error }
	// hangUp: the last words were heard.
	hangUp struct{}
	// fault: a goroutine is gone.
	fault struct{ err error }
)

func (n notice) happen(s *conversation) {
	now := time.Now()
	in := turn.Input{At: now, Lag: n.Lag}
	if !n.At.IsZero() && now.After(n.At) {
		in.Lag += now.Sub(n.At)
	}
	switch n.Kind {
	case agent.VoiceOn:
		in.Kind = turn.VoiceOn
	case agent.VoiceConfirmed:
		in.Kind = turn.VoiceConfirmed
	case agent.VoiceOff:
		in.Kind = turn.VoiceOff
	case agent.Digit:
		in.Kind, in.Digit = turn.Digit, n.Digit
		text := string(n.Digit)
		if s.cfg.SecretDigits {
			text = ""
		}
		s.emit(agent.Event{Type: agent.EventDigit, Text: text})
	case agent.Held:
		in.Kind = turn.Hold
	case agent.Resumed:
		in.Kind = turn.Unhold
	case agent.SpeechStarted:
		s.speechStarted(agent.Notice(n))
		return
	default: // SpeechEnded: passTime looks how far the speech has come
		s.progress.next = now
		return
	}
	s.decide(in)
}

// happen takes what the model tells; the fields apply in their order.
func (m message) happen(s *conversation) {
	now := time.Now()
	if len(m.Audio) > 0 {
		s.speech.arrived(len(m.Audio) / s.sound.width)
	}
	if m.Interrupted {
		s.replyComplete()
		s.dropping = false
	}
	s.userWords(m.User, now)
	if s.stale && s.outOfDate(live.Message(m)) || s.dropped(live.Message(m)) {
		return
	}
	if m.Agent.Delta != "" || m.Agent.Done || len(m.Audio) > 0 {
		s.replyGrows(live.Message(m), now)
	}
	if len(m.ToolCalls) > 0 {
		s.called = true
		s.answers(s.incoming)
	}
	if m.TurnDone {
		s.ends = true
		s.answers(s.incoming)
		switch {
		case s.incoming != nil || s.called:
		case s.suspects > 0: // to what is out of date
			s.suspects--
		default:
			s.expected = time.Time{} // it has nothing to say
		}
		s.called = false
		s.replyComplete()
	}
}

func (e said) happen(s *conversation) {
	e.reply.said = true
	s.progress = progress{next: time.Now()}
}

func (e toolBegan) happen(s *conversation) {
	s.toolRuns[e.id]++
	s.decide(turn.Input{Kind: turn.ToolsBegan, At: time.Now()})
}

func (e toolThinks) happen(s *conversation) {
	if e {
		s.thinking++
	} else {
		s.thinking--
	}
}

func (e toolEnded) happen(s *conversation) {
	if s.toolRuns[e.id] == 0 {
		return
	}
	if s.toolRuns[e.id]--; s.toolRuns[e.id] == 0 {
		delete(s.toolRuns, e.id)
	}
	s.decide(turn.Input{Kind: turn.ToolsEnded, At: time.Now()})
	if len(s.toolRuns) == 0 {
		s.expect(s.since) // the model goes on by itself
	}
}

func (gone) happen(s *conversation) {
	s.away = true
	s.lost = s.lost || s.incoming != nil || !s.expected.IsZero()
	s.replyComplete()
	s.dropping, s.stale, s.suspects = false, false, 0
}

func (back) happen(s *conversation) {
	if !s.away {
		return
	}
	s.away = false
	if s.lost {
		s.lost = false
		s.instruct(s.cfg.Resumed, time.Time{})
	}
}

func (ended) happen(s *conversation) {
	err := errors.New("kit: the session with the model is over")
	if why := s.failure.Load(); why != nil {
		err = *why
	}
	s.fail(err)
}

func (e trouble) happen(s *conversation) { s.complain(e.err) }

func (e fault) happen(s *conversation) {
	s.complain(e.err)
	s.finish(e.err)
}

func (hangUp) happen(s *conversation) {
	s.emit(agent.Event{Type: agent.EventAction, Reason: "hangup"})
	s.finish(nil)
}

// caller is what is known of the caller's turn.
type caller struct {
	open   bool      // user_started was told, and user_stopped was not
	closed bool      // the turn taking has closed it; its words may still come
	reason string    // of user_stopped
	by     string    // what closed it
	until  time.Time // how long words are waited for then; zero: not
	text   string    // the transcripts that are done
	partly string    // the one that is not
}

// wordsTimeout is how long the words of a turn that is over are waited for.
const wordsTimeout = 5 * time.Second

// userWords takes a transcript of the caller.
func (s *conversation) userWords(t live.Transcript, now time.Time) {
	if t.Delta == "" && !t.Done || s.turns.Muted() {
		return
	}
	c := &s.caller
	if len(c.text)+len(c.partly)+len(t.Delta) <= turn.MaxText {
		c.partly += t.Delta
	}
	if !t.Done {
		if text := strings.TrimSpace(c.partly); text != "" {
			s.emit(agent.Event{Type: agent.EventTranscript, Text: text})
		}
		return
	}
	text := strings.TrimSpace(c.partly)
	if whole := strings.TrimSpace(t.Text); whole != "" && len(whole) <= turn.MaxText {
		text = whole
	}
	c.partly = ""
	if text != "" {
		s.emit(agent.Event{Type: agent.EventTranscript, Text: text, Final: true})
		c.text = strings.TrimSpace(c.text + " " + text)
	}
	switch {
	case s.turns.Open():
		// Transcription opens no turn here, but the words decide about one.
		s.decide(turn.Input{Kind: turn.Final, At: now, Text: text})
	case text == "":
	default: // late, or of a voice that was too soft to be noticed
		if !c.open {
			c.open = true
			s.emit(agent.Event{Type: agent.EventUserStarted, Reason: turn.ByTranscript})
		}
		s.userOver("")
	}
}

// userOver tells of the end of the caller's turn, with the words that came.
func (s *conversation) userOver(reason string) {
	c := s.caller
	s.caller = caller{}
	if ch := s.words.Swap(nil); ch != nil {
		defer close(*ch)
	}
	if !c.open && c.text == "" && c.partly == "" {
		return
	}
	if c.reason != "" {
		reason = c.reason
	}
	text := strings.TrimSpace(c.text + " " + c.partly)
	if reason == "noise" {
		text = ""
	}
	s.emit(agent.Event{Type: agent.EventUserStopped, Text: text, Reason: reason, Strategy: c.by})
	if text != "" {
		s.cfg.Gate.Caller(s.session.SessionID(), text)
	}
}
