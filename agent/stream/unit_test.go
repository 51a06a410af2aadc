package stream

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
)

func TestValidate(t *testing.T) {
	good := DefaultConfig()
	good.URL = "wss://bot.example/x"
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set  func(*Config)
		want string
	}{
		{func(c *Config) { c.URL = "" }, "url: must be set"},
		{func(c *Config) { c.URL = "http://a/" }, "url: must begin"},
		{func(c *Config) { c.URL = "ws:///x" }, "url: must begin"},
		{func(c *Config) { c.URL = "ws://a:b:c/s3cret" }, "url: is no address"},
		{func(c *Config) { c.URL = "ws://u:s3cret@a/" }, "url: must not hold a user"},
		{func(c *Config) { c.URL = "ws://a/#x" }, "url: must not hold a #"},
		{func(c *Config) { c.Dialect = "x" }, "dialect"},
		{func(c *Config) { c.Rate = 11025 }, "rate"},
		{func(c *Config) { c.APIKey = "s3cret\r\n" }, "api_key"},
		{func(c *Config) { c.AuthToken = "s3cret " }, "auth_token"},
		{func(c *Config) { c.AccountSID = "ü" }, "account_sid"},
		{func(c *Config) { c.ConnectTimeout = 0 }, "connect_timeout"},
		{func(c *Config) { c.Buffer = 2 * time.Hour }, "buffer"},
		{func(c *Config) { c.HearBuffer = 0 }, "hear_buffer"},
		{func(c *Config) { c.Reconnect = -1 }, "reconnect"},
		{func(c *Config) { c.OnLost = "" }, "on_lost"},
	} {
		cfg := good
		c.set(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v, want %q", err, c.want)
		}
		if _, err := New(cfg); err == nil || !strings.HasPrefix(err.Error(), "stream: ") {
			t.Errorf("New: %v", err)
		}
	}
	for _, c := range []struct {
		dialect string
		rate    int
		want    agent.Format
	}{{Twilio, 24000, agent.Format{HearRate: 8000, SayRate: 8000}}, {PCM, 24000, agent.Format{HearRate: 24000, SayRate: 24000}}} {
		cfg := good
		cfg.Dialect, cfg.Rate = c.dialect, c.rate
		o, err := New(cfg)
		if err != nil || o.Format() != c.want {
			t.Errorf("%s: %+v, %v", c.dialect, o.Format(), err)
		}
	}
}

// The oldest frames give way, whatever the sizes that come and however the writer goes.
func TestHeardDropsTheOldest(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	h := newHeard(100*time.Millisecond, 160, 1)
	var next byte
	var held *frame
	at, taken, lost := int64(0), int64(0), int64(0)
	for range 20000 {
		if rng.IntN(2) == 0 {
			b := make([]byte, rng.IntN(500))
			for i := range b {
				b[i] = byte(int(next) + i)
			}
			next += byte(len(b))
			h.put(b)
		} else if held != nil {
			h.back(held)
			held = nil
		} else {
			select {
			case held = <-h.full:
			default:
				continue
			}
			if held.at < at || held.at%160 != 0 || len(held.sound) != 160 || held.sound[0] != byte(held.at) || held.sound[159] != byte(held.at+159) {
				t.Fatalf("frame at %d after %d: %x", held.at, at, held.sound)
			}
			lost += held.at - at
			at = held.at + 160
			taken++
		}
	}
	if n := h.dropped.Load(); n == 0 || taken == 0 || n*160 < lost || n*160 > lost+7*160 {
		t.Errorf("%d dropped, %d samples missing of %d frames", n, lost, taken)
	}
	if got := h.samples.Load(); got != h.at {
		t.Errorf("%d samples counted of %d", got, h.at)
	}
}

func TestAllocsHeard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, dialect := range []string{Twilio, PCM} {
			r := newRig(t, dialect, listens, nil)
			s, err := r.opener.(*opener).newSession(r.call)
			if err != nil {
				t.Fatal(err)
			}
			pcm := make([]int16, r.mouth.rate/50)
			payload := make([]byte, 160)
			if n := testing.AllocsPerRun(1000, func() {
				s.Hear(pcm)
				s.heard.put(payload)
				s.Notice(agent.Notice{Kind: agent.VoiceOn})
			}); n != 0 {
				t.Errorf("%s: %v allocations for a frame heard", dialect, n)
			}
			// And what the writer makes of it.
			buf := make([]byte, 0, 4096)
			if d, ok := s.dialect.(*twilio); ok {
				d.begin(nil, false)
			}
			f := <-s.heard.full
			if n := testing.AllocsPerRun(1000, func() { _, _ = s.dialect.sound(buf[:0], f) }); n != 0 {
				t.Errorf("%s: %v allocations for a message of sound", dialect, n)
			}
			s.end()
			r.close()
		}
	})
}

