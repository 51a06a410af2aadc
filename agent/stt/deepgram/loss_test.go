package deepgram

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/agent/live/socket/sockettest"
	"parley/agent/stt"
)

// until listens until so much audio is there.
func (e *ears) until(d time.Duration) {
	for len(e.pcm) < int(d.Seconds()*float64(e.rate)) && e.take() {
	}
}

// BR-125: the connection drops within the utterances at 10 s and at 20 s, and three
// attempts to connect are refused: what was said is heard, at the right time, and each
// loss is told.
func TestDropsInMidCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			switch p.Number {
			case 1:
				e := checked(p, 16000)
				e.until(10200 * time.Millisecond)
				p.Drop()
			case 2:
				e := checked(p, 16000)
				e.until(20200*time.Millisecond - 8*time.Second) // up to there all is final
				p.Drop()
			case 3, 4, 5:
				p.Refuse(503, "down")
			default:
				checked(p, 16000).listen()
			}
		})
		c := begin(t, recognizer(t, s, func(c *Config) { c.Endpointing = 0 }), stt.Options{})
		for i, want := range []string{"one", "two"} {
			c.silence(10*time.Second - time.Since(c.began)%(10*time.Second))
			c.Begin()
			at := time.Since(c.began)
			c.play(tone(16000, 500))
			c.Finalize()
			c.silence(4 * time.Second)
			_, all := c.results()
			lost, finals := 0, []stt.Result{}
			for _, r := range all {
				switch {
				case errors.Is(r.Err, stt.ErrLost):
					t.Errorf("%s: %v", want, r.Err)
				case r.Err != nil:
					lost++
				case r.Final:
					finals = append(finals, r)
				}
			}
			if lost != 1 || len(finals) != 1 || finals[0].Text != "hello" {
				t.Fatalf("%s: %d losses, %+v", want, lost, finals)
			}
			if w := finals[0].Words[0]; w.Start < at-60*time.Millisecond || w.Start > at+60*time.Millisecond || w.End < w.Start+400*time.Millisecond {
				t.Errorf("%s: %+v, want it at %v", want, w, at)
			}
			if i == 1 && s.Dialled() != 6 {
				t.Errorf("%d connections", s.Dialled())
			}
		}
	})
}

// After the budget the stream is lost, once, and refuses what comes.
func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		name   string
		later  func(*sockettest.Peer)
		dials  int
		within time.Duration
	}{
		{"refused", func(p *sockettest.Peer) { p.Refuse(503, "down") }, 6, 5 * time.Second},
		{"a key that is good no more", func(p *sockettest.Peer) { p.Refuse(401, "") }, 2, 100 * time.Millisecond},
		{"dropped at once", func(p *sockettest.Peer) { p.Accept(); p.Drop() }, 6, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sockettest.Serve(t, func(p *sockettest.Peer) {
					if p.Number == 1 {
						p.Accept()
						p.Close(1011, "NET-0000 "+key)
						return
					}
					tt.later(p)
				})
				c := begin(t, recognizer(t, s, nil), stt.Options{})
				began := time.Now()
				for c.Write(make([]int16, 320)) == nil && time.Since(began) < time.Minute {
					time.Sleep(20 * time.Millisecond)
				}
				got, all := c.results()
				if last := all[len(all)-1].Err; !errors.Is(last, stt.ErrLost) || strings.Count(got, stt.ErrLost.Error()) != 1 || strings.Contains(got, key) || time.Since(began) > tt.within {
					t.Errorf("%s after %v", got, time.Since(began))
				}
				if s.Dialled() != tt.dials {
					t.Errorf("%d connections, want %d", s.Dialled(), tt.dials)
				}
				if err := c.Expect(stt.Expect{}); !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// A service that stands still after Finalize is left for another connection, which hears
// the utterance again.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			e := checked(p, 16000)
			if p.Number == 1 {
				for {
					if _, _, err := p.ReadAny(); err != nil {
						return
					}
				}
			}
			e.listen()
		})
		c := begin(t, recognizer(t, s, nil), stt.Options{})
		c.Begin()
		c.play(tone(16000, 500))
		asked := time.Now()
		c.Finalize()
		c.silence(1700 * time.Millisecond)
		if got := c.finals(); got != "("+ErrStalled.Error()+") hello!" {
			t.Errorf("%s after %v", got, time.Since(asked))
		}
	})
}

// Messages that make no sense are told once and left out; errors, and nothing but
// nonsense, end the connection.
func TestNonsense(t *testing.T) {
	for _, tt := range []struct {
		name     string
		messages []string
		want     string
		dials    int
	}{
		{"some", []string{"garbage", "", "\xff", `{"type":"Results","channel":"x"}`, `{"type":"New","x":1}`}, "(stt/deepgram: a message that cannot be read)", 1},
		{"much", strings.Split(strings.Repeat("garbage ", maxGarbled), " ")[:maxGarbled], "it says nothing that can be read", 2},
		{"an error", []string{`{"type":"Error","variant":"X","description":"out of ` + key + `"}`}, "the service reports: out of …)", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sockettest.Serve(t, func(p *sockettest.Peer) {
					e := checked(p, 16000)
					if p.Number == 1 {
						p.SendBinary("\x00\x01")
						for _, m := range tt.messages { // it may be closed before the last
							p.TrySend(m)
						}
					}
					e.listen()
				})
				c := begin(t, recognizer(t, s, nil), stt.Options{})
				c.Begin()
				c.play(tone(16000, 300))
				c.Finalize()
				c.silence(200 * time.Millisecond)
				if got := c.finals(); !strings.Contains(got, tt.want) || !strings.HasSuffix(got, " hello!") || strings.Contains(got, key) || s.Dialled() != tt.dials {
					t.Errorf("%s over %d connections", got, s.Dialled())
				}
			})
		})
	}
}

