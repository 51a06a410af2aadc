package kit

import (
	"context"
	"encoding/binary"
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
	"parley/agent/live"
	"parley/agent/live/livetest"
	"parley/media/g711"
)

const (
	packet   = 20 * ms
	wordTime = 200 * ms
)

// line is the fake call: a clock that sends a packet and hears a frame every 20 ms, and
// keeps what was on the wire.
type line struct {
	notice func(agent.Notice)
	untold bool // no notices come of what is sent, as when speech follows a Stop at once
	hear   func([]int16)
	// says and hears are the rates of the agent; codec is what the call has.
	says, hears int
	// payload takes payloads of wish in the stead of hear.
	payload func([]byte)
	wish    string

	mu    sync.Mutex
	codec string
	// coded and decoded are how many samples were said as payloads and as PCM.
	coded, decoded int
	generation     int
	queue          []int16
	played         int  // samples put on the wire: the timeline
	flushed        bool // what there is of an incomplete packet is to be sent
	paused         bool
	held           bool
	deaf           bool // no frames come from the caller
	dead           bool // packets are not sent
	speaking       bool
	voice          int16 // what the caller's frames hold
	wire           []stretch
	pauses         int
	stops          int
	room           chan struct{}
	stop           chan struct{}
	stopped        chan struct{}
}

// delayed is how many samples of what was said a resampler keeps until it is flushed.
func (l *line) delayed() int {
	if l.says == 8000 {
		return 0
	}
	return l.says / 250
}

// stretch is some samples of one word in one packet, and when it was sent.
type stretch struct {
	value   int16
	samples int
	at      time.Time
}

func newLine() *line {
	return &line{says: live.OutputRate, hears: live.InputRate, room: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
}

func (l *line) run() {
	defer close(l.stopped)
	tick := time.NewTicker(packet)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case now := <-tick.C:
			l.mu.Lock()
			quiet, voice, own := l.held || l.deaf, l.voice, l.payload != nil && l.wish == l.codec
			l.mu.Unlock()
			switch {
			case quiet:
			case own:
				l.payload(slices.Repeat([]byte{lawOf(voice)}, 160))
			default:
				l.hear(slices.Repeat([]int16{voice}, l.hears/50))
			}
			l.slot(now)
		}
	}
}

// lawOf is a voice as payloads hold it.
func lawOf(voice int16) byte {
	if voice == 0 {
		return g711.IdlePCMU
	}
	return byte(voice)
}

// holds says whether what was sent holds a voice.
func holds(s livetest.Sent, voice int16) bool {
	if s.Payload != nil {
		return s.Payload[0] == lawOf(voice)
	}
	return s.PCM[0] == voice
}

// slot sends a packet.
func (l *line) slot(now time.Time) {
	l.mu.Lock()
	if l.paused || l.held || l.dead {
		l.mu.Unlock()
		return
	}
	n := min(l.says/50, len(l.queue))
	if !l.flushed && len(l.queue) < l.says/50+l.delayed() {
		n = 0
	}
	var tell *agent.Notice
	position := time.Duration(l.played) * time.Second / time.Duration(l.says)
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
	token(l.room)
	if tell != nil && !l.untold {
		l.notice(*tell)
	}
}

func (l *line) Say(ctx context.Context, pcm []int16) error {
	l.set(func() { l.decoded += len(pcm) })
	return l.say(ctx, pcm)
}

// SayPayload keeps the bytes as they are, so that what comes decoded is known by its
// values.
func (l *line) SayPayload(ctx context.Context, encoding string, payload []byte) error {
	l.mu.Lock()
	takes := encoding == l.codec && l.says == 8000
	l.mu.Unlock()
	if !takes {
		return agent.ErrEncoding
	}
	l.set(func() { l.coded += len(payload) })
	pcm := make([]int16, len(payload))
	for i, b := range payload {
		pcm[i] = int16(b)
	}
	return l.say(ctx, pcm)
}

