package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/agent"
	"parley/agent/stream"
	"parley/call"
	"parley/media/g711"
	"parley/sip"
	"parley/test/audio"
	"parley/test/phone"
)

// mediaBot is a bot for Media Streams. It is written against the public protocol and
// knows nothing of Parley: it greets, answers when the caller has spoken, stops when the
// caller speaks over it, says goodbye and closes.
type mediaBot struct {
	*httptest.Server
	greeting, reply, goodbye []byte // mu-law

	mu    sync.Mutex
	calls map[string]*mediaCall // by the custom parameter "from"
}

// mediaCall is what the bot knows of one call.
type mediaCall struct {
	bot    *mediaBot
	conn   *websocket.Conn
	stream string

	mu      sync.Mutex
	heard   []byte
	events  []string
	marks   map[string]time.Time
	cleared time.Time
	closed  websocket.StatusCode

	loud, quiet int // frames in a row
	spoke       bool
	state       string
}

// sounds that no two packets of are the same, and no byte of which is silence.
func sounds(seed uint64, length time.Duration) []byte {
	rng := rand.New(rand.NewPCG(seed, 160))
	b := make([]byte, int(length.Seconds()*8000))
	for i := range b {
		b[i] = byte(rng.IntN(0x70))
	}
	return b
}

func newMediaBot(t *testing.T) *mediaBot {
	t.Helper()
	b := &mediaBot{
		greeting: sounds(1, time.Second), reply: sounds(2, 5*time.Second), goodbye: sounds(3, 740*time.Millisecond), calls: map[string]*mediaCall{},
	}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("no WebSocket: %v", err)
			return
		}
		defer conn.CloseNow()
		c := &mediaCall{bot: b, conn: conn, marks: map[string]time.Time{}}
		for {
			_, text, err := conn.Read(context.Background())
			if err != nil {
				c.mu.Lock()
				c.closed = websocket.CloseStatus(err)
				c.mu.Unlock()
				return
			}
			c.message(t, text)
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// of is the call of a caller.
func (b *mediaBot) of(t *testing.T, number string) *mediaCall {
	t.Helper()
	var c *mediaCall
	eventually(t, patience, "the bot has the call", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		c = b.calls[number]
		return c != nil
	})
	return c
}

func (c *mediaCall) send(message map[string]any) {
	message["streamSid"] = c.stream
	text, _ := json.Marshal(message)
	_ = c.conn.Write(context.Background(), websocket.MessageText, text)
}

// say sends sound in messages of 100 ms, all at once, and a mark.
func (c *mediaCall) say(sound []byte, mark string) {
	for rest := sound; len(rest) > 0; {
		n := min(800, len(rest))
		c.send(map[string]any{"event": "media", "media": map[string]string{"payload": base64.StdEncoding.EncodeToString(rest[:n])}})
		rest = rest[n:]
	}
	c.send(map[string]any{"event": "mark", "mark": map[string]string{"name": mark}})
}

