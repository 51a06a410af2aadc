package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"parley/agent/live"
	"parley/agent/live/socket"
)

// object is a JSON object on its way to the service.
type object = map[string]any

// dialing is how to reach the service for a session with model.
func (c Config) dialing(model string) (socket.Config, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return socket.Config{}, fmt.Errorf("openai: %w: the address cannot be read", live.ErrRejected)
	}
	q := u.Query()
	if !q.Has("model") && !q.Has("deployment") {
		q.Set("model", model)
		u.RawQuery = q.Encode()
	}
	header := http.Header{}
	if c.APIKey != "" {
		header.Set("Authorization", "Bearer "+c.APIKey)
	}
	if c.Beta {
		header.Set("OpenAI-Beta", "realtime=v1")
	}
	return socket.Config{
		Name: "openai", URL: u.String(), Header: header, Secrets: []string{c.APIKey}, Transport: c.Transport,
	}, nil
}

// format is how the service names an encoding.
type format struct {
	Type string `json:"type"`
	Rate int    `json:"rate,omitempty"`
}

// wireRate is the only rate of PCM that the service takes.
const wireRate = 24000

// formats are the names of an encoding: the present one and the one of the beta.
func formats(e live.Encoding) (format, string) {
	switch e {
	case live.PCMU:
		return format{Type: "audio/pcmu"}, "g711_ulaw"
	case live.PCMA:
		return format{Type: "audio/pcma"}, "g711_alaw"
	}
	return format{Type: "audio/pcm", Rate: wireRate}, "pcm16"
}

// sessionUpdate is the message that sets a session up.
func (c Config) sessionUpdate(s live.LiveConfig, names *names) object {
	voice := or(s.Voice, c.Voice)
	tools := []object{}
	for _, d := range s.Tools {
		parameters := d.ParametersJSONSchema
		if parameters == nil {
			parameters = live.Schema{"type": "object", "properties": object{}}
		}
		tools = append(tools, object{
			"type": "function", "name": names.theirs(d.Name), "description": d.Description, "parameters": parameters,
		})
	}
	var transcription any
	if s.Transcribe {
		t := object{"model": c.TranscriptionModel}
		// The service takes ISO 639, which is how language tags begin.
		if language, _, _ := strings.Cut(s.Language, "-"); language != "" {
			t["language"] = strings.ToLower(language)
		}
		transcription = t
	}
	var noise any
	if c.NoiseReduction != "" {
		noise = object{"type": c.NoiseReduction}
	}
	name, betaName := formats(s.Wire)
	session := object{"tools": tools, "tool_choice": "auto"}
	if s.Instructions != "" {
		session["instructions"] = s.Instructions
	}
	if c.Beta {
		session["modalities"] = []string{"text", "audio"}
		session["voice"] = voice
		session["input_audio_format"], session["output_audio_format"] = betaName, betaName
		session["turn_detection"] = c.turnDetection(s)
		session["input_audio_transcription"] = transcription
		session["input_audio_noise_reduction"] = noise
		set(session, "temperature", s.Temperature)
		set(session, "speed", positive(c.Speed))
		set(session, "max_response_output_tokens", positive(c.MaxOutputTokens))
	} else {
		output := object{"format": name, "voice": voice}
		set(output, "speed", positive(c.Speed))
		session["type"] = "realtime"
		session["output_modalities"] = []string{"audio"}
		session["audio"] = object{
			"input": object{
				"format": name, "turn_detection": c.turnDetection(s), "transcription": transcription, "noise_reduction": noise,
			},
			"output": output,
		}
		set(session, "max_output_tokens", positive(c.MaxOutputTokens))
	}
	return object{"type": "session.update", "event_id": "setup", "session": session}
}

