package e2e

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/media/g711"
	"parley/test/audio"
	"parley/test/phone"
)

// The Tone voice says each word as a tone whose height is the word's place in its
// sentence. So the capture of a phone can be read: which words went over the wire,
// and where the last one was cut.

const (
	wordTime = 250 * time.Millisecond // a word and its gap
	toneTime = 240 * time.Millisecond
	// delay is what the resampler to 8 kHz holds a sound back.
	delay  = 4 * time.Millisecond
	packet = 20 * time.Millisecond
)

// captured is the speech in a stretch of a phone's log.
type captured struct {
	pcm         []int16 // of the loud packets, joined: what was played of the reply
	first, last time.Duration
	torn        bool // packets were lost or skipped: the places of words are not known
}

// capture joins the loud packets that arrived within a stretch of time.
func capture(t *testing.T, c *phone.Call, from, to time.Duration) captured {
	t.Helper()
	var out captured
	var before phone.Packet
	var gaps []time.Duration
	decoder, err := g711.PCMU().NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Log().Packets() {
		if p.Direction != phone.Heard || !p.Audio {
			continue
		}
		if before.Audio && (p.Sequence != before.Sequence+1 || p.Timestamp-before.Timestamp > 4*160) {
			gaps = append(gaps, p.At)
		}
		before = p
		if p.At < from || p.At > to || p.Level < audio.Loud {
			continue
		}
		if len(out.pcm) == 0 {
			out.first = p.At
		}
		out.last = p.At
		if out.pcm, err = decoder.Decode(out.pcm, p.Payload); err != nil {
			t.Fatal(err)
		}
	}
	// Speech that is too late is dropped: what was lost may lie beside what was heard.
	out.torn = slices.ContainsFunc(gaps, func(at time.Duration) bool {
		return len(out.pcm) > 0 && at > out.first-beside && at < out.last+beside
	})
	return out
}

// beside is how near to speech a gap may have lost some of it.
const beside = 300 * time.Millisecond

// heard reads how many words of a reply are whole in the capture. It fails when a
// sound is not the word that the reply has in that place.
func (s captured) heard(reply string) (text string, err error) {
	all := words(reply)
	place, n := 0, 0
	length := time.Duration(len(s.pcm)) * time.Second / 8000
	for ; n < len(all); n++ {
		begin := time.Duration(n) * wordTime
		if begin+delay+toneTime > length {
			break
		}
		if got := height(s.pcm[at(begin+delay+packet):at(begin+toneTime-packet)]); got != place {
			return "", fmt.Errorf("word %d (%s) sounds like the word in place %d of a sentence, not %d", n, all[n], got, place)
		}
		place++
		if strings.HasSuffix(all[n], ".") {
			place = 0
		}
	}
	if extra := length - time.Duration(len(all))*wordTime; n == len(all) && extra > 3*packet {
		return "", fmt.Errorf("%v of speech after the last word", extra)
	}
	return strings.Join(all[:n], " "), nil
}

func at(d time.Duration) int { return int(d * 8000 / time.Second) }

// height is the place in a sentence whose tone is the strongest in pcm.
func height(pcm []int16) int {
	best, strongest := -1, 0.0
	for i := range 32 {
		if p := power(pcm, 400+50*float64(i)); p > strongest {
			best, strongest = i, p
		}
	}
	return best
}

// power is Goertzel's algorithm.
func power(pcm []int16, hz float64) float64 {
	c := 2 * math.Cos(2*math.Pi*hz/8000)
	var a, b float64
	for _, v := range pcm {
		a, b = float64(v)+c*a-b, a
	}
	return a*a + b*b - c*a*b
}

func TestTheToneReaderSeesAWrongWord(t *testing.T) {
	reply := numbered("word", 3, 2)
	tone := func(place int, length time.Duration) (pcm []int16) {
		for i := range at(wordTime) {
			v := 0.0
			if i < at(length) {
				v = 8000 * math.Sin(2*math.Pi*(400+50*float64(place))*float64(i)/8000)
			}
			pcm = append(pcm, int16(v))
		}
		return pcm
	}
	var right, wrong []int16
	for _, place := range []int{0, 1, 2, 0, 1} {
		right = append(right, tone(place, toneTime)...)
		wrong = append(wrong, tone(place%3%2, toneTime)...)
	}
	for _, c := range []struct {
		name   string
		pcm    []int16
		want   string
		broken bool
	}{
		{"all", right, reply, false},
		{"cut in the third word", right[:at(600*time.Millisecond)], "Word0 word1", false},
		{"cut at the end of the second", right[:at(490*time.Millisecond+delay)], "Word0 word1", false},
		{"cut just before that", right[:at(490*time.Millisecond)], "Word0", false},
		{"nothing", nil, "", false},
		{"other words", wrong, "", true},
		{"more words", append(right, right...), "", true},
	} {
		got, err := captured{pcm: c.pcm}.heard(reply)
		if got != c.want || (err != nil) != c.broken {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}
