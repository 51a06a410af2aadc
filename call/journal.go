package call

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"go.uber.org/zap"

	"parley/agent"
)

// journalQueue is how many lines may wait for the disk; more are dropped and
// counted, because a call never waits for a disk.
const journalQueue = 4096

// journal writes the events of calls to files of JSON lines, one file a call, on
// one goroutine of its own.
type journal struct {
	dir     string
	log     *zap.Logger
	lines   chan journalLine
	done    chan struct{}
	dropped atomic.Uint64
}

// journalLine is one line for the file of a call; the last one closes it.
type journalLine struct {
	callID string
	event  *agent.Event
	record *Record
}

func openJournal(dir string, log *zap.Logger) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("call: events_dir: %w", err)
	}
	j := &journal{dir: dir, log: log, lines: make(chan journalLine, journalQueue), done: make(chan struct{})}
	go j.run()
	return j, nil
}

// write queues an event; it never blocks.
func (j *journal) write(callID string, e agent.Event) {
	j.put(journalLine{callID: callID, event: &e})
}

// end queues the last line of a call: its record, with "type":"call_ended".
func (j *journal) end(r Record) { j.put(journalLine{callID: r.CallID, record: &r}) }

func (j *journal) put(l journalLine) {
	select {
	case j.lines <- l:
	default:
		j.dropped.Add(1)
	}
}

// close writes what is queued and waits for it. No call may write after it.
func (j *journal) close() error {
	close(j.lines)
	<-j.done
	if n := j.dropped.Load(); n > 0 {
		return fmt.Errorf("call: %d journal lines were dropped because the disk was slow", n)
	}
	return nil
}

func (j *journal) run() {
	defer close(j.done)
	files := map[string]*os.File{}
	for l := range j.lines {
		if err := j.line(files, l); err != nil {
			j.log.Warn("journal line lost", zap.String("call_id", l.callID), zap.Error(err))
		}
	}
	for _, f := range files {
		_ = f.Close()
	}
}

func (j *journal) line(files map[string]*os.File, l journalLine) error {
	f := files[l.callID]
	if f == nil {
		var err error
		// The id is the gateway's own: hexadecimal digits.
		if f, err = os.OpenFile(filepath.Join(j.dir, l.callID+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return err
		}
		files[l.callID] = f
	}
	var v any = l.event
	if l.record != nil {
		v = struct {
			Type string `json:"type"`
			Record
		}{"call_ended", *l.record}
	}
	b, err := json.Marshal(v)
	if err == nil {
		_, err = f.Write(append(b, '\n'))
	}
	if l.record != nil {
		delete(files, l.callID)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	return err
}
