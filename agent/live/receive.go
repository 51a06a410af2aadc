package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// settleAfter is how long after its last audio a reply that is not said to be done is
// taken to be.
const settleAfter = 900 * time.Millisecond

// speech is what is known of the model's speech, guarded by Session.mu.
type speech struct {
	playing bool      // Options.HostHears: the host says so
	until   time.Time // otherwise: when what came so far has been played
}

// receive is the goroutine that receives from the provider.
func (s *Session) receive(r *run) {
	defer close(r.received)
	s.tell()
	for {
		var m Message
		err := guarded(func() (err error) {
			m, err = s.provider.Receive(r.link)
			return err
		})
		switch {
		case r.ctx.Err() != nil:
			return
		case err == nil:
			s.take(r, m)
		case !s.recover(r, err):
			return
		}
	}
}

// fails ends r because of err.
func (s *Session) fails(r *run, err error) {
	s.Report(err)
	r.cancel(err)
}

// take does what a message asks for. The fields apply in their order.
func (s *Session) take(r *run, m Message) {
	s.mu.Lock()
	if r.ended || r.ctx.Err() != nil {
		s.mu.Unlock()
		return
	}
	now := time.Now()
	if f := s.cb.OnMessage; f != nil {
		s.later(func() { f(m) })
	}
	s.edges(r, m, now)
	s.words(r, m, now)
	s.audio(r, m, now)
	s.tools(r, m, now)
	if m.TurnDone {
		s.turnDone(r)
	}
	if m.GoAway != nil {
		s.goAway(r, *m.GoAway, now)
	}
	if m.Warning != nil {
		err := fmt.Errorf("live: %s: %w", s.provider.Name(), m.Warning)
		s.later(func() { s.report(err) })
	}
	s.mu.Unlock()
	s.tell()
	s.serial.wait() // so that a callback that blocks makes the provider wait
}

// edges takes the service's voice detection; mu is held, here and below.
func (s *Session) edges(r *run, m Message, now time.Time) {
	if m.SpeechStarted != m.SpeechStopped {
		r.silence.voiced = m.SpeechStarted
	}
	if m.SpeechStarted {
		r.silence.voice(now, r.cfg.Transcribe)
		if s.state == StateProcessing {
			s.change(StateListening)
		}
	}
	if m.SpeechStopped && s.state == StateListening {
		s.process(r, now)
	}
	if !m.Interrupted || s.state != StateSpeaking && !s.plays(r, now) {
		return
	}
	r.speech.until = now
	s.replyOver(r)
	s.later(func() {
		if f := s.cb.OnInterrupted; f != nil {
			f()
		}
	})
}

// process notes that the model is at a reply.
func (s *Session) process(r *run, now time.Time) {
	r.silence.busySince = now
	s.change(StateProcessing)
}

// plays says whether the agent's speech is being heard.
func (s *Session) plays(r *run, now time.Time) bool {
	if s.options.HostHears {
		return r.speech.playing
	}
	return now.Before(r.speech.until)
}

// words takes the transcripts.
func (s *Session) words(r *run, m Message, now time.Time) {
	if m.User.Delta != "" || m.User.Done {
		whole := r.user.hear(m.User)
		if strings.TrimSpace(m.User.Delta+m.User.Text) != "" {
			r.silence.spoken(now)
		}
		s.transcribed(s.cb.OnUserTranscript, m.User, whole)
		if whole != "" {
			r.remember(Said{Role: "user", Text: whole})
			s.later(func() { s.userMessage(whole) })
			if s.state == StateListening {
				s.process(r, now)
			}
		} else if m.User.Done && s.state == StateProcessing {
			s.change(StateListening) // it was no word
		}
	}
	if m.Agent.Delta == "" && !m.Agent.Done {
		return
	}
	whole := r.agent.hear(m.Agent)
	s.transcribed(s.cb.OnAgentTranscript, m.Agent, whole)
	if f, delta := s.cb.OnText, m.Agent.Delta; f != nil && delta != "" {
		s.later(func() { f(delta) })
	}
	s.agentDone(r, whole)
}

