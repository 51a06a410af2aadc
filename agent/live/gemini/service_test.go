package gemini_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"parley/agent/live"
	"parley/agent/live/gemini"
	"parley/agent/live/livetest"
	"parley/agent/live/socket/sockettest"
)

// service is the Live API as a script that livetest plays. It holds each message
// against the API's reference, and lets a conversation go on only when the old
// connection is gone.
type service struct {
	t      *testing.T
	keeps  bool // it hands out handles
	server *sockettest.Server
	conns  chan *conn

	mu     sync.Mutex
	refuse error
	handle string
}

func newService(t *testing.T, keeps bool) *service {
	s := &service{t: t, keeps: keeps, conns: make(chan *conn, 8)}
	s.server = sockettest.Loopback(t, s.serve)
	return s
}

func (s *service) provider() live.LiveProvider {
	cfg := gemini.DefaultConfig()
	cfg.APIKey, cfg.BaseURL = "key-for-tests", s.server.URL
	p, err := gemini.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

const path = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"

// serve is one connection.
func (s *service) serve(p *sockettest.Peer) {
	if got := p.Request.Header.Get("x-goog-api-key"); got != "key-for-tests" {
		s.t.Errorf("key %q", got)
	}
	if p.Request.URL.Path != path || p.Request.URL.RawQuery != "" {
		s.t.Errorf("address %s", p.Request.URL)
	}
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	p.Accept()
	// The service accepts the handshake whoever comes, and refuses the set-up.
	switch {
	case errors.Is(refuse, live.ErrAuth):
		p.Close(1007, "API key not valid. Please pass a valid API key.")
		return
	case errors.Is(refuse, live.ErrBusy):
		p.Close(1011, "You exceeded your current quota, please check your plan and billing details.")
		return
	case refuse != nil:
		p.Close(1008, "models/x is not found for API version v1beta, or is not supported for bidiGenerateContent.")
		return
	}
	c := &conn{service: s, peer: p, sent: make(chan livetest.Sent, 1024), ready: make(chan struct{}), calls: map[string]bool{}}
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
	seeding bool // the first clientContent is what was said before
	calls   map[string]bool
	active  bool // between activityStart and activityEnd
	text    bool // a text came in between
	dropped bool
	kept    int
}

type object = map[string]any

// exact fails unless o has all the members of must, and no others but those of may.
func exact(t testing.TB, what string, v any, must, may string) object {
	t.Helper()
	o, ok := v.(object)
	if !ok {
		t.Errorf("%s is no object: %v", what, v)
		return object{}
	}
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
	return o
}

func (c *conn) send(o object) {
	b, err := json.Marshal(o)
	if err != nil {
		c.t.Error(err)
		return
	}
	c.peer.SendBinary(string(b)) // as the service does
}

func (c *conn) message() (object, error) {
	b, err := c.peer.TryRead()
	if err != nil {
		return nil, err
	}
	var m object
	if err := json.Unmarshal(b, &m); err != nil {
		c.t.Errorf("no JSON: %.200s", b)
	}
	return m, nil
}

// setUp reads the set-up and confirms it.
func (c *conn) setUp() error {
	m, err := c.message()
	if err != nil {
		return err
	}
	s := exact(c.t, "setup", exact(c.t, "message", m, "setup", "")["setup"], "model generationConfig sessionResumption contextWindowCompression",
		"systemInstruction tools realtimeInputConfig inputAudioTranscription outputAudioTranscription historyConfig")
	c.setup.Model, _ = s["model"].(string)
	if !strings.HasPrefix(c.setup.Model, "models/") {
		c.t.Errorf("model %q", c.setup.Model)
	}
	g := exact(c.t, "generationConfig", s["generationConfig"], "responseModalities speechConfig", "temperature maxOutputTokens")
	if fmt.Sprint(g["responseModalities"]) != "[AUDIO]" {
		c.t.Errorf("modalities %v", g["responseModalities"])
	}
	if v, ok := g["temperature"].(float64); ok {
		c.setup.Temperature = &v
	}
	speech := exact(c.t, "speechConfig", g["speechConfig"], "voiceConfig", "languageCode")
	c.setup.Language, _ = speech["languageCode"].(string)
	c.setup.Voice, _ = exact(c.t, "prebuilt", exact(c.t, "voiceConfig", speech["voiceConfig"], "prebuiltVoiceConfig", "")["prebuiltVoiceConfig"], "voiceName", "")["voiceName"].(string)
	if v, ok := s["systemInstruction"]; ok {
		c.setup.Instructions = c.words(v)
	}
	_, in := s["inputAudioTranscription"]
	_, out := s["outputAudioTranscription"]
	c.setup.Transcribe = in && out
	if v, ok := s["realtimeInputConfig"]; ok {
		i := exact(c.t, "realtimeInputConfig", v, "", "automaticActivityDetection activityHandling")
		c.setup.LocalCuts = i["activityHandling"] == "NO_INTERRUPTION"
		if d, ok := i["automaticActivityDetection"].(object); ok {
			c.setup.LocalTurns = d["disabled"] == true
		}
	}
	for _, v := range list(s["tools"]) {
		for _, f := range list(exact(c.t, "tool", v, "functionDeclarations", "")["functionDeclarations"]) {
			d := exact(c.t, "function", f, "name description", "parametersJsonSchema behavior responseJsonSchema")
			var def live.ToolDefinition
			def.Name, _ = d["name"].(string)
			def.Description, _ = d["description"].(string)
			def.ParametersJSONSchema, _ = d["parametersJsonSchema"].(object)
			c.setup.Tools = append(c.setup.Tools, def)
		}
	}
	resumption := exact(c.t, "sessionResumption", s["sessionResumption"], "", "handle")
	handle, _ := resumption["handle"].(string)
	if handle != "" && c.peer.Others > 0 {
		c.t.Error("a conversation is to go on while its old connection is open")
	}
	c.service.mu.Lock()
	if handle != "" && handle != c.handle {
		c.t.Errorf("handle %q, the newest is %q", handle, c.handle)
	}
	c.service.mu.Unlock()
	c.setup.Resumed = handle != ""
	if h, ok := s["historyConfig"]; ok {
		c.seeding = exact(c.t, "historyConfig", h, "initialHistoryInClientContent", "")["initialHistoryInClientContent"] == true
	}
	c.send(object{"setupComplete": object{"sessionId": "s1"}})
	c.keep()
	close(c.ready)
	return nil
}

// keep hands out a handle.
func (c *conn) keep() {
	if !c.keeps {
		return
	}
	c.service.mu.Lock()
	c.kept++
	c.handle = fmt.Sprintf("handle-%d-%d", c.peer.Number, c.kept)
	handle := c.handle
	c.service.mu.Unlock()
	c.send(object{"sessionResumptionUpdate": object{"newHandle": handle, "resumable": true}})
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// words is the text of a content.
func (c *conn) words(v any) string {
	content := exact(c.t, "content", v, "parts", "role")
	text := ""
	for _, p := range list(content["parts"]) {
		s, _ := exact(c.t, "part", p, "text", "")["text"].(string)
		text += s
	}
	return text
}

func (c *conn) Setup() livetest.Setup { return c.setup }

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
		all := c.take(m)
		c.mu.Unlock()
		for _, s := range all {
			c.sent <- s
		}
	}
}

