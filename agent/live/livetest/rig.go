package livetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"parley/agent/live"
)

// rig is one part of the suite under way.
type rig struct {
	*testing.T
	suite    Suite
	service  Service
	provider live.LiveProvider
	ctx      context.Context
	received chan received
}

type received struct {
	m   live.Message
	err error
}

func newRig(t *testing.T, s Suite) *rig {
	t.Helper()
	if s.Closing == 0 {
		s.Closing = time.Second
	}
	r := &rig{T: t, suite: s}
	service, open := s.Open(t)
	r.service, r.provider = service, open()
	r.ctx = t.Context()
	t.Cleanup(func() { r.close() })
	return r
}

// within is a context for one step.
func (r *rig) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.ctx), patience)
}

// dial connects with cfg and returns the service's side.
func (r *rig) dial(change func(*live.LiveConfig)) Conn {
	r.Helper()
	cfg := r.suite.Config
	cfg.Transcribe = true
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := r.within()
	defer cancel()
	type accepted struct {
		conn Conn
		err  error
	}
	done := make(chan accepted, 1)
	go func() {
		c, err := r.service.Accept(ctx)
		done <- accepted{c, err}
	}()
	if err := r.provider.Connect(ctx, cfg); err != nil {
		r.Fatalf("Connect: %v", err)
	}
	a := <-done
	if a.err != nil {
		r.Fatalf("the service did not see the connection set up: %v", a.err)
	}
	return a.conn
}

// open dials, and receives from then on.
func (r *rig) open(change func(*live.LiveConfig)) Conn {
	r.Helper()
	c := r.dial(change)
	r.listen()
	return c
}

// listen takes messages on a goroutine of its own until there is an error.
func (r *rig) listen() {
	out := make(chan received, 256)
	r.received = out
	go func() {
		for {
			m, err := r.provider.Receive(context.WithoutCancel(r.ctx))
			out <- received{m, err}
			if err != nil {
				return
			}
		}
	}()
}

// tell has the service say m, or passes the part over.
func (r *rig) tell(c Conn, m live.Message) {
	r.Helper()
	r.said(c.Tell(m))
}

func (r *rig) said(err error) {
	r.Helper()
	switch {
	case errors.Is(err, ErrCannot):
		r.Skip(err)
	case err != nil:
		r.Fatalf("the service could not speak: %v", err)
	}
}

// got waits until what was received holds what is wanted, and returns all of it. A
// connection that is lost before fails the test.
func (r *rig) got(what string, enough func(all []live.Message) bool) []live.Message {
	r.Helper()
	var all []live.Message
	limit := time.After(patience)
	for {
		select {
		case m := <-r.received:
			if m.err != nil {
				r.Fatalf("Receive: %v, before %s", m.err, what)
			}
			if all = append(all, m.m); enough(all) {
				return all
			}
		case <-limit:
			r.Fatalf("%s did not come; what came: %+v", what, all)
		}
	}
}

// until is enough at the first message for which it holds.
func until(holds func(live.Message) bool) func([]live.Message) bool {
	return func(all []live.Message) bool { return holds(all[len(all)-1]) }
}

func turnDone(m live.Message) bool { return m.TurnDone }

// lost waits for the error that ends receiving.
func (r *rig) lost() error {
	r.Helper()
	limit := time.After(patience)
	for {
		select {
		case m := <-r.received:
			if m.err != nil {
				return m.err
			}
		case <-limit:
			r.Fatal("Receive does not tell that the connection is gone")
		}
	}
}

// sent waits for what the provider sends next that is not audio, unless audio is
// wanted.
func (r *rig) sent(c Conn, kind Kind) Sent {
	r.Helper()
	ctx, cancel := r.within()
	defer cancel()
	for {
		s, err := c.Next(ctx)
		if err != nil {
			r.Fatalf("waiting for the provider to send %s: %v", kind, err)
		}
		if s.Kind == kind {
			return s
		}
		if s.Kind != SentAudio {
			r.Fatalf("the provider sent %s (%+v), want %s", s.Kind, s, kind)
		}
	}
}

// silent fails when the provider sends anything but audio within a moment.
func (r *rig) silent(c Conn, what string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), 200*time.Millisecond)
	defer cancel()
	for {
		s, err := c.Next(ctx)
		if err != nil {
			return
		}
		if s.Kind != SentAudio {
			r.Errorf("%s: the provider sent %+v", what, s)
		}
	}
}

// try calls a method that must not take long.
func (r *rig) try(what string, do func(context.Context) error) {
	r.Helper()
	ctx, cancel := r.within()
	defer cancel()
	if err := do(ctx); err != nil {
		r.Fatalf("%s: %v", what, err)
	}
}

// close ends the provider, in time.
func (r *rig) close() {
	ctx, cancel := r.within()
	defer cancel()
	before := time.Now()
	if err := r.provider.Close(ctx); err != nil {
		r.Errorf("Close: %v", err)
	}
	if took := time.Since(before); took > r.suite.Closing {
		r.Errorf("Close took %v, at most %v", took, r.suite.Closing)
	}
}

// tone is S16LE of a sine.
func tone(hz float64, rate int, length time.Duration) []byte {
	var b bytes.Buffer
	for i := range int(length * time.Duration(rate) / time.Second) {
		v := int16(8000 * math.Sin(2*math.Pi*hz*float64(i)/float64(rate)))
		_ = binary.Write(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

// samples reads S16LE.
func samples(b []byte) []int16 {
	out := make([]int16, len(b)/2)
	for i := range out {
		out[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return out
}

// pitch is the frequency of a sine, from its zero crossings.
func pitch(pcm []int16, rate int) float64 {
	first, last, crossings := 0.0, 0.0, 0
	for i := 1; i < len(pcm); i++ {
		if pcm[i-1] < 0 && pcm[i] >= 0 {
			at := float64(i) - float64(pcm[i])/(float64(pcm[i])-float64(pcm[i-1]))
			if crossings == 0 {
				first = at
			}
			last = at
			crossings++
		}
	}
	if crossings < 2 {
		return 0
	}
	return float64(crossings-1) * float64(rate) / (last - first)
}

// sounds holds pcm against the tone that was sent.
func (r *rig) sounds(what string, pcm []int16, rate int, hz float64, length time.Duration) {
	r.Helper()
	got := time.Duration(len(pcm)) * time.Second / time.Duration(rate)
	if off := got - length; off < -20*time.Millisecond || off > 20*time.Millisecond {
		r.Errorf("%s: %v of sound, want %v", what, got, length)
	}
	if len(pcm) < rate/4 {
		return
	}
	// Not at the edges, where a change of rate begins and ends.
	if p := pitch(pcm[rate/20:len(pcm)-rate/20], rate); math.Abs(p-hz) > hz*0.005 {
		r.Errorf("%s: a tone of %.1f Hz, want %.1f", what, p, hz)
	}
}

// ended says whether err is that of a connection that was closed.
func ended(err error) bool { return errors.Is(err, io.EOF) }
