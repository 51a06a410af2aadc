package gemini

import (
	"encoding/json"
	"strings"

	"google.golang.org/genai"

	"parley/agent/live"
	"parley/agent/tool"
)

// setup is the first message. handle names a conversation to go on with; seed says
// that what was said before follows.
func (c Config) setup(s live.LiveConfig, names *names, handle string, seed bool) *genai.LiveClientSetup {
	voice := s.Voice
	if voice == "" {
		voice = c.Voice
	}
	out := &genai.LiveClientSetup{
		Model: modelName(s.Model, c.Model),
		GenerationConfig: &genai.GenerationConfig{
			ResponseModalities: []genai.Modality{genai.ModalityAudio},
			MaxOutputTokens:    int32(c.MaxOutputTokens),
			SpeechConfig: &genai.SpeechConfig{
				VoiceConfig:  &genai.VoiceConfig{PrebuiltVoiceConfig: &genai.PrebuiltVoiceConfig{VoiceName: voice}},
				LanguageCode: s.Language,
			},
		},
		RealtimeInputConfig: c.input(s),
		SessionResumption:   &genai.SessionResumptionConfig{Handle: handle},
	}
	if s.Temperature != nil {
		out.GenerationConfig.Temperature = genai.Ptr(float32(*s.Temperature))
	}
	if s.Instructions != "" {
		out.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: s.Instructions}}}
	}
	if s.Transcribe {
		out.InputAudioTranscription = &genai.AudioTranscriptionConfig{}
		out.OutputAudioTranscription = &genai.AudioTranscriptionConfig{}
	}
	if c.Compress {
		out.ContextWindowCompression = &genai.ContextWindowCompressionConfig{SlidingWindow: &genai.SlidingWindow{}}
	}
	if seed {
		// Without it what is told of before would be taken for a turn to answer.
		out.HistoryConfig = &genai.HistoryConfig{InitialHistoryInClientContent: true}
	}
	if len(s.Tools) > 0 {
		functions := &genai.Tool{}
		for _, d := range s.Tools {
			functions.FunctionDeclarations = append(functions.FunctionDeclarations, declaration(d, names))
		}
		out.Tools = []*genai.Tool{functions}
	}
	return out
}

// modelName is the first name that there is, as the service writes it.
func modelName(names ...string) string {
	for _, name := range names {
		switch {
		case name == "":
		case strings.Contains(name, "/"):
			return name
		default:
			return "models/" + name
		}
	}
	return ""
}

// input is what becomes of the caller's audio.
func (c Config) input(s live.LiveConfig) *genai.RealtimeInputConfig {
	in := &genai.RealtimeInputConfig{AutomaticActivityDetection: c.TurnDetection.detection()}
	switch {
	case s.LocalTurns:
		// ActivityStart is ours, and with it the cut: the service must stop then, or it
		// would answer only when all of its reply could have been heard.
		in.AutomaticActivityDetection = &genai.AutomaticActivityDetection{Disabled: true}
	case s.LocalCuts:
		in.ActivityHandling = genai.ActivityHandlingNoInterruption
	}
	if in.AutomaticActivityDetection == nil && in.ActivityHandling == "" {
		return nil
	}
	return in
}

// declaration is a tool as the service is told of it.
func declaration(d live.ToolDefinition, names *names) *genai.FunctionDeclaration {
	f := &genai.FunctionDeclaration{Name: names.theirs(d.Name), Description: d.Description}
	// A nil map in an interface would be sent as null.
	if d.ParametersJSONSchema != nil {
		f.ParametersJsonSchema = d.ParametersJSONSchema
	}
	if d.ResponseJSONSchema != nil {
		f.ResponseJsonSchema = d.ResponseJSONSchema
	}
	switch d.Behavior {
	case tool.ToolBehaviorBlocking:
		f.Behavior = genai.BehaviorBlocking
	case tool.ToolBehaviorNonBlocking:
		f.Behavior = genai.BehaviorNonBlocking
	}
	return f
}

// scheduling is when a result is spoken of, for calls that the model does not wait
// for.
func scheduling(s live.ToolResponseScheduling) genai.FunctionResponseScheduling {
	switch s {
	case tool.ToolResponseSchedulingSilent:
		return genai.FunctionResponseSchedulingSilent
	case tool.ToolResponseSchedulingWhenIdle:
		return genai.FunctionResponseSchedulingWhenIdle
	case tool.ToolResponseSchedulingInterrupt:
		return genai.FunctionResponseSchedulingInterrupt
	}
	return ""
}

// history is what was said before, as turns of a conversation.
func history(said []live.Said, names *names) (turns []*genai.Content) {
	add := func(role genai.Role, p *genai.Part) {
		turns = append(turns, genai.NewContentFromParts([]*genai.Part{p}, role))
	}
	for _, s := range said {
		switch {
		case s.Text == "":
		case s.Role == "user":
			add(genai.RoleUser, &genai.Part{Text: s.Text})
		case s.Role == "assistant":
			add(genai.RoleModel, &genai.Part{Text: s.Text})
		}
		if s.Call != nil {
			add(genai.RoleModel, &genai.Part{FunctionCall: &genai.FunctionCall{ID: s.Call.ID, Name: names.theirs(s.Call.Name), Args: s.Call.Args}})
		}
		if s.Response != nil {
			add(genai.RoleUser, &genai.Part{FunctionResponse: response(*s.Response, names, false)})
		}
	}
	return turns
}

// response is the answer to a call. Only calls that the model does not wait for have
// a scheduling.
func response(r live.ToolResponse, names *names, late bool) *genai.FunctionResponse {
	f := &genai.FunctionResponse{ID: r.ID, Name: names.theirs(r.Name), Response: r.Response}
	if len(f.Response) == 0 {
		f.Response = map[string]any{"output": ""} // the SDK leaves an empty one out, the service wants one
	} else if _, err := json.Marshal(f.Response); err != nil {
		f.Response = map[string]any{"error": "the result cannot be told"}
	}
	if late {
		f.Scheduling = scheduling(r.Scheduling)
	}
	return f
}

// names translates the names of tools: the service wants a letter or '_' first.
type names struct{ to, from map[string]string }

func newNames(tools []live.ToolDefinition) *names {
	n := &names{to: map[string]string{}, from: map[string]string{}}
	taken := map[string]bool{}
	for _, d := range tools {
		taken[d.Name] = true
	}
	for _, d := range tools {
		theirs := d.Name
		for !begins(theirs) || theirs != d.Name && taken[theirs] {
			theirs = "_" + theirs
		}
		taken[theirs] = true
		n.to[d.Name], n.from[theirs] = theirs, d.Name
	}
	return n
}

func begins(name string) bool {
	if name == "" {
		return true
	}
	c := name[0]
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (n *names) theirs(ours string) string {
	if t, ok := n.to[ours]; ok {
		return t
	}
	return ours
}

func (n *names) ours(theirs string) string {
	if o, ok := n.from[theirs]; ok {
		return o
	}
	return theirs
}
