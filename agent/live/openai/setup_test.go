package openai_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live"
	"parley/agent/live/openai"
	"parley/agent/live/socket/sockettest"
	"parley/agent/tool"
)

const pcm = `{"type":"audio/pcm","rate":24000}`

// TestSessionUpdate: the set-up, word for word.
func TestSessionUpdate(t *testing.T) {
	warm := 0.7
	for name, c := range map[string]struct {
		config  func(*openai.Config)
		session live.LiveConfig
		want    string // the session
		query   string
	}{
		"the defaults": {
			nil, live.LiveConfig{},
			`{"type":"realtime","output_modalities":["audio"],"tools":[],"tool_choice":"auto","audio":{
				"input":{"format":` + pcm + `,"turn_detection":{"type":"server_vad","create_response":true,"interrupt_response":true},"transcription":null,"noise_reduction":null},
				"output":{"format":` + pcm + `,"voice":"marin"}}}`,
			"model=gpt-realtime",
		},
		"our turns": {
			nil, live.LiveConfig{LocalTurns: true, LocalCuts: true, Model: "other", Voice: "cedar", Instructions: "Be brief.", Transcribe: true},
			`{"type":"realtime","output_modalities":["audio"],"tools":[],"tool_choice":"auto","instructions":"Be brief.","audio":{
				"input":{"format":` + pcm + `,"turn_detection":null,"transcription":{"model":"gpt-4o-mini-transcribe"},"noise_reduction":null},
				"output":{"format":` + pcm + `,"voice":"cedar"}}}`,
			"model=other",
		},
		"all that can be set": {
			func(c *openai.Config) {
				c.TurnDetection = openai.TurnDetection{Mode: "server_vad", Threshold: 0.6, PrefixPadding: 200 * time.Millisecond, Silence: 700 * time.Millisecond}
				c.NoiseReduction, c.Speed, c.MaxOutputTokens, c.TranscriptionModel = "far_field", 1.25, 500, "whisper-1"
				c.BaseURL += "/v1/realtime?api-version=1&deployment=mine"
			},
			live.LiveConfig{LocalCuts: true, Transcribe: true, Language: "pt-BR", Wire: live.PCMA, Tools: []live.ToolDefinition{
				{Name: "now", Description: "tells the time", Behavior: tool.ToolBehaviorNonBlocking},
				{Name: "shop:book.table", ParametersJSONSchema: live.Schema{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}},
			}},
			`{"type":"realtime","output_modalities":["audio"],"max_output_tokens":500,"tool_choice":"auto","tools":[
				{"type":"function","name":"now","description":"tells the time","parameters":{"type":"object","properties":{}}},
				{"type":"function","name":"shop_book_table","description":"","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}],"audio":{
				"input":{"format":{"type":"audio/pcma"},"turn_detection":{"type":"server_vad","create_response":true,"interrupt_response":false,"threshold":0.6,"prefix_padding_ms":200,"silence_duration_ms":700},
					"transcription":{"model":"whisper-1","language":"pt"},"noise_reduction":{"type":"far_field"}},
				"output":{"format":{"type":"audio/pcma"},"voice":"marin","speed":1.25}}}`,
			"api-version=1&deployment=mine",
		},
		"by what was said": {
			func(c *openai.Config) {
				c.TurnDetection = openai.TurnDetection{Mode: "semantic_vad", Eagerness: "low"}
			},
			live.LiveConfig{Wire: live.PCMU},
			`{"type":"realtime","output_modalities":["audio"],"tools":[],"tool_choice":"auto","audio":{
				"input":{"format":{"type":"audio/pcmu"},"turn_detection":{"type":"semantic_vad","create_response":true,"interrupt_response":true,"eagerness":"low"},"transcription":null,"noise_reduction":null},
				"output":{"format":{"type":"audio/pcmu"},"voice":"marin"}}}`,
			"model=gpt-realtime",
		},
		"the beta": {
			func(c *openai.Config) { c.Beta, c.MaxOutputTokens = true, 100 },
			live.LiveConfig{LocalTurns: true, Temperature: &warm, Wire: live.PCMU},
			`{"modalities":["text","audio"],"voice":"marin","input_audio_format":"g711_ulaw","output_audio_format":"g711_ulaw","turn_detection":null,
				"input_audio_transcription":null,"input_audio_noise_reduction":null,"temperature":0.7,"max_response_output_tokens":100,"tools":[],"tool_choice":"auto"}`,
			"model=gpt-realtime",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.config, func(p *sockettest.Peer) {
					if got := p.Request.Header.Get("Authorization"); got != "Bearer "+key {
						t.Errorf("authorization %q", got)
					}
					if got := p.Request.URL.RawQuery; got != c.query {
						t.Errorf("query %q, want %q", got, c.query)
					}
					p.Accept()
					p.Expect(`{"type":"session.update","session":` + c.want + `}`)
					// The service repeats it in full.
					p.Send(`{"type":"session.updated","session":` + c.want + `}`)
					p.ExpectClose()
				})
				r.connect(c.session)
			})
		})
	}
}

