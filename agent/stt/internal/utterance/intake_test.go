package utterance

import (
	"errors"
	"testing"
	"time"
)

// ramp is n samples that count from a.
func ramp(a, n int) []int16 {
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = int16(a + i)
	}
	return pcm
}

var errClosed = errors.New("closed")

func testIntake() *Intake[int] {
	return New(Config{Rate: 8000, PreRoll: 10 * time.Millisecond, Longest: 2 * time.Second, Closed: errClosed}, 1)
}

func put(t *testing.T, in *Intake[int], pcm []int16) {
	t.Helper()
	if err := in.Write(pcm); err != nil {
		t.Fatal(err)
	}
}

// all is what can be taken of an utterance.
func all(in *Intake[int], u *Utterance[int]) (pcm []int16, lost int) {
	at, buf := 0, make([]int16, 160)
	for {
		p, from, ended, l := in.Take(u, at, buf)
		pcm = append(pcm, p...)
		at = from + len(p)
		if l {
			lost++
		}
		if ended || len(p) == 0 {
			return pcm, lost
		}
	}
}

func TestIntakeKeepsAPreRoll(t *testing.T) {
	for _, size := range []int{1, 7, 79, 80, 81, 500} {
		in := testIntake()
		for i := 0; i < 1000; i += size {
			put(t, in, ramp(i, min(size, 1000-i)))
		}
		in.Begin()
		put(t, in, ramp(1000, 20))
		in.Finalize()
		got, lost := all(in, in.First())
		if len(got) != 100 || got[0] != 920 || got[99] != 1019 || lost != 0 {
			t.Errorf("written by %d: %d samples from %d", size, len(got), got[0])
		}
	}
}

func TestIntakeDoesNotGlueUtterances(t *testing.T) {
	in := testIntake()
	put(t, in, ramp(0, 200))
	in.Begin()
	put(t, in, ramp(200, 100))
	in.Finalize()
	put(t, in, ramp(300, 30)) // less than a pre-roll lies between
	in.Begin()
	in.Begin()
	put(t, in, ramp(330, 10))
	in.Finalize()
	in.Finalize()
	first := in.First()
	if got, _ := all(in, first); len(got) != 180 || got[0] != 120 {
		t.Errorf("first: %d samples", len(got))
	}
	in.Done(first)
	second := in.First()
	if got, _ := all(in, second); len(got) != 40 || got[0] != 300 {
		t.Errorf("second: %d samples from %d", len(got), got[0])
	}
	in.Done(second)
	third := in.First()
	if got, _ := all(in, third); len(got) != 0 || !third.ended {
		t.Errorf("finalize alone: %d samples", len(got))
	}
	in.Done(third)
	if in.First() != nil {
		t.Error("something is left")
	}
}

func TestIntakeIsBounded(t *testing.T) {
	in := testIntake()
	in.Begin()
	for range 100 {
		put(t, in, make([]int16, 1600))
	}
	u := in.First()
	if len(u.pcm) > in.longest {
		t.Errorf("%d samples are kept, want at most %d", len(u.pcm), in.longest)
	}
	if got, lost := all(in, u); len(got) != len(u.pcm) || lost != 1 {
		t.Errorf("%d samples, lost told %d times", len(got), lost)
	}
	in.Finalize()
	for range 10 {
		in.Begin()
		put(t, in, make([]int16, 8000))
		in.Finalize()
	}
	kept, finals := 0, 0
	for u := in.First(); u != nil; u = in.First() {
		got, _ := all(in, u)
		kept += len(got)
		finals++
		in.Done(u)
	}
	if finals != 11 {
		t.Errorf("%d utterances, want 11", finals)
	}
	if most := in.longest + (MaxWaiting+1)*(8000+80); kept > most {
		t.Errorf("%d samples were kept, want at most %d", kept, most)
	}
}

func TestIntakeCloses(t *testing.T) {
	in := testIntake()
	in.Begin()
	u := in.First()
	in.Close()
	if err := in.Write(ramp(0, 10)); !errors.Is(err, errClosed) {
		t.Errorf("write: %v", err)
	}
	in.Begin()
	in.Finalize()
	if _, _, ended, _ := in.Take(u, 0, make([]int16, 10)); !ended || in.First() != nil {
		t.Error("a closed intake goes on")
	}
}

func TestWriteDoesNotAllocateInSilence(t *testing.T) {
	in, pcm := testIntake(), make([]int16, 160)
	put(t, in, pcm)
	if n := testing.AllocsPerRun(100, func() { put(t, in, pcm) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The utterance knows its place in the stream, also when its beginning was dropped.
func TestPlace(t *testing.T) {
	in := testIntake()
	put(t, in, ramp(0, 8000))
	in.Begin()
	put(t, in, ramp(0, 80))
	if got := in.Place(in.First()); got != 990*time.Millisecond {
		t.Errorf("begins at %v", got)
	}
	for range 3 {
		put(t, in, make([]int16, 8000))
	}
	u := in.First()
	if n, ended, lost := in.State(u); in.Place(u) != 990*time.Millisecond+time.Duration(u.dropped)*time.Second/8000 || n != 80+80+3*8000 || ended || !lost || u.dropped == 0 {
		t.Errorf("%v, %d samples, ended %v, lost %v", in.Place(u), n, ended, lost)
	}
	in.Finalize()
	if _, ended, lost := in.State(u); !ended || lost {
		t.Errorf("ended %v, lost %v", ended, lost)
	}
	if got := in.Append(nil, u); len(got) != len(in.Whole(u)) {
		t.Errorf("%d samples", len(got))
	}
}

func TestExpectIsOfTheNextUtterance(t *testing.T) {
	in := testIntake()
	in.Begin()
	if err := in.Expect(2); err != nil {
		t.Fatal(err)
	}
	in.Finalize()
	in.Begin()
	if u := in.First(); u.Expect != 1 {
		t.Errorf("first: %d", u.Expect)
	}
	in.Done(in.First())
	if u := in.First(); u.Expect != 2 {
		t.Errorf("second: %d", u.Expect)
	}
	in.Close()
	if err := in.Expect(3); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	if n, ended, _ := in.State(in.open()); n != 0 || !ended {
		t.Error("a closed intake goes on")
	}
}
