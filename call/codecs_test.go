package call

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/media/opus"
	"parley/media/resample"
	"parley/rtp"
	"parley/rtp/rtptest"
	"parley/test/audio"
)

// listener is an agent that keeps all it hears.
type listener struct {
	mu      sync.Mutex
	pcm     []int16
	notices []agent.Notice
}

func (l *listener) Run(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

func (l *listener) Hear(pcm []int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pcm = append(l.pcm, pcm...)
}

func (l *listener) Notice(n agent.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notices = append(l.notices, n)
}

func (l *listener) heard() []int16 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pcm)
}

func (l *listener) count(kind agent.NoticeKind) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.notices {
		if one.Kind == kind {
			n++
		}
	}
	return n
}

func opusCodec(t testing.TB) media.Codec {
	t.Helper()
	c, err := opus.Opus(opus.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// words is sound like speech at 16 kHz: a gliding pitch with its harmonics, in
// syllables.
func words(length time.Duration) []int16 {
	pcm := make([]int16, media.Samples(length, 16000))
	phase := 0.0
	for i := range pcm {
		at := float64(i) / 16000
		pitch := 130 + 25*math.Sin(2*math.Pi*0.31*at)
		phase += 2 * math.Pi * pitch / 16000
		v := 0.0
		for k := 1.0; k*pitch < 3000; k++ {
			v += math.Sin(k*phase+k*k) / (k * k)
		}
		pcm[i] = int16(8000 * v * (0.55 + 0.45*math.Sin(2*math.Pi*3*at)))
	}
	return pcm
}

// coded is pcm at 16 kHz in payloads of a codec.
func coded(t testing.TB, codec media.Codec, packetTime time.Duration, pcm []int16) [][]byte {
	t.Helper()
	if codec.For != nil {
		codec = codec.For(codec.Params)
	}
	enc, err := codec.NewEncoder()
	if err != nil {
		t.Fatal(err)
	}
	return codedBy(t, enc, codec, packetTime, pcm)
}

func codedBy(t testing.TB, enc media.Encoder, codec media.Codec, packetTime time.Duration, pcm []int16) [][]byte {
	t.Helper()
	pcm = convert(t, 16000, codec.SampleRate, pcm)
	var out [][]byte
	for n := media.Samples(packetTime, codec.SampleRate); len(pcm) >= n; pcm = pcm[n:] {
		b, err := enc.Encode(nil, pcm[:n])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// played is what the caller hears, at 16 kHz: each payload type by a decoder of its
// own, in the order of the packets.
func played(t *testing.T, seen []rtptest.Seen, codecs ...media.Codec) []int16 {
	t.Helper()
	decoders := map[uint8]media.Decoder{}
	var out []int16
	for _, s := range seen {
		i := slices.IndexFunc(codecs, func(c media.Codec) bool { return c.PayloadType == s.PayloadType })
		if i < 0 {
			t.Fatalf("a packet of type %d", s.PayloadType)
		}
		if decoders[s.PayloadType] == nil {
			d, err := codecs[i].NewDecoder()
			if err != nil {
				t.Fatal(err)
			}
			decoders[s.PayloadType] = d
		}
		pcm, err := decoders[s.PayloadType].Decode(nil, s.Payload)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, convert(t, codecs[i].SampleRate, 16000, pcm)...)
	}
	return out
}

// peak is the loudest sample.
func peak(pcm []int16) int {
	most := 0
	for _, s := range pcm {
		most = max(most, int(s), -int(s))
	}
	return most
}

func TestEveryCodecBothWays(t *testing.T) {
	const ms = time.Millisecond
	for i, tt := range []struct {
		name     string
		codec    media.Codec
		in, out  time.Duration // packet times of the caller's packets and of ours
		alike    float64
		hearRate int
	}{
		{"G.722", g722.G722(), 20 * ms, 20 * ms, 0.99, 16000},
		{"G.722 for an agent at 8 kHz", g722.G722(), 20 * ms, 20 * ms, 0.98, 8000},
		{"G.722, 10 ms", g722.G722(), 60 * ms, 10 * ms, 0.99, 16000},
		{"G.722, 30 ms", g722.G722(), 10 * ms, 30 * ms, 0.99, 16000},
		{"G.722, 60 ms", g722.G722(), 40 * ms, 60 * ms, 0.99, 24000},
		{"Opus", opusCodec(t), 20 * ms, 20 * ms, 0.8, 16000},
		{"Opus for an agent at 8 kHz", opusCodec(t), 20 * ms, 20 * ms, 0.8, 8000},
		{"Opus, 10 ms", opusCodec(t), 60 * ms, 10 * ms, 0.8, 16000},
		{"Opus, 40 ms", opusCodec(t), 10 * ms, 40 * ms, 0.8, 24000},
		{"Opus, 60 ms", opusCodec(t), 40 * ms, 60 * ms, 0.8, 48000},
	} {
		if raced() && i%5 != 0 {
			continue // sounds are compared, which takes long then, and nothing runs beside
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(listener)
				n := rtptest.New(3, rtptest.Conditions{Delay: 20 * ms})
				m := joinAs(t, n, agent.Format{HearRate: tt.hearRate, SayRate: tt.hearRate}, []media.Codec{tt.codec}, tt.out, l)
				pcm := words(6 * time.Second)
				speech := convert(t, 16000, tt.hearRate, pcm)
				go func() {
					// Twice, with a pause between that the caller hears as silence.
					for i, part := range [][]int16{speech[:len(speech)/2], speech[len(speech)/2:]} {
						time.Sleep(time.Duration(i) * 4 * time.Second)
						if err := m.mouth.Say(t.Context(), part); err != nil {
							t.Error(err)
						}
						m.mouth.Flush()
					}
				}()
				time.Sleep(100 * ms)
				m.peer.Step = uint32(media.Samples(tt.in, tt.codec.ClockRate))
				for _, b := range coded(t, tt.codec, tt.in, pcm) {
					m.peer.Send(false, b)
					time.Sleep(tt.in)
				}
				time.Sleep(6 * time.Second)
				m.leave(t)

				heard := convert(t, tt.hearRate, 16000, l.heard())
				if got := audio.FindWaveform(pcm[8000:80000], heard, 16000); got.Score < tt.alike {
					t.Errorf("the agent heard the caller with a correlation of %.3f, want %.2f", got.Score, tt.alike)
				} else {
					t.Logf("the agent heard the caller with a correlation of %.3f", got.Score)
				}
				seen := m.peer.Seen()
				for i, s := range seen[1:] {
					if step := s.Timestamp - seen[i].Timestamp; step != uint32(media.Samples(tt.out, tt.codec.ClockRate)) {
						t.Fatalf("packet %d is %d clock units behind the one before", i+1, step)
					}
				}
				sound := played(t, seen, tt.codec)
				for i, part := range [][]int16{pcm[:48000], pcm[48000:]} {
					if got := audio.FindWaveform(part[:len(part)-1600], sound, 16000); got.Score < tt.alike {
						t.Errorf("the caller heard part %d with a correlation of %.3f, want %.2f", i+1, got.Score, tt.alike)
					} else {
						t.Logf("the caller heard part %d with a correlation of %.3f", i+1, got.Score)
					}
				}
				if p := peak(sound); p > 2*peak(pcm) {
					t.Errorf("the caller heard a peak of %d, said were %d", p, peak(pcm))
				}
				if got := m.mouth.Played(); got != 6*time.Second {
					t.Errorf("%v of speech on the wire, want 6 s", got)
				}
				if w := m.ear.jitter.Stats(); w.Lost+w.Gaps+w.Late+w.Resyncs != 0 || m.ear.counts.undecoded != 0 {
					t.Errorf("jitter buffer %+v, undecoded %d", w, m.ear.counts.undecoded)
				}
			})
		})
	}
}

func TestLostOpusSpeechComesFromThePacketBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		codec := opusCodec(t)
		pcm := words(10 * time.Second)
		payloads := coded(t, codec, 20*time.Millisecond, pcm)
		run := func(lose bool, codec media.Codec) []int16 {
			l := new(listener)
			m := joinAs(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{HearRate: 16000}, []media.Codec{codec}, 20*time.Millisecond, l)
			time.Sleep(100 * time.Millisecond)
			for i, b := range payloads {
				if lose && i%8 == 7 {
					m.peer.Sequence++
					m.peer.Timestamp += m.peer.Step
				} else {
					m.peer.Send(false, b)
				}
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond)
			m.leave(t)
			return l.heard()[:16000*9]
		}
		plain := codec
		plain.For = nil
		plain.NewDecoder = func() (media.Decoder, error) {
			d, err := codec.NewDecoder()
			return concealing{d, d.(media.Concealer)}, err
		}
		whole := run(false, codec)
		recovered, made := distance(whole, run(true, codec)), distance(whole, run(true, plain))
		t.Logf("one packet in eight lost: %.1f dB recovered, %.1f dB made up", recovered, made)
		if recovered < made+3 {
			t.Errorf("one packet in eight lost: %.1f dB recovered, %.1f dB made up", recovered, made)
		}
	})
}