// TestTemperature: what cannot be set is told.
func TestTemperature(t *testing.T) {
	warm := 0.7
	bubble(t, live.LiveConfig{Temperature: &warm}, func(*sockettest.Peer) {}, func(r *rig) {
		if m := r.next(); m.Warning == nil || !strings.Contains(m.Warning.Error(), "temperature") {
			r.Errorf("%+v", m)
		}
	})
}

func TestNoKeyNoHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *openai.Config) { c.APIKey = "" }, func(p *sockettest.Peer) {
			if _, there := p.Request.Header["Authorization"]; there {
				t.Error("an authorization without a key")
			}
			greet(p)
			p.ExpectClose()
		})
		r.connect(live.LiveConfig{})
	})
}

// TestNotConfirmed: Connect waits for session.updated, but not for ever.
func TestNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(p *sockettest.Peer) {
			p.Accept()
			p.Send(`{"type":"session.created","session":{}}`, `{"type":"rate_limits.updated","rate_limits":[]}`, `nonsense`)
			p.Wait()
		})
		began := time.Now()
		err := r.Connect(t.Context(), live.LiveConfig{})
		r.is(err, context.DeadlineExceeded)
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		if n := r.server.Open(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		r.is(r.SendText(t.Context(), "hello"), live.ErrClosed)
	})
}

func TestSetUpRefused(t *testing.T) {
	refusal := func(kind, code string) string {
		return `{"type":"error","error":{"type":"` + kind + `","code":` + code + `,"message":"no: ` + key + `","event_id":"setup"}}`
	}
	for name, c := range map[string]struct {
		say  []string
		code int
		why  string
		want error
	}{
		"a key":            {[]string{refusal("invalid_request_error", `"invalid_api_key"`)}, 3000, "", live.ErrAuth},
		"no permission":    {[]string{refusal("authentication_error", `null`)}, 3000, "", live.ErrAuth},
		"a model":          {[]string{refusal("invalid_request_error", `"model_not_found"`)}, 3000, "", live.ErrRejected},
		"a parameter":      {[]string{refusal("invalid_request_error", `"unknown_parameter"`)}, 0, "", live.ErrRejected},
		"an expired one":   {[]string{refusal("invalid_request_error", `"session_expired"`)}, 0, "", live.ErrRejected},
		"the rate":         {[]string{refusal("tokens", `"rate_limit_exceeded"`)}, 0, "", live.ErrBusy},
		"overload":         {[]string{refusal("server_error", `null`)}, 0, "", live.ErrBusy},
		"closed: key":      {nil, 3000, "invalid_request_error.invalid_api_key", live.ErrAuth},
		"closed: policy":   {nil, 1008, "policy", live.ErrRejected},
		"closed: busy":     {nil, 1013, "try later", live.ErrBusy},
		"closed: fault":    {nil, 1011, "fault", live.ErrLost},
		"other formats":    {[]string{`{"type":"session.updated","session":{"audio":{"output":{"format":{"type":"audio/pcmu"}}}}}`}, 0, "", live.ErrRejected},
		"another rate":     {[]string{`{"type":"session.updated","session":{"audio":{"input":{"format":{"type":"audio/pcm","rate":16000}}}}}`}, 0, "", live.ErrRejected},
		"formats, beta":    {[]string{`{"type":"session.updated","session":{"output_audio_format":"g711_ulaw"}}`}, 0, "", live.ErrRejected},
		"turns stay":       {[]string{`{"type":"session.updated","session":{"audio":{"input":{"turn_detection":{"type":"server_vad"}}}}}`}, 0, "", live.ErrRejected},
		"turns stay, beta": {[]string{`{"type":"session.updated","session":{"turn_detection":{"type":"server_vad"}}}`}, 0, "", live.ErrRejected},
		"no session":       {[]string{`{"type":"session.updated","session":"x"}`}, 0, "", live.ErrRejected},
		"noise":            {strings.Split(strings.Repeat("?,", 40), ","), 0, "", live.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil, func(p *sockettest.Peer) {
					p.Accept()
					p.Read()
					for _, m := range c.say {
						if !p.TrySend(m) {
							return
						}
					}
					if c.code != 0 {
						p.Close(c.code, c.why)
					}
					p.Wait()
				})
				r.is(r.Connect(t.Context(), live.LiveConfig{LocalTurns: true}), c.want)
				err := r.Connect(t.Context(), live.LiveConfig{LocalTurns: true})
				if live.Reconnectable(err) != live.Reconnectable(c.want) {
					t.Errorf("is it worth another try? %v", err)
				}
			})
		})
	}
}

