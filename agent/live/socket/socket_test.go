package socket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/agent/live"
	"parley/agent/live/socket"
	"parley/agent/live/socket/sockettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dial connects to a server that runs script, in a bubble of synctest.
func dial(t *testing.T, script func(*sockettest.Peer)) *socket.Socket {
	t.Helper()
	server := sockettest.Serve(t, script)
	s, err := socket.Dial(t.Context(), socket.Config{Name: "test", URL: server.URL, Transport: server.Transport})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func TestMessagesBothWaysAndTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dial(t, func(p *sockettest.Peer) {
			p.Accept()
			for i := range 100 {
				p.Expect(fmt.Sprintf(`{"n":%d}`, i))
			}
			p.Send(`{"a":1}`, `{"a":2}`)
			p.ExpectClose()
		})
		for i := range 100 {
			if err := s.Post(fmt.Appendf(s.Buffer(), `{"n":%d}`, i)); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []string{`{"a":1}`, `{"a":2}`} {
			if got := <-s.In(); string(got) != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error("a second Close:", err)
		}
		if _, open := <-s.In(); open || s.Err() != io.EOF {
			t.Error("after Close:", open, s.Err())
		}
		if err := s.Post([]byte("{}")); err != io.EOF {
			t.Error("Post after Close:", err)
		}
	})
}

// Audio goes in binary messages, between the others in its place.
func TestBinaryMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dial(t, func(p *sockettest.Peer) {
			p.Accept()
			p.Expect(`{"n":1}`)
			if kind, got, err := p.ReadAny(); kind != "binary" || string(got) != "sound" || err != nil {
				p.Fail("%s %q %v", kind, got, err)
			}
			if kind, got, err := p.ReadAny(); kind != "text" || string(got) != `{"n":2}` || err != nil {
				p.Fail("%s %q %v", kind, got, err)
			}
			p.ExpectClose()
		})
		for _, err := range []error{s.Post([]byte(`{"n":1}`)), s.PostBinary(append(s.Buffer(), "sound"...)), s.Post([]byte(`{"n":2}`))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := s.Queued(); n != 0 {
			t.Errorf("%d bytes wait", n)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The last message before Close leaves, unless the peer takes nothing.
func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dial(t, func(p *sockettest.Peer) {
			p.Accept()
			p.Expect(`{"n":1}`, `{"n":2}`)
			p.ExpectClose()
		})
		if err := s.Post([]byte(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
		if err := s.Send(t.Context(), []byte(`{"n":2}`)); err != nil {
			t.Error(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Send(t.Context(), []byte(`{}`)); err != io.EOF {
			t.Error("after Close:", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := dial(t, func(p *sockettest.Peer) {
			p.Accept()
			p.Stay()
		})
		_ = s.Post(make([]byte, 100_000))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Send(ctx, []byte(`{}`)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Error(err, time.Since(began))
		}
		time.AfterFunc(time.Second, func() { s.Fail(io.ErrClosedPipe) })
		if err := s.Send(t.Context(), []byte(`{}`)); err != io.ErrClosedPipe {
			t.Error(err)
		}
	})
}

func TestEndedByTheService(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*sockettest.Peer)
		want string
	}{
		"dropped":  {func(p *sockettest.Peer) { p.Drop() }, "test: live: connection lost: it ended without a word"},
		"closed":   {func(p *sockettest.Peer) { p.Close(1011, "internal\nerror") }, "test: live: connection lost: the service closed it (1011: internal error)"},
		"no words": {func(p *sockettest.Peer) { p.Close(1001, "") }, "test: live: connection lost: the service closed it (1001)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := dial(t, func(p *sockettest.Peer) {
					p.Accept()
					p.Send(`"last"`)
					c.end(p)
				})
				if got := <-s.In(); string(got) != `"last"` {
					t.Errorf("what came before the end: %s", got)
				}
				if _, open := <-s.In(); open {
					t.Error("more than was sent")
				}
				err := s.Err()
				if !errors.Is(err, live.ErrLost) || !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("%v, want %s", err, c.want)
				}
				if !live.Reconnectable(err) {
					t.Error("not worth another try")
				}
			})
		})
	}
}

func TestGarbled(t *testing.T) {
	for name, bytes := range map[string]string{
		"no frame":       "\xff\xff\xff\xff",
		"half a frame":   "\x81\x7e\x10\x00abc",
		"endless frame":  "\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff",
		"negative frame": "\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
		"masked":         "\x81\x81abcde",
		"bad close":      "\x88\x01a",
		"nothing":        "",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := dial(t, func(p *sockettest.Peer) {
					c := p.Raw()
					defer c.Close()
					_, _ = c.Write([]byte("\x81\x02{}"))
					_, _ = c.Write([]byte(bytes))
				})
				n := 0
				for m := range s.In() {
					if n++; string(m) != "{}" && name != "masked" && len(m) > 0 {
						t.Errorf("%q", m)
					}
				}
				if !errors.Is(s.Err(), live.ErrLost) || n == 0 || n > 2 {
					t.Error(n, s.Err())
				}
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   error
		text   string
	}{
		{401, `{"error":{"message":"Incorrect API key provided: sk-12***34"}}`, live.ErrAuth, "test: connecting: live: the service refuses the key: HTTP 401"},
		{403, `no`, live.ErrAuth, "test: connecting: live: the service refuses the key: HTTP 403"},
		{429, `{"error":{"message":"slow down"}}`, live.ErrBusy, "test: connecting: live: the service is busy: HTTP 429: slow down"},
		{503, ``, live.ErrBusy, "test: connecting: live: the service is busy: HTTP 503"},
		{404, `{"error":{"message":"no model \"x\" for top secret or sk-abc123"}}`, live.ErrRejected, `test: connecting: live: the service refuses the session: HTTP 404: no model "x" for … or …`},
		{302, "", live.ErrRejected, "test: connecting: live: the service refuses the session: HTTP 302"},
		{400, strings.Repeat("long ", 400), live.ErrRejected, "test: connecting: live: the service refuses the session: HTTP 400: " + strings.Repeat("long ", 48) + "…"},
	} {
		server := sockettest.Serve(t, func(p *sockettest.Peer) {
			if c.status == http.StatusFound {
				p.Redirect("http://elsewhere.test/")
				return
			}
			p.Refuse(c.status, c.body)
		})
		_, err := socket.Dial(t.Context(), socket.Config{
			Name: "test", URL: server.URL, Transport: server.Transport, Secrets: []string{"", "top secret"},
		})
		if !errors.Is(err, c.want) || err.Error() != strings.TrimSpace(c.text) {
			t.Errorf("%d: %v\nwant %s", c.status, err, c.text)
		}
		if server.Dialled() != 1 {
			t.Errorf("%d: %d connections", c.status, server.Dialled())
		}
	}
}

