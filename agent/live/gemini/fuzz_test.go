package gemini

import (
	"bytes"
	"context"
	"testing"

	"parley/agent/live"
	"parley/agent/live/socket"
	"parley/agent/live/socket/sockettest"
)

// FuzzMessages: whatever a service says, line by line, nothing panics, what is
// remembered stays bounded, and no audio has half a sample.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"serverContent":{"inputTranscription":{"text":"a"},"modelTurn":{"parts":[{"inlineData":{"data":"AAAA","mimeType":"audio/pcm;rate=24000"}}]}}}` + "\n" + `{"serverContent":{"interrupted":true,"turnComplete":true}}`,
		`{"toolCall":{"functionCalls":[{"id":"c","name":"x","args":{"a":1}},{"name":"y"}]}}` + "\n" + `{"toolCallCancellation":{"ids":["c"]}}`,
		`{"goAway":{"timeLeft":"-5s"}}`, `{"sessionResumptionUpdate":{"newHandle":"h","resumable":true,"lastConsumedClientMessageIndex":"7"}}`,
		`{"usageMetadata":{"promptTokenCount":-1}}`, `{"error":{"code":500}}`, `{"voiceActivity":{"voiceActivityType":"ACTIVITY_START","audioOffset":"1s"}}`,
		`null`, `[]`, `{"serverContent":5}`,
	} {
		f.Add([]byte(s))
	}
	server := sockettest.Loopback(f, func(p *sockettest.Peer) {
		p.Accept()
		p.Wait()
	})
	sock, err := socket.Dial(context.Background(), socket.Config{Name: "gemini", URL: server.URL})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = sock.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, said []byte) {
		k := &talk{
			sock: sock, clean: socket.Config{}.Clean, names: newNames(nil), kept: &kept{open: map[string]live.ToolCall{}},
			lead: socket.NewLead(0), open: map[string]live.ToolCall{}, before: map[string]bool{}, late: map[string]bool{}, nameless: map[string]bool{},
		}
		for _, line := range bytes.Split(said, []byte("\n")) {
			m, err := parse(line)
			if err != nil {
				continue
			}
			if k.apply(m) != nil {
				break
			}
			for _, m := range k.out {
				if len(m.Audio)%2 != 0 {
					t.Fatalf("%d bytes of audio", len(m.Audio))
				}
				for _, c := range m.ToolCalls {
					if c.ID == "" || c.Name == "" || c.Args == nil {
						t.Fatalf("a call %+v", c)
					}
				}
				if m.GoAway != nil && m.GoAway.TimeLeft < 0 {
					t.Fatal(m.GoAway.TimeLeft)
				}
			}
			k.out = nil
			if len(k.open) > maxOpen || len(k.half) > 1 {
				t.Fatal("more is remembered than should be")
			}
		}
	})
}

// TestAudioAllocates nothing for a packet: this is done 50 times a second for each
// call.
func TestAudioAllocates(t *testing.T) {
	pcm, buffer := make([]byte, 640), make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { buffer = appendAudio(buffer[:0], pcm) }); n != 0 {
		t.Errorf("%v allocations for a packet", n)
	}
}
