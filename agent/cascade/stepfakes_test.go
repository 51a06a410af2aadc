package cascade

import (
	"context"
	"time"

	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/tts"
)

// mouth is a Speaker whose packets leave as time passes, without a clock of its own.
type mouth struct {
	x       *stepper
	spans   []span
	queued  time.Duration // end of what was said
	played  time.Duration
	since   time.Time
	stopped bool // paused, or on hold
	held    bool
}

// span is where a word is on the timeline.
type span struct {
	word     string
	from, to time.Duration
}

func (m *mouth) move() {
	now := time.Now()
	if !m.stopped && !m.held {
		m.played = min(m.queued, m.played+now.Sub(m.since))
	}
	m.since = now
}

func (m *mouth) Say(ctx context.Context, pcm []int16) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.move()
	m.queued += time.Duration(len(pcm)) * time.Second / quickRate
	return nil
}

func (m *mouth) Flush()  {}
func (m *mouth) Pause()  { m.move(); m.stopped = true }
func (m *mouth) Resume() { m.move(); m.stopped = false }

func (m *mouth) Stop() time.Duration {
	m.move()
	m.queued, m.stopped = m.played, false
	for len(m.spans) > 0 && m.spans[len(m.spans)-1].from >= m.played {
		m.spans = m.spans[:len(m.spans)-1]
	}
	if n := len(m.spans); n > 0 && m.spans[n-1].to > m.played+slack {
		m.spans[n-1].word = "" // not whole
	}
	return m.played
}

func (m *mouth) Played() time.Duration { m.move(); return m.played }

// quick is a recogniser, a voice and a model without goroutines.
type quick struct{ x *stepper }

// quickRate is low: there is no sound to be heard.
const quickRate = 1000

func (quick) Rate() int { return quickRate }
func (quick) Open(context.Context, stt.Options, func(stt.Result)) (stt.Stream, error) {
	return quickStream{}, nil
}
func (quick) Speak(context.Context, string, func(tts.Chunk) error) error { panic("not called") }

type quickStream struct{}

func (quickStream) Write([]int16) error     { return nil }
func (quickStream) Begin()                  {}
func (quickStream) Finalize()               {}
func (quickStream) Expect(stt.Expect) error { return nil }
func (quickStream) Close() error            { return nil }

type quickModel struct{ x *stepper }

func (m quickModel) Open(context.Context, llm.Conversation) (llm.Model, error)  { return m, nil }
func (quickModel) Greet(context.Context, func(llm.Chunk) error) error           { panic("not called") }
func (quickModel) Reply(context.Context, llm.Turn, func(llm.Chunk) error) error { panic("not called") }
func (quickModel) Close(context.Context, llm.End)                               {}
func (quickModel) CallerSpeaks()                                                {}
func (m quickModel) Heard(h llm.Heard) {
	if !h.Own {
		m.x.told++
	}
}

var _ llm.Hearer = quickModel{}
