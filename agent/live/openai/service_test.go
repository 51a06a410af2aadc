package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
