package cascade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/tts"
)

// line is the fake call: a clock that sends a packet and hears a frame every 20 ms,
// and keeps what was on the wire.
type line struct {
	notice func(agent.Notice)
	untold bool // no notices come of what is sent, as when speech follows a Stop at once
	hear   func([]int16)
	tap    func([]int16) // in its stead, if set

	mu         sync.Mutex
	generation int
	queue      []int16
	buffer     int  // samples that Say may queue
	played     int  // samples put on the wire: the timeline
	flushed    bool // what there is of an incomplete packet is to be sent
	paused     bool
	held       bool
	deaf       bool // no frames come from the caller
	dead       bool // packets are not sent
	speaking   bool
	wire       []stretch
	room       chan struct{}
	stop       chan struct{}
	stopped    chan struct{}
}

// delayed is how many samples of what was said a resampler keeps until it is flushed.
const delayed = rate / 250

// stretch is some samples of one word in one packet, and when it was sent.
type stretch struct {
	value   int16
	samples int
	at      time.Time
}

func newLine() *line {
	return &line{buffer: 3 * rate, room: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
}

func (l *line) run() {
	defer close(l.stopped)
	tick := time.NewTicker(packet)
	defer tick.Stop()
	frame := make([]int16, rate/50)
	for {
		select {
		case <-l.stop:
			return
		case now := <-tick.C:
			if !l.onHold() {
				l.hear(frame)
			}
			l.slot(now)
		}
	}
}

func (l *line) onHold() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held || l.deaf
}

// slot sends a packet.
func (l *line) slot(now time.Time) {
	l.mu.Lock()
	if l.paused || l.held || l.dead {
		l.mu.Unlock()
		return
	}
	n := min(rate/50, len(l.queue))
	if !l.flushed && len(l.queue) < rate/50+delayed {
		n = 0
	}
	var tell *agent.Notice
	position := time.Duration(l.played) * time.Second / rate
	switch {
	case n > 0 && !l.speaking:
		l.speaking, tell = true, &agent.Notice{Kind: agent.SpeechStarted, At: now, Position: position}
	case n == 0 && l.speaking:
		l.speaking, tell = false, &agent.Notice{Kind: agent.SpeechEnded, At: now, Position: position}
	}
	for i, v := range l.queue[:n] {
		if last := len(l.wire) - 1; i > 0 && l.wire[last].value == v {
			l.wire[last].samples++
		} else {
			l.wire = append(l.wire, stretch{v, 1, now})
		}
	}
	l.queue, l.played = l.queue[n:], l.played+n
	l.mu.Unlock()
	select {
	case l.room <- struct{}{}:
	default:
	}
	if tell != nil && !l.untold {
		l.notice(*tell)
	}
}

func (l *line) Say(ctx context.Context, pcm []int16) error {
	l.mu.Lock()
	generation := l.generation
	l.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.mu.Lock()
		if l.generation != generation {
			l.mu.Unlock()
			return agent.ErrStopped
		}
		n := min(len(pcm), l.buffer-len(l.queue))
		l.flushed = false
		l.queue = append(l.queue, pcm[:n]...)
		pcm = pcm[n:]
		l.mu.Unlock()
		if len(pcm) == 0 {
			return nil
		}
		select {
		case <-l.room:
		case <-ctx.Done():
		}
	}
}

func (l *line) Flush()  { l.set(&l.flushed, true) }
func (l *line) Pause()  { l.set(&l.paused, true) }
func (l *line) Resume() { l.set(&l.paused, false) }

func (l *line) set(what *bool, to bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*what = to
}

func (l *line) Stop() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
	l.queue, l.paused = nil, false
	select {
	case l.room <- struct{}{}:
	default:
	}
	return time.Duration(l.played) * time.Second / rate
}

func (l *line) Played() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.played) * time.Second / rate
}

// words speaks: every word is a stretch of one value, and each word ever spoken has
// a value of its own, so that the wire tells to the sample which words were heard.
type words struct {
	length    time.Duration // of a word
	firstByte time.Duration
	untimed   bool // tells no word times
	fails     func(text string) error
	failAfter int // words spoken before fails' error
	hang      bool

	mu    sync.Mutex
	said  []string // by their values
	texts []string
}

// firstWord is below all values of words and above those of the soft tone.
const firstWord = 2000

// word is the one that has a value.
func (w *words) word(value int16) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := int(value) - firstWord - 1; i >= 0 && i < len(w.said) {
		return w.said[i], true
	}
	return "", false
}

func (w *words) Rate() int { return rate }

func (w *words) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	w.mu.Lock()
	w.texts = append(w.texts, text)
	w.mu.Unlock()
	if w.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := sleep(ctx, w.firstByte); err != nil {
		return err
	}
	for i, word := range strings.Fields(text) {
		if w.fails != nil {
			if err := w.fails(text); err != nil && i >= w.failAfter {
				return err
			}
		}
		w.mu.Lock()
		w.said = append(w.said, word)
		value := firstWord + int16(len(w.said))
		w.mu.Unlock()
		pcm := slices.Repeat([]int16{value}, int(w.length*rate/time.Second))
		chunk := tts.Chunk{PCM: pcm}
		if !w.untimed {
			chunk.Words = []tts.Word{{Text: word, Start: time.Duration(i) * w.length, End: time.Duration(i+1) * w.length}}
		}
		if err := out(chunk); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mind is the fake model: reply says what it does, turns what it was asked.
type mind struct {
	greet func(ctx context.Context, out func(llm.Chunk) error) error
	reply func(ctx context.Context, n int, t llm.Turn, out func(llm.Chunk) error) error
	delay time.Duration // before every reply that says nothing else

	mu     sync.Mutex
	opened llm.Conversation
	turns  []llm.Turn
	at     []time.Time
	live   int
	most   int
	ends   []llm.End
}

func (m *mind) Open(_ context.Context, c llm.Conversation) (llm.Model, error) {
	m.opened = c
	return m, nil
}

func (m *mind) Greet(ctx context.Context, out func(llm.Chunk) error) error {
	if m.greet == nil {
		return nil
	}
	return m.greet(ctx, out)
}

func (m *mind) Reply(ctx context.Context, t llm.Turn, out func(llm.Chunk) error) error {
	m.mu.Lock()
	m.turns, m.at = append(m.turns, t), append(m.at, time.Now())
	n := len(m.turns)
	m.live++
	m.most = max(m.most, m.live)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.live--
		m.mu.Unlock()
	}()
	if m.reply != nil {
		return m.reply(ctx, n, t, out)
	}
	if err := sleep(ctx, m.delay); err != nil {
		return err
	}
	return out(llm.Chunk{Text: fmt.Sprintf("Reply number %d. ", n)})
}

func (m *mind) Close(_ context.Context, e llm.End) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends = append(m.ends, e)
}

func (m *mind) asked() []llm.Turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.turns)
}
