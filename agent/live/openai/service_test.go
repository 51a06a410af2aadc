package openai_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/agent/live"
	"parley/agent/live/livetest"
	"parley/agent/live/openai"
	"parley/agent/live/socket/sockettest"
)

// service is the Realtime API as a script that livetest plays. It holds each message
// against the API's reference, and knows which of them are allowed at the moment.
type service struct {
	t      *testing.T
	beta   bool
	server *sockettest.Server
	conns  chan *conn

	mu     sync.Mutex
	refuse error
}

func newService(t *testing.T, beta bool) *service {
	s := &service{t: t, beta: beta, conns: make(chan *conn, 8)}
	s.server = sockettest.Loopback(t, s.serve)
	return s
}

// provider makes a provider that connects to s.
func (s *service) provider() live.LiveProvider {
	cfg := openai.DefaultConfig()
	cfg.APIKey, cfg.BaseURL, cfg.Beta = "key-for-tests", s.server.URL+"/v1/realtime", s.beta
	p, err := openai.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// serve is one connection.
func (s *service) serve(p *sockettest.Peer) {
	if got := p.Request.Header.Get("Authorization"); got != "Bearer key-for-tests" {
		s.t.Errorf("authorization %q", got)
	}
	if got := p.Request.Header.Get("OpenAI-Beta") != ""; got != s.beta {
		s.t.Errorf("beta %v, want %v", got, s.beta)
	}
	if got := p.Request.URL.Query().Get("model"); got != "gpt-realtime" {
		s.t.Errorf("model %q", got)
	}
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	switch {
	case errors.Is(refuse, live.ErrAuth):
		p.Refuse(401, `{"error":{"message":"Incorrect API key provided: key-for-tests.","code":"invalid_api_key"}}`)
		return
	case errors.Is(refuse, live.ErrBusy):
		p.Refuse(429, `{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}`)
		return
	case refuse != nil:
		p.Accept()
		p.Send(`{"type":"error","event_id":"e1","error":{"type":"invalid_request_error","code":"model_not_found","message":"The model does not exist","param":null,"event_id":null}}`)
		p.Close(3000, "invalid_request_error.model_not_found")
		return
	}
	p.Accept()
	c := &conn{service: s, peer: p, sent: make(chan livetest.Sent, 1024), ready: make(chan struct{}), items: map[string]int{}, calls: map[string]bool{}}
	s.conns <- c
	select {
	case <-c.ready:
		c.read()
	case <-p.Stop: // nobody accepted it
	}
}

func (s *service) Accept(ctx context.Context) (livetest.Conn, error) {
	select {
	case c := <-s.conns:
		return c, c.setUp()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *service) Refuse(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
	return nil
}

// conn is one connection to the service.
type conn struct {
	*service
	peer  *sockettest.Peer
	ready chan struct{}
	sent  chan livetest.Sent
	setup livetest.Setup

	mu      sync.Mutex
	serial  int
	active  string         // the reply under way
	item    string         // the item of the reply that is open
	user    string         // the caller's turn
	items   map[string]int // bytes of audio sent of each item
	calls   map[string]bool
	call    *livetest.Sent // of the history, whose answer is to come
	done    []string       // output items of the reply
	dropped bool
}

// setUp reads the session.update and confirms it.
func (c *conn) setUp() error {
	c.send(object{"type": "session.created", "session": c.effective(nil)})
	m, err := c.message()
	if err != nil {
		return err
	}
	if m["type"] != "session.update" {
		return fmt.Errorf("the first message is %v", m)
	}
	session, _ := m["session"].(object)
	c.settle(session)
	c.send(object{"type": "session.updated", "session": c.effective(session)})
	close(c.ready)
	return nil
}

// effective is the session as the service tells of it: with what it has by default.
func (c *conn) effective(update object) object {
	session := object{"id": "sess_1", "object": "realtime.session", "expires_at": time.Now().Add(time.Hour).Unix(),
		"instructions": "You are helpful."}
	detection := object{"type": "server_vad"}
	if c.beta {
		session["turn_detection"] = detection
	} else {
		session["audio"] = object{"input": object{"turn_detection": detection}}
	}
	for k, v := range update {
		session[k] = v
	}
	return session
}

// settle reads the settings.
func (c *conn) settle(s object) {
	var input, output object
	var detection, transcription any
	var encoding string
	var has bool
	if c.beta {
		exact(c.t, "session", s, "tools tool_choice modalities voice input_audio_format output_audio_format turn_detection input_audio_transcription input_audio_noise_reduction",
			"instructions temperature speed max_response_output_tokens")
		if s["input_audio_format"] != s["output_audio_format"] {
			c.t.Errorf("formats %v and %v", s["input_audio_format"], s["output_audio_format"])
		}
		encoding = map[any]string{"pcm16": "", "g711_ulaw": "pcmu", "g711_alaw": "pcma"}[s["input_audio_format"]]
		detection, has = s["turn_detection"]
		transcription = s["input_audio_transcription"]
		c.setup.Voice, _ = s["voice"].(string)
		if v, ok := s["temperature"].(float64); ok {
			c.setup.Temperature = &v
		}
	} else {
		exact(c.t, "session", s, "type output_modalities audio tools tool_choice", "instructions max_output_tokens")
		audio, _ := s["audio"].(object)
		exact(c.t, "audio", audio, "input output", "")
		input, _ = audio["input"].(object)
		output, _ = audio["output"].(object)
		exact(c.t, "audio.input", input, "format turn_detection transcription noise_reduction", "")
		exact(c.t, "audio.output", output, "format voice", "speed")
		f, _ := input["format"].(object)
		if fmt.Sprint(f) != fmt.Sprint(output["format"]) {
			c.t.Errorf("formats %v and %v", f, output["format"])
		}
		switch f["type"] {
		case "audio/pcm":
			exact(c.t, "format", f, "type rate", "")
			if f["rate"] != 24000.0 {
				c.t.Errorf("the service takes no %v Hz", f["rate"])
			}
		case "audio/pcmu", "audio/pcma":
			exact(c.t, "format", f, "type", "")
			encoding = strings.TrimPrefix(f["type"].(string), "audio/")
		default:
			c.t.Errorf("format %v", f)
		}
		detection, has = input["turn_detection"]
		transcription = input["transcription"]
		c.setup.Voice, _ = output["voice"].(string)
	}
	c.setup.Wire = live.Encoding(encoding)
	c.setup.Instructions, _ = s["instructions"].(string)
	if d, ok := detection.(object); ok {
		exact(c.t, "turn_detection", d, "type create_response interrupt_response", "threshold prefix_padding_ms silence_duration_ms eagerness")
		c.setup.LocalCuts = d["interrupt_response"] == false
	} else {
		c.setup.LocalTurns = has // null, and not left out
	}
	if tr, ok := transcription.(object); ok {
		exact(c.t, "transcription", tr, "model", "language prompt")
		c.setup.Transcribe = true
		if tr["language"] == "de" {
			c.setup.Language = "de-DE" // the service takes no more of it
		}
	}
	tools, _ := s["tools"].([]any)
	for _, v := range tools {
		f, _ := v.(object)
		exact(c.t, "tool", f, "type name description parameters", "")
		name, _ := f["name"].(string)
		description, _ := f["description"].(string)
		parameters, _ := f["parameters"].(object)
		c.setup.Tools = append(c.setup.Tools, live.ToolDefinition{Name: name, Description: description, ParametersJSONSchema: parameters})
	}
}

type object = map[string]any

// exact fails unless o has all the members of must, and no others but those of may.
func exact(t testing.TB, what string, o object, must, may string) {
	t.Helper()
	for _, k := range strings.Fields(must) {
		if _, ok := o[k]; !ok {
			t.Errorf("%s lacks %q: %v", what, k, o)
		}
	}
	for k := range o {
		if !slices.Contains(strings.Fields(must+" "+may), k) {
			t.Errorf("%s has a member %q that the API does not know: %v", what, k, o)
		}
	}
}

func (c *conn) Setup() livetest.Setup { return c.setup }

// beta names.
var old = strings.NewReplacer("response.output_audio", "response.audio", "response.output_text", "response.text")

// send sends an event.
func (c *conn) send(o object) {
	c.serial++
	o["event_id"] = fmt.Sprintf("event_%d", c.serial)
	b, err := json.Marshal(o)
	if err != nil {
		c.t.Error(err)
		return
	}
	text := string(b)
	if c.beta {
		text = old.Replace(text)
	}
	c.peer.TrySend(text)
}

// message reads the provider's next message.
func (c *conn) message() (object, error) {
	b, err := c.peer.TryRead()
	if err != nil {
		return nil, err
	}
	var m object
	if err := json.Unmarshal(b, &m); err != nil {
		c.t.Errorf("no JSON: %.200s", b)
		return object{}, nil
	}
	return m, nil
}

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

func (c *conn) Next(ctx context.Context) (livetest.Sent, error) {
	select {
	case s, ok := <-c.sent:
		if !ok {
			return s, io.EOF
		}
		return s, nil
	case <-ctx.Done():
		return livetest.Sent{}, ctx.Err()
	}
}

func (c *conn) Drop() {
	c.mu.Lock()
	c.dropped = true
	c.mu.Unlock()
	c.peer.Drop()
}

func (c *conn) Garble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peer.Send(`{"type":"response.sung","song":1}`, `{"type":"response.output_audio.delta","delta":5}`, `no JSON`, `[]`, `{}`)
	return nil
}

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

func TestSuite(t *testing.T) {
	for name, beta := range map[string]bool{"present": false, "beta": true} {
		t.Run(name, func(t *testing.T) {
			livetest.Run(t, livetest.Suite{
				Open: func(t *testing.T) (livetest.Service, func() live.LiveProvider) {
					s := newService(t, beta)
					return s, s.provider
				},
				Without: map[string]string{
					"tools: cancelled": "the service takes no call back",
					"go away":          "the service does not say so; TestGoAway",
				},
			})
		})
	}
}
