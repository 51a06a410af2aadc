package cartesia_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live/socket/sockettest"
	"parley/agent/tts"
	"parley/agent/tts/cartesia"
)

const sentence = "one two three four five"

// part is what the service does with one connection, after the handshake. id and text are of
// its first request.
type part func(p *sockettest.Peer, id, text string)

func speaks(p *sockettest.Peer, id, text string) {
	p.Send(messages(id, text, before)...)
	p.Wait()
}

// sends sends messages, in which ID stands for the context, and stays.
func sends(messages ...string) part {
	return func(p *sockettest.Peer, id, _ string) {
		for _, m := range messages {
			p.TrySend(strings.ReplaceAll(m, "ID", id))
		}
		p.Wait()
	}
}

func TestFaults(t *testing.T) {
	drops := func(p *sockettest.Peer, _, _ string) { p.Drop() }
	some := func(then func(p *sockettest.Peer)) part {
		return func(p *sockettest.Peer, id, text string) {
			p.Send(messages(id, text, before)[:6]...)
			p.Sleep(ms)
			then(p)
		}
	}
	refusal := func(rest string) string { return `{"type":"error","done":true,"context_id":"ID",` + rest + `}` }
	for _, c := range []struct {
		name    string
		parts   []part
		want    string // in the error; empty: all is heard
		dialled int
		heard   bool
	}{
		{"dropped, then well", []part{drops, speaks}, "", 2, true},
		{"dropped twice", []part{drops, drops, speaks}, "connection lost", 2, false},
		{"closed, then well", []part{func(p *sockettest.Peer, _, _ string) { p.Close(1011, "sorry") }, speaks}, "", 2, true},
		{"dropped after some sound", []part{some(func(p *sockettest.Peer) { p.Drop() }), speaks}, "connection lost", 1, true},
		{"closed after some sound", []part{some(func(p *sockettest.Peer) { p.Close(1011, "no "+key) }), speaks}, "the service closed it (1011: no …)", 1, true},
		{"no answer", []part{func(p *sockettest.Peer, _, _ string) { p.Wait() }, speaks}, "it sent nothing for 1s", 1, false},
		{"it stalls after some sound", []part{some(func(p *sockettest.Peer) { p.Wait() }), speaks}, "it sent nothing for 1s", 1, true},
		{"garbage, then well", []part{sends("\x00\x01garbage"), speaks}, "", 2, true},
		{"no type, then well", []part{sends(`{"context_id":"ID"}`), speaks}, "", 2, true},
		{"HTML, twice", []part{sends("<html>"), sends("<html>"), speaks}, "it sends what cannot be read", 2, false},
		{"no base64", []part{sends(`{"type":"chunk","context_id":"ID","data":"***"}`), speaks}, "", 2, true},
		{"MP3", []part{sends(chunk("ID", "ID3\x04"+strings.Repeat("x", 100))), speaks}, "MP3 is not read", 1, false},
		{"a text for sound", []part{sends(chunk("ID", "no sound for "+key+" today, nor tomorrow")), speaks}, "a text instead of sound; it said: no sound for … today", 1, false},
		{"no sound", []part{sends(done("ID")), speaks}, "without any sound", 1, false},
		{"429", []part{sends(refusal(`"status_code":429,"title":"Too many","message":"no more for ` + key + `","error_code":"concurrency_limited"`))},
			"the service refused (429): the account has no room for more texts at the same time; it said: Too many: no more for … (concurrency_limited)", 1, false},
		{"401", []part{sends(refusal(`"status_code":401,"error":"no key"`))}, "the service refused (401): is api_key right?; it said: no key", 1, false},
		{"402", []part{sends(refusal(`"status_code":402,"title":"Empty"`))}, "the account is empty; it said: Empty", 1, false},
		{"404", []part{sends(refusal(`"status_code":404,"error":{"a":1}`))}, `are voice and model right?; it said: {"a":1}`, 1, false},
		{"an error of no context", []part{sends(`{"type":"error","status_code":400,"message":"bad"}`)}, "the service refused (400); it said: bad", 1, false},
		{"another's error", []part{func(p *sockettest.Peer, id, text string) {
			p.Send(`{"type":"error","context_id":"other","status_code":400,"message":"bad"}`, `{"type":"whatever","context_id":"`+id+`"}`)
			speaks(p, id, text)
		}}, "", 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sockettest.Serve(t, func(p *sockettest.Peer) {
					greet(p)
					id, text := request(p)
					c.parts[min(p.Number, len(c.parts))-1](p, id, text)
				})
				v := voiceAt(t, s, nil)
				h, err := speak(t, v, sentence)
				if c.want == "" {
					h.whole(t, sentence, err)
				} else if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "tts/cartesia: ") || strings.Contains(err.Error(), key) {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if len(h.pcm) > 0 != c.heard || s.Dialled() != c.dialled {
					t.Errorf("%d samples, %d connections; want %d", len(h.pcm), s.Dialled(), c.dialled)
				}
			})
		})
	}
}

