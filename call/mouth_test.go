package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
)

// testLine is a line for codec with 20 ms packets.
func testLine(t testing.TB, codec media.Codec, packetTime time.Duration) *line {
	t.Helper()
	l, err := newLine(codec, "", packetTime, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mouthAt makes a mouth for speech at rate, and a place where its notices go.
func mouthAt(t testing.TB, rate int) (*Mouth, *[]agent.Notice) {
	t.Helper()
	notices := new([]agent.Notice)
	m, err := newMouth(testLine(t, g711.PCMU(), 20*time.Millisecond), rate, newRingFor(time.Second), func(n agent.Notice) {
		n.At = time.Time{}
		*notices = append(*notices, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, notices
}

// level of constant speech, easy to tell from silence.
func constant(n int, v int16) []int16 {
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = v
	}
	return pcm
}

// silent tells whether payload is one of silence.
func silent(l *line, payload []byte) bool { return cmp.Equal(payload, l.idle) }

func TestMouthPlaysWhatWasSaidThenSilence(t *testing.T) {
	m, notices := mouthAt(t, 8000)
	l := m.line.Load()
	if got := m.next(l, 0); !silent(l, got) {
		t.Fatal("a mouth that was told nothing must send silence")
	}
	if err := m.Say(t.Context(), constant(400, 8000)); err != nil { // two packets and a half
		t.Fatal(err)
	}
	m.Flush()
	for i := range 3 {
		if got := m.next(l, 0); silent(l, got) || len(got) != 160 {
			t.Fatalf("packet %d: want speech of 160 bytes, got %d bytes, silent %v", i, len(got), silent(l, got))
		}
	}
	if got := m.next(l, 0); !silent(l, got) {
		t.Fatal("after all was said the mouth must send silence")
	}
	want := []agent.Notice{
		{Kind: agent.SpeechStarted, Position: 0},
		{Kind: agent.SpeechEnded, Position: 50 * time.Millisecond},
	}
	if d := cmp.Diff(want, *notices); d != "" {
		t.Error("notices (-want +got):", d)
	}
}

func TestMouthPositionAgreesWithTheAgentsOwnSums(t *testing.T) {
	for _, rate := range []int{8000, 16000, 22050, 24000, 48000} {
		m, notices := mouthAt(t, rate)
		l := m.line.Load()
		said := 0
		for reply := range 5 {
			for range 3 {
				n := rate/10 + 37*reply // never a whole packet
				if err := m.Say(t.Context(), constant(n, 5000)); err != nil {
					t.Fatal(err)
				}
				said += n
			}
			m.Flush()
			for !silent(l, m.next(l, 0)) {
			}
			if got, want := m.Played(), media.Duration(said, rate); got != want {
				t.Fatalf("rate %d, reply %d: played %v, the agent said %v", rate, reply, got, want)
			}
		}
		last := (*notices)[len(*notices)-1]
		if last.Kind != agent.SpeechEnded || last.Position != media.Duration(said, rate) {
			t.Errorf("rate %d: last notice %+v, want SpeechEnded at %v", rate, last, media.Duration(said, rate))
		}
	}
}

func TestMouthStopCutsAtThePacketAndTheTimelineGoesOnThere(t *testing.T) {
	m, _ := mouthAt(t, 16000)
	l := m.line.Load()
	if err := m.Say(t.Context(), constant(16000/2, 5000)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		m.next(l, 0)
	}
	heard := m.Stop()
	if want := 100*time.Millisecond - m.say.rate.Delay(); heard != want {
		t.Errorf("heard %v, want %v: five packets, less what the resampler holds back", heard, want)
	}
	if got := m.next(l, 0); !silent(l, got) {
		t.Error("speech after Stop")
	}
	if err := m.Say(t.Context(), constant(1600, 5000)); err != nil {
		t.Fatal(err)
	}
	m.Flush()
	for !silent(l, m.next(l, 0)) {
	}
	if got := m.Played(); got != heard+100*time.Millisecond {
		t.Errorf("played %v after 100 ms more, want %v", got, heard+100*time.Millisecond)
	}
}

// TestMouthCountsNoSoundThatHasNotLeft: the position is never ahead of the sound on the
// wire, whatever the resampler holds back, and is all of it in the end (BR-122).
func TestMouthCountsNoSoundThatHasNotLeft(t *testing.T) {
	for _, rate := range []int{8000, 16000, 22050, 24000, 48000} {
		m, _ := mouthAt(t, rate)
		l := m.line.Load()
		dec, err := l.codec.NewDecoder()
		if err != nil {
			t.Fatal(err)
		}
		const loud = 250 * time.Millisecond
		if err := m.Say(t.Context(), append(constant(media.Samples(loud, rate), 8000), make([]int16, rate/10)...)); err != nil {
			t.Fatal(err)
		}
		sounded := 0 // samples at 8 kHz that are loud
		for m.Played() < loud {
			payload := m.next(l, 0)
			if silent(l, payload) {
				t.Fatalf("rate %d: silence at %v", rate, m.Played())
			}
			pcm, err := dec.Decode(nil, payload)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range pcm {
				if v > 4000 { // half: the middle of the edge
					sounded++
				}
			}
			if whole := media.Duration(sounded, 8000); m.Played() < loud && whole+time.Millisecond < m.Played() {
				t.Fatalf("rate %d: played %v, of which %v are on the wire", rate, m.Played(), whole)
			}
		}
		if whole := media.Duration(sounded, 8000); whole < loud-time.Millisecond/2 {
			t.Errorf("rate %d: played %v, and the loud %v of it are %v on the wire", rate, m.Played(), loud, whole)
		}
	}
}

func TestMouthPauseKeepsSpeechAndStopEndsThePause(t *testing.T) {
	m, _ := mouthAt(t, 8000)
	l := m.line.Load()
	if err := m.Say(t.Context(), constant(8000/4, 5000)); err != nil {
		t.Fatal(err)
	}
	m.next(l, 0)
	m.Pause()
	for range 10 {
		if !silent(l, m.next(l, 0)) {
			t.Fatal("speech while paused")
		}
	}
	if got := m.Played(); got != 20*time.Millisecond {
		t.Errorf("played %v while paused, want 20ms", got)
	}
	m.Resume()
	if silent(l, m.next(l, 0)) {
		t.Fatal("silence after Resume")
	}
	m.Pause()
	m.Stop()
	if err := m.Say(t.Context(), constant(160, 5000)); err != nil {
		t.Fatal(err)
	}
	if silent(l, m.next(l, 0)) {
		t.Error("Stop must end the pause")
	}
}

func TestMouthSayBlocksWhenFullAndEveryWayOutWorks(t *testing.T) {
	long := constant(10*8000, 5000)
	cases := []struct {
		name string
		out  func(*Mouth, context.CancelFunc)
		want error
	}{
		{"context", func(_ *Mouth, cancel context.CancelFunc) { cancel() }, context.Canceled},
		{"stop", func(m *Mouth, _ context.CancelFunc) { m.Stop() }, agent.ErrStopped},
		{"close", func(m *Mouth, _ context.CancelFunc) { m.close() }, agent.ErrClosed},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := mouthAt(t, 8000)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := make(chan error, 1)
				go func() { got <- m.Say(ctx, long) }()
				synctest.Wait() // Say is blocked
				tc.out(m, cancel)
				synctest.Wait()
				select {
				case err := <-got:
					if !errors.Is(err, tc.want) {
						t.Errorf("Say returned %v, want %v", err, tc.want)
					}
				default:
					t.Fatal("Say still blocks")
				}
			})
		})
	}
}

func TestMouthBackPressureLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mouthAt(t, 8000)
		l := m.line.Load()
		go func() {
			for range 50 {
				if err := m.Say(t.Context(), constant(1600, 5000)); err != nil {
					t.Error(err)
				}
			}
			m.Flush()
		}()
		packets := 0
		for synctest.Wait(); !silent(l, m.next(l, 0)); synctest.Wait() {
			packets++
		}
		if packets != 500 {
			t.Errorf("%d packets of speech, want the 500 of 10 s", packets)
		}
	})
}

// The order that agents are asked to keep: cancel the speech's context, then Stop.
func TestMouthNothingOfCancelledSpeechIsPlayedAfterStop(t *testing.T) {
	for range 50 {
		m, _ := mouthAt(t, 8000)
		l := m.line.Load()
		ctx, cancel := context.WithCancel(t.Context())
		var voice sync.WaitGroup
		voice.Go(func() {
			for m.Say(ctx, constant(rand.IntN(400)+1, 5000)) == nil {
			}
		})
		for range rand.IntN(40) {
			m.next(l, 0)
		}
		cancel()
		heard := m.Stop()
		for range 80 {
			if !silent(l, m.next(l, 0)) {
				t.Fatal("stale speech after Stop")
			}
		}
		if got := m.Played(); got != heard {
			t.Fatalf("played %v after Stop said %v", got, heard)
		}
		voice.Wait()
	}
}

