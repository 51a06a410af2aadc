package call

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/media/opus"
	"parley/media/wav"
	"parley/rtp"
	"parley/rtp/rtptest"
)

// openSound opens the files of recordings as the server's own plugs do.
func openSound(format, path string, rate int) (SoundFile, error) {
	if format == "opus" {
		return opus.Create(path, rate, opus.DefaultFileConfig())
	}
	return wav.Create(path, rate, 2)
}

// recorded is a mediaCall that can be recorded into a folder.
type recorded struct {
	*mediaCall
	dir  string
	seen *watcher
}

func joinRecorded(t *testing.T, n *rtptest.Network, codec media.Codec, cfg RecordingConfig, open func(format, path string, rate int) (SoundFile, error)) *recorded {
	t.Helper()
	l := &fakeSession{notices: make(chan agent.Notice, 10000), ended: make(chan struct{})}
	r := &recorded{mediaCall: joinAs(t, n, agent.Format{HearRate: 8000, SayRate: 8000}, []media.Codec{codec}, 20*time.Millisecond, l), dir: cfg.Dir, seen: newWatcher()}
	r.session = l
	r.server.parts.Observer = r.seen
	var err error
	if r.server.recorder, err = newRecorder(cfg, open); err != nil {
		t.Fatal(err)
	}
	return r
}

// end leaves, and gives the recording's sides.
func (r *recorded) end(t *testing.T) (left, right []int16, rate int) {
	t.Helper()
	r.leave(t)
	r.closeRecording()
	if err := r.server.recorder.close(); err != nil {
		t.Error(err)
	}
	return readRecording(t, r.dir)
}

// readRecording reads the only recording below dir, and checks who may see it.
func readRecording(t *testing.T, dir string) (left, right []int16, rate int) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		} else {
			files = append(files, path)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", e.Name(), info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v: want one file", files, err)
	}
	pcm, f, err := wav.ReadFile(files[0], 1<<28)
	if err != nil || f.Channels != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	for i := 0; i < len(pcm); i += 2 {
		left, right = append(left, pcm[i]), append(right, pcm[i+1])
	}
	return left, right, f.Rate
}

// spans are the stretches of a side that sound, in milliseconds.
func spans(pcm []int16, rate int) (out [][2]int) {
	quiet := rate
	for i, s := range pcm {
		if s > 800 || s < -800 {
			at := i * 1000 / rate
			if quiet > rate/50 {
				out = append(out, [2]int{at, at})
			}
			out[len(out)-1][1], quiet = at, 0
		}
		quiet++
	}
	return out
}

func near(t *testing.T, what string, got [][2]int, slack int, want ...[2]int) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s sounds at %v ms, want %v", what, got, want)
		return
	}
	for i, w := range want {
		for k := range w {
			if d := got[i][k] - w[k]; d < -slack || d > slack {
				t.Errorf("%s sounds at %v ms, want %v", what, got, want)
				return
			}
		}
	}
}

func always(t *testing.T) RecordingConfig {
	c := DefaultRecordingConfig()
	c.When, c.Dir = RecordAlways, filepath.Join(t.TempDir(), "rec")
	return c
}

// say lets the caller send a tone, or nothing, for so long.
func (r *recorded) caller(t *testing.T, codec media.Codec, d time.Duration, loud bool) {
	t.Helper()
	if !loud {
		time.Sleep(d)
		r.peer.Timestamp += uint32(media.Samples(d, codec.ClockRate))
		return
	}
	for _, b := range coded(t, codec, 20*time.Millisecond, sine(500, 16000, d)) {
		r.peer.Send(false, b)
		time.Sleep(20 * time.Millisecond)
	}
}

func TestARecordingIsOnTheWiresTime(t *testing.T) {
	for _, codec := range []media.Codec{g711.PCMU(), g722.G722(), opusCodec(t)} {
		t.Run(codec.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := joinRecorded(t, rtptest.New(1, rtptest.Conditions{}), codec, always(t), openSound)
				time.Sleep(100 * time.Millisecond)
				if err := r.Record(true); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Millisecond)
				began := time.Now()
				r.caller(t, codec, 500*time.Millisecond, true) // 0 to 500
				go func() {                                    // 1000 to 1400
					time.Sleep(time.Second - time.Since(began))
					if err := r.mouth.Say(t.Context(), sine(700, 8000, 400*time.Millisecond)); err != nil {
						t.Error(err)
					}
					r.mouth.Flush()
				}()
				r.caller(t, codec, 3*time.Second, false) // muted
				r.caller(t, codec, 500*time.Millisecond, true)
				time.Sleep(500 * time.Millisecond)
				took := time.Since(began)
				left, right, rate := r.end(t)
				if rate != codec.SampleRate || len(left) != len(right) {
					t.Fatalf("%d and %d samples at %d Hz", len(left), len(right), rate)
				}
				if d := media.Duration(len(left), rate) - took; d < -50*time.Millisecond || d > 50*time.Millisecond {
					t.Errorf("%v were recorded of %v", media.Duration(len(left), rate), took)
				}
				near(t, "the caller", spans(left, rate), 30, [2]int{5, 505}, [2]int{3505, 4005})
				near(t, "the agent", spans(right, rate), 30, [2]int{1010, 1410})
			})
		})
	}
}

