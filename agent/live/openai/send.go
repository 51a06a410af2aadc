package openai

import (
	"context"
	"errors"
	"slices"
	"time"

	"parley/agent/live"
)

// SendAudio implements live.LiveProvider.
func (p *Provider) SendAudio(ctx context.Context, pcm []byte) error {
	return p.slot.With(ctx, func(t *talk) error {
		raw, err := t.up.convert(pcm)
		if err != nil || len(raw) == 0 {
			return err
		}
		if t.up.gated && !t.up.open {
			t.up.lead.Keep(raw)
			return t.sock.Err()
		}
		return t.append(raw)
	})
}

// append sends audio.
func (t *talk) append(raw []byte) error {
	t.up.sent += len(raw)
	return t.sock.Post(appendAudio(t.sock.Buffer(), raw))
}

// EndAudioStream implements live.LiveProvider. The service has no word for it: silence
// lets its voice detection come to an end.
func (p *Provider) EndAudioStream(ctx context.Context) error {
	return p.slot.With(ctx, func(t *talk) error {
		if t.up.gated {
			return nil
		}
		length := max(time.Second, t.cfg.TurnDetection.Silence+200*time.Millisecond)
		return t.append(t.up.silence(t.up.bytes(length)))
	})
}

// ActivityStart implements live.TurnTaker: what the service has of the caller's audio
// goes, and the turn begins with the newest that it does not have yet.
func (p *Provider) ActivityStart(ctx context.Context) error {
	return p.slot.With(ctx, func(t *talk) error {
		if !t.up.gated {
			return errNotLocal
		}
		if t.up.open {
			return nil
		}
		if err := t.post(object{"type": "input_audio_buffer.clear", "event_id": t.event("clear")}); err != nil {
			return err
		}
		t.up.open, t.up.sent = true, 0
		if lead := t.up.lead.Take(); len(lead) > 0 {
			return t.append(lead)
		}
		return nil
	})
}

var errNotLocal = errors.New("openai: the service takes the turns of this session")

// leastTurn is the shortest turn that the service takes.
const leastTurn = 100 * time.Millisecond

// ActivityEnd implements live.TurnTaker: the turn is over, and the model is to answer.
func (p *Provider) ActivityEnd(ctx context.Context) error {
	return p.slot.With(ctx, func(t *talk) error {
		if !t.up.gated {
			return errNotLocal
		}
		if !t.up.open {
			return nil
		}
		if missing := t.up.bytes(leastTurn) - t.up.sent; missing > 0 {
			if err := t.append(t.up.silence(missing)); err != nil {
				return err
			}
		}
		t.up.open = false
		if err := t.post(object{"type": "input_audio_buffer.commit", "event_id": t.event("commit")}); err != nil {
			return err
		}
		// One reply answers the turn and the results of tools that came during it.
		t.waiting = slices.DeleteFunc(t.waiting, func(w *wish) bool { return w.covered })
		return t.want(&wish{})
	})
}

// SendText implements live.LiveProvider.
func (p *Provider) SendText(ctx context.Context, text string) error {
	return p.slot.With(ctx, func(t *talk) error {
		err := t.post(create(t.event("text"), object{
			"type": "message", "role": "user", "content": []object{{"type": "input_text", "text": text}},
		}))
		if err != nil {
			return err
		}
		return t.want(&wish{})
	})
}

// Instruct implements live.Instructor. The instructions of the session stay in force.
func (p *Provider) Instruct(ctx context.Context, instructions string) error {
	return p.slot.With(ctx, func(t *talk) error {
		if s := t.session.Instructions; s != "" {
			instructions = s + "\n\n" + instructions
		}
		return t.want(&wish{instructions: instructions})
	})
}

// SendToolResponse implements live.LiveProvider.
func (p *Provider) SendToolResponse(ctx context.Context, responses ...live.ToolResponse) error {
	return p.slot.With(ctx, func(t *talk) error {
		for _, r := range responses {
			if err := t.answer(r); err != nil {
				return err
			}
			p.mu.Lock()
			delete(p.open, r.ID)
			p.mu.Unlock()
		}
		return nil
	})
}

// Truncate implements live.Truncator.
func (p *Provider) Truncate(ctx context.Context, itemID string, played time.Duration) error {
	return p.slot.With(ctx, func(t *talk) error { return t.truncate(itemID, played) })
}