func (l *line) say(ctx context.Context, pcm []int16) error {
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
		n := min(len(pcm), 3*l.says-len(l.queue))
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

func (l *line) Flush()  { l.set(func() { l.flushed = true }) }
func (l *line) Pause()  { l.set(func() { l.paused = true; l.pauses++ }) }
func (l *line) Resume() { l.set(func() { l.paused = false }) }

func (l *line) set(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
}

func (l *line) Stop() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
	l.stops++
	l.queue, l.paused = nil, false
	token(l.room)
	return time.Duration(l.played) * time.Second / time.Duration(l.says)
}

func (l *line) Played() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.played) * time.Second / time.Duration(l.says)
}

// hands is the call's control.
type hands struct {
	fails error
	mu    sync.Mutex
	asked []string
}

func (h *hands) do(what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, what)
	return h.fails
}

func (h *hands) done() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.asked, ", ")
}

func (h *hands) Transfer(_ context.Context, t agent.Transfer) error { return h.do("transfer " + t.To) }
func (h *hands) SendDigits(_ context.Context, d string) error       { return h.do("digits " + d) }
func (h *hands) Hold(context.Context) error                         { return h.do("hold") }
func (h *hands) Resume(context.Context) error                       { return h.do("resume") }
func (h *hands) Record(bool) error                                  { return nil }

// phone is a call with a scripted model, under a fake clock.
type phone struct {
	*testing.T
	cfg     Config
	script  *livetest.Script
	bare    bool // the provider does no more than it must
	coded   bool // the call has the model's encoding
	line    *line
	hands   *hands
	caller  agent.Call
	session agent.Session
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error
	began   time.Time
	answers atomic.Bool // whatever the model is asked it answers with nothing

	mu     sync.Mutex
	events []agent.Event
	said   []string // words of the model and the voice, by value-1
}

var errHungUp = errors.New("caller hung up")

// ring runs a call. At its end the caller hangs up, unless the agent did; then
// everything must be closed.
func ring(t *testing.T, prepare, script func(*phone)) {
	t.Helper()
	t.Run("pcm", func(t *testing.T) { ringWith(t, false, prepare, script) })
	t.Run("pcmu", func(t *testing.T) { ringWith(t, true, prepare, script) })
}

// ringWith is ring with one way of the sound.
func ringWith(t *testing.T, coded bool, prepare, script func(*phone)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPhone(t, coded, prepare)
		defer p.hangUp()
		script(p)
	})
}