// An echo is behind by what it is behind on the wire, loss and jitter or not.
func TestBothSidesOfARecordingStayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rtptest.New(4, rtptest.Conditions{Loss: 0.05, Jitter: 60 * time.Millisecond, Delay: 20 * time.Millisecond})
		r := joinRecorded(t, n, g711.PCMU(), always(t), openSound)
		time.Sleep(50 * time.Millisecond)
		if err := r.Record(true); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var beeps sync.WaitGroup
		beeps.Go(func() {
			for i := range 59 { // a beep of the agent at every whole second
				time.Sleep(time.Until(began.Add(time.Duration(i+1) * time.Second)))
				if err := r.mouth.Say(t.Context(), sine(700, 8000, 100*time.Millisecond)); err != nil {
					return
				}
				r.mouth.Flush()
			}
		})
		// A clock that is half a percent fast: a beep every 50 packets of 19.9 ms.
		beep, still := constantPayload(t, 8000), make([]byte, 160)
		for i := range still {
			still[i] = 0xff
		}
		const every = 19900 * time.Microsecond
		for i := range 3000 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * every)))
			b := still
			if i%50 < 5 {
				b = beep
			}
			r.peer.Send(false, b)
		}
		beeps.Wait()
		time.Sleep(200 * time.Millisecond)
		left, right, rate := r.end(t)
		heard, said := spans(left, rate), spans(right, rate)
		if len(heard) < 55 || len(said) != 59 {
			t.Fatalf("%d beeps of the caller, %d of the agent", len(heard), len(said))
		}
		for i, s := range said {
			if want := 1000 * (i + 1); s[0] < want-5 || s[0] > want+30 {
				t.Errorf("beep %d of the agent is at %d ms", i, s[0])
			}
		}
		for _, h := range heard {
			// Between the delay of the line and that and its jitter, and what a track
			// may be off by.
			i := math.Round(float64(h[0]-50) / 995)
			if off := float64(h[0]) - i*995; off < 0 || off > 120 {
				t.Errorf("a beep of the caller is at %d ms, %.0f after it was sent", h[0], off)
			}
		}
	})
}

func TestAPauseIsMarkedAndKeepsItsLengthOrIsCut(t *testing.T) {
	for _, pause := range []string{PauseSilence, PauseCut} {
		t.Run(pause, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := always(t)
				cfg.Pause = pause
				codec := g711.PCMU()
				r := joinRecorded(t, rtptest.New(1, rtptest.Conditions{}), codec, cfg, openSound)
				time.Sleep(50 * time.Millisecond)
				for range 2 { // asking twice is asking once
					if err := r.Record(true); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(5 * time.Millisecond)
				r.caller(t, codec, time.Second, true)
				if err := r.Record(false); err != nil {
					t.Fatal(err)
				}
				r.caller(t, codec, 2*time.Second, true) // a card number
				if err := r.Record(true); err != nil {
					t.Fatal(err)
				}
				r.caller(t, codec, time.Second, true)
				left, right, rate := r.end(t)
				long, again := 4000, 3000
				if pause == PauseCut {
					long, again = 2200, 1200
				}
				if got := len(left) * 1000 / rate; got < long-50 || got > long+50 || len(left) != len(right) {
					t.Errorf("%d ms long, want %d", got, long)
				}
				near(t, "the mark", spans(right, rate), 30, [2]int{1030, 1215})
				want := [][2]int{{5, 1215}, {again, long}}
				if pause == PauseCut {
					want = [][2]int{{5, 2215}}
				}
				near(t, "the caller", spans(left, rate), 40, want...)
				var news []string
				for e := range r.seen.drain() {
					if e.Type == agent.EventRecording {
						news = append(news, e.Reason)
					}
				}
				if got := strings.Join(news, " "); got != "on off on" {
					t.Errorf("events %q", got)
				}
			})
		})
	}
}

