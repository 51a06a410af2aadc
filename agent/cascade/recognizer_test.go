package cascade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

// flaky is a recogniser whose streams can be lost, and which refuses to be opened
// again for a while.
type flaky struct {
	*stttest.Fake
	mu     sync.Mutex
	refuse int
	opens  int
	bad    bool // Write fails
}

type badStream struct {
	stt.Stream
	f *flaky
}

func (b badStream) Write(pcm []int16) error {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	if b.f.bad {
		return errBroken
	}
	return b.Stream.Write(pcm)
}

func (f *flaky) Open(ctx context.Context, o stt.Options, out func(stt.Result)) (stt.Stream, error) {
	f.mu.Lock()
	f.opens++
	refused := f.opens > 1 && f.refuse > 0
	if refused {
		f.refuse--
	}
	f.mu.Unlock()
	if refused {
		return nil, errBroken
	}
	s, err := f.Fake.Open(ctx, o, out)
	return badStream{s, f}, err
}

func (f *flaky) lose(n int) {
	streams := f.Streams()
	streams[len(streams)-1].Emit(stt.Result{Err: fmt.Errorf("reset by peer: %w", stt.ErrLost)})
}

func TestBR125ALostRecogniserIsOpenedAgain(t *testing.T) {
	f := &flaky{}
	converse(t, func(r *rig) {
		*f = flaky{Fake: r.stt, refuse: 3}
		r.cfg.STT = f
		r.cfg.Turn.Idle = 0
	}, func(r *rig) {
		r.quiet(1)
		r.wait(8 * time.Second)
		// It is lost within an utterance, which the new stream hears the rest of.
		r.stt.Add(stttest.Utterance{Text: "lost"}, stttest.Utterance{Text: "book a table"})
		go func() {
			r.wait(500 * ms)
			f.lose(0)
		}()
		began := time.Now()
		r.sound(2 * time.Second)
		r.quiet(2)
		if turns := r.model.asked(); len(turns) != 1 || turns[0].Text != "book a table" {
			t.Fatalf("asked %+v\n%s", turns, r.log())
		}
		streams := r.stt.Streams()
		if len(streams) != 2 || !streams[0].Closed() {
			t.Fatalf("%d streams", len(streams))
		}
		// The new one hears the utterance from its beginning, which was before the loss.
		if got, want := len(streams[1].PCM()), int(time.Since(began)*rate/time.Second); got < want {
			t.Errorf("%d samples of %d are heard by the new stream", got, want)
		}
		// All of it behind Begin: recognisers of whole utterances take little of what is before.
		if at := streams[1].Begins(); len(at) != 1 || at[0] != 0 {
			t.Errorf("the voice begins behind %v samples", at)
		}
		// Nothing of what was said meanwhile is lost.
		if a, b := len(streams[0].PCM()), len(streams[1].PCM()); a+b < int(time.Since(r.began)/time.Second)*rate {
			t.Errorf("%d + %d samples heard of %v", a, b, time.Since(r.began))
		}
		// And again, by a Write that fails, while nobody speaks.
		f.mu.Lock()
		f.bad = true
		f.mu.Unlock()
		r.wait(100 * ms)
		f.mu.Lock()
		f.bad = false
		f.mu.Unlock()
		r.wait(10 * time.Second)
		r.say("thanks", time.Second)
		r.quiet(3)
		if turns := r.model.asked(); turns[1].Text != "thanks" {
			t.Errorf("asked %+v", turns)
		}
	})
}

func TestARecogniserThatStaysAwayEndsTheCall(t *testing.T) {
	f := &flaky{}
	converse(t, func(r *rig) {
		*f = flaky{Fake: r.stt, refuse: 1000}
		r.cfg.STT = f
		r.model.reply = saying(numbers(200))
	}, func(r *rig) {
		r.quiet(1)
		r.say("go", time.Second)
		r.speaks(2)
		f.lose(0)
		r.wait(10 * time.Second)
		if n := len(r.stt.Streams()); n != 1 {
			t.Errorf("%d streams", n)
		}
		go func() {
			for range 10 { // the caller changes nothing any more
				r.sound(500 * ms)
			}
		}()
		r.ends()
		if !errors.Is(r.err, errBroken) {
			t.Errorf("run returned %v", r.err)
		}
		if wire := strings.Join(r.heard(), " "); !strings.HasSuffix(wire, r.cfg.Deaf) {
			t.Errorf("wire %q", wire)
		}
		r.wait(10 * time.Second)
	})
}

func TestARecogniserThatNeverLastsEndsTheCall(t *testing.T) {
	f := &flaky{}
	converse(t, func(r *rig) {
		*f = flaky{Fake: r.stt, bad: true}
		r.cfg.STT = f
	}, func(r *rig) {
		r.ends()
		if n := len(r.stt.Streams()); r.err == nil || n > 2*r.cfg.ReopenTries {
			t.Errorf("%d streams, run returned %v", n, r.err)
		}
	})
}
