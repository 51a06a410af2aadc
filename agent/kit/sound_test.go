package kit

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/agent/live"
	"parley/agent/live/livetest"
	"parley/media/g711"
)

// anything is n bytes, each of which is a sample of G.711.
func anything(n int) []byte {
	random := rand.New(rand.NewPCG(uint64(n), 5))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.IntN(256))
	}
	return b
}

// sentAudio is all payloads that the newest connection was given.
func (p *phone) sentAudio() []byte {
	var all []byte
	for _, s := range p.script.Last().All(livetest.SentAudio) {
		if s.Payload == nil {
			p.Error("PCM was sent")
		}
		all = append(all, s.Payload...)
	}
	return all
}

// wireBytes is all that was said in payloads, as the network gets it.
func (p *phone) wireBytes() []byte {
	var all []byte
	for _, s := range p.wire() {
		all = append(all, bytes.Repeat([]byte{byte(s.value)}, s.samples)...)
	}
	return all
}

// What comes of the caller goes to the model, and what comes of the model to the
// caller, byte for byte, whatever the sizes of payloads and messages.
func TestPayloadsPassThrough(t *testing.T) {
	ringWith(t, true, func(p *phone) { p.line.deaf = true }, func(p *phone) {
		if w := p.script.Last().Config().Wire; w != live.PCMU || p.line.wish != "PCMU" {
			p.Fatalf("wire %q, payloads of %q", w, p.line.wish)
		}
		up := anything(40 * 160)
		for rest, n := up, 1; len(rest) > 0; n = n*7%501 + 1 {
			n := min(n, len(rest))
			p.line.payload(rest[:n])
			rest = rest[n:]
			synctest.Wait()
		}
		if got := p.sentAudio(); !bytes.Equal(got, up) {
			p.Errorf("%d bytes reached the model, %d were heard, or not the same", len(got), len(up))
		}
		down := anything(16000)
		for rest, n := down, 1; len(rest) > 0; n = n*11%2003 + 1 {
			n := min(n, len(rest))
			p.tell(live.Message{ItemID: "i", Audio: slices.Clone(rest[:n]), Agent: live.Transcript{Delta: "x"}})
			rest = rest[n:]
		}
		p.tell(live.Message{TurnDone: true})
		p.quiet(1)
		if got := p.wireBytes(); !bytes.Equal(got, down) || p.line.decoded > 0 {
			p.Errorf("%d bytes on the wire, %d were said, or not the same; %d decoded", len(got), len(down), p.line.decoded)
		}
		if e := p.all(agent.EventAgentStopped); len(e) != 1 || e[0].Position != 2*time.Second {
			p.Errorf("%+v, want an end at 2s", e)
		}
	})
}

// The millisecond at which a reply was cut is that of the bytes that were sent.
func TestPayloadsAreCutExactly(t *testing.T) {
	ringWith(t, true, nil, func(p *phone) {
		p.tell(live.Message{ItemID: "i", Audio: anything(80000), Agent: live.Transcript{Delta: "Something long"}})
		p.until("it speaks", func() bool { return len(p.all(agent.EventAgentStarted)) > 0 })
		time.Sleep(1234 * ms)
		p.speaks("Stop.", time.Second)
		n := len(p.wireBytes())
		played := time.Duration(n) * time.Second / 8000
		p.wantSent("truncate i " + played.String())
		if got := p.wireBytes(); !bytes.Equal(got, anything(80000)[:n]) || n%160 != 0 {
			p.Errorf("%d bytes on the wire, and not those that were said", n)
		}
	})
}

