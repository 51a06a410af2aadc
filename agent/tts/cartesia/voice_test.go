package cartesia_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live/socket/sockettest"
	"parley/agent/tts"
	"parley/agent/tts/cartesia"
	"parley/agent/tts/ttstest"
)

func TestVoice(t *testing.T) {
	for _, when := range []order{before, after, last} {
		t.Run(string(when), func(t *testing.T) {
			ttstest.Run(t, ttstest.Subject{Words: true, New: func(t *testing.T) tts.Voice {
				return voiceAt(t, sockettest.Loopback(t, well(when)), func(c *cartesia.Config) { c.Timeout = 10 * time.Second })
			}})
		})
	}
}

// TestWordsAreWhereTheyAre, to 20 ms of a sound whose words are known.
func TestWordsAreWhereTheyAre(t *testing.T) {
	const text = "Good morning, we are open today from nine to five."
	for _, when := range []order{first, before, after} {
		t.Run(string(when), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, err := speak(t, voiceAt(t, sockettest.Serve(t, well(when)), nil), text)
				h.whole(t, text, err)
				_, want := ttstest.Sound(text, rate)
				for i, w := range h.words {
					if x := want[i]; w.Text != x.Text || (w.Start-x.Start).Abs() > 20*ms || (w.End-x.End).Abs() > 20*ms {
						t.Errorf("%+v, want %+v", w, x)
					}
				}
			})
		})
	}
	t.Run(string(never), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, err := speak(t, voiceAt(t, sockettest.Serve(t, well(never)), nil), text)
			if pcm, _ := ttstest.Sound(text, rate); err != nil || len(h.words) != 0 || len(h.pcm) != len(pcm) {
				t.Error(len(h.words), len(h.pcm), err)
			}
		})
	})
}

// TestSoundDoesNotWaitLong for words that do not come.
func TestSoundDoesNotWaitLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := strings.Repeat("\x00\x10", rate/10)
		v := voiceAt(t, sockettest.Serve(t, func(p *sockettest.Peer) {
			greet(p)
			id, _ := request(p)
			p.Send(chunk(id, second))
			p.Sleep(500 * ms)
			p.Send(chunk(id, second))
			p.Sleep(900 * ms)
			p.Send(timestamps(id, tts.Word{Text: "hello", End: 150 * ms}), done(id))
			p.Wait()
		}), nil)
		begin := time.Now()
		var at []time.Duration
		var words []tts.Word
		err := v.Speak(t.Context(), "hello", func(c tts.Chunk) error {
			if len(c.PCM) > 0 {
				at = append(at, time.Since(begin))
			}
			words = append(words, c.Words...)
			return nil
		})
		if err != nil || len(at) != 2 || at[0] != 60*ms || at[1] != 800*ms {
			t.Error(at, err)
		}
		if want := (tts.Word{Text: "hello", Start: 200 * ms, End: 200 * ms}); len(words) != 1 || words[0] != want {
			t.Errorf("%+v, want %+v", words, want)
		}
	})
}

func TestSentencesInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, well(before))
		v := voiceAt(t, s, nil)
		for i := range 5 {
			text := fmt.Sprintf("This is sentence number %d.", i)
			h, err := speak(t, v, text)
			h.whole(t, text, err)
		}
		for _, text := range []string{"", "...", "🎉"} {
			if h, err := speak(t, v, text); err != nil || len(h.pcm) > 0 {
				t.Errorf("%q: %d samples, %v", text, len(h.pcm), err)
			}
		}
		if s.Dialled() != 1 || s.Open() != 1 {
			t.Errorf("%d connections, %d open; want 1", s.Dialled(), s.Open())
		}
		time.Sleep(3 * time.Minute)
		if h, err := speak(t, v, "still there"); s.Dialled() != 1 {
			t.Error(s.Dialled(), len(h.pcm), err)
		}
		time.Sleep(4*time.Minute + time.Second)
		synctest.Wait()
		if s.Open() != 0 {
			t.Errorf("%d connections wait for a text longer than they may", s.Open())
		}
	})
}

func TestTextsAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, well(before))
		v := voiceAt(t, s, func(c *cartesia.Config) { c.MaxIdle = 2 })
		var all sync.WaitGroup
		release := make(chan struct{})
		for i := range 4 {
			all.Go(func() {
				text := fmt.Sprintf("one two three %d", i)
				var h heard
				err := v.Speak(t.Context(), text, func(c tts.Chunk) error {
					<-release
					h.pcm = append(h.pcm, c.PCM...)
					h.words = append(h.words, c.Words...)
					return nil
				})
				h.whole(t, text, err)
			})
		}
		time.Sleep(500 * ms)
		synctest.Wait()
		if s.Open() != 4 {
			t.Errorf("%d connections for 4 texts", s.Open())
		}
		close(release)
		all.Wait()
		synctest.Wait()
		if s.Open() != 2 {
			t.Errorf("%d connections wait, want 2", s.Open())
		}
	})
}

// TestCancelled: the service is told at that moment, nothing of the text is heard afterwards,
// what it still sends is thrown away, and the connection speaks the next text (BR-119, 120).
func TestCancelled(t *testing.T) {
	for _, some := range []bool{false, true} {
		t.Run(fmt.Sprint("after some sound ", some), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told time.Time
				s := sockettest.Serve(t, func(p *sockettest.Peer) {
					greet(p)
					id, text := request(p)
					all := messages(id, text, before)
					n := 0
					if some {
						n = 4
					}
					p.Send(all[:n]...)
					p.Expect(fmt.Sprintf(`{"context_id":%q,"cancel":true}`, id))
					told = time.Now()
					p.Send(all[n:]...) // it had begun, and goes on
					next, text := request(p)
					p.Send(all[n:]...)
					p.Send(messages(next, text, before)...)
					p.ExpectClose()
				})
				v := voiceAt(t, s, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stopped := time.Time{}
				stop := func() { stopped = time.Now(); cancel() }
				if !some {
					time.AfterFunc(300*ms, stop)
				}
				err := v.Speak(ctx, "one two three four five six", func(tts.Chunk) error {
					if !stopped.IsZero() {
						t.Error("sound after the cancellation")
					}
					stop()
					return nil
				})
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				synctest.Wait()
				if told.Sub(stopped) != 0 {
					t.Errorf("the service was told after %v", told.Sub(stopped))
				}
				h, err := speak(t, v, "and another")
				h.whole(t, "and another", err)
				if s.Dialled() != 1 {
					t.Errorf("%d connections", s.Dialled())
				}
				v.Close()
			})
		})
	}
}

// TestRefusedByTheListener: a text nobody listens to is cancelled, too.
func TestRefusedByTheListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			greet(p)
			id, text := request(p)
			p.Send(messages(id, text, before)[:6]...)
			p.Expect(fmt.Sprintf(`{"context_id":%q,"cancel":true}`, id))
			p.ExpectClose()
		})
		v := voiceAt(t, s, nil)
		no := errors.New("no more")
		if err := v.Speak(t.Context(), "one two three", func(tts.Chunk) error { return no }); err != no {
			t.Error(err)
		}
		synctest.Wait() // what was posted leaves
		v.Close()
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			greet(p)
			id, text := request(p)
			if text == "one" {
				p.Send(messages(id, text, before)...)
			} else {
				p.Send(messages(id, text, before)[:4]...)
			}
			p.Wait()
		})
		v := voiceAt(t, s, func(c *cartesia.Config) { c.Timeout = time.Minute })
		var speaking sync.WaitGroup
		speaking.Go(func() {
			if h, err := speak(t, v, "one two three"); err == nil || len(h.pcm) == 0 || !strings.Contains(err.Error(), "the voice is closed") {
				t.Errorf("%d samples, %v", len(h.pcm), err)
			}
		})
		synctest.Wait()
		if h, err := speak(t, v, "one"); err != nil {
			t.Error(len(h.pcm), err)
		}
		if s.Open() != 2 {
			t.Error(s.Open())
		}
		v.Close()
		v.Close()
		speaking.Wait()
		synctest.Wait()
		if s.Open() != 0 {
			t.Errorf("%d connections after Close", s.Open())
		}
		if _, err := speak(t, v, "two"); err == nil || !strings.Contains(err.Error(), "the voice is closed") {
			t.Error(err)
		}
		if s.Dialled() != 2 {
			t.Errorf("%d connections", s.Dialled())
		}
	})
}
