package cartesia

import (
	"testing"
	"time"

	"parley/agent/live/socket"
	"parley/agent/live/socket/sockettest"
	"parley/agent/tts"
	"parley/agent/tts/sound"
)

// FuzzMessages: whatever the service sends, words come in order and not before their time,
// and nothing of another context is heard.
func FuzzMessages(f *testing.F) {
	f.Add(`{"type":"chunk","context_id":"ID","data":"AAAAAAAA"}`, `{"type":"timestamps","context_id":"ID","word_timestamps":{"words":["one","two"],"start":[0,0.1],"end":[0.1,0.2]}}`, `{"type":"done","context_id":"ID"}`)
	f.Add(`{"type":"chunk","context_id":"other","data":"AAAAAAAA"}`, `{"type":"timestamps","context_id":"ID","word_timestamps":{"words":["three"],"start":[-1,1e99],"end":[]}}`, `{"type":"error","error":{}}`)
	f.Add(`{"type":"chunk","context_id":"ID","data":"*"}`, `{"type":"timestamps","context_id":"ID"}`, `[]`)
	server := sockettest.Serve(f, func(p *sockettest.Peer) { p.Accept(); p.Wait() })
	sock, err := socket.Dial(f.Context(), socket.Config{Name: room, URL: server.URL, Transport: server.Transport})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { sock.Drop(errClosed) })
	f.Fuzz(func(t *testing.T, a, b, c string) {
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
		turn := turn{
			Voice: &Voice{clean: func(s string) string { return s }}, conn: &conn{Socket: sock}, id: "ID", speech: s,
			decoder: sound.NewDecoder(16000, sound.Format{Encoding: sound.S16LE, Rate: 16000}, ""),
		}
		for _, m := range []string{a, b, c, a, b} {
			if _, err := turn.take([]byte(m)); err != nil {
				break
			}
		}
		if turn.ended && turn.decoder.Close(s.Sound) == nil {
			_ = s.End() // silence is an error, and no matter here
		}
	})
}
