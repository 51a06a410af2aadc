package cascade

import (
	"context"
	"fmt"
	"time"

	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/turn"
)

const (
	// keep is how much of what the caller says is kept for the case that the recogniser
	// is lost, and while it is opened anew; the oldest is dropped.
	keep = 8 * time.Second
	// lead is how much is kept while nobody speaks: the beginning of a word that is not
	// known to be one yet.
	lead = 500 * time.Millisecond
	// longestPause is between two tries to open it.
	longestPause = 5 * time.Second
	// openTimeout bounds a try.
	openTimeout = 10 * time.Second
	// steady is how long a stream must last for its loss to be a new one. One that
	// is lost sooner counts as one more try, or it would be opened in a circle.
	steady = 5 * time.Second
)

// drain gives the recogniser what waits for it.
func (s *session) drain() {
	for {
		select {
		case frame := <-s.frames:
			s.listen(frame)
		default:
			return
		}
	}
}

// listen gives the recogniser a frame and its buffer back to Hear.
func (s *session) listen(frame []int16) {
	defer func() { s.free <- frame }()
	s.decide(turn.Input{Kind: turn.Sound, At: time.Now()})
	if s.screen != nil {
		s.screen.Hear(frame)
	}
	if s.turns.Muted() || s.deaf || s.screens() {
		return
	}
	s.remember(frame)
	if s.stream != nil {
		if err := s.stream.Write(frame); err != nil {
			s.lost(err)
		}
	}
}

// remember keeps the sound of the open turn: a turn detector judges it, and a new stream
// has to hear again what of it has not become words, and what came while there was none.
func (s *session) remember(frame []int16) {
	length := keep
	if s.stream != nil && !s.turns.Open() && !s.turns.Speaking() {
		length = lead
	}
	s.recent = append(s.recent, frame...)
	most := int(int64(s.cfg.STT.Rate()) * int64(length) / int64(time.Second))
	// A second is moved at a time, not each frame.
	over := len(s.recent) - most
	if over < s.cfg.STT.Rate() {
		return
	}
	s.settled = max(0, s.settled-over)
	if length == lead && cap(s.recent) > 4*most { // after a long turn
		s.recent = append(make([]int16, 0, most+s.cfg.STT.Rate()), s.recent[over:]...)
		return
	}
	s.recent = s.recent[:copy(s.recent, s.recent[over:])]
}

// finalCame notes that what was heard so far has become words.
func (s *session) finalCame() {
	if s.stream != nil {
		s.settled = len(s.recent)
	}
}

// lost opens the recogniser anew, beside the conversation.
func (s *session) lost(err error) {
	if s.stream == nil {
		return
	}
	s.complain(err)
	if time.Since(s.streamSince) >= steady {
		s.tries = 0
	}
	old := s.stream
	s.stream = nil
	s.streamID++
	s.workers.Add(1)
	go s.reopen(old, s.streamID, s.tries, stt.Options{Language: s.cfg.Language, Expect: heardAs(s.expect)})
}

// reopen runs on a goroutine of its own, in the place of the lost stream's. So many
// tries were made before; the first of all is made at once.
func (s *session) reopen(old stt.Stream, id, tries int, o stt.Options) {
	defer s.workers.Done()
	_ = old.Close()
	err := stt.ErrLost
	for ; tries < s.cfg.ReopenTries; tries++ {
		if tries > 0 {
			select {
			case <-s.life.Done():
				return
			case <-time.After(min(s.cfg.ReopenPause<<min(tries-1, 16), longestPause)):
			}
		}
		var stream stt.Stream
		if stream, err = s.open(id, o); err == nil {
			s.post(s.life, reopened{stream: stream, tries: tries + 1})
			if s.life.Err() != nil {
				_ = stream.Close()
			}
			return
		}
	}
	s.post(s.life, reopened{err: fmt.Errorf("cascade: recogniser lost: %w", err)})
}

// open tries once, for a bounded time.
func (s *session) open(id int, o stt.Options) (stt.Stream, error) {
	ctx, cancel := context.WithCancel(s.life)
	limit := time.AfterFunc(openTimeout, cancel)
	stream, err := s.cfg.STT.Open(ctx, o, s.results(id))
	if !limit.Stop() && err == nil {
		_ = stream.Close()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return bounded{stream, cancel}, nil
}

// bounded is a stream with a context of its own, which ends with it.
type bounded struct {
	stt.Stream
	cancel context.CancelFunc
}

func (b bounded) Close() error {
	defer b.cancel()
	return b.Stream.Close()
}

func (e reopened) happen(s *session) {
	if e.err != nil {
		s.deaf = true
		s.recent, s.settled = nil, 0
		s.complain(e.err)
		s.fail(e.err, s.cfg.Deaf)
		return
	}
	s.stream, s.streamSince, s.tries = e.stream, time.Now(), e.tries
	// The utterance that is going on goes on in the new stream. It begins first: of audio
	// before Begin a recogniser may take no more than a pre-roll.
	if s.turns.Speaking() || s.turns.Open() {
		s.stream.Begin()
	}
	if again := s.recent[s.settled:]; len(again) > 0 {
		if err := s.stream.Write(again); err != nil {
			s.lost(err)
			return
		}
	}
	if s.turns.Waiting() {
		s.stream.Finalize()
	}
}

// expected narrows what the caller may say and key in.
func (s *session) expected(e llm.Expect) {
	s.decide(turn.Input{Kind: turn.Expect, At: time.Now(), MaxDigits: e.MaxDigits})
	was, is := s.expect, e
	s.expect = e
	if s.stream == nil || was.Grammar == "" && is.Grammar == "" && len(was.Phrases)+len(is.Phrases) == 0 {
		return
	}
	if err := s.stream.Expect(heardAs(e)); err != nil {
		s.complain(err)
	}
}

func heardAs(e llm.Expect) stt.Expect {
	return stt.Expect{Grammar: e.Grammar, Phrases: e.Phrases}
}
