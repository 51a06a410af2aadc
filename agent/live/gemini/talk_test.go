package gemini_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live"
	"parley/agent/live/socket/sockettest"
	"parley/agent/tool"
)

// TestTold: what the service says, and what becomes of it.
func TestTold(t *testing.T) {
	heard := func(text string) string { return content(`"inputTranscription":{"text":"` + text + `"}`) }
	spoke := func(text string) string { return content(`"outputTranscription":{"text":"` + text + `"}`) }
	user := func(text string) live.Message { return live.Message{User: live.Transcript{Delta: text}} }
	userDone := live.Message{User: live.Transcript{Done: true}}
	agent := func(turn int, text string) live.Message {
		return live.Message{Agent: live.Transcript{Delta: text}, ItemID: fmt.Sprintf("turn-1.%d", turn)}
	}
	sound := func(turn int, b ...byte) live.Message {
		return live.Message{Audio: b, ItemID: fmt.Sprintf("turn-1.%d", turn)}
	}
	done := live.Message{TurnDone: true}
	doneSaid := func(turn int) live.Message {
		return live.Message{TurnDone: true, Agent: live.Transcript{Done: true}, ItemID: fmt.Sprintf("turn-1.%d", turn)}
	}
	const pcm = "audio/pcm;rate=24000"
	complete := content(`"turnComplete":true`)
	for name, c := range map[string]struct {
		say  []string
		want []live.Message
	}{
		"a turn": {
			[]string{heard("Good "), heard("day"), spoke("Hel"), audio(pcm, "AQI="), spoke("lo"), content(`"generationComplete":true`), complete},
			[]live.Message{user("Good "), user("day"), userDone, agent(1, "Hel"), sound(1, 1, 2), agent(1, "lo"), doneSaid(1)},
		},
		"all in one message": {
			[]string{content(`"inputTranscription":{"text":"Hi"},"outputTranscription":{"text":"Hello"},"modelTurn":{"parts":[{"inlineData":{"mimeType":"` + pcm + `","data":"AQI="}}]},"turnComplete":true`)},
			[]live.Message{user("Hi"), userDone, agent(1, "Hello"), sound(1, 1, 2), doneSaid(1)},
		},
		"two turns": {
			[]string{audio(pcm, "AQI="), complete, audio(pcm, "AwQ="), complete},
			[]live.Message{sound(1, 1, 2), done, sound(2, 3, 4), done},
		},
		"transcripts that end": {
			[]string{content(`"inputTranscription":{"text":"Hi","finished":true}`), content(`"outputTranscription":{"text":"Hello"}`), content(`"outputTranscription":{"finished":true}`), complete},
			[]live.Message{{User: live.Transcript{Delta: "Hi", Done: true}}, agent(1, "Hello"), {Agent: live.Transcript{Done: true}, ItemID: "turn-1.1"}, done},
		},
		"nothing that ends": {
			[]string{content(`"inputTranscription":{"finished":true}`), content(`"outputTranscription":{"finished":true}`), content(`"inputTranscription":{}`), complete},
			[]live.Message{done},
		},
		"no reply to a caller": {[]string{heard("Hm"), complete}, []live.Message{user("Hm"), userDone, done}},
		"half samples": {
			[]string{audio(pcm, "AQID"), audio(pcm, "BA=="), audio(pcm, "BQ=="), complete, audio(pcm, "Bgc=")},
			[]live.Message{sound(1, 1, 2), sound(1, 3, 4), done, sound(2, 6, 7)},
		},
		"interrupted": {
			[]string{spoke("Hello"), audio(pcm, "AQID"), content(`"interrupted":true`), complete, audio(pcm, "BAU=")},
			[]live.Message{agent(1, "Hello"), sound(1, 1, 2), {Interrupted: true}, done, sound(2, 4, 5)},
		},
		"thoughts and written text": {
			[]string{content(`"modelTurn":{"parts":[{"thought":true,"text":"Hm."},{"text":"written"},null,{"inlineData":{"mimeType":"` + pcm + `"}}]}`)},
			nil,
		},
		"usage": {
			[]string{`{"usageMetadata":{"promptTokenCount":1}}`, `{"serverContent":{"turnComplete":true},"usageMetadata":{"promptTokenCount":20,"toolUsePromptTokenCount":5,"responseTokenCount":10,"thoughtsTokenCount":2}}`, complete},
			[]live.Message{{TurnDone: true, InputTokens: 25, OutputTokens: 12}, done},
		},
		"the service's ears": {
			[]string{`{"voiceActivity":{"voiceActivityType":"ACTIVITY_START"}}`, `{"voiceActivity":{"voiceActivityType":"ACTIVITY_END"}}`, `{"voiceActivityDetectionSignal":{"vadSignalType":"VAD_SIGNAL_TYPE_SOS"}}`, `{"voiceActivityDetectionSignal":{"vadSignalType":"VAD_SIGNAL_TYPE_EOS"}}`, `{"voiceActivity":{}}`},
			[]live.Message{{SpeechStarted: true}, {SpeechStopped: true}, {SpeechStarted: true}, {SpeechStopped: true}},
		},
		"its end":             {[]string{`{"goAway":{"timeLeft":"5.5s"}}`, `{"goAway":{}}`}, []live.Message{{GoAway: &live.GoAway{TimeLeft: 5500 * time.Millisecond}}, {GoAway: &live.GoAway{}}}},
		"what nobody knows":   {[]string{`{"new":{"a":1}}`, `{}`, handle("h"), content(`"interimInputTranscription":{"text":"no"}`)}, nil},
		"it waits for more":   {[]string{content(`"turnComplete":true,"turnCompleteReason":"NEED_MORE_INPUT"`)}, []live.Message{done}},
		"calls, taken back":   {[]string{toolCall("c1", "book"), `{"toolCallCancellation":{"ids":["c1","c9"]}}`, `{"toolCallCancellation":{"ids":["c1"]}}`}, []live.Message{{ToolCalls: []live.ToolCall{{ID: "c1", Name: "book", Args: map[string]any{"day": "Monday"}}}}, {CancelledCalls: []string{"c1"}}}},
		"calls, said twice":   {[]string{toolCall("c1", "book"), toolCall("c1", "book")}, []live.Message{{ToolCalls: []live.ToolCall{{ID: "c1", Name: "book", Args: map[string]any{"day": "Monday"}}}}}},
		"calls of nothing":    {[]string{`{"toolCall":{"functionCalls":[null,{"id":"c1"}]}}`, `{"toolCall":{}}`}, nil},
		"a call after words":  {[]string{heard("Book"), `{"toolCall":{"functionCalls":[{"id":"c1","name":"x"}]}}`}, []live.Message{user("Book"), userDone, {ToolCalls: []live.ToolCall{{ID: "c1", Name: "x", Args: map[string]any{}}}}}},
		"a type that is none": {[]string{audio("", "AQI=")}, []live.Message{sound(1, 1, 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
				for _, m := range c.say {
					p.SendBinary(m)
				}
			}, func(r *rig) {
				if got := r.drain(); !reflect.DeepEqual(got, c.want) {
					r.Errorf("got\n %+v\nwant\n %+v", got, c.want)
				}
			})
		})
	}
}