func TestConnectAndCloseCross(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(p *sockettest.Peer) {
			p.Accept()
			p.Wait()
		})
		failed := make(chan error)
		go func() { failed <- r.Connect(t.Context(), live.LiveConfig{}) }()
		synctest.Wait()
		if err := r.Connect(t.Context(), live.LiveConfig{}); err == nil {
			t.Error("two at once")
		}
		began := time.Now()
		r.ok(r.Close(t.Context()))
		if err := <-failed; err == nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := r.Receive(t.Context()); err != io.EOF {
			t.Error(err)
		}
	})
}

func TestBadSession(t *testing.T) {
	r := newRig(t, nil, func(p *sockettest.Peer) { p.Fail("it connects") })
	r.is(r.Connect(t.Context(), live.LiveConfig{Wire: "opus"}), live.ErrRejected)
}

func TestValidate(t *testing.T) {
	if err := openai.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		change func(*openai.Config)
		want   string
	}{
		{func(c *openai.Config) { c.BaseURL = "https://api.openai.com" }, "base_url: must begin with wss:// or ws:// and name a host"},
		{func(c *openai.Config) { c.BaseURL = "wss://" }, "base_url: must begin with wss:// or ws:// and name a host"},
		{func(c *openai.Config) { c.BaseURL = "wss://user:pw@host" }, "base_url: must not hold a user or password; set api_key instead"},
		{func(c *openai.Config) { c.BaseURL = "wss://host/%zz?pw" }, `base_url: is no address, must be such as "wss://api.openai.com/v1/realtime"`},
		{func(c *openai.Config) { c.APIKey = "two words" }, "api_key: holds white space, a line break or a character that no header can carry"},
		{func(c *openai.Config) { c.Model = "" }, "model: must be set"},
		{func(c *openai.Config) { c.Voice = "" }, "voice: must be set"},
		{func(c *openai.Config) { c.TranscriptionModel = "" }, "transcription_model: must be set"},
		{func(c *openai.Config) { c.TurnDetection.Mode = "none" }, `turn_detection.mode: "none", must be one of ["server_vad" "semantic_vad"]`},
		{func(c *openai.Config) { c.TurnDetection.Eagerness = "low" }, "turn_detection.eagerness: is of semantic_vad only"},
		{func(c *openai.Config) { c.TurnDetection = openai.TurnDetection{Mode: "semantic_vad", Threshold: 0.5} }, "turn_detection: threshold, prefix_padding_ms and silence_ms are of server_vad only"},
		{func(c *openai.Config) { c.TurnDetection.Threshold = 2 }, "turn_detection.threshold: 2, must be between 0 and 1"},
		{func(c *openai.Config) { c.TurnDetection.Silence = -1 }, "turn_detection: times must not be negative"},
		{func(c *openai.Config) { c.NoiseReduction = "all" }, `noise_reduction: "all", must be one of ["" "near_field" "far_field"]`},
		{func(c *openai.Config) { c.Speed = 3 }, "speed: 3, must be between 0.25 and 1.5, or 0"},
		{func(c *openai.Config) { c.MaxOutputTokens = 5000 }, "max_output_tokens: 5000, must be between 1 and 4096, or 0"},
		{func(c *openai.Config) { c.Lead = time.Minute }, "lead_ms: 60000, must be between 0 and 5000"},
		{func(c *openai.Config) { c.ConnectTimeout = 0 }, "connect_timeout_ms: 0, must be at least 1"},
		{func(c *openai.Config) { c.SessionLimit = time.Second }, "session_limit_ms: 1000, must be more than renew_before_ms, 60000, and both more than 0"},
	} {
		cfg := openai.DefaultConfig()
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
		if _, err := openai.New(cfg); err == nil {
			t.Errorf("New takes what is wrong: %s", c.want)
		}
	}
}

// TestNames: the service knows fewer names than we do.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 70)
	names := []string{"a:b", "a.b", "a_b", long + "1", long + "2", "plain-1"}
	want := []string{"a_b_2", "a_b_3", "a_b", long[:64], long[:62] + "_2", "plain-1"}
	var tools []live.ToolDefinition
	for _, n := range names {
		tools = append(tools, live.ToolDefinition{Name: n})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(p *sockettest.Peer) {
			p.Accept()
			for i, v := range p.Read()["session"].(map[string]any)["tools"].([]any) {
				if got := v.(map[string]any)["name"]; got != want[i] {
					t.Errorf("%q is called %q, want %q", names[i], got, want[i])
				}
			}
			p.Send(`{"type":"session.updated","session":{}}`)
			for _, n := range append(want, "invented") {
				p.Send(call("r", "call_"+n, n, `"{}"`)...)
			}
			p.ExpectClose()
		})
		r.connect(live.LiveConfig{Tools: tools})
		for _, n := range append(names, "invented") {
			if got := r.next().ToolCalls[0].Name; got != n {
				t.Errorf("called %q, want %q", got, n)
			}
		}
	})
}
