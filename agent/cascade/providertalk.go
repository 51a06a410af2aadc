package cascade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"parley/agent/chat"
	"parley/agent/live"
	"parley/agent/stt"
	"parley/agent/turn"
	"parley/media/resample"
)

// request is something for the loop of a talk.
type request interface{ handle(t *talk) }

// requests is the queue of the loop. Whoever puts something in never waits; sound is
// bounded.
type requests struct {
	mu    sync.Mutex
	queue []request
	sound int
	more  chan struct{}
}

// maxSound is how many pieces of sound may wait.
const maxSound = 500

func (q *requests) put(r request) {
	q.mu.Lock()
	if _, ok := r.(heardSound); ok {
		if q.sound >= maxSound {
			q.mu.Unlock()
			return // the loop stands still: what it cannot hear is lost
		}
		q.sound++
	}
	q.queue = append(q.queue, r)
	q.mu.Unlock()
	token(q.more)
}

func (q *requests) take() (request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return nil, false
	}
	r := q.queue[0]
	q.queue = q.queue[1:]
	if _, ok := r.(heardSound); ok {
		q.sound--
	}
	return r, true
}

// talk is one connection of a provider: a loop that owns all state, two goroutines while
// a reply is made, and those of the recogniser's stream.
type talk struct {
	cfg  ProviderConfig
	live live.LiveConfig
	in   requests
	out  *outbox

	life    context.Context
	end     context.CancelCauseFunc
	workers sync.WaitGroup
	stream  stt.Stream
	chat    *chat.Context

	// The loop's alone.
	toSTT    *resample.Resampler
	pcm      []int16
	detect   func([]int16) bool
	voice    bool
	turns    *turn.Controller // nil: the host takes the turns
	open     bool             // the caller's turn, when the host takes them
	words    []string         // finals of it
	ending   time.Time        // when a final is waited for no more; zero: none is
	replies  int
	reply    *spokenReply // the one that is being made
	items    []*spokenReply
	again    bool     // a reply is to be made after the one under way
	instruct []string // for it
}

// newTalk opens the recogniser and begins with what was said before.
func newTalk(ctx context.Context, cfg ProviderConfig, session live.LiveConfig) (*talk, error) {
	t := &talk{cfg: cfg, live: session, out: newOutbox(), chat: chat.NewContext(session.Instructions)}
	t.in.more = make(chan struct{}, 1)
	var err error
	if t.toSTT, err = resample.New(live.InputRate, cfg.STT.Rate(), resample.Voice); err == nil {
		_, err = resample.New(cfg.TTS.Rate(), live.OutputRate, resample.Voice)
	}
	if err != nil {
		return nil, fmt.Errorf("cascade: %w: %w", live.ErrRejected, err)
	}
	for _, s := range session.History {
		t.recall(s)
	}
	if !session.LocalTurns {
		c := cfg.Turn
		c.Language = session.Language
		c.Mute, c.MuteGreeting, c.Idle, c.NoAudio, c.EagerTimeout, c.BackchannelVoice = nil, false, 0, 0, 0, 0
		c.Stop = []turn.StopStrategy{turn.StopTimeout}
		t.turns = turn.NewController(c, time.Now())
		if cfg.Detector != nil {
			t.detect = cfg.Detector()
		}
	}
	t.life, t.end = context.WithCancelCause(context.WithoutCancel(ctx))
	hangUp := context.AfterFunc(ctx, func() { t.end(context.Cause(ctx)) })
	t.stream, err = cfg.STT.Open(t.life, stt.Options{Language: session.Language}, func(r stt.Result) { t.in.put(recognised(r)) })
	if !hangUp() && err == nil {
		err = context.Cause(ctx)
		_ = t.stream.Close()
	}
	if err != nil {
		t.end(err)
		return nil, fmt.Errorf("cascade: recogniser: %w", err)
	}
	t.workers.Go(t.run)
	return t, nil
}

// recall puts what was said before into the context.
func (t *talk) recall(s live.Said) {
	var err error
	switch {
	case s.Call != nil:
		call := chat.ToolCall{ID: s.Call.ID, Name: s.Call.Name, Arguments: jsonOf(s.Call.Args)}
		_, as := t.chat.AppendCalls(chat.Message{}, []chat.ToolCall{call})
		if s.Response != nil {
			t.chat.Answer(as[0].ID, string(jsonOf(s.Response.Response)))
		}
	case s.Role == "assistant":
		_, err = t.chat.Append(chat.Message{Role: chat.RoleAssistant, Content: s.Text})
	case s.Text != "":
		_, err = t.chat.Append(chat.Message{Role: chat.RoleUser, Content: s.Text})
	}
	if err != nil {
		t.warn(err)
	}
}

// close ends the talk and waits for it, for ctx at most.
func (t *talk) close(ctx context.Context) error {
	t.out.end(errOver, true)
	t.end(fmt.Errorf("cascade: %w", live.ErrClosed))
	done := make(chan error, 1)
	go func() {
		err := t.stream.Close()
		t.workers.Wait()
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("cascade: recogniser: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cascade: does not close: %w", context.Cause(ctx))
	}
}

// lose ends the talk as a connection that is gone.
func (t *talk) lose(err error) {
	err = fmt.Errorf("cascade: %w: %w", live.ErrLost, err)
	t.out.end(err, false)
	t.end(err)
}