// concealing hides that a decoder recovers.
type concealing struct {
	media.Decoder
	media.Concealer
}

// distance is the ratio of want to what got differs by, in dB.
func distance(want, got []int16) float64 {
	signal, noise := 0.0, 1.0
	for i := range min(len(want), len(got)) {
		w, d := float64(want[i]), float64(got[i])-float64(want[i])
		signal, noise = signal+w*w, noise+d*d
	}
	return 10 * math.Log10(signal/noise)
}

func TestDigitsBesideOpus(t *testing.T) { // BR-007
	synctest.Test(t, func(t *testing.T) {
		codec := opusCodec(t)
		l := new(listener)
		m := joinAs(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{}, []media.Codec{codec, g711.PCMU()}, 20*time.Millisecond, l)
		time.Sleep(50 * time.Millisecond)
		event := m.nego.now.accept.events[0]
		voice := coded(t, codec, 20*time.Millisecond, words(time.Second))
		press := func(clock uint32) {
			ts := m.peer.Timestamp
			for i := range uint32(5) {
				d := clock / 50 * (i + 1)
				m.peer.SendAs(event, i == 0, ts, []byte{5, 10, byte(d >> 8), byte(d)})
				time.Sleep(20 * time.Millisecond)
			}
			d := clock / 10
			for range 3 {
				m.peer.SendAs(event, false, ts, []byte{5, 0x80 | 10, byte(d >> 8), byte(d)})
			}
			m.peer.Timestamp += clock / 10
		}
		for range 3 {
			for _, b := range voice[:10] {
				m.peer.Send(false, b)
				time.Sleep(20 * time.Millisecond)
			}
			press(48000)
		}
		if got := l.count(agent.Digit); got != 3 {
			t.Errorf("%d digits for 3 presses", got)
		}
		if w := m.ear.jitter.Stats(); w.Lost != 0 {
			t.Errorf("digits count as lost sound: %+v", w)
		}
		// The audio goes over to G.711, and the events to its clock; what the wheel
		// has not seen of the last press is of that press still.
		m.pending.Store(m.offer(t, g711.PCMU(), 20*time.Millisecond))
		time.Sleep(20 * time.Millisecond)
		event = m.nego.now.accept.events[0]
		press(8000)
		press(8000)
		if got := l.count(agent.Digit); got != 5 {
			t.Errorf("%d digits after 5 presses", got)
		}
		// A key that is down while an offer comes is one key.
		ts := m.peer.Timestamp
		for i := range byte(10) {
			if i == 5 {
				m.pending.Store(m.offer(t, codec, 20*time.Millisecond))
			}
			m.peer.SendAs(m.nego.now.accept.events[0], false, ts, []byte{7, 10, 4, 160 + i})
			time.Sleep(20 * time.Millisecond)
		}
		if got := l.count(agent.Digit); got != 6 {
			t.Errorf("%d digits after 6 presses, one of them across an offer", got)
		}
		m.leave(t)
	})
}

