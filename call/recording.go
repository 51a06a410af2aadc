package call

import (
	"fmt"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	"parley/media"
)

// SoundFile is a file that a recording is written to, stereo: wav.Writer and
// opus.FileWriter are two. One goroutine at a time uses it.
type SoundFile interface {
	// WriteStereo appends the same stretch of time of both sides.
	WriteStereo(left, right []int16) error
	// Flush gives what was written to the system: it can be read from the unfinished
	// file should the process die.
	Flush() error
	// Close completes the file and gives it its name. Until then it has another.
	Close() error
	// Abort removes the unfinished file.
	Abort()
}

// settle is for how long a recording waits for sound that belongs before what came:
// longer than a block may be from its time.
const settle = 400 * time.Millisecond

// flushEvery is how much sound a crash of the process can lose, and what settles.
const flushEvery = time.Second

// recording is one call's recording. The writer that it was given to is the only
// one to use what is not said to be anybody's.
type recording struct {
	tape    *tape
	id      string // the call's
	began   time.Time
	notify  func(what string, err error)
	closing atomic.Bool   // set by finish
	done    chan struct{} // closed when the file is
	path    string        // of the file; to be read after done
	length  time.Duration // likewise
	err     error         // likewise: the first
	counted bool          // as failed

	cfg     RecordingConfig
	open    func(format, path string, rate int) (SoundFile, error)
	file    SoundFile
	rate    int
	origin  time.Duration // the wheel's time of the file's first sample, later when pauses were cut
	rolling bool
	sides   [2]track
	line    [2]*line
	decoder media.Decoder // of the agent's payloads
	b       []byte
	pcm     []int16
	flushed int64 // place in the file
}

// work writes what is on the tape. It says true when the recording is over.
func (r *recording) work() (over bool) {
	closing := r.closing.Load() // before the tape is looked at: nothing comes after it
	for {
		var e entry
		var ok bool
		if e, r.b, ok = r.tape.take(r.b[:0]); !ok {
			break
		}
		if r.err == nil {
			r.fail(r.block(e, r.b))
		}
	}
	if r.file != nil && r.err == nil && r.rolling {
		until := time.Duration(r.tape.now.Load()) - r.origin
		if !closing {
			until -= settle
		}
		r.fail(r.write(at(max(0, until), r.rate), closing))
	}
	if closing {
		r.close()
	}
	return closing
}

// fail ends the recording, not the call. What was written is kept.
func (r *recording) fail(err error) {
	if err == nil || r.err != nil {
		return
	}
	r.err = fmt.Errorf("call: recording: %w", err)
	r.notify("failed", r.err)
}

// block takes one block of the tape.
func (r *recording) block(e entry, b []byte) error {
	switch e.kind {
	case entryRolls:
		return r.roll(e)
	case entryPauses:
		return r.pause(e)
	}
	side := int(e.kind)
	place := at(e.at-r.origin, r.rate)
	var err error
	if side == callerSide {
		r.pcm = samples(r.pcm[:0], b)
	} else if r.pcm, err = r.decode(e.line, b); err != nil {
		return nil // one payload of ours that its own decoder refuses: silence
	}
	return r.sides[side].put(place, r.pcm, e.line.codec.SampleRate, e.torn)
}

// decode makes sound of a payload that was sent.
func (r *recording) decode(l *line, b []byte) ([]int16, error) {
	if before := r.line[agentSide]; r.decoder == nil || before.codec.Name != l.codec.Name || before.params != l.params {
		d, err := l.codec.NewDecoder()
		if err != nil {
			return r.pcm[:0], err
		}
		r.decoder = d
	}
	r.line[agentSide] = l
	return r.decoder.Decode(r.pcm[:0], b)
}

// roll begins, or goes on after a pause.
func (r *recording) roll(e entry) error {
	r.rolling = true
	if r.file == nil {
		r.rate, r.origin = e.line.codec.SampleRate, e.at
		path, err := r.name()
		if err != nil {
			return err
		}
		file, err := r.open(r.cfg.Format, path, r.rate)
		if err != nil {
			return err
		}
		r.file, r.path = file, path
		r.sides[callerSide] = newTrack(r.rate, 0, callerSlack)
		r.sides[agentSide] = newTrack(r.rate, 0, agentSlack)
		r.notify("on", nil)
		return nil
	}
	r.notify("on", nil)
	if r.cfg.Pause == PauseCut {
		r.origin = e.at - media.Duration(int(r.end()), r.rate)
		return nil
	}
	return r.write(at(e.at-r.origin, r.rate), false)
}

// pause stops recording. A tone marks the place for whoever listens.
func (r *recording) pause(e entry) error {
	r.rolling = false
	if err := r.write(at(e.at-r.origin, r.rate), true); err != nil {
		return err
	}
	mark := pauseMark(r.rate)
	if err := r.file.WriteStereo(mark, mark); err != nil {
		return err
	}
	for i := range r.sides {
		r.sides[i].base += int64(len(mark))
	}
	r.notify("off", nil)
	return r.file.Flush()
}

func (r *recording) end() int64 { return max(r.sides[0].end(), r.sides[1].end()) }

// write puts all before place into the file; all there is when it ends there.
func (r *recording) write(place int64, ends bool) error {
	if ends {
		place = max(place, r.end())
	}
	left, right := r.sides[callerSide].take(place), r.sides[agentSide].take(place)
	n := min(len(left), len(right))
	if n > 0 {
		if err := r.file.WriteStereo(left[:n], right[:n]); err != nil {
			return err
		}
		r.sides[callerSide].taken(n)
		r.sides[agentSide].taken(n)
	}
	if base := r.sides[callerSide].base; base-r.flushed >= int64(media.Samples(flushEvery, r.rate)) {
		r.flushed = base
		return r.file.Flush()
	}
	return nil
}

// close completes the file.
func (r *recording) close() {
	if r.file != nil {
		if err := r.file.Close(); err != nil {
			r.fail(err)
		}
		r.length = media.Duration(int(r.sides[callerSide].base), r.rate)
		r.file = nil
	}
	close(r.done)
}

// name is where the recording goes: a folder a day, and a name of the time and the
// call's id, which is the gateway's own. Nothing in it is the caller's.
func (r *recording) name() (string, error) {
	if !safeName(r.id) {
		return "", fmt.Errorf("the id of the call cannot be part of a file name")
	}
	dir := filepath.Join(r.cfg.Dir, r.began.Format("2006-01-02"))
	if err := makePrivate(dir); err != nil {
		return "", err
	}
	return filepath.Join(dir, r.began.Format("150405")+"-"+r.id+extension[r.cfg.Format]), nil
}

// safeName says whether s is letters, digits, minus and underscore.
func safeName(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// pauseMark is a soft tone of 200 ms, 440 Hz at -30 dBFS.
func pauseMark(rate int) []int16 {
	pcm := make([]int16, rate/5)
	for i := range pcm {
		fade := min(1, float64(min(i, len(pcm)-i))/float64(rate/100))
		pcm[i] = int16(fade * 1036 * math.Sin(2*math.Pi*440*float64(i)/float64(rate)))
	}
	return pcm
}
