package gemini_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live"
	"parley/agent/live/gemini"
	"parley/agent/live/socket/sockettest"
)

// TestSetUp: what TestLikeTheSDK does not show.
func TestSetUp(t *testing.T) {
	const voice = `"generationConfig":{"responseModalities":["AUDIO"],"speechConfig":{"voiceConfig":{"prebuiltVoiceConfig":{"voiceName":"Kore"}}}}`
	for name, c := range map[string]struct {
		config  func(*gemini.Config)
		session live.LiveConfig
		want    string
		path    string
	}{
		"the defaults": {
			nil, live.LiveConfig{},
			`{"model":"models/gemini-3.1-flash-live-preview",` + voice + `,"sessionResumption":{},"contextWindowCompression":{"slidingWindow":{}}}`, path,
		},
		"its own turns, otherwise": {
			func(c *gemini.Config) {
				c.TurnDetection = gemini.TurnDetection{Start: "low", End: "high", PrefixPadding: 100 * time.Millisecond, Silence: 600 * time.Millisecond}
				c.Compress, c.APIVersion, c.BaseURL = false, "v1alpha", c.BaseURL+"/proxy/"
			},
			live.LiveConfig{Model: "tunedModels/mine", LocalCuts: true},
			`{"model":"tunedModels/mine",` + voice + `,"sessionResumption":{},"realtimeInputConfig":{"activityHandling":"NO_INTERRUPTION","automaticActivityDetection":{
				"startOfSpeechSensitivity":"START_SENSITIVITY_LOW","endOfSpeechSensitivity":"END_SENSITIVITY_HIGH","prefixPaddingMs":100,"silenceDurationMs":600}}}`,
			"/proxy/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContent",
		},
		"ours": {
			func(c *gemini.Config) { c.TurnDetection.Start = "low" }, live.LiveConfig{LocalTurns: true, LocalCuts: true},
			`{"model":"models/gemini-3.1-flash-live-preview",` + voice + `,"sessionResumption":{},"contextWindowCompression":{"slidingWindow":{}},"realtimeInputConfig":{"automaticActivityDetection":{"disabled":true}}}`, path,
		},
		"a tool that needs nothing": {
			nil, live.LiveConfig{Tools: []live.ToolDefinition{{Name: "1st"}}},
			`{"model":"models/gemini-3.1-flash-live-preview",` + voice + `,"sessionResumption":{},"contextWindowCompression":{"slidingWindow":{}},"tools":[{"functionDeclarations":[{"name":"_1st"}]}]}`, path,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.config, func(p *sockettest.Peer) {
					if p.Request.URL.Path != c.path || p.Request.Header.Get("x-goog-api-key") != key {
						t.Errorf("%s, key %q", p.Request.URL.Path, p.Request.Header.Get("x-goog-api-key"))
					}
					p.Accept()
					p.Expect(`{"setup":` + c.want + `}`)
					p.SendBinary(`{"setupComplete":{}}`)
					p.ExpectClose()
				})
				r.connect(c.session)
			})
		})
	}
}

func TestSetUpRefused(t *testing.T) {
	for name, c := range map[string]struct {
		say  string
		code int
		why  string
		want error
	}{
		"key":             {"", 1007, "API key not valid. Please pass a valid API key: " + key, live.ErrAuth},
		"permission":      {"", 1008, "Permission denied", live.ErrAuth},
		"quota":           {"", 1011, "You exceeded your current quota", live.ErrBusy},
		"overload":        {"", 1013, "later", live.ErrBusy},
		"model":           {"", 1008, "models/x is not found for API version v1beta", live.ErrRejected},
		"argument":        {"", 1007, "Invalid JSON payload received. Unknown name", live.ErrRejected},
		"fault":           {"", 1011, "Internal error encountered.", live.ErrLost},
		"error: key":      {`{"error":{"code":401,"message":"` + key + `"}}`, 0, "", live.ErrAuth},
		"error: busy":     {`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x"}}`, 0, "", live.ErrBusy},
		"error: argument": {`{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"x"}}`, 0, "", live.ErrRejected},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil, func(p *sockettest.Peer) {
					p.Accept()
					p.Read()
					if c.say != "" {
						p.SendBinary(c.say)
						p.Wait()
						return
					}
					p.Close(c.code, c.why)
				})
				r.is(r.Connect(t.Context(), live.LiveConfig{}), c.want)
				synctest.Wait()
				if r.server.Dialled() != 1 {
					t.Errorf("%d connections", r.server.Dialled())
				}
			})
		})
	}
}

func TestNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(p *sockettest.Peer) {
			p.Accept()
			p.SendBinary(`{"other":1}`)
			p.Wait()
		})
		began := time.Now()
		r.is(r.Connect(t.Context(), live.LiveConfig{}), context.DeadlineExceeded)
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		if n := r.server.Open(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		r.is(r.Connect(t.Context(), live.LiveConfig{Wire: live.PCMU}), live.ErrRejected)
		r.is(r.Connect(t.Context(), live.LiveConfig{Wire: "opus"}), live.ErrRejected)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(p *sockettest.Peer) {
			p.Accept()
			for p.TrySend("?") {
			}
		})
		r.is(r.Connect(t.Context(), live.LiveConfig{}), live.ErrLost)
	})
}

// TestGoesOn: when the service keeps a conversation, when a new one is made of what
// was said, and that the old connection is gone by then.
func TestGoesOn(t *testing.T) {
	said := []live.Said{{Role: "user", Text: "I am Ada."}}
	const told = `{"clientContent":{"turns":[{"role":"user","parts":[{"text":"I am Ada."}]}],"turnComplete":true}}`
	type visit struct {
		handle string
		close  int // instead of confirming
		seeded bool
	}
	for name, c := range map[string]struct {
		first  []string
		said   []live.Said
		visits []visit
		want   error
		took   time.Duration
	}{
		"it was kept":                       {[]string{handle("h1"), handle("h2")}, said, []visit{{handle: "h2"}}, nil, 0},
		"it never was":                      {nil, said, []visit{{seeded: true}}, nil, 0},
		"nor was anything said":             {nil, nil, []visit{{}}, nil, 0},
		"not up to date":                    {[]string{handle("h1"), `{"sessionResumptionUpdate":{}}`}, said, []visit{{seeded: true}}, nil, 0},
		"not up to date, but all there is":  {[]string{handle("h1"), `{"sessionResumptionUpdate":{"resumable":false}}`}, nil, []visit{{handle: "h1"}}, nil, 0},
		"up to date again":                  {[]string{handle("h1"), `{"sessionResumptionUpdate":{}}`, handle("h2")}, said, []visit{{handle: "h2"}}, nil, 0},
		"a call is open":                    {[]string{handle("h1"), toolCall("c1", "book"), handle("h2")}, said, []visit{{seeded: true}}, nil, 0},
		"the old one was not noticed gone":  {[]string{handle("h1")}, said, []visit{{handle: "h1", close: 1011}, {handle: "h1"}}, nil, 500 * time.Millisecond},
		"nor later":                         {[]string{handle("h1")}, said, []visit{{handle: "h1", close: 1011}, {handle: "h1", close: 1011}, {seeded: true}}, nil, 500 * time.Millisecond},
		"it was forgotten":                  {[]string{handle("h1")}, said, []visit{{handle: "h1", close: 1008}, {seeded: true}}, nil, 0},
		"forgotten, and nothing was said":   {[]string{handle("h1")}, nil, []visit{{handle: "h1", close: 1007}, {}}, nil, 0},
		"and the service is out of service": {[]string{handle("h1")}, said, []visit{{handle: "h1", close: 1008}, {close: 1008, seeded: true}}, live.ErrRejected, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil, func(p *sockettest.Peer) {
					if p.Others != 0 {
						p.Fail("the old connection is open")
					}
					if p.Number == 1 {
						greet(p)
						for _, m := range c.first {
							p.SendBinary(m)
						}
						p.ExpectClose()
						return
					}
					v := c.visits[p.Number-2]
					p.Accept()
					setup := p.Read()["setup"].(map[string]any)
					got, _ := setup["sessionResumption"].(map[string]any)["handle"].(string)
					if got != v.handle {
						p.Fail("handle %q, want %q", got, v.handle)
					}
					if _, seeds := setup["historyConfig"]; seeds != v.seeded {
						p.Fail("history %v, want %v", seeds, v.seeded)
					}
					if v.close != 0 {
						p.Close(v.close, "no")
						return
					}
					p.SendBinary(`{"setupComplete":{}}`)
					if v.seeded {
						p.Expect(told)
					}
					p.Expect(texted("And now?"))
					p.ExpectClose()
				})
				r.connect(live.LiveConfig{})
				r.drain()
				began := time.Now()
				err := r.Connect(t.Context(), live.LiveConfig{History: c.said})
				r.is(err, c.want)
				if took := time.Since(began); took < c.took || took > c.took+100*time.Millisecond {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				synctest.Wait()
				if got := r.server.Dialled() - 1; got != len(c.visits) {
					t.Errorf("%d connections, want %d", got, len(c.visits))
				}
				if c.want == nil {
					r.ok(r.SendText(t.Context(), "And now?"))
					synctest.Wait()
				}
			})
		})
	}
}

