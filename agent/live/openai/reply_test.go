package openai_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"parley/agent/live"
	"parley/agent/live/socket/sockettest"
	"parley/agent/tool"
)

// TestToolAnswers: the model goes on once, when the last call is answered and its
// reply has ended.
func TestToolAnswers(t *testing.T) {
	two := append(call("r1", "c1", "book", `"{\"day\":\"Monday\"}"`), call("r1", "c2", "book", `"{}"`)...)
	silent := func(id string) live.ToolResponse {
		a := answer(id)
		a.Scheduling = tool.ToolResponseSchedulingSilent
		return a
	}
	t.Run("after the reply", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Send(append(append([]string{created("r1")}, two...), done("r1", "completed", "", ""))...)
			p.Expect(answered("c2"), answered("c1"), ask)
			p.Send(created("r2"), done("r2", "completed", "", ""))
		}, func(r *rig) {
			if c := r.next().ToolCalls; c[0].ID != "c1" || c[0].Args["day"] != "Monday" {
				r.Errorf("%+v", c)
			}
			r.next()
			if m := r.next(); !m.TurnDone || m.InputTokens != 7 || m.OutputTokens != 3 {
				r.Errorf("%+v", m)
			}
			r.ok(r.SendToolResponse(r.Context(), answer("c2")))
			synctest.Wait()
			r.ok(r.SendToolResponse(r.Context(), answer("c1")))
			r.next()
		})
	})
	t.Run("before it has ended", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Send(append([]string{created("r1")}, two...)...)
			p.Expect(answered("c1"), answered("c2"))
			p.Send(done("r1", "completed", "", ""))
			p.Expect(ask)
		}, func(r *rig) {
			r.next()
			r.next()
			r.ok(r.SendToolResponse(r.Context(), answer("c1"), answer("c2")))
			synctest.Wait()
			r.next()
		})
	})
	t.Run("silently", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Send(append(append([]string{created("r1")}, two...), done("r1", "completed", "", ""))...)
			p.Expect(answered("c1"), answered("c2"))
		}, func(r *rig) {
			r.next()
			r.next()
			r.next()
			r.ok(r.SendToolResponse(r.Context(), silent("c1"), silent("c2")))
		})
	})
	t.Run("one of them silently", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Send(append(append([]string{created("r1")}, two...), done("r1", "completed", "", ""))...)
			p.Expect(answered("c1"), answered("c2"), ask)
		}, func(r *rig) {
			r.next()
			r.next()
			r.next()
			r.ok(r.SendToolResponse(r.Context(), answer("c1"), silent("c2")))
		})
	})
	t.Run("while the model speaks", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Send(append(append([]string{created("r1")}, two...), done("r1", "completed", "", ""), created("r2"))...)
			p.Expect(answered("c1"), answered("c2"))
			p.Send(done("r2", "completed", "", ""))
			p.Expect(ask)
		}, func(r *rig) {
			r.next()
			r.next()
			r.next()
			r.quiet()
			r.ok(r.SendToolResponse(r.Context(), answer("c1"), answer("c2")))
			r.next()
		})
	})
	t.Run("interrupting it", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Send(append(append([]string{created("r1")}, two[:3]...), done("r1", "completed", "", ""), created("r2"))...)
			p.Expect(answered("c1"), `{"type":"response.cancel","response_id":"r2"}`)
			p.Send(done("r2", "cancelled", "client_cancelled", ""))
			p.Expect(ask)
		}, func(r *rig) {
			r.next()
			r.next()
			r.quiet()
			a := answer("c1")
			a.Scheduling = tool.ToolResponseSchedulingInterrupt
			r.ok(r.SendToolResponse(r.Context(), a))
			if m := r.next(); !m.Interrupted || !m.TurnDone {
				r.Errorf("%+v", m)
			}
		})
	})
	t.Run("while the caller speaks", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Send(append(append([]string{created("r1")}, two[:3]...), done("r1", "completed", "", ""), `{"type":"input_audio_buffer.speech_started"}`)...)
			p.Expect(answered("c1"))
			p.Send(`{"type":"input_audio_buffer.speech_stopped"}`, created("r2"), done("r2", "completed", "", ""))
			// The reply to the caller knew of it.
		}, func(r *rig) {
			r.next()
			r.next()
			r.next()
			r.ok(r.SendToolResponse(r.Context(), answer("c1")))
			r.next()
			r.next()
			r.quiet()
		})
	})
	t.Run("nobody asked", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {}, func(r *rig) {
			if err := r.SendToolResponse(r.Context(), answer("c9")); err == nil || errors.Is(err, live.ErrClosed) {
				r.Error(err)
			}
		})
	})
}

