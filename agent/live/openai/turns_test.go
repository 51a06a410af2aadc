package openai_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"

	"parley/agent/live"
	"parley/agent/live/socket/sockettest"
)

// ms is that much of G.711, every byte of it b.
func ms(n int, b byte) []byte { return bytes.Repeat([]byte{b}, 8*n) }

// appended is audio as the service sees it.
func appended(raw []byte) string {
	return fmt.Sprintf(`{"type":"input_audio_buffer.append","audio":%q}`, base64.StdEncoding.EncodeToString(raw))
}

const (
	clearBuffer = `{"type":"input_audio_buffer.clear"}`
	commit      = `{"type":"input_audio_buffer.commit"}`
)

// TestLocalTurns: the service hears the caller's turns, from a little before they were
// noticed, and nothing else.
func TestLocalTurns(t *testing.T) {
	bubble(t, live.LiveConfig{LocalTurns: true, Wire: live.PCMU}, func(p *sockettest.Peer) {
		lead := append(append(ms(100, 1), ms(200, 2)...), ms(100, 3)...)
		p.Expect(clearBuffer, appended(lead), appended(ms(20, 4)), commit, ask)
		p.Send(created("r1"))
		// The next turn begins while the reply is under way; it is short.
		p.Expect(clearBuffer, appended(ms(20, 6)), appended(ms(20, 7)), appended(ms(60, 0xff)), commit)
		p.Send(done("r1", "completed", "", ""))
		p.Expect(ask)
		p.Send(created("r2"))
		p.Expect(clearBuffer, appended(ms(100, 0xff)), commit)
		p.Send(done("r2", "completed", "", ""))
		p.Expect(ask)
	}, func(r *rig) {
		ctx := r.Context()
		r.ok(r.SendAudio(ctx, ms(300, 1)))
		r.ok(r.SendAudio(ctx, ms(200, 2)))
		r.ok(r.SendAudio(ctx, ms(100, 3)))
		r.ok(r.ActivityEnd(ctx)) // of nothing
		r.ok(r.ActivityStart(ctx))
		r.ok(r.ActivityStart(ctx)) // once more
		r.ok(r.SendAudio(ctx, ms(20, 4)))
		r.ok(r.SendAudio(ctx, ms(0, 4)))
		// Longer than 100 ms with what led to it: nothing is added.
		r.ok(r.ActivityEnd(ctx))
		r.drain()
		r.ok(r.SendAudio(ctx, ms(20, 6)))
		r.ok(r.ActivityStart(ctx))
		r.ok(r.SendAudio(ctx, ms(20, 7)))
		r.ok(r.EndAudioStream(ctx)) // means nothing here
		r.ok(r.ActivityEnd(ctx))
		r.drain()
		r.ok(r.ActivityStart(ctx))
		r.ok(r.ActivityEnd(ctx))
		r.drain()
	})
}

// TestLongLead: one piece that is longer than what is kept.
func TestLongLead(t *testing.T) {
	bubble(t, live.LiveConfig{LocalTurns: true, Wire: live.PCMA}, func(p *sockettest.Peer) {
		p.Expect(clearBuffer, appended(ms(400, 2)))
	}, func(r *rig) {
		r.ok(r.SendAudio(r.Context(), append(ms(900, 1), ms(400, 2)...)))
		r.ok(r.ActivityStart(r.Context()))
	})
}

// TestToolAnsweredDuringATurn: the result waits for the end of the caller's turn, and
// one reply answers both.
func TestToolAnsweredDuringATurn(t *testing.T) {
	bubble(t, live.LiveConfig{LocalTurns: true, Wire: live.PCMA}, func(p *sockettest.Peer) {
		p.Send(append(append([]string{created("r1")}, call("r1", "c1", "book", `"{}"`)...), done("r1", "completed", "", ""))...)
		p.Expect(clearBuffer, answered("c1"), appended(ms(100, 0xd5)), commit, ask)
		p.Send(created("r2"), done("r2", "completed", "", ""))
	}, func(r *rig) {
		r.drain()
		r.ok(r.ActivityStart(r.Context()))
		r.ok(r.SendToolResponse(r.Context(), answer("c1")))
		r.drain()
		r.ok(r.ActivityEnd(r.Context()))
		r.drain()
	})
}

// TestServiceTurns: without turns of ours audio goes out as it comes.
func TestServiceTurns(t *testing.T) {
	bubble(t, live.LiveConfig{Wire: live.PCMU}, func(p *sockettest.Peer) {
		p.Expect(appended(ms(20, 1)), appended(ms(20, 2)), appended(ms(1000, 0xff)))
	}, func(r *rig) {
		ctx := r.Context()
		r.ok(r.SendAudio(ctx, ms(20, 1)))
		r.ok(r.SendAudio(ctx, ms(20, 2)))
		r.ok(r.EndAudioStream(ctx)) // silence, so that the service notices
		if r.ActivityStart(ctx) == nil || r.ActivityEnd(ctx) == nil {
			r.Error("turns of ours in a session without")
		}
	})
}

func TestHalfASample(t *testing.T) {
	bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {}, func(r *rig) {
		if err := r.SendAudio(r.Context(), make([]byte, 641)); err == nil {
			r.Error("641 bytes are taken for samples of 16 bits")
		}
	})
}