func TestNegotiatedOpus(t *testing.T) { // BR-007, BR-017
	for _, tt := range []struct {
		name       string
		offer      []string
		codec      string
		pt, event  uint8
		packetTime time.Duration
		has        []string
	}{
		{"two telephone-events", []string{"m=audio 4000 RTP/AVP 102 8 103 101", "a=rtpmap:102 opus/48000/2", "a=rtpmap:103 telephone-event/48000", "a=rtpmap:101 telephone-event/8000"},
			"opus", 102, 103, 20 * time.Millisecond, []string{"m=audio 20000 RTP/AVP 102 103\r\n", "a=rtpmap:103 telephone-event/48000"}},
		{"of A-law the other", []string{"m=audio 4000 RTP/AVP 8 103 101", "a=rtpmap:103 telephone-event/48000", "a=rtpmap:101 telephone-event/8000"},
			"PCMA", 8, 101, 20 * time.Millisecond, []string{"m=audio 20000 RTP/AVP 8 101\r\n"}},
		{"another number, all parameters", []string{"m=audio 4000 RTP/AVP 96", "a=rtpmap:96 opus/48000/2", "a=fmtp:96 stereo=1;sprop-stereo=1;useinbandfec=1;usedtx=1;maxplaybackrate=16000"},
			"opus", 96, 0, 20 * time.Millisecond, []string{"a=rtpmap:96 opus/48000/2\r\na=fmtp:96 maxplaybackrate=16000;sprop-maxcapturerate=16000;useinbandfec=1\r\n"}},
		{"no parameters", []string{"m=audio 4000 RTP/AVP 111", "a=rtpmap:111 opus/48000/2"},
			"opus", 111, 0, 20 * time.Millisecond, []string{"a=fmtp:111 maxplaybackrate"}},
		{"unknown parameters and a length that Opus has not", []string{"m=audio 4000 RTP/AVP 111", "a=rtpmap:111 opus/48000/2", "a=fmtp:111 minptime=10; foo=1", "a=ptime:30"},
			"opus", 111, 0, 20 * time.Millisecond, nil},
		{"G.722 by its number alone", []string{"m=audio 4000 RTP/AVP 9 0", "a=ptime:30"}, "G722", 9, 0, 30 * time.Millisecond, []string{"a=rtpmap:9 G722/8000"}},
	} {
		n := newNegotiation(DefaultConfig(), []media.Codec{opusCodec(t), g722.G722(), g711.PCMU(), g711.PCMA()}, testNegotiation().local.Addr, 20000, 42)
		answer, c, refusal := n.answer(offered(tt.offer...))
		if refusal != nil {
			t.Fatalf("%s: %v", tt.name, refusal)
		}
		if c.line.codec.Name != tt.codec || c.flow.PayloadType != tt.pt || c.line.packetTime != tt.packetTime || tt.event != 0 && !c.accept.event(tt.event) {
			t.Errorf("%s: %s type %d %v, events %+v", tt.name, c.line.codec.Name, c.flow.PayloadType, c.line.packetTime, c.accept)
		}
		for _, text := range tt.has {
			if !strings.Contains(string(answer), text) {
				t.Errorf("%s: no %q in\n%s", tt.name, text, answer)
			}
		}
		if strings.Contains(string(answer), "stereo=1") || strings.Contains(string(answer), "foo") {
			t.Errorf("%s: the peer's parameters are echoed\n%s", tt.name, answer)
		}
	}
}

func TestAllocsOfEveryCodec(t *testing.T) {
	for _, codec := range []media.Codec{g722.G722(), opusCodec(t)} {
		t.Run(codec.Name, func(t *testing.T) {
			m := joinAs(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{HearRate: 16000, SayRate: 16000}, []media.Codec{codec}, 20*time.Millisecond, quietSession{})
			defer m.leave(t)
			side := (*turned)(m.Call)
			m.rtp.Close() // the test turns it itself
			side.Turn(0)
			payloads := coded(t, codec, 20*time.Millisecond, words(2*time.Second))
			pcm := words(2 * time.Second)
			p := rtp.Packet{PayloadType: codec.PayloadType}
			i, now := 0, time.Duration(0)
			step := func() {
				now += 20 * time.Millisecond
				p.Payload = payloads[i%100]
				p.Sequence++
				p.Timestamp += uint32(media.Samples(20*time.Millisecond, codec.ClockRate))
				p.Arrival = now
				side.Packet(&p)
				side.Turn(now)
				if err := m.mouth.Say(t.Context(), pcm[i%100*320:][:320]); err != nil {
					t.Fatal(err)
				}
				side.Slot(now, 0)
				i++
			}
			step()
			if got := testing.AllocsPerRun(500, step); got != 0 && !pureGo() {
				t.Errorf("%v allocations for a packet in and one out, want 0", got)
			}
		})
	}
}

// quietSession is an agent that keeps nothing.
type quietSession struct{}

func (quietSession) Run(ctx context.Context) error { return nil }
func (quietSession) Hear([]int16)                  {}
func (quietSession) Notice(agent.Notice)           {}

// pureGo says that this build's Opus may allocate: that without libopus does.
func pureGo() bool { return strings.HasPrefix(opus.Library(), "gopus") }

func convert(t testing.TB, from, to int, pcm []int16) []int16 {
	t.Helper()
	out, err := resample.Convert(from, to, resample.Voice, pcm)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
