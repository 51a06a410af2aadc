package cascade

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/agent"
	"parley/agent/llm"
)

// fate is what became of a reply.
type fate struct {
	reply *reply
	llm.Heard
}

// fateOf is what became of a reply of which heard was heard, up to a position.
func fateOf(r *reply, heard string, interrupted bool, at time.Duration) fate {
	f := fate{r, llm.Heard{Text: r.text(), Heard: strings.TrimSpace(heard), Interrupted: interrupted, Played: r.before}}
	if from, sounds := r.sounded(); sounds {
		f.Played += max(0, at-from)
	}
	f.Own = !r.ask && !r.known
	return f
}

// hasAsked says whether the sentence that the caller hears, or heard last, is a question.
func (s *session) hasAsked() bool {
	if s.reply != nil {
		s.noteQuestion(s.reply, s.call.Speaker.Played())
	}
	return s.asked
}

// noteQuestion remembers whether the sentence of r that is heard at a position is one.
func (s *session) noteQuestion(r *reply, at time.Duration) {
	if text, ok := r.hearing(at); ok {
		s.asked = isQuestion(text)
	}
}

// isQuestion says whether text ends with the mark of a question, quotes and brackets aside.
func isQuestion(text string) bool {
	text = strings.TrimRightFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.In(r, unicode.Pe, unicode.Pf, unicode.Quotation_Mark)
	})
	last, _ := utf8.DecodeLastRuneInString(text)
	return strings.ContainsRune("?？؟\u037e՞⁇⁉", last)
}

// tell tells a model that wants to know. What it was never asked for, and has no words
// of ours, is nothing to it.
func (s *session) tell(f fate) {
	h, ok := s.model.(llm.Hearer)
	if !ok || f.Own && f.Text == "" || !f.Own && !f.reply.known && !f.reply.wasAsked() {
		return
	}
	h.Heard(f.Heard)
}

// tellLater keeps what became of a reply that was cut off until it is known whether
// that was for nothing: each reply is told of once.
func (s *session) tellLater(f fate) { s.untold = append(s.untold, f) }

// tellNow tells what was kept.
func (s *session) tellNow() {
	for _, f := range s.untold {
		s.tell(f)
	}
	s.untold = nil
}

// withdraw says that the turn which r answers comes again.
func (s *session) withdraw(r *reply) {
	for i := range s.untold {
		if s.untold[i].reply == r {
			s.untold[i].Withdrawn = true
		}
	}
}

// takeUp forgets what was kept of a reply: it goes on, and is told of when it ends.
func (s *session) takeUp(r *reply) (played time.Duration) {
	for i := range s.untold {
		if s.untold[i].reply == r {
			played = s.untold[i].Played
			s.untold = append(s.untold[:i], s.untold[i+1:]...)
			break
		}
	}
	return played
}

// agentStopped reports the end of a reply, unless it had no words and no sound.
func (s *session) agentStopped(f fate, started bool, at time.Duration) {
	if f.Text == "" && !started {
		return
	}
	s.emit(agent.Event{Type: agent.EventAgentStopped, Text: f.Text, Heard: f.Heard.Heard, Interrupted: f.Interrupted, Position: at})
}
