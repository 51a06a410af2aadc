//go:build cgo

package flite

/*
#cgo CFLAGS: -I/usr/include/flite
#cgo LDFLAGS: -lflite_cmu_us_rms -lflite_cmu_us_slt -lflite_cmu_us_kal -lflite_usenglish -lflite_cmulex -lflite -lm
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"

	"parley/agent/tts"
)

// lead is the silence that is left in front of the first word. The voices begin
// with 150 to 250 ms of it, which the caller would wait for in vain.
const lead = 30 * time.Millisecond

// maxChunk is the longest stretch given to out at once.
const maxChunk = 100 * time.Millisecond

// The library keeps its voices in static variables, one of each, so their locks
// are per process too. A lock is a channel: waiting for it obeys a context, and
// those who wait are served in order.
var (
	initialise sync.Once
	locks      = map[string]chan struct{}{
		"rms": make(chan struct{}, 1), "slt": make(chan struct{}, 1), "kal": make(chan struct{}, 1),
	}
)

// Voice is one of flite's voices. It implements tts.Voice and is safe for
// concurrent use: a voice synthesises one piece of text at a time, about 70 times
// faster than it is spoken, and is free for others while its sound is taken.
type Voice struct {
	voice   *C.cst_voice
	lock    chan struct{}
	stretch float64
	rate    int
}

var _ tts.Voice = (*Voice)(nil)

// New makes a voice. Voices of the same name share the library's.
func New(cfg Config) (*Voice, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	lock := locks[cfg.Voice]
	lock <- struct{}{} // registering is not safe for concurrent use either
	defer func() { <-lock }()
	initialise.Do(func() { C.flite_init() })
	name := C.CString(cfg.Voice)
	defer C.free(unsafe.Pointer(name))
	v := C.parley_voice(name)
	if v == nil {
		return nil, fmt.Errorf("flite: voice %q cannot be loaded", cfg.Voice)
	}
	rate := int(C.parley_voice_rate(v))
	if cfg.Voice == "kal" {
		rate = 8000
	}
	return &Voice{voice: v, lock: lock, stretch: 1 / cfg.Speed, rate: rate}, nil
}

// Rate implements tts.Voice: 16000, or 8000 for kal.
func (v *Voice) Rate() int { return v.rate }

// Speak implements tts.Voice. Texts of more than MaxText runes are refused with
// ErrTooLong, texts in scripts an English voice cannot read with ErrLanguage.
// Accented letters and typographic signs are read as their nearest English
// spelling. A word without sound of its own, such as a dash, is reported as empty
// at the place where it would be.
func (v *Voice) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	pieces, err := read(text)
	if err != nil {
		return err
	}
	var offset time.Duration
	for i := range pieces {
		n, err := v.piece(ctx, &pieces[i], i == 0, offset, out)
		if err != nil {
			return err
		}
		offset += time.Duration(n) * time.Second / time.Duration(v.rate)
	}
	return ctx.Err()
}

// piece speaks one piece, which begins at offset of the whole. It returns how many
// samples it gave.
func (v *Voice) piece(ctx context.Context, p *piece, first bool, offset time.Duration, out func(tts.Chunk) error) (int, error) {
	select {
	case v.lock <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	s := &synthesis{piece: p, rate: v.rate, trim: first, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		defer func() { <-v.lock }()
		s.run(v)
	}()
	n, err := s.deliver(ctx, offset, out)
	s.stop()
	<-s.done // a stopped synthesis ends at its next 16 ms of sound
	return n, err
}

// synthesis is one run of the library, whose sound grows on one goroutine while
// another takes it.
type synthesis struct {
	piece *piece
	rate  int
	trim  bool
	wake  chan struct{}
	done  chan struct{}

	mu      sync.Mutex
	pcm     []int16
	words   []tts.Word
	begun   bool
	skip    int // samples of leading silence still to be left out
	stopped bool
	ended   bool
	err     error
}

// run is the library's side.
func (s *synthesis) run(v *Voice) {
	h := cgo.NewHandle(s)
	defer h.Delete()
	text := C.CString(s.piece.text)
	defer C.free(unsafe.Pointer(text))
	rc := C.parley_speak(v.voice, text, C.float(v.stretch), C.uintptr_t(h))
	s.mu.Lock()
	if rc != 0 {
		s.err = errors.New("flite: the synthesis failed")
	}
	s.ended = true
	s.mu.Unlock()
	s.signal()
}

//export parleySound
func parleySound(samples *C.short, n C.int, u *C.cst_utterance, handle C.uintptr_t) C.int {
	s := cgo.Handle(handle).Value().(*synthesis)
	if s.sound(unsafe.Slice((*int16)(unsafe.Pointer(samples)), int(n)), u) {
		return 1
	}
	return 0
}

// sound takes n new samples from the library; false stops it.
func (s *synthesis) sound(pcm []int16, u *C.cst_utterance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	if !s.begun {
		s.begun = true
		if !s.begin(u) {
			s.stopped = true
			return false
		}
	}
	k := min(s.skip, len(pcm))
	s.skip -= k
	s.pcm = append(s.pcm, pcm[k:]...)
	s.signal()
	return true
}

// begin reads the words' times, which are known before the first sound; false when
// no word has any.
func (s *synthesis) begin(u *C.cst_utterance) bool {
	tokens := make([]C.parley_token, len(s.piece.text)+1)
	n := int(C.parley_tokens(u, &tokens[0], C.int(len(tokens))))
	if n == 0 {
		return false
	}
	times := make([]times, n)
	for i, t := range tokens[:n] {
		times[i].behind = int(t.end_pos)
		times[i].start = time.Duration(float64(t.start) * float64(time.Second))
		times[i].end = time.Duration(float64(t.end) * float64(time.Second))
	}
	var shift time.Duration
	if s.trim {
		shift = max(0, times[0].start-lead)
		s.skip = int(shift * time.Duration(s.rate) / time.Second)
	}
	s.words = s.piece.place(times, shift)
	return true
}

func (s *synthesis) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *synthesis) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
}

// deliver gives the sound to out as it grows.
func (s *synthesis) deliver(ctx context.Context, offset time.Duration, out func(tts.Chunk) error) (int, error) {
	given, limit := 0, int(maxChunk*time.Duration(s.rate)/time.Second)
	var chunk []int16 // out may change it while the library's side copies s.pcm
	for {
		if err := ctx.Err(); err != nil {
			return given, err
		}
		s.mu.Lock()
		pcm, ended, err := s.pcm[given:], s.ended, s.err
		words := s.words
		s.mu.Unlock()
		if err != nil {
			return given, err
		}
		if len(pcm) == 0 {
			if ended {
				return given, nil
			}
			select {
			case <-s.wake:
			case <-ctx.Done():
			}
			continue
		}
		n := min(limit, len(pcm))
		end := time.Duration(given+n) * time.Second / time.Duration(s.rate)
		last := ended && n == len(pcm)
		k := 0
		for k < len(words) && (last || words[k].Start < end) {
			k++
		}
		chunk = append(chunk[:0], pcm[:n]...)
		c := tts.Chunk{PCM: chunk, Words: shifted(words[:k], offset)}
		s.mu.Lock()
		s.words = s.words[k:]
		s.mu.Unlock()
		given += n
		if err := out(c); err != nil {
			return given, err
		}
	}
}
