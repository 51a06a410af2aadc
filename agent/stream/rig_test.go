package stream

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"parley/agent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errHungUp = errors.New("caller hung up")

// packetSent is what the mouth sent in one slot.
type packetSent struct {
	at    time.Time
	sound []int16 // samples, or bytes of mu-law when they were taken so
}

// mouth is a call's: it plays in fake real time, 20 ms at a time, half a second ahead.
type mouth struct {
	rate  int
	coded bool // takes mu-law

	mu         sync.Mutex
	queue      []int16
	whole      int // samples that are flushed or whole packets
	generation int
	played     int
	paused     bool
	held       bool
	speaking   bool
	closed     bool
	payloads   int
	flushes    int
	room       chan struct{}
	notice     func(agent.Notice)
	wire       []packetSent
}

func (m *mouth) size() int { return m.rate / 50 }

func (m *mouth) Say(ctx context.Context, pcm []int16) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	generation := m.generation
	for len(m.queue) >= m.rate/2 && m.generation == generation && !m.closed {
		m.mu.Unlock()
		select {
		case <-m.room:
		case <-ctx.Done():
		}
		m.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	switch {
	case m.closed:
		return agent.ErrClosed
	case m.generation != generation:
		return agent.ErrStopped
	}
	m.queue = append(m.queue, pcm...)
	m.whole = max(m.whole, len(m.queue)/m.size()*m.size())
	return nil
}

// SayPayload keeps the bytes themselves.
func (m *mouth) SayPayload(ctx context.Context, encoding string, payload []byte) error {
	m.mu.Lock()
	coded := m.coded
	if coded {
		m.payloads++
	}
	m.mu.Unlock()
	if !coded || encoding != "PCMU" {
		return agent.ErrEncoding
	}
	return m.Say(ctx, bytesOf(payload))
}

func bytesOf(payload []byte) []int16 {
	pcm := make([]int16, len(payload))
	for i, b := range payload {
		pcm[i] = int16(b)
	}
	return pcm
}

func (m *mouth) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.whole = len(m.queue)
	m.flushes++
}

func (m *mouth) Pause()  { m.set(&m.paused, true) }
func (m *mouth) Resume() { m.set(&m.paused, false) }

func (m *mouth) set(flag *bool, v bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*flag = v
}

func (m *mouth) Stop() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue, m.whole, m.paused = nil, 0, false
	m.generation++
	signal(m.room)
	return m.position()
}

func (m *mouth) position() time.Duration {
	return time.Duration(m.played) * time.Second / time.Duration(m.rate)
}

func (m *mouth) Played() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.position()
}

func (m *mouth) close() {
	m.Stop()
	m.set(&m.closed, true)
	signal(m.room)
}

// slot sends a packet, if there is one.
func (m *mouth) slot() {
	m.mu.Lock()
	n := min(m.size(), m.whole)
	if m.paused || m.held {
		m.mu.Unlock()
		return
	}
	var told *agent.Notice
	if n > 0 {
		m.wire = append(m.wire, packetSent{time.Now(), slices.Clone(m.queue[:n])})
		if !m.speaking {
			told = &agent.Notice{Kind: agent.SpeechStarted, At: time.Now(), Position: m.position()}
		}
		m.speaking = true
		m.queue, m.whole, m.played = m.queue[n:], m.whole-n, m.played+n
		signal(m.room)
	} else if m.speaking {
		m.speaking = false
		told = &agent.Notice{Kind: agent.SpeechEnded, At: time.Now(), Position: m.position()}
	}
	m.mu.Unlock()
	if told != nil && m.notice != nil {
		m.notice(*told)
	}
}

func (m *mouth) run(stop <-chan struct{}) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			m.slot()
		}
	}
}

// packets are those that went over the wire.
func (m *mouth) packets() []packetSent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.wire)
}

// counts are how often payloads were taken, and how often the end of a reply was told.
func (m *mouth) counts() (payloads, flushes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.payloads, m.flushes
}

// sent is all that went over the wire.
func (m *mouth) sent() (out []int16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.wire {
		out = append(out, p.sound...)
	}
	return out
}

// control notes what the agent does to the call.
type control struct {
	agent.NoControl
	mu   sync.Mutex
	did  []string
	errs map[string]error
}

func (c *control) do(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did = append(c.did, what)
	if err, ok := c.errs[what]; ok {
		return err
	}
	return nil
}

func (c *control) Transfer(_ context.Context, t agent.Transfer) error {
	return c.do(fmt.Sprint("transfer ", t.To, " ", t.Attended, " ", t.Trunk, t.Headers))
}
func (c *control) SendDigits(_ context.Context, d string) error { return c.do("dtmf " + d) }
func (c *control) Hold(context.Context) error                   { return c.do("hold") }
func (c *control) Resume(context.Context) error                 { return c.do("resume") }

