package stream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"parley/agent"
)

// drops is a bot that breaks its first n connections after a time, without a goodbye,
// and then stays.
func drops(n int, after time.Duration) bot {
	return func(p *peer) (websocket.StatusCode, string) {
		over := make(chan error, 1)
		go func() { over <- p.listen() }()
		if p.n < n {
			time.Sleep(after)
			_ = p.conn.CloseNow()
		}
		<-over
		return 0, ""
	}
}

// states are the reasons of the state events.
func (r *rig) states() (out []string) {
	for _, e := range r.of(agent.EventState) {
		out = append(out, e.Reason)
	}
	return out
}

// A connection that breaks keeps the caller: the bot gets a new stream of the same call.
func TestTwilioReconnects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, drops(1, 500*time.Millisecond), nil).answer()
		old := r.peer(0)
		synctest.Wait()
		old.media(tone(1, 100))
		old.mark("lost")
		first := old.stream()
		r.hears(1, 50)
		p := r.peer(1)
		synctest.Wait()
		start := p.got("start")
		if len(start) != 1 || start[0].field("sequenceNumber") != "1" || start[0].field("start", "callSid") != old.got("start")[0].field("start", "callSid") || p.stream() == first {
			t.Fatalf("the new stream starts with %v", start)
		}
		media := p.got("media")
		if len(media) < 10 || media[0].field("media", "timestamp") != "0" || media[0].field("media", "chunk") != "1" {
			t.Errorf("the new stream's sound: %d messages", len(media))
		}
		// What was left of the old stream is gone, and its id means nothing any more.
		before := len(r.mouth.sent())
		p.textf(`{"event":"media","streamSid":%q,"media":{"payload":"AAAA"}}`, first)
		time.Sleep(time.Second)
		if n := len(r.mouth.sent()); n != before || len(p.got("mark")) != 0 {
			t.Errorf("%d samples of the old stream were heard after the new one began", n-before)
		}
		p.media(tone(200, 5))
		p.mark("new")
		time.Sleep(time.Second)
		if got := r.mouth.sent()[before:]; !slices.Equal(got, bytesOf(tone(200, 5))) || len(p.got("mark")) != 1 {
			t.Errorf("%d samples heard of the new stream", len(got))
		}
		if got := r.states(); !slices.Equal(got, []string{"reconnecting", "reconnected"}) {
			t.Errorf("states %v", got)
		}
		if len(r.of(agent.EventError)) != 1 {
			t.Errorf("complaints %+v", r.of(agent.EventError))
		}
		r.end()
	})
}

// An agent that is gone is called again and again, less and less often, and in the end
// the call ends as it was configured.
func TestTheAgentIsGone(t *testing.T) {
	for _, c := range []struct {
		name, onLost string
		reconnect    time.Duration
		handler      http.HandlerFunc
		tries        [2]int64 // least, most
		lasts        time.Duration
	}{
		{"error", LostError, 10 * time.Second, nil, [2]int64{5, 9}, 10 * time.Second},
		{"hangup", LostHangup, 10 * time.Second, nil, [2]int64{5, 9}, 10 * time.Second},
		{"not called again", LostError, 0, nil, [2]int64{0, 0}, 0},
		{"refuses", LostError, 10 * time.Second, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", 410) }, [2]int64{1, 1}, time.Second},
		{"is busy", LostError, 3 * time.Second, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", 429) }, [2]int64{3, 5}, 3 * time.Second},
		{"hangs", LostError, 20 * time.Second, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, [2]int64{4, 5}, 20 * time.Second},
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Twilio, drops(1, time.Second), func(r *rig) { r.cfg.OnLost, r.cfg.Reconnect = c.onLost, c.reconnect }).answer()
			p := r.peer(0)
			synctest.Wait()
			var tries atomic.Int64
			r.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				tries.Add(1)
				if c.handler != nil {
					c.handler(w, q)
					return
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					conn.Close()
				}
			})
			p.media(tone(1, 100)) // 2 s: more than the connection lasts
			began := time.Now()
			err := r.waitRun(time.Minute)
			took := time.Since(began) - time.Second
			if c.onLost == LostHangup && err != nil || c.onLost == LostError && (err == nil || !strings.Contains(err.Error(), "stream: the agent is gone")) {
				t.Errorf("%s: Run returned %v", c.name, err)
			}
			if n := tries.Load(); n < c.tries[0] || n > c.tries[1] {
				t.Errorf("%s: called again %d times", c.name, n)
			}
			if took < c.lasts-3*time.Second || took > c.lasts+1100*time.Millisecond {
				t.Errorf("%s: it took %v, want about %v", c.name, took, c.lasts)
			}
			if got := len(r.mouth.sent()); got != 100*160 {
				t.Errorf("%s: %d samples heard of what was queued", c.name, got)
			}
			r.end()
		})
	}
}

