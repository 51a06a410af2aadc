package openai

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"parley/agent/live"
	"parley/agent/tool"
)

// apply takes an event of the service. Its error ends the connection.
func (t *talk) apply(e event) error {
	switch e.Type {
	case "input_audio_buffer.speech_started":
		t.speaking = true
		t.tell(live.Message{SpeechStarted: true})
	case "input_audio_buffer.speech_stopped":
		t.speaking = false
		t.tell(live.Message{SpeechStopped: true})
	case "conversation.item.input_audio_transcription.delta":
		t.userDelta(e.ItemID, e.Delta)
	case "conversation.item.input_audio_transcription.completed":
		t.userSaid(e.ItemID, e.Transcript)
	case "conversation.item.input_audio_transcription.failed":
		t.userSaid(e.ItemID, "")
		t.warn(e.Error.err(e.Error.kind(), t.clean))
	case "response.created":
		t.began(e.Response.ID)
	case "response.output_item.added":
		t.callNamed(e.Item)
	case "response.output_audio.delta":
		return t.sound(e)
	case "response.output_audio_transcript.delta", "response.output_text.delta":
		t.agentDelta(e)
	case "response.output_audio_transcript.done":
		t.agentSaid(e, e.Transcript)
	case "response.output_text.done":
		t.agentSaid(e, e.Text)
	case "response.function_call_arguments.delta":
		t.callDelta(e)
	case "response.function_call_arguments.done":
		t.callDone(e.ResponseID, item{ID: e.ItemID, Name: e.Name, CallID: e.CallID, Arguments: e.Arguments}, false)
	case "response.output_item.done":
		if e.Item.Type == "function_call" {
			t.callDone(e.ResponseID, e.Item, true)
		}
	case "response.done":
		t.ended(e.Response)
	case "session.updated":
		var s confirmed
		if json.Unmarshal(e.Session, &s) == nil {
			return s.check(t.session)
		}
	case "error":
		return t.failed(e.Error)
	}
	return nil
}

// began: the service makes a reply, ours or one of its own.
func (t *talk) began(id string) {
	t.active, t.asked = or(id, unknownReply), nil
	t.replies = slices.DeleteFunc(t.replies, func(r *reply) bool { return r.id == t.active && r.done })
	r := t.reply(t.active)
	r.cut, t.cutNext = r.cut || t.cutNext, false
	t.waiting = slices.DeleteFunc(t.waiting, func(w *wish) bool { return w.covered })
}

// sound is audio of a reply.
func (t *talk) sound(e event) error {
	h := t.item(e.ItemID, e.ResponseID)
	if h.cut || h.reply.cut {
		return nil
	}
	audio, err := base64.StdEncoding.DecodeString(e.Delta)
	if err != nil {
		t.warn(errors.New("openai: audio that is no base64"))
		return nil
	}
	if err := t.guard.check(audio); err != nil {
		return err
	}
	if !t.up.g711() {
		// A sample may be parted between two messages.
		audio = append(h.half, audio...)
		whole := len(audio) &^ 1
		h.half = slices.Clone(audio[whole:])
		audio = audio[:whole]
	}
	if len(audio) == 0 {
		return nil
	}
	h.bytes += len(audio)
	t.tell(live.Message{Audio: audio, ItemID: e.ItemID})
	return nil
}

// agentDelta is part of what a reply says.
func (t *talk) agentDelta(e event) {
	h := t.item(e.ItemID, e.ResponseID)
	if h.cut || h.reply.cut || h.said || e.Delta == "" {
		return
	}
	h.words = true
	t.tell(live.Message{Agent: live.Transcript{Delta: e.Delta}, ItemID: e.ItemID})
}

// agentSaid is all of it. Services say so more than once; we do not.
func (t *talk) agentSaid(e event, text string) {
	h := t.item(e.ItemID, e.ResponseID)
	if h.cut || h.reply.cut || h.said {
		return
	}
	h.said = true
	if text == "" && !h.words {
		return
	}
	t.tell(live.Message{Agent: live.Transcript{Text: text, Done: true}, ItemID: e.ItemID})
}

// userDelta is part of what the caller said. Two of their turns may be written down
// at the same time; the later one is told when it is complete.
func (t *talk) userDelta(id, delta string) {
	if delta == "" || slices.Contains(t.userDone, id) || t.user != "" && t.user != id {
		return
	}
	t.user = id
	t.tell(live.Message{User: live.Transcript{Delta: delta}})
}

// userSaid is all of it, empty when it could not be written down.
func (t *talk) userSaid(id, text string) {
	if id != "" && slices.Contains(t.userDone, id) {
		return
	}
	if len(t.userDone) >= maxItems {
		t.userDone = slices.Delete(t.userDone, 0, 1)
	}
	t.userDone = append(t.userDone, id)
	gathered := t.user == id && id != ""
	if gathered {
		t.user = ""
	}
	if text == "" && !gathered {
		return
	}
	t.tell(live.Message{User: live.Transcript{Text: text, Done: true}})
}

// partOf is the call of that item, made when it is new.
func (t *talk) partOf(itemID string) *part {
	if p, ok := t.parts[itemID]; ok {
		return p
	}
	if len(t.parts) >= maxParts {
		clear(t.parts) // a service that never ends its calls; those that are still good say all again
	}
	p := &part{}
	t.parts[itemID] = p
	return p
}

