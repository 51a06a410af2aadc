package failover

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

// After its cooldown the preferred one hears the call again, but not in the middle of a
// turn, and nothing of it is lost.
func TestThePreferredOneComesBackInMidCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, nil)
		c.second.Add(stttest.Utterance{Text: "one"})
		c.first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		synctest.Wait()
		time.Sleep(20 * time.Second)
		c.stream.Begin()
		c.write(t, 0, 1000)
		time.Sleep(20 * time.Second)
		if n := len(c.first.Streams()); n != 1 {
			t.Fatalf("in the middle of a turn it comes back: %d streams", n)
		}
		c.first.Add(stttest.Utterance{Text: "two"})
		c.stream.Finalize()
		synctest.Wait()
		c.write(t, 1000, 500)
		time.Sleep(3 * time.Second)
		if n := len(c.first.Streams()); n != 2 || !c.second.Streams()[0].Closed() {
			t.Fatalf("it does not come back: %d streams", n)
		}
		c.second.Streams()[0].Emit(stt.Result{Final: true, Text: "never said"})
		c.stream.Begin()
		c.write(t, 1500, 100)
		c.stream.Finalize()
		synctest.Wait()
		if got, err := c.said(); err != nil || !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("heard %q, %v", got, err)
		}
		if pcm := c.first.Streams()[1].PCM(); len(pcm) != 600 || pcm[0] != 1000 {
			t.Errorf("it heard %d samples", len(pcm))
		}
		if err := c.stream.Close(); err != nil || !c.first.Streams()[1].Closed() {
			t.Errorf("a stream is left: %v", err)
		}
	})
}

// One that is still down is asked once in a cooldown, and told of; the other one goes on.
func TestThePreferredOneIsStillDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, nil)
		c.second.Add(stttest.Utterance{Text: "one"})
		c.first.OpenErr = errors.New("down")
		c.first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		synctest.Wait()
		time.Sleep(70 * time.Second)
		c.mu.Lock()
		switched := slices.Clone(c.switched)
		c.mu.Unlock()
		if !slices.Equal(switched, []string{"first>second", "first>second", "first>second"}) {
			t.Errorf("switched %v", switched)
		}
		c.stream.Begin()
		c.stream.Finalize()
		synctest.Wait()
		if got, err := c.said(); err != nil || !slices.Equal(got, []string{"one"}) {
			t.Errorf("heard %q, %v", got, err)
		}
		_ = c.stream.Close()
	})
}

// The caller begins to speak while it is opened, or it breaks at once: the other one goes on.
func TestThePreferredOneIsTooLate(t *testing.T) {
	for name, happens := range map[string]func(s *stream, f *stttest.FakeStream){
		"the caller speaks": func(s *stream, _ *stttest.FakeStream) { s.Begin() },
		"it breaks": func(_ *stream, f *stttest.FakeStream) {
			f.Emit(stt.Result{Err: stt.ErrLost})
			time.Sleep(time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s *stream
				opened := 0
				first := strange{stttest.NewFake(), func(f *stttest.FakeStream) stt.Stream {
					if opened++; opened > 1 {
						happens(s, f)
					}
					return f
				}}
				second := stttest.NewFake("hello")
				r, err := New(DefaultConfig(), Choice{"first", first}, Choice{"second", second})
				if err != nil {
					t.Fatal(err)
				}
				var heard []string
				open, err := r.Open(t.Context(), stt.Options{}, func(res stt.Result) { heard = append(heard, res.Text) })
				if err != nil {
					t.Fatal(err)
				}
				s = open.(*stream)
				first.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
				time.Sleep(35 * time.Second)
				s.Begin()
				s.Finalize()
				synctest.Wait()
				if all := first.Streams(); len(all) != 2 || !all[1].Closed() || second.Streams()[0].Closed() {
					t.Errorf("%d streams", len(all))
				}
				if well := r.order(-1)[0] == 0; well != (name == "the caller speaks") {
					t.Errorf("other calls may have it: %v", well)
				}
				if !slices.Equal(heard, []string{"hello"}) {
					t.Errorf("heard %q", heard)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
