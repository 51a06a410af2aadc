package pocketsphinx

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

func testIntake() *intake {
	return newIntake(Config{Telephone: true, PreRoll: 10 * time.Millisecond, MaxUtterance: 2 * time.Second}, &expectation{})
}

func put(t *testing.T, in *intake, pcm []int16) {
	t.Helper()
	if err := in.write(pcm); err != nil {
		t.Fatal(err)
	}
}

// all is what can be taken of an utterance.
func all(in *intake, u *utterance) (pcm []int16, lost int) {
	at, buf := 0, make([]int16, 160)
	for {
		p, from, ended, l := in.take(u, at, buf)
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
		in.begin()
		put(t, in, ramp(1000, 20))
		in.finalize()
		got, lost := all(in, in.first())
		if len(got) != 100 || got[0] != 920 || got[99] != 1019 || lost != 0 {
			t.Errorf("written by %d: %d samples from %d", size, len(got), got[0])
		}
	}
}

func TestIntakeDoesNotGlueUtterances(t *testing.T) {
	in := testIntake()
	put(t, in, ramp(0, 200))
	in.begin()
	put(t, in, ramp(200, 100))
	in.finalize()
	put(t, in, ramp(300, 30)) // less than a pre-roll lies between
	in.begin()
	in.begin()
	put(t, in, ramp(330, 10))
	in.finalize()
	in.finalize()
	first := in.first()
	if got, _ := all(in, first); len(got) != 180 || got[0] != 120 {
		t.Errorf("first: %d samples", len(got))
	}
	in.done(first)
	second := in.first()
	if got, _ := all(in, second); len(got) != 40 || got[0] != 300 {
		t.Errorf("second: %d samples from %d", len(got), got[0])
	}
	in.done(second)
	third := in.first()
	if got, _ := all(in, third); len(got) != 0 || !third.ended {
		t.Errorf("finalize alone: %d samples", len(got))
	}
	in.done(third)
	if in.first() != nil {
		t.Error("something is left")
	}
}

func TestIntakeIsBounded(t *testing.T) {
	in := testIntake()
	in.begin()
	for range 100 {
		put(t, in, make([]int16, 1600))
	}
	u := in.first()
	if len(u.pcm) > in.longest {
		t.Errorf("%d samples are kept, want at most %d", len(u.pcm), in.longest)
	}
	if got, lost := all(in, u); len(got) != len(u.pcm) || lost != 1 {
		t.Errorf("%d samples, lost told %d times", len(got), lost)
	}
	in.finalize()
	for range 10 {
		in.begin()
		put(t, in, make([]int16, 8000))
		in.finalize()
	}
	kept, finals := 0, 0
	for u := in.first(); u != nil; u = in.first() {
		got, _ := all(in, u)
		kept += len(got)
		finals++
		in.done(u)
	}
	if finals != 11 {
		t.Errorf("%d utterances, want 11", finals)
	}
	if most := in.longest + (maxWaiting+1)*(8000+80); kept > most {
		t.Errorf("%d samples were kept, want at most %d", kept, most)
	}
}

func TestIntakeCloses(t *testing.T) {
	in := testIntake()
	in.begin()
	u := in.first()
	in.close()
	if err := in.write(ramp(0, 10)); !errors.Is(err, ErrClosed) {
		t.Errorf("write: %v", err)
	}
	in.begin()
	in.finalize()
	if _, _, ended, _ := in.take(u, 0, make([]int16, 10)); !ended || in.first() != nil {
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
