package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/media/opus"
	"parley/media/resample"
	"parley/sip"
	"parley/test/audio"
	"parley/test/phone"
)

// onsetSlack is how far apart the beginnings of the same sound may be noticed.
const onsetSlack = 60 * time.Millisecond

// coderOf is a codec of the gateway for a phone, whose sound is at 8 kHz.
func coderOf(t *testing.T, codec media.Codec) phone.Coder {
	t.Helper()
	from := func(a, b int) *resample.Resampler {
		r, err := resample.New(a, b, resample.Voice)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	return phone.Coder{
		Name: codec.Name, ClockRate: codec.ClockRate, Channels: codec.Channels, PayloadType: 120,
		New: func() (func([]int16) []byte, func([]byte) []int16, error) {
			enc, err := codec.NewEncoder()
			if err != nil {
				return nil, nil, err
			}
			dec, err := codec.NewDecoder()
			if err != nil {
				return nil, nil, err
			}
			up, down := from(8000, codec.SampleRate), from(codec.SampleRate, 8000)
			encode := func(pcm []int16) []byte {
				b, err := enc.Encode(nil, up.Process(nil, pcm))
				if err != nil {
					t.Error(err)
				}
				return b
			}
			decode := func(payload []byte) []int16 {
				pcm, err := dec.Decode(nil, payload)
				if err != nil {
					return nil
				}
				return down.Process(nil, pcm)
			}
			return encode, decode, nil
		},
	}
}

// TestOnsetAgreesAcrossCodecs says the same over calls of each codec: that the caller
// speaks is noticed as soon with all of them (BR-146).
func TestOnsetAgreesAcrossCodecs(t *testing.T) {
	wide, err := opus.Opus(opus.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	codecs := []media.Codec{g711.PCMU(), g711.PCMA(), g722.G722(), wide}
	a := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ turn, _ int) { say(w, "Yes.") })
	probe := newProbe(t)
	g := startGateway(t, func(*call.Config, *sip.Config) {}, codecs...)
	onsets := make([]time.Duration, len(codecs))
	together(t, len(codecs), len(codecs), func(i int) string { return codecs[i].Name }, func(t *testing.T, i int) {
		p, name := newParts(a.URL, "one", "two", "three"), fmt.Sprint("onset", i)
		p.plug(t, g, name)
		cfg := phone.Config{Number: fmt.Sprintf("+1415555172%d", i), Codecs: []string{codecs[i].Name}}
		if i > 1 {
			cfg.Coders = []phone.Coder{coderOf(t, codecs[i])}
		}
		on := newPhone(t, cfg)
		c := dial(t, on, g.uri(name))
		for n := range 3 {
			asks(t, c, speechLike(600*time.Millisecond, uint64(n)))
		}
		hangUp(t, c)
		record, events := g.ended(t, c)
		if record.Codec != codecs[i].Name {
			t.Errorf("the call was %s", record.Codec)
		}
		began := of(events, agent.EventUserStarted)
		said := audio.Utterances(c.Log().Marks(phone.Sent), audio.DefaultRule())
		if len(began) != 3 || len(said) != 3 {
			t.Fatalf("%d turns of %d utterances", len(began), len(said))
		}
		// The soonest: what a machine does to the others makes them later.
		onsets[i] = time.Hour
		for n := range said {
			spoke := on.Wall(said[n].Start)
			onsets[i] = min(onsets[i], began[n].At.Sub(spoke)-probe.taken(spoke, began[n].At))
		}
	})
	fmt.Printf("a voice is noticed after %v (PCMU, PCMA, G.722, Opus)\n", onsets)
	if spread := slices.Max(onsets) - slices.Min(onsets); spread > onsetSlack {
		t.Errorf("the beginnings of the same sound are noticed %v apart: %v", spread, onsets)
	}
}