// take holds a message against the reference.
func (c *conn) take(m object) []livetest.Sent {
	exact(c.t, "message", m, "", "realtimeInput clientContent toolResponse")
	if len(m) != 1 {
		c.t.Errorf("a message of %d kinds: %v", len(m), m)
	}
	if v, ok := m["realtimeInput"]; ok {
		in := exact(c.t, "realtimeInput", v, "", "audio text activityStart activityEnd audioStreamEnd")
		if len(in) != 1 {
			c.t.Errorf("input of %d kinds: %v", len(in), in)
		}
		return c.input(in)
	}
	if v, ok := m["toolResponse"]; ok {
		var all []livetest.Sent
		for _, f := range list(exact(c.t, "toolResponse", v, "functionResponses", "")["functionResponses"]) {
			r := c.response(f)
			if !c.calls[r.ID] {
				c.t.Errorf("an answer to %q, which was not called", r.ID)
			}
			delete(c.calls, r.ID)
			all = append(all, livetest.Sent{Kind: livetest.SentToolResponse, Response: r})
		}
		return all
	}
	content := exact(c.t, "clientContent", m["clientContent"], "turns turnComplete", "")
	if !c.seeding || content["turnComplete"] != true {
		c.t.Errorf("clientContent in the midst of a conversation: %v", content)
	}
	c.seeding = false
	return c.history(list(content["turns"]))
}

