//go:build cgo

package flite

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"parley/agent/tts"
	"parley/agent/tts/ttstest"
)

func newVoice(t testing.TB, name string) *Voice {
	t.Helper()
	v, err := New(Config{Voice: name, Speed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSuite(t *testing.T) {
	for _, name := range []string{"rms", "slt", "kal"} {
		t.Run(name, func(t *testing.T) {
			ttstest.Run(t, ttstest.Subject{
				New:   func(t *testing.T) tts.Voice { return newVoice(t, name) },
				Words: true,
			})
		})
	}
}

func speak(t *testing.T, v *Voice, text string) (pcm []int16, words []tts.Word) {
	t.Helper()
	err := v.Speak(t.Context(), text, func(c tts.Chunk) error {
		pcm = append(pcm, c.PCM...)
		words = append(words, c.Words...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pcm, words
}

func TestRates(t *testing.T) {
	for name, rate := range map[string]int{"rms": 16000, "slt": 16000, "kal": 8000} {
		if got := newVoice(t, name).Rate(); got != rate {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// rms of the sound between two times, in samples' units.
func level(pcm []int16, rate int, from, to time.Duration) float64 {
	a, b := int(from.Seconds()*float64(rate)), min(len(pcm), int(to.Seconds()*float64(rate)))
	var sum float64
	for _, x := range pcm[a:b] {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum / float64(max(1, b-a)))
}

// TestWordTimes checks the reported times against the sound itself: the words are
// loud, the pauses that the text forces between them are not.
func TestWordTimes(t *testing.T) {
	for _, name := range []string{"rms", "slt", "kal"} {
		v := newVoice(t, name)
		pcm, words := speak(t, v, "Hello. Nine. - It costs $39.99. (Goodbye!)")
		want := []string{"Hello.", "Nine.", "-", "It", "costs", "$39.99.", "(Goodbye!)"}
		if len(words) != len(want) {
			t.Fatalf("%s: %v", name, words)
		}
		for i, w := range words {
			if w.Text != want[i] {
				t.Errorf("%s: word %d is %q, want %q", name, i, w.Text, want[i])
			}
			if w.Text == "-" {
				if w.Start != w.End {
					t.Errorf("%s: the dash sounds from %v to %v", name, w.Start, w.End)
				}
				continue
			}
			if l := level(pcm, v.Rate(), w.Start, w.End); l < 500 {
				t.Errorf("%s: %q from %v to %v has level %.0f", name, w.Text, w.Start, w.End, l)
			}
		}
		if d := words[5].End - words[5].Start; d < time.Second {
			t.Errorf("%s: $39.99 takes %v", name, d)
		}
		if words[0].Start > 60*time.Millisecond {
			t.Errorf("%s: first word after %v", name, words[0].Start)
		}
		mid := (words[0].End + words[1].Start) / 2
		if l := level(pcm, v.Rate(), mid-10*time.Millisecond, mid+10*time.Millisecond); l > 700 {
			t.Errorf("%s: the pause between the first words has level %.0f", name, l)
		}
	}
}

func TestSpeed(t *testing.T) {
	slow, err := New(Config{Voice: "slt", Speed: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	fast, err := New(Config{Voice: "slt", Speed: 2})
	if err != nil {
		t.Fatal(err)
	}
	const text = "The office is open until five."
	a, aw := speak(t, slow, text)
	b, bw := speak(t, fast, text)
	if r := float64(len(a)) / float64(len(b)); r < 3 || r > 5 {
		t.Errorf("slow is %.1f times as long as fast", r)
	}
	if r := float64(aw[5].End) / float64(bw[5].End); r < 3 || r > 5 {
		t.Errorf("slow's last word ends %.1f times as late", r)
	}
}

// TestLongText speaks the longest text: no word is lost or moved where the pieces
// meet.
func TestLongText(t *testing.T) {
	v := newVoice(t, "kal")
	text := ""
	for len(text)+8 < MaxText {
		text += "seven, "
	}
	pcm, words := speak(t, v, text)
	if len(words) != len(text)/7 || len(pcm) < 60*8000 {
		t.Errorf("%d words, %d samples", len(words), len(pcm))
	}
	for i := 1; i < len(words); i++ {
		if words[i].Start < words[i-1].End-time.Millisecond {
			t.Fatalf("word %d begins at %v, the one before ends at %v", i, words[i].Start, words[i-1].End)
		}
	}
}

// TestVoiceIsFreeWhileOutBlocks: a listener that takes its time must not keep the
// voice from others.
func TestVoiceIsFreeWhileOutBlocks(t *testing.T) {
	v := newVoice(t, "rms")
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = v.Speak(t.Context(), "Please hold the line.", func(tts.Chunk) error {
			once.Do(func() { close(entered); <-release })
			return nil
		})
	})
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := v.Speak(ctx, "Somebody else.", func(tts.Chunk) error { return nil }); err != nil {
		t.Errorf("the other speaker: %v", err)
	}
	close(release)
	wg.Wait()
}

// TestAnyASCII feeds flite what no writer would: it must not take the process down.
func TestAnyASCII(t *testing.T) {
	v := newVoice(t, "kal")
	r := rand.New(rand.NewPCG(1, 2))
	n := 400
	if testing.Short() {
		n = 40
	}
	for range n {
		b := make([]byte, r.IntN(60))
		for i := range b {
			switch r.IntN(4) {
			case 0:
				b[i] = byte(' ' + r.IntN(16))
			case 1:
				b[i] = byte('0' + r.IntN(10))
			default:
				b[i] = byte(' ' + r.IntN(95))
			}
		}
		if err := v.Speak(t.Context(), string(b), func(tts.Chunk) error { return nil }); err != nil {
			t.Errorf("%q: %v", b, err)
		}
	}
}

func BenchmarkFirstSound(b *testing.B) {
	for _, name := range []string{"rms", "slt", "kal"} {
		b.Run(name, func(b *testing.B) {
			v := newVoice(b, name)
			var first, length time.Duration
			for b.Loop() {
				begin := time.Now()
				heard := false
				err := v.Speak(b.Context(), "Thank you for calling. How can I help you today?", func(c tts.Chunk) error {
					if !heard {
						first += time.Since(begin)
						heard = true
					}
					length += time.Duration(len(c.PCM)) * time.Second / time.Duration(v.Rate())
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(first.Microseconds())/float64(b.N)/1000, "ms-first/op")
			b.ReportMetric(b.Elapsed().Seconds()/length.Seconds(), "cpu/speech")
		})
	}
}
