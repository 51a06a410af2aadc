package call

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
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
	"parley/rtp/rtptest"
)

// heardDir names a folder of trials: the audio bench gives packets and their times
// there and wants to know what an agent hears of them.
const heardDir = "PARLEY_BENCH_AUDIO"

// linesTrial is the bench's: packets with the times at which they arrive.
type linesTrial struct {
	Codec    string
	Payloads [][]byte
	Trace    []struct {
		At time.Duration // when it arrives
		I  int           // which payload
	}
	Every time.Duration // between packets, when they are sent
}

// linesHeard is what came of it.
type linesHeard struct {
	PCM        []int16
	Delays     []time.Duration // of each 20 ms: from when it was sent until it was heard
	Lost, Late int
	Concealed  time.Duration
}

// timed is an agent that notes what it hears and when.
type timed struct {
	quietSession
	mu    sync.Mutex
	pcm   []int16
	at    []time.Duration
	began time.Time
}

func (l *timed) Hear(pcm []int16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pcm, l.at = append(l.pcm, pcm...), append(l.at, time.Since(l.began))
}

// over plays a trial through the media half of a real call, on synctest's clock.
func (c linesTrial) over(t *testing.T, codec media.Codec) (out linesHeard) {
	synctest.Test(t, func(t *testing.T) {
		l := &timed{}
		m := joinAs(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{}, []media.Codec{codec}, 20*time.Millisecond, l)
		time.Sleep(53 * time.Millisecond) // between two ticks
		l.mu.Lock()
		l.began = time.Now()
		l.mu.Unlock()
		for _, a := range c.Trace {
			time.Sleep(a.At - time.Since(l.began))
			b := make([]byte, 12, 12+len(c.Payloads[a.I]))
			b[0], b[1] = 0x80, codec.PayloadType
			binary.BigEndian.PutUint16(b[2:], uint16(65000+a.I))
			binary.BigEndian.PutUint32(b[4:], uint32(a.I*media.Samples(20*time.Millisecond, codec.ClockRate)))
			binary.BigEndian.PutUint32(b[8:], 0x5EED)
			m.peer.Raw(append(b, c.Payloads[a.I]...))
		}
		time.Sleep(quietAfter - 10*time.Millisecond)
		m.leave(t)
		st := m.ear.jitter.Stats()
		out = linesHeard{PCM: l.pcm, Lost: int(st.Lost), Late: int(st.Late), Concealed: m.ear.counts.concealed}
		for i, at := range l.at {
			out.Delays = append(out.Delays, at-time.Duration(i)*c.Every)
		}
	})
	return out
}

func lineCodec(t *testing.T, name string) media.Codec {
	for _, c := range []media.Codec{g711.PCMU(), g711.PCMA(), g722.G722(), opusCodec(t)} {
		if strings.EqualFold(c.Name, name) {
			return c
		}
	}
	t.Fatalf("no codec %q", name)
	return media.Codec{}
}

// TestTrialsOfTheAudioBench is the bench's way into a call: `make bench-audio`.
func TestTrialsOfTheAudioBench(t *testing.T) {
	dir := os.Getenv(heardDir)
	if dir == "" {
		t.Skip("only for make bench-audio")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.trial"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c linesTrial
		if err := json.Unmarshal(b, &c); err != nil {
			t.Fatal(file, err)
		}
		if b, err = json.Marshal(c.over(t, lineCodec(t, c.Codec))); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(strings.TrimSuffix(file, ".trial")+".heard", b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestACallersClockThatIsOff lets the caller's clock be off for twenty minutes: all is
// heard once, and no later at the end than at the beginning.
func TestACallersClockThatIsOff(t *testing.T) { // BR-103
	codec := g711.PCMU()
	payload := constantPayload(t, 8000)
	length := 20 * time.Minute
	if raced() {
		length /= 10
	}
	for _, every := range []time.Duration{
		19800 * time.Microsecond, 19900 * time.Microsecond, 19990 * time.Microsecond, // 1 %, 0.5 %, 500 ppm fast
		20010 * time.Microsecond, 20100 * time.Microsecond, 20200 * time.Microsecond,
	} {
		n := int(length / every)
		c := linesTrial{Codec: codec.Name, Every: every}
		for i := range n {
			c.Payloads = append(c.Payloads, payload)
			c.Trace = append(c.Trace, struct {
				At time.Duration
				I  int
			}{time.Duration(i) * every, i})
		}
		got := c.over(t, codec)
		if got.Lost+got.Late != 0 || got.Concealed != 0 || len(got.Delays) != n {
			t.Errorf("every %v: %d of %d frames, lost %d, late %d, concealed %v", every, len(got.Delays), n, got.Lost, got.Late, got.Concealed)
		}
		if first, most := slices.Max(got.Delays[:100]), slices.Max(got.Delays); most-first > 20*time.Millisecond || most > 40*time.Millisecond {
			t.Errorf("every %v: the delay grew from %v to %v in %v, may by 150 ms", every, first, most, length)
		}
	}
}