// An agent that comes and goes all the time is gone, too.
func TestAFlappingAgent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, PCM, drops(1000, 50*time.Millisecond), nil).answer()
		began := time.Now()
		if err := r.waitRun(time.Minute); err == nil {
			t.Error("Run returned nil")
		}
		if took := time.Since(began); took < 7*time.Second || took > 12*time.Second {
			t.Errorf("it took %v", took)
		}
		r.mu.Lock()
		n := len(r.peers)
		r.mu.Unlock()
		if n < 4 || n > 12 {
			t.Errorf("%d connections", n)
		}
		r.end()
	})
}

// What the status of a close means.
func TestHowABotLeaves(t *testing.T) {
	for _, c := range []struct {
		code  websocket.StatusCode
		again bool
		fails bool
	}{
		{websocket.StatusNormalClosure, false, false},
		{websocket.StatusNoStatusRcvd, false, false},
		{4000, false, false},
		{3001, false, false},
		{websocket.StatusGoingAway, true, false},
		{websocket.StatusInternalError, true, false},
		{websocket.StatusServiceRestart, true, false},
		{websocket.StatusTryAgainLater, true, false},
		{websocket.StatusProtocolError, false, true},
		{websocket.StatusUnsupportedData, false, true},
		{websocket.StatusPolicyViolation, false, true},
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, PCM, func(p *peer) (websocket.StatusCode, string) {
				if p.n > 0 {
					return listens(p)
				}
				go func() { _ = p.listen() }()
				p.binary(make([]byte, 2*16000))
				time.Sleep(100 * time.Millisecond)
				return c.code, "bye"
			}, nil).answer()
			if c.again {
				r.peer(1)
				if err := r.end(); !errors.Is(err, errHungUp) {
					t.Errorf("%v: %v", c.code, err)
				}
				return
			}
			began := time.Now()
			if err := r.waitRun(10 * time.Second); (err != nil) != c.fails {
				t.Errorf("%v: Run returned %v", c.code, err)
			}
			if took := time.Since(began); took < 900*time.Millisecond || took > 1200*time.Millisecond || len(r.mouth.sent()) != 16000 {
				t.Errorf("%v: ended after %v, %d samples heard: want the second that was queued", c.code, took, len(r.mouth.sent()))
			}
			r.end()
		})
	}
}

// An agent that lives but does nothing is found out by a ping; one that is slow is not
// cut off, nor is one whose messages wait for room here.
func TestPings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, PCM, func(p *peer) (websocket.StatusCode, string) {
			if p.n > 0 {
				return listens(p)
			}
			p.first(2)
			time.Sleep(time.Minute) // reads nothing, and so answers no ping
			return 0, ""
		}, nil).answer()
		began := time.Now()
		r.peer(1)
		if took := time.Since(began); took > 50*time.Second {
			t.Errorf("it took %v to see that the agent is dead", took)
		}
		time.Sleep(5 * time.Minute)
		r.mu.Lock()
		n := len(r.peers)
		r.mu.Unlock()
		if n != 2 {
			t.Errorf("%d connections: a living agent was called again", n)
		}
		if err := r.end(); !errors.Is(err, errHungUp) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
	bubble(t, func(t *testing.T) {
		r := newRig(t, PCM, func(p *peer) (websocket.StatusCode, string) {
			go func() {
				for range 200 {
					p.binary(make([]byte, 16000*2))
				}
			}()
			return listens(p)
		}, func(r *rig) { r.cfg.Buffer = time.Second }).answer()
		time.Sleep(3 * time.Minute)
		r.mu.Lock()
		n := len(r.peers)
		r.mu.Unlock()
		if n != 1 {
			t.Errorf("%d connections: back-pressure looked like death", n)
		}
		r.end()
	})
}