func (c *control) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.did)
}

// memory is a map.
type memory struct {
	mu sync.Mutex
	m  map[string]any
}

func (m *memory) Get(key string) (any, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.m[key]
	return v, ok
}

func (m *memory) Set(key string, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value == nil {
		delete(m.m, key)
		return
	}
	m.m[key] = value
}

func (m *memory) Keys(string) (keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// peer is one connection as the bot has it.
type peer struct {
	t    testing.TB
	conn *websocket.Conn
	r    *http.Request
	n    int // which of the call's, from 0

	mu  sync.Mutex
	all []received
	end error
}

// received is a message that the gateway sent.
type received struct {
	at     time.Time
	text   string
	m      map[string]any
	binary []byte
}

// field is a member, with dots for those within.
func (r received) field(path ...string) any {
	v := any(r.m)
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// kind is the message's event or type, "binary" for sound.
func (r received) kind() string {
	switch {
	case r.m == nil:
		return "binary"
	case r.m["event"] != nil:
		return r.m["event"].(string)
	}
	s, _ := r.m["type"].(string)
	return s
}

// listen reads until the connection ends.
func (p *peer) listen() error {
	p.conn.SetReadLimit(1 << 20)
	for {
		kind, b, err := p.conn.Read(context.Background())
		if err != nil {
			p.mu.Lock()
			p.end = err
			p.mu.Unlock()
			return err
		}
		r := received{at: time.Now()}
		if kind == websocket.MessageBinary {
			r.binary = b
		} else if r.text = string(b); json.Unmarshal(b, &r.m) != nil {
			p.t.Errorf("the gateway sent %q", b)
		}
		p.mu.Lock()
		p.all = append(p.all, r)
		p.mu.Unlock()
	}
}

// first reads the first n messages and keeps them.
func (p *peer) first(n int) {
	for range n {
		_, b, err := p.conn.Read(context.Background())
		if err != nil {
			p.t.Errorf("the gateway ended: %v", err)
			return
		}
		r := received{at: time.Now(), text: string(b)}
		_ = json.Unmarshal(b, &r.m) // sound is none
		p.mu.Lock()
		p.all = append(p.all, r)
		p.mu.Unlock()
	}
}

// got are the messages of a kind so far, all when it is empty.
func (p *peer) got(kind string) (out []received) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.all {
		if kind == "" || r.kind() == kind {
			out = append(out, r)
		}
	}
	return out
}

// ended is the error that ended the connection.
func (p *peer) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end
}

// text sends JSON, or whatever it is.
func (p *peer) text(s string) {
	_ = p.conn.Write(context.Background(), websocket.MessageText, []byte(s)) // a test sees what did not come
}

func (p *peer) textf(format string, a ...any) { p.text(fmt.Sprintf(format, a...)) }

func (p *peer) binary(b []byte) {
	_ = p.conn.Write(context.Background(), websocket.MessageBinary, b)
}

// stream is the streamSid.
func (p *peer) stream() string {
	s, _ := p.got("start")[0].field("streamSid").(string)
	return s
}

// media sends mu-law.
func (p *peer) media(sound []byte) {
	p.textf(`{"event":"media","streamSid":%q,"media":{"payload":%q}}`, p.stream(), base64.StdEncoding.EncodeToString(sound))
}

func (p *peer) mark(name string) {
	p.textf(`{"event":"mark","streamSid":%q,"mark":{"name":%q}}`, p.stream(), name)
}

func (p *peer) clear() { p.textf(`{"event":"clear","streamSid":%q}`, p.stream()) }

// pipes is a network of in-memory connections.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rig is one call with a bot.
type rig struct {
	t       *testing.T
	cfg     Config
	call    agent.Call
	mouth   *mouth
	control *control
	memory  *memory
	payload func([]byte)

	mu     sync.Mutex
	events []agent.Event
	peers  []*peer

	net     *pipes
	server  *http.Server
	opener  agent.Opener
	session agent.Session
	hangUp  context.CancelCauseFunc
	ran     chan error
	stop    chan struct{}
	over    bool
	bots    sync.WaitGroup
}

// bot answers a connection; it returns when the bot closes it, with the status.
type bot func(p *peer) (websocket.StatusCode, string)

// listens is a bot that reads until the gateway ends the call.
func listens(p *peer) (websocket.StatusCode, string) {
	_ = p.listen()
	return websocket.StatusNormalClosure, ""
}