func TestMouthAfterAStallDropsWhatIsTooLate(t *testing.T) {
	m, _ := mouthAt(t, 8000)
	l := m.line.Load()
	if err := m.Say(t.Context(), constant(8000/2, 5000)); err != nil { // 25 packets
		t.Fatal(err)
	}
	m.next(l, 0)
	m.next(l, 15) // 300 ms were missed: 240 ms of speech are dropped, 60 ms are late
	if got, want := m.Played(), (1+12+1)*20*time.Millisecond; got != want {
		t.Errorf("position %v, want %v", got, want)
	}
	// What was dropped was not heard: two packets were.
	if got, want := m.spoken(), 40*time.Millisecond; got != want {
		t.Errorf("%v were put on the wire, want %v", got, want)
	}
	if got, want := m.Stop(), 40*time.Millisecond; got != want {
		t.Errorf("%v count as heard, want %v", got, want)
	}
	if err := m.Say(t.Context(), constant(160, 5000)); err != nil {
		t.Fatal(err)
	}
	m.next(l, 0)
	if got, want := m.Played(), 60*time.Millisecond; got != want {
		t.Errorf("after Stop the timeline goes on to %v, want %v", got, want)
	}
}

// A reply that was complete but for what a stall dropped is over for the agent, and
// costs the next reply nothing.
func TestWhatAStallDroppedIsForgottenWithItsReply(t *testing.T) {
	m, notices := mouthAt(t, 8000)
	l := m.line.Load()
	for range 2 {
		if err := m.Say(t.Context(), constant(4000, 5000)); err != nil {
			t.Fatal(err)
		}
		m.Flush()
		m.next(l, 0)
		m.next(l, 8) // 100 ms are dropped
		for !silent(l, m.next(l, 0)) {
		}
	}
	want := []agent.Notice{
		{Kind: agent.SpeechStarted}, {Kind: agent.SpeechEnded, Position: 500 * time.Millisecond},
		{Kind: agent.SpeechStarted, Position: 500 * time.Millisecond}, {Kind: agent.SpeechEnded, Position: time.Second},
	}
	if d := cmp.Diff(want, *notices); d != "" {
		t.Error("notices (-want +got):", d)
	}
	if got, want := m.spoken(), 800*time.Millisecond; got != want {
		t.Errorf("%v were put on the wire, want %v", got, want)
	}
	if got := m.Stop(); got != time.Second {
		t.Errorf("%v count as heard, want 1s", got)
	}
}

func TestTheGatewaysOwnDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mouthAt(t, 8000)
		m.delays = new(delays)
		l := m.line.Load()
		for range 3 {
			time.Sleep(100 * time.Millisecond)
			if err := m.Say(t.Context(), constant(1600, 5000)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(7 * time.Millisecond)
			m.next(l, 0)
			m.Stop()
			time.Sleep(12 * time.Millisecond)
			m.next(l, 0)
		}
		say, stop := m.delays.say.snapshot(), m.delays.stop.snapshot()
		if say.Total() != 3 || say.Sum != 21*time.Millisecond || say.Max != 7*time.Millisecond || say.Quantile(0.5) != 7*time.Millisecond {
			t.Errorf("said: %+v", say)
		}
		if stop.Total() != 3 || stop.Sum != 36*time.Millisecond || stop.Quantile(0.99) != 12*time.Millisecond || len(stop.Counts) != len(stop.Bounds)+1 {
			t.Errorf("stopped: %+v", stop)
		}
		m.Stop() // amid silence: not measured
		m.next(l, 0)
		if n := m.delays.stop.snapshot().Total(); n != 3 {
			t.Errorf("%d stops", n)
		}
		if n := testing.AllocsPerRun(100, func() { m.delays.hear.observe(time.Second) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestMouthConvertsQueuedSpeechWhenTheLawChanges(t *testing.T) {
	m, _ := mouthAt(t, 8000)
	old := m.line.Load()
	if err := m.Say(t.Context(), constant(1600, 5000)); err != nil {
		t.Fatal(err)
	}
	m.next(old, 0)
	fresh, err := newLine(g711.PCMA(), "", 20*time.Millisecond, old)
	if err != nil {
		t.Fatal(err)
	}
	m.line.Store(fresh)
	got := m.next(fresh, 0)
	pcm, err := fresh.dec.Decode(nil, got)
	if err != nil {
		t.Fatal(err)
	}
	if v := pcm[80]; v < 4700 || v > 5300 {
		t.Errorf("after the change to A-law a sample is %d, want about 5000", v)
	}
	if err := m.Say(t.Context(), constant(1600, -3000)); err != nil {
		t.Fatal(err)
	}
	for range 12 {
		got = m.next(fresh, 0)
	}
	if pcm, _ = fresh.dec.Decode(nil, got); pcm[80] < -3300 || pcm[80] > -2700 {
		t.Errorf("what is said after the change decodes to %d, want about -3000", pcm[80])
	}
}

func TestMouthLongerPacketsAfterReinvite(t *testing.T) {
	m, _ := mouthAt(t, 8000)
	l := testLine(t, g711.PCMU(), 60*time.Millisecond)
	m.line.Store(l)
	if err := m.Say(t.Context(), constant(7200, 5000)); err != nil {
		t.Fatal(err)
	}
	if got := m.next(l, 0); len(got) != 480 || silent(l, got) {
		t.Errorf("%d bytes, want 480 of speech", len(got))
	}
}

func TestAllocsMouth(t *testing.T) {
	m, _ := mouthAt(t, 16000)
	l := m.line.Load()
	pcm := constant(320, 5000)
	ctx := t.Context()
	if n := testing.AllocsPerRun(500, func() {
		if err := m.Say(ctx, pcm); err != nil {
			t.Fatal(err)
		}
		m.next(l, 0)
	}); n != 0 {
		t.Errorf("%v allocations a packet, want 0", n)
	}
}

func TestRingKeepsOrderAndPayloadsOfAnyLength(t *testing.T) {
	r := newRing(8, 1000)
	rng := rand.New(rand.NewPCG(1, 2))
	var want [][]byte
	for i := range 3000 {
		if rng.IntN(2) == 0 {
			b := make([]byte, rng.IntN(300))
			for j := range b {
				b[j] = byte(i + j)
			}
			if r.push(packet{end: uint32(i)}, b, 0) {
				want = append(want, b)
			}
			continue
		}
		if _, ok := r.peek(); !ok {
			if len(want) != 0 {
				t.Fatal("peek found nothing where packets wait")
			}
			continue
		}
		if d := cmp.Diff(want[0], append([]byte{}, r.pop(nil)...)); d != "" {
			t.Fatal("payload (-want +got):", d)
		}
		want = want[1:]
	}
}

func TestRingsGoFromCallToCall(t *testing.T) {
	var s rings
	first := newRingFor(500 * time.Millisecond)
	m, err := newMouth(testLine(t, g711.PCMU(), 20*time.Millisecond), 8000, first, func(agent.Notice) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Say(t.Context(), make([]int16, 1600)); err != nil {
		t.Fatal(err)
	}
	m.saying.Add(1) // an agent's goroutine that is still at it
	m.close()
	if m.spare() != nil {
		t.Fatal("a ring is given away while somebody may push to it")
	}
	m.saying.Add(-1)
	if m.spare() != first {
		t.Fatal("the ring is lost")
	}
	s.give(first)
	// What comes too late reaches no other call.
	if err := m.Say(t.Context(), make([]int16, 1600)); !errors.Is(err, agent.ErrClosed) {
		t.Errorf("say after the end: %v", err)
	}
	m.Flush()
	again := s.take(500 * time.Millisecond)
	if again.length() != 0 || again.room(maxPayload, reserve) != true {
		t.Error("a used ring is not empty")
	}
	for _, p := range again.packets {
		if p != (packet{}) {
			t.Fatal("a used ring keeps a call's line")
		}
	}
}

func TestMomentsOfAMouth(t *testing.T) {
	for _, d := range []time.Duration{1, time.Millisecond, time.Hour, 100 * time.Hour} {
		if got := momentOf(d).time(); got < d-momentUnit || got > d+momentUnit {
			t.Errorf("%v became %v", d, got)
		}
	}
}
