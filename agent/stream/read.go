package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/coder/websocket"

	"parley/agent"
)

// news is something that the reader tells Run.
type news interface{ happen(s *session) }

// receive does what a message asks for. It waits while there is no room, and so does the
// agent then. An error ends the link.
func (s *session) receive(ctx context.Context, kind websocket.MessageType, text []byte) error {
	command, err := s.dialect.read(kind, text)
	if say, ok := command.(sayCommand); !ok || int64(len(say.sound)/s.speech.width) < samples(leastFrame, s.rate) {
		if err := s.pace(ctx); err != nil {
			return err
		}
	}
	if err != nil {
		return s.mistaken(ctx, err)
	}
	switch c := command.(type) {
	case sayCommand:
		if len(c.sound) == 0 {
			return nil
		}
		return s.speech.put(ctx, c.sound)
	case markCommand:
		c.text = oneLine(c.text)
		if c.text != "" {
			s.call.Emit(agent.Event{Type: agent.EventAgentText, Text: c.text})
		}
		return s.speech.mark(ctx, mark{name: c.name, text: c.text})
	case clearCommand:
		cut := s.drop()
		if err := s.post(ctx, clearDone{"cleared", cut.at.Milliseconds(), milliseconds(cut.dropped, s.rate)}); err != nil {
			return err
		}
		return s.send(ctx, cut)
	case pauseCommand:
		s.pause(c.on)
	case hangupCommand:
		s.call.Emit(agent.Event{Type: agent.EventAction, Reason: "hangup"})
		s.pause(false)
		if err := s.speech.mark(ctx, mark{end: true}); err != nil {
			return err
		}
		return s.send(ctx, leaves{})
	case actCommand:
		return s.ask(ctx, c)
	case configCommand:
		return s.configure(ctx, c)
	case wordsCommand:
		s.words(oneLine(c.text), c.final)
	case memoryCommand:
		if s.call.Memory == nil {
			return s.mistaken(ctx, bad("type", "memory: nothing is kept of this caller"))
		}
		s.call.Memory.Set(c.key, c.value)
	case unknownCommand:
		s.warnings.Add(1)
		s.grumble("a message of type %q is not known", clip(c.name, 40))
	case otherCommand:
		s.warnings.Add(1)
	}
	return nil
}

// How many messages of an agent are read in a second at the most, but for sound that
// lasts as long as leastFrame: what is cheap to send must not be dear to bear, here or
// for who takes the events.
const (
	maxMessages = 2000
	leastFrame  = 5 * time.Millisecond
)

// pace lets a second pass for each maxMessages. It is the reader's.
func (s *session) pace(ctx context.Context) error {
	now := time.Now()
	left := time.Second - now.Sub(s.second)
	if left <= 0 {
		s.second, s.messages = now, 0
	}
	if s.messages++; s.messages <= maxMessages {
		return nil
	}
	s.grumble("the agent sends more than %d messages a second", maxMessages)
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return errEnded
	}
	s.second, s.messages = time.Now(), 1
	return nil
}

// mistaken tells agent and operator of a message that is wrong.
func (s *session) mistaken(ctx context.Context, err error) error {
	s.warnings.Add(1)
	var w *wrong
	if !errors.As(err, &w) {
		return err
	}
	s.grumble("a message of the agent's is wrong: %s", clip(w.Error(), 200))
	return s.post(ctx, mistake{"error", w.field, w.text})
}

// dropped is a cut, and when and where it was.
type dropped struct {
	cut
	when time.Time
	at   time.Duration
}

// drop silences the agent from the next packet, and forgets what it had queued.
func (s *session) drop() dropped {
	d := dropped{}
	d.cut = s.speech.clear(func() int64 {
		d.at = s.call.Speaker.Stop()
		d.when = time.Now()
		return samples(d.at, s.rate)
	})
	s.paused.Store(false) // Stop ends a pause
	return d
}

// pause keeps the speech back, or lets it go on.
func (s *session) pause(on bool) {
	s.paused.Store(on)
	if on {
		s.call.Speaker.Pause()
	} else {
		s.call.Speaker.Resume()
	}
}

// leaves: the agent will say no more than what is queued.
type leaves struct{}

func (leaves) happen(s *session) { s.leaving = true }

// send tells Run.
func (s *session) send(ctx context.Context, n news) error {
	select {
	case s.news <- n:
		return nil
	case <-ctx.Done():
		return errEnded
	}
}

// configure changes what the agent is told.
func (s *session) configure(ctx context.Context, c configCommand) error {
	if c.hear != nil {
		s.sends.Store(*c.hear)
	}
	if c.statistics != nil {
		return s.send(ctx, statisticsEvery{time.Duration(*c.statistics) * time.Millisecond})
	}
	return nil
}

// statisticsEvery is how often the agent wants statistics; 0: never.
type statisticsEvery struct{ d time.Duration }

func (e statisticsEvery) happen(s *session) { s.every, s.statistics = e.d, time.Now().Add(e.d) }

// words are the caller's, as the agent understood them.
func (s *session) words(text string, final bool) {
	if text == "" {
		return
	}
	s.call.Emit(agent.Event{Type: agent.EventTranscript, Text: text, Final: final})
	if final {
		s.call.Emit(agent.Event{Type: agent.EventUserStopped, Text: text})
	}
}

// oneLine is s without control characters.
func oneLine(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "")))
}

// clip is the beginning of a text from outside, for an event.
func clip(s string, n int) string {
	if s = oneLine(s); len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// maxComplaint bounds what the operator is told at a time, in bytes: errors hold texts
// of the agent's.
const maxComplaint = 400

// complain tells the operator.
func (s *session) complain(format string, a ...any) {
	s.call.Emit(agent.Event{Type: agent.EventError, Reason: "stream: " + clip(fmt.Sprintf(format, a...), maxComplaint)})
}

// grumbleEvery is how often it is told at the most that an agent makes mistakes.
const grumbleEvery = 5 * time.Second

// grumble complains, but not too often.
func (s *session) grumble(format string, a ...any) {
	now, last := time.Since(s.opened)+1, s.grumbled.Load()
	if last != 0 && now-time.Duration(last) < grumbleEvery || !s.grumbled.CompareAndSwap(last, int64(now)) {
		return
	}
	s.complain(format+" (%d so far)", append(a, s.warnings.Load())...)
}