// Whatever order sound, marks and clears come in: every mark comes back once and in
// order, none before its sound, and what is said is what was sent less what was cleared.
func TestSpeechKeepsItsPromises(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			life, cancel := context.WithCancel(t.Context())
			defer cancel()
			q := newSpeech(life, 1, 1000)
			var said []byte // on the timeline
			played := 0
			put, told := 0, 0
			ends := map[int]int{} // of marks on the timeline, once they are known
			total := 0            // sent since the last clear and kept before
			for range 400 {
				switch n := rng.IntN(10); {
				case n < 3:
					ctx, stop := context.WithTimeout(life, time.Millisecond)
					size := 1 + rng.IntN(300)
					if q.put(ctx, make([]byte, size)) == nil {
						total += size
					}
					stop()
				case n < 5:
					ctx, stop := context.WithTimeout(life, time.Millisecond)
					if q.mark(ctx, mark{name: string(rune(put))}) == nil {
						ends[put] = total
						put++
					}
					stop()
				case n < 7:
					if p, ok := q.next(100); ok && p.ctx.Err() == nil {
						said = append(said, p.sound...)
						q.done(p)
					}
				case n < 9:
					played += rng.IntN(max(1, len(said)-played+1))
					q.reach(int64(played))
				default:
					c := q.clear(func() int64 { return int64(played) })
					if int(c.dropped) != total-played {
						t.Fatalf("seed %d: %d dropped, want %d", seed, c.dropped, total-played)
					}
					said, total = said[:played], played
					for i := told; i < put; i++ {
						ends[i] = min(ends[i], played)
					}
				}
				for _, m := range q.take() {
					if m.name != string(rune(told)) || !m.cleared && ends[told] > played {
						t.Fatalf("seed %d: mark %d of %d came at %d, belongs to %d", seed, told, put, played, ends[told])
					}
					told++
				}
				if q.queued > 1000+300 {
					t.Fatalf("seed %d: %d bytes wait", seed, q.queued)
				}
			}
			for {
				p, ok := q.next(1000)
				if !ok {
					break
				}
				said = append(said, p.sound...)
				q.done(p)
			}
			q.reach(int64(len(said)))
			told += len(q.take())
			if told != put || len(said) != total || q.marks != 0 || q.queued != 0 {
				t.Fatalf("seed %d: %d marks of %d, %d bytes of %d; %d marks and %d bytes left", seed, told, put, len(said), total, q.marks, q.queued)
			}
		})
	}
}

// What was said long ago takes no memory.
func TestSpeechForgets(t *testing.T) {
	q := newSpeech(t.Context(), 1, 1<<20)
	for range 100000 {
		if err := q.put(t.Context(), []byte{1}); err != nil {
			t.Fatal(err)
		}
		if len(q.items) > 5 {
			p, _ := q.next(1)
			q.done(p)
		}
	}
	if cap(q.items) > 8192 || len(q.items)-q.head > 6 {
		t.Errorf("%d items, room for %d", len(q.items), cap(q.items))
	}
}

// A call costs five goroutines: Run, and those that speak, write, read and ping.
func TestGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const calls = 50
		r := newRig(t, PCM, listens, nil)
		synctest.Wait()
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan error, calls)
		for range calls {
			s, err := r.opener.Open(ctx, r.call)
			if err != nil {
				t.Fatal(err)
			}
			go func() { ended <- s.Run(ctx) }()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if n := runtime.NumGoroutine() - before; n > calls*(5+1)+calls/10 { // one is the bot; timers come and go
			t.Errorf("%d goroutines for %d calls", n, calls)
		}
		cancel(errHungUp)
		for range calls {
			<-ended
		}
		r.close()
	})
}

// Sound that a bot cut in any way is heard whole.
func TestSoundInAnyPieces(t *testing.T) {
	for _, sizes := range [][]int{{1}, {160}, {159, 2}, {333, 7, 160}} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, Twilio, listens, nil).answer()
			p := r.peer(0)
			sound := tone(1, 50)
			for rest, i := sound, 0; len(rest) > 0; i++ {
				n := min(len(rest), sizes[i%len(sizes)])
				p.media(rest[:n])
				rest = rest[n:]
			}
			time.Sleep(2 * time.Second)
			if got := r.mouth.sent(); !slices.Equal(got, bytesOf(sound)) {
				t.Errorf("%v: %d samples heard", sizes, len(got))
			}
			r.end()
		})
	}
}

// Sound that comes in small pieces at the speed of speech is not torn by silence.
func TestSoundAtTheSpeedOfSpeech(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Twilio, listens, nil).answer()
		p := r.peer(0)
		for i := range 400 { // 12.5 ms each
			p.media(tone(i, 1)[:100])
			time.Sleep(12500 * time.Microsecond)
		}
		if _, n := r.mouth.counts(); n != 0 {
			t.Errorf("%d packets were filled up amid speech", n)
		}
		time.Sleep(200 * time.Millisecond)
		if _, n := r.mouth.counts(); n != 1 || len(r.mouth.sent()) != 40000 {
			t.Errorf("%d samples heard, %d flushes", len(r.mouth.sent()), n)
		}
		r.end()
	})
}
