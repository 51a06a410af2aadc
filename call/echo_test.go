package call

import (
	"math"
	"testing"
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/media/vad"
	"parley/rtp"
	"parley/rtp/rtptest"
)

// hybrid is a line without echo cancellation: what the agent says comes back after delay
// packets, softer by loss dB, together with what the caller says.
type hybrid struct {
	m     *mediaCall
	side  *turned
	now   time.Duration
	loss  float64
	delay int
	sent  [][]int16
	dec   media.Decoder
	enc   media.Encoder
	p     rtp.Packet
}

func newHybrid(t *testing.T, floor bool, loss float64, delay int) *hybrid {
	t.Helper()
	m := join(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{SayRate: 8000, HearRate: 8000})
	m.rtp.Close() // the test turns it itself
	if !floor {
		m.ear.echo = nil
	}
	h := &hybrid{m: m, side: (*turned)(m.Call), loss: loss, delay: delay}
	var err error
	if h.dec, err = g711.PCMU().NewDecoder(); err != nil {
		t.Fatal(err)
	}
	if h.enc, err = g711.PCMU().NewEncoder(); err != nil {
		t.Fatal(err)
	}
	h.side.Turn(0)
	return h
}

// turn moves one packet each way. say is what the agent says, and caller what the caller
// does, 20 ms each; nil: nothing. coded says it without the agent coding it.
func (h *hybrid) turn(t *testing.T, say, caller []int16, coded bool) {
	t.Helper()
	h.now += 20 * time.Millisecond
	if say != nil {
		var err error
		if coded {
			var payload []byte
			if payload, err = h.enc.Encode(nil, say); err == nil {
				err = h.m.mouth.SayPayload(t.Context(), "PCMU", payload)
			}
		} else {
			err = h.m.mouth.Say(t.Context(), say)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	payload, _ := h.side.Slot(h.now, 0)
	out, err := h.dec.Decode(nil, payload)
	if err != nil {
		t.Fatal(err)
	}
	h.sent = append(h.sent, out)
	in := make([]int16, 160)
	for i := range in {
		v := 0.0
		if at := len(h.sent) - 1 - h.delay; at >= 0 {
			v += float64(h.sent[at][i]) * math.Pow(10, -h.loss/20)
		}
		if caller != nil {
			v += float64(caller[i])
		}
		in[i] = int16(v)
	}
	if h.p.Payload, err = h.enc.Encode(h.p.Payload[:0], in); err != nil {
		t.Fatal(err)
	}
	h.p.Sequence++
	h.p.Timestamp += 160
	h.p.Arrival = h.now
	h.side.Packet(&h.p)
	h.side.Turn(h.now)
}

// voices is how many voices the agent was told of since it was asked last.
func (h *hybrid) voices() (n int) {
	for {
		select {
		case notice := <-h.m.session.notices:
			if notice.Kind == agent.VoiceOn {
				n++
			}
		default:
			return n
		}
	}
}

// syllable is 20 ms of speech that swells and fades eight times in five seconds.
func syllable(i int, amplitude float64) []int16 {
	pcm := sine(300, 8000, 20*time.Millisecond)
	swell := amplitude / 10000 * math.Abs(math.Sin(float64(i)/10))
	for k := range pcm {
		pcm[k] = int16(float64(pcm[k]) * swell)
	}
	return pcm
}

// Contract line 8: the agent's own echo is not told to the agent as a voice, whoever coded
// it, and a caller is.
func TestTheAgentsOwnEchoIsNoVoice(t *testing.T) {
	for name, c := range map[string]struct {
		floor, coded bool
		want         bool // voices of an agent that is alone
	}{
		"with the floor": {true, false, false}, "of payloads": {true, true, false}, "without it": {false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHybrid(t, c.floor, 20, 8)
			defer h.m.leave(t)
			for range 100 {
				h.turn(t, nil, nil, false)
			}
			for i := range 400 {
				h.turn(t, syllable(i, 10000), nil, c.coded)
			}
			if n := h.voices(); (n > 0) != c.want {
				t.Errorf("the agent alone is %d voices", n)
			}
			for i := range 50 {
				h.turn(t, syllable(i, 10000), syllable(i, 6000), c.coded)
			}
			if n := h.voices(); c.floor && n == 0 {
				t.Error("a caller over the agent is not heard")
			}
			for range 100 {
				h.turn(t, nil, nil, false)
			}
			for i := range 20 {
				h.turn(t, nil, syllable(i, 1500), false)
			}
			if n := h.voices(); n == 0 {
				t.Error("a soft caller is not heard after the agent")
			}
		})
	}
}

// The wheel's share of it allocates nothing.
func TestTheEchoFloorAllocatesNothing(t *testing.T) {
	h := newHybrid(t, true, 20, 8)
	defer h.m.leave(t)
	e, pcm := h.m.ear, syllable(5, 8000)
	if e.echo == nil {
		t.Fatal("there is no floor by default")
	}
	if n := testing.AllocsPerRun(1000, func() {
		e.echo.Sent(-20, 20*time.Millisecond)
		e.listen(pcm)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkListen(b *testing.B) {
	for name, floor := range map[string]bool{"echo floor": true, "none": false} {
		b.Run(name, func(b *testing.B) {
			v, err := vad.NewEnergy(vad.DefaultEnergyConfig(8000))
			if err != nil {
				b.Fatal(err)
			}
			e, pcm := &ear{voice: v, voiceRate: 8000}, syllable(5, 8000)
			if floor {
				if err := e.guard(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if e.echo != nil {
					e.echo.Sent(-20, 20*time.Millisecond)
				}
				e.listen(pcm)
			}
		})
	}
}