// warn tells of an error that does not end the talk.
func (t *talk) warn(err error) { t.out.put(live.Message{Warning: err}) }

// run is the loop.
func (t *talk) run() {
	defer func() {
		if p := recover(); p != nil {
			t.lose(fmt.Errorf("panic: %v", p))
		}
		if t.reply != nil {
			t.reply.cancel(context.Cause(t.life))
		}
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if due := t.due(); due.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(due))
		}
		select {
		case <-t.life.Done():
			return
		case <-t.in.more:
			for r, ok := t.in.take(); ok && t.life.Err() == nil; r, ok = t.in.take() {
				r.handle(t)
			}
		case <-timer.C:
		}
		t.passTime()
	}
}

// due is when something is to be done though nothing happens; zero: never.
func (t *talk) due() time.Time {
	if t.turns == nil {
		return t.ending
	}
	due, _ := t.turns.Due()
	return due
}

func (t *talk) passTime() {
	if t.turns != nil {
		t.decide(turn.Input{Kind: turn.Tick, At: time.Now()})
	} else if !t.ending.IsZero() && !time.Now().Before(t.ending) {
		t.turnOver(strings.Join(t.words, " "))
	}
	t.next()
}

// decide tells the turn taking what happened and does what it says.
func (t *talk) decide(in turn.Input) {
	var room [4]turn.Decision
	for _, d := range append(room[:0], t.turns.Step(in)...) {
		switch d.Kind {
		case turn.Begin:
			t.stream.Begin()
		case turn.Finalize:
			t.stream.Finalize()
		case turn.Open:
			t.out.put(live.Message{SpeechStarted: true})
			if !t.live.LocalCuts {
				t.interrupt()
			}
		case turn.Close:
			t.out.put(live.Message{SpeechStopped: true})
			t.turnOver(d.Text)
		case turn.GoOn, turn.Discard:
			t.out.put(live.Message{SpeechStopped: true})
			t.turnOver("")
		}
	}
}

// turnOver takes the words of a turn that is over, and has them answered.
func (t *talk) turnOver(words string) {
	t.open, t.words, t.ending = false, nil, time.Time{}
	words = strings.TrimSpace(words)
	t.out.put(live.Message{User: live.Transcript{Text: words, Done: true}})
	if words == "" {
		return
	}
	t.said(words)
	t.ask("")
}

// said puts words of the caller's into the context.
func (t *talk) said(words string) {
	if _, err := t.chat.Append(chat.Message{Role: chat.RoleUser, Content: words, At: time.Now()}); err != nil {
		t.warn(err)
	}
}

// speaking says whether the caller's turn is open.
func (t *talk) speaking() bool { return t.open || t.turns != nil && t.turns.Open() }

type (
	heardSound struct{ pcm []int16 }
	soundEnds  struct{}
	typed      struct{ text string }
	instructed struct{ text string }
	answered   struct{ responses []live.ToolResponse }
	truncated  struct {
		item   string
		played time.Duration
	}
	activity   bool
	recognised stt.Result
)

func (e heardSound) handle(t *talk) {
	t.pcm = t.toSTT.Process(t.pcm[:0], e.pcm)
	if err := t.stream.Write(t.pcm); err != nil {
		t.lose(err)
		return
	}
	if t.detect == nil {
		return
	}
	if voice := t.detect(e.pcm); voice != t.voice {
		t.voice = voice
		in := turn.Input{Kind: turn.VoiceOff, At: time.Now()}
		if voice {
			in.Kind = turn.VoiceOn
		}
		t.decide(in)
	}
}

func (soundEnds) handle(t *talk) { t.stream.Finalize() }

func (e typed) handle(t *talk) {
	t.said(e.text)
	t.ask("")
}

func (e instructed) handle(t *talk) { t.ask(e.text) }

func (e answered) handle(t *talk) {
	known := false
	for _, r := range e.responses {
		known = t.chat.Answer(r.ID, string(jsonOf(r.Response))) || known
	}
	if known && len(t.chat.CallsInProgress()) == 0 {
		t.ask("")
	}
}

func (e activity) handle(t *talk) {
	if t.turns != nil {
		return // the turns are ours
	}
	if e {
		t.open, t.ending = true, time.Time{}
		t.stream.Begin()
		t.out.put(live.Message{SpeechStarted: true})
		if !t.live.LocalCuts {
			t.interrupt()
		}
		return
	}
	t.ending = time.Now().Add(t.cfg.Turn.FinalTimeout)
	t.stream.Finalize()
	t.out.put(live.Message{SpeechStopped: true})
}

func (e recognised) handle(t *talk) {
	switch {
	case errors.Is(e.Err, stt.ErrLost):
		t.lose(e.Err)
		return
	case e.Err != nil:
		t.warn(e.Err)
		return
	}
	text := strings.TrimSpace(e.Text)
	if t.turns != nil {
		kind := turn.Interim
		if e.Final {
			kind = turn.Final
		}
		t.decide(turn.Input{Kind: kind, At: time.Now(), Text: text, Confidence: e.Confidence})
		return
	}
	if !e.Final {
		return
	}
	if text != "" {
		t.words = append(t.words, text)
	}
	if !t.ending.IsZero() {
		t.turnOver(strings.Join(t.words, " "))
	}
}
