package call

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/rtp/rtptest"
)

// What a caller's stream may do in the middle of a call, and what the agent then
// hears: nothing twice, nothing late, no long silence.

// rung is a mediaCall of a listener that counts loud frames by time.
func rung(t *testing.T, codec media.Codec) (*mediaCall, *timed) {
	t.Helper()
	l := &timed{began: time.Now()}
	m := joinAs(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{}, []media.Codec{codec}, 20*time.Millisecond, l)
	time.Sleep(53 * time.Millisecond) // between two ticks
	return m, l
}

// loudFrames is how many frames with sound in them the agent heard so far.
func (l *timed) loudFrames(size int) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; i+size <= len(l.pcm); i += size {
		if peak(l.pcm[i:i+size]) > 1000 {
			n++
		}
	}
	return n
}

func TestAStreamThatBecomesAnotherIsHeardOn(t *testing.T) {
	codec := g711.PCMU()
	loud := constantPayload(t, 8000)
	for _, tt := range []struct {
		name   string
		change func(*rtptest.Peer)
		marker bool
	}{
		{"a new SSRC with numbers of its own", func(p *rtptest.Peer) { p.SSRC, p.Sequence, p.Timestamp = 77, 12676, 5000 }, false}, // BR-087
		{"the same SSRC, numbers begun anew", func(p *rtptest.Peer) { p.Sequence, p.Timestamp = 12676, 5000 }, false},              // BR-087
		{"a timestamp a minute ahead", func(p *rtptest.Peer) { p.Timestamp += 480000 }, false},                                     // BR-093
		{"a timestamp a minute ahead, marked", func(p *rtptest.Peer) { p.Timestamp += 480000 }, true},                              // BR-093
		{"a timestamp back by 20 s", func(p *rtptest.Peer) { p.Timestamp -= 160000 }, false},                                       // BR-093
		{"a timestamp back by 20 s, marked", func(p *rtptest.Peer) { p.Timestamp -= 160000 }, true},                                // BR-093
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, l := rung(t, codec)
				m.peer.Sequence = 21000
				send := func(n int, mark bool) {
					for i := range n {
						m.peer.Send(mark && i == 0, loud)
						time.Sleep(20 * time.Millisecond)
					}
				}
				send(500, false)
				tt.change(m.peer)
				send(100, tt.marker)
				if got := l.loudFrames(160); got < 595 || got > 600 {
					t.Errorf("%d of 600 frames were heard", got)
				}
				// No delay is left of it: what is sent now is heard at once.
				l.mu.Lock()
				frames := len(l.at)
				gap := time.Duration(0)
				for i := 1; i < frames; i++ {
					gap = max(gap, l.at[i]-l.at[i-1])
				}
				l.mu.Unlock()
				if gap > 100*time.Millisecond {
					t.Errorf("nothing was heard for %v", gap)
				}
				if frames > 606 {
					t.Errorf("%d frames for 600 packets", frames)
				}
				m.peer.Send(false, loud)
				time.Sleep(7 * time.Millisecond)
				l.mu.Lock()
				if len(l.at) != frames+1 {
					t.Errorf("a packet was held back after the change")
				}
				l.mu.Unlock()
				m.leave(t)
			})
		})
	}
}

// A gateway that only listens goes on hearing: reading needs no writing.
func TestAnAgentThatOnlyListensHearsOn(t *testing.T) { // BR-109
	synctest.Test(t, func(t *testing.T) {
		m, l := rung(t, g711.PCMU())
		flow := m.nego.now.flow
		flow.Send, flow.Rearm = false, false
		m.rtp.SetFlow(flow)
		time.Sleep(50 * time.Millisecond)
		before := len(m.peer.Seen())
		loud := constantPayload(t, 8000)
		for range 120 * 50 {
			m.peer.Send(false, loud)
			time.Sleep(20 * time.Millisecond)
		}
		if got := l.loudFrames(160); got != 6000 {
			t.Errorf("%d of 6000 frames were heard in 120 s", got)
		}
		if got := len(m.peer.Seen()) - before; got != 0 {
			t.Errorf("%d packets were sent", got)
		}
		m.leave(t)
	})
}

// One of ten packets of a tone in A-law is lost: what stands in their place has no
// offset and no click.
func TestWhatStandsForLostALawIsNoClick(t *testing.T) { // BR-099
	synctest.Test(t, func(t *testing.T) {
		codec := g711.PCMA()
		m, l := rung(t, codec)
		for i, b := range coded(t, codec, 20*time.Millisecond, sine(1000, 16000, 4*time.Second)) {
			if i%10 == 9 {
				m.peer.Sequence++
				m.peer.Timestamp += 160
			} else {
				m.peer.Send(false, b)
			}
			time.Sleep(20 * time.Millisecond)
		}
		m.leave(t)
		pcm := l.pcm[1600:]
		sum, step, whole := 0.0, 0.0, float64(peak(pcm))
		for i, s := range pcm[:28000] {
			sum += float64(s)
			if i > 0 {
				step = max(step, math.Abs(float64(s)-float64(pcm[i-1])))
			}
		}
		if mean := sum / 28000; math.Abs(mean) > 0.01*whole {
			t.Errorf("an offset of %.0f under a peak of %.0f", mean, whole)
		}
		if most := 1.2 * whole * 2 * math.Sin(math.Pi*1000/8000); step > most {
			t.Errorf("a step of %.0f, the tone has %.0f at the most", step, most)
		}
		if m.ear.counts.concealed < 380*time.Millisecond {
			t.Errorf("%v were concealed of 400 ms", m.ear.counts.concealed)
		}
	})
}

