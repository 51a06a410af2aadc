package call

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/sip"
	"parley/test/audio"
	"parley/test/phone"
)

// sine is a tone at rate.
func sine(hz, rate int, d time.Duration) []int16 {
	pcm := make([]int16, int(d.Seconds()*float64(rate)))
	for i := range pcm {
		pcm[i] = int16(8000 * math.Sin(2*math.Pi*float64(hz)*float64(i)/float64(rate)))
	}
	return pcm
}

// within is a context that ends before the test's patience does.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, p *phone.Phone, uri string) *phone.Call {
	t.Helper()
	c, err := p.Dial(within(t), uri)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Hangup(ctx) // before the phone is closed, or the gateway's BYE waits for it
	})
	return c
}

func TestACallBothWaysAndItsRecord(t *testing.T) {
	g := startGateway(t, nil)
	g.agent.mu.Lock()
	g.agent.format = agent.Format{HearRate: 16000, SayRate: 24000}
	g.agent.mu.Unlock()
	g.agent.does(func(ctx context.Context, s *fakeSession) error {
		if err := s.call.Speaker.Say(ctx, sine(440, 24000, time.Second)); err != nil {
			return err
		}
		s.call.Speaker.Flush()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	p := ringUp(t, phone.Config{Number: "+14155550100", Name: "Ann"})
	c := dial(t, p, g.uri)
	s := g.agent.last()
	if got := s.call.Caller; got.ResourceID != "+14155550100" || got.Name != "Ann" {
		t.Errorf("caller %+v, want +14155550100, Ann", got)
	}
	c.Say(sine(1000, 8000, 500*time.Millisecond))
	on := s.await(t, agent.VoiceOn)
	if on.Lag <= 0 || on.Lag > 150*time.Millisecond {
		t.Errorf("voice on with a lag of %v", on.Lag)
	}
	s.await(t, agent.VoiceConfirmed)
	s.await(t, agent.SpeechEnded)
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	r := g.seen.awaitEnd(t)
	if r.Cause != CauseCallerHungUp || r.Codec != "PCMU" || r.ResourceID != "+14155550100" || r.Error != "" {
		t.Errorf("record %+v", r)
	}
	if r.Stats.Speech+g.SoundStats().SpeechDropped != time.Second { // a machine under load may stall
		t.Errorf("%v of speech on the wire, want 1s", r.Stats.Speech)
	}
	if q := c.Log().Quality(phone.Heard); int(r.Stats.PacketsOut) < q.Packets {
		t.Errorf("record says %d packets out, the phone heard %d", r.Stats.PacketsOut, q.Packets)
	}
	frames, loud, sizes := s.heard()
	if frames == 0 || loud < 20 || len(sizes) != 1 || sizes[0] != 320 {
		t.Errorf("agent heard %d frames, %d loud, of sizes %v; want frames of 320", frames, loud, sizes)
	}
	if share, _ := audio.ToneShare(c.Log().Stereo().Right, 8000, 440); share < 0.9 {
		t.Errorf("the phone heard 440 Hz with a share of %.2f, want 0.9", share)
	}
}

// quiet listens where a phone listened and fails when anything comes (BR-152).
func quiet(t *testing.T, local netip.AddrPort) {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	var buf [2048]byte
	if n, from, err := conn.ReadFrom(buf[:]); err == nil {
		t.Errorf("%d bytes from %v after the BYE was answered", n, from)
	}
}

func TestNothingIsSentAfterTheEndThoughTheAgentLingers(t *testing.T) {
	g := startGateway(t, nil)
	leave := make(chan struct{})
	g.agent.does(func(ctx context.Context, s *fakeSession) error {
		for ctx.Err() == nil {
			_ = s.call.Speaker.Say(ctx, sine(440, 8000, time.Second))
		}
		<-leave
		return context.Cause(ctx)
	})
	c := dial(t, ringUp(t, phone.Config{}), g.uri)
	if err := c.WaitAgentSpeaking(within(t), 0); err != nil {
		t.Fatal(err)
	}
	local := c.Log().Packets()[0].Local
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	quiet(t, local)
	close(leave)
	g.seen.awaitEnd(t)
}

func TestTheAgentHangsUp(t *testing.T) {
	g := startGateway(t, nil)
	g.agent.does(func(context.Context, *fakeSession) error { return nil })
	c := dial(t, ringUp(t, phone.Config{}), g.uri)
	end, err := c.WaitEnd(within(t))
	if err != nil || !end.ByPeer || !strings.Contains(end.Reason, CauseAgentHungUp) {
		t.Errorf("end %+v, %v; want a BYE with the reason", end, err)
	}
	if r := g.seen.awaitEnd(t); r.Cause != CauseAgentHungUp {
		t.Errorf("cause %q", r.Cause)
	}
}

// The other party does not wait for what an agent has left to do.
func TestTheAgentIsOverBeforeItIsDone(t *testing.T) {
	g := startGateway(t, nil)
	leave := make(chan struct{})
	g.agent.does(func(ctx context.Context, s *fakeSession) error {
		s.call.Over(nil)
		s.call.Over(errors.New("too late"))
		<-ctx.Done()
		<-leave
		return nil
	})
	c := dial(t, ringUp(t, phone.Config{}), g.uri)
	end, err := c.WaitEnd(within(t))
	if err != nil || !end.ByPeer || !strings.Contains(end.Reason, CauseAgentHungUp) {
		t.Errorf("end %+v, %v; want a BYE with the reason", end, err)
	}
	close(leave)
	if r := g.seen.awaitEnd(t); r.Cause != CauseAgentHungUp {
		t.Errorf("cause %q", r.Cause)
	}
}

func TestRefusals(t *testing.T) {
	cases := []struct {
		name   string
		change func(*Config, *sip.Config)
		before func(*testing.T, *gateway)
		user   string
		code   int
		rule   string
		phone  phone.Config
	}{
		{name: "no route", user: "nobody", code: 404, rule: "no_route"},
		{name: "no codec in common", phone: phone.Config{Codecs: []string{"PCMA"}}, code: 488, rule: "no_common_codec",
			change: func(c *Config, _ *sip.Config) { c.Codecs = []string{"PCMU"} }},
		{name: "draining", before: func(_ *testing.T, g *gateway) { g.Drain(true) }, code: 503, rule: "draining"},
		{name: "limit", change: func(c *Config, _ *sip.Config) { c.MaxCalls = 1 }, code: 503, rule: "max_calls",
			before: func(t *testing.T, g *gateway) { dial(t, ringUp(t, phone.Config{}), g.uri) }},
		{name: "agent fails", code: 503, rule: "agent_unavailable", before: func(_ *testing.T, g *gateway) {
			g.agent.opens(func(context.Context, agent.Call) error { return errors.New("no connection") })
		}},
		{name: "agent too slow", change: func(c *Config, _ *sip.Config) { c.OpenTimeout = 50 * time.Millisecond },
			code: 503, rule: "agent_timeout", before: func(_ *testing.T, g *gateway) {
				g.agent.opens(func(ctx context.Context, _ agent.Call) error { <-ctx.Done(); return ctx.Err() })
			}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			g := startGateway(t, tc.change)
			if tc.before != nil {
				tc.before(t, g)
			}
			uri := g.uri
			if tc.user != "" {
				uri = strings.Replace(uri, "agent", tc.user, 1)
			}
			_, err := ringUp(t, tc.phone).Dial(within(t), uri)
			var status *phone.StatusError
			if !errors.As(err, &status) || status.Code != tc.code {
				t.Fatalf("dial: %v, want %d", err, tc.code)
			}
			if got := g.seen.awaitRefusal(t); !strings.HasSuffix(got, tc.rule) {
				t.Errorf("refused by %q, want %q", got, tc.rule)
			}
		})
	}
}

func TestAnAgentsPanicIsTheFaultOfItsCallOnly(t *testing.T) {
	g := startGateway(t, nil)
	g.agent.does(func(ctx context.Context, s *fakeSession) error {
		if s.call.Caller.Name == "boom" {
			panic("boom")
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	other := dial(t, ringUp(t, phone.Config{}), g.uri)
	c := dial(t, ringUp(t, phone.Config{Name: "boom", Number: "+14155550199"}), g.uri)
	if _, err := c.WaitEnd(within(t)); err != nil {
		t.Fatal(err)
	}
	if r := g.seen.awaitEnd(t); r.Cause != CauseFault || !strings.Contains(r.Error, "boom") {
		t.Errorf("record %q %q, want a fault", r.Cause, r.Error)
	}
	select {
	case <-other.Done():
		t.Error("the other call ended too")
	default:
	}
}

func TestAnObserversPanicLeavesNothingBehind(t *testing.T) {
	g := startGateway(t, nil)
	g.seen.panics.Store(true)
	c := dial(t, ringUp(t, phone.Config{}), g.uri)
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	g.Shutdown(within(t)) // returns only when the call is gone
	if n := g.Active(); n != 0 {
		t.Errorf("%d calls left", n)
	}
}

func TestHoldAndResume(t *testing.T) {
	g := startGateway(t, nil)
	c := dial(t, ringUp(t, phone.Config{}), g.uri)
	s := g.agent.last()
	if err := c.Hold(within(t)); err != nil {
		t.Fatal(err)
	}
	s.await(t, agent.Held)
	quiet := c.Log().Quality(phone.Heard).Packets
	if err := c.Pause(within(t), 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := c.Log().Quality(phone.Heard).Packets - quiet; n > 2 {
		t.Errorf("%d packets came while on hold", n)
	}
	if err := c.Resume(within(t)); err != nil {
		t.Fatal(err)
	}
	s.await(t, agent.Resumed)
	before := c.Log().Quality(phone.Heard).Packets
	if err := c.Pause(within(t), 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := c.Log().Quality(phone.Heard).Packets - before; n < 10 {
		t.Errorf("%d packets in 300 ms after the resume", n)
	}
	if err := c.MovePort(within(t)); err != nil {
		t.Fatal(err)
	}
	before = c.Log().Quality(phone.Heard).Packets
	if err := c.Pause(within(t), 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := c.Log().Quality(phone.Heard).Packets - before; n < 10 {
		t.Errorf("%d packets in 300 ms at the new port", n)
	}
}

func TestDigitsByTelephoneEventAndByInfo(t *testing.T) {
	g := startGateway(t, nil)
	c := dial(t, ringUp(t, phone.Config{}), g.uri)
	s := g.agent.last()
	for _, digit := range []byte("1#") {
		if _, err := c.Press(digit, 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if got := s.await(t, agent.Digit).Digit; got != digit {
			t.Errorf("digit %c, want %c", got, digit)
		}
	}
	m, err := c.Request(within(t), "INFO", "application/dtmf-relay", []byte("Signal=7\r\nDuration=160\r\n"))
	if err != nil || m.Code != 200 {
		t.Fatalf("INFO: %v, %v", m, err)
	}
	if got := s.await(t, agent.Digit).Digit; got != '7' {
		t.Errorf("digit %c by INFO, want 7", got)
	}
	if m, err = c.Request(within(t), "INFO", "text/plain", []byte("7")); err != nil || m.Code != 415 {
		t.Errorf("INFO of text: %v, %v, want 415", m, err)
	}
}

func TestTheCallerGivesUpWhileTheAgentOpens(t *testing.T) {
	g := startGateway(t, nil)
	opening := make(chan struct{})
	g.agent.opens(func(ctx context.Context, _ agent.Call) error {
		close(opening)
		<-ctx.Done()
		return ctx.Err()
	})
	c, err := ringUp(t, phone.Config{}).Invite(g.uri)
	if err != nil {
		t.Fatal(err)
	}
	<-opening
	c.Cancel()
	var status *phone.StatusError
	if err := c.WaitAnswer(within(t)); !errors.As(err, &status) || status.Code != 487 {
		t.Errorf("answer %v, want 487", err)
	}
	if got := g.seen.awaitRefusal(t); got != "487 cancelled" {
		t.Errorf("refused as %q", got)
	}
}

func TestWatchdogs(t *testing.T) {
	t.Run("maximum duration", func(t *testing.T) {
		g := startGateway(t, func(c *Config, _ *sip.Config) { c.MaxDuration = 200 * time.Millisecond })
		dial(t, ringUp(t, phone.Config{}), g.uri)
		if r := g.seen.awaitEnd(t); r.Cause != CauseMaxDuration {
			t.Errorf("cause %q", r.Cause)
		}
	})
	t.Run("no media", func(t *testing.T) {
		g := startGateway(t, func(c *Config, _ *sip.Config) { c.InitialMediaTimeout = time.Second })
		dial(t, ringUp(t, phone.Config{Line: phone.Impairment{Loss: 1}}), g.uri)
		if r := g.seen.awaitEnd(t); r.Cause != CauseMediaTimeout {
			t.Errorf("cause %q", r.Cause)
		}
	})
}

func TestShutdownEndsCallsWithAReason(t *testing.T) {
	g := startGateway(t, nil)
	c := dial(t, ringUp(t, phone.Config{}), g.uri)
	ctx, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	g.Shutdown(ctx)
	end, err := c.WaitEnd(within(t))
	if err != nil || !strings.Contains(end.Reason, CauseShutdown) {
		t.Errorf("end %+v, %v", end, err)
	}
	if r := g.seen.awaitEnd(t); r.Cause != CauseShutdown {
		t.Errorf("cause %q", r.Cause)
	}
}

func TestAnAgentThatDoesNotReturnIsLeftBehind(t *testing.T) {
	g := startGateway(t, func(c *Config, _ *sip.Config) { c.EndTimeout = 50 * time.Millisecond })
	stuck := make(chan struct{})
	g.agent.does(func(context.Context, *fakeSession) error { <-stuck; return nil })
	c := dial(t, ringUp(t, phone.Config{}), g.uri)
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	g.seen.awaitEnd(t)
	close(stuck)
	await(t, g.agent.last().ended, "end of the agent")
}

// A call needs one goroutine, the agent's Run.
func TestGoroutineBudget(t *testing.T) {
	g := startGateway(t, nil)
	p := ringUp(t, phone.Config{})
	const calls = 20
	dial(t, p, g.uri)
	mine := phoneGoroutines()
	before := runtime.NumGoroutine() - mine
	for range calls {
		dial(t, p, g.uri)
	}
	// Timers and transactions of the set-up end by themselves.
	deadline := time.Now().Add(10 * time.Second)
	for {
		got := runtime.NumGoroutine() - phoneGoroutines() - before
		if got <= calls {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines for %d calls, one a call is enough", got, calls)
		}
		runtime.Gosched()
	}
}

// phoneGoroutines counts the goroutines of the test's own phone.
func phoneGoroutines() int {
	buf := make([]byte, 4<<20)
	n := 0
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "parley/test/phone.") && !strings.Contains(stack, "testing.tRunner") {
			n++
		}
	}
	return n
}