func (c *conn) response(v any) live.ToolResponse {
	f := exact(c.t, "functionResponse", v, "id name response", "")
	r := live.ToolResponse{}
	r.ID, _ = f["id"].(string)
	r.Name, _ = f["name"].(string)
	r.Response, _ = f["response"].(object)
	return r
}

// history is what was said before.
func (c *conn) history(turns []any) (all []livetest.Sent) {
	for _, v := range turns {
		turn := exact(c.t, "turn", v, "role parts", "")
		parts := list(turn["parts"])
		if len(parts) != 1 {
			c.t.Errorf("parts %v", parts)
			continue
		}
		p := exact(c.t, "part", parts[0], "", "text functionCall functionResponse")
		role := map[any]string{"user": "user", "model": "assistant"}[turn["role"]]
		if text, ok := p["text"].(string); ok {
			all = append(all, livetest.Sent{Kind: livetest.SentHistory, Said: live.Said{Role: role, Text: text}})
		}
		if v, ok := p["functionCall"]; ok {
			f := exact(c.t, "functionCall", v, "id name", "args")
			call := live.ToolCall{}
			call.ID, _ = f["id"].(string)
			call.Name, _ = f["name"].(string)
			all = append(all, livetest.Sent{Kind: livetest.SentHistory, Said: live.Said{Role: "tool", Call: &call}})
		}
		if v, ok := p["functionResponse"]; ok {
			r := c.response(v)
			all[len(all)-1].Said.Response = &r
		}
	}
	return all
}

// input is realtime input.
func (c *conn) input(in object) []livetest.Sent {
	c.seeding = false
	one := func(s livetest.Sent) []livetest.Sent { return []livetest.Sent{s} }
	if v, ok := in["audio"]; ok {
		blob := exact(c.t, "audio", v, "data mimeType", "")
		if blob["mimeType"] != "audio/pcm;rate=16000" {
			c.t.Errorf("audio of %v", blob["mimeType"])
		}
		text, _ := blob["data"].(string)
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) == 0 || len(raw)%2 != 0 {
			c.t.Errorf("audio: %v, %d bytes", err, len(raw))
		}
		if c.setup.LocalTurns && !c.active {
			c.t.Error("audio outside of a turn")
		}
		pcm := make([]int16, len(raw)/2)
		for i := range pcm {
			pcm[i] = int16(binary.LittleEndian.Uint16(raw[2*i:]))
		}
		return one(livetest.Sent{Kind: livetest.SentAudio, PCM: pcm, Rate: 16000})
	}
	if text, ok := in["text"].(string); ok {
		c.text = true
		if rest, ok := strings.CutPrefix(text, "[The result of your call of the tool book, id "); ok {
			id, rest, _ := strings.Cut(rest, ", which the caller has not said: ")
			r := live.ToolResponse{ID: id, Name: "book"}
			if err := json.Unmarshal([]byte(strings.TrimSuffix(rest, "]")), &r.Response); err != nil {
				c.t.Errorf("result %q: %v", rest, err)
			}
			return one(livetest.Sent{Kind: livetest.SentToolResponse, Response: r})
		}
		if strings.HasPrefix(text, "[An instruction for you,") {
			return one(livetest.Sent{Kind: livetest.SentInstruct, Text: text})
		}
		return one(livetest.Sent{Kind: livetest.SentText, Text: text})
	}
	if in["audioStreamEnd"] == true {
		if c.setup.LocalTurns {
			c.t.Error("audioStreamEnd is for the service's own detection")
		}
		return one(livetest.Sent{Kind: livetest.SentAudioEnd})
	}
	_, start := in["activityStart"]
	if !c.setup.LocalTurns || start == c.active {
		c.t.Errorf("%v, though the turn is open: %v", in, c.active)
	}
	c.active = start
	if start {
		return one(livetest.Sent{Kind: livetest.SentActivityStart})
	}
	return one(livetest.Sent{Kind: livetest.SentActivityEnd})
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
	for _, m := range []string{`{"serverSong":{"verse":1}}`, `{"serverContent":{"modelTurn":5}}`, `no JSON`, `[]`, `null`, `{}`} {
		c.peer.SendBinary(m)
	}
	return nil
}

