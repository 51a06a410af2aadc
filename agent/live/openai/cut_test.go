package openai_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"parley/agent/live"
	"parley/agent/live/socket/sockettest"
)

// sound is a delta of audio, ms long.
func sound(reply, item string, ms int) string {
	pcm := make([]byte, ms*48)
	for i := range pcm {
		pcm[i] = byte(i % 7 * (i % 2))
	}
	return fmt.Sprintf(`{"type":"response.output_audio.delta","response_id":%q,"item_id":%q,"delta":%q}`, reply, item, base64.StdEncoding.EncodeToString(pcm))
}

func words(reply, item, text string) string {
	return fmt.Sprintf(`{"type":"response.output_audio_transcript.delta","response_id":%q,"item_id":%q,"delta":%q}`, reply, item, text)
}

func cut(item string, ms int) string {
	return fmt.Sprintf(`{"type":"conversation.item.truncate","item_id":%q,"content_index":0,"audio_end_ms":%d}`, item, ms)
}

const (
	cancel  = `{"type":"response.cancel","response_id":"r1"}`
	message = `{"id":"i1","type":"message","status":"incomplete"}`
)

func forgotten(item string) string {
	return `{"type":"conversation.item.delete","item_id":"` + item + `"}`
}

// TestTruncate is BR-137: nothing is cut that was not heard, nothing is kept that was
// not, and the service is asked for nothing that it would refuse.
func TestTruncate(t *testing.T) {
	type step struct {
		item   string
		played time.Duration
	}
	for name, c := range map[string]struct {
		before []string // what the service has said
		cuts   []step
		want   []string // what it is told
		after  []string // what it says then
		then   []string // what it is told then
		told   int      // messages after the cut
	}{
		"in the middle of a long reply": {
			before: []string{created("r1"), words("r1", "i1", "One "), sound("r1", "i1", 3000), sound("r1", "i1", 3000)},
			cuts:   []step{{"i1", 1200 * time.Millisecond}},
			want:   []string{cancel, cut("i1", 1200)},
			after:  []string{sound("r1", "i1", 100), words("r1", "i1", "two"), done("r1", "cancelled", "client_cancelled", message)},
			told:   1, // its end
		},
		"more than was received": {
			before: []string{created("r1"), sound("r1", "i1", 500)},
			cuts:   []step{{"i1", time.Minute}},
			want:   []string{cancel, cut("i1", 500)},
		},
		"a fraction of a millisecond": {
			before: []string{created("r1"), sound("r1", "i1", 500)},
			cuts:   []step{{"i1", 123*time.Millisecond + 999*time.Microsecond}},
			want:   []string{cancel, cut("i1", 123)},
		},
		"nothing was heard": {
			before: []string{created("r1"), sound("r1", "i1", 500)},
			cuts:   []step{{"i1", 0}},
			want:   []string{cancel, forgotten("i1")},
		},
		"less than nothing": {
			before: []string{created("r1"), sound("r1", "i1", 500)},
			cuts:   []step{{"i1", -time.Second}},
			want:   []string{cancel, forgotten("i1")},
		},
		"the service has ended it, the caller hears it still": {
			before: []string{created("r1"), sound("r1", "i1", 500), done("r1", "completed", "", message)},
			cuts:   []step{{"i1", 100 * time.Millisecond}},
			want:   []string{cut("i1", 100)},
		},
		"twice": {
			before: []string{created("r1"), sound("r1", "i1", 500)},
			cuts:   []step{{"i1", 100 * time.Millisecond}, {"i1", 0}},
			want:   []string{cancel, cut("i1", 100)},
		},
		"nothing is playing": {
			cuts: []step{{"", 0}, {"i9", time.Second}},
		},
		"an item that nobody knows, while another plays": {
			before: []string{created("r1"), sound("r1", "i1", 500)},
			cuts:   []step{{"i9", time.Second}},
		},
		"before the first sound": {
			before: []string{created("r1")},
			cuts:   []step{{"", 0}},
			want:   []string{cancel},
			after:  []string{words("r1", "i1", "One"), sound("r1", "i1", 100), done("r1", "cancelled", "client_cancelled", message)},
			then:   []string{forgotten("i1")},
			told:   1,
		},
		"before the first sound, after the first words": {
			before: []string{created("r1"), words("r1", "i1", "One")},
			cuts:   []step{{"", 0}},
			want:   []string{cancel},
			after:  []string{done("r1", "cancelled", "client_cancelled", message)},
			then:   []string{forgotten("i1")},
			told:   1,
		},
		"the first of two items": {
			before: []string{created("r1"), sound("r1", "i1", 500), sound("r1", "i2", 500)},
			cuts:   []step{{"i1", 100 * time.Millisecond}},
			want:   []string{cancel, forgotten("i2"), cut("i1", 100)},
			after:  []string{done("r1", "cancelled", "client_cancelled", message+`,{"id":"i2","type":"message"},{"id":"i3","type":"message"},{"id":"f","type":"function_call","status":"completed"}`)},
			then:   []string{forgotten("i3")},
			told:   2, // a warning of the call without an id
		},
		"the second of two": {
			before: []string{created("r1"), sound("r1", "i1", 500), sound("r1", "i2", 500)},
			cuts:   []step{{"i2", 100 * time.Millisecond}},
			want:   []string{cancel, cut("i2", 100)},
			after:  []string{done("r1", "cancelled", "client_cancelled", message+`,{"id":"i2","type":"message"}`)},
			told:   1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, live.LiveConfig{LocalCuts: true}, func(p *sockettest.Peer) {
				p.Send(c.before...)
				p.Expect(c.want...)
				p.Send(c.after...)
				p.Expect(c.then...)
			}, func(r *rig) {
				r.drain()
				for _, s := range c.cuts {
					r.ok(r.Truncate(r.Context(), s.item, s.played))
				}
				rest := r.drain()
				for _, m := range rest {
					if len(m.Audio) > 0 || m.Agent != (live.Transcript{}) || m.Interrupted {
						r.Errorf("after the cut: %+v", m)
					}
				}
				if len(rest) != c.told {
					r.Errorf("%d messages, want %d", len(rest), c.told)
				}
			})
		})
	}
}

