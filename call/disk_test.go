package call

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	"parley/media/wav"
	"parley/rtp/rtptest"
)

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
		if st := r.server.recorder.stats(); st.Failed != 1 || st.Active != 1 {
			t.Errorf("while the call is up: %+v", st)
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