// TestAnErrorOfAContext leaves the connection as it is; one of the connection does not.
func TestAnErrorOfAContext(t *testing.T) {
	for _, c := range []struct {
		context string
		dialled int
	}{{`"context_id":"ID",`, 1}, {"", 2}} {
		synctest.Test(t, func(t *testing.T) {
			s := sockettest.Serve(t, func(p *sockettest.Peer) {
				greet(p)
				id, text := request(p)
				if p.Number == 1 {
					p.Send(strings.ReplaceAll(`{"type":"error",`+c.context+`"status_code":400,"message":"no"}`, "ID", id))
					b, err := p.TryRead()
					if err != nil {
						return
					}
					if id = strings.Split(string(b), `"`)[3]; !strings.Contains(string(b), `"transcript":"two"`) {
						p.Fail("%s instead of the next text", b)
					}
					text = "two"
				}
				speaks(p, id, text)
			})
			v := voiceAt(t, s, nil)
			if _, err := speak(t, v, "one"); err == nil {
				t.Error("no error")
			}
			h, err := speak(t, v, "two")
			h.whole(t, "two", err)
			if s.Dialled() != c.dialled {
				t.Errorf("%q: %d connections, want %d", c.context, s.Dialled(), c.dialled)
			}
		})
	}
}

// TestAConnectionThatEndedWhileItWaited is noticed, and costs nothing but another.
func TestAConnectionThatEndedWhileItWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			greet(p)
			id, text := request(p)
			p.Send(messages(id, text, before)...)
			if p.Number == 1 {
				p.Sleep(time.Minute)
				p.Close(1000, "idle")
				return
			}
			p.Wait()
		})
		v := voiceAt(t, s, nil)
		for range 2 {
			h, err := speak(t, v, "one two")
			h.whole(t, "one two", err)
			time.Sleep(2 * time.Minute)
		}
		if s.Dialled() != 2 {
			t.Errorf("%d connections", s.Dialled())
		}
	})
}

// TestAllThatWaitedAreOfNoUse: after one that breaks off, a text goes over a new connection,
// not over another that has waited as long.
func TestAllThatWaitedAreOfNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) {
			greet(p)
			id, text := request(p)
			p.Send(messages(id, text, before)...)
			if p.Number < 3 {
				_, _ = p.TryRead() // the next request, or the voice's end
				p.Drop()
				return
			}
			p.Wait()
		})
		v := voiceAt(t, s, func(c *cartesia.Config) { c.Timeout = time.Minute })
		var both sync.WaitGroup
		release := make(chan struct{})
		for range 2 {
			both.Go(func() {
				if err := v.Speak(t.Context(), "one", func(tts.Chunk) error { <-release; return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(500 * ms)
		close(release)
		both.Wait()
		h, err := speak(t, v, "two")
		h.whole(t, "two", err)
		if s.Dialled() != 3 {
			t.Errorf("%d connections", s.Dialled())
		}
	})
}

func TestHandshakes(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{401, `{"error":"no ` + key + `"}`, "HTTP 401"},
		{429, "too many for " + key, "HTTP 429: too many for …"},
		{500, "<html>oops</html>", "HTTP 500: <html>oops</html>"},
		{200, "<html>hello</html>", "HTTP 200"},
	} {
		s := sockettest.Loopback(t, func(p *sockettest.Peer) { p.Refuse(c.status, c.body) })
		_, err := speak(t, voiceAt(t, s, nil), sentence)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key) || s.Dialled() != 1 {
			t.Errorf("%d: %v, %d connections", c.status, err, s.Dialled())
		}
	}
	cfg := cartesia.DefaultConfig()
	cfg.BaseURL = "ws://127.0.0.1:1/?token=hush"
	v, err := cartesia.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := speak(t, v, sentence); err == nil || strings.Contains(err.Error(), "hush") {
		t.Error(err)
	}
	if _, err := speak(t, v, strings.Repeat("a", 5000)); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

// TestAHandshakeIsBounded: a service that takes the connection and says nothing.
func TestAHandshakeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sockettest.Serve(t, func(p *sockettest.Peer) { p.Stay() })
		v := voiceAt(t, s, func(c *cartesia.Config) { c.ConnectTimeout = 2 * time.Second })
		begin := time.Now()
		if _, err := speak(t, v, sentence); err == nil || time.Since(begin) != 2*time.Second {
			t.Error(err, time.Since(begin))
		}
	})
}

