package cascade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

const (
	ms     = time.Millisecond
	rate   = 8000
	packet = 20 * ms
)

// rig is a conversation under a fake clock.
type rig struct {
	t     *testing.T
	cfg   Config
	stt   *stttest.Fake
	voice *words
	model *mind
	line  *line
	hands *hands

	about   func(*agent.Call) // more of the call
	beeping atomic.Bool       // the other side makes a tone
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
		line: newLine(), hands: &hands{}, done: make(chan struct{}), began: time.Now(),
	}
	r.stt.SampleRate = rate
	r.cfg.Greeting = "Welcome to Parley."
	r.cfg.FillerAfter = 0
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
	call := agent.Call{
		ID: "call-1", SessionID: "session-1", Direction: "inbound", Called: "100", Rate: rate,
		Caller: agent.Caller{ResourceID: "+15550100"}, Speaker: r.line, Control: r.hands, Emit: r.emit,
	}
	if r.about != nil {
		r.about(&call)
	}
	r.session, err = opener.Open(ctx, call)
	if err != nil {
		t.Fatal(err)
	}
	r.line.notice, r.line.hear = r.session.Notice, r.session.Hear
	if r.line.tap != nil {
		r.line.hear = r.line.tap
	}
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
	var whole []string
	length := int(r.voice.length * rate / time.Second)
	for _, v := range order {
		// A filler is made once and may be heard several times.
		if word, ok := r.voice.word(v); ok && counts[v]%length == 0 {
			whole = append(whole, word)
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

func utterance(text string) stttest.Utterance {
	return stttest.Utterance{Text: text, Confidence: 0.9}
}

func final(text string) stt.Result { return stt.Result{Text: text, Final: true, Confidence: 0.9} }

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

// hands is the call's control: it notes what is asked of it, takes its time, and
// fails as the test wants.
type hands struct {
	takes time.Duration
	fails error

	mu    sync.Mutex
	asked []string
}

func (h *hands) do(ctx context.Context, what string) error {
	h.mu.Lock()
	h.asked = append(h.asked, what)
	h.mu.Unlock()
	select {
	case <-time.After(h.takes):
		return h.fails
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *hands) done() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.asked, ", ")
}

func (h *hands) Transfer(ctx context.Context, t agent.Transfer) error {
	return h.do(ctx, fmt.Sprintf("transfer %s %v", t.To, t.Attended))
}
func (h *hands) SendDigits(ctx context.Context, d string) error { return h.do(ctx, "digits "+d) }
func (h *hands) Hold(ctx context.Context) error                 { return h.do(ctx, "hold") }
func (h *hands) Resume(ctx context.Context) error               { return h.do(ctx, "resume") }
func (h *hands) Record(bool) error                              { return nil }
