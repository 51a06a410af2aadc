package gemini

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/genai"

	"parley/agent/live"
	"parley/agent/tool"
)

// realtime is input that is sent as it happens.
type realtime struct {
	Input *genai.LiveSendRealtimeInputParameters `json:"realtimeInput"`
}

func (t *talk) realtime(in genai.LiveSendRealtimeInputParameters) error { return t.post(realtime{&in}) }

// SendAudio implements live.LiveProvider.
func (p *Provider) SendAudio(ctx context.Context, pcm []byte) error {
	return p.slot.With(ctx, func(t *talk) error {
		switch {
		case len(pcm)%2 != 0:
			return fmt.Errorf("gemini: %d bytes are no whole samples of 16 bits", len(pcm))
		case len(pcm) == 0:
			return nil
		case t.gated && !t.speaking:
			t.lead.Keep(pcm)
			return t.sock.Err()
		}
		return t.audio(pcm)
	})
}

func (t *talk) audio(pcm []byte) error { return t.sock.Post(appendAudio(t.sock.Buffer(), pcm)) }

// appendAudio appends the message that carries pcm to dst. By hand, because it is done
// 50 times a second for each call.
func appendAudio(dst, pcm []byte) []byte {
	dst = append(dst, `{"realtimeInput":{"audio":{"data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, pcm)
	return append(dst, `","mimeType":"audio/pcm;rate=16000"}}}`...)
}

// EndAudioStream implements live.LiveProvider.
func (p *Provider) EndAudioStream(ctx context.Context) error {
	return p.slot.With(ctx, func(t *talk) error {
		if t.gated {
			return nil // the service wants it with its own detection only
		}
		return t.realtime(genai.LiveSendRealtimeInputParameters{AudioStreamEnd: true})
	})
}

var errNotLocal = errors.New("gemini: the service takes the turns of this session")

// ActivityStart implements live.TurnTaker. The turn begins with the newest audio that
// the service does not have yet, and the service stops its reply.
func (p *Provider) ActivityStart(ctx context.Context) error {
	return p.slot.With(ctx, func(t *talk) error {
		if !t.gated {
			return errNotLocal
		}
		if t.speaking {
			return nil
		}
		if err := t.realtime(genai.LiveSendRealtimeInputParameters{ActivityStart: &genai.ActivityStart{}}); err != nil {
			return err
		}
		t.speaking = true
		if lead := t.lead.Take(); len(lead) > 0 {
			return t.audio(lead)
		}
		return nil
	})
}

// ActivityEnd implements live.TurnTaker: the turn is over, and the model is to answer.
func (p *Provider) ActivityEnd(ctx context.Context) error {
	return p.slot.With(ctx, func(t *talk) error {
		if !t.gated {
			return errNotLocal
		}
		if !t.speaking {
			return nil
		}
		t.speaking = false
		return t.realtime(genai.LiveSendRealtimeInputParameters{ActivityEnd: &genai.ActivityEnd{}})
	})
}

// SendText implements live.LiveProvider.
func (p *Provider) SendText(ctx context.Context, text string) error {
	return p.slot.With(ctx, func(t *talk) error { return t.text(text) })
}

// text is a turn of its own where the turns are ours, unless the caller is speaking.
func (t *talk) text(text string) error {
	alone := t.gated && !t.speaking
	if alone {
		if err := t.realtime(genai.LiveSendRealtimeInputParameters{ActivityStart: &genai.ActivityStart{}}); err != nil {
			return err
		}
	}
	if err := t.realtime(genai.LiveSendRealtimeInputParameters{Text: text}); err != nil || !alone {
		return err
	}
	return t.realtime(genai.LiveSendRealtimeInputParameters{ActivityEnd: &genai.ActivityEnd{}})
}

// Instruct implements live.Instructor. The service has no word for it: the model is
// told in brackets.
func (p *Provider) Instruct(ctx context.Context, instructions string) error {
	return p.slot.With(ctx, func(t *talk) error {
		return t.text("[An instruction for you, which the caller has not said: " + instructions + "]")
	})
}

// SendToolResponse implements live.LiveProvider.
func (p *Provider) SendToolResponse(ctx context.Context, responses ...live.ToolResponse) error {
	return p.slot.With(ctx, func(t *talk) error {
		t.kept.mu.Lock()
		defer t.kept.mu.Unlock()
		var now []*genai.FunctionResponse
		for _, r := range responses {
			call, ours := t.open[r.ID]
			known, old := t.before[r.ID]
			switch {
			case ours:
				r.Name = call.Name
				f := response(r, t.names, t.late[call.Name])
				if t.nameless[r.ID] {
					f.ID = ""
				}
				now = append(now, f)
			case old:
				if err := t.answerOld(r, known); err != nil {
					return err
				}
			default:
				return fmt.Errorf("gemini: no call with the id %.64q waits for an answer", r.ID)
			}
			delete(t.open, r.ID)
			delete(t.before, r.ID)
			delete(t.nameless, r.ID)
			delete(t.kept.open, r.ID)
		}
		if len(now) == 0 {
			return nil
		}
		return t.post(&genai.LiveClientMessage{ToolResponse: &genai.LiveClientToolResponse{FunctionResponses: now}})
	})
}

// answerOld answers a call of a connection before. The service does not wait for that
// any more, and takes it for a text; what is to be silent it only adds to what was
// said. known: the conversation has the call.
func (t *talk) answerOld(r live.ToolResponse, known bool) error {
	if r.Scheduling != tool.ToolResponseSchedulingSilent {
		result, err := json.Marshal(response(r, t.names, false).Response)
		if err != nil {
			return fmt.Errorf("gemini: %w", err)
		}
		return t.text("[The result of your call of the tool " + t.names.theirs(r.Name) + ", id " + r.ID + ", which the caller has not said: " + string(result) + "]")
	}
	var turns []*genai.Content
	if !known {
		call := t.kept.open[r.ID]
		turns = history([]live.Said{{Call: &call}}, t.names)
	}
	turns = append(turns, history([]live.Said{{Response: &r}}, t.names)...)
	return t.post(&genai.LiveClientMessage{ClientContent: &genai.LiveClientContent{Turns: turns}})
}
