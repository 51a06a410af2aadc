package cartesia

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// request asks for the sound of a text, in a context of its own.
type request struct {
	ContextID  string   `json:"context_id"`
	Model      string   `json:"model_id"`
	Transcript string   `json:"transcript"`
	Voice      voiceRef `json:"voice"`
	Format     format   `json:"output_format"`
	Language   string   `json:"language"`
	Timestamps bool     `json:"add_timestamps"`
	Continue   bool     `json:"continue"`
	Control    *control `json:"generation_config,omitempty"`
}

type voiceRef struct {
	Mode string `json:"mode"`
	ID   string `json:"id"`
}

type format struct {
	Container string `json:"container"`
	Encoding  string `json:"encoding"`
	Rate      int    `json:"sample_rate"`
}

// cancel ends a context.
type cancel struct {
	ContextID string `json:"context_id"`
	Cancel    bool   `json:"cancel"`
}

// message is what the service sends.
type message struct {
	Type      string          `json:"type"`
	ContextID string          `json:"context_id"`
	Data      string          `json:"data"`
	Status    int             `json:"status_code"`
	Words     *wordTimes      `json:"word_timestamps"`
	Title     string          `json:"title"`
	Message   string          `json:"message"`
	Code      string          `json:"error_code"`
	Error     json.RawMessage `json:"error"`
}

// wordTimes are words with the seconds where they begin and end.
type wordTimes struct {
	Words []string  `json:"words"`
	Start []float64 `json:"start"`
	End   []float64 `json:"end"`
}

// parse reads a message.
func parse(b []byte) (message, error) {
	var m message
	if err := json.Unmarshal(b, &m); err != nil || m.Type == "" {
		return message{}, fmt.Errorf("%s: it sends what cannot be read", room)
	}
	return m, nil
}

// sound is that of a chunk.
func (m message) sound() ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(m.Data)
	if err != nil {
		return nil, fmt.Errorf("%s: it sends sound that is no base64", room)
	}
	return b, nil
}

// each gives the words with their times.
func (w *wordTimes) each(give func(word string, start, end time.Duration)) {
	if w == nil {
		return
	}
	for i := range min(len(w.Words), len(w.Start), len(w.End)) {
		give(w.Words[i], seconds(w.Start[i]), seconds(w.End[i]))
	}
}

// seconds is a time as JSON has it; what cannot be one is 0.
func seconds(s float64) time.Duration {
	if math.IsNaN(s) || s < 0 || s > 3600 {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// failure is what an error message says; clean makes it fit to be shown.
func (m message) failure(clean func(string) string) error {
	text := m.Title
	if text != "" && m.Message != "" {
		text += ": "
	}
	text += m.Message
	if text == "" && json.Unmarshal(m.Error, &text) != nil {
		text = string(m.Error)
	}
	if m.Code != "" {
		text += " (" + m.Code + ")"
	}
	hint := ""
	switch m.Status {
	case 401, 403:
		hint = ": is api_key right?"
	case 402:
		hint = ": the account is empty"
	case 404:
		hint = ": are voice and model right?"
	case 429:
		hint = ": the account has no room for more texts at the same time"
	}
	return fmt.Errorf("%s: the service refused (%d)%s; it said: %s", room, m.Status, hint, clean(text))
}
