package phone

import (
	"fmt"

	"parley/media/wav"
)

// longestSound is how many samples LoadSound takes, 10 minutes.
const longestSound = 10 * 60 * sampleRate

// LoadSound reads a sound file for Call.Say: a WAVE file at 8 kHz, both channels
// mixed when there are two.
func LoadSound(path string) ([]int16, error) {
	pcm, rate, err := LoadSoundAt(path)
	if err == nil && rate != sampleRate {
		return nil, fmt.Errorf("phone: %s is at %d Hz, not %d", path, rate, sampleRate)
	}
	return pcm, err
}

// LoadSoundAt reads a sound file of any rate, which it returns in Hz.
func LoadSoundAt(path string) (pcm []int16, rate int, err error) {
	pcm, format, err := wav.ReadFile(path, longestSound)
	if err != nil {
		return nil, 0, fmt.Errorf("phone: %w", err)
	}
	return wav.Mono(pcm, format.Channels), format.Rate, nil
}

// WriteFile writes the call as a stereo WAVE file, left the caller, right the
// agent.
func (s Stereo) WriteFile(path string) error {
	w, err := wav.Create(path, s.Rate, 2)
	if err != nil {
		return fmt.Errorf("phone: %w", err)
	}
	if err := w.WriteStereo(s.Left, s.Right); err != nil {
		w.Abort()
		return fmt.Errorf("phone: %w", err)
	}
	return w.Close()
}