// TestOneReplyAtATime: what the service refuses while it speaks is asked for later.
func TestOneReplyAtATime(t *testing.T) {
	hello := `{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}}`
	t.Run("known", func(t *testing.T) {
		bubble(t, live.LiveConfig{Instructions: "Be kind."}, func(p *sockettest.Peer) {
			p.Expect(hello, ask, hello, hello)
			p.Send(created("r1"), done("r1", "completed", "", ""))
			p.Expect(ask)
			p.Send(created("r2"), done("r2", "completed", "", ""))
			p.Expect(`{"type":"response.create","response":{"instructions":"Be kind.\n\nSay sorry."}}`)
		}, func(r *rig) {
			for range 3 {
				r.ok(r.SendText(r.Context(), "hello"))
			}
			r.ok(r.Instruct(r.Context(), "Say sorry."))
			r.next()
			r.next()
		})
	})
	t.Run("the service was faster", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Expect(hello)
			id := p.Read()["event_id"].(string)
			p.Send(created("vad"),
				`{"type":"error","error":{"type":"invalid_request_error","code":"conversation_already_has_active_response","message":"in progress: vad","event_id":"`+id+`"}}`,
				done("vad", "completed", "", ""))
			p.Expect(ask)
			p.Send(created("r2"), done("r2", "completed", "", ""))
		}, func(r *rig) {
			r.ok(r.SendText(r.Context(), "hello"))
			if m := r.next(); !m.TurnDone || m.Warning != nil {
				r.Errorf("%+v", m)
			}
			r.next()
			r.quiet()
		})
	})
	t.Run("and is heard of late", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Expect(hello)
			id := p.Read()["event_id"].(string)
			p.Send(`{"type":"error","error":{"code":"conversation_already_has_active_response","event_id":"` + id + `"}}`)
			p.Expect(hello)
			p.Send(done("vad", "completed", "", ""))
			p.Expect(ask)
		}, func(r *rig) {
			r.ok(r.SendText(r.Context(), "hello"))
			r.quiet()
			r.ok(r.SendText(r.Context(), "hello"))
			r.next()
		})
	})
	t.Run("its own attempt failed", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Send(created("r1"), `{"type":"error","error":{"code":"conversation_already_has_active_response","event_id":null}}`,
				`{"type":"error","error":{"code":"response_cancel_not_active","event_id":"x"}}`, done("r1", "completed", "", ""))
		}, func(r *rig) {
			if m := r.next(); !m.TurnDone || m.Warning != nil {
				r.Errorf("%+v", m)
			}
			r.quiet()
		})
	})
	// Some services do not say what the error is about.
	for name, said := range map[string]bool{"our wish is refused": true, "a wish is refused, as it seems": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
				p.Expect(hello)
				id := p.Read()["event_id"].(string)
				p.Expect(hello)
				if !said {
					id = ""
				}
				p.Send(`{"type":"error","error":{"type":"invalid_request_error","code":"bad","message":"no","event_id":"` + id + `"}}`)
				p.Expect(ask)
			}, func(r *rig) {
				r.ok(r.SendText(r.Context(), "hello"))
				r.ok(r.SendText(r.Context(), "hello"))
				if m := r.next(); m.Warning == nil || !m.TurnDone {
					r.Errorf("%+v", m)
				}
			})
		})
	}
	t.Run("too many wait", func(t *testing.T) {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
			p.Send(created("r1"))
		}, func(r *rig) {
			r.quiet()
			var err error
			n := 0
			for ; err == nil && n < 100; n++ {
				err = r.Instruct(r.Context(), "Say something.")
			}
			if n != 17 {
				r.Errorf("%d: %v", n, err)
			}
		})
	})
}

// TestReplyFails: the caller is not left waiting.
func TestReplyFails(t *testing.T) {
	for name, c := range map[string]struct {
		details string
		kind    error
		text    string
	}{
		"failed":     {`"failed","status_details":{"type":"failed","error":{"type":"tokens","code":"rate_limit_exceeded","message":"slow ` + key + `"}}`, live.ErrBusy, "rate_limit_exceeded: slow …"},
		"unknown":    {`"failed","status_details":{"error":{}}`, live.ErrBusy, ""},
		"incomplete": {`"incomplete","status_details":{"type":"incomplete","reason":"max_output_tokens"}`, nil, "max_output_tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
				p.Send(created("r1"), `{"type":"response.done","response":{"id":"r1","status":`+c.details+`,"output":[],"usage":null}}`)
			}, func(r *rig) {
				m := r.next()
				if !m.TurnDone || m.Warning == nil || c.kind != nil && !errors.Is(m.Warning, c.kind) || !strings.Contains(m.Warning.Error(), c.text) {
					r.Errorf("%+v", m)
				}
				r.is(m.Warning, m.Warning)
			})
		})
	}
}