// A slow bot never blocks the call: the oldest sound is dropped and counted, and told.
func TestASlowBot(t *testing.T) {
	for _, dialect := range []string{Twilio, PCM} {
		bubble(t, func(t *testing.T) {
			reads := make(chan struct{})
			r := newRig(t, dialect, func(p *peer) (websocket.StatusCode, string) {
				p.first(2)
				<-reads
				return listens(p)
			}, nil).answer()
			s := r.session.(*session)
			for i := range 500 { // 10 s, of which one second is kept
				r.hear(i % 100)
			}
			synctest.Wait()
			if got := s.heard.dropped.Load(); got < 447 || got > 450 {
				t.Errorf("%s: %d frames dropped", dialect, got)
			}
			time.Sleep(time.Second)
			close(reads)
			time.Sleep(6 * time.Second)
			p := r.peer(0)
			switch dialect {
			case Twilio:
				media := p.got("media")
				if n := len(media); n < 50 || n > 53 || media[n-1].field("media", "timestamp") != "9980" || media[n-1].field("media", "chunk") != fmt.Sprint(n) {
					t.Errorf("%d media: %v", n, media[len(media)-1])
				}
			case PCM:
				gaps := p.got("gap")
				if len(gaps) != 1 || gaps[0].field("lost_ms").(float64) < 8900 || gaps[0].field("heard_ms").(float64) < 8900 {
					t.Errorf("gaps %v", gaps)
				}
				if n := len(p.got("binary")); n < 50 || n > 53 {
					t.Errorf("%d frames", n)
				}
			}
			if errs := r.of(agent.EventError); len(errs) != 1 || !strings.Contains(errs[0].Reason, "too slow") {
				t.Errorf("%s: complaints %+v", dialect, errs)
			}
			r.end()
		})
	}
}

// The call ends at any moment, and nothing is left of it (BR-135).
func TestHangUpAtAnyInstant(t *testing.T) {
	for i := range 200 {
		bubble(t, func(t *testing.T) {
			dialect := []string{Twilio, PCM}[i%2]
			b := []bot{listens, drops(3, 300*time.Millisecond), chatter, mute}[i/2%4]
			r := newRig(t, dialect, b, func(r *rig) { r.cfg.Buffer = time.Second }).answer()
			stop := make(chan struct{})
			hears := make(chan struct{})
			go func() {
				defer close(hears)
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
						r.hear(n)
						r.session.Notice(agent.Notice{Kind: agent.NoticeKind(1 + n%8), At: time.Now(), Digit: '1'})
					}
				}
			}()
			time.Sleep(time.Duration(i*i*7%2500) * time.Millisecond)
			r.mouth.close()
			r.hangUp(errHungUp)
			began := time.Now()
			if err := r.waitRun(5 * time.Second); !errors.Is(err, errHungUp) {
				t.Errorf("%d: Run returned %v", i, err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("%d: it took %v", i, took)
			}
			close(stop)
			<-hears
			r.close()
		})
	}
}

// chatter is a bot that sends whatever it has as fast as it can.
func chatter(p *peer) (websocket.StatusCode, string) {
	over := make(chan error, 1)
	go func() { over <- p.listen() }()
	for n := 0; ; n++ {
		select {
		case <-over:
			return 0, ""
		case <-time.After(5 * time.Millisecond):
		}
		sound := fmt.Sprintf(`{"event":"media","type":"none","media":{"payload":"%s"}}`, strings.Repeat("AAAA", 200))
		_ = p.conn.Write(context.Background(), websocket.MessageText, []byte([]string{
			sound, `{"event":"mark","mark":{"name":"m"},"type":"mark","name":"m","text":"Words."}`, sound, `{"event":"clear","type":"clear"}`,
			`{"type":"hold","on":true}`, `{"type":"pause"}`, `{"type":"resume"}`, `{"type":"config","statistics_ms":250}`, sound,
		}[n%9]))
	}
}

// mute is a bot that takes nothing.
func mute(p *peer) (websocket.StatusCode, string) {
	if _, _, err := p.conn.Read(context.Background()); err != nil {
		return 0, ""
	}
	time.Sleep(5 * time.Second)
	return 0, ""
}

// A bot that closes while sound is on its way to it has left, whoever finds out first.
func TestAGoodbyeIsNoBreak(t *testing.T) {
	for i := range 100 {
		bubble(t, func(t *testing.T) {
			r := newRig(t, PCM, func(p *peer) (websocket.StatusCode, string) {
				p.first(2 + i%3)
				// A close frame by hand, and nothing is read after it.
				p.text("")
				_ = p.conn.Close(websocket.StatusNormalClosure, "")
				return 0, ""
			}, nil).answer()
			for range 10 {
				r.hear(1)
				if i%2 == 0 {
					time.Sleep(20 * time.Millisecond)
				}
			}
			if err := r.waitRun(2 * time.Second); err != nil {
				t.Errorf("Run returned %v", err)
			}
			if got := r.states(); len(got) != 0 {
				t.Errorf("states %v", got)
			}
			r.end()
		})
	}
}
