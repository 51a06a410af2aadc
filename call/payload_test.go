package call

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/rtp"
	"parley/rtp/rtptest"
)

// noise is n bytes of any value: as mu-law they are a sound that no decoding and coding
// again leaves as it is.
func noise(n int) []byte {
	rng := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.IntN(256))
	}
	return b
}

// wire is what m sends until it has nothing more to say.
func wire(m *Mouth, l *line) (out []byte) {
	for {
		payload := m.next(l, 0)
		if silent(l, payload) {
			return out
		}
		out = append(out, payload...)
	}
}

func TestMouthSendsPayloadsAsTheyAre(t *testing.T) {
	for _, packetTime := range []time.Duration{20 * time.Millisecond, 60 * time.Millisecond} {
		m, notices := mouthAt(t, 8000)
		l := testLine(t, g711.PCMU(), packetTime)
		m.line.Store(l)
		want := noise(2345)
		rng := rand.New(rand.NewPCG(1, 2))
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(500))
			if err := m.SayPayload(t.Context(), "pcmu", rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if got := wire(m, l); !bytes.Equal(got, want[:len(got)]) || len(got) != len(want)/l.samples*l.samples {
			t.Fatalf("%v: %d bytes on the wire before the end was told, %d said, and not the same", packetTime, len(got), len(want))
		}
		if got, want := m.Played(), media.Duration(len(want)/l.samples*l.samples, 8000); got != want {
			t.Errorf("%v: played %v, want %v", packetTime, got, want)
		}
		m.Flush()
		got, rest := wire(m, l), want[len(want)/l.samples*l.samples:]
		if !bytes.HasPrefix(got, rest) || len(got) != l.samples || !bytes.Equal(got[len(rest):], l.idle[len(rest):]) {
			t.Errorf("%v: the last packet is %x", packetTime, got)
		}
		if got, want := m.Played(), media.Duration(len(want), 8000); got != want {
			t.Errorf("%v: played %v in the end, want %v", packetTime, got, want)
		}
		if last := (*notices)[len(*notices)-1]; last.Kind != agent.SpeechEnded || last.Position != m.Played() {
			t.Errorf("%v: last notice %+v", packetTime, last)
		}
	}
}

func TestMouthTakesPayloadsOfTheCallsOwnCodecOnly(t *testing.T) {
	other := func(codec media.Codec, rate int) *Mouth {
		m, _ := mouthAt(t, rate)
		m.line.Store(testLine(t, codec, 20*time.Millisecond))
		return m
	}
	for _, c := range []struct {
		name, encoding string
		m              *Mouth
		want           error
	}{
		{"the same", "PCMU", other(g711.PCMU(), 8000), nil},
		{"the other law", "PCMU", other(g711.PCMA(), 8000), agent.ErrEncoding},
		{"that law", "PCMA", other(g711.PCMA(), 8000), nil},
		{"a timeline at another rate", "PCMU", other(g711.PCMU(), 16000), agent.ErrEncoding},
		{"a codec that remembers", "G722", other(g722.G722(), 16000), agent.ErrEncoding},
		{"nonsense", "", other(g711.PCMU(), 8000), agent.ErrEncoding},
	} {
		if err := c.m.SayPayload(t.Context(), c.encoding, noise(160)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got, want := c.m.ring.length(), 1; c.want == nil && got != want || c.want != nil && got != 0 {
			t.Errorf("%s: %d packets queued", c.name, got)
		}
	}
}

func TestMouthPayloadsAndSamplesTakeTurns(t *testing.T) {
	m, _ := mouthAt(t, 8000)
	l, b := m.line.Load(), noise(240)
	say := func(pcm int, payload []byte) {
		t.Helper()
		if err := errors.Join(m.Say(t.Context(), constant(pcm, 5000)), m.SayPayload(t.Context(), "PCMU", payload)); err != nil {
			t.Fatal(err)
		}
	}
	say(100, b) // a packet of 100 and silence, one of 160, and 80 left
	say(160, nil)
	m.Flush()
	got := wire(m, l)
	if len(got) != 4*160 || got[0] != got[99] || !bytes.Equal(got[160:400], b) || !bytes.Equal(got[400:480], l.idle[80:]) || got[480] != got[0] {
		t.Errorf("%d bytes: %x", len(got), got)
	}
	if got, want := m.Played(), media.Duration(500, 8000); got != want {
		t.Errorf("played %v, want %v: padding is no speech", got, want)
	}
	// A stop drops what no packet was made of.
	say(0, b)
	m.Stop()
	say(0, b[:160])
	if got := wire(m, l); !bytes.Equal(got, b[:160]) {
		t.Errorf("after a stop: %x", got)
	}
	// Shorter packets after a re-INVITE: what was begun is ended as it was.
	m.line.Store(testLine(t, g711.PCMU(), 60*time.Millisecond))
	say(0, b)
	short, err := newLine(g711.PCMU(), "", 20*time.Millisecond, m.line.Load())
	if err != nil {
		t.Fatal(err)
	}
	m.line.Store(short)
	say(0, b)
	m.Flush()
	got = got[:0]
	for range 5 {
		got = append(got, m.next(short, 0)...)
	}
	if !bytes.HasPrefix(got, b) || !bytes.Equal(got[480:720], b) {
		t.Errorf("after a change of packets: %x", got)
	}
}

func TestAllocsMouthPayload(t *testing.T) {
	m, _ := mouthAt(t, 8000)
	l, b, ctx := m.line.Load(), noise(160), t.Context()
	if n := testing.AllocsPerRun(500, func() {
		if err := m.SayPayload(ctx, "PCMU", b); err != nil {
			t.Fatal(err)
		}
		m.next(l, 0)
	}); n != 0 {
		t.Errorf("%v allocations a packet, want 0", n)
	}
}

// hearPayloads makes m's agent ask for mu-law as it comes, and gives what came so far.
func hearPayloads(m *mediaCall) func() []byte {
	var mu sync.Mutex
	var heard []byte
	m.ear.payloads("PCMU", func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, b...)
	})
	return func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return heard[:len(heard):len(heard)]
	}
}

func TestPayloadsAreHeardAsTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{HearRate: 8000, SayRate: 8000})
		heard := hearPayloads(m)
		time.Sleep(50 * time.Millisecond)
		all := noise(50 * 160)
		for i := range 50 {
			if i == 20 { // one is lost, and what stands for it is in its place
				m.peer.Sequence++
				m.peer.Timestamp += 160
			} else {
				m.peer.Send(false, all[i*160:][:160])
			}
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		got := heard()
		if len(got) != len(all) || !bytes.Equal(got[:20*160], all[:20*160]) || !bytes.Equal(got[21*160:], all[21*160:]) {
			t.Errorf("%d bytes heard of %d, and not the same", len(got), len(all))
		}
		// A pause of the line is silence, coded.
		time.Sleep(time.Second)
		if tail := heard()[len(all):]; len(tail) < 4000 || slices.ContainsFunc(tail, func(b byte) bool { return b != g711.IdlePCMU }) {
			t.Errorf("a second without packets is %d bytes of silence", len(tail))
		}
		if frames, _, _ := m.session.heard(); frames != 0 {
			t.Errorf("%d frames were heard decoded, too", frames)
		}
		m.leave(t)
	})
}

func TestAnotherCodecIsHeardDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{HearRate: 8000, SayRate: 8000})
		heard := hearPayloads(m)
		time.Sleep(50 * time.Millisecond)
		send := func() {
			for range 25 {
				m.peer.Send(false, constantPayload(t, 8000))
				time.Sleep(20 * time.Millisecond)
			}
		}
		send()
		m.pending.Store(m.offer(t, g711.PCMA(), 20*time.Millisecond))
		time.Sleep(20 * time.Millisecond)
		before := len(heard())
		send()
		frames, _, _ := m.session.heard()
		if before < 20*160 || len(heard()) != before || frames < 20 {
			t.Errorf("%d bytes before the change, %d after it, %d frames decoded", before, len(heard())-before, frames)
		}
		m.pending.Store(m.offer(t, g711.PCMU(), 20*time.Millisecond))
		time.Sleep(20 * time.Millisecond)
		send()
		if got := len(heard()) - before; got < 20*160 {
			t.Errorf("%d bytes after the change back", got)
		}
		m.leave(t)
	})
}

// An agent of payloads gets the codec's own rate where they are to be had, and its own
// elsewhere.
func TestFormatOfPayloads(t *testing.T) {
	for _, c := range []struct {
		codec media.Codec
		asks  bool
		hears int
		says  int
	}{
		{g711.PCMU(), true, 8000, 8000},
		{g711.PCMA(), true, 8000, 8000},
		{g711.PCMU(), false, 16000, 24000},
		{g722.G722(), true, 16000, 24000},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := agent.Format{HearRate: 16000, SayRate: 24000, Payloads: c.asks}
			m := joinAs(t, rtptest.New(1, rtptest.Conditions{}), f, []media.Codec{c.codec}, 20*time.Millisecond, quietSession{})
			if m.ear.hearRate != c.hears || m.mouth.sayRate != c.says {
				t.Errorf("%s, payloads %v: hears at %d, says at %d", c.codec.Name, c.asks, m.ear.hearRate, m.mouth.sayRate)
			}
			m.leave(t)
		})
	}
}

func TestAllocsPayloadHeard(t *testing.T) {
	m := join(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{HearRate: 8000, SayRate: 8000})
	defer m.leave(t)
	n := 0
	m.ear.payloads("PCMU", func(b []byte) { n += len(b) })
	m.Call.rtp.Close() // the test turns it itself
	side := (*turned)(m.Call)
	side.Turn(0)
	p, now := rtp.Packet{Payload: noise(160)}, time.Duration(0)
	if got := testing.AllocsPerRun(1000, func() {
		now += 20 * time.Millisecond
		p.Sequence++
		p.Timestamp += 160
		if p.Sequence%50 == 0 { // one is lost
			p.Sequence++
			p.Timestamp += 160
			now += 20 * time.Millisecond
		}
		p.Arrival = now
		side.Packet(&p)
		side.Turn(now)
		side.Slot(now, 0)
	}); got != 0 || n < 1000*160 {
		t.Errorf("%v allocations for a packet heard, want 0; %d bytes", got, n)
	}
}
