package elevenlabs

import (
	"testing"
	"time"

	"parley/agent/tts"
	"parley/agent/tts/sound"
)

// FuzzLine: whatever the service sends, words come in order and not before their time.
func FuzzLine(f *testing.F) {
	f.Add(`{"audio_base64":"AAAA","alignment":{"characters":["o","n","e"],"character_start_times_seconds":[0,0.1,0.2],"character_end_times_seconds":[0.1,0.2,0.3]}}`, `{}`)
	f.Add(`{"audio_base64":"AA==","alignment":{"characters":["t","wo"],"character_start_times_seconds":[-1,1e99],"character_end_times_seconds":[5]}}`, `{"detail":{}}`)
	f.Add(`{"alignment":null}`, `data: {"error":"no"}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		samples, last := 0, time.Duration(0)
		s := sound.NewSpeech(t.Context(), "one two three", 16000, true, func(c tts.Chunk) error {
			for _, w := range c.Words {
				if w.Start < last || w.End < w.Start || w.Start < time.Duration(samples)*time.Second/16000 {
					t.Fatalf("%+v after %v, with sample %d", w, last, samples)
				}
				last = w.Start
			}
			samples += len(c.PCM)
			return nil
		})
		r := reading{speech: s, decoder: sound.NewDecoder(16000, sound.Format{Encoding: sound.S16LE, Rate: 16000}, "")}
		for _, line := range []string{a, b, a, b} {
			if r.line([]byte(line)) != nil {
				return
			}
		}
		if r.decoder.Close(s.Sound) == nil {
			_ = s.End() // silence is an error, and no matter here
		}
	})
}