// TestWarnings: errors that end nothing are told, without secrets.
func TestWarnings(t *testing.T) {
	for say, kind := range map[string]error{
		`{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"no"}}`:           nil,
		`{"error":{"code":503,"status":"UNAVAILABLE","message":"later ` + key + `"}}`: live.ErrBusy,
		`{"error":{"message":"quota"}}`:                                               live.ErrBusy,
		content(`"turnComplete":true,"turnCompleteReason":"RESPONSE_REJECTED"`):       nil,
		content(`"turnComplete":true,"turnCompleteReason":"MALFORMED_FUNCTION_CALL"`): nil,
		`no JSON`: nil,
		`{"serverContent":{"turnComplete":"perhaps"}}`: nil,
	} {
		bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) { p.SendBinary(say) }, func(r *rig) {
			all := r.drain()
			if len(all) != 1 || all[0].Warning == nil || kind != nil && !errors.Is(all[0].Warning, kind) {
				r.Fatalf("%s: %+v", say, all)
			}
			r.is(all[0].Warning, all[0].Warning)
		})
	}
}

// TestFormat is BR-155: audio of another format is an error, not noise.
func TestFormat(t *testing.T) {
	for mimeType, right := range map[string]bool{
		"audio/pcm;rate=24000": true, "audio/pcm; rate=24000": true, "AUDIO/PCM;rate=24000": true, "audio/pcm": true,
		"audio/pcm;rate=16000": false, "audio/wav": false, "audio/mpeg": false, "audio/pcm;rate": false, "text/plain": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil, func(p *sockettest.Peer) {
				greet(p)
				p.SendBinary(audio(mimeType, "AQI="))
				p.Wait()
			})
			r.connect(live.LiveConfig{})
			m, err := r.Receive(t.Context())
			switch {
			case right && (err != nil || len(m.Audio) != 2):
				t.Errorf("%s: %+v, %v", mimeType, m, err)
			case !right && (!errors.Is(err, live.ErrRejected) || len(m.Audio) > 0):
				t.Errorf("%s: %+v, %v", mimeType, m, err)
			}
		})
	}
}

