package gemini_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"parley/agent/live"
	"parley/agent/live/gemini"
	"parley/agent/live/socket/sockettest"
	"parley/agent/tool"
)

// record is a service that writes down n messages, the set-up first. It calls a tool
// once that is confirmed.
func record(t *testing.T, n int) (*sockettest.Server, chan map[string]any) {
	t.Helper()
	got := make(chan map[string]any, n)
	return sockettest.Loopback(t, func(p *sockettest.Peer) {
		if p.Request.URL.Path != path || p.Request.Header.Get("x-goog-api-key") != "key" {
			t.Errorf("%s, key %q", p.Request.URL.Path, p.Request.Header.Get("x-goog-api-key"))
		}
		p.Accept()
		got <- p.Read()
		p.SendBinary(`{"setupComplete":{}}`)
		p.SendBinary(`{"toolCall":{"functionCalls":[{"id":"c1","name":"slow"},{"id":"c2","name":"book"}]}}`)
		for range n - 1 {
			got <- p.Read()
		}
		p.Wait()
	}), got
}

// TestLikeTheSDK: what we send is what Google's own SDK sends for the same wishes, so
// that the connection of ours under its types changes nothing for the service.
func TestLikeTheSDK(t *testing.T) {
	const n = 9
	warm := 0.5
	schema := map[string]any{"type": "object", "properties": map[string]any{"day": map[string]any{"type": "string"}}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	server, theirs := record(t, n)
	client, err := genai.NewClient(ctx, &genai.ClientConfig{
		APIKey: "key", Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: server.URL, APIVersion: "v1beta"},
	})
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.Live.Connect(ctx, "gemini-test", &genai.LiveConnectConfig{
		ResponseModalities: []genai.Modality{genai.ModalityAudio},
		Temperature:        genai.Ptr(float32(warm)),
		MaxOutputTokens:    500,
		SpeechConfig: &genai.SpeechConfig{
			VoiceConfig: &genai.VoiceConfig{PrebuiltVoiceConfig: &genai.PrebuiltVoiceConfig{VoiceName: "Puck"}}, LanguageCode: "de-DE",
		},
		SystemInstruction: &genai.Content{Parts: []*genai.Part{{Text: "Be brief."}}},
		Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
			{Name: "slow", Description: "takes long", ParametersJsonSchema: schema, ResponseJsonSchema: schema, Behavior: genai.BehaviorNonBlocking},
			{Name: "book", Description: "books", Behavior: genai.BehaviorBlocking},
		}}},
		SessionResumption:        &genai.SessionResumptionConfig{},
		InputAudioTranscription:  &genai.AudioTranscriptionConfig{},
		OutputAudioTranscription: &genai.AudioTranscriptionConfig{},
		RealtimeInputConfig: &genai.RealtimeInputConfig{
			AutomaticActivityDetection: &genai.AutomaticActivityDetection{Disabled: true},
		},
		ContextWindowCompression: &genai.ContextWindowCompressionConfig{SlidingWindow: &genai.SlidingWindow{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	pcm := []byte{1, 2, 3, 4}
	for _, send := range []func() error{
		func() error {
			return session.SendClientContent(genai.LiveClientContentInput{Turns: []*genai.Content{
				{Role: "user", Parts: []*genai.Part{{Text: "I am Ada."}}},
				{Role: "model", Parts: []*genai.Part{{Text: "Hello Ada."}}},
				{Role: "model", Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c0", Name: "book", Args: map[string]any{"day": "Monday"}}}}},
				{Role: "user", Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "c0", Name: "book", Response: map[string]any{"ok": true}}}}},
			}})
		},
		func() error {
			return session.SendRealtimeInput(genai.LiveRealtimeInput{ActivityStart: &genai.ActivityStart{}})
		},
		func() error {
			return session.SendRealtimeInput(genai.LiveRealtimeInput{Audio: &genai.Blob{Data: pcm, MIMEType: "audio/pcm;rate=16000"}})
		},
		func() error { return session.SendRealtimeInput(genai.LiveRealtimeInput{Text: "hello"}) },
		func() error {
			return session.SendRealtimeInput(genai.LiveRealtimeInput{ActivityEnd: &genai.ActivityEnd{}})
		},
		func() error {
			return session.SendToolResponse(genai.LiveToolResponseInput{FunctionResponses: []*genai.FunctionResponse{
				{ID: "c1", Name: "slow", Response: map[string]any{"n": 1}, Scheduling: genai.FunctionResponseSchedulingWhenIdle},
			}})
		},
		func() error {
			return session.SendToolResponse(genai.LiveToolResponseInput{FunctionResponses: []*genai.FunctionResponse{
				{ID: "c2", Name: "book", Response: map[string]any{"error": "no"}},
			}})
		},
		func() error { return session.SendRealtimeInput(genai.LiveRealtimeInput{AudioStreamEnd: true}) },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}

	server, ours := record(t, n-1)
	cfg := gemini.DefaultConfig()
	cfg.APIKey, cfg.BaseURL, cfg.MaxOutputTokens = "key", server.URL, 500
	p, err := gemini.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)
	err = p.Connect(ctx, live.LiveConfig{
		Model: "gemini-test", Voice: "Puck", Instructions: "Be brief.", Language: "de-DE", Temperature: &warm,
		LocalTurns: true, LocalCuts: true, Transcribe: true,
		Tools: []live.ToolDefinition{
			{Name: "slow", Description: "takes long", ParametersJSONSchema: schema, ResponseJSONSchema: schema, Behavior: tool.ToolBehaviorNonBlocking},
			{Name: "book", Description: "books", Behavior: tool.ToolBehaviorBlocking},
		},
		History: []live.Said{
			{Role: "user", Text: "I am Ada."}, {Role: "assistant", Text: "Hello Ada."},
			{Role: "tool", Call: &live.ToolCall{ID: "c0", Name: "book", Args: map[string]any{"day": "Monday"}}, Response: &live.ToolResponse{ID: "c0", Name: "book", Response: map[string]any{"ok": true}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := p.Receive(ctx); err != nil || len(m.ToolCalls) != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, send := range []func() error{
		func() error { return p.ActivityStart(ctx) },
		func() error { return p.SendAudio(ctx, pcm) },
		func() error { return p.SendText(ctx, "hello") },
		func() error { return p.ActivityEnd(ctx) },
		func() error {
			return p.SendToolResponse(ctx, live.ToolResponse{ID: "c1", Name: "slow", Response: map[string]any{"n": 1}, Scheduling: tool.ToolResponseSchedulingWhenIdle})
		},
		func() error {
			// A model that waits is answered at once: no scheduling.
			return p.SendToolResponse(ctx, live.ToolResponse{ID: "c2", Name: "book", Response: map[string]any{"error": "no"}, Scheduling: tool.ToolResponseSchedulingSilent})
		},
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n - 1 {
		want, got := <-theirs, <-ours
		if setup, ok := got["setup"].(map[string]any); ok {
			// The SDK has the type, but its LiveConnectConfig has no place for it.
			if !cmp.Equal(setup["historyConfig"], any(map[string]any{"initialHistoryInClientContent": true})) {
				t.Errorf("historyConfig %v", setup["historyConfig"])
			}
			delete(setup, "historyConfig")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b, _ := json.Marshal(got)
			t.Errorf("message %d, -SDK +ours:\n%s\n%s", i, diff, b)
		}
	}
	// The last is for sessions whose turns the service takes.
	if want, got := <-theirs, map[string]any{"realtimeInput": map[string]any{"audioStreamEnd": true}}; !cmp.Equal(want, got) {
		t.Errorf("audioStreamEnd: the SDK sends %v", want)
	}
}
