package elevenlabs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"parley/agent/internal/wire"
	"parley/agent/tts"
	"parley/agent/tts/sound"
)

// Voice implements tts.Voice. It is safe for concurrent use: any number of texts are spoken
// at the same time, as far as the account allows.
type Voice struct {
	cfg      Config
	address  string
	service  *wire.Service
	settings *settings
}

var _ tts.Voice = (*Voice)(nil)

// New makes a voice.
func New(cfg Config) (*Voice, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("tts/elevenlabs: %w", err)
	}
	u, given, err := cfg.address()
	if err != nil {
		return nil, fmt.Errorf("tts/elevenlabs: %w", err)
	}
	header := map[string]string{}
	if cfg.APIKey != "" {
		header["xi-api-key"] = cfg.APIKey
	}
	service := wire.NewService("tts/elevenlabs", given, "", header, cfg.Transport)
	service.Hint = hint
	v := &Voice{cfg: cfg, address: u.String(), service: service}
	if s := (settings{cfg.Settings.Stability, cfg.Settings.SimilarityBoost, cfg.Settings.Style, cfg.Settings.SpeakerBoost, cfg.Settings.Speed}); s != (settings{}) {
		v.settings = &s
	}
	return v, nil
}

// Rate implements tts.Voice.
func (v *Voice) Rate() int { return v.cfg.SampleRate }

// request is the body of a request.
type request struct {
	Text          string    `json:"text"`
	Model         string    `json:"model_id"`
	Language      string    `json:"language_code,omitempty"`
	Settings      *settings `json:"voice_settings,omitempty"`
	Normalization string    `json:"apply_text_normalization,omitempty"`
}

type settings struct {
	Stability       *float64 `json:"stability,omitempty"`
	SimilarityBoost *float64 `json:"similarity_boost,omitempty"`
	Style           *float64 `json:"style,omitempty"`
	SpeakerBoost    *bool    `json:"use_speaker_boost,omitempty"`
	Speed           float64  `json:"speed,omitempty"`
}

// Speak implements tts.Voice, with the words of the text. Texts of more than sound.MaxText
// characters are refused with sound.ErrTooLong.
func (v *Voice) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	text, err := sound.Text(text)
	if err != nil {
		return fmt.Errorf("tts/elevenlabs: %w", err)
	}
	if text == "" {
		return ctx.Err()
	}
	s := sound.NewSpeech(ctx, text, v.cfg.SampleRate, true, out)
	return s.Post(sound.Request{
		Service: v.service,
		Address: v.address,
		Body:    request{text, v.cfg.Model, v.cfg.Language, v.settings, v.cfg.TextNormalization},
		Accept:  "application/json",
		Within:  v.cfg.Timeout,
	}, func(_ string, body io.Reader) error { return v.read(s, body) })
}

const (
	// maxLine bounds one message, maxBody all of an answer.
	maxLine, maxBody = 8 << 20, 128 << 20
)

// read takes the answer: lines of JSON, each a stretch of sound with its letters.
func (v *Voice) read(s *sound.Speech, body io.Reader) error {
	r := reading{speech: s, decoder: sound.NewDecoder(v.cfg.SampleRate, sound.Format{Encoding: sound.S16LE, Rate: v.cfg.SampleRate}, "")}
	if err := wire.Lines(body, maxLine, maxBody, func(line []byte) error {
		err := r.line(line)
		var said *saidError
		if errors.As(err, &said) {
			return fmt.Errorf("it broke off: %s", v.service.Said(said.text))
		}
		return err
	}); err != nil {
		return err
	}
	if err := r.decoder.Close(s.Sound); err != nil {
		return err
	}
	return s.End()
}

// Close lets go of the connections that wait for more. It waits for no text that is being
// spoken.
func (v *Voice) Close() { v.service.Client.CloseIdleConnections() }

// message is one line of an answer.
type message struct {
	Audio     string          `json:"audio_base64"`
	Alignment *alignment      `json:"alignment"`
	Detail    json.RawMessage `json:"detail"`
	Error     json.RawMessage `json:"error"`
}

// alignment is where the letters of a stretch lie, in seconds.
type alignment struct {
	Characters []string  `json:"characters"`
	Starts     []float64 `json:"character_start_times_seconds"`
	Ends       []float64 `json:"character_end_times_seconds"`
}

// saidError is what the service says of an error in mid-stream.
type saidError struct{ text string }

func (e *saidError) Error() string { return "elevenlabs: an error in mid-stream" }

// reading is an answer as far as it was read.
type reading struct {
	speech  *sound.Speech
	decoder *sound.Decoder
	last    float64 // seconds: where the last letter ends, as the service counts
	own     bool    // each stretch is counted from its own beginning
}

// line takes one message.
func (r *reading) line(line []byte) error {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("data:"))) // proxies make events of them
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return &sound.FormatError{What: "no JSON", Text: string(line[:min(len(line), 1024)])}
	}
	if m.Audio == "" && (wire.FailureText(m.Detail) != "" || wire.FailureText(m.Error) != "") {
		return &saidError{string(line)}
	}
	pcm, err := base64.StdEncoding.DecodeString(m.Audio)
	if err != nil {
		return &sound.FormatError{What: "sound that is no base64"}
	}
	before := r.speech.Length()
	if m.Alignment != nil {
		r.letters(*m.Alignment, before)
	}
	if err := r.decoder.Write(pcm, r.speech.Sound); err != nil {
		return err
	}
	return r.speech.Told()
}

// letters takes where letters lie. Times are counted from the beginning of the text; should
// they begin again with a stretch, they are counted from the beginning of that.
func (r *reading) letters(a alignment, before time.Duration) {
	n := min(len(a.Characters), len(a.Starts), len(a.Ends))
	if n == 0 {
		return
	}
	const back = 0.05
	if r.last > 0 && a.Starts[0] < r.last-back && a.Starts[0] < before.Seconds()-back {
		r.own = true
	}
	var shift time.Duration
	if r.own {
		shift = before
	}
	for i := range n {
		r.speech.Token(a.Characters[i], shift+seconds(a.Starts[i]), shift+seconds(a.Ends[i]))
	}
	r.last = a.Ends[n-1]
}

// seconds is a time as JSON has it; what cannot be one is 0.
func seconds(s float64) time.Duration {
	if math.IsNaN(s) || s < 0 || s > 3600 {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}