// TestArguments: calls are told whole, once, however the service spells them.
func TestArguments(t *testing.T) {
	added := `{"type":"response.output_item.added","response_id":"r1","item":{"id":"i1","type":"function_call","call_id":"c1","name":"book"}}`
	delta := func(s string) string {
		return `{"type":"response.function_call_arguments.delta","response_id":"r1","item_id":"i1","call_id":"c1","delta":` + s + `}`
	}
	args := func(s string) string {
		return `{"type":"response.function_call_arguments.done","response_id":"r1","item_id":"i1","call_id":"c1","arguments":` + s + `}`
	}
	item := func(status, s string) string {
		return `{"id":"i1","type":"function_call","status":"` + status + `","call_id":"c1","name":"book","arguments":` + s + `}`
	}
	itemDone := func(status, s string) string {
		return `{"type":"response.output_item.done","response_id":"r1","item":` + item(status, s) + `}`
	}
	refused := func(why string) string {
		return `{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"c1","output":"{\"error\":\"` + why + `\"}"}}`
	}
	day := map[string]any{"day": "Monday"}
	for name, c := range map[string]struct {
		say    []string
		output string
		want   map[string]any // nil: no call
		sent   []string
		warned bool
	}{
		"in pieces":        {[]string{added, delta(`"{\"day\":"`), delta(`"\"Monday\"}"`), args(`"{\"day\":\"Monday\"}"`), itemDone("completed", `"{\"day\":\"Monday\"}"`)}, item("completed", `"{\"day\":\"Monday\"}"`), day, nil, false},
		"pieces only":      {[]string{added, delta(`"{\"day\":"`), delta(`"\"Monday\"}"`), args(`""`)}, "", day, nil, false},
		"without added":    {[]string{args(`"{\"day\":\"Monday\"}"`), itemDone("completed", `"{\"day\":\"Monday\"}"`)}, "", day, nil, false},
		"the item only":    {[]string{itemDone("completed", `"{\"day\":\"Monday\"}"`)}, "", day, nil, false},
		"in the reply":     {nil, item("completed", `"{\"day\":\"Monday\"}"`), day, nil, false},
		"none":             {[]string{added, args(`""`)}, "", map[string]any{}, nil, false},
		"a large number":   {[]string{added, args(`"{\"order\":12345678901234567}"`)}, "", map[string]any{"order": json.Number("12345678901234567")}, nil, false},
		"null":             {[]string{added, args(`"null"`)}, "", map[string]any{}, nil, false},
		"no object":        {[]string{added, args(`"[1]"`), itemDone("completed", `"[1]"`)}, "", nil, []string{refused("the arguments are no JSON object"), ask}, true},
		"no JSON":          {[]string{added, args(`"{day"`)}, item("completed", `"{day"`), nil, []string{refused("the arguments are no JSON object"), ask}, true},
		"cut off":          {[]string{added, delta(`"{\"day\":"`), args(`"{\"day\":"`), itemDone("incomplete", `"{\"day\":"`)}, "", nil, []string{refused("the call was cut off")}, false},
		"too long":         {[]string{added, args(`"{\"a\":\"` + strings.Repeat("x", 300_000) + `\"}"`), itemDone("completed", `"{\"a\":\"`+strings.Repeat("x", 300_000)+`\"}"`)}, "", nil, []string{refused("the arguments are no JSON object"), ask}, true},
		"without an id":    {[]string{`{"type":"response.output_item.done","response_id":"r1","item":{"id":"i1","type":"function_call","name":"book","arguments":"{}"}}`}, "", nil, nil, true},
		"another item":     {[]string{`{"type":"response.output_item.done","response_id":"r1","item":{"id":"i1","type":"message"}}`}, "", nil, nil, false},
		"endless in parts": {append([]string{added}, strings.Split(strings.Repeat(delta(`"`+strings.Repeat("x", 1000)+`"`)+"\n", 300), "\n")[:300]...), "", nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
				p.Send(created("r1"))
				p.Send(c.say...)
				p.Send(done("r1", "completed", "", c.output))
				p.Expect(c.sent...)
			}, func(r *rig) {
				var calls []live.ToolCall
				warned := false
				for {
					m := r.next()
					calls = append(calls, m.ToolCalls...)
					warned = warned || m.Warning != nil
					if m.TurnDone {
						break
					}
				}
				if warned != c.warned {
					r.Errorf("warned %v, want %v", warned, c.warned)
				}
				if c.want == nil {
					if len(calls) != 0 {
						r.Errorf("%+v", calls)
					}
					return
				}
				if want := []live.ToolCall{{ID: "c1", Name: "book", Args: c.want}}; !reflect.DeepEqual(calls, want) {
					r.Errorf("%+v, want %+v", calls, want)
				}
			})
		})
	}
}

