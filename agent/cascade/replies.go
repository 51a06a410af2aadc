package cascade

import (
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/turn"
)

// start makes r the reply under way.
func (s *session) start(r *reply) {
	s.reply = r
	s.progress = progress{}
	r.behind = s.endWait()
	if r.ask {
		s.tellNow()
		hand(s.asks, r)
	}
	hand(s.speech, r)
}

// phrase makes r say text of the gateway's own, as the agent's words.
func (r *reply) phrase(text string) {
	if text != "" {
		r.items = append(r.items, item{text: text})
	}
}

// greet opens the conversation. Whatever comes of it, the greeting is a reply, so
// that what waits for its end (Config.Turn.MuteGreeting) does not wait for ever.
func (s *session) greet() {
	r := newReply(s.life, greeting, s.cfg.Language, "")
	if r.ask = s.cfg.Greeting == ""; r.ask {
		s.emit(agent.Event{Type: agent.EventInference, Reason: agent.InferenceGreeting})
	} else {
		r.add(append(r.pending.Write(s.cfg.Greeting), r.pending.Flush()...))
		r.closed = true
	}
	s.began(time.Now())
	s.start(r)
}

// ask has the model reply to a turn, or say what it wants to say, for a reason that is
// reported. The caller's last sound is zero where the reply answers none.
func (s *session) ask(t llm.Turn, p purpose, lastSound time.Time, why string) {
	r := newReply(s.life, p, s.cfg.Language, "")
	r.ask, r.turn, r.since = true, s.withOwed(t), lastSound
	s.owed, s.unasked = owed{}, nil
	s.emit(agent.Event{Type: agent.EventInference, Reason: why})
	s.start(r)
}

// withOwed is a turn with what the model is owed to be told.
func (s *session) withOwed(t llm.Turn) llm.Turn {
	t.Interrupted, t.WasInterrupted = s.owed.heard, s.owed.interrupted
	if s.unasked != nil {
		t = joined(*s.unasked, t)
	}
	return t
}

// prompt breaks the silence, for the n-th time from 1.
func (s *session) prompt(n int) {
	s.emit(agent.Event{Type: agent.EventIdle, Reason: "prompt"})
	switch {
	case s.unasked != nil: // a turn that was not finished, and is now all there is
		s.ask(llm.Turn{Nothing: true}, answer, time.Time{}, agent.InferenceTurn)
	case len(s.cfg.Reprompts) == 0:
		r := newReply(s.life, prompt, s.cfg.Language, "")
		r.ask, r.turn = true, llm.Turn{Nothing: true}
		s.emit(agent.Event{Type: agent.EventInference, Reason: agent.InferenceSilence})
		s.start(r)
	default:
		s.sayOwn(s.cfg.Reprompts[(n-1)%len(s.cfg.Reprompts)])
	}
}

// sayOwn says words of the gateway's, and then does something.
func (s *session) sayOwn(words string, then ...*llm.Action) {
	r := newReply(s.life, prompt, s.cfg.Language, "")
	r.phrase(words)
	for _, a := range then {
		r.items = append(r.items, item{action: a})
	}
	r.closed = true
	s.start(r)
}

// goodbye takes leave, because nobody says anything, and ends the call.
func (s *session) goodbye(reason string) {
	if reason == turn.ByGarbled && s.misheard >= turn.Options && s.callForPerson() {
		return
	}
	s.emit(agent.Event{Type: agent.EventIdle, Reason: "goodbye"})
	s.sayOwn(s.cfg.Goodbye, &llm.Action{Kind: llm.Hangup})
}

// fail says the last words, whatever the caller does, and ends the call with err.
func (s *session) fail(err error, words string) {
	s.drop()
	s.interrupt(turn.Decision{})
	s.closing = true
	s.call.Speaker.Resume() // nothing else will
	r := newReply(s.life, farewell, s.cfg.Language, "")
	r.phrase(words)
	r.closed, r.failed = true, err
	s.start(r)
}

// joined is a turn together with the one before, which the model was never asked
// to reply to because this one followed at once. Keys are not lost to words, nor to
// more keys.
func joined(before, t llm.Turn) llm.Turn {
	switch {
	case t.Nothing:
		t.Text, t.Digits, t.Confidence = before.Text, before.Digits, before.Confidence
		t.Nothing, t.Garbled = before.Nothing, before.Garbled
	case before.Digits && t.Digits:
		t.Text = before.Text + t.Text
	case before.Digits:
		t.Text, t.Digits, t.Confidence = before.Text, true, before.Confidence
	case before.Text != "" && !t.Digits:
		t.Text = before.Text + " " + t.Text
	}
	t.Interrupted, t.WasInterrupted = before.Interrupted, before.WasInterrupted
	return t
}

// fallback is what r says when the model fails. A greeting or a prompt that fails is
// no reason to ask the caller to say something again.
func (s *session) fallback(r *reply) string {
	if r.purpose == answer {
		return s.cfg.Fallback
	}
	return ""
}