// transcribed tells a piece of a transcript, and the whole.
func (s *Session) transcribed(f func(string, bool), part Transcript, whole string) {
	if f == nil {
		return
	}
	if part.Delta != "" {
		s.later(func() { f(part.Delta, false) })
	}
	if part.Done {
		s.later(func() { f(whole, true) })
	}
}

// agentDone tells a whole message of the agent's, unless the host says what was heard.
func (s *Session) agentDone(r *run, whole string) {
	if whole == "" || s.options.HostHears {
		return
	}
	r.remember(Said{Role: "assistant", Text: whole})
	s.later(func() { s.agentMessage(whole) })
}

// audio takes speech.
func (s *Session) audio(r *run, m Message, now time.Time) {
	if len(m.Audio) == 0 {
		return
	}
	s.change(StateSpeaking)
	if r.speech.until.Before(now) {
		r.speech.until = now
	}
	r.speech.until = r.speech.until.Add(r.cfg.Wire.length(len(m.Audio)))
	if f, pcm := s.cb.OnAudio, m.Audio; f != nil {
		s.later(func() { f(pcm) })
	}
	if r.settle == nil {
		r.settle = time.AfterFunc(settleAfter, func() { s.settled(r) })
	} else {
		r.settle.Reset(settleAfter)
	}
}

// length is how long so many bytes of a model's speech last.
func (e Encoding) length(bytes int) time.Duration {
	rate := int64(2 * OutputRate)
	if e == PCMU || e == PCMA {
		rate = 8000
	}
	return time.Duration(int64(bytes) * int64(time.Second) / rate)
}

// settled is called when no audio has come for settleAfter.
func (s *Session) settled(r *run) {
	s.mu.Lock()
	if !r.ended && s.state == StateSpeaking {
		s.replyOver(r)
	}
	s.mu.Unlock()
	s.tell()
}

// replyOver ends the reply with the words that came.
func (s *Session) replyOver(r *run) {
	if r.settle != nil {
		r.settle.Stop()
	}
	whole := r.agent.take()
	if whole != "" {
		s.transcribed(s.cb.OnAgentTranscript, Transcript{Done: true}, whole)
	}
	s.agentDone(r, whole)
	switch {
	case s.state != StateSpeaking && s.state != StateProcessing:
	case len(r.calls) > 0:
		s.change(StateProcessing)
	default:
		s.change(StateListening)
	}
}

func (s *Session) turnDone(r *run) {
	s.replyOver(r)
	s.later(func() {
		if f := s.cb.OnTurnDone; f != nil {
			f()
		}
	})
}

// tools takes calls, and those that the service took back.
func (s *Session) tools(r *run, m Message, now time.Time) {
	for _, call := range m.ToolCalls {
		r.silence.spoken(now)
		r.calls[call.ID] = true
		r.remember(Said{Role: "tool", Call: &call})
		if s.state == StateListening {
			s.process(r, now)
		}
		s.later(func() {
			if f := s.cb.OnToolCall; f != nil {
				f(call)
			}
		})
	}
	if len(m.CancelledCalls) == 0 {
		return
	}
	for _, id := range m.CancelledCalls {
		if r.calls[id] {
			r.answered(ToolResponse{ID: id, Response: map[string]any{"error": "cancelled"}})
		}
	}
	s.later(func() {
		if f := s.cb.OnToolCancelled; f != nil {
			f(m.CancelledCalls)
		}
	})
}

// isLost says whether err tells that the connection is gone.
func isLost(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) || errors.Is(err, io.EOF)
}

// errRenew is the cause when a connection is given up for a new one in time, errBroken
// when it does not take what is sent.
var (
	errRenew  = errors.New("live: connecting anew in time")
	errBroken = fmt.Errorf("%w: it takes nothing", ErrLost)
)

// openLink makes the context of a new connection; mu is held.
func (r *run) openLink() {
	r.link, r.cut = context.WithCancelCause(r.ctx)
	r.broken, r.linked = false, time.Now()
}
