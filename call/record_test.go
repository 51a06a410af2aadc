package call

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/media/g722"
	"parley/media/opus"
	"parley/media/wav"
	"parley/rtp"
	"parley/rtp/rtptest"
	"parley/sip"
	"parley/test/phone"
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

// troubled is a file whose disk is full, or slow.
type troubled struct {
	SoundFile
	fail atomic.Pointer[error]
	hang chan struct{}
}

func (f *troubled) WriteStereo(left, right []int16) error {
	if err := f.fail.Load(); err != nil {
		return *err
	}
	if f.hang != nil {
		<-f.hang
	}
	return f.SoundFile.WriteStereo(left, right)
}

func TestAFullDiskEndsTheRecordingAndNotTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &troubled{}
		codec := g711.PCMU()
		r := joinRecorded(t, rtptest.New(1, rtptest.Conditions{}), codec, always(t), func(format, path string, rate int) (f SoundFile, err error) {
			file.SoundFile, err = openSound(format, path, rate)
			return file, err
		})
		core, logs := observer.New(zap.WarnLevel)
		r.log = zap.New(core)
		time.Sleep(50 * time.Millisecond)
		if err := r.Record(true); err != nil {
			t.Fatal(err)
		}
		r.caller(t, codec, 2*time.Second, true)
		full := fmt.Errorf("write: %w", syscall.ENOSPC)
		file.fail.Store(&full)
		before, _, _ := r.session.heard()
		r.caller(t, codec, 2*time.Second, true)
		if after, _, _ := r.session.heard(); after-before != 100 {
			t.Errorf("the agent heard %d frames of 100 while the disk was full", after-before)
		}
		left, _, rate := r.end(t)
		if got := media.Duration(len(left), rate); got < 1500*time.Millisecond || got > 2100*time.Millisecond {
			t.Errorf("%v are left of the first 2 s", got)
		}
		failed := 0
		for e := range r.seen.drain() {
			if e.Type == agent.EventRecording && e.Reason == "failed" {
				failed++
			}
		}
		if failed != 1 || logs.FilterMessageSnippet("recording failed").Len() != 1 {
			t.Errorf("%d events, log %v", failed, logs.All())
		}
		if st := r.server.recorder.stats(); st != (RecordingStats{Files: 1, Failed: 1}) {
			t.Errorf("%+v", st)
		}
	})
}

func TestASlowDiskCostsBlocksOfTheFileAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &troubled{hang: make(chan struct{})}
		codec := g711.PCMU()
		r := joinRecorded(t, rtptest.New(1, rtptest.Conditions{}), codec, always(t), func(format, path string, rate int) (f SoundFile, err error) {
			file.SoundFile, err = openSound(format, path, rate)
			return file, err
		})
		time.Sleep(50 * time.Millisecond)
		if err := r.Record(true); err != nil {
			t.Fatal(err)
		}
		r.caller(t, codec, 10*time.Second, true)
		if frames, _, _ := r.session.heard(); frames < 499 || frames > 502 {
			t.Errorf("the agent heard %d frames of 500", frames)
		}
		close(file.hang)
		r.caller(t, codec, time.Second, false)
		r.caller(t, codec, time.Second, true)
		left, right, rate := r.end(t)
		near(t, "the last word", spans(left, rate)[1:], 30, [2]int{11000, 12000})
		if len(left) != len(right) {
			t.Errorf("%d and %d samples", len(left), len(right))
		}
		if st := r.server.recorder.stats(); st.DroppedBlocks < 500 || st.DroppedBlocks > 1000 || st.Active != 0 {
			t.Errorf("%+v, want most of 1000 blocks dropped", st)
		}
	})
}

func TestADiskThatHangsForEverHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &troubled{hang: make(chan struct{})}
		r := joinRecorded(t, rtptest.New(1, rtptest.Conditions{}), g711.PCMU(), always(t), func(format, path string, rate int) (f SoundFile, err error) {
			file.SoundFile, err = openSound(format, path, rate)
			return file, err
		})
		time.Sleep(50 * time.Millisecond)
		if err := r.Record(true); err != nil {
			t.Fatal(err)
		}
		r.caller(t, g711.PCMU(), 2*time.Second, true)
		r.leave(t)
		began := time.Now()
		r.closeRecording()
		if err := r.server.recorder.close(); err == nil {
			t.Error("close said that all is written")
		}
		if took := time.Since(began); took != 2*diskPatience {
			t.Errorf("the end took %v", took)
		}
		close(file.hang)
		<-r.server.recorder.done
	})
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

