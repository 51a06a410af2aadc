package cascade

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"parley/agent"
	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/turn"
)

const (
	// eventQueue bounds what waits for the loop. Interim transcripts leave half of
	// it to everything else.
	eventQueue = 128
	// frameTime is the length of the frames given to Hear.
	frameTime = 20 * time.Millisecond
	// frameQueue bounds the frames of the caller's speech that wait for the loop,
	// of 20 ms each; when more come the oldest is dropped.
	frameQueue = 25
)

// Open prepares the conversation of one call: the model, then the recogniser.
func (o *opener) Open(ctx context.Context, c agent.Call) (agent.Session, error) {
	s := &session{
		cfg:    o.cfg,
		call:   c,
		filler: o.filler,
		events: make(chan event, eventQueue),
		frames: make(chan []int16, frameQueue),
		free:   make(chan []int16, frameQueue),
		asks:   make(chan *reply, 1),
		speech: make(chan *reply, 1),
		opened: time.Now(),
	}
	s.wishes.token = make(chan struct{}, 1)
	samples := int(int64(o.cfg.STT.Rate()) * int64(frameTime) / int64(time.Second))
	for room := make([]int16, cap(s.free)*samples); len(room) > 0; room = room[samples:] {
		s.free <- room[:0:samples]
	}
	// The session outlives the context of its opening.
	s.life, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	model, err := o.cfg.LLM.Open(ctx, s.conversation())
	if err != nil {
		s.end(err)
		return nil, fmt.Errorf("cascade: model: %w", err)
	}
	s.model = model
	hangUp := context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	s.stream, err = o.cfg.STT.Open(s.life, stt.Options{Language: o.cfg.Language}, s.results(0))
	if !hangUp() && err == nil {
		err = context.Cause(ctx)
		_ = s.stream.Close()
	}
	if err != nil {
		s.end(err)
		s.closeModel("the recogniser could not be opened")
		return nil, fmt.Errorf("cascade: recogniser: %w", err)
	}
	return s, nil
}

// session is the conversation of one call. Its goroutines are Run, which is the
// loop that owns all state, one worker for the model, one for the voice, those of
// the recogniser's stream, and one that fills a silence while there is one.
//
//	Hear ──> frames ──┐                        ┌── asks ───> think ── pieces ──┐
//	                  ├──> loop: turn.Step ────┤            (model)            v
//	Notice, results,  │     Pause, Stop        └── speech ─────────────────> speak ──> Speaker.Say
//	workers > events ─┘                                                     (voice)
type session struct {
	cfg    Config
	call   agent.Call
	filler *filler

	life    context.Context // of the recogniser, the model and the voice
	end     context.CancelCauseFunc
	workers sync.WaitGroup
	opened  time.Time
	model   llm.Model

	events       chan event
	frames, free chan []int16
	asks, speech chan *reply
	wishes       wishes
	early        atomic.Pointer[reply] // the one that inferred is, for goroutines
	tools        toolsAtWork
	secrets      secrets

	lostFrames, lostEvents atomic.Uint64

	// The rest is the loop's alone.
	turns    *turn.Controller
	reply    *reply   // the one under way, or nil
	waiting  *silence // for the words of a turn that is over
	cut      cut      // the one that the open turn has cut off
	owed     owed
	unasked  *llm.Turn  // a turn that the model was not asked to reply to
	untold   []fate     // of replies, that the model has not been told
	words    wordsSoFar // of the open turn
	inferred *reply     // begun before the turn is over, and not heard yet
	woken    wakening
	leave    leaving
	toolsRun int // that the turn taking knows of
	screen   *screening
	misheard turn.Rung
	hopeless int  // turns in a row that were hard to understand
	asked    bool // the sentence that was heard last is a question
	expect   llm.Expect

	stream      stt.Stream // nil while it is opened anew
	streamID    int
	streamSince time.Time
	tries       int     // to open the stream, since one has lasted
	recent      []int16 // the sound of the open turn
	settled     int     // recent[:settled] has become words
	deaf        bool    // the recogniser is gone for good

	announcements []announcement // that wait for their moment
	mutes         int            // sentences in a row that the voice could not speak
	unfinished    bool           // a final transcript was asked for and has not come
	closing       bool           // the last words are spoken; the caller changes nothing any more
	over          bool
	result        error // of Run, once over
	state         string
	complaint     time.Time // when lost frames were last reported
	reported      uint64
	due           time.Time // what the timer is set to; zero: not set
	progress      progress
}

// owed is what the model is to be told with the next turn.
type owed struct {
	interrupted bool
	heard       string
}

// cut is a reply that was cut off, in case it was for nothing.
type cut struct {
	reply    *reply
	heard    string
	complete bool // the model was done with it
	before   owed // what was owed before
}

// closeModel tells the model why the conversation is over.
func (s *session) closeModel(cause string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), s.cfg.CloseTimeout)
	defer cancel()
	s.model.Close(ctx, llm.End{Cause: cause, Duration: time.Since(s.opened)})
}
