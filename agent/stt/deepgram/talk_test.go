package deepgram

import (
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/agent/live"
	"parley/agent/live/socket/sockettest"
	"parley/agent/stt"
)

// hear runs a call against a service that hears.
func hear(t *testing.T, change func(*Config), listen func(*ears), talk func(*call)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			e := checked(p, 16000)
			e.endpoints = 16000 * 3 / 10
			listen(e)
		})
		c := begin(t, recognizer(t, s, change), stt.Options{})
		talk(c)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A conversation: the service ends utterances by itself, we do when it is asked.
func TestConversation(t *testing.T) {
	hear(t, nil, (*ears).listen, func(c *call) {
		c.Begin()
		c.play(tone(16000, 500))
		c.silence(time.Second)
		if got := c.finals(); got != "hello!" {
			t.Errorf("by itself: %s", got)
		}
		c.silence(20 * time.Second)
		if got := c.finals(); got != "" {
			t.Errorf("silence: %s", got)
		}
		c.Begin()
		c.play(tone(16000, 500))
		c.silence(100 * time.Millisecond)
		c.Finalize()
		synctest.Wait()
		if got := c.finals(); got != "hello!" {
			t.Errorf("asked: %s", got)
		}
		c.silence(time.Second)
		c.Finalize()
		synctest.Wait()
		if got := c.finals(); got != "!" {
			t.Errorf("nothing: %s", got)
		}
		c.Finalize()
		synctest.Wait()
		if got := c.finals(); got != "!" {
			t.Errorf("nothing again: %s", got)
		}
	})
}

// A service that does not answer Finalize when it has nothing to say: the final result
// comes, whether audio goes on or not, and the connection stays.
func TestNoAnswerToFinalize(t *testing.T) {
	for name, goesOn := range map[string]bool{"audio goes on": true, "muted": false} {
		t.Run(name, func(t *testing.T) {
			dialled := 0
			hear(t, nil, func(e *ears) { dialled++; e.mute = true; e.listen() }, func(c *call) {
				c.Begin()
				c.silence(2500 * time.Millisecond)
				c.Finalize()
				if goesOn {
					c.silence(1200 * time.Millisecond)
				} else {
					time.Sleep(1600 * time.Millisecond)
				}
				if got := c.finals(); got != "!" {
					t.Errorf("%s", got)
				}
				c.Begin()
				c.play(tone(16000, 300))
				c.Finalize()
				synctest.Wait()
				if got := c.finals(); got != "hello!" {
					t.Errorf("%s", got)
				}
			})
			if dialled != 1 {
				t.Errorf("%d connections", dialled)
			}
		})
	}
}

// BR-153: a short word is known before its end.
func TestInterimsComeWithTheWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			e := checked(p, 16000)
			for len(e.pcm) < 4800 && e.take() {
			}
			e.results(false, false, false)
			e.listen()
		})
		c := begin(t, recognizer(t, s, nil), stt.Options{})
		c.Begin()
		c.play(tone(16000, 350))
		c.mu.Lock()
		if len(c.got) != 1 || c.got[0].Final || c.got[0].Text != "hello" || c.at[0] > 400*time.Millisecond {
			t.Errorf("%+v at %v", c.got, c.at)
		}
		c.mu.Unlock()
	})
}

func TestWhatIsAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*Config)
		options stt.Options
		want    url.Values
	}{
		{"all", func(c *Config) {
			c.Keyterms = []string{"Parley"}
			c.Extra = map[string]string{"numerals": "true"}
		}, stt.Options{Language: "en-US", Expect: stt.Expect{Grammar: "#JSGF", Phrases: []string{"Böll\n", "Parley", " ", "St. Ives"}}}, url.Values{
			"keyterm": {"Parley", "Böll", "St. Ives"}, "language": {"en-US"}, "interim_results": {"true"}, "endpointing": {"300"},
			"utterance_end_ms": {"1000"}, "numerals": {"true"},
		}},
		{"least", func(c *Config) {
			c.Interims, c.Endpointing, c.UtteranceEnd = false, 0, 0
		}, stt.Options{}, url.Values{"interim_results": {"false"}, "endpointing": {"false"}}},
		{"the recogniser's language", func(c *Config) { c.Language = "multi"; c.KeytermsField = "keywords" }, stt.Options{Expect: stt.Expect{Phrases: []string{"x"}}}, url.Values{
			"language": {"multi"}, "keywords": {"x"}, "interim_results": {"true"}, "endpointing": {"300"}, "utterance_end_ms": {"1000"},
		}},
		{"a query of its own", func(c *Config) { c.BaseURL += "/v1?tag=a" }, stt.Options{}, url.Values{
			"tag": {"a"}, "interim_results": {"true"}, "endpointing": {"300"}, "utterance_end_ms": {"1000"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := make(chan url.Values, 1)
				s := sockettest.Serve(t, func(p *sockettest.Peer) {
					q := p.Request.URL.Query()
					for _, name := range []string{"encoding", "sample_rate", "channels", "model", "punctuate", "smart_format"} {
						defer q.Del(name)
					}
					e := checked(p, 16000)
					for _, name := range []string{"encoding", "sample_rate", "channels", "model", "punctuate", "smart_format"} {
						q.Del(name)
					}
					got <- q
					e.listen()
				})
				begin(t, recognizer(t, s, tt.change), tt.options)
				if diff := cmp.Diff(tt.want, <-got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

// While nothing is written the stream is kept, and it ends as the service wants it.
func TestKeepAliveAndTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			checked(p, 16000)
			for i := range 3 {
				p.Expect(keepAliveMessage)
				if d := time.Since(began); d != time.Duration(i+1)*4*time.Second {
					p.Fail("after %v", d)
				}
			}
			if kind, b, err := p.ReadAny(); kind != "binary" || len(b) != 640 || err != nil {
				p.Fail("%s, %d bytes, %v", kind, len(b), err)
			}
			p.Expect(keepAliveMessage)
			if d := time.Since(began); d != 17*time.Second {
				p.Fail("after %v", d)
			}
			p.Expect(closeStreamMessage)
			p.ExpectClose()
		})
		c := begin(t, recognizer(t, s, nil), stt.Options{})
		time.Sleep(13 * time.Second)
		c.play(make([]int16, 320))
		time.Sleep(5 * time.Second)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Write(nil); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if got, _ := c.results(); got != "" {
			t.Error(got)
		}
	})
}

// Other phrases need another connection: it is made when nobody speaks, once, and
// nothing of what is said meanwhile is lost.
func TestExpectFromTheNextUtterance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Pointer[[]string]
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			terms := p.Request.URL.Query()["keyterm"]
			asked.Store(&terms)
			checked(p, 16000).listen()
		})
		c := begin(t, recognizer(t, s, nil), stt.Options{Expect: stt.Expect{Phrases: []string{"one"}}})
		c.Begin()
		c.play(tone(16000, 300))
		for _, phrases := range [][]string{{"one"}, {"two"}} {
			if err := c.Expect(stt.Expect{Phrases: phrases}); err != nil {
				t.Fatal(err)
			}
		}
		c.silence(200 * time.Millisecond)
		if s.Dialled() != 1 {
			t.Error("connected anew in the midst of an utterance")
		}
		c.Finalize()
		c.silence(100 * time.Millisecond)
		if got := c.finals(); got != "hello!" {
			t.Error(got)
		}
		c.Begin()
		c.play(tone(16000, 300))
		c.Finalize()
		c.silence(time.Second)
		if got := c.finals(); got != "hello!" || s.Dialled() != 2 || (*asked.Load())[0] != "two" {
			t.Errorf("%s over %d connections for %q", got, s.Dialled(), *asked.Load())
		}
		if err := c.Expect(stt.Expect{Phrases: []string{"two"}}); err != nil {
			t.Fatal(err)
		}
		c.silence(time.Second)
		if s.Dialled() != 2 {
			t.Error("connected anew for the same phrases")
		}
	})
}

func TestOpenFails(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   error
		text   string
	}{
		{401, `{"err_code":"INVALID_AUTH","err_msg":"Invalid credentials."}`, live.ErrAuth, "HTTP 401"},
		{402, `{"err_code":"ASR_PAYMENT_REQUIRED","err_msg":"credits"}`, live.ErrRejected, "credits"},
		{400, `{"err_msg":"no such model ` + key + `"}`, live.ErrRejected, "no such model …"},
		{429, `slow down`, live.ErrBusy, "slow down"},
		{503, `<html>gone</html>`, live.ErrBusy, "<html>gone"},
		{302, "", live.ErrRejected, "HTTP 302"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := sockettest.Serve(t, func(p *sockettest.Peer) {
				if tt.status == 302 {
					p.Redirect("http://elsewhere.test")
					return
				}
				p.Refuse(tt.status, tt.body)
			})
			_, err := recognizer(t, s, nil).Open(t.Context(), stt.Options{}, func(stt.Result) { t.Error("a result") })
			if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "stt/deepgram: ") || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), key) {
				t.Errorf("%v", err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) { p.Stay() })
		began := time.Now()
		if _, err := recognizer(t, s, nil).Open(t.Context(), stt.Options{}, nil); err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