// counted counts what an encoder encodes.
type counted struct {
	media.Encoder
	n *int
}

func (c counted) Encode(dst []byte, pcm []int16) ([]byte, error) {
	*c.n++
	return c.Encoder.Encode(dst, pcm)
}

// TestSilenceIsNotEncoded: an agent that says nothing costs no encoding (bar P13),
// and what is sent meanwhile is there every 20 ms and decodes to silence.
func TestSilenceIsNotEncoded(t *testing.T) {
	for _, codec := range []media.Codec{opusCodec(t), g722.G722(), g711.PCMU()} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			wrap := func(c media.Codec) media.Codec {
				plain := c.NewEncoder
				c.NewEncoder = func() (media.Encoder, error) {
					e, err := plain()
					if _, idles := e.(media.Idler); idles {
						return e, err // counted by its own test: it has no silence to encode
					}
					return counted{e, &n}, err
				}
				return c
			}
			spied := wrap(codec)
			if codec.For != nil {
				spied.For = func(params string) media.Codec { return wrap(codec.For(params)) }
			}
			m := joinAs(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{SayRate: 16000}, []media.Codec{spied}, 20*time.Millisecond, quietSession{})
			time.Sleep(100 * time.Millisecond)
			before := n
			time.Sleep(time.Minute)
			if n != before {
				t.Errorf("%s: %d packets of silence were encoded in a minute", codec.Name, n-before)
			}
			seen := len(m.peer.Seen())
			if seen < 2995 || seen > 3010 {
				t.Errorf("%s: %d packets were sent in a minute of silence", codec.Name, seen)
			}
			if err := m.mouth.Say(t.Context(), sine(500, 16000, time.Second)); err != nil {
				t.Fatal(err)
			}
			m.mouth.Flush()
			if _, idles := m.line.enc.(media.Idler); !idles && (n-before < 50 || n-before > 52) {
				t.Errorf("%s: %d packets were encoded for a second of speech", codec.Name, n-before)
			}
			time.Sleep(2 * time.Second)
			m.leave(t)
			sound := played(t, m.peer.Seen()[:seen], codec)
			if p := peak(sound); p > 100 {
				t.Errorf("%s: silence has a peak of %d", codec.Name, p)
			}
		})
	}
}

// TestOpusOfEveryKindIsHeard: packets of all lengths, silence suppressed, empty and
// broken ones reach the agent as what they are, and the ear goes on.
func TestOpusOfEveryKindIsHeard(t *testing.T) { // BR-106
	synctest.Test(t, func(t *testing.T) {
		codec := opusCodec(t)
		m, l := rung(t, codec)
		sent := time.Duration(0)
		for _, length := range []time.Duration{10, 20, 40, 60} {
			length *= time.Millisecond
			m.peer.Step = uint32(media.Samples(length, codec.ClockRate))
			for _, b := range coded(t, codec, length, sine(400, 16000, 600*time.Millisecond)) {
				m.peer.Send(false, b)
				time.Sleep(length)
				sent += length
			}
		}
		// Three frames of 20 ms in one packet (code 3), then one of 120 ms.
		m.peer.Step = 2880
		one := coded(t, codec, 20*time.Millisecond, sine(400, 16000, 20*time.Millisecond))[0]
		for _, k := range []int{3, 6} {
			b := slices.Concat([]byte{one[0] | 3, byte(k)}, bytes.Repeat(one[1:], k))
			m.peer.Step = uint32(960 * k)
			m.peer.Send(false, b)
			time.Sleep(time.Duration(k) * 20 * time.Millisecond)
			sent += time.Duration(k) * 20 * time.Millisecond
		}
		m.peer.Step = 960
		for _, b := range [][]byte{{one[0]}, {}, {0xff}, {0xff, 0xff, 0xff}, bytes.Repeat([]byte{0x5a}, 1275)} {
			m.peer.Send(false, b)
			time.Sleep(20 * time.Millisecond)
			sent += 20 * time.Millisecond
		}
		before := l.loudFrames(320)
		for _, b := range coded(t, codec, 20*time.Millisecond, sine(400, 16000, time.Second)) {
			m.peer.Send(false, b)
			time.Sleep(20 * time.Millisecond)
			sent += 20 * time.Millisecond
		}
		if got := l.loudFrames(320) - before; got < 49 {
			t.Errorf("after all of it %d of 50 frames are heard", got)
		}
		heard := media.Duration(len(l.pcm), 16000)
		if d := heard - sent; d < -200*time.Millisecond || d > 200*time.Millisecond {
			t.Errorf("%v were heard of %v", heard, sent)
		}
		m.leave(t)
	})
}