// TestMain of this process runs as the one to be killed when this is set.
const killMe = "PARLEY_TEST_RECORDS_INTO"

func TestARecordingOutlivesItsProcess(t *testing.T) {
	if dir := os.Getenv(killMe); dir != "" {
		cfg := DefaultRecordingConfig()
		cfg.When, cfg.Dir = RecordAlways, dir
		r := joinRecorded(t, rtptest.New(1, rtptest.Conditions{}), g711.PCMU(), cfg, openSound)
		time.Sleep(50 * time.Millisecond)
		if err := r.Record(true); err != nil {
			t.Fatal(err)
		}
		r.caller(t, g711.PCMU(), time.Minute, true)
		return
	}
	dir := t.TempDir()
	self := exec.Command(os.Args[0], "-test.run=^TestARecordingOutlivesItsProcess$")
	self.Env = append(os.Environ(), killMe+"="+dir)
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3500 * time.Millisecond) // of a real process, which nothing but time lets speak
	if err := self.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = self.Wait() // it was killed: that is an error
	files, err := filepath.Glob(filepath.Join(dir, "*", ".*.part"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v: want one unfinished file", files, err)
	}
	pcm, f, err := wav.ReadFile(files[0], 1<<24)
	if err != nil || f.Channels != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	if got := media.Duration(len(pcm)/2, f.Rate); got < time.Second {
		t.Errorf("%v can be read of more than 3 s", got)
	}
}

// TestTheAnnouncementComesFirst: the caller is told before the agent says a word or
// hears one, it is in the recording, and the agent's timeline begins after it.
func TestTheAnnouncementComesFirst(t *testing.T) {
	cfg := always(t)
	g := startGatewayOf(t, func(c *Config, _ *sip.Config) { c.Recording = cfg }, func(p *Parts) {
		p.NewSoundFile = openSound
		p.Announcement = Announcement{PCM: sine(440, 16000, 600*time.Millisecond), Rate: 16000}
	})
	ran := make(chan time.Duration, 1)
	g.agent.does(func(ctx context.Context, s *fakeSession) error {
		frames, _, _ := s.heard()
		if frames != 0 || len(s.notices) != 0 {
			t.Errorf("before it runs the agent heard %d frames and got %d notices", frames, len(s.notices))
		}
		ran <- s.call.Speaker.Played()
		if err := s.call.Speaker.Say(ctx, sine(1200, 8000, 400*time.Millisecond)); err != nil {
			return err
		}
		s.call.Speaker.Flush()
		<-ctx.Done()
		return context.Cause(ctx)
	})
	p := ringUp(t, phone.Config{Number: "+14155550100"})
	c := dial(t, p, g.uri)
	c.Say(sine(900, 8000, 3*time.Second))
	if at := await(t, ran, "agent"); at != 0 {
		t.Errorf("the agent's timeline begins at %v", at)
	}
	s := g.agent.last()
	s.await(t, agent.VoiceOn) // it speaks on: the agent finds it speaking
	if n := s.await(t, agent.SpeechEnded); n.Position != 400*time.Millisecond {
		t.Errorf("its speech ended at %v", n.Position)
	}
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	r := g.seen.awaitEnd(t)
	if r.Stats.Speech != 400*time.Millisecond {
		t.Errorf("%v of the agent's speech on the wire", r.Stats.Speech)
	}
	left, right, rate := readRecording(t, cfg.Dir)
	if got := spans(right, rate); len(got) == 0 || got[0][0] > 60 || got[len(got)-1][1] < 950 {
		t.Errorf("the agent's side sounds at %v ms", got)
	}
	if got := spans(left, rate); len(got) == 0 {
		t.Error("the caller is not in the recording")
	}
	if st := g.SoundStats(); st.Recording.Files != 1 || st.Recording.Failed != 0 || st.Delays.Say.Total() == 0 || st.Delays.Hear.Total() == 0 {
		t.Errorf("%+v", st)
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
