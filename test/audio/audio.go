// Package audio judges sound in tests: how loud it is, whether it is the tone or
// the sentence that was played, when speech begins and ends, and how long a
// conversation made its caller wait. All of it is arithmetic on samples or on
// packet marks; nothing here opens a file, a socket or a clock.
//
// Levels are in dBFS of the root mean square, where a square wave at full scale
// is 0 dB, so a full-scale sine is -3 dB. Silence is Floor.
package audio

import (
	"math"
	"time"
)

// Floor is the level in dBFS given to digital silence. It is below the level of
// one least significant bit, so nothing audible is ever reported as Floor.
const Floor = -96.0

// Loud is the level in dBFS above which a packet counts as speech, the threshold
// that all latencies of this project are quoted for.
const Loud = -45.0

// Level is the level of pcm in dBFS, Floor when it is empty or silent.
func Level(pcm []int16) float64 {
	if len(pcm) == 0 {
		return Floor
	}
	sum := 0.0
	for _, v := range pcm {
		sum += float64(v) * float64(v)
	}
	return decibel(math.Sqrt(sum/float64(len(pcm))) / 32768)
}

// Peak is the level of the largest sample in dBFS.
func Peak(pcm []int16) float64 {
	top := 0.0
	for _, v := range pcm {
		top = max(top, math.Abs(float64(v)))
	}
	return decibel(top / 32768)
}

// ToneShare tells how much of pcm is the tone hz: of all 20 ms frames louder than
// Loud it is the share in which the tone carries at least 80 % of the energy.
// frames is how many frames were loud; without any the share is 0. rate is in Hz.
func ToneShare(pcm []int16, rate int, hz float64) (share float64, frames int) {
	size := rate / 50
	if size == 0 {
		return 0, 0
	}
	hits := 0
	for ; len(pcm) >= size; pcm = pcm[size:] {
		frame := pcm[:size]
		if Level(frame) < Loud {
			continue
		}
		frames++
		if goertzel(frame, rate, hz) >= 0.8 {
			hits++
		}
	}
	if frames == 0 {
		return 0, 0
	}
	return float64(hits) / float64(frames), frames
}

// goertzel is the share of frame's energy found at hz: 1 for a pure tone with a
// whole number of periods, about 0 for a tone elsewhere.
func goertzel(frame []int16, rate int, hz float64) float64 {
	coefficient := 2 * math.Cos(2*math.Pi*hz/float64(rate))
	var s1, s2, energy float64
	for _, v := range frame {
		x := float64(v)
		energy += x * x
		s1, s2 = x+coefficient*s1-s2, s1
	}
	if energy == 0 {
		return 0
	}
	power := s1*s1 + s2*s2 - coefficient*s1*s2
	return 2 * power / (float64(len(frame)) * energy)
}

func decibel(amplitude float64) float64 {
	if amplitude <= 0 {
		return Floor
	}
	return max(Floor, 20*math.Log10(amplitude))
}

// Span is a stretch of time, from the first to the last sound of something.
type Span struct {
	Start, End time.Duration
}

// Length is how long the span lasts.
func (s Span) Length() time.Duration { return s.End - s.Start }

// Rule says what makes a stretch of sound one utterance.
type Rule struct {
	// Threshold is the level in dBFS above which sound counts.
	Threshold float64
	// Hang is how long a pause inside one utterance may last.
	Hang time.Duration
	// Shortest is the length below which a sound is ignored as a click.
	Shortest time.Duration
}

// DefaultRule is the rule that the project's latencies are quoted for: -45 dBFS,
// pauses up to 300 ms inside an utterance, clicks under 60 ms ignored.
func DefaultRule() Rule {
	return Rule{Threshold: Loud, Hang: 300 * time.Millisecond, Shortest: 60 * time.Millisecond}
}

// Speech finds the utterances in pcm at rate Hz, looking at 10 ms at a time.
func Speech(pcm []int16, rate int, rule Rule) []Span {
	const step = 10 * time.Millisecond
	size := rate / 100
	if size == 0 {
		return nil
	}
	var marks []Mark
	for at := time.Duration(0); len(pcm) >= size; at += step {
		marks = append(marks, Mark{At: at, Level: Level(pcm[:size])})
		pcm = pcm[size:]
	}
	spans := Utterances(marks, rule)
	for i := range spans {
		spans[i].End += step // a mark is the beginning of its 10 ms
	}
	return spans
}
