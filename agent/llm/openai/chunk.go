package openai

import (
	"encoding/json"
	"errors"
	"strings"

	"parley/agent/internal/wire"
	"parley/agent/llm/internal/answer"
)

// chunk is a piece of a stream, or a whole answer.
type chunk struct {
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
	XGroq   struct { // Groq's place for it
		Usage *usage `json:"usage"`
	} `json:"x_groq"`
	Error  json.RawMessage `json:"error"`
	Object string          `json:"object"` // "error": vLLM's errors have no field of that name
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

type choice struct {
	Index   int     `json:"index"`
	Delta   *part   `json:"delta"`
	Message *part   `json:"message"`
	Finish  *string `json:"finish_reason"`
}

// part is what a model said.
type part struct {
	Content json.RawMessage `json:"content"`
	Refusal json.RawMessage `json:"refusal"`
	// Two names for the same: llama.cpp, vLLM and DeepSeek; Groq and OpenRouter.
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ToolCalls        []toolCall      `json:"tool_calls"`
	FunctionCall     *function       `json:"function_call"` // before there were tools
}

type toolCall struct {
	Index    *int     `json:"index"`
	ID       string   `json:"id"`
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a text; of some services an object
}

// payload takes the data of one event.
func payload(data string, a *answer.Answer) error {
	if data = strings.TrimSpace(data); data == "[DONE]" {
		return errDone
	}
	var c chunk
	var odd *json.UnmarshalTypeError
	if err := json.Unmarshal([]byte(data), &c); err != nil && !errors.As(err, &odd) {
		return &answer.ServiceError{What: "sent an event that is no JSON", Text: data}
	}
	if wire.FailureText(c.Error) != "" || c.Object == "error" {
		return failure(json.RawMessage(data), data)
	}
	for _, u := range []*usage{c.XGroq.Usage, c.Usage} {
		if u != nil {
			a.PromptTokens, a.CompletionTokens = max(u.Prompt, 0), max(u.Completion, 0)
		}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		if err := choice.take(a); err != nil {
			return err
		}
	}
	return nil
}

func (c choice) take(a *answer.Answer) error {
	p := c.Delta
	if p == nil && (c.Message != nil && !a.HasContent()) {
		p = c.Message
	}
	if p != nil {
		if err := p.take(a); err != nil {
			return err
		}
	}
	if c.Finish == nil || *c.Finish == "" {
		return nil
	}
	if *c.Finish == "error" { // OpenRouter's
		return &answer.ServiceError{What: "broke the answer off"}
	}
	a.Done(*c.Finish)
	return nil
}

func (p *part) take(a *answer.Answer) error {
	thought := plain(p.ReasoningContent)
	if thought == "" { // some send both
		thought = plain(p.Reasoning)
	}
	if err := a.Thought(thought); err != nil {
		return err
	}
	for _, piece := range content(p.Content) {
		take := a.Text
		if piece.thought {
			take = a.Thought
		}
		if err := take(piece.text); err != nil {
			return err
		}
	}
	if err := a.Text(plain(p.Refusal)); err != nil {
		return err
	}
	for _, t := range p.ToolCalls {
		call := answer.CallPart{Index: -1, ID: t.ID, Name: t.Function.Name, Arguments: t.Function.arguments()}
		if t.Index != nil {
			call.Index = *t.Index
		}
		if err := a.Call(call); err != nil {
			return err
		}
	}
	if f := p.FunctionCall; f != nil {
		return a.Call(answer.CallPart{Name: f.Name, Arguments: f.arguments()})
	}
	return nil
}

func (f function) arguments() string {
	var text string
	if json.Unmarshal(f.Arguments, &text) == nil {
		return text
	}
	return string(f.Arguments)
}

// plain is a text, or nothing.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

type piece struct {
	text    string
	thought bool
}

// content is a text, or a list of parts of which some are text and some (Mistral's) are
// thoughts with parts of their own.
func content(raw json.RawMessage) []piece {
	if text := plain(raw); text != "" {
		return []piece{{text: text}}
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return nil
	}
	var out []piece
	for _, p := range parts {
		switch p.Type {
		case "text", "output_text", "":
			out = append(out, piece{text: p.Text})
		case "thinking":
			for _, inner := range content(p.Thinking) {
				out = append(out, piece{text: inner.text, thought: true})
			}
		}
	}
	return out
}
