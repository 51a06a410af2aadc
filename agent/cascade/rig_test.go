package cascade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/stt/stttest"
	"parley/agent/tts"
)

const (
	ms     = time.Millisecond
	rate   = 8000
	packet = 20 * ms
)

// line is the fake call: a clock that sends a packet and hears a frame every 20 ms,
// and keeps what was on the wire.
type line struct {
	notice func(agent.Notice)
	hear   func([]int16)

	mu         sync.Mutex
	generation int
	queue      []int16
	buffer     int // samples that Say may queue
	played     int // samples put on the wire: the timeline
	paused     bool
	held       bool
	dead       bool // packets are not sent
	speaking   bool
	wire       []stretch
	room       chan struct{}
	stop       chan struct{}
	stopped    chan struct{}
}

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
	return l.held
}

// slot sends a packet.
func (l *line) slot(now time.Time) {
	l.mu.Lock()
	if l.paused || l.held || l.dead {
		l.mu.Unlock()
		return
	}
	n := min(rate/50, len(l.queue))
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
	if tell != nil {
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

func (l *line) Flush()  {}
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
	said  []string // by value-1
	texts []string
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
		value := int16(len(w.said))
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

func (w *words) spoken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
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

// rig is a conversation under a fake clock.
type rig struct {
	t     *testing.T
	cfg   Config
	stt   *stttest.Fake
	voice *words
	model *mind
	line  *line

	session agent.Session
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error // of Run, once done
	began   time.Time

	mu     sync.Mutex
	events []agent.Event
}

var errHungUp = errors.New("caller hung up")

// converse runs a conversation: prepare sets it up, script is the caller's side. At
// the end the caller hangs up, unless the agent did; then everything must be closed
// and every goroutine gone.
func converse(t *testing.T, prepare func(*rig), script func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { newRig(t, prepare).play(script) })
}

func newRig(t *testing.T, prepare func(*rig)) *rig {
	t.Helper()
	r := &rig{
		t: t, cfg: DefaultConfig(), stt: stttest.NewFake(), voice: &words{length: 200 * ms}, model: &mind{},
		line: newLine(), done: make(chan struct{}), began: time.Now(),
	}
	r.stt.SampleRate = rate
	r.cfg.Greeting = "Welcome to Parley."
	r.cfg.STT, r.cfg.TTS, r.cfg.LLM = r.stt, r.voice, r.model
	if prepare != nil {
		prepare(r)
	}
	opener, err := New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r.cancel = cancel
	r.session, err = opener.Open(ctx, agent.Call{
		ID: "call-1", SessionID: "session-1", Direction: "inbound", Called: "100", Rate: rate,
		Caller: agent.Caller{ResourceID: "+15550100"}, Speaker: r.line, Emit: r.emit,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.line.notice, r.line.hear = r.session.Notice, r.session.Hear
	go r.line.run()
	go func() {
		defer close(r.done)
		r.err = r.session.Run(ctx)
	}()
	return r
}

func (r *rig) play(script func(*rig)) {
	r.t.Helper()
	defer r.hangUp()
	script(r)
}

// hangUp ends the conversation and checks that everything is closed.
func (r *rig) hangUp() {
	r.t.Helper()
	r.cancel(errHungUp)
	before := time.Now()
	<-r.done
	if took := time.Since(before); took > time.Second {
		r.t.Errorf("closing took %v", took)
	}
	sent := len(r.wire())
	time.Sleep(time.Second)
	if len(r.wire()) != sent {
		r.t.Error("speech was sent after the end (BR-152)")
	}
	close(r.line.stop)
	<-r.line.stopped
	if r.model.mu.Lock(); len(r.model.ends) != 1 || r.model.live != 0 || r.model.most > 1 {
		r.t.Errorf("model: closed %d times, %d replies live, at most %d at once", len(r.model.ends), r.model.live, r.model.most)
	}
	r.model.mu.Unlock()
	for i, s := range r.stt.Streams() {
		if !s.Closed() {
			r.t.Errorf("recogniser's stream %d is not closed", i)
		}
	}
}

func (r *rig) emit(e agent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *rig) all(kind agent.EventType) []agent.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []agent.Event
	for _, e := range r.events {
		if e.Type == kind {
			found = append(found, e)
		}
	}
	return found
}

func (r *rig) wire() []stretch {
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	return slices.Clone(r.line.wire)
}

// heard is the words that were on the wire whole, from the n-th word spoken.
func (r *rig) heard() []string {
	counts := map[int16]int{}
	var order []int16
	for _, s := range r.wire() {
		if counts[s.value] == 0 {
			order = append(order, s.value)
		}
		counts[s.value] += s.samples
	}
	r.voice.mu.Lock()
	defer r.voice.mu.Unlock()
	var whole []string
	for _, v := range order {
		if counts[v] == int(r.voice.length*rate/time.Second) {
			whole = append(whole, r.voice.said[v-1])
		}
	}
	return whole
}

func (r *rig) wait(d time.Duration) { time.Sleep(d) }

// until waits, in fake time, until something is so.
func (r *rig) until(what string, so func() bool) {
	r.t.Helper()
	for range 12000 {
		synctest.Wait()
		if so() {
			return
		}
		time.Sleep(10 * ms)
	}
	r.t.Fatalf("two minutes passed and not: %s\n%s", what, r.log())
}

// quiet waits until the agent has said its n-th reply, the greeting included.
func (r *rig) quiet(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d replies", n), func() bool { return len(r.all(agent.EventAgentStopped)) >= n })
}

// speaks waits until the agent's n-th reply is on the wire.
func (r *rig) speaks(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("reply %d begins", n), func() bool { return len(r.all(agent.EventAgentStarted)) >= n })
}

func (r *rig) ends() {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(3 * time.Minute):
		r.t.Fatalf("three minutes passed and the agent has not ended the call\n%s", r.log())
	}
}