// A call that gets another codec goes on: what is heard then is coded, what is said is
// decoded; and with the codec of the beginning it passes through again.
func TestCodecChanges(t *testing.T) {
	ringWith(t, true, func(p *phone) { p.cfg.Voice = p.ownVoice() }, func(p *phone) {
		law := g711.PCMU()
		enc, _ := law.NewEncoder()
		dec, _ := law.NewDecoder()
		p.line.set(func() { p.line.voice = 1000 })
		time.Sleep(100 * ms)
		p.line.set(func() { p.line.codec = "opus" })
		before := len(p.sentAudio())
		time.Sleep(100 * ms)
		want, _ := enc.Encode(nil, []int16{1000})
		if got := p.sentAudio()[before:]; len(got) < 4*160 || !bytes.Equal(got, bytes.Repeat(want, len(got))) {
			p.Errorf("of another codec the model got %d bytes: %x", len(got), got[:min(len(got), 8)])
		}
		down := anything(4000)
		p.tell(live.Message{ItemID: "i", Audio: down, Agent: live.Transcript{Delta: "x"}, TurnDone: true})
		p.quiet(1)
		pcm, _ := dec.Decode(nil, down)
		var got []int16
		for _, s := range p.wire() {
			got = append(got, slices.Repeat([]int16{s.value}, s.samples)...)
		}
		if !slices.Equal(got, pcm) || p.line.coded != 0 {
			p.Errorf("%d samples on the wire, want %d, the same; %d coded", len(got), len(pcm), p.line.coded)
		}
		p.line.set(func() { p.line.codec = "PCMU" })
		p.tell(live.Message{ItemID: "j", Audio: anything(1600), Agent: live.Transcript{Delta: "y"}, TurnDone: true})
		p.quiet(2)
		if p.line.coded != 1600 {
			p.Errorf("%d bytes passed through after the codec came back", p.line.coded)
		}
		// The gateway's own words are PCM, between.
		if err := p.session.(agent.Announcer).Announce(p.Context(), "Own words."); err != nil {
			p.Error(err)
		}
		if p.line.decoded != 4000+2*p.wordSound() || !strings.HasSuffix(p.heard(), "Own words.") {
			p.Errorf("%d samples of PCM, heard %q", p.line.decoded, p.heard())
		}
		for _, e := range p.all(agent.EventError) {
			p.Errorf("error: %s", e.Reason)
		}
	})
}

// While the caller is muted the model gets silence of the encoding, in the same length.
func TestMutedPayloads(t *testing.T) {
	for wire, silence := range map[live.Encoding]byte{live.PCMU: 0xff, live.PCMA: 0xd5, live.PCM16: 0} {
		u, script := uplinkOf(t, wire, false)
		u.muted.Store(true)
		u.take(anything(640))
		u.drain()
		var got []byte
		for _, s := range script.Last().All(livetest.SentAudio) {
			got = append(got, append(s.Payload, s16le(s.PCM)...)...)
		}
		if !bytes.Equal(got, bytes.Repeat([]byte{silence}, 640)) {
			t.Errorf("%s: %x", wire, got)
		}
	}
}

