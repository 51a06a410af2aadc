package cascade

import (
	"context"
	"sync"
	"time"

	"parley/agent/tts"
)

const (
	// toneEvery is from one soft tone to the next.
	toneEvery = 2 * time.Second
	// phraseTime is how long the voice may take to make the filler; then the tone is
	// played in its place.
	phraseTime = 2 * time.Second
	// fillAhead is how much of a filler may be queued: so soon does it end.
	fillAhead = 100 * time.Millisecond
	// fillPiece is what is queued at a time.
	fillPiece = 40 * time.Millisecond
	// heldBack is how much of what was said the call holds back at most until it is told
	// that no more comes: a packet, and what its resampler delays.
	heldBack = 70 * time.Millisecond
	// longestWord bounds how long a filler goes on to end with a whole word.
	longestWord = time.Second
)

// filler is what silences are filled with, in all calls of an agent.
type filler struct {
	tone []int16

	mu     sync.Mutex
	phrase sound // made once
}

// sound is samples, and where its words end.
type sound struct {
	pcm  []int16
	ends []int
}

// said is the filler's phrase as sound. When the voice cannot make it in time there is
// none, and it is tried again the next time.
func (f *filler) said(ctx context.Context, voice tts.Voice, text string) sound {
	f.mu.Lock()
	made := f.phrase
	f.mu.Unlock()
	if made.pcm != nil {
		return made
	}
	ctx, cancel := context.WithTimeout(ctx, phraseTime)
	defer cancel()
	err := voice.Speak(ctx, text, func(c tts.Chunk) error {
		made.pcm = append(made.pcm, c.PCM...)
		for _, w := range c.Words {
			made.ends = append(made.ends, int(int64(w.End)*int64(voice.Rate())/int64(time.Second)))
		}
		return ctx.Err()
	})
	if err != nil || len(made.pcm) == 0 {
		return sound{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phrase = made
	return made
}

// silence is the wait for the next sound of a reply. The voice's worker begins and ends
// it; between, a goroutine fills it when it gets long.
type silence struct {
	s      *session
	r      *reply
	ctx    context.Context    // until it is over
	stop   context.CancelFunc // nil: there is sound
	done   chan struct{}
	from   time.Duration // where it began
	length time.Duration // of what was played, once done
}

// begin says that what was said so far ends at a position, and no sound comes for now.
func (q *silence) begin(at time.Duration) {
	if q.s.cfg.FillerAfter <= 0 || q.stop != nil {
		return
	}
	q.ctx, q.stop = context.WithCancel(q.r.ctx)
	q.done, q.from, q.length = make(chan struct{}), at, 0
	go func() {
		defer close(q.done)
		defer q.s.rescue()
		f := filling{silence: q, at: at}
		f.run()
		q.length = f.at - q.from
	}()
}

// end says that sound comes now, and gives the position at which it begins.
func (q *silence) end(at time.Duration) time.Duration {
	if q.stop == nil {
		return at
	}
	q.stop()
	<-q.done
	q.stop = nil
	return at + q.length
}

// fillWait fills the time in which the recogniser is waited for, when the caller has
// finished: who is connected to it anew, or has to ask another one, takes long.
func (s *session) fillWait() {
	switch waits := s.reply == nil && s.turns.Open() && s.turns.Waiting() && !s.closing && !s.over && !s.screens(); {
	case waits && s.waiting == nil:
		s.waiting = &silence{s: s, r: newReply(s.life, prompt, s.cfg.Language, "")}
		s.waiting.begin(s.call.Speaker.Played())
	case !waits:
		s.endWait()
	}
}

// endWait ends that, and says where on the timeline its sound ends; 0: there is none.
func (s *session) endWait() time.Duration {
	q := s.waiting
	if q == nil {
		return 0
	}
	s.waiting = nil
	at := q.end(q.from)
	q.r.cancel(nil)
	return at
}

// filling is a silence being filled.
type filling struct {
	*silence
	at time.Duration // the position where it is
}

// run fills the silence until it is over.
func (f *filling) run() {
	s := f.s
	if !f.settles() || !f.wait(s.cfg.FillerAfter) {
		return
	}
	var phrase time.Time // when it is due
	for {
		now := time.Now()
		x, next := sound{pcm: s.filler.tone}, now.Add(toneEvery)
		if s.cfg.Filler != "" && !now.Before(phrase) {
			phrase = now.Add(s.cfg.FillerEvery)
			if made := s.filler.said(f.ctx, s.cfg.TTS, s.cfg.Filler); len(made.pcm) > 0 {
				x, next = made, next.Add(made.length(s.cfg.TTS.Rate()))
			}
		}
		if !f.play(x) {
			return
		}
		if len(s.filler.tone) == 0 {
			if next = phrase; s.cfg.Filler == "" {
				return
			}
		}
		if !f.wait(max(time.Until(next), frameTime)) {
			return
		}
	}
}

// settles waits until all that was said before was heard: then the silence begins. The
// end of it, less than a packet, is held back by the call until more comes; when nothing
// else is left, that is sent. false: the silence is over.
func (f *filling) settles() bool {
	before := time.Duration(-1)
	for {
		played := f.s.call.Speaker.Played()
		left := f.at - played
		if left <= slack {
			return true
		}
		if left < heldBack && played == before {
			f.s.call.Speaker.Flush()
		}
		before = played
		if !f.wait(max(left, frameTime)) {
			return false
		}
	}
}

// wait waits for d; false: the silence is over.
func (f *filling) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.ctx.Done():
		return false
	}
}

// play plays a sound, never much ahead of what is heard; false: the silence is over, for
// which a word is ended.
func (f *filling) play(x sound) bool {
	rate := f.s.cfg.TTS.Rate()
	length := func(samples int) time.Duration { return sound{pcm: x.pcm[:samples]}.length(rate) }
	piece := int(int64(rate) * int64(fillPiece) / int64(time.Second))
	begun := f.at
	defer f.s.call.Speaker.Flush()
	for i := 0; i < len(x.pcm); {
		n := min(i+piece, len(x.pcm))
		for f.at-f.s.call.Speaker.Played() > fillAhead && f.wait(frameTime) {
			continue
		}
		goesOn := f.ctx.Err() == nil
		if !goesOn {
			if n = x.wordEnd(i); n == 0 || length(n-i) > longestWord {
				return false
			}
		}
		if err := f.s.call.Speaker.Say(f.r.ctx, x.pcm[i:n]); err != nil {
			return false
		}
		i = n
		f.at = begun + length(i)
		if !goesOn {
			return false
		}
	}
	return true
}

func (x sound) length(rate int) time.Duration {
	return time.Duration(int64(len(x.pcm)) * int64(time.Second) / int64(rate))
}

// wordEnd is where the word ends that is being said at a sample; 0: not known, or between
// words.
func (x sound) wordEnd(at int) int {
	for _, end := range x.ends {
		if end >= at && end <= len(x.pcm) {
			return end
		}
	}
	return 0
}
