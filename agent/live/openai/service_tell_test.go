package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"parley/agent/live"
	"parley/agent/live/livetest"
)

// Tell sends what m says.
func (c *conn) Tell(m live.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(m.CancelledCalls) > 0 || m.GoAway != nil {
		return livetest.ErrCannot
	}
	if m.SpeechStarted {
		c.send(object{"type": "input_audio_buffer.speech_started", "audio_start_ms": 1000, "item_id": "user_1"})
	}
	if m.SpeechStopped {
		c.send(object{"type": "input_audio_buffer.speech_stopped", "audio_end_ms": 2000, "item_id": "user_1"})
		c.send(object{"type": "input_audio_buffer.committed", "previous_item_id": nil, "item_id": "user_1"})
	}
	if m.Interrupted {
		c.end("cancelled", "turn_detected")
	}
	c.tellUser(m.User)
	if m.Agent != (live.Transcript{}) || len(m.Audio) > 0 {
		c.speak(m)
	}
	for _, call := range m.ToolCalls {
		c.callTool(call)
	}
	if m.Warning != nil {
		c.send(object{"type": "error", "error": object{"type": "invalid_request_error", "code": "item_unknown", "message": m.Warning.Error(), "param": nil, "event_id": "nobody"}})
	}
	if m.TurnDone {
		c.begin()
		c.end("completed", "")
	}
	return nil
}

func (c *conn) tellUser(t live.Transcript) {
	if t == (live.Transcript{}) {
		return
	}
	if c.user == "" {
		c.serial++
		c.user = fmt.Sprintf("user_%d", c.serial)
	}
	if t.Delta != "" {
		c.send(object{"type": "conversation.item.input_audio_transcription.delta", "item_id": c.user, "content_index": 0, "delta": t.Delta})
	}
	if t.Done {
		c.send(object{"type": "conversation.item.input_audio_transcription.completed", "item_id": c.user, "content_index": 0, "transcript": t.Text,
			"usage": object{"type": "duration", "seconds": 1}})
		c.user = ""
	}
}

// begin begins a reply unless there is one.
func (c *conn) begin() {
	if c.active != "" {
		return
	}
	c.serial++
	c.active, c.item, c.done = fmt.Sprintf("resp_%d", c.serial), "", nil
	c.send(object{"type": "response.created", "response": object{"id": c.active, "object": "realtime.response", "status": "in_progress", "output": []any{}, "usage": nil, "status_details": nil}})
}

// at are the members that say where something belongs.
func (c *conn) at(kind string, more object) object {
	o := object{"type": kind, "response_id": c.active, "item_id": c.item, "output_index": len(c.done), "content_index": 0}
	for k, v := range more {
		o[k] = v
	}
	return o
}

// speak sends audio and words of a reply.
func (c *conn) speak(m live.Message) {
	c.begin()
	id := m.ItemID
	if id == "" {
		id = c.item
	}
	if id == "" {
		id = "item_of_" + c.active
	}
	if id != c.item {
		c.item = id
		c.done = append(c.done, id)
		c.items[id] = 0
		c.send(object{"type": "response.output_item.added", "response_id": c.active, "output_index": 0, "item": object{"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []any{}}})
		c.send(c.at("response.content_part.added", object{"part": object{"type": "audio", "transcript": ""}}))
	}
	if m.Agent.Delta != "" {
		c.send(c.at("response.output_audio_transcript.delta", object{"delta": m.Agent.Delta}))
	}
	if len(m.Audio) > 0 {
		c.items[id] += len(m.Audio)
		c.send(c.at("response.output_audio.delta", object{"delta": base64.StdEncoding.EncodeToString(m.Audio)}))
	}
	if m.Agent.Done {
		c.send(c.at("response.output_audio.done", nil))
		c.send(c.at("response.output_audio_transcript.done", object{"transcript": m.Agent.Text}))
		c.send(c.at("response.content_part.done", object{"part": object{"type": "audio", "transcript": m.Agent.Text}}))
	}
}

// callTool sends a call, its arguments in pieces.
func (c *conn) callTool(call live.ToolCall) {
	c.begin()
	c.calls[call.ID] = true
	b, _ := json.Marshal(call.Args)
	arguments := string(b)
	of := object{"item_id": "fc_" + call.ID, "call_id": call.ID}
	item := func(status, arguments string) object {
		return object{"id": "fc_" + call.ID, "type": "function_call", "status": status, "name": call.Name, "call_id": call.ID, "arguments": arguments}
	}
	c.send(object{"type": "response.output_item.added", "response_id": c.active, "output_index": 0, "item": item("in_progress", "")})
	for _, piece := range []string{arguments[:len(arguments)/2], arguments[len(arguments)/2:]} {
		of["delta"] = piece
		c.send(c.at("response.function_call_arguments.delta", of))
	}
	delete(of, "delta")
	of["arguments"] = arguments
	c.send(c.at("response.function_call_arguments.done", of))
	c.send(object{"type": "response.output_item.done", "response_id": c.active, "output_index": 0, "item": item("completed", arguments)})
}

// end ends the reply under way.
func (c *conn) end(status, reason string) {
	if c.active == "" {
		return
	}
	output := []any{}
	for _, id := range c.done {
		output = append(output, object{"id": id, "type": "message", "status": status, "role": "assistant"})
	}
	details := object{"type": status}
	if reason != "" {
		details["reason"] = reason
	}
	c.send(object{"type": "response.done", "response": object{
		"id": c.active, "object": "realtime.response", "status": status, "status_details": details, "output": output,
		"usage": object{"total_tokens": 30, "input_tokens": 20, "output_tokens": 10},
	}})
	c.active, c.item = "", ""
}