// drain gives the events so far.
func (w *watcher) drain() func(func(agent.Event) bool) {
	return func(yield func(agent.Event) bool) {
		for {
			select {
			case e := <-w.events:
				if !yield(e) {
					return
				}
			default:
				return
			}
		}
	}
}

func TestWhatCannotBeRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{})
		if err := m.Record(true); !errors.Is(err, ErrNoRecording) {
			t.Errorf("with recordings off: %v", err)
		}
		m.leave(t)
	})
	synctest.Test(t, func(t *testing.T) { // a name from outside is no name
		r := joinRecorded(t, rtptest.New(1, rtptest.Conditions{}), g711.PCMU(), always(t), openSound)
		r.id = "../../etc/x"
		time.Sleep(50 * time.Millisecond)
		if err := r.Record(true); err != nil {
			t.Fatal(err)
		}
		r.caller(t, g711.PCMU(), time.Second, true)
		r.leave(t)
		r.closeRecording()
		if err := r.Record(true); !errors.Is(err, ErrNoRecording) {
			t.Errorf("after the end: %v", err)
		}
		if err := r.server.recorder.close(); err != nil {
			t.Error(err)
		}
		if files, err := os.ReadDir(r.dir); err != nil || len(files) != 0 {
			t.Errorf("%v, %v", files, err)
		}
	})
	if _, err := newRecorder(RecordingConfig{When: RecordAlways, Dir: t.TempDir()}, nil); err == nil {
		t.Error("no writer, and no error")
	}
	taken := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newRecorder(RecordingConfig{When: RecordAlways, Dir: taken}, openSound); err == nil {
		t.Error("a file for a folder, and no error")
	}
}

func TestRecordingConfigNamesEveryMistake(t *testing.T) {
	bad := RecordingConfig{When: "sometimes", Format: "mp3", Pause: "fade", Announce: "a", AnnounceFile: "b"}.Validate()
	for _, want := range []string{"when:", "dir:", "format:", "pause:", "only one", "when = \"always\""} {
		if bad == nil || !strings.Contains(bad.Error(), want) {
			t.Errorf("%v does not say %q", bad, want)
		}
	}
	if err := DefaultRecordingConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestAllocsWhileRecording(t *testing.T) {
	for _, codec := range []media.Codec{g711.PCMU(), g722.G722(), opusCodec(t)} {
		m := joinAs(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{HearRate: 16000, SayRate: 16000}, []media.Codec{codec}, 20*time.Millisecond, quietSession{})
		side := (*turned)(m.Call)
		m.rtp.Close() // the test turns it itself
		tape := newTape()
		m.taping.tape.Store(tape)
		payloads := coded(t, codec, 20*time.Millisecond, words(2*time.Second))
		pcm := words(2 * time.Second)
		p := rtp.Packet{PayloadType: codec.PayloadType}
		i, now, taken := 0, time.Duration(0), make([]byte, 0, 4096)
		step := func() {
			now += 20 * time.Millisecond
			p.Payload, p.Arrival = payloads[i%100], now
			p.Sequence++
			p.Timestamp += uint32(media.Samples(20*time.Millisecond, codec.ClockRate))
			side.Turn(now)
			side.Packet(&p)
			if err := m.mouth.Say(t.Context(), pcm[i%100*320:][:320]); err != nil {
				t.Fatal(err)
			}
			side.Slot(now, 0)
			for ok := true; ok; {
				_, taken, ok = tape.take(taken[:0])
			}
			i++
		}
		step()
		if got := testing.AllocsPerRun(500, step); got != 0 && !pureGo() {
			t.Errorf("%s: %v allocations for a packet in and one out, want 0", codec.Name, got)
		}
		m.leave(t)
	}
}

// One percent, for twenty minutes: the track follows, a sample at a time.
func TestATrackFollowsAClockThatIsOff(t *testing.T) { // BR-103
	for _, skew := range []float64{-0.01, -0.005, -0.0005, 0.0005, 0.005, 0.01} {
		tr := newTrack(8000, 0, callerSlack)
		pcm, worst := make([]int16, 160), 0.0
		for i := range 20 * 60 * 50 {
			place := float64(i) * 160 * (1 + skew)
			if err := tr.put(int64(place), pcm, 8000, false); err != nil {
				t.Fatal(err)
			}
			worst = max(worst, math.Abs(float64(tr.end()-160)-place))
			tr.taken(len(tr.take(tr.end())))
		}
		if worst > 8*20 || tr.cut != 0 {
			t.Errorf("%+.2f %%: off by %.1f ms, %d samples cut", 100*skew, worst/8, tr.cut)
		}
	}
}
