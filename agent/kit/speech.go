package kit

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/agent"
)

// pieceTime is how much speech is given to the call at a time.
const pieceTime = 100 * time.Millisecond

// chunk is a stretch of a reply that waits to be spoken.
type chunk struct {
	reply *reply
	item  *item
	pcm   []int16
	coded []byte        // sound as the call's codec has it, in the stead of pcm
	own   string        // words for the gateway's own voice, in the stead of both
	last  bool          // the reply has no more
	at    time.Duration // where on the timeline it lies, once spoken
}

// speech is the way of replies to the caller: a goroutine gives them to the Speaker,
// which blocks while enough is queued there.
type speech struct {
	speaker agent.Speaker
	voice   Voice
	sound   sound
	// payloads is the speaker, if it takes coded sound; pcm is room for what is decoded
	// because the call has another codec. Both are run's.
	payloads agent.PayloadSpeaker
	pcm      []int16
	limit    int // samples that may wait
	said     func(r *reply)
	fail     func(error)

	mu      sync.Mutex
	queue   []chunk
	waiting int     // samples in queue
	coming  int     // samples on their way to it
	spoken  []chunk // given to the Speaker and perhaps not yet played
	held    bool    // nothing is begun
	base    time.Duration
	samples int // given to the Speaker since base
	ctx     context.Context
	cancel  context.CancelCauseFunc
	life    context.Context

	more, room chan struct{}
}

var errCut = errors.New("kit: cut off")

func newSpeech(life context.Context, speaker agent.Speaker, voice Voice, format sound, ahead time.Duration) *speech {
	s := &speech{
		speaker: speaker, voice: voice, sound: format, limit: format.says.samples(ahead), life: life,
		more: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	s.payloads, _ = speaker.(agent.PayloadSpeaker)
	s.ctx, s.cancel = context.WithCancelCause(life)
	return s
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// makeRoom waits while too much waits to be spoken, and then expects so many samples
// more; the goroutine that receives calls it.
func (s *speech) makeRoom(samples int) {
	for {
		s.mu.Lock()
		full := s.waiting+s.coming >= s.limit
		if !full {
			s.coming += samples
		}
		s.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-s.room:
		case <-s.life.Done():
			return
		}
	}
}

// arrived says that so many samples have come that makeRoom was called for.
func (s *speech) arrived(samples int) {
	s.mu.Lock()
	s.coming -= samples
	s.mu.Unlock()
	token(s.room)
}

// add puts a chunk behind the others.
func (s *speech) add(c chunk) {
	s.mu.Lock()
	s.queue = append(s.queue, c)
	s.waiting += c.samples()
	s.mu.Unlock()
	token(s.more)
}

// hold keeps what has not begun from being spoken, or lets it go on.
func (s *speech) hold(on bool) {
	s.mu.Lock()
	s.held = on
	s.mu.Unlock()
	token(s.more)
}

// cut drops all speech and returns how far it was heard, and what was not, in order.
func (s *speech) cut() (at time.Duration, rest []chunk) {
	s.mu.Lock()
	s.cancel(errCut)
	queue := s.queue
	s.queue, s.waiting = nil, 0
	s.mu.Unlock()
	// The context went first: nothing of what is cut can be queued any more.
	at = s.speaker.Stop()
	s.mu.Lock()
	for _, c := range s.spoken {
		if heard := s.sound.says.samples(at - c.at); heard < c.samples() {
			c.skip(max(heard, 0))
			rest = append(rest, c)
		}
	}
	s.spoken = nil
	s.base, s.samples = at, 0
	s.ctx, s.cancel = context.WithCancelCause(s.life)
	s.mu.Unlock()
	token(s.more)
	token(s.room)
	return at, append(rest, queue...)
}

// drop takes a reply that has not begun out of the queue.
func (s *speech) drop(r *reply) {
	s.mu.Lock()
	kept := s.queue[:0]
	s.waiting = 0
	for _, c := range s.queue {
		if c.reply != r {
			kept = append(kept, c)
			s.waiting += c.samples()
		}
	}
	s.queue = kept
	s.mu.Unlock()
	token(s.room)
}

// idle says whether nothing waits to be spoken.
func (s *speech) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0
}

// place is where a reply begins and ends on the timeline so far, if it has begun.
func (s *speech) place(r *reply) (from, to time.Duration, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.from, r.to, r.begun
}

// take waits for the next piece to be spoken; false when there will be none.
func (s *speech) take() (chunk, context.Context, bool) {
	for {
		s.mu.Lock()
		if s.life.Err() != nil {
			s.mu.Unlock()
			return chunk{}, nil, false
		}
		// What has begun is not held: it is paused, or cut. What fills a silence is not a
		// reply that may be out of date.
		if len(s.queue) > 0 && (!s.held || s.queue[0].reply.begun || s.queue[0].reply.filler) {
			c := s.next()
			ctx := s.ctx
			s.mu.Unlock()
			token(s.room)
			return c, ctx, true
		}
		s.mu.Unlock()
		select {
		case <-s.more:
		case <-s.life.Done():
			return chunk{}, nil, false
		}
	}
}

// next takes a piece out of the queue and gives it its place; mu is held.
func (s *speech) next() chunk {
	c := s.queue[0]
	if piece := s.sound.says.samples(pieceTime); c.samples() > piece {
		c.only(piece)
		c.last = false
		s.queue[0].skip(piece)
	} else {
		s.queue = s.queue[1:]
	}
	s.waiting -= c.samples()
	if c.samples() > 0 {
		s.settle(&c)
	}
	return c
}

// settle gives a chunk its place on the timeline, behind what was said; mu is held.
func (s *speech) settle(c *chunk) {
	says := s.sound.says
	c.at = s.base + says.length(s.samples)
	s.samples += c.samples()
	end := s.base + says.length(s.samples)
	if r := c.reply; !r.begun {
		r.begun, r.from = true, c.at
	}
	c.reply.to = end
	if it := c.item; it != nil {
		if !it.begun {
			it.begun, it.from = true, c.at
		}
		it.to = end
	}
	// What was played is kept no longer.
	played := s.speaker.Played()
	for len(s.spoken) > 0 && s.spoken[0].at+says.length(s.spoken[0].samples()) <= played {
		s.spoken = s.spoken[1:]
	}
	s.spoken = append(s.spoken, *c)
}

// run speaks until the call is over.
func (s *speech) run() {
	for {
		c, ctx, ok := s.take()
		if !ok {
			return
		}
		var err error
		switch {
		case c.own != "":
			err = s.ownWords(ctx, c)
		case len(c.coded) > 0:
			err = s.sayCoded(ctx, c.coded)
		case len(c.pcm) > 0:
			err = s.speaker.Say(ctx, c.pcm)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, agent.ErrClosed) && !errors.Is(err, agent.ErrStopped) {
			s.fail(err)
		}
		if c.last && ctx.Err() == nil {
			s.speaker.Flush()
			s.said(c.reply)
		}
	}
}

// ownWords speaks with the gateway's own voice.
func (s *speech) ownWords(ctx context.Context, c chunk) error {
	return s.voice(ctx, c.own, int(s.sound.says), func(pcm []int16) error {
		s.mu.Lock()
		if ctx.Err() != nil {
			s.mu.Unlock()
			return context.Cause(ctx)
		}
		part := chunk{reply: c.reply, pcm: append([]int16(nil), pcm...)}
		s.settle(&part)
		s.mu.Unlock()
		return s.speaker.Say(ctx, pcm)
	})
}