// say has the caller speak for d; the recogniser hears text.
func (r *rig) say(text string, d time.Duration, interims ...string) {
	r.stt.Add(stttest.Utterance{Text: text, Confidence: 0.9, Interims: interims})
	r.sound(d)
}

// sound is a voice of length d, noticed with the delays of an energy detector.
func (r *rig) sound(d time.Duration) {
	time.Sleep(40 * ms)
	r.session.Notice(agent.Notice{Kind: agent.VoiceOn, At: time.Now(), Lag: 40 * ms})
	time.Sleep(max(d-40*ms, 0) + 200*ms)
	r.session.Notice(agent.Notice{Kind: agent.VoiceOff, At: time.Now(), Lag: 200 * ms})
}

func (r *rig) key(digits string) {
	for _, d := range []byte(digits) {
		r.session.Notice(agent.Notice{Kind: agent.Digit, At: time.Now(), Digit: d})
		time.Sleep(100 * ms)
	}
}

func (r *rig) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, e := range r.events {
		fmt.Fprintf(&b, "%7.3f %-15s %q heard %q int %v lat %v %s\n", e.At.Sub(r.began).Seconds(), e.Type, e.Text, e.Heard, e.Interrupted, e.Latency, e.Reason)
	}
	return b.String()
}

// numbers is a text of n words, in sentences of five.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Word%d", i)
		if i%5 == 4 {
			b.WriteByte('.')
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func newFakeSTT() *stttest.Fake { return stttest.NewFake() }

// deafAfter is a recogniser that gives so many final transcripts and no more.
type deafAfter struct {
	*stttest.Fake
	finals int
}

func (d deafAfter) Open(ctx context.Context, o stt.Options, out func(stt.Result)) (stt.Stream, error) {
	left := d.finals
	return d.Fake.Open(ctx, o, func(r stt.Result) {
		if r.Final {
			if left--; left < 0 {
				return
			}
		}
		out(r)
	})
}
