package deepgram

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What is sent besides audio.
const (
	finalizeMessage    = `{"type":"Finalize"}`
	keepAliveMessage   = `{"type":"KeepAlive"}`
	closeStreamMessage = `{"type":"CloseStream"}`
)

// number is one that may be missing, or of another kind.
type number float64

// UnmarshalJSON takes what it can: a time of no use is not worth a transcript.
func (n *number) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(string(bytes.Trim(b, `"`)), 64)
	if err != nil || math.IsNaN(v) {
		v = 0
	}
	*n = number(math.Min(math.Max(v, 0), 1e6)) // seconds: eleven days
	return nil
}

// message is one of the service's.
type message struct {
	Type         string          `json:"type"`
	Start        number          `json:"start"`
	Duration     number          `json:"duration"`
	IsFinal      bool            `json:"is_final"`
	SpeechFinal  bool            `json:"speech_final"`
	FromFinalize bool            `json:"from_finalize"`
	Channel      json.RawMessage `json:"channel"` // an object in Results, a list in others

	// Of errors, by whatever name.
	Description string `json:"description"`
	Message     string `json:"message"`
	Reason      string `json:"reason"`
	ErrMsg      string `json:"err_msg"`

	best alternative
}

type alternative struct {
	Transcript string  `json:"transcript"`
	Confidence number  `json:"confidence"`
	Words      []timed `json:"words"`
}

type timed struct {
	Word       string `json:"word"`
	Punctuated string `json:"punctuated_word"`
	Start      number `json:"start"`
	End        number `json:"end"`
}

var errGarbled = errors.New("stt/deepgram: a message that cannot be read")

// parse reads a message.
func parse(b []byte) (message, error) {
	var m message
	if json.Unmarshal(b, &m) != nil || m.Type == "" {
		return message{}, errGarbled
	}
	if m.Type != "Results" {
		return m, nil
	}
	var channel struct {
		Alternatives []alternative `json:"alternatives"`
	}
	if len(m.Channel) == 0 || json.Unmarshal(m.Channel, &channel) != nil {
		return message{}, errGarbled
	}
	if len(channel.Alternatives) > 0 {
		m.best = channel.Alternatives[0]
	}
	m.best.Transcript = clean(m.best.Transcript)
	m.best.Confidence = min(m.best.Confidence, 1)
	return m, nil
}

// failure is what a message of an error says.
func (m message) failure() string {
	for _, s := range []string{m.Description, m.ErrMsg, m.Message, m.Reason} {
		if s != "" {
			return s
		}
	}
	return "an error without a word"
}

// maxText bounds what is taken of one message's words, in bytes.
const maxText = 8 << 10

// clean is text on one line, bounded, without what cannot be printed.
func clean(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.Is(unicode.Cf, r):
			return -1
		case r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069':
			return -1 // turns what stands behind it around
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