// TestAnsweredAfter: calls of the connection before are answered in words; what is to
// be silent is only added to the conversation.
func TestAnsweredAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(p *sockettest.Peer) {
			greet(p)
			if p.Number == 1 {
				for _, id := range []string{"c1", "c2", "c3"} {
					p.SendBinary(toolCall(id, "book"))
				}
				p.ExpectClose()
				return
			}
			call := func(id string) string {
				return `{"role":"model","parts":[{"functionCall":{"id":"` + id + `","name":"book","args":{"day":"Monday"}}}]}`
			}
			response := func(id string) string {
				return `{"role":"user","parts":[{"functionResponse":{"id":"` + id + `","name":"book","response":{"ok":true}}}]}`
			}
			p.Expect(
				`{"clientContent":{"turns":[`+call("c1")+`,`+call("c3")+`,`+response("c3")+`],"turnComplete":true}}`,
				`{"clientContent":{"turns":[`+response("c1")+`]}}`,
				`{"clientContent":{"turns":[`+call("c2")+`,`+response("c2")+`]}}`,
			)
			p.ExpectClose()
		})
		r.connect(live.LiveConfig{})
		var calls []live.ToolCall
		for _, m := range r.drain() {
			calls = append(calls, m.ToolCalls...)
		}
		third := answer("c3")
		r.connect(live.LiveConfig{History: []live.Said{{Role: "tool", Call: &calls[0]}, {Role: "tool", Call: &calls[2], Response: &third}}})
		silent := func(id string) live.ToolResponse {
			a := answer(id)
			a.Scheduling = "silent"
			return a
		}
		r.ok(r.SendToolResponse(t.Context(), silent("c1"), silent("c2")))
		if r.SendToolResponse(t.Context(), silent("c3")) == nil {
			t.Error("answered twice")
		}
		synctest.Wait()
	})
}