func TestStyles(t *testing.T) {
	for _, c := range []struct {
		style  string
		change func(*cartesia.Config)
		want   any // of generation_config
	}{
		{"", nil, nil},
		{"like a pirate", nil, nil},
		{"sad", nil, map[string]any{"emotion": "sad"}},
		{"warm", func(c *cartesia.Config) { c.Emotion, c.Volume = "calm", 1.2 }, map[string]any{"emotion": "affectionate", "volume": 1.2}},
		{"", func(c *cartesia.Config) { c.Emotion, c.Speed = "calm", 1.5 }, map[string]any{"emotion": "calm", "speed": 1.5}},
		{"fast", func(c *cartesia.Config) { c.Speed = 1.4 }, map[string]any{"speed": 1.5}},
		{"slow", nil, map[string]any{"speed": 0.85}},
		{"whisper", nil, map[string]any{"volume": 0.7}},
		{"loud", nil, map[string]any{"volume": 1.4}},
	} {
		s := sockettest.Loopback(t, func(p *sockettest.Peer) {
			greet(p)
			m := p.Read()
			if got, there := m["generation_config"]; there != (c.want != nil) || there && js(got.(map[string]any)) != js(c.want.(map[string]any)) {
				t.Errorf("%q: %v, want %v", c.style, got, c.want)
			}
			delete(m, "generation_config")
			id, text := asked(p, m)
			speaks(p, id, text)
		})
		if err := voiceAt(t, s, c.change).SpeakStyled(t.Context(), "hello", c.style, func(tts.Chunk) error { return nil }); err != nil {
			t.Error(err)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := cartesia.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		change func(*cartesia.Config)
		want   string
	}{
		{func(c *cartesia.Config) { c.BaseURL = "https://api.cartesia.ai" }, "base_url: "},
		{func(c *cartesia.Config) { c.BaseURL = "wss://user:hush@api.cartesia.ai" }, "base_url: "},
		{func(c *cartesia.Config) { c.APIKey = "a b" }, "api_key"},
		{func(c *cartesia.Config) { c.Voice = "" }, "voice: "},
		{func(c *cartesia.Config) { c.Model = "" }, "model: "},
		{func(c *cartesia.Config) { c.Language = "" }, "language: "},
		{func(c *cartesia.Config) { c.Version = "" }, "version: "},
		{func(c *cartesia.Config) { c.SampleRate = 32000 }, "sample_rate: "},
		{func(c *cartesia.Config) { c.Speed = 2 }, "speed: "},
		{func(c *cartesia.Config) { c.Volume = 3 }, "volume: "},
		{func(c *cartesia.Config) { c.Emotion = "warm" }, "emotion: "},
		{func(c *cartesia.Config) { c.MaxIdle = -1 }, "max_idle: "},
		{func(c *cartesia.Config) { c.IdleTimeout = 0 }, "idle_timeout: "},
		{func(c *cartesia.Config) { c.ConnectTimeout = 0 }, "connect_timeout: "},
		{func(c *cartesia.Config) { c.Timeout = 0 }, "timeout: "},
	} {
		cfg := cartesia.DefaultConfig()
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v, want %s…", err, c.want)
		}
		if _, err := cartesia.New(cfg); err == nil {
			t.Errorf("%s: a voice was made", c.want)
		}
	}
}