// turnDetection is nil, which JSON calls null, when the turns are ours: a member that
// is left out would leave the service's on.
func (c Config) turnDetection(s live.LiveConfig) any {
	if s.LocalTurns {
		return nil
	}
	t := c.TurnDetection
	o := object{"type": t.Mode, "create_response": true, "interrupt_response": !s.LocalCuts}
	set(o, "threshold", positive(t.Threshold))
	set(o, "prefix_padding_ms", positive(t.PrefixPadding.Milliseconds()))
	set(o, "silence_duration_ms", positive(t.Silence.Milliseconds()))
	if t.Eagerness != "" {
		o["eagerness"] = t.Eagerness
	}
	return o
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// positive is nil for what is to be left out.
func positive[N int | int64 | float64](n N) *N {
	if n <= 0 {
		return nil
	}
	return &n
}

// set puts a value into o unless there is none.
func set[V any](o object, key string, v *V) {
	if v != nil {
		o[key] = *v
	}
}

// confirmed is a session as the service tells of it, in both of its shapes.
type confirmed struct {
	ExpiresAt int64 `json:"expires_at"`
	Audio     struct {
		Input struct {
			Format        *format         `json:"format"`
			TurnDetection json.RawMessage `json:"turn_detection"`
		} `json:"input"`
		Output struct {
			Format *format `json:"format"`
		} `json:"output"`
	} `json:"audio"`
	InputFormat   string          `json:"input_audio_format"`
	OutputFormat  string          `json:"output_audio_format"`
	TurnDetection json.RawMessage `json:"turn_detection"`
}

// check holds what the service confirms against what was asked for. A service that
// does not say is believed.
func (c confirmed) check(s live.LiveConfig) error {
	want, betaWant := formats(s.Wire)
	for _, side := range []struct {
		name string
		now  *format
		beta string
	}{{"takes", c.Audio.Input.Format, c.InputFormat}, {"gives", c.Audio.Output.Format, c.OutputFormat}} {
		switch {
		case side.now != nil && (side.now.Type != want.Type || side.now.Rate != 0 && side.now.Rate != want.Rate):
			return fmt.Errorf("openai: %w: it %s %q at %d Hz where %q was asked for", live.ErrRejected, side.name, side.now.Type, side.now.Rate, want.Type)
		case side.beta != "" && side.beta != betaWant:
			return fmt.Errorf("openai: %w: it %s %q where %q was asked for", live.ErrRejected, side.name, side.beta, betaWant)
		}
	}
	for _, detection := range []json.RawMessage{c.Audio.Input.TurnDetection, c.TurnDetection} {
		if s.LocalTurns && len(detection) > 0 && !bytes.Equal(bytes.TrimSpace(detection), []byte("null")) {
			return fmt.Errorf("openai: %w: it does not switch its turn detection off", live.ErrRejected)
		}
	}
	return nil
}

// end is when the session ends. Clocks differ: a time that makes no sense is not
// believed.
func (c Config) end(now time.Time, expiresAt int64) time.Time {
	limit := now.Add(c.SessionLimit)
	if at := time.Unix(expiresAt, 0); at.After(now.Add(c.RenewBefore)) && at.Before(limit) {
		return at
	}
	return limit
}

// history is what was said before, as items of a conversation.
func history(said []live.Said, beta bool, names *names) (items []object) {
	spoken := "output_text"
	if beta {
		spoken = "text"
	}
	called := map[string]bool{}
	for i, s := range said {
		id := func(part string) string { return fmt.Sprintf("history_%d%s", i, part) }
		if s.Text != "" && (s.Role == "user" || s.Role == "assistant" || s.Role == "system") {
			kind := "input_text"
			if s.Role == "assistant" {
				kind = spoken
			}
			items = append(items, create(id(""), object{
				"type": "message", "role": s.Role, "content": []object{{"type": kind, "text": s.Text}},
			}))
		}
		call := s.Call
		if call == nil && s.Response != nil && !called[s.Response.ID] {
			call = &live.ToolCall{ID: s.Response.ID, Name: s.Response.Name} // an answer needs its call
		}
		if call != nil {
			part := ""
			if s.Response != nil {
				part = "_call"
			}
			called[call.ID] = true
			items = append(items, create(id(part), callItem(*call, names)))
		}
		if s.Response != nil {
			items = append(items, create(id("_answer"), answerItem(*s.Response)))
		}
	}
	return items
}

// create is the message that adds an item to the conversation.
func create(eventID string, item object) object {
	return object{"type": "conversation.item.create", "event_id": eventID, "item": item}
}

func callItem(c live.ToolCall, names *names) object {
	return object{"type": "function_call", "call_id": c.ID, "name": names.theirs(c.Name), "arguments": text(c.Args)}
}

func answerItem(r live.ToolResponse) object {
	return object{"type": "function_call_output", "call_id": r.ID, "output": text(r.Response)}
}

// text is v as JSON. What JSON cannot hold becomes an error that the model can read.
func text(v map[string]any) string {
	if v == nil {
		return "{}"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return `{"error":"the result cannot be told"}`
	}
	return string(b)
}

// names translates the names of tools: the service takes letters, digits, '_' and
// '-' only, 64 of them. It is safe for concurrent use once it is made.
type names struct{ to, from map[string]string }

// maxName is how long the service lets a name be.
const maxName = 64

func newNames(tools []live.ToolDefinition) *names {
	n := &names{to: map[string]string{}, from: map[string]string{}}
	ours := make([]string, 0, len(tools))
	for _, d := range tools {
		ours = append(ours, d.Name)
	}
	// Names that need no change keep theirs, whatever the others become.
	slices.SortStableFunc(ours, func(a, b string) int { return changes(a) - changes(b) })
	for _, name := range ours {
		theirs := plain(name)
		for i := 2; n.from[theirs] != "" && n.from[theirs] != name; i++ {
			suffix := fmt.Sprintf("_%d", i)
			theirs = plain(name)
			theirs = theirs[:min(len(theirs), maxName-len(suffix))] + suffix
		}
		n.to[name], n.from[theirs] = theirs, name
	}
	return n
}

// plain is name with what the service does not take replaced.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxName)]
}

func changes(name string) int {
	if plain(name) == name {
		return 0
	}
	return 1
}

// theirs is how the service calls our tool.
func (n *names) theirs(ours string) string {
	if t, ok := n.to[ours]; ok {
		return t
	}
	return plain(ours)
}

// ours is how we call what the service names. A name that it made up stays.
func (n *names) ours(theirs string) string {
	if o, ok := n.from[theirs]; ok {
		return o
	}
	return theirs
}