// TestToolAnswers: only calls that the model does not wait for have a scheduling.
func TestToolAnswers(t *testing.T) {
	tools := []live.ToolDefinition{{Name: "book", Behavior: tool.ToolBehaviorNonBlocking}, {Name: "find"}, {Name: "9lives"}, {Name: "_9lives"}}
	scheduled := func(id string, s live.ToolResponseScheduling) live.ToolResponse {
		a := answer(id)
		a.Scheduling = s
		return a
	}
	bubble(t, live.LiveConfig{Tools: tools}, func(p *sockettest.Peer) {
		for _, id := range []string{"c1", "c2", "c3", "c4"} {
			p.SendBinary(toolCall(id, "book"))
		}
		p.SendBinary(toolCall("c5", "find"))
		p.SendBinary(toolCall("c6", "__9lives"))
		p.SendBinary(`{"toolCall":{"functionCalls":[{"name":"find"}]}}`)
		p.Expect(
			answered("c1", ""), answered("c2", `,"scheduling":"SILENT"`), answered("c3", `,"scheduling":"WHEN_IDLE"`), answered("c4", `,"scheduling":"INTERRUPT"`),
			`{"toolResponse":{"functionResponses":[{"id":"c5","name":"find","response":{"ok":true}},{"id":"c6","name":"__9lives","response":{"output":""}},{"name":"find","response":{"ok":true}}]}}`,
		)
	}, func(r *rig) {
		var calls []live.ToolCall
		for _, m := range r.drain() {
			calls = append(calls, m.ToolCalls...)
		}
		if len(calls) != 7 || calls[5].Name != "9lives" || calls[6].ID == "" {
			r.Fatalf("%+v", calls)
		}
		ctx := r.Context()
		r.ok(r.SendToolResponse(ctx, scheduled("c1", tool.ToolResponseSchedulingUnspecified)))
		r.ok(r.SendToolResponse(ctx, scheduled("c2", tool.ToolResponseSchedulingSilent)))
		r.ok(r.SendToolResponse(ctx, scheduled("c3", tool.ToolResponseSchedulingWhenIdle)))
		r.ok(r.SendToolResponse(ctx, scheduled("c4", tool.ToolResponseSchedulingInterrupt)))
		nameless := answer(calls[6].ID)
		r.ok(r.SendToolResponse(ctx, scheduled("c5", tool.ToolResponseSchedulingSilent), live.ToolResponse{ID: "c6", Name: "9lives"}, nameless))
		if err := r.SendToolResponse(ctx, answer("c1")); err == nil {
			r.Error("answered twice")
		}
	})
}

// TestLocalTurns: the service hears the caller's turns, from a little before they were
// noticed, and nothing else.
func TestLocalTurns(t *testing.T) {
	ms := func(n int, b byte) []byte {
		out := make([]byte, 32*n)
		for i := range out {
			out[i] = b
		}
		return out
	}
	sent := func(pcm []byte) string {
		return `{"realtimeInput":{"audio":{"data":"` + base64.StdEncoding.EncodeToString(pcm) + `","mimeType":"audio/pcm;rate=16000"}}}`
	}
	const start, end = `{"realtimeInput":{"activityStart":{}}}`, `{"realtimeInput":{"activityEnd":{}}}`
	bubble(t, live.LiveConfig{LocalTurns: true}, func(p *sockettest.Peer) {
		p.Expect(start, sent(append(ms(300, 1), ms(100, 2)...)), sent(ms(20, 3)), texted("in between"), end)
		p.Expect(start, texted("alone"), end)
		p.Expect(start, texted("[An instruction for you, which the caller has not said: Greet.]"), end)
	}, func(r *rig) {
		ctx := r.Context()
		r.ok(r.SendAudio(ctx, ms(1000, 1)))
		r.ok(r.SendAudio(ctx, ms(100, 2)))
		r.ok(r.SendAudio(ctx, nil))
		r.ok(r.ActivityEnd(ctx)) // of nothing
		r.ok(r.ActivityStart(ctx))
		r.ok(r.ActivityStart(ctx))
		r.ok(r.SendAudio(ctx, ms(20, 3)))
		r.ok(r.SendText(ctx, "in between"))
		r.ok(r.EndAudioStream(ctx))
		r.ok(r.ActivityEnd(ctx))
		r.ok(r.SendText(ctx, "alone"))
		r.ok(r.Instruct(ctx, "Greet."))
		if r.SendAudio(ctx, make([]byte, 3)) == nil {
			r.Error("3 bytes are taken for samples of 16 bits")
		}
	})
	bubble(t, live.LiveConfig{}, func(p *sockettest.Peer) {
		p.Expect(sent(ms(20, 1)), `{"realtimeInput":{"audioStreamEnd":true}}`, texted("hello"))
	}, func(r *rig) {
		ctx := r.Context()
		r.ok(r.SendAudio(ctx, ms(20, 1)))
		r.ok(r.EndAudioStream(ctx))
		r.ok(r.SendText(ctx, "hello"))
		if r.ActivityStart(ctx) == nil || r.ActivityEnd(ctx) == nil {
			r.Error("turns of ours in a session without")
		}
		synctest.Wait()
	})
}