// Tell sends what m says.
func (c *conn) Tell(m live.Message) error {
	if m.SpeechStarted {
		c.send(object{"voiceActivity": object{"voiceActivityType": "ACTIVITY_START", "audioOffset": "1.5s"}})
	}
	if m.SpeechStopped {
		c.send(object{"voiceActivity": object{"voiceActivityType": "ACTIVITY_END"}})
	}
	content := func(o object) { c.send(object{"serverContent": o}) }
	if m.Interrupted {
		content(object{"interrupted": true})
		content(object{"turnComplete": true})
	}
	if m.User.Delta != "" { // the service does not say when it is complete
		content(object{"inputTranscription": object{"text": m.User.Delta}})
	}
	if m.Agent.Delta != "" {
		content(object{"outputTranscription": object{"text": m.Agent.Delta}})
	}
	if len(m.Audio) > 0 {
		content(object{"modelTurn": object{"role": "model", "parts": []object{
			{"thought": true, "text": "I think."},
			{"inlineData": object{"mimeType": "audio/pcm;rate=24000", "data": base64.StdEncoding.EncodeToString(m.Audio)}},
		}}})
	}
	if len(m.ToolCalls) > 0 {
		var calls []object
		c.mu.Lock()
		for _, call := range m.ToolCalls {
			c.calls[call.ID] = true
			calls = append(calls, object{"id": call.ID, "name": call.Name, "args": call.Args})
		}
		c.mu.Unlock()
		if c.keeps {
			c.send(object{"sessionResumptionUpdate": object{}}) // not at the moment
		}
		c.send(object{"toolCall": object{"functionCalls": calls}})
	}
	if len(m.CancelledCalls) > 0 {
		c.send(object{"toolCallCancellation": object{"ids": m.CancelledCalls}})
	}
	if m.Warning != nil {
		c.send(object{"error": object{"code": 400, "message": m.Warning.Error(), "status": "INVALID_ARGUMENT"}})
	}
	if m.TurnDone {
		content(object{"generationComplete": true})
		c.send(object{"serverContent": object{"turnComplete": true, "interactionStatus": "IDLE"}, "usageMetadata": object{"promptTokenCount": 20, "responseTokenCount": 10, "totalTokenCount": 30}})
		c.keep()
	}
	if m.GoAway != nil {
		c.send(object{"goAway": object{"timeLeft": fmt.Sprintf("%.3fs", m.GoAway.TimeLeft.Seconds())}})
	}
	return nil
}

func TestSuite(t *testing.T) {
	for name, keeps := range map[string]bool{"the service keeps the conversation": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			livetest.Run(t, livetest.Suite{
				Open: func(t *testing.T) (livetest.Service, func() live.LiveProvider) {
					s := newService(t, keeps)
					return s, s.provider
				},
			})
		})
	}
}