func (c *mediaCall) message(t *testing.T, text []byte) {
	now := time.Now()
	var m struct {
		Event string
		Start struct {
			StreamSid        string
			CustomParameters map[string]string
		}
		Media struct{ Payload []byte }
		Mark  struct{ Name string }
		Dtmf  struct{ Digit string }
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Event != "media" {
		c.events = append(c.events, strings.TrimSpace(m.Event+" "+m.Mark.Name+m.Dtmf.Digit))
	}
	switch m.Event {
	case "start":
		c.stream = m.Start.StreamSid
		c.bot.mu.Lock()
		c.bot.calls[m.Start.CustomParameters["from"]] = c
		c.bot.mu.Unlock()
		c.say(c.bot.greeting, "greeting")
	case "mark":
		c.marks[m.Mark.Name] = now
		switch m.Mark.Name {
		case "greeting":
			c.state, c.loud = "listens", 0
		case "reply":
			c.say(c.bot.goodbye, "goodbye")
		case "goodbye":
			go func() { _ = c.conn.Close(websocket.StatusNormalClosure, "") }() // Read goes on meanwhile
		}
	case "media":
		c.heard = append(c.heard, m.Media.Payload...)
		c.listen(m.Media.Payload)
	}
}

// listen notes who speaks.
func (c *mediaCall) listen(sound []byte) {
	dec, _ := g711.PCMU().NewDecoder()
	pcm, _ := dec.Decode(nil, sound)
	if audio.Level(pcm) > -35 {
		c.loud, c.quiet = c.loud+1, 0
	} else {
		c.loud, c.quiet = 0, c.quiet+1
	}
	c.spoke = c.spoke || c.loud >= 3
	switch {
	case c.state == "listens" && c.spoke && c.quiet >= 20:
		c.state, c.spoke = "replies", false
		c.say(c.bot.reply, "reply")
	case c.state == "replies" && c.loud >= 3:
		c.state, c.cleared = "cleared", time.Now()
		c.send(map[string]any{"event": "clear"})
	}
}

// opener is the agent that the bot is for the gateway.
func (b *mediaBot) opener(t *testing.T) agent.Opener {
	t.Helper()
	cfg := stream.DefaultConfig()
	cfg.URL = "ws" + strings.TrimPrefix(b.URL, "http") + "/media"
	cfg.Parameters = map[string]string{"from": "{from}"}
	o, err := stream.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// mediaFigures is what the calls of TestMediaStreamsBot measure.
type mediaFigures struct {
	clear, mark figures
	mu          sync.Mutex
	judged      int // calls that the machine left alone
}

// TestMediaStreamsBot: a bot for Media Streams holds a conversation over SIP. It is
// interrupted by clear, its marks agree with the capture, and its sound, and the
// caller's, is what it was to the bit (BR-119, BR-134, BR-155).
func TestMediaStreamsBot(t *testing.T) {
	const calls, atOnce = 20, 5
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 9))
	g := startGateway(t, func(c *call.Config, _ *sip.Config) { c.MaxCalls = calls })
	bot := newMediaBot(t)
	g.serve("media", bot.opener(t))
	p, f := newProbe(t), &mediaFigures{}
	pauses := make([]time.Duration, calls)
	for i := range pauses {
		pauses[i] = time.Duration(100+random.IntN(2500)) * time.Millisecond
	}
	together(t, atOnce, calls, func(i int) string { return fmt.Sprint("after ", pauses[i]) }, func(t *testing.T, i int) {
		number := fmt.Sprintf("+141555507%02d", i)
		on := newPhone(t, phone.Config{Number: number})
		c := dial(t, on, g.uri("media"))
		m := bot.of(t, number)
		m.await(t, "greeting")
		wait(t, "saying hello", patience, c.Say(human(t, "hello")).Wait)
		eventually(t, patience, "the reply", func() bool { return len(spoken(c)) > len(bot.greeting) })
		wait(t, "the call goes on", patience, func(ctx context.Context) error { return c.Pause(ctx, pauses[i]) })
		c.Say(human(t, interruptions[i%len(interruptions)]))
		m.await(t, "goodbye")
		select {
		case <-c.Done():
		case <-time.After(patience):
			t.Fatal("the bot closed, and the call goes on")
		}
		f.judge(t, p, on, c, m)
		record, events := g.ended(t, c)
		if record.Cause != call.CauseAgentHungUp || len(of(events, agent.EventError)) > 0 {
			t.Errorf("ended by %q %s; complaints %+v", record.Cause, record.Error, of(events, agent.EventError))
		}
		if b, s := of(events, agent.EventBargeIn), of(events, agent.EventAgentStopped); len(b) != 1 || len(s) != 3 || !s[1].Interrupted || s[0].Interrupted || s[2].Interrupted {
			t.Errorf("barge-ins %+v, stopped %+v", b, s)
		}
	})
	const msec = time.Millisecond
	f.clear.hold(t, "clear: message sent to last packet of speech", bar{25 * msec, 40 * msec, 0.95, 25 * msec})
	f.mark.hold(t, "mark: last packet before it to its message", bar{25 * msec, 40 * msec, 0.95, 25 * msec})
	if f.judged < calls/2 && !raced {
		t.Errorf("of %d calls only %d came and were heard without gaps", calls, f.judged)
	}
}

// await waits until the bot has got a mark.
func (c *mediaCall) await(t *testing.T, mark string) {
	t.Helper()
	eventually(t, patience, "mark "+mark, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.marks[mark].IsZero()
	})
}

// spoken is the speech that a phone has heard, without the silence between.
func spoken(c *phone.Call) (out []byte) {
	for _, p := range speech(c) {
		out = append(out, p.Payload...)
	}
	return out
}

// speech is its packets.
func speech(c *phone.Call) (out []phone.Packet) {
	for _, p := range c.Log().Packets() {
		if p.Direction == phone.Heard && p.Audio && bytes.Count(p.Payload, []byte{g711.IdlePCMU}) != len(p.Payload) {
			out = append(out, p)
		}
	}
	return out
}

// judge holds what the bot believes against the phone's capture.
func (f *mediaFigures) judge(t *testing.T, p *probe, on *phone.Phone, c *phone.Call, m *mediaCall) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	packets, all := speech(c), spoken(c)
	greeting, goodbye := len(m.bot.greeting), len(m.bot.goodbye)
	cut := len(all) - greeting - goodbye
	if cut <= 0 || !bytes.Equal(all[:greeting], m.bot.greeting) || !bytes.Equal(all[greeting:greeting+cut], m.bot.reply[:min(cut, len(m.bot.reply))]) ||
		!bytes.Equal(all[greeting+cut:], m.bot.goodbye) {
		f.gaps(t, p, on, packets, "%d bytes of speech, of which %d of the reply", len(all), cut)
		return
	}
	last := func(bytes int) time.Time { return on.Wall(packets[bytes/160-1].At) }
	end := last(greeting + cut)
	f.clear.add(max(0, end.Sub(m.cleared)), p.taken(m.cleared, end.Add(packet)))
	for mark, at := range map[string]time.Time{"greeting": last(greeting), "goodbye": last(len(all) / 160 * 160)} {
		came := m.marks[mark].Sub(at)
		if came < -5*time.Millisecond {
			t.Errorf("mark %s came %v before its sound was sent", mark, -came)
		}
		f.mark.add(max(0, came), p.taken(at, at.Add(came+packet)))
	}
	if back := m.marks["reply"].Sub(m.cleared); back > 40*time.Millisecond+p.taken(m.cleared, m.marks["reply"]) {
		t.Errorf("the mark of the reply came %v after the clear", back)
	}
	// The caller's sound, to the bit.
	var sent []byte
	for _, q := range c.Log().Packets() {
		if q.Direction == phone.Sent && q.Audio {
			sent = append(sent, q.Payload...)
		}
	}
	for at := 0; at+len(m.heard) <= len(sent); at += 160 {
		if bytes.Equal(sent[at:at+len(m.heard)], m.heard) && len(m.heard) > 8000 {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.judged++
			return
		}
	}
	f.gaps(t, p, on, packets, "the bot heard %d bytes, which are not those that the phone sent", len(m.heard))
}

