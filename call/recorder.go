package call

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"parley/agent"
)

// When calls are recorded: RecordingConfig.When.
const (
	RecordNever     = "never"
	RecordAlways    = "always"
	RecordOnRequest = "on_request"
)

// What becomes of a pause in the file: RecordingConfig.Pause.
const (
	PauseSilence = "silence"
	PauseCut     = "cut"
)

// extension has the formats of recordings and how their files' names end.
var extension = map[string]string{"wav": ".wav", "opus": ".opus"}

// RecordingConfig is what an operator may set about recordings: stereo files, the
// caller left and the agent right, as they were heard and sent.
type RecordingConfig struct {
	// When is "never"; "always", from the answer on; or "on_request", when the agent
	// or the API asks. Recordings can be paused and taken up again in both.
	When string
	// Dir gets a folder a day, for nobody but the server's user.
	Dir string
	// Format is "wav", 16 bit PCM, or "opus", about a tenth of the size.
	Format string
	// Pause says what a pause leaves in the file: "silence" as long as it was, or a
	// "cut". Both are marked by a soft tone of 200 ms.
	Pause string
	// Announce is told to the caller at the beginning of every call, before the agent
	// speaks, as law asks for in many places. AnnounceFile is a WAV file to play in its
	// place. Both empty: nothing is announced. Only with "always".
	Announce, AnnounceFile string
}

// DefaultRecordingConfig records nothing.
func DefaultRecordingConfig() RecordingConfig {
	return RecordingConfig{When: RecordNever, Dir: "recordings", Format: "wav", Pause: PauseSilence}
}

// Validate reports everything that is wrong with c, each with the field's name.
func (c RecordingConfig) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	switch c.When {
	case RecordNever, RecordAlways, RecordOnRequest:
	default:
		bad("when: %q, must be never, always or on_request", c.When)
	}
	if c.Dir == "" && c.When != RecordNever {
		bad("dir: name a folder for recordings")
	}
	if extension[c.Format] == "" {
		bad("format: %q, must be wav or opus", c.Format)
	}
	if c.Pause != PauseSilence && c.Pause != PauseCut {
		bad("pause: %q, must be silence or cut", c.Pause)
	}
	if c.Announce != "" && c.AnnounceFile != "" {
		bad("announce, announce_file: only one of them can be played")
	}
	if (c.Announce != "" || c.AnnounceFile != "") && c.When != RecordAlways {
		bad("announce, announce_file: are for when = \"always\"; an agent that asks for a recording says so itself")
	}
	return errors.Join(errs...)
}

// ErrNoRecording means that recordings are off by configuration, or the call is not up.
var ErrNoRecording = errors.New("call: calls are not recorded")

// Recorder turns the recording of one call on and off while it is up.
type Recorder interface {
	// Record begins or goes on (true), or pauses (false). It returns at once; that
	// the file could not be written is an event of the call. Asking for what is
	// already so does nothing. The error is ErrNoRecording when recordings are off by
	// configuration. Safe for concurrent use.
	Record(on bool) error
}

// RecordingStats are the figures of all recordings since the server began.
type RecordingStats struct {
	// Files counts recordings begun, Failed those that an error ended early.
	Files, Failed uint64
	// DroppedBlocks counts packets that are silence in their file because the disk
	// was slow.
	DroppedBlocks uint64
	// Active is how many calls have a recording now.
	Active int
}

// diskPatience is for how long a disk that does not answer is waited for.
const diskPatience = 5 * time.Second

// writeEvery is how often a writer looks at its recordings.
const writeEvery = 200 * time.Millisecond

// recorder writes the recordings of all calls on one goroutine, which rests while
// there is none. Calls never wait for it.
type recorder struct {
	cfg  RecordingConfig
	open func(format, path string, rate int) (SoundFile, error)
	poke chan struct{}

	mu     sync.Mutex // of added and closed
	added  []*recording
	closed bool
	done   chan struct{}

	files, failed, dropped atomic.Uint64
	active                 atomic.Int64
}

// newRecorder starts the writer; nil when nothing is to be recorded. The folder is
// made at once, so that a mistake is known before the first call.
func newRecorder(cfg RecordingConfig, open func(format, path string, rate int) (SoundFile, error)) (*recorder, error) {
	if cfg.When == RecordNever || cfg.When == "" {
		return nil, nil
	}
	if open == nil {
		return nil, errors.New("call: recording: this server has no writer of sound files")
	}
	if err := makePrivate(cfg.Dir); err != nil {
		return nil, fmt.Errorf("call: recording: dir: %w", err)
	}
	r := &recorder{cfg: cfg, open: open, poke: make(chan struct{}, 1), done: make(chan struct{})}
	go r.run()
	return r, nil
}