// uplinkOf is an uplink that nobody runs, with a session that was started.
func uplinkOf(t *testing.T, wire live.Encoding, gated bool) (*uplink, *livetest.Script) {
	t.Helper()
	script := livetest.NewScript()
	a := NewAgentSession(script.Provider(), Callbacks{}, nil, LifecycleHooks{}, nil)
	if err := a.Start(t.Context(), LiveConfig{Wire: wire}, IdleConfig{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Stop)
	format := pcmSound()
	if wire != live.PCM16 {
		var err error
		if format, err = g711Sound(wire); err != nil {
			t.Fatal(err)
		}
	}
	return newUplink(a, gated, format, func(err error) { t.Error(err) }), script
}

// What is kept of before a turn is bounded in time, whatever the sizes of payloads.
func TestPrerollOfPayloads(t *testing.T) {
	u, script := uplinkOf(t, live.PCMA, true)
	all := anything(2 * 8000)
	for rest := all; len(rest) > 0; rest = rest[80:] {
		u.take(rest[:80])
		u.drain()
	}
	u.put(job{do: func() error { return nil }, turn: 1})
	u.work(t.Context())
	var got []byte
	for _, s := range script.Last().All(livetest.SentAudio) {
		got = append(got, s.Payload...)
	}
	if want := all[len(all)-preroll*160:]; !bytes.Equal(got, want) {
		t.Errorf("%d bytes of before the turn, want the last %d", len(got), len(want))
	}
}

// What the caller says while the connection is made anew is kept, the newest so much.
func TestPayloadsAreKept(t *testing.T) {
	ringWith(t, true, func(p *phone) {
		p.line.deaf = true
		p.cfg.Session.Recovery.Keep = time.Second
	}, func(p *phone) {
		p.script.ConnectDelay = 3 * time.Second
		p.script.Last().Drop()
		synctest.Wait()
		all := anything(2 * 8000)
		for rest := all; len(rest) > 0; rest = rest[160:] {
			p.line.payload(rest[:160])
			time.Sleep(20 * ms)
		}
		p.until("a new connection", func() bool { return len(p.script.Conns()) == 2 })
		time.Sleep(100 * ms)
		if got := p.sentAudio(); !bytes.Equal(got, all[8000:]) {
			p.Errorf("%d bytes were kept, want the last 8000", len(got))
		}
		p.answers.Store(true)
	})
}

// one is a provider that takes one encoding.
type one struct {
	live.LiveProvider
	takes live.Encoding
}

func (o one) Supports(e live.Encoding) bool { return e == o.takes }

// Which encoding goes to the model is the call's and the provider's to say.
func TestWireOfCalls(t *testing.T) {
	for name, c := range map[string]struct {
		codec string
		off   bool
		takes live.Encoding
		wire  live.Encoding
		asks  bool
	}{
		"mu-law":             {"PCMU", false, live.PCMU, live.PCMU, true},
		"A-law":              {"pcma", false, live.PCMA, live.PCMA, true},
		"the other law":      {"PCMA", false, live.PCMU, live.PCMU, true},
		"another codec":      {"opus", false, live.PCMU, live.PCM16, true},
		"a host without any": {"", false, live.PCMU, live.PCM16, true},
		"a provider of PCM":  {"PCMU", false, "", live.PCM16, false},
		"switched off":       {"PCMU", true, live.PCMU, live.PCM16, false},
	} {
		t.Run(name, func(t *testing.T) {
			script := livetest.NewScript()
			cfg := DefaultConfig()
			cfg.PassThrough = !c.off
			cfg.Provider = func() live.LiveProvider { return one{script.Provider(), c.takes} }
			opener, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if f := opener.Format(); f.Payloads != c.asks {
				t.Errorf("format %+v", f)
			}
			ctx, cancel := context.WithCancel(t.Context())
			s, err := opener.Open(ctx, agent.Call{SessionID: "s", Codec: c.codec, Speaker: newLine(), Control: &hands{}, Emit: func(agent.Event) {}})
			if err != nil {
				t.Fatal(err)
			}
			if w := script.Last().Config().Wire; w != c.wire {
				t.Errorf("wire %q, want %q", w, c.wire)
			}
			cancel()
			if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	cfg, made := DefaultConfig(), 0
	cfg.Provider = func() live.LiveProvider {
		if made++; made == 1 {
			return livetest.NewScript().Provider()
		}
		return livetest.NewScript().Bare()
	}
	opener, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opener.Open(t.Context(), agent.Call{Codec: "PCMU"}); err == nil || !strings.Contains(err.Error(), "G.711") {
		t.Errorf("a provider that changed its mind: %v", err)
	}
}

// Hearing allocates nothing, in any encoding, also when nobody sends.
func TestAllocsHear(t *testing.T) {
	for _, wire := range []live.Encoding{live.PCM16, live.PCMU, live.PCMA} {
		u, _ := uplinkOf(t, wire, false)
		s := &conversation{up: u}
		pcm, payload := make([]int16, int(u.sound.hears)/50), make([]byte, 160)
		if n := testing.AllocsPerRun(200, func() { s.Hear(pcm) }); n != 0 {
			t.Errorf("%s: %v allocations for a frame", wire, n)
		}
		if n := testing.AllocsPerRun(200, func() { s.hearPayload(payload) }); n != 0 {
			t.Errorf("%s: %v allocations for a payload", wire, n)
		}
	}
}
