package echo

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
)

const (
	rate   = 8000
	frame  = rate / 50
	packet = 20 * time.Millisecond
)

var errHungUp = errors.New("caller hung up")

// mouth plays in fake real time.
type mouth struct {
	mu     sync.Mutex
	queue  []int16
	wire   []int16
	played int
	err    error
	block  bool
}

func (m *mouth) Say(ctx context.Context, pcm []int16) error {
	if m.block {
		<-ctx.Done()
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = append(m.queue, pcm...)
	return m.err
}
func (m *mouth) Flush()              {}
func (m *mouth) Pause()              {}
func (m *mouth) Resume()             {}
func (m *mouth) Stop() time.Duration { return 0 }
func (m *mouth) Played() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.played) * time.Second / rate
}

// slot sends a packet: speech, or a silence of -1 for what is missing.
func (m *mouth) slot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(frame, len(m.queue))
	m.wire = append(m.wire, m.queue[:n]...)
	m.wire = append(m.wire, slices.Repeat([]int16{-1}, frame-n)...)
	m.queue, m.played = m.queue[n:], m.played+n
}

// call runs an echo; the clock of the line is each's, called with the frame's number.
func call(t *testing.T, m *mouth, frames int, each func(i int, hear func(int))) *Session {
	t.Helper()
	opener, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if f := opener.Format(); f != (agent.Format{}) {
		t.Errorf("an echo asks for %+v", f)
	}
	s, err := opener.Open(t.Context(), agent.Call{Rate: rate, Speaker: m, Emit: func(agent.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	hear := func(value int) { s.Hear(slices.Repeat([]int16{int16(value)}, frame)) }
	for i := range frames {
		each(i, hear)
		synctest.Wait()
		m.slot()
		time.Sleep(packet)
	}
	s.Notice(agent.Notice{Kind: agent.Digit, Digit: '1'})
	cancel(errHungUp)
	if err := <-done; !errors.Is(err, errHungUp) && m.err == nil {
		t.Errorf("run returned %v", err)
	}
	return s.(*Session)
}

// values are the frames on the wire, each as its first sample.
func (m *mouth) values() []int {
	var v []int
	for i := 0; i < len(m.wire); i += frame {
		v = append(v, int(m.wire[i]))
	}
	return v
}

func TestWhatIsHeardIsSaid40msLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mouth{}
		s := call(t, m, 100, func(i int, hear func(int)) { hear(i) })
		for i, v := range m.values()[1:] {
			if v != i {
				t.Fatalf("packet %d has frame %d", i+1, v)
			}
		}
		if s.Dropped() != 0 {
			t.Errorf("%d frames dropped", s.Dropped())
		}
	})
}

func TestJitterDoesNotTearTheEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := &mouth{}, rand.New(rand.NewPCG(1, 2))
		next, late := 0, false
		call(t, m, 300, func(i int, hear func(int)) {
			if late = !late && r.IntN(3) == 0; late {
				return
			}
			for ; next <= i; next++ {
				hear(next)
			}
		})
		got := m.values()
		begin := slices.Index(got, 0)
		tail := got[begin+4:] // the delay settles within the first frames
		for i := 1; i < len(tail); i++ {
			if tail[i] != tail[i-1]+1 {
				t.Fatalf("torn after frame %d: %v", tail[i-1], got)
			}
		}
	})
}

func TestABurstDoesNotStayAsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mouth{}
		next := 0
		s := call(t, m, 200, func(i int, hear func(int)) {
			if i >= 50 && i < 80 {
				return // a stall of 600 ms
			}
			for ; next <= i; next++ {
				hear(next)
			}
		})
		got := m.values()
		if delay := 199 - got[199]; delay > 6 {
			t.Errorf("the echo is %d frames late", delay)
		}
		if s.Dropped() == 0 {
			t.Error("nothing was dropped")
		}
		if !slices.IsSorted(slices.DeleteFunc(got, func(v int) bool { return v < 0 })) {
			t.Error("frames changed their order")
		}
	})
}

func TestHearNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mouth{block: true}
		s := call(t, m, 100, func(i int, hear func(int)) { hear(i) })
		if s.Dropped() < 80 {
			t.Errorf("%d frames dropped", s.Dropped())
		}
	})
	q := newQueue(10, frame)
	pcm := make([]int16, frame)
	if n := testing.AllocsPerRun(100, func() { q.put(pcm) }); n != 0 {
		t.Errorf("put allocates %v times", n)
	}
}

func TestTheOldestIsDropped(t *testing.T) {
	q := newQueue(3, 1)
	for i := range 10 {
		q.put([]int16{int16(i)})
	}
	for want := 7; want < 10; want++ {
		if got := <-q.full; int(got[0]) != want {
			t.Errorf("got %d, want %d", got[0], want)
		}
	}
	if q.dropped.Load() != 7 {
		t.Errorf("%d dropped", q.dropped.Load())
	}
	for range 5 { // all buffers are with the reader
		q.put([]int16{0})
	}
}

func TestTheMouthFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opener, _ := New(DefaultConfig())
		s, _ := opener.Open(t.Context(), agent.Call{Rate: rate, Speaker: &mouth{err: agent.ErrClosed}})
		s.Hear(make([]int16, frame))
		s.Hear(make([]int16, frame))
		if err := s.Run(t.Context()); !errors.Is(err, agent.ErrClosed) {
			t.Errorf("run returned %v", err)
		}
	})
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{}, {Delay: -1, Buffer: time.Second}, {Delay: 2 * time.Second, Buffer: 3 * time.Second}, {Delay: packet, Buffer: time.Minute}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v passes", c)
		}
	}
	opener, _ := New(DefaultConfig())
	if _, err := opener.Open(t.Context(), agent.Call{}); err == nil {
		t.Error("a call without a rate passes")
	}
}