func newPhone(t *testing.T, coded bool, prepare func(*phone)) *phone {
	t.Helper()
	p := &phone{
		T: t, cfg: DefaultConfig(), script: livetest.NewScript(), line: newLine(), hands: &hands{}, coded: coded,
		done: make(chan struct{}), began: time.Now(),
		caller: agent.Call{ID: "call-1", SessionID: "session-1", Direction: "inbound", Called: "100"},
	}
	p.cfg.Opening = ""
	p.cfg.Provider = func() live.LiveProvider {
		if p.bare {
			return p.script.Bare()
		}
		return p.script.Provider()
	}
	if prepare != nil {
		prepare(p)
	}
	opener, err := New(p.cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := opener.Format()
	if f.HearRate != 16000 || f.SayRate != 24000 {
		t.Errorf("format %+v", f)
	}
	if p.coded {
		p.caller.Codec, p.line.codec = "PCMU", "PCMU"
		if p.coded = f.Payloads; f.Payloads {
			p.line.says, p.line.hears = 8000, 8000
		}
	}
	p.caller.Payloads = func(encoding string, hear func([]byte)) { p.line.wish, p.line.payload = encoding, hear }
	ctx, cancel := context.WithCancelCause(t.Context())
	p.cancel = cancel
	c := p.caller
	c.Speaker, c.Control, c.Emit = p.line, p.hands, p.emit
	p.session, err = opener.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	p.line.notice, p.line.hear = p.session.Notice, p.session.Hear
	go p.line.run()
	go func() {
		defer close(p.done)
		p.err = p.session.Run(ctx)
	}()
	synctest.Wait()
	return p
}

// hangUp ends the call and checks that everything is closed, in a second (BR-135), and
// that nothing is said after it (BR-152).
func (p *phone) hangUp() {
	p.Helper()
	p.cancel(errHungUp)
	before := time.Now()
	<-p.done
	if took := time.Since(before); took > time.Second {
		p.Errorf("closing took %v", took)
	}
	if n := p.script.Open(); n != 0 {
		p.Errorf("%d connections are open", n)
	}
	sent := len(p.wire())
	time.Sleep(time.Second)
	if len(p.wire()) != sent {
		p.Error("speech was sent after the end")
	}
	close(p.line.stop)
	<-p.line.stopped
}

func (p *phone) emit(e agent.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

func (p *phone) all(kind agent.EventType) []agent.Event {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []agent.Event
	for _, e := range p.events {
		if e.Type == kind {
			found = append(found, e)
		}
	}
	return found
}

func (p *phone) wire() []stretch {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	return slices.Clone(p.line.wire)
}

// heard is the words that were on the wire whole, in order.
func (p *phone) heard() string {
	counts := map[int16]int{}
	var order []int16
	for _, s := range p.wire() {
		if s.value == 0 {
			continue
		}
		if counts[s.value] == 0 {
			order = append(order, s.value)
		}
		counts[s.value] += s.samples
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var whole []string
	for _, v := range order {
		if counts[v] >= p.wordSound() {
			whole = append(whole, p.said[v-1])
		}
	}
	return strings.Join(whole, " ")
}

// wordPCM is the sound of a word that is said next.
func (p *phone) wordPCM(word string) []int16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, word)
	return slices.Repeat([]int16{int16(len(p.said))}, p.wordSound())
}

// wordSound is how many samples a word has.
func (p *phone) wordSound() int { return p.line.says / 5 }

// audio is samples as the model says them: payloads hold the value of a word itself.
func (p *phone) audio(pcm []int16) []byte {
	if !p.coded {
		return s16le(pcm)
	}
	out := make([]byte, len(pcm))
	for i, v := range pcm {
		out[i] = byte(v)
	}
	return out
}

func s16le(pcm []int16) []byte {
	out := make([]byte, 0, 2*len(pcm))
	for _, v := range pcm {
		out = binary.LittleEndian.AppendUint16(out, uint16(v))
	}
	return out
}

// says has the model begin to say text as an item, much faster than it is heard.
func (p *phone) says(item, text string) {
	p.saysOn(p.script.Last(), item, text)
}

func (p *phone) saysOn(c *livetest.ScriptConn, item, text string) {
	for i, w := range strings.Fields(text) {
		lead := " "
		if i == 0 {
			lead = ""
		}
		_ = c.Tell(live.Message{ItemID: item, Agent: live.Transcript{Delta: lead + w}, Audio: p.audio(p.wordPCM(w))})
	}
}

// tell has the model say a message.
func (p *phone) tell(m live.Message) {
	p.Helper()
	if err := p.script.Last().Tell(m); err != nil {
		p.Fatal(err)
	}
	synctest.Wait()
}

// replies is a whole reply.
func (p *phone) replies(item, text string) {
	p.Helper()
	p.says(item, text)
	p.tell(live.Message{TurnDone: true})
}

// sound is a voice of length d, noticed with the delays of a detector.
func (p *phone) sound(d time.Duration) {
	time.Sleep(40 * ms)
	p.session.Notice(agent.Notice{Kind: agent.VoiceOn, At: time.Now(), Lag: 40 * ms})
	time.Sleep(max(d-40*ms, 0) + 200*ms)
	p.session.Notice(agent.Notice{Kind: agent.VoiceOff, At: time.Now(), Lag: 200 * ms})
	synctest.Wait()
}

// speaks has the caller say text for d, as the gateway and the service hear it; the
// service writes it down.
func (p *phone) speaks(text string, d time.Duration) {
	p.Helper()
	c := p.script.Last()
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(200 * ms)
		_ = c.Tell(live.Message{SpeechStarted: true})
		time.Sleep(max(d-200*ms, 0) + 500*ms)
		_ = c.Tell(live.Message{SpeechStopped: true})
		time.Sleep(100 * ms)
		_ = c.Tell(live.Message{User: live.Transcript{Text: text, Done: true}})
	}()
	p.sound(d)
	<-done
	synctest.Wait()
}