// makePrivate makes a folder that only its owner can look into.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// add begins to write a recording.
func (r *recorder) add(rec *recording) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrNoRecording
	}
	r.added = append(r.added, rec)
	r.active.Add(1)
	r.files.Add(1)
	r.wake()
	return nil
}

func (r *recorder) wake() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// run writes until close.
func (r *recorder) run() {
	defer close(r.done)
	var live []*recording
	ticker := time.NewTicker(writeEvery)
	defer ticker.Stop()
	for {
		var tick <-chan time.Time
		if len(live) > 0 {
			tick = ticker.C
		}
		select {
		case <-tick:
		case <-r.poke:
		}
		r.mu.Lock()
		live, r.added = append(live, r.added...), nil
		closed := r.closed
		r.mu.Unlock()
		kept := live[:0]
		for _, rec := range live {
			if closed {
				rec.closing.Store(true)
			}
			done := rec.work()
			if rec.err != nil && !rec.counted {
				rec.counted = true // at once: a disk is full for hours before calls end
				r.failed.Add(1)
			}
			if !done {
				kept = append(kept, rec)
				continue
			}
			r.over(rec)
		}
		clear(live[len(kept):])
		if live = kept; closed {
			return
		}
	}
}

func (r *recorder) over(rec *recording) {
	r.active.Add(-1)
	r.dropped.Add(rec.tape.dropped.Load())
}

// close completes all files and ends the writer. nil is closed already.
func (r *recorder) close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wake()
	limit := time.NewTimer(diskPatience)
	defer limit.Stop()
	select {
	case <-r.done:
		return nil
	case <-limit.C:
		return errors.New("call: recordings are not complete: the disk does not answer")
	}
}

func (r *recorder) stats() RecordingStats {
	if r == nil {
		return RecordingStats{}
	}
	return RecordingStats{Files: r.files.Load(), Failed: r.failed.Load(), DroppedBlocks: r.dropped.Load(), Active: int(r.active.Load())}
}

// taping is a call's side of its recording.
type taping struct {
	mu   sync.Mutex
	rec  *recording // nil: none yet
	over bool
	tape atomic.Pointer[tape] // rec's, for the wheel
}

// Record implements Recorder.
func (c *Call) Record(on bool) error {
	r := c.server.recorder
	if r == nil {
		return ErrNoRecording
	}
	t := &c.taping
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
		return ErrNoRecording
	case t.rec != nil:
		t.rec.tape.wanted.Store(on)
		return nil
	case !on:
		return nil
	}
	rec := &recording{tape: newTape(), id: c.id, began: time.Now(), cfg: r.cfg, open: r.open, done: make(chan struct{}), notify: c.recordingNews}
	if err := r.add(rec); err != nil {
		return err
	}
	t.rec = rec
	t.tape.Store(rec.tape)
	return nil
}

// recordingNews tells the log and the event stream what became of the recording.
func (c *Call) recordingNews(what string, err error) {
	e := agent.Event{Type: agent.EventRecording, Reason: what}
	if err != nil {
		c.log.Warn("recording failed, the call goes on", zap.Error(err))
	} else {
		c.log.Info("recording", zap.String("state", what))
	}
	c.server.event(c, e)
}

// startRecording begins what is recorded from the answer on.
func (c *Call) startRecording() {
	if c.server.cfg.Recording.When != RecordAlways {
		return
	}
	if err := c.Record(true); err != nil {
		c.recordingNews("failed", err)
	}
}

// closeRecording completes the file when the call has left the wheel, and waits for
// that within bounds: a disk that hangs does not hold up a call's end for ever.
func (c *Call) closeRecording() {
	t := &c.taping
	t.mu.Lock()
	rec := t.rec
	over := t.over
	t.over = true
	t.mu.Unlock()
	if rec == nil || over {
		return
	}
	rec.closing.Store(true)
	c.server.recorder.wake()
	limit := time.NewTimer(diskPatience)
	defer limit.Stop()
	select {
	case <-rec.done:
		c.log.Info("recording complete", zap.String("file", rec.path), zap.Duration("length", rec.length), zap.Uint64("dropped_blocks", rec.tape.dropped.Load()))
	case <-limit.C:
		c.log.Error("recording is not complete yet: the disk does not answer; the call ends without it")
	}
}