// TestLosses: whatever happens to a connection, Receive says so.
func TestLosses(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*sockettest.Peer)
		want error
	}{
		"dropped":     {func(p *sockettest.Peer) { p.Drop() }, live.ErrLost},
		"closed 1008": {func(p *sockettest.Peer) { p.Close(1008, "expired") }, live.ErrLost},
		"told, and silent, and closed": {func(p *sockettest.Peer) {
			p.SendBinary(`{"goAway":{"timeLeft":"5s"}}`)
			p.Sleep(5 * time.Second)
			p.Close(1011, "Deadline expired before operation could complete.")
		}, live.ErrLost},
		"key revoked": {func(p *sockettest.Peer) { p.SendBinary(`{"error":{"code":403,"message":"` + key + `"}}`); p.Wait() }, live.ErrAuth},
		"only noise": {func(p *sockettest.Peer) {
			for p.TrySend("?") {
			}
		}, live.ErrLost},
		"stalled": {func(p *sockettest.Peer) { p.Stay() }, live.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil, func(p *sockettest.Peer) {
					greet(p)
					c.end(p)
				})
				r.connect(live.LiveConfig{})
				if name == "stalled" {
					r.ok(r.SendText(t.Context(), "nobody takes this"))
				}
				r.is(r.end(), c.want)
				r.is(r.end(), c.want)
				if err := r.SendText(t.Context(), "x"); err == nil {
					t.Error("sent over a connection that is gone")
				}
				r.ok(r.Close(t.Context()))
				if _, err := r.Receive(t.Context()); err != io.EOF {
					t.Error(err)
				}
				if err := r.SendText(t.Context(), "x"); !errors.Is(err, live.ErrClosed) {
					t.Error(err)
				}
			})
		})
	}
}

func TestValidate(t *testing.T) {
	if err := gemini.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		change func(*gemini.Config)
		want   string
	}{
		{func(c *gemini.Config) { c.BaseURL = "https://x" }, "base_url: must begin with wss:// or ws:// and name a host"},
		{func(c *gemini.Config) { c.BaseURL = "wss://x?key=1" }, "base_url: must hold neither a user nor parameters; set api_key instead"},
		{func(c *gemini.Config) { c.BaseURL = "wss://a/%zz" }, `base_url: is no address, must be such as "wss://generativelanguage.googleapis.com"`},
		{func(c *gemini.Config) { c.APIKey = "a\nb" }, "api_key: holds white space, a line break or a character that no header can carry"},
		{func(c *gemini.Config) { c.APIVersion = "v2" }, `api_version: "v2", must be v1beta or v1alpha`},
		{func(c *gemini.Config) { c.Model = "" }, "model: must be set"},
		{func(c *gemini.Config) { c.Voice = "" }, "voice: must be set"},
		{func(c *gemini.Config) { c.TurnDetection.Start = "medium" }, `turn_detection.start: "medium", must be high or low`},
		{func(c *gemini.Config) { c.TurnDetection.End = "x" }, `turn_detection.end: "x", must be high or low`},
		{func(c *gemini.Config) { c.TurnDetection.Silence = time.Hour }, "turn_detection: times must be between 0 and 60000 ms"},
		{func(c *gemini.Config) { c.MaxOutputTokens = -1 }, "max_output_tokens: -1, must be between 1 and 1048576, or 0"},
		{func(c *gemini.Config) { c.Lead = -1 }, "lead_ms: 0, must be between 0 and 5000"},
		{func(c *gemini.Config) { c.ConnectTimeout = 0 }, "connect_timeout_ms: 0, must be at least 1"},
	} {
		cfg := gemini.DefaultConfig()
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
		if _, err := gemini.New(cfg); err == nil {
			t.Errorf("New takes what is wrong: %s", c.want)
		}
	}
}

// TestResultsThatJSONCannotHold: the model hears that there is none.
func TestResultsThatJSONCannotHold(t *testing.T) {
	bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
		p.SendBinary(toolCall("c1", "book"))
		p.Expect(`{"toolResponse":{"functionResponses":[{"id":"c1","name":"book","response":{"error":"the result cannot be told"}}]}}`)
	}, func(r *rig) {
		r.drain()
		bad := answer("c1")
		bad.Response = map[string]any{"f": func() {}}
		r.ok(r.SendToolResponse(r.Context(), bad))
	})
}
