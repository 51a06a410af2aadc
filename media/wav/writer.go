package wav

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

const headerSize = 44

// header is that of a PCM16 file with size bytes of sound.
func header(rate, channels int, size uint32) []byte {
	whole := uint32(math.MaxUint32)
	if size < math.MaxUint32-headerSize {
		whole = size + headerSize - 8
	}
	le := binary.LittleEndian
	b := append(make([]byte, 0, headerSize), "RIFF"...)
	b = le.AppendUint32(b, whole)
	b = append(b, "WAVEfmt "...)
	b = le.AppendUint32(b, 16)
	b = le.AppendUint16(b, tagPCM)
	b = le.AppendUint16(b, uint16(channels))
	b = le.AppendUint32(b, uint32(rate))
	b = le.AppendUint32(b, uint32(rate*channels*2))
	b = le.AppendUint16(b, uint16(channels*2))
	b = le.AppendUint16(b, 16)
	b = append(b, "data"...)
	return le.AppendUint32(b, size)
}

// Encode is a whole PCM16 file. Stereo pcm is left before right.
func Encode(rate, channels int, pcm []int16) []byte {
	b := header(rate, channels, uint32(2*len(pcm)))
	for _, s := range pcm {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

// Writer writes a PCM16 file. Until Close the sound is in a file of another name
// beside it, so nobody ever finds half a file under the right one; should the
// process die, what was written can still be read from there. One goroutine at a
// time may use it.
type Writer struct {
	path           string
	rate, channels int
	f              *os.File
	b              *bufio.Writer
	size           int64 // bytes of sound
	err            error
}

// maxData is the most sound that a header can announce.
const maxData = endless - 1<<16

// Create begins a file at path of sound at rate Hz with 1 or 2 channels. The
// folder must be there. Only the owner can read the file: it may hold speech.
func Create(path string, rate, channels int) (*Writer, error) {
	if channels != 1 && channels != 2 || rate < 1000 || rate > 384000 {
		return nil, fmt.Errorf("wav: cannot write %d channels at %d Hz", channels, rate)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return nil, fmt.Errorf("wav: %w", err)
	}
	w := &Writer{path: path, rate: rate, channels: channels, f: f, b: bufio.NewWriterSize(f, 16<<10)}
	// The size of sound without an end, until it is known.
	if _, err := w.b.Write(header(rate, channels, math.MaxUint32)); err != nil {
		w.Abort()
		return nil, fmt.Errorf("wav: %w", err)
	}
	return w, nil
}

// Path is where the file will be.
func (w *Writer) Path() string { return w.path }

// Write appends samples, in stereo left before right. After an error, ErrTooLong
// among them, nothing more is written, and Close keeps what was.
func (w *Writer) Write(pcm []int16) error {
	if !w.room(len(pcm)) {
		return w.err
	}
	for _, s := range pcm {
		w.put(s)
	}
	return w.err
}

// WriteStereo appends the same stretch of time of both sides of a stereo file. A
// side that is shorter is silent for the rest.
func (w *Writer) WriteStereo(left, right []int16) error {
	if w.err == nil && w.channels != 2 {
		return errors.New("wav: the file is not stereo")
	}
	n := max(len(left), len(right))
	if !w.room(2 * n) {
		return w.err
	}
	for i := range n {
		w.put(at(left, i))
		w.put(at(right, i))
	}
	return w.err
}

func at(pcm []int16, i int) int16 {
	if i < len(pcm) {
		return pcm[i]
	}
	return 0
}

// room is whether n more samples can be written.
func (w *Writer) room(n int) bool {
	if w.f == nil && w.err == nil {
		w.err = fmt.Errorf("wav: %w", os.ErrClosed)
	}
	if w.err == nil && w.size+2*int64(n) > maxData {
		w.err = fmt.Errorf("%w: a file holds at most %d bytes of sound", ErrTooLong, int64(maxData))
	}
	return w.err == nil
}

func (w *Writer) put(s int16) {
	if w.err != nil {
		return
	}
	// Two bytes cannot be written in part: the buffer's error stays.
	if err := w.b.WriteByte(byte(s)); err != nil {
		w.err = fmt.Errorf("wav: %w", err)
		return
	}
	if err := w.b.WriteByte(byte(uint16(s) >> 8)); err != nil {
		w.err = fmt.Errorf("wav: %w", err)
		return
	}
	w.size += 2
}

// Flush gives what was written to the system: should the process die, it can be read
// from the unfinished file. An error of an earlier Write is reported again.
func (w *Writer) Flush() error {
	if w.err == nil && w.f != nil {
		if err := w.b.Flush(); err != nil {
			w.err = fmt.Errorf("wav: %w", err)
		}
	}
	return w.err
}

// Samples is how many samples have been written, those of all channels together.
func (w *Writer) Samples() int64 { return w.size / 2 }

// Close completes the file and gives it its name. When that fails the unfinished
// file is removed and there is none under the name, unless there was one before.
// An error of an earlier Write is reported again, but the file is there. A second
// Close does nothing.
func (w *Writer) Close() error {
	if w.f == nil {
		return nil
	}
	if err := w.finish(); err != nil {
		w.Abort()
		return fmt.Errorf("wav: %w", err)
	}
	w.f = nil
	return w.err
}

func (w *Writer) finish() error {
	if err := w.b.Flush(); err != nil && w.err == nil {
		return err
	}
	there, err := w.f.Seek(0, io.SeekEnd) // less than was written if the disk is full
	if err != nil {
		return err
	}
	size := max(0, min(w.size, there-headerSize))
	size -= size % int64(2*w.channels)
	if _, err := w.f.WriteAt(header(w.rate, w.channels, uint32(size)), 0); err != nil {
		return err
	}
	if err := w.f.Truncate(headerSize + size); err != nil {
		return err
	}
	if err := w.f.Sync(); err != nil {
		return err
	}
	if err := w.f.Close(); err != nil {
		return err
	}
	return os.Rename(w.f.Name(), w.path)
}

// Abort removes the unfinished file. After Close it does nothing.
func (w *Writer) Abort() {
	if w.f == nil {
		return
	}
	_ = w.f.Close()
	_ = os.Remove(w.f.Name())
	w.f = nil
}
