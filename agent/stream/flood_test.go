package stream

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"parley/agent"
)

// Sound in pieces of one byte takes no more memory than its bytes, and is said in order.
func TestTinySoundIsBoundedByWhatItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 256 << 10
		q := newSpeech(t.Context(), 1, limit)
		sent := 0
		for {
			// A message's buffer has room for 512 bytes, whatever is in it.
			piece := append(make([]byte, 0, 512), byte(sent))
			ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
			err := q.put(ctx, piece)
			stop()
			if err != nil {
				break
			}
			sent++
		}
		room := 0
		for _, it := range q.items {
			room += cap(it.sound)
		}
		if sent != limit || len(q.items) > 2*limit/leastItem+1 || room > 3*limit {
			t.Errorf("%d bytes wait in %d pieces that take %d bytes", sent, len(q.items), room)
		}
		var got []byte
		for {
			p, ok := q.next(777)
			if !ok {
				break
			}
			before := bytes.Clone(p.sound)
			_ = q.put(t.Context(), []byte{byte(sent)}) // joins what p is a part of, if it is the last
			if sent++; !bytes.Equal(p.sound, before) {
				t.Fatal("what is being said was changed")
			}
			got = append(got, p.sound...)
			q.done(p)
			if sent > limit+2000 {
				break
			}
		}
		for i, b := range got {
			if b != byte(i) {
				t.Fatalf("byte %d is %d", i, b)
			}
		}
	})
}

// A mark's name and text are long, at the agent's will.
func TestTheTextsOfMarksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newSpeech(t.Context(), 1, 1000)
		text := string(bytes.Repeat([]byte("x"), 16<<10))
		try := func() error {
			ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
			defer stop()
			return q.mark(ctx, mark{name: "m", text: text})
		}
		n := 0
		for try() == nil {
			n++
		}
		if n > maxMarkBytes/len(text)+1 {
			t.Errorf("%d marks of %d bytes wait", n, len(text))
		}
		q.next(1)
		q.reach(0)
		if err := try(); err == nil {
			t.Error("there is room before the agent was told")
		}
		if told := q.take(); len(told) != n || try() != nil {
			t.Errorf("%d told of %d, or no room behind them", len(told), n)
		}
		q.forgetMarks()
		q.next(1)
		q.reach(0)
		q.forgetMarks()
		if q.marks != 0 || q.markBytes != 0 {
			t.Errorf("%d marks of %d bytes are left", q.marks, q.markBytes)
		}
	})
}

// Messages that only cost the gateway are read at a pace; none is lost.
func TestAFloodOfMessagesIsPaced(t *testing.T) {
	const flood = 4 * maxMessages
	for name, message := range map[string]string{
		"words": `{"type":"transcript","text":"a","final":false}`, "unknown": `{"type":"later"}`, "wrong": `{`, "sound": "",
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, PCM, func(p *peer) (websocket.StatusCode, string) {
				go func() {
					for range flood {
						kind, data := websocket.MessageText, []byte(message)
						if message == "" {
							kind, data = websocket.MessageBinary, []byte{1, 2}
						}
						if p.conn.Write(context.Background(), kind, data) != nil {
							return
						}
					}
				}()
				return listens(p)
			}, nil).answer()
			count := func() int {
				s := r.session.(*session)
				switch name {
				case "words":
					return len(r.of(agent.EventTranscript))
				case "sound":
					s.speech.mu.Lock()
					defer s.speech.mu.Unlock()
					return s.speech.queued/2 + s.speech.flying/2 + int(s.speech.said)
				}
				return int(s.warnings.Load())
			}
			time.Sleep(1500 * time.Millisecond)
			if n := count(); n < maxMessages || n > 2*maxMessages+10 {
				t.Errorf("%s: %d were read in 1.5 s", name, n)
			}
			time.Sleep(5 * time.Second)
			if n := count(); n < flood || n > flood+10 {
				t.Errorf("%s: %d were read of %d", name, n, flood)
			}
			if complaints := len(r.of(agent.EventError)); complaints < 1 || complaints > 3 {
				t.Errorf("%s: the operator was told %d times", name, complaints)
			}
			if err := r.end(); !errors.Is(err, errHungUp) {
				t.Error(err)
			}
		})
	}
}

// overs notes how often and when Call.Over was called.
type overs struct {
	mu   sync.Mutex
	errs []error
	at   time.Time
}

func (o *overs) over(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs, o.at = append(o.errs, err), time.Now()
}

// The caller does not wait while the agent is told goodbye, whoever ends the call and
// however slow the agent is; the call is told once, and not when it knows.
func TestTheCallIsOverBeforeTheGoodbye(t *testing.T) {
	deaf := func(last func(p *peer)) bot { // answers no closing handshake
		return func(p *peer) (websocket.StatusCode, string) {
			p.first(2)
			last(p)
			<-time.After(time.Minute)
			return 0, ""
		}
	}
	for name, c := range map[string]struct {
		bot    bot
		change func(*rig)
		hangUp bool
		fails  bool
	}{
		"the agent hangs up": {bot: deaf(func(p *peer) { p.text(`{"type":"hangup"}`) })},
		"the agent fails": {bot: func(p *peer) (websocket.StatusCode, string) { p.first(2); return websocket.StatusPolicyViolation, "no" },
			fails: true},
		"the agent is left to hang up": {bot: func(p *peer) (websocket.StatusCode, string) { p.first(2); return websocket.StatusPolicyViolation, "no" },
			change: func(r *rig) { r.cfg.OnLost = LostHangup }},
		"the caller hangs up": {bot: deaf(func(*peer) {}), hangUp: true},
	} {
		bubble(t, func(t *testing.T) {
			var o overs
			r := newRig(t, PCM, c.bot, func(r *rig) {
				r.call.Over = o.over
				if c.change != nil {
					c.change(r)
				}
			}).answer()
			if c.hangUp {
				r.hangUp(errHungUp)
			}
			began := time.Now()
			err := r.waitRun(5 * time.Second)
			took := time.Since(began)
			switch {
			case c.hangUp:
				if len(o.errs) != 0 {
					t.Errorf("%s: told %v", name, o.errs)
				}
			case len(o.errs) != 1 || (o.errs[0] != nil) != c.fails || !errors.Is(err, o.errs[0]):
				t.Errorf("%s: told %v, Run returned %v", name, o.errs, err)
			case o.at.Sub(began) > 200*time.Millisecond:
				t.Errorf("%s: told after %v of %v", name, o.at.Sub(began), took)
			}
			if took > closeTimeout+200*time.Millisecond {
				t.Errorf("%s: Run took %v", name, took)
			}
			r.end()
		})
	}
}