// TestTranscripts: each is told once, whole.
func TestTranscripts(t *testing.T) {
	user := func(kind, id, text string) string {
		member := map[string]string{"delta": "delta", "completed": "transcript"}[kind]
		return `{"type":"conversation.item.input_audio_transcription.` + kind + `","item_id":"` + id + `","` + member + `":"` + text + `"}`
	}
	agent := func(kind, id, text string) string {
		member := map[string]string{"delta": "delta", "done": "transcript"}[kind]
		return `{"type":"response.output_audio_transcript.` + kind + `","response_id":"r1","item_id":"` + id + `","` + member + `":"` + text + `"}`
	}
	said := func(text string) live.Transcript { return live.Transcript{Text: text, Done: true} }
	more := func(text string) live.Transcript { return live.Transcript{Delta: text} }
	for name, c := range map[string]struct {
		say         []string
		user, agent []live.Transcript
		warned      bool
	}{
		"the caller":               {[]string{user("delta", "u1", "Good "), user("delta", "u1", "day"), user("completed", "u1", "Good day")}, []live.Transcript{more("Good "), more("day"), said("Good day")}, nil, false},
		"said twice":               {[]string{user("completed", "u1", "Hi"), user("completed", "u1", "Hi"), user("delta", "u1", "Hi")}, []live.Transcript{said("Hi")}, nil, false},
		"two turns crossing":       {[]string{user("delta", "u1", "One"), user("delta", "u2", "Two"), user("completed", "u2", "Two"), user("delta", "u1", " more"), user("completed", "u1", "One more")}, []live.Transcript{more("One"), said("Two"), more(" more"), said("One more")}, nil, false},
		"nothing understood":       {[]string{user("completed", "u1", "")}, nil, nil, false},
		"failed":                   {[]string{`{"type":"conversation.item.input_audio_transcription.failed","item_id":"u1","error":{"code":"audio_unintelligible","message":"no"}}`}, nil, nil, true},
		"failed on the way":        {[]string{user("delta", "u1", "Good"), `{"type":"conversation.item.input_audio_transcription.failed","item_id":"u1","error":{}}`}, []live.Transcript{more("Good"), {Done: true}}, nil, true},
		"the agent":                {[]string{created("r1"), agent("delta", "i1", "Hel"), agent("delta", "i1", "lo"), agent("done", "i1", "Hello"), agent("done", "i1", "Hello"), done("r1", "completed", "", "")}, nil, []live.Transcript{more("Hel"), more("lo"), said("Hello")}, false},
		"all at once":              {[]string{created("r1"), agent("done", "i1", "Hello"), agent("delta", "i1", "Hello"), done("r1", "completed", "", "")}, nil, []live.Transcript{said("Hello")}, false},
		"never done":               {[]string{created("r1"), agent("delta", "i1", "Hello"), done("r1", "completed", "", "")}, nil, []live.Transcript{more("Hello"), {Done: true}}, false},
		"two items":                {[]string{created("r1"), agent("delta", "i1", "One"), agent("done", "i1", "One"), agent("delta", "i2", "Two"), agent("done", "i2", "Two"), done("r1", "completed", "", "")}, nil, []live.Transcript{more("One"), said("One"), more("Two"), said("Two")}, false},
		"written and not spoken":   {[]string{created("r1"), `{"type":"response.output_text.delta","response_id":"r1","item_id":"i1","delta":"Hel"}`, `{"type":"response.output_text.done","response_id":"r1","item_id":"i1","text":"Hello"}`, done("r1", "completed", "", "")}, nil, []live.Transcript{more("Hel"), said("Hello")}, false},
		"done without any content": {[]string{created("r1"), agent("done", "i1", ""), done("r1", "completed", "", "")}, nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
				p.Send(c.say...)
				p.Send(`{"type":"input_audio_buffer.speech_started"}`)
			}, func(r *rig) {
				var user, agent []live.Transcript
				warned := false
				for m := r.next(); !m.SpeechStarted; m = r.next() {
					if m.User != (live.Transcript{}) {
						user = append(user, m.User)
					}
					if m.Agent != (live.Transcript{}) {
						agent = append(agent, m.Agent)
					}
					warned = warned || m.Warning != nil
				}
				if !reflect.DeepEqual(user, c.user) || !reflect.DeepEqual(agent, c.agent) || warned != c.warned {
					r.Errorf("the caller %+v\nthe agent %+v\nwarned %v", user, agent, warned)
				}
			})
		})
	}
}
