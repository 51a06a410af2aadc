package openai

import (
	"bytes"
	"context"
	"testing"

	"parley/agent/live"
	"parley/agent/live/socket"
	"parley/agent/live/socket/sockettest"
)

// FuzzEvents: whatever a service says, line by line, nothing panics, what is remembered
// stays bounded, and no audio has half a sample.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		`{"type":"response.created","response":{"id":"r"}}` + "\n" + `{"type":"response.output_audio.delta","response_id":"r","item_id":"i","delta":"AAAA"}` + "\n" + `{"type":"response.done","response":{"id":"r","status":"cancelled","output":[{"id":"i","type":"message"}]}}`,
		`{"type":"response.output_item.added","item":{"id":"f","type":"function_call","name":"x","call_id":"c"}}` + "\n" + `{"type":"response.function_call_arguments.delta","item_id":"f","delta":"{}"}` + "\n" + `{"type":"response.function_call_arguments.done","item_id":"f"}`,
		`{"type":"conversation.item.input_audio_transcription.delta","item_id":"u","delta":"a"}` + "\n" + `{"type":"conversation.item.input_audio_transcription.failed","item_id":"u","error":{"code":"x"}}`,
		`{"type":"error","error":{"code":"conversation_already_has_active_response","event_id":"reply_1"}}`,
		`{"type":"session.updated","session":{"audio":{"output":{"format":{"type":"audio/pcmu"}}}}}`,
		`{"type":"response.audio.delta","delta":5}`, `null`, `[]`, `"`,
	} {
		f.Add([]byte(s))
	}
	server := sockettest.Loopback(f, func(p *sockettest.Peer) {
		p.Accept()
		p.Wait()
	})
	sock, err := socket.Dial(context.Background(), socket.Config{Name: "openai", URL: server.URL})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = sock.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, said []byte) {
		up, err := newUplink(DefaultConfig(), live.LiveConfig{})
		if err != nil {
			t.Fatal(err)
		}
		k := &talk{cfg: DefaultConfig(), sock: sock, clean: socket.Config{}.Clean, names: newNames(nil), up: up,
			open: map[string]*reply{}, parts: map[string]*part{}}
		if err := k.want(&wish{}); err != nil {
			t.Fatal(err)
		}
		for _, line := range bytes.Split(said, []byte("\n")) {
			e, err := parse(line)
			if err != nil {
				continue
			}
			if k.apply(e) != nil {
				break
			}
			for _, m := range k.out {
				if len(m.Audio)%2 != 0 {
					t.Fatalf("%d bytes of audio", len(m.Audio))
				}
				for _, c := range m.ToolCalls {
					if c.ID == "" || c.Args == nil {
						t.Fatalf("a call %+v", c)
					}
				}
			}
			if len(k.out) > 2*maxItems {
				t.Fatalf("%d messages of one event", len(k.out))
			}
			k.out = nil
			if len(k.items) > maxItems || len(k.replies) > maxReplies || len(k.parts) > maxParts || len(k.userDone) > maxItems || len(k.waiting) > maxWaiting {
				t.Fatal("more is remembered than should be")
			}
		}
	})
}
