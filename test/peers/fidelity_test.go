package peers

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"parley/call"
	"parley/media/wav"
	"parley/test/audio"
)

// cell is one way to talk with one telephone.
type cell struct{ peer, codec, transport, srtp string }

func (c cell) String() string {
	return strings.Join([]string{c.peer, c.codec, c.transport, c.srtp}, " ")
}

// likeness is the least correlation of what arrived with what was said.
func (c cell) likeness() float64 {
	if c.codec == "PCMU" || c.codec == "PCMA" {
		return 0.99
	}
	return 0.95
}

// heard is how the two sentences of a call arrived.
type heard struct {
	cell
	there, here float64
	record      call.Record
	times       int // measured
}

// alike says whether both arrived as they were said.
func (h heard) alike() bool { return h.times > 0 && min(h.there, h.here) >= h.likeness() }

// cells are all that the telephones can do. SIPp has neither TLS nor SRTP in Debian's
// build, browsers nothing but WebSocket and DTLS.
func cells() []cell {
	var out []cell
	for _, codec := range []string{"PCMU", "PCMA", "G722", "opus"} {
		for _, transport := range []string{"udp", "tcp", "tls"} {
			for _, srtp := range []string{"off", "SDES", "DTLS"} {
				out = append(out, cell{"baresip", codec, transport, srtp}, cell{"linphone", codec, transport, srtp})
			}
			if transport != "tls" {
				out = append(out, cell{"SIPp", codec, transport, "off"})
			}
		}
		out = append(out, cell{"Chromium", codec, "wss", "DTLS"})
	}
	slices.SortStableFunc(out, func(a, b cell) int { return cmp.Compare(a.peer, b.peer) })
	return out
}

// talking is how long both say their sentences over and over.
const talking = 3 * time.Second

// What is said is what arrives, for every codec, transport and encryption that a
// telephone can do. The calls are made several at a time; where a sentence arrived torn,
// because the telephones had too little of the processor, the call is made again by
// itself, twice at the most, and that counts.
func TestFidelity(t *testing.T) {
	Isolated(t)
	var mu sync.Mutex
	all := map[cell]heard{}
	var again []cell
	t.Run("of", func(t *testing.T) {
		for _, c := range cells() {
			t.Run(c.String(), func(t *testing.T) {
				if c.peer != "Chromium" { // it takes all the processor there is
					t.Parallel()
				}
				h := c.run(t)
				h.check(t)
				mu.Lock()
				defer mu.Unlock()
				all[c] = h
				if !h.alike() {
					again = append(again, c)
				}
			})
		}
	})
	for _, c := range again {
		t.Run("again "+c.String(), func(t *testing.T) {
			var h heard
			for times := 2; times <= 3 && !h.alike(); times++ {
				h = c.run(t)
				h.check(t)
				h.times, all[c] = times, h
			}
			if !h.alike() {
				t.Errorf("a correlation of %.3f there, %.3f here; want %.2f", h.there, h.here, c.likeness())
			}
		})
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "telephone\tcodec\ttransport\tSRTP\theard there\theard here\twant\tmeasured\tsuite")
	for _, c := range cells() {
		if h, ok := all[c]; ok {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.3f\t%.3f\t%.2f\t%d\t%s\n", c.peer, c.codec, c.transport, c.srtp, h.there, h.here, c.likeness(), h.times, h.record.SRTP)
		}
	}
	_ = w.Flush()
	t.Logf("%d of %d ways:\n%s", len(all), len(cells()), table.String())
}

// run makes the call.
func (c cell) run(t *testing.T) (h heard) {
	t.Helper()
	asks, answers := prompt(t, "vm-goodbye", 1.3), prompt(t, "vm-isunavail", 2.1)
	performer := &Performer{Rate: 16000, Says: answers, Pause: 200 * time.Millisecond}
	g := StartGateway(t, performer)
	h = heard{cell: c, times: 1}
	if c.peer == "SIPp" {
		codec := codecNamed(t, c.codec)
		c.playing(t, g, codec, `<nop><action><exec play_pcap_audio="sound.pcap"/></action></nop>`, capture(t, codec, append(asks, make([]int16, 8000)...)), "-d", "2000")
		h.record = g.Records(1)[0]
		h.here = correlation(asks, performer.Heard())
		// It does not record, but sends back what comes: it is heard here in turn.
		c.playing(t, g, codec, "", nil, "-rtp_echo", "-d", "3000")
		g.Records(2)
		h.there = correlation(answers, performer.Heard())
		return h
	}
	var there []int16 // at 16 kHz
	switch c.peer {
	case "baresip":
		there = c.byBaresip(t, g, asks)
	case "linphone":
		there = c.byLinphone(t, g, asks)
	case "Chromium":
		there = c.byChromium(t, g, asks)
	}
	h.record = g.Records(1)[0]
	h.there, h.here = correlation(answers, there), correlation(asks, performer.Heard())
	return h
}

