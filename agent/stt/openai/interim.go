package openai

import (
	"context"
	"time"

	"parley/agent/stt"
)

// interim transcribes an utterance that is still being spoken, one request at a time.
// It belongs to the stream's goroutine.
type interim struct {
	s      *stream
	u      *spoken
	step   int // samples; 0: never
	next   int // so many samples are wanted for the next request
	at     int // so many were measured
	meter  meter
	frame  []int16
	said   string
	busy   bool
	done   chan heard
	cancel context.CancelFunc
	ctx    context.Context
}

// heard is the answer to one of an interim's requests.
type heard struct {
	transcript
	err error
}

func (s *stream) newInterim(u *spoken) *interim {
	i := &interim{s: s, u: u, done: make(chan heard, 1), cancel: func() {}}
	if s.r.cfg.Interims > 0 {
		i.step = int(s.r.cfg.Interims * time.Duration(s.r.cfg.Rate) / time.Second)
		i.next = i.step
		i.meter = newMeter(s.r.cfg.MinLevel)
		i.frame = make([]int16, s.r.cfg.Rate/50)
		i.ctx, i.cancel = context.WithCancel(s.ctx)
	}
	return i
}

// consider sends a request if it is time to, and there is a voice.
func (i *interim) consider(samples int) {
	if i.step == 0 || i.busy || samples < i.next {
		return
	}
	if !i.voiced() {
		i.next = samples + i.step
		return
	}
	pcm := i.s.in.Append(nil, i.u)
	i.next = samples + i.step
	i.busy = true
	go func() {
		ctx, cancel := context.WithTimeoutCause(i.ctx, i.s.r.cfg.Timeout, errLate)
		defer cancel()
		t, err := i.s.r.transcribe(ctx, pcm, i.s.language, i.u.Expect, nil)
		i.done <- heard{t, err}
	}()
}

// voiced measures what is new of the utterance, until there is a voice.
func (i *interim) voiced() bool {
	for !i.meter.voiced() {
		pcm, from, _, lost := i.s.in.Take(i.u, i.at, i.frame)
		if lost {
			i.s.report(stt.Result{Err: ErrDropped})
		}
		if len(pcm) < len(i.frame) {
			return false
		}
		i.at = from + len(pcm)
		i.meter.add(pcm)
	}
	return true
}

// take reports an answer, if it says anything new. After an error there are no more:
// the final transcript is what counts.
func (i *interim) take(t heard) {
	i.busy = false
	switch {
	case t.err != nil:
		i.step = 0
		i.s.report(stt.Result{Err: t.err})
	case t.text != "" && t.text != i.said && (t.confidence == 0 || t.confidence >= i.s.r.cfg.Reject):
		i.said = t.text
		i.s.report(stt.Result{Text: t.text, Confidence: t.confidence})
	}
}

// stop gives up the request that is under way, and waits for it.
func (i *interim) stop() {
	i.cancel()
	if i.busy {
		<-i.done
	}
}