// TestCutBeforeItBegan: a reply that was asked for and is not wanted any more.
func TestCutBeforeItBegan(t *testing.T) {
	bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
		p.Expect(`{"type":"response.create","response":{"instructions":"Greet."}}`, `{"type":"response.cancel"}`)
		p.Send(created("r1"), sound("r1", "i1", 100), done("r1", "cancelled", "client_cancelled", message))
		p.Expect(forgotten("i1"))
	}, func(r *rig) {
		r.ok(r.Instruct(r.Context(), "Greet."))
		r.ok(r.Truncate(r.Context(), "", 0))
		if m := r.next(); !m.TurnDone || m.Interrupted || len(m.Audio) > 0 {
			r.Errorf("%+v", m)
		}
		r.quiet()
	})
}

// TestServiceCuts: the service's own voice detection stops a reply.
func TestServiceCuts(t *testing.T) {
	bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
		p.Send(created("r1"), sound("r1", "i1", 100), `{"type":"input_audio_buffer.speech_started"}`,
			done("r1", "cancelled", "turn_detected", message), sound("r1", "i1", 100))
		p.Expect(cut("i1", 40))
	}, func(r *rig) {
		if m := r.next(); len(m.Audio) != 4800 || m.ItemID != "i1" {
			r.Errorf("%d bytes of %q", len(m.Audio), m.ItemID)
		}
		if m := r.next(); !m.SpeechStarted {
			r.Errorf("%+v", m)
		}
		if m := r.next(); !m.Interrupted || !m.TurnDone {
			r.Errorf("%+v", m)
		}
		r.quiet()
		r.ok(r.Truncate(r.Context(), "i1", 40*time.Millisecond))
	})
}
