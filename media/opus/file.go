package opus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// FileConfig is how a file of sound is encoded.
type FileConfig struct {
	// Bitrate is the average of both channels together in bit/s, 12000 to 256000.
	Bitrate int
	// Complexity trades processor time for quality, 0 to 10.
	Complexity int
}

// DefaultFileConfig is for speech: 32 kbit/s, 14 MB an hour, at a third of the work
// that calls take.
func DefaultFileConfig() FileConfig { return FileConfig{Bitrate: 32000, Complexity: 3} }

// Validate says what is wrong with c, naming the field.
func (c FileConfig) Validate() error {
	var errs []error
	if c.Bitrate < 12000 || c.Bitrate > 256000 {
		errs = append(errs, fmt.Errorf("bitrate: %d, must be between 12000 and 256000", c.Bitrate))
	}
	if c.Complexity < 0 || c.Complexity > 10 {
		errs = append(errs, fmt.Errorf("complexity: %d, must be between 0 and 10", c.Complexity))
	}
	return errors.Join(errs...)
}

// packetsPerPage is how many packets of 20 ms a page holds: a second.
const packetsPerPage = 50

// lookahead is by how much libopus's sound lags behind what it was given, in samples
// at 48 kHz: 6.5 ms. Players leave out as much at the beginning (RFC 7845 section
// 4.2).
const lookahead = 312

// FileWriter writes a stereo Ogg Opus file (RFC 7845). Until Close the sound is in a
// file of another name beside it; should the process die, all pages written until
// then can be played from there. One goroutine at a time may use it.
type FileWriter struct {
	path    string
	rate    int
	f       *os.File
	pages   *pages
	enc     *fileEncoder
	pcm     []int16 // interleaved, less than a packet
	packet  []byte
	queued  int   // packets on the page
	given   int64 // samples of one side
	encoded int64 // samples of one side in packets
	closed  bool
	err     error
}

// Create begins a file at path for sound of two sides at rate Hz, 8000 or 16000. The
// folder must be there. Only the owner can read the file: it may hold speech.
func Create(path string, rate int, c FileConfig) (*FileWriter, error) {
	if rate != 8000 && rate != 16000 {
		return nil, fmt.Errorf("opus: cannot write a file at %d Hz", rate)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("opus: %w", err)
	}
	enc, err := newFileEncoder(rate, c)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return nil, fmt.Errorf("opus: %w", err)
	}
	w := &FileWriter{path: path, rate: rate, f: f, enc: enc, packet: make([]byte, 2000), pages: newPages(f, rand.Uint32())}
	if err := w.headers(); err != nil {
		w.Abort()
		return nil, fmt.Errorf("opus: %w", err)
	}
	return w, nil
}

// headers writes the identification and the comment header, a page each (RFC 7845
// section 5).
func (w *FileWriter) headers() error {
	le := binary.LittleEndian
	head := append([]byte("OpusHead"), 1, 2) // version, channels
	head = le.AppendUint16(head, lookahead)
	head = le.AppendUint32(head, uint32(w.rate))
	head = append(head, 0, 0, 0) // gain, mapping family 0: left and right
	w.pages.add(head)
	if err := w.pages.end(firstPage, 0); err != nil {
		return err
	}
	tags := []byte("OpusTags")
	for _, s := range []string{Library(), "CHANNELS=left: caller, right: agent"} {
		tags = le.AppendUint32(tags, uint32(len(s)))
		tags = append(tags, s...)
		if s == Library() {
			tags = le.AppendUint32(tags, 1) // one comment follows
		}
	}
	w.pages.add(tags)
	return w.pages.end(0, 0)
}

// Path is where the file will be.
func (w *FileWriter) Path() string { return w.path }

// WriteStereo appends the same stretch of time of both sides. A side that is shorter
// is silent for the rest. After an error nothing more is written, and Close keeps
// what was.
func (w *FileWriter) WriteStereo(left, right []int16) error {
	if w.closed && w.err == nil {
		w.err = fmt.Errorf("opus: %w", os.ErrClosed)
	}
	size := 2 * w.rate / 50
	for i := range max(len(left), len(right)) {
		if w.err != nil {
			return w.err
		}
		w.pcm = append(w.pcm, sampleAt(left, i), sampleAt(right, i))
		w.given++
		if len(w.pcm) == size {
			w.encode()
		}
	}
	return w.err
}

func sampleAt(pcm []int16, i int) int16 {
	if i < len(pcm) {
		return pcm[i]
	}
	return 0
}

// encode makes a packet of pcm, and a page of packets when there are enough.
func (w *FileWriter) encode() {
	if w.queued > 0 && (w.queued == packetsPerPage || !w.pages.fits(len(w.packet))) {
		w.note(w.page(0))
	}
	n, err := w.enc.encode(w.packet, w.pcm)
	if err != nil {
		w.note(err)
		return
	}
	w.encoded += int64(len(w.pcm) / 2)
	w.pcm = w.pcm[:0]
	w.pages.add(w.packet[:n])
	w.queued++
}

func (w *FileWriter) note(err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("opus: %w", err)
	}
}

// page ends the page. Its position counts the sound of all packets so far, the
// lookahead among it; on the last page it says where the sound truly ends, so that
// the rest of the last packet is left out (RFC 7845 section 4).
func (w *FileWriter) page(flags byte) error {
	at := w.encoded
	if flags&lastPage != 0 {
		at = min(at, w.given+int64(lookahead*w.rate/ClockRate))
	}
	w.queued = 0
	return w.pages.end(flags, uint64(at*int64(ClockRate/w.rate)))
}

// Flush gives all whole packets to the system.
func (w *FileWriter) Flush() error {
	if w.queued > 1 && w.err == nil {
		w.note(w.page(0)) // not the last packet there may be: the last page must have one
	}
	return w.err
}

// Close completes the file and gives it its name. When that fails the unfinished
// file is removed, unless some sound was written before. A second Close does nothing.
func (w *FileWriter) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	// What is left, and the lookahead, without which the end would be missing.
	for w.err == nil && (len(w.pcm) > 0 || w.encoded < w.given+int64(lookahead*w.rate/ClockRate)) {
		w.pcm = append(w.pcm, make([]int16, 2*w.rate/50-len(w.pcm))...)
		w.encode()
	}
	if w.err == nil {
		w.note(w.page(lastPage))
	}
	sound := w.pages.number > 2
	err := w.f.Sync()
	if e := w.f.Close(); err == nil {
		err = e
	}
	if !sound || err != nil && w.err == nil {
		_ = os.Remove(w.f.Name())
		w.note(err)
		return w.err
	}
	if err := os.Rename(w.f.Name(), w.path); err != nil {
		_ = os.Remove(w.f.Name())
		w.note(err)
	}
	return w.err
}

// Abort removes the unfinished file. After Close it does nothing.
func (w *FileWriter) Abort() {
	if w.closed {
		return
	}
	w.closed = true
	_ = w.f.Close()
	_ = os.Remove(w.f.Name())
}

var _ io.Closer = (*FileWriter)(nil)