// newRig makes a call without a session; change may be nil.
func newRig(t *testing.T, dialect string, b bot, change func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, cfg: DefaultConfig(), control: &control{errs: map[string]error{}}, memory: &memory{m: map[string]any{}},
		net: &pipes{conns: make(chan net.Conn), done: make(chan struct{})}, stop: make(chan struct{}), ran: make(chan error, 1)}
	r.cfg.URL, r.cfg.Dialect = "ws://bot.example/media?x=1", dialect
	r.cfg.Transport = &http.Transport{DialContext: r.net.dial, DisableKeepAlives: true}
	r.mouth = &mouth{rate: 8000, coded: dialect == Twilio, room: make(chan struct{}, 1)}
	if dialect == PCM {
		r.mouth.rate = r.cfg.Rate
	}
	r.call = agent.Call{
		ID: "c0ffee", SessionID: "00112233445566778899aabbccddeeff", Direction: "inbound",
		Caller: agent.Caller{ResourceID: "+14155550100", Number: "+14155550100", Name: "Ann", Verified: true},
		Called: "200", Trunk: "carrier", Agent: "sales", Headers: map[string]string{"X-Account": "7"},
		Rate: 8000, Speaker: r.mouth, Control: r.control, Memory: r.memory,
		Payloads: func(encoding string, hear func([]byte)) {
			if encoding == "PCMU" {
				r.payload = hear
			}
		},
		Emit: func(e agent.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if e.At.IsZero() {
				e.At = time.Now()
			}
			r.events = append(r.events, e)
		},
	}
	if change != nil {
		change(r)
	}
	r.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.serve(w, q, b) })}
	go func() { _ = r.server.Serve(r.net) }()
	var err error
	if r.opener, err = New(r.cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) serve(w http.ResponseWriter, q *http.Request, b bot) {
	r.bots.Add(1)
	defer r.bots.Done()
	conn, err := websocket.Accept(w, q, nil)
	if err != nil {
		r.t.Errorf("the gateway's request: %v", err)
		return
	}
	p := &peer{t: r.t, conn: conn, r: q}
	r.mu.Lock()
	p.n = len(r.peers)
	r.peers = append(r.peers, p)
	r.mu.Unlock()
	code, reason := b(p)
	if code == 0 {
		_ = conn.CloseNow()
		return
	}
	_ = conn.Close(code, reason)
}

// peer is the nth connection, waited for.
func (r *rig) peer(n int) *peer {
	r.t.Helper()
	for range 5000 {
		r.mu.Lock()
		if n < len(r.peers) {
			defer r.mu.Unlock()
			return r.peers[n]
		}
		r.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
	r.t.Fatalf("no connection %d", n)
	return nil
}

// answer opens the session and lets it run.
func (r *rig) answer() *rig {
	r.t.Helper()
	var err error
	if r.session, err = r.opener.Open(context.Background(), r.call); err != nil {
		r.t.Fatal(err)
	}
	r.mouth.notice = r.session.Notice
	ctx, cancel := context.WithCancelCause(context.Background())
	r.hangUp = cancel
	go r.mouth.run(r.stop)
	go func() { r.ran <- r.session.Run(ctx) }()
	synctest.Wait()
	return r
}

// end hangs up, unless the agent did, and returns what Run did.
func (r *rig) end() error {
	r.t.Helper()
	if r.session == nil {
		r.close()
		return nil
	}
	r.mouth.close()
	r.hangUp(errHungUp)
	err := r.waitRun(time.Second)
	r.close()
	return err
}

// waitRun waits for Run.
func (r *rig) waitRun(within time.Duration) error {
	r.t.Helper()
	select {
	case err := <-r.ran:
		r.ran <- err
		return err
	case <-time.After(within):
		r.t.Fatalf("Run does not return within %v", within)
		return nil
	}
}

func (r *rig) close() {
	if r.over {
		return
	}
	r.over = true
	close(r.stop)
	_ = r.server.Close()
	_ = r.net.Close()
	r.mu.Lock()
	peers := slices.Clone(r.peers)
	r.mu.Unlock()
	for _, p := range peers {
		_ = p.conn.CloseNow()
	}
	r.bots.Wait()
	synctest.Wait()
}

// of are the events of a type.
func (r *rig) of(kind agent.EventType) (out []agent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Type == kind {
			out = append(out, e)
		}
	}
	return out
}

// hears gives the session n frames of the caller, 20 ms apart, each of one value.
func (r *rig) hears(from, n int) {
	for i := range n {
		r.hear(from + i)
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *rig) hear(value int) {
	if r.payload != nil && r.mouth.coded {
		r.payload(slices.Repeat([]byte{byte(value)}, 160))
		return
	}
	r.session.Hear(slices.Repeat([]int16{int16(value)}, r.mouth.rate/50))
}

// bubble runs a test in fake time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// tone is n packets of 20 ms of mu-law that differ: from is the first one's value.
func tone(from, n int) (out []byte) {
	for i := range n {
		out = append(out, slices.Repeat([]byte{byte(from + i)}, 160)...)
	}
	return out
}

// cancelled is a context of a call that was never up.
func cancelled() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errHungUp)
	return ctx, func() { cancel(nil) }
}