// callNamed: a call begins.
func (t *talk) callNamed(i item) {
	if i.Type == "function_call" {
		p := t.partOf(i.ID)
		p.name, p.callID = i.Name, i.CallID
	}
}

// callDelta is part of a call's arguments.
func (t *talk) callDelta(e event) {
	p := t.partOf(e.ItemID)
	if len(p.arguments) <= maxArguments {
		p.arguments = append(p.arguments, e.Delta...)
	}
}

// callDone is a whole call: by its arguments, and once more as an item, final, which
// also says whether it was cut off.
func (t *talk) callDone(replyID string, i item, final bool) {
	p := t.partOf(i.ID)
	if p.told {
		return
	}
	p.name, p.callID = or(i.Name, p.name), or(i.CallID, p.callID)
	arguments := []byte(i.Arguments)
	if len(arguments) == 0 {
		arguments = p.arguments
	}
	args, err := parseArguments(arguments)
	broken := p.callID == "" || p.name == "" || err != nil
	if broken && !final {
		return // the item tells more
	}
	p.told = true
	p.arguments = nil
	if p.callID == "" {
		t.warn(errors.New("openai: a call of a tool without an id"))
		return
	}
	if t.open[p.callID] != nil {
		return
	}
	r := t.reply(replyID)
	r.calls++
	t.open[p.callID] = r
	if !broken && i.Status != "incomplete" {
		t.tell(live.Message{ToolCalls: []live.ToolCall{{ID: p.callID, Name: t.names.ours(p.name), Args: args}}})
		return
	}
	// Nobody can run this, but the model must not wait for it.
	why, scheduling := "the arguments are no JSON object", tool.ToolResponseSchedulingUnspecified
	if i.Status == "incomplete" {
		why, scheduling = "the call was cut off", tool.ToolResponseSchedulingSilent
	} else {
		t.warn(fmt.Errorf("openai: a call of %.64q whose arguments are no JSON object", p.name))
	}
	if err := t.answer(live.ToolResponse{ID: p.callID, Response: map[string]any{"error": why}, Scheduling: scheduling}); err != nil {
		t.warn(err)
	}
}

// parseArguments reads the arguments of a call. None are an empty object.
func parseArguments(b []byte) (map[string]any, error) {
	if len(b) == 0 {
		return map[string]any{}, nil
	}
	if len(b) > maxArguments {
		return nil, fmt.Errorf("openai: %d bytes of arguments", len(b))
	}
	return tool.Object(b)
}

// ended: the service has made its reply, or given it up.
func (t *talk) ended(done response) {
	r := t.reply(or(done.ID, unknownReply))
	if r.done {
		return
	}
	ours := r.cut
	for _, i := range done.Output { // for services that say it only here
		if i.Type == "function_call" {
			t.callDone(r.id, i, true)
		}
	}
	r.done = true
	t.active, t.asked = "", nil
	m := live.Message{TurnDone: true, InputTokens: done.Usage.InputTokens, OutputTokens: done.Usage.OutputTokens}
	for _, h := range t.items {
		if h.reply == r && h.words && !h.said && !h.cut && !r.cut {
			h.said = true
			t.tell(live.Message{Agent: live.Transcript{Done: true}, ItemID: h.id})
		}
	}
	switch done.Status {
	case "cancelled":
		m.Interrupted = !r.cut || r.interrupt
		r.cut = true
	case "failed":
		f := done.StatusDetails.Error
		kind := f.kind()
		if kind == nil {
			kind = live.ErrBusy
		}
		m.Warning = f.err(kind, t.clean)
	case "incomplete":
		m.Warning = fmt.Errorf("openai: a reply was cut short by the service: %s", t.clean(done.StatusDetails.Reason))
	}
	if ours {
		t.forget(done)
	}
	t.tell(m)
	if err := t.goOn(r); err != nil {
		t.warn(err)
	}
	t.next()
}

// forget takes what a reply that we cut has said besides, unheard, out of the
// conversation.
func (t *talk) forget(done response) {
	for _, i := range done.Output {
		if i.Type != "message" || i.ID == "" {
			continue
		}
		if h := t.known(i.ID); h != nil && (h.cut || h.bytes > 0) {
			continue
		}
		if err := t.forgetItem(i.ID); err != nil {
			t.warn(err)
		}
	}
}

// failed is an error that the service tells of. Most end nothing.
func (t *talk) failed(f failure) error {
	switch f.Code {
	case "response_cancel_not_active":
		return nil // it had ended by itself
	case "conversation_already_has_active_response":
		// Its own voice detection was faster. What we wanted is asked for afterwards.
		if w := t.lastWish; w != nil && (f.EventID == w.id || f.EventID == "" && t.asked == w) {
			t.asked, t.lastWish = nil, nil
			if t.active == "" {
				t.active = unknownReply
			}
			return t.want(w)
		}
		return nil
	}
	kind := f.kind()
	err := f.err(kind, t.clean)
	if errors.Is(kind, live.ErrAuth) || errors.Is(kind, live.ErrLost) {
		return err
	}
	m := live.Message{Warning: err}
	// Some services do not say which message they are about. If a reply comes all the
	// same, it is taken as one of their own; to wait for one that does not is worse.
	if t.asked != nil && (f.EventID == t.asked.id || f.EventID == "") {
		t.asked = nil
		m.TurnDone = true // there will be no reply
	}
	t.tell(m)
	t.next()
	return nil
}
