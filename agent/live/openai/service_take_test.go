package openai_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/coder/websocket"

	"parley/agent/live"
	"parley/agent/live/livetest"
)

// read takes what the provider sends until the end.
func (c *conn) read() {
	defer close(c.sent)
	for {
		m, err := c.message()
		if err != nil {
			c.mu.Lock()
			dropped := c.dropped
			c.mu.Unlock()
			if code := websocket.CloseStatus(err); code != websocket.StatusNormalClosure && !dropped {
				c.t.Errorf("the provider ended the connection by %v", err)
			}
			return
		}
		c.mu.Lock()
		s, ok := c.take(m)
		c.mu.Unlock()
		if ok {
			c.sent <- s
		}
	}
}

// take holds a message against the reference.
func (c *conn) take(m object) (livetest.Sent, bool) {
	kind, _ := m["type"].(string)
	id, _ := m["event_id"].(string)
	none := livetest.Sent{}
	switch kind {
	case "input_audio_buffer.append":
		exact(c.t, kind, m, "type audio", "event_id")
		text, _ := m["audio"].(string)
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) == 0 {
			c.t.Errorf("audio: %v, %d bytes", err, len(raw))
		}
		if c.setup.Wire != "" {
			return livetest.Sent{Kind: livetest.SentAudio, Payload: raw}, true
		}
		if len(raw)%2 != 0 {
			c.t.Errorf("%d bytes of PCM", len(raw))
		}
		pcm := make([]int16, len(raw)/2)
		for i := range pcm {
			pcm[i] = int16(binary.LittleEndian.Uint16(raw[2*i:]))
		}
		return livetest.Sent{Kind: livetest.SentAudio, PCM: pcm, Rate: 24000}, true
	case "input_audio_buffer.clear", "input_audio_buffer.commit":
		exact(c.t, kind, m, "type", "event_id")
		if !c.setup.LocalTurns {
			c.t.Errorf("%s though the service takes the turns", kind)
		}
		if kind == "input_audio_buffer.clear" {
			return livetest.Sent{Kind: livetest.SentActivityStart}, true
		}
		return livetest.Sent{Kind: livetest.SentActivityEnd}, true
	case "conversation.item.create":
		exact(c.t, kind, m, "type item", "event_id previous_item_id")
		o, _ := m["item"].(object)
		return c.created(id, o)
	case "conversation.item.truncate":
		exact(c.t, kind, m, "type item_id content_index audio_end_ms", "event_id")
		item, _ := m["item_id"].(string)
		ms, _ := m["audio_end_ms"].(float64)
		bytes, known := c.items[item]
		rate := 48.0
		if c.setup.Wire != "" {
			rate = 8
		}
		if !known || ms > float64(bytes)/rate || ms != math.Floor(ms) || ms <= 0 {
			c.t.Errorf("truncated %q at %v ms; %v bytes of it were sent", item, ms, bytes)
		}
		return livetest.Sent{Kind: livetest.SentTruncate, ItemID: item, Played: time.Duration(ms) * time.Millisecond}, true
	case "conversation.item.delete":
		exact(c.t, kind, m, "type item_id", "event_id")
		item, _ := m["item_id"].(string)
		if _, known := c.items[item]; !known {
			c.t.Errorf("deleted %q, which was never there", item)
		}
		return livetest.Sent{Kind: livetest.SentTruncate, ItemID: item}, true
	case "response.cancel":
		exact(c.t, kind, m, "type", "event_id response_id")
		if c.active == "" || m["response_id"] != c.active {
			c.t.Errorf("cancelled %v, %q is under way", m["response_id"], c.active)
		}
		c.end("cancelled", "client_cancelled")
		return none, false
	case "response.create":
		exact(c.t, kind, m, "type", "event_id response")
		if c.active != "" {
			c.t.Errorf("asked for a reply while %q is under way", c.active)
		}
		if r, ok := m["response"].(object); ok {
			exact(c.t, "response", r, "instructions", "")
			text, _ := r["instructions"].(string)
			return livetest.Sent{Kind: livetest.SentInstruct, Text: text}, true
		}
		return none, false
	}
	c.t.Errorf("a message that the API does not know: %v", m)
	return none, false
}

// created is an item that the provider adds to the conversation.
func (c *conn) created(id string, o object) (livetest.Sent, bool) {
	history := strings.HasPrefix(id, "history_")
	switch o["type"] {
	case "message":
		exact(c.t, "message", o, "type role content", "")
		role, _ := o["role"].(string)
		content, _ := o["content"].([]any)
		if len(content) != 1 {
			c.t.Errorf("content %v", content)
			return livetest.Sent{}, false
		}
		part, _ := content[0].(object)
		exact(c.t, "content", part, "type text", "")
		want := "input_text"
		if role == "assistant" {
			if want = "output_text"; c.beta {
				want = "text"
			}
		}
		if part["type"] != want {
			c.t.Errorf("content of %s: %v, want %s", role, part["type"], want)
		}
		text, _ := part["text"].(string)
		if history {
			return livetest.Sent{Kind: livetest.SentHistory, Said: live.Said{Role: role, Text: text}}, true
		}
		if role != "user" {
			c.t.Errorf("a text of %s", role)
		}
		return livetest.Sent{Kind: livetest.SentText, Text: text}, true
	case "function_call":
		exact(c.t, "function_call", o, "type call_id name arguments", "")
		call := live.ToolCall{}
		call.ID, _ = o["call_id"].(string)
		call.Name, _ = o["name"].(string)
		arguments, _ := o["arguments"].(string)
		if err := json.Unmarshal([]byte(arguments), &call.Args); err != nil {
			c.t.Errorf("arguments %q: %v", arguments, err)
		}
		c.calls[call.ID] = true
		s := livetest.Sent{Kind: livetest.SentHistory, Said: live.Said{Role: "tool", Call: &call}}
		if strings.HasSuffix(id, "_call") {
			c.call = &s
			return livetest.Sent{}, false
		}
		return s, history
	case "function_call_output":
		exact(c.t, "function_call_output", o, "type call_id output", "")
		r := live.ToolResponse{}
		r.ID, _ = o["call_id"].(string)
		output, _ := o["output"].(string)
		if err := json.Unmarshal([]byte(output), &r.Response); err != nil {
			c.t.Errorf("output %q: %v", output, err)
		}
		if !c.calls[r.ID] {
			c.t.Errorf("an answer to %q, which was not called", r.ID)
		}
		delete(c.calls, r.ID)
		if c.call != nil && history {
			s := *c.call
			c.call = nil
			s.Said.Response = &r
			return s, true
		}
		return livetest.Sent{Kind: livetest.SentToolResponse, Response: r}, true
	}
	c.t.Errorf("an item that the API does not know: %v", o)
	return livetest.Sent{}, false
}