func TestNobodyThere(t *testing.T) {
	_, err := socket.Dial(t.Context(), socket.Config{Name: "test", URL: "ws://127.0.0.1:1/?token=hush"})
	if !errors.Is(err, live.ErrLost) || strings.Contains(err.Error(), "hush") {
		t.Error(err)
	}
}

func TestHandshakeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := sockettest.Serve(t, func(p *sockettest.Peer) { p.Stay() })
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err := socket.Dial(ctx, socket.Config{Name: "test", URL: server.URL, Transport: server.Transport})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Error(err, time.Since(began))
		}
	})
}

// latePongs answers every ping, but late.
func latePongs(p *sockettest.Peer, late time.Duration) {
	const ping, pong = 9, 10
	conn := p.Raw()
	defer conn.Close()
	for {
		opcode, payload, err := sockettest.ReadFrame(conn)
		if err != nil {
			return
		}
		if opcode != ping {
			p.Fail("a frame of kind %d", opcode)
		}
		p.Sleep(late)
		frame := append([]byte{0x80 | pong, byte(len(payload))}, payload...)
		if _, err := conn.Write(frame); err != nil {
			return
		}
	}
}

func TestLatePongs(t *testing.T) {
	for _, c := range []struct {
		late time.Duration
		lost bool
	}{{25 * time.Second, false}, {41 * time.Second, true}, {time.Hour, true}} {
		t.Run(c.late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := dial(t, func(p *sockettest.Peer) { latePongs(p, c.late) })
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if lost := s.Err() != nil; lost != c.lost {
					t.Errorf("lost %v, want %v: %v", lost, c.lost, s.Err())
				}
				if c.lost && s.Err().Error() != "test: live: connection lost: no answer in 40s" {
					t.Error(s.Err())
				}
				if !c.lost {
					_ = s.Close(t.Context())
				}
			})
		})
	}
}

// A reader that is not asked for messages cannot see pongs; that is not the peer's fault.
func TestNobodyReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := dial(t, func(p *sockettest.Peer) {
			conn := p.Raw()
			defer conn.Close()
			go func() {
				for range 30 {
					if _, err := conn.Write([]byte("\x81\x02{}")); err != nil {
						return
					}
				}
			}()
			for { // no ping is answered: a pong would stand behind the messages
				if _, _, err := sockettest.ReadFrame(conn); err != nil {
					return
				}
			}
		})
		time.Sleep(5 * time.Minute)
		if s.Err() != nil {
			t.Error(s.Err())
		}
		for range 30 {
			<-s.In()
		}
		synctest.Wait()
		if s.Err() != nil {
			t.Error(s.Err())
		}
	})
}

func TestAPeerThatTakesNothing(t *testing.T) {
	stay := func(p *sockettest.Peer) {
		p.Accept()
		p.Stay()
	}
	t.Run("a message does not leave", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := dial(t, stay)
			if err := s.Post(make([]byte, 100_000)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(9 * time.Second)
			if s.Err() != nil {
				t.Error("too early:", s.Err())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if err := s.Err(); !errors.Is(err, live.ErrLost) || !strings.Contains(err.Error(), "did not leave in 10s") {
				t.Error(err)
			}
		})
	})
	t.Run("the queue is bounded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := dial(t, stay)
			var err error
			n := 0
			for ; err == nil && n < 1000; n++ {
				err = s.Post(make([]byte, 100_000))
			}
			if !errors.Is(err, live.ErrLost) || n < 41 || n > 44 {
				t.Error(n, err)
			}
		})
	})
	t.Run("Close does not wait for it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := dial(t, stay)
			_ = s.Post(make([]byte, 100_000))
			synctest.Wait()
			began := time.Now()
			if err := s.Close(t.Context()); err != nil || time.Since(began) > time.Second {
				t.Error(err, time.Since(began))
			}
		})
	})
	t.Run("nor longer than it is told", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := dial(t, stay)
			_ = s.Post(make([]byte, 100_000))
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 100*time.Millisecond {
				t.Error(err, time.Since(began))
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := sockettest.Serve(t, func(p *sockettest.Peer) {
			p.Accept()
			p.TrySend(strings.Repeat("x", 1001))
			p.Wait()
		})
		s, err := socket.Dial(t.Context(), socket.Config{Name: "test", URL: server.URL, Transport: server.Transport, MaxMessage: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if m, open := <-s.In(); open {
			t.Errorf("%d bytes", len(m))
		}
		if !errors.Is(s.Err(), live.ErrLost) {
			t.Error(s.Err())
		}
		_ = s.Close(t.Context())
	})
}