// check looks at what is on record of the call.
func (h heard) check(t *testing.T) {
	t.Helper()
	if r := h.record; !strings.EqualFold(r.Codec, h.codec) || (r.SRTP != "") != (h.srtp != "off") || r.Stats.Forged > 5 {
		t.Errorf("record %+v", r)
	}
}

// correlation is that of the middle of a sentence with where it fits best.
func correlation(sentence, recording []int16) float64 {
	return audio.FindWaveform(sentence[len(sentence)/8:len(sentence)*7/8], recording, 16000).Score
}

// repeated is a sound file at rate Hz that says pcm, which is at 16 kHz, again and
// again.
func repeated(t *testing.T, pcm []int16, rate int) string {
	t.Helper()
	var all []int16
	all = append(all, make([]int16, 8000)...)
	for len(all) < 30*16000 {
		all = append(append(all, pcm...), make([]int16, 3200)...)
	}
	path := filepath.Join(t.TempDir(), "microphone.wav")
	if err := os.WriteFile(path, wav.Encode(rate, 1, atRate(t, 16000, rate, all)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// agentAt is the gateway's URI for a transport.
func (g *Gateway) agentAt(transport string) string {
	host := g.Host
	if transport == "tls" {
		host = g.TLSHost
	}
	return "sip:agent@" + host + ";transport=" + transport
}

func (c cell) byBaresip(t *testing.T, g *Gateway, asks []int16) []int16 {
	t.Helper()
	codec, rate := c.codec+"/8000/1", 8000
	switch c.codec {
	case "G722":
		codec, rate = "G722/16000/1", 16000
	case "opus":
		codec, rate = "opus/48000/2", 48000
	}
	settings := []string{fmt.Sprintf("ausrc_srate %d", rate), fmt.Sprintf("auplay_srate %d", rate), "rtcp_mux yes",
		"sip_certificate " + certificateAndKey(t), "sip_verify_server no"}
	switch c.srtp {
	case "SDES":
		settings = append(settings, ";mediaenc=srtp-mand")
	case "DTLS":
		settings = append(settings, ";mediaenc=dtls_srtp")
	}
	b := StartBaresip(t, "+12025550160", repeated(t, asks, rate), codec, c.transport, settings...)
	b.Call(g.agentAt(c.transport))
	time.Sleep(talking)
	b.Do("hangup", "")
	if !b.Ended() {
		t.Error("baresip did not hang up")
	}
	pcm, at := b.HeardAt()
	return atRate(t, at, 16000, pcm)
}

func (c cell) byLinphone(t *testing.T, g *Gateway, asks []int16) []int16 {
	t.Helper()
	var replace []string
	for _, codec := range []string{"PCMU\nrate=8000\nchannels=1", "PCMA\nrate=8000\nchannels=1", "G722\nrate=8000\nchannels=1", "opus\nrate=48000\nchannels=2"} {
		line, on := "mime="+codec+"\nenabled=", "0"
		if strings.HasPrefix(codec, c.codec+"\n") {
			on = "1"
		}
		replace = append(replace, line+"0", line+on, line+"1", line+on)
	}
	if c.srtp != "off" {
		kind := map[string]string{"SDES": "srtp", "DTLS": "dtls"}[c.srtp]
		replace = append(replace, "media_encryption=none", "media_encryption="+kind+"\nmedia_encryption_mandatory=1")
	}
	l := StartLinphone(t, "+12025550161", repeated(t, asks, 16000), replace...)
	l.Call(g.agentAt(c.transport))
	time.Sleep(talking + time.Second)
	l.Tell("terminate")
	g.Records(1)
	pcm, at := l.Heard()
	return atRate(t, at, 16000, pcm)
}

func (c cell) byChromium(t *testing.T, g *Gateway, asks []int16) []int16 {
	t.Helper()
	payload := map[string]string{"PCMU": "0", "PCMA": "8", "G722": "9", "opus": ""}[c.codec]
	b := StartChromium(t, "wss://"+g.WSSHost, "sip:agent@127.0.0.1", "+12025550162", repeated(t, asks, 48000), payload)
	b.Await("up", 40*time.Second)
	time.Sleep(talking + time.Second)
	b.Do(map[string]any{"hangUp": true})
	b.Await("ended", 10*time.Second)
	return b.Heard()
}

// certificateAndKey is a file with both.
func certificateAndKey(t *testing.T) string {
	t.Helper()
	cert, key := Certificate(t)
	var pair []byte
	for _, file := range []string{cert, key} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pair = append(pair, text...)
	}
	both := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(both, pair, 0o600); err != nil {
		t.Fatal(err)
	}
	return both
}