// A service that takes nothing: the oldest audio goes, that is told, what is kept is
// bounded, and the connection is given up in the end.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			p.Accept()
			if p.Number == 1 {
				p.Sleep(4500 * time.Millisecond) // less than a write may take
			}
			e := &ears{p: p, rate: 16000}
			e.listen()
		})
		c := begin(t, recognizer(t, s, func(c *Config) { c.Replay = time.Second }), stt.Options{})
		c.Begin()
		c.play(tone(16000, 8000))
		c.Finalize()
		c.silence(time.Second)
		if got := c.finals(); !strings.HasPrefix(got, "("+ErrDropped.Error()+")") || !strings.HasSuffix(got, " hello!") || s.Dialled() != 1 {
			t.Errorf("%s over %d connections", got, s.Dialled())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			if p.Number > 1 {
				checked(p, 16000).listen()
				return
			}
			p.Accept()
			p.Stay()
		})
		c := begin(t, recognizer(t, s, nil), stt.Options{})
		c.Begin()
		c.play(tone(16000, 500))
		c.Finalize()
		c.silence(8 * time.Second)
		if got := c.finals(); !strings.HasSuffix(got, " hello!") {
			t.Errorf("%s", got)
		}
	})
}

// reset does the handshake and ends the connection by RST once something has come.
func reset(p *sockettest.Peer) {
	conn := p.Raw()
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 2000)); err != nil {
		return
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
}

// RST, over a real network, while audio is being sent.
func TestReset(t *testing.T) {
	s := sockettest.Loopback(t, func(p *sockettest.Peer) {
		if p.Number < 3 {
			reset(p)
			return
		}
		checked(p, 16000).listen()
	})
	results := make(chan stt.Result, 100)
	st, err := recognizer(t, s, func(c *Config) { c.Pause = 10 * time.Millisecond }).Open(t.Context(), stt.Options{}, func(r stt.Result) { results <- r })
	if err != nil {
		t.Fatal(err)
	}
	st.Begin()
	if err := st.Write(speechOf(16000)); err != nil {
		t.Fatal(err)
	}
	st.Finalize()
	lost := 0
	for {
		select {
		case r := <-results:
			if r.Err != nil {
				lost++
			}
			if r.Final {
				if r.Text != "hello" || lost != 2 {
					t.Errorf("%+v after %d losses", r, lost)
				}
				if err := st.Close(); err != nil {
					t.Error(err)
				}
				return
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no result")
		}
	}
}

// BR-135: closed at 200 random instants, whatever is under way; nothing of it stays.
func TestNothingIsLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	random := rand.New(rand.NewPCG(1, 2))
	synctest.Test(t, func(t *testing.T) {
		var stay atomic.Int64
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			switch {
			case p.Number%7 == 3:
				p.Refuse(503, "")
			case p.Number%7 == 4: // a handshake that hangs; the script does not see its end
				stay.Add(1)
				p.Stay()
			default:
				p.Accept()
				e := &ears{p: p, rate: 16000, mute: p.Number%2 == 0, endpoints: 4800}
				e.until(time.Duration(p.Number%5) * 300 * time.Millisecond)
				switch p.Number % 5 {
				case 1:
					p.Drop()
				case 2:
					p.Close(1011, "bye")
				default:
					e.listen()
				}
			}
		})
		r := recognizer(t, s, nil)
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			if random.IntN(4) == 0 {
				time.AfterFunc(time.Duration(random.IntN(4000))*time.Millisecond, cancel)
			}
			closed := false
			st, err := r.Open(ctx, stt.Options{}, func(stt.Result) {
				if closed {
					t.Error("a result after Close")
				}
			})
			if err != nil {
				cancel()
				continue
			}
			for range random.IntN(150) {
				switch random.IntN(40) {
				case 0:
					st.Begin()
				case 1:
					st.Finalize()
				case 2:
					_ = st.Expect(stt.Expect{Phrases: []string{string(rune('a' + random.IntN(26)))}}) // it may be over
				}
				_ = st.Write(tone(16000, 20)) // so may it
				time.Sleep(20 * time.Millisecond)
			}
			began := time.Now()
			if err := st.Close(); err != nil {
				t.Error(err)
			}
			closed = true
			if d := time.Since(began); d > time.Second {
				t.Errorf("Close took %v", d)
			}
			cancel()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		dialled := s.Dialled()
		time.Sleep(time.Minute)
		if s.Dialled() != dialled {
			t.Error("connections after the end")
		}
		if n := int64(s.Open()) - stay.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
	goleak.VerifyNone(t, before)
}
