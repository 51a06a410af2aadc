package stttest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/stt"
	"parley/agent/stt/stttest"
)

func TestFake(t *testing.T) {
	stttest.Run(t, stttest.Subject{
		New: func(*testing.T) stt.Recognizer {
			return stttest.NewFake("hello", "hello", "hello", "hello", "hello")
		},
		Speech:   make([]int16, 16000),
		Text:     "hello",
		Scripted: true,
	})
}

func TestFakeFollowsItsScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		f := stttest.NewFake("one")
		f.Add(
			stttest.Utterance{Interims: []string{"t", "tw"}, Text: "two", Delay: 300 * time.Millisecond},
			stttest.Utterance{Err: broken},
		)
		var got []stt.Result
		st, err := f.Open(t.Context(), stt.Options{Expect: stt.Expect{Grammar: "a"}}, func(r stt.Result) { got = append(got, r) })
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for range 4 {
			st.Begin()
			if err := st.Write([]int16{1, 2}); err != nil {
				t.Error(err)
			}
			st.Finalize()
		}
		if err := st.Expect(stt.Expect{Grammar: "b"}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want := []stt.Result{
			{Text: "one", Final: true, Confidence: 0.9}, {Text: "t"}, {Text: "tw"},
			{Text: "two", Final: true}, {Err: broken}, {Final: true},
		}
		if len(got) != len(want) {
			t.Fatalf("%d results: %+v", len(got), got)
		}
		for i, r := range got {
			if r.Text != want[i].Text || r.Final != want[i].Final || r.Confidence != want[i].Confidence || r.Err != want[i].Err {
				t.Errorf("result %d: %+v, want %+v", i, r, want[i])
			}
		}
		if time.Since(begin) != time.Second || f.Left() != 0 {
			t.Errorf("%v, %d left", time.Since(begin), f.Left())
		}
		s := f.Streams()[0]
		b, n := s.Counts()
		if b != 4 || n != 4 || len(s.PCM()) != 8 || len(s.Expected()) != 2 || s.Expected()[1].Grammar != "b" || s.Options().Expect.Grammar != "a" {
			t.Errorf("%d begins, %d finalizes, %d samples, expected %v", b, n, len(s.PCM()), s.Expected())
		}
		s.Emit(stt.Result{Text: "more"})
		synctest.Wait()
		if got[len(got)-1].Text != "more" {
			t.Errorf("last result %+v", got[len(got)-1])
		}
		if err := st.Close(); err != nil || !s.Closed() {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestFakeRefuses(t *testing.T) {
	no := errors.New("no")
	f := &stttest.Fake{OpenErr: no}
	if _, err := f.Open(t.Context(), stt.Options{}, nil); !errors.Is(err, no) {
		t.Errorf("Open: %v", err)
	}
	f = &stttest.Fake{ExpectErr: func(stt.Expect) error { return no }}
	st, err := f.Open(t.Context(), stt.Options{}, func(stt.Result) {})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.Expect(stt.Expect{}); !errors.Is(err, no) {
		t.Errorf("Expect: %v", err)
	}
}