func (p *phone) key(digits string) {
	for _, d := range []byte(digits) {
		p.session.Notice(agent.Notice{Kind: agent.Digit, At: time.Now(), Digit: d})
		time.Sleep(100 * ms)
	}
}

// until waits, in fake time, until something is so.
func (p *phone) until(what string, so func() bool) {
	p.Helper()
	for range 12000 {
		synctest.Wait()
		if so() {
			return
		}
		time.Sleep(10 * ms)
	}
	p.Fatalf("two minutes passed and not: %s\n%s", what, p.log())
}

// quiet waits until the agent has said its n-th reply.
func (p *phone) quiet(n int) {
	p.Helper()
	p.until(fmt.Sprintf("%d replies", n), func() bool { return len(p.all(agent.EventAgentStopped)) >= n })
}

func (p *phone) ends() {
	p.Helper()
	select {
	case <-p.done:
	case <-time.After(3 * time.Minute):
		p.Fatalf("three minutes passed and the agent has not ended the call\n%s", p.log())
	}
}

// sent is what the newest connection was given besides audio.
func (p *phone) sent() []string {
	synctest.Wait()
	return p.sentTo(p.script.Last())
}

func (p *phone) sentTo(c *livetest.ScriptConn) []string {
	out := []string{}
	for _, s := range c.All() {
		line := strings.TrimSpace(string(s.Kind) + " " + s.Text)
		switch s.Kind {
		case livetest.SentTruncate:
			line = fmt.Sprintf("truncate %s %v", s.ItemID, s.Played)
		case livetest.SentToolResponse:
			line = fmt.Sprintf("response %s %v", s.Response.ID, s.Response.Response)
		}
		out = append(out, line)
	}
	return out
}

// wantSent compares what the newest connection was given.
func (p *phone) wantSent(want ...string) {
	p.Helper()
	if got := p.sent(); !slices.Equal(got, want) {
		p.Errorf("sent %q, want %q\n%s", got, want, p.log())
	}
}

// wantStopped compares the end of the agent's replies: text, heard and cut.
func (p *phone) wantStopped(want ...string) {
	p.Helper()
	var got []string
	for _, e := range p.all(agent.EventAgentStopped) {
		line := fmt.Sprintf("%s|%s", e.Text, e.Heard)
		if e.Interrupted {
			line += "|cut"
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		p.Errorf("agent stopped %q, want %q\n%s", got, want, p.log())
	}
}

// wantUser compares the caller's turns.
func (p *phone) wantUser(want ...string) {
	p.Helper()
	var got []string
	for _, e := range p.all(agent.EventUserStopped) {
		got = append(got, strings.TrimSuffix(e.Text+"|"+e.Reason, "|"))
	}
	if !slices.Equal(got, want) {
		p.Errorf("user stopped %q, want %q\n%s", got, want, p.log())
	}
	if n := len(p.all(agent.EventUserStarted)); n != len(got) && !p.open() {
		p.Errorf("%d turns began and %d ended", n, len(got))
	}
}

// open says whether the last turn has not ended.
func (p *phone) open() bool {
	return len(p.all(agent.EventUserStarted)) == len(p.all(agent.EventUserStopped))+1
}

func (p *phone) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, e := range p.events {
		fmt.Fprintf(&b, "%7.3f %-15s %q heard %q int %v lat %v pos %v %s %s\n", e.At.Sub(p.began).Seconds(), e.Type, e.Text, e.Heard, e.Interrupted, e.Latency, e.Position, e.Reason, e.Strategy)
	}
	return b.String()
}
