package cascade

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/turn"
)

// wordsSoFar are the final words of the open turn.
type wordsSoFar struct{ text string }

// heardWords takes final words of the open turn. Models may look up what they will need.
func (s *session) heardWords(text string) {
	if text == "" || !s.turns.Open() || len(s.words.text)+len(text) >= turn.MaxText {
		return
	}
	last, _ := utf8.DecodeLastRuneInString(s.words.text)
	first, _ := utf8.DecodeRuneInString(text)
	if s.words.text != "" && !unicode.IsSpace(last) && !unicode.IsSpace(first) {
		s.words.text += " "
	}
	s.words.text += text
	if p, ok := s.model.(llm.Prefetcher); ok {
		p.Prefetch(s.withOwed(llm.Turn{Text: s.words.text}).Text)
	}
}

// infer asks the model before the caller's turn is over. What it says is kept.
func (s *session) infer(d turn.Decision) {
	s.drop()
	r := newReply(s.life, answer, s.cfg.Language, "")
	r.ask, r.version, r.adopted = true, s.version(), make(chan struct{})
	r.turn = s.withOwed(llm.Turn{Text: strings.TrimSpace(d.Text), Confidence: d.Confidence})
	r.turn.Tentative = d.Tentative
	s.inferred = r
	s.early.Store(r)
	why := agent.InferenceTentative
	if d.Reason == "eager" {
		why = agent.InferenceEager
	}
	s.emit(agent.Event{Type: agent.EventInference, Reason: why})
	s.tellNow()
	hand(s.asks, r)
}

// version is the model's, 0 when it tells none.
func (s *session) version() uint64 {
	if v, ok := s.model.(llm.Versioned); ok {
		return v.Version()
	}
	return 0
}

// drop ends a reply that was begun early, if one was: it is none to what the caller said.
// Nobody has heard of it but the model.
func (s *session) drop() {
	r := s.inferred
	if r == nil {
		return
	}
	s.inferred = nil
	s.early.Store(nil)
	r.abandon(errInterrupted)
	s.tellLater(fateOf(r, "", true, 0))
	s.withdraw(r)
}

// adopt has a reply heard that was begun early, if all is still as it was then. It says
// whether it did.
func (s *session) adopt(t llm.Turn, lastSound time.Time) bool {
	r := s.inferred
	if r == nil {
		return false
	}
	was, is := r.turn, s.withOwed(t)
	was.Tentative, was.Confidence, is.Confidence = false, 0, 0
	if was != is || r.version != s.version() || r.isSealed() {
		s.drop()
		return false
	}
	s.inferred = nil
	s.early.Store(nil)
	s.owed, s.unasked = owed{}, nil
	r.since = lastSound
	close(r.adopted)
	s.reply, s.progress = r, progress{}
	r.behind = s.endWait()
	hand(s.speech, r)
	held := r.held
	r.held = nil
	for _, e := range held {
		e.happen(s)
	}
	return true
}

// current says whether r is the reply under way. What is said of one that was begun
// early is kept until it is.
func (s *session) current(r *reply, e event) bool {
	if r != nil && r == s.inferred {
		r.held = append(r.held, e)
	}
	return r != nil && r == s.reply
}

// judged: the model has found a turn complete, or gives the caller time to go on.
type judged struct {
	reply      *reply
	incomplete time.Duration
}

func (e judged) happen(s *session) {
	switch {
	case e.reply == s.inferred && e.incomplete > 0:
		s.decide(turn.Input{Kind: turn.Incomplete, At: time.Now(), Wait: e.incomplete})
	case e.reply == s.inferred:
		s.decide(turn.Input{Kind: turn.Complete, At: time.Now()})
	case e.reply == s.reply && e.incomplete > 0: // too late: the turn was closed meanwhile
		r := e.reply
		r.cancel(nil)
		s.tellLater(fateOf(r, "", true, 0))
		s.withdraw(r)
		t := r.turn
		t.Tentative = false
		s.owed = owed{t.WasInterrupted, t.Interrupted}
		s.ask(t, answer, r.since, agent.InferenceTurn)
	}
}

// verdict: the turn detector has judged an utterance.
type verdict struct {
	question    int
	probability float64
	err         error
}

// judgeTime bounds the turn detector: by then silence has decided.
const judgeTime = 3 * time.Second

func (e verdict) happen(s *session) {
	if e.err != nil {
		s.complain(e.err)
		return
	}
	s.decide(turn.Input{Kind: turn.Verdict, At: time.Now(), Question: e.question, Probability: e.probability})
}
