package phone

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// LoadSound reads a sound file for Call.Say: WAV with 16-bit PCM, mono, 8 kHz.
func LoadSound(path string) ([]int16, error) {
	pcm, rate, err := LoadSoundAt(path)
	if err == nil && rate != sampleRate {
		return nil, fmt.Errorf("phone: %s is at %d Hz, not %d", path, rate, sampleRate)
	}
	return pcm, err
}

// LoadSoundAt reads a sound file of any rate: WAV with 16-bit PCM, mono. rate is
// in Hz.
func LoadSoundAt(path string) (pcm []int16, rate int, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, fmt.Errorf("phone: %w", err)
	}
	if pcm, rate, err = parseWAV(b); err != nil {
		return nil, 0, fmt.Errorf("phone: %s: %w", path, err)
	}
	return pcm, rate, nil
}

var errNotWAV = errors.New("not a WAV file of 16-bit PCM, mono")

func parseWAV(b []byte) (pcm []int16, rate int, err error) {
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return nil, 0, errNotWAV
	}
	for b = b[12:]; len(b) >= 8; {
		id, size := string(b[:4]), int(binary.LittleEndian.Uint32(b[4:]))
		b = b[8:]
		size = min(size, len(b)) // a file that was cut short plays what is there
		switch id {
		case "fmt ":
			if size < 16 || binary.LittleEndian.Uint16(b) != 1 || binary.LittleEndian.Uint16(b[2:]) != 1 || binary.LittleEndian.Uint16(b[14:]) != 16 {
				return nil, 0, errNotWAV
			}
			rate = int(binary.LittleEndian.Uint32(b[4:]))
		case "data":
			if rate <= 0 {
				return nil, 0, errNotWAV
			}
			pcm = make([]int16, size/2)
			for i := range pcm {
				pcm[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
			}
			return pcm, rate, nil
		}
		b = b[min(len(b), size+size%2):]
	}
	return nil, 0, errNotWAV
}

// WriteWAV writes the call as a stereo WAV file, 16-bit PCM.
func (s Stereo) WriteWAV(w io.Writer) error {
	const channels, bytes = 2, 2
	size := len(s.Left) * channels * bytes
	b := append(make([]byte, 0, 44+size), "RIFF"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(36+size))
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = binary.LittleEndian.AppendUint16(b, 1)
	b = binary.LittleEndian.AppendUint16(b, channels)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.Rate))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.Rate*channels*bytes))
	b = binary.LittleEndian.AppendUint16(b, channels*bytes)
	b = binary.LittleEndian.AppendUint16(b, 8*bytes)
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	for i := range s.Left {
		b = binary.LittleEndian.AppendUint16(b, uint16(s.Left[i]))
		b = binary.LittleEndian.AppendUint16(b, uint16(s.Right[i]))
	}
	_, err := w.Write(b)
	return err
}
