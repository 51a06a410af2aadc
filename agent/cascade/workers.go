package cascade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/tts"
)

// errNoSound is the cause when the voice falls silent within a sentence.
var errNoSound = errors.New("cascade: the voice gave no sound in time")

// hand gives r to a worker, in place of what it has not begun yet. Only the loop
// hands, so there is room.
func hand(jobs chan *reply, r *reply) {
	select {
	case <-jobs:
	default:
	}
	jobs <- r
}

// work runs one of the session's workers until the session is over.
func (s *session) work(jobs chan *reply, do func(*reply)) {
	defer s.workers.Done()
	defer s.rescue()
	for {
		select {
		case <-s.life.Done():
			return
		case r := <-jobs:
			do(r)
		}
	}
}

// rescue is deferred by goroutines that call providers: one that panics takes its own
// call down, not the others'.
func (s *session) rescue() {
	if p := recover(); p != nil {
		s.post(s.life, fault{fmt.Errorf("cascade: panic in a provider: %v", p)})
	}
}

// think has the model say its reply, piece by piece.
func (s *session) think(r *reply) {
	if !r.begin() {
		return
	}
	out := func(c llm.Chunk) error { return s.takes(r, c) }
	var err error
	if r.purpose == greeting {
		err = s.model.Greet(r.thinking, out)
	} else {
		err = s.model.Reply(r.thinking, r.turn, out)
	}
	s.thinksNoMore(r, err)
}

// takes takes a piece of a reply from the model.
func (s *session) takes(r *reply, c llm.Chunk) error {
	if err := context.Cause(r.thinking); err != nil {
		return err
	}
	if r.turn.Tentative && !r.judged {
		r.judged = true
		if c.Incomplete > 0 {
			r.seal()
		}
		s.post(r.thinking, judged{r, c.Incomplete})
	}
	if c.Expect != nil {
		s.post(r.thinking, expectation{r, *c.Expect})
	}
	err := r.write(c)
	if err == nil && c.Action != nil {
		r.act(*c.Action)
	}
	return err
}

// thinksNoMore notes that the model has said all of a reply, or failed.
func (s *session) thinksNoMore(r *reply, err error) {
	if r.ctx.Err() == nil && r.close(err, s.fallback(r)) {
		s.post(r.ctx, thought{r, err})
	}
}

// speak gives a reply to the voice, and its sound to the call.
func (s *session) speak(r *reply) {
	// Nothing is queued when a reply begins, but a filler: the one before was heard to its
	// end or stopped.
	at := max(s.call.Speaker.Played(), r.behind)
	quiet := &silence{s: s, r: r}
	defer func() { quiet.end(at) }()
	broke := false // the voice did not speak what came last
	mute := false  // nor will it speak the rest
	for {
		quiet.begin(at)
		it, ok := r.take()
		if !ok {
			break
		}
		if it.action != nil {
			at = quiet.end(at)
			s.mark(r, it.action, at)
			continue
		}
		if mute {
			r.broke("")
			continue
		}
		s.post(r.ctx, sentence{r, strings.TrimSpace(it.text)})
		sounded, err := s.sayTwice(r, it, quiet, &at)
		if errors.Is(err, agent.ErrClosed) || errors.Is(err, agent.ErrStopped) {
			break // cut off, or the call is over and Run is about to hear of it: no fault
		}
		broke = err != nil && !it.own
		if r.ctx.Err() == nil {
			s.post(r.ctx, spoke{r, it.own, err})
		}
		mute = !sounded && errors.Is(err, errNoSound)
	}
	if words := s.fallback(r); broke && words != "" && r.ctx.Err() == nil {
		quiet.begin(at)
		_, err := s.sayTwice(r, item{text: words, own: true}, quiet, &at)
		s.post(r.ctx, spoke{r, true, err})
	}
	at = quiet.end(at)
	if r.ctx.Err() != nil {
		return
	}
	if _, sounds := r.sounded(); sounds {
		s.call.Speaker.Flush()
	}
	s.post(r.ctx, said{r, at})
}

// mark has an action done when the words before it were heard, and waits until it
// was: what is said after it may depend on that.
func (s *session) mark(r *reply, a *llm.Action, at time.Duration) {
	if _, sounds := r.sounded(); sounds {
		s.call.Speaker.Flush()
	}
	done := make(chan struct{})
	s.post(r.ctx, marked{r, markedAction{a, at, done}})
	select {
	case <-done:
	case <-r.ctx.Done():
	}
}

// sayTwice speaks one piece, and once more when the voice failed before its first
// sound. What was heard the beginning of is not said again (BR-149).
func (s *session) sayTwice(r *reply, it item, quiet *silence, at *time.Duration) (sounded bool, err error) {
	p := &piece{s: s, r: r, item: it, quiet: quiet, at: *at}
	err = p.say()
	if err != nil && !p.began && !errors.Is(err, errNoSound) && r.ctx.Err() == nil {
		err = p.say()
	}
	p.settle(err)
	*at = p.at + p.length()
	return p.began, err
}

// piece is a sentence, or less, on its way through the voice.
type piece struct {
	item
	s       *session
	r       *reply
	quiet   *silence
	at      time.Duration // where it begins
	began   bool          // there was sound
	samples int
}

func (p *piece) length() time.Duration {
	return time.Duration(int64(p.samples) * int64(time.Second) / int64(p.s.cfg.TTS.Rate()))
}

// say speaks the piece.
func (p *piece) say() error {
	ctx, cancel := context.WithCancelCause(p.r.ctx)
	defer cancel(nil)
	wait := p.s.cfg.FirstSound
	watch := time.AfterFunc(wait, func() { cancel(errNoSound) })
	defer watch.Stop()
	out := func(c tts.Chunk) error {
		watch.Stop()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := p.chunk(ctx, c)
		if err == nil {
			watch.Reset(wait)
		}
		return err
	}
	err := p.speak(ctx, strings.TrimSpace(p.text), out)
	if err != nil && context.Cause(ctx) == errNoSound {
		return errNoSound
	}
	return err
}

// speak has the voice speak in the style of the piece, if it can.
func (p *piece) speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	if styled, ok := p.s.cfg.TTS.(tts.Styled); ok && p.style != "" {
		return styled.SpeakStyled(ctx, text, p.style, out)
	}
	return p.s.cfg.TTS.Speak(ctx, text, out)
}

// begin says that the piece's sound begins.
func (p *piece) begin() {
	if p.began {
		return
	}
	p.began = true
	p.at = p.quiet.end(p.at)
	p.r.begins(p.at, p.text)
	if !p.own {
		p.r.spoken.Begin(p.at, p.text)
	}
}

// chunk gives sound of the piece to the call.
func (p *piece) chunk(ctx context.Context, c tts.Chunk) error {
	p.begin()
	p.samples += len(c.PCM)
	if !p.own {
		for _, w := range c.Words {
			p.r.spoken.Word(w.Text, w.End)
		}
		p.r.spoken.Grow(p.length())
	}
	if len(c.PCM) == 0 {
		return nil
	}
	p.r.saying(true, p.at)
	err := p.s.call.Speaker.Say(ctx, c.PCM)
	p.r.saying(false, p.at)
	return err
}

// settle notes how the piece ended.
func (p *piece) settle(err error) {
	if p.own || p.r.ctx.Err() != nil { // what was cut off may yet be said
		return
	}
	if !p.began { // there is nothing to hear of it
		p.r.spoken.Begin(p.at, p.text)
	}
	if err != nil {
		p.r.broke(p.r.spoken.Fail())
		return
	}
	p.r.spoken.End()
}
