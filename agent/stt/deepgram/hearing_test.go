package deepgram

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/agent/stt"
)

// script drives a hearing: each step is a message of the service, or one of "ask 1.5" (a
// Finalize there, sent at once), "sent 2" (so much audio is at the service), "wait 500ms".
func script(t *testing.T, h *hearing, steps ...string) (out []string) {
	t.Helper()
	now := time.Unix(0, 0)
	show := func(results []stt.Result) {
		for _, r := range results {
			switch {
			case r.Final:
				out = append(out, r.Text+"!")
			default:
				out = append(out, r.Text)
			}
		}
	}
	h.connected(now, 0)
	h.sent = 1 << 40
	for _, step := range steps {
		verb, rest, _ := strings.Cut(step, " ")
		var at float64
		_, _ = fmt.Sscan(rest, &at)
		switch verb {
		case "ask":
			show(h.ask(int64(at * 16000)))
			h.asked(now)
		case "sent":
			h.sent = int64(at * 16000)
		case "wait":
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(d)
			results, stalled := h.expire(now)
			show(results)
			if stalled {
				out = append(out, "stalled")
			}
		default:
			m, err := parse([]byte(step))
			if err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			show(h.take(m, now))
		}
	}
	return out
}

func TestHearing(t *testing.T) {
	const final, speech, finalize = "is_final", "speech_final", "from_finalize"
	words := func(from, to float64, w ...string) string {
		var b []string
		step := (to - from) / float64(len(w))
		for i, x := range w {
			b = append(b, fmt.Sprintf(`{"word":%q,"punctuated_word":%q,"start":%f,"end":%f}`, strings.ToLower(x), x, from+step*float64(i), from+step*float64(i+1)))
		}
		return fmt.Sprintf(`{"type":"Results","is_final":true,"start":%f,"duration":%f,"channel":{"alternatives":[{"transcript":%q,"confidence":0.9,"words":[%s]}]}}`,
			from, to-from, strings.Join(w, " "), strings.Join(b, ","))
	}
	for _, tt := range []struct {
		name  string
		steps []string
		want  string
	}{
		{"interim, then the answer", []string{said("book", 0, 1, 0.8), said("book a", 0, 1.2, 0.8), "ask 1.5", said("Book a table.", 0, 1.5, 0.9, final, finalize)}, "book|book a|Book a table.!"},
		{"segments are joined", []string{said("Book a", 0, 1, 0.9, final), said("tab", 1, 0.5, 0.9), "ask 2", said("table.", 1, 1, 0.9, final, finalize)}, "Book a|Book a tab|Book a table.!"},
		{"an answer without words", []string{said("Book a table.", 0, 1.4, 0.9, final), "ask 1.5", said("", 1.4, 0.1, 0, final, finalize)}, "Book a table.|Book a table.!"},
		{"nothing was heard", []string{said("", 0, 1, 0), "ask 1.5", said("", 0, 1.5, 0, final, finalize)}, "!"},
		{"nothing was written", []string{"ask 0"}, "!"},
		{"the service ends it", []string{said("Yes.", 0, 1, 0.9, final, speech)}, "Yes.!"},
		{"silence is no result", []string{said("", 0, 1, 0, final, speech), said("", 1, 1, 0)}, ""},
		{"asked when it has ended", []string{said("Yes.", 0, 1, 0.9, final, speech), "ask 1"}, "Yes.!|!"},
		{"asked for more than it has ended", []string{said("Yes.", 0, 1, 0.9, final, speech), "ask 1.3", said("", 1, 0.3, 0, final, finalize)}, "Yes.!|!"},
		{"the end comes as the answer", []string{"ask 1.5", said("Yes.", 0, 1.5, 0.9, final, speech), said("", 1.5, 0.1, 0, final, finalize)}, "Yes.!"},
		{"an early end is no answer", []string{"ask 1.5", said("Yes.", 0, 1, 0.9, final, speech), said("No.", 1, 0.5, 0.9, final, finalize)}, "Yes.|Yes. No.!"},
		{"a gap between words", []string{said("Yes.", 0, 1, 0.9, final), `{"type":"UtteranceEnd","channel":[0,1],"last_word_end":1.0}`, `{"type":"UtteranceEnd"}`}, "Yes.|Yes.!"},
		{"two questions, two answers", []string{"ask 1", "ask 2", said("One.", 0, 1, 0.9, final, finalize), said("Two.", 1, 1, 0.9, final, finalize)}, "One.!|Two.!"},
		{"one answer for both", []string{said("One.", 0, 1, 0.9, final), "ask 1", "ask 2", said("Two.", 1.1, 0.9, 0.9, final, finalize)}, "One.|One.!|Two.!"},
		{"it goes on without an answer", []string{said("One.", 0, 1, 0.9, final), "ask 1", said("Two.", 1, 1, 0.9, final)}, "One.|One.!|Two."},
		{"no answer, but it is there", []string{said("one", 0, 1, 0.9), "ask 1.5", said("one", 0, 2, 0.9), "wait 499ms", "wait 1ms"}, "one|one!"},
		{"no answer, and far behind", []string{said("one", 0, 1, 0.9), "ask 5", "wait 1s", said("one two", 0, 2, 0.9), "wait 1s", said("one two", 0, 2.5, 0.9), "wait 999ms", "wait 1ms"}, "one|one two|one two!"},
		{"not a word", []string{said("one", 0, 1, 0.9), "ask 1.5", "sent 4", "wait 1499ms", "wait 1ms"}, "one|stalled"},
		{"not a word, but nothing to say", []string{said("one", 0, 1, 0.9), "ask 1.5", "sent 1.5", "wait 1499ms", "wait 1ms"}, "one|one!"},
		{"not a word of a lot", []string{said("one", 0, 1, 0.9), "ask 3", "sent 3", "wait 1500ms"}, "one|stalled"},
		{"late words of a result that is given", []string{said("one", 0, 1, 0.9), "ask 1.5", said("one", 0, 2, 0.9), "wait 500ms", words(0.5, 1.2, "One.")}, "one|one!"},
		{"late words and new ones", []string{said("one", 0, 1, 0.9), "ask 1.5", said("one", 0, 2, 0.9), "wait 500ms", words(0.5, 2.5, "One.", "Two.")}, "one|one!|Two."},
		{"late, without words' times", []string{said("one", 0, 1, 0.9), "ask 1.5", said("one", 0, 2, 0.9), "wait 500ms", said("One.", 0, 2, 0.9, final)}, "one|one!"},
		{"a late answer is not that to the next question", []string{said("one", 0, 1, 0.9), "ask 1.5", said("one", 0, 2, 0.9), "wait 500ms", said("two", 2, 1, 0.9), "ask 4",
			said("One.", 0, 1.5, 0.9, final, finalize), said("two three", 2, 2, 0.9), said("Two three.", 2, 2, 0.9, final, finalize)}, "one|one!|two|two three|Two three.!"},
		{"nor is one that was not needed", []string{"ask 1", said("One.", 0, 1.2, 0.9, final, speech), "ask 3", said("", 1.2, 0.1, 0, final, finalize), said("Two.", 1.5, 1.5, 0.9, final, finalize)},
			"One.!|Two.!"},
		{"an answer that never came is not waited for", []string{said("one", 0, 1, 0.9), "ask 1.5", said("one", 0, 2, 0.9), "wait 500ms", "ask 4", said("Two.", 2, 2, 0.9, final, finalize)}, "one|one!|Two.!"},
		{"other messages", []string{`{"type":"Metadata"}`, `{"type":"SpeechStarted","channel":[0],"timestamp":1}`, `{"type":"Whatever","x":{}}`}, ""},
		{"an unsure one", []string{"ask 1", said("mumble", 0, 1, 0.1, final, finalize)}, "!"},
		{"no alternatives", []string{"ask 1", `{"type":"Results","is_final":true,"from_finalize":true,"start":0,"duration":1,"channel":{"alternatives":[]}}`}, "!"},
		{"white space", []string{said(" \n", 0, 1, 0.9), "ask 1", said(" Yes.\n\x00\u202e no ", 0, 1, 0.9, final, finalize)}, "Yes. no!"},
		{"times from nowhere", []string{"sent 1", said("one", 1e9, 1e9, 0.9, final, speech), "sent 2", said("two", 1, 1, 0.9, final, speech)}, "one!|two!"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := hearing{cfg: DefaultConfig()}
			if got := strings.Join(script(t, &h, tt.steps...), "|"); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// The words have their place in the stream, whatever connection they come over, and
// whatever was dropped of it.
func TestWordTimes(t *testing.T) {
	h := hearing{cfg: DefaultConfig()}
	h.connected(time.Time{}, 160000) // 10 s
	h.sent = 1 << 40
	h.splice(32000, 160000+32000+16000) // a second is missing behind the second one
	m, err := parse([]byte(`{"type":"Results","is_final":true,"speech_final":true,"start":1,"duration":3,"channel":{"alternatives":[{"transcript":"one two","confidence":0.8,
		"words":[{"word":"one","start":1.5,"end":1.75},{"word":"two","start":2.5,"end":3,"punctuated_word":"two."},{"word":""}]}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := h.take(m, time.Time{})
	want := []stt.Result{{Text: "one two", Final: true, Confidence: 0.8, Words: []stt.Word{
		{Text: "one", Start: 11500 * time.Millisecond, End: 11750 * time.Millisecond},
		{Text: "two.", Start: 13500 * time.Millisecond, End: 14 * time.Second},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestConfidenceIsThatOfTheWords(t *testing.T) {
	h := hearing{cfg: DefaultConfig()}
	h.connected(time.Time{}, 0)
	h.sent = 1 << 40
	for _, s := range []string{
		`{"type":"Results","is_final":true,"start":0,"duration":1,"channel":{"alternatives":[{"transcript":"a b c","confidence":1.5,"words":[{"word":"a"},{"word":"b"},{"word":"c"}]}]}}`,
		`{"type":"Results","is_final":true,"speech_final":true,"start":1,"duration":1,"channel":{"alternatives":[{"transcript":"d","confidence":"0.6","words":[{"word":"d"}]}]}}`,
	} {
		m, err := parse([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		if out := h.take(m, time.Time{}); out[0].Final && math.Abs(out[0].Confidence-0.9) > 1e-9 {
			t.Errorf("%v", out[0].Confidence)
		}
	}
}

// BR-140: what never ends is given in pieces, and what is kept is bounded.
func TestEndlessSpeech(t *testing.T) {
	h := hearing{cfg: DefaultConfig()}
	h.connected(time.Time{}, 0)
	h.sent = 1 << 40
	finals := 0
	for i := range 3000 {
		m, err := parse([]byte(said(strings.Repeat("la ", 40), float64(i), 1, 0.9, "is_final")))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range h.take(m, time.Time{}) {
			if r.Final {
				finals++
			}
			if len(r.Text) > mostBytes+200 {
				t.Fatalf("%d bytes", len(r.Text))
			}
		}
	}
	if finals < 50 || len(h.segments) > mostSegments {
		t.Errorf("%d finals, %d segments", finals, len(h.segments))
	}
	for range 1000 {
		h.splice(1, 1)
	}
	if len(h.splices) > 100 {
		t.Errorf("%d splices", len(h.splices))
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "null", "[]", "{", `{"type":1}`, `{}`, `{"type":"Results"}`, `{"type":"Results","channel":[0,1]}`, "<html>", "\xff"} {
		if _, err := parse([]byte(bad)); !errors.Is(err, errGarbled) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for in, want := range map[string]string{
		`{"type":"Error","description":"d","message":"m"}`: "d",
		`{"type":"Error","err_code":"X","err_msg":"e"}`:    "e",
		`{"type":"Error","message":"m","variant":"v"}`:     "m",
		`{"type":"Error"}`: "an error without a word",
	} {
		if m, err := parse([]byte(in)); err != nil || m.failure() != want {
			t.Errorf("%s: %q, %v", in, m.failure(), err)
		}
	}
}

// FuzzHearing: whatever a service says, whenever: as many final results are given as
// were asked for, none holds what the contract forbids, and nothing grows.
func FuzzHearing(f *testing.F) {
	f.Add(uint64(1), []byte(said("hi", 0, 1, 0.9, "is_final", "from_finalize"))) //nolint:gosec // a seed
	f.Add(uint64(2), []byte(`{"type":"Results","start":-1,"duration":1e300,"is_final":true,"channel":{"alternatives":[{"transcript":"\u0000 a","confidence":-3,"words":[{"word":"a","start":5,"end":1}]}]}}`))
	f.Add(uint64(3), []byte("{\"type\":\"UtteranceEnd\"}\n{\"type\":\"Results\",\"channel\":{}}"))
	f.Fuzz(func(t *testing.T, seed uint64, lines []byte) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := hearing{cfg: DefaultConfig()}
		now := time.Unix(0, 0)
		h.connected(now, 0)
		messages := strings.Split(string(lines), "\n")
		asks, finals, position := 0, 0, int64(0)
		check := func(results []stt.Result) {
			for _, r := range results {
				if r.Final {
					finals++
				}
				if r.Text != strings.TrimSpace(r.Text) || !(r.Confidence >= 0 && r.Confidence <= 1) || len(r.Text) > 3*maxText || !r.Final && r.Text == "" {
					t.Fatalf("%+v", r)
				}
				for _, w := range r.Words {
					if w.Text == "" || w.Start < 0 || w.End < w.Start {
						t.Fatalf("word %+v", w)
					}
				}
			}
		}
		for range 200 {
			now = now.Add(time.Duration(random.IntN(400)) * time.Millisecond)
			position += random.Int64N(16000)
			h.sent = max(h.sent, position-random.Int64N(8000))
			switch random.IntN(6) {
			case 0:
				asks++
				check(h.ask(position))
				h.asked(now)
			case 1:
				results, stalled := h.expire(now)
				check(results)
				if stalled {
					h.connected(now, min(h.heard, position))
					h.asked(now)
				}
			case 2:
				h.splice(random.Int64N(position+1), position)
			default:
				m, err := parse([]byte(messages[random.IntN(len(messages))]))
				if err == nil {
					check(h.take(m, now))
				}
			}
			if len(h.segments) > mostSegments+1 && len(h.asks) == 0 || len(h.splices) > 101 {
				t.Fatalf("%d segments, %d splices", len(h.segments), len(h.splices))
			}
		}
		for len(h.asks) > 0 {
			h.connected(now, h.asks[0].position)
			h.asked(now)
			now = now.Add(h.cfg.Stall)
			results, stalled := h.expire(now)
			check(results)
			if stalled {
				t.Fatal("stalled, though there is nothing to be said")
			}
		}
		if finals < asks {
			t.Fatalf("%d final results of %d", finals, asks)
		}
	})
}

func TestTape(t *testing.T) {
	ramp := func(a, n int) []int16 {
		pcm := make([]int16, n)
		for i := range pcm {
			pcm[i] = int16(a + i)
		}
		return pcm
	}
	t.Run("sends all, once, in order", func(t *testing.T) {
		tp := newTape(8000, time.Second)
		tp.write(ramp(0, 100))
		b := tp.next(nil, 60, tp.end())
		b = tp.next(b, 60, tp.end())
		if len(b) != 200 || b[198] != 99 || tp.next(nil, 60, tp.end()) != nil || tp.sent != 100 {
			t.Errorf("%d bytes, sent %d", len(b), tp.sent)
		}
		tp.write(ramp(100, 10))
		if b := tp.next(nil, 60, 105); len(b) != 10 || b[0] != 100 {
			t.Errorf("% x", b)
		}
	})
	t.Run("again from the last final", func(t *testing.T) {
		tp := newTape(8000, time.Second)
		tp.write(ramp(0, 4000))
		tp.next(nil, 4000, 4000)
		tp.settle(1000, false)
		tp.again()
		if tp.sent != 1000 {
			t.Error(tp.sent)
		}
		for range 4 {
			tp.write(ramp(0, 8000))
		}
		tp.again()
		if tp.sent != tp.start || tp.end()-tp.start > 16000 || tp.end() != 36000 {
			t.Errorf("%d of %d..%d", tp.sent, tp.start, tp.end())
		}
	})
	t.Run("what is lost", func(t *testing.T) {
		for _, c := range []struct {
			name                string
			before, silent, say int // seconds: written, with a voice behind, how much of it
			want                bool
		}{
			{"silence of before", 60, 0, 1, false},
			{"the beginning of a voice", 1, 0, 10, true},
			{"nobody speaks", 60, 0, 0, false},
		} {
			tp := newTape(8000, 3*time.Second)
			for range c.before {
				tp.write(make([]int16, 8000))
			}
			if c.say > 0 {
				tp.begin()
			}
			for range c.say {
				tp.write(make([]int16, 8000))
			}
			if tp.lost != c.want || len(tp.pcm) > 4*8000 {
				t.Errorf("%s: lost %v, %d samples", c.name, tp.lost, len(tp.pcm))
			}
		}
	})
	t.Run("no allocation", func(t *testing.T) {
		tp := newTape(16000, 2*time.Second)
		pcm := make([]int16, 320)
		for range 500 {
			tp.write(pcm)
		}
		if n := testing.AllocsPerRun(1000, func() { tp.write(pcm) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