// gaps are a mistake unless the machine stood still: then speech that is too late is
// dropped, and what the caller says comes too late.
func (f *mediaFigures) gaps(t *testing.T, p *probe, on *phone.Phone, packets []phone.Packet, format string, a ...any) {
	t.Helper()
	taken := time.Duration(0)
	if n := len(packets); n > 0 {
		taken = p.taken(on.Wall(packets[0].At).Add(-time.Second), on.Wall(packets[n-1].At))
	}
	if taken < 30*time.Millisecond && !raced {
		t.Errorf(format, a...)
		return
	}
	t.Logf("the machine took %v: "+format, append([]any{taken}, a...)...)
}

// TestMediaStreamsBotOnAnotherCodec: keys, the end of the call and A-law, which is
// converted both ways.
func TestMediaStreamsBotOnAnotherCodec(t *testing.T) {
	g := startGateway(t, nil)
	bot := newMediaBot(t)
	g.serve("media", bot.opener(t))
	on := newPhone(t, phone.Config{Number: "+14155550799", Codecs: []string{"PCMA"}})
	c := dial(t, on, g.uri("media"))
	m := bot.of(t, "+14155550799")
	m.await(t, "greeting")
	u, err := c.Press('7', 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the key is sent", patience, u.Wait)
	wait(t, "saying hello", patience, c.Say(human(t, "hello")).Wait)
	eventually(t, patience, "the bot heard it", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.state == "replies"
	})
	hangUp(t, c)
	eventually(t, patience, "the bot is told of the end", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.closed == websocket.StatusNormalClosure
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if got := strings.Join(m.events, ", "); got != "connected, start, mark greeting, dtmf 7, stop" {
		t.Errorf("the bot saw %s", got)
	}
	enc, _ := g711.PCMA().NewEncoder()
	dec, _ := g711.PCMU().NewDecoder()
	pcm, _ := dec.Decode(nil, bot.greeting)
	want, _ := enc.Encode(nil, pcm)
	if got := spokenALaw(c); !bytes.Contains(got, want[:160]) || !bytes.Contains(got, want[len(want)-160:]) {
		t.Errorf("%d bytes of A-law heard, and not those of the greeting", len(got))
	}
}

func spokenALaw(c *phone.Call) (out []byte) {
	for _, p := range c.Log().Packets() {
		if p.Direction == phone.Heard && p.Audio {
			out = append(out, p.Payload...)
		}
	}
	return out
}

// TestNoBotNoCall: a caller whose bot is not there is told so, in time.
func TestNoBotNoCall(t *testing.T) {
	g := startGateway(t, nil)
	bot := newMediaBot(t)
	o := bot.opener(t)
	bot.Close()
	g.serve("media", o)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := newPhone(t, phone.Config{}).Dial(ctx, g.uri("media"))
	if s, ok := err.(*phone.StatusError); !ok || s.Code != 503 || s.Response.Get("Retry-After") == "" {
		t.Errorf("%v, want 503 with Retry-After", err)
	}
}

// TestABotThatDoesNothing: a bot that neither reads nor speaks, and whose marks nobody
// waits for, holds no call longer than calls may last (BR-141).
func TestABotThatDoesNothing(t *testing.T) {
	g := startGateway(t, func(c *call.Config, _ *sip.Config) { c.MaxDuration = 1500 * time.Millisecond })
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		<-over
		_ = conn.CloseNow()
	}))
	defer server.Close()
	defer close(over)
	cfg := stream.DefaultConfig()
	cfg.URL, cfg.Dialect = "ws"+strings.TrimPrefix(server.URL, "http"), stream.PCM
	o, err := stream.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g.serve("idle", o)
	c := dial(t, newPhone(t, phone.Config{}), g.uri("idle"))
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("the call goes on")
	}
	if end := c.End(); !end.ByPeer || !strings.Contains(end.Reason, "Q.850;cause=102") || !strings.Contains(end.Reason, call.CauseMaxDuration) {
		t.Errorf("ended by %+v", end)
	}
	began := time.Now()
	if record, _ := g.ended(t, c); record.Cause != call.CauseMaxDuration || time.Since(began) > 2*time.Second {
		t.Errorf("ended by %q, on record %v later", record.Cause, time.Since(began))
	}
}
