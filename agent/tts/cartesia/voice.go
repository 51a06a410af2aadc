package cartesia

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/agent/tts"
	"parley/agent/tts/sound"
)

// Sound waits so long for its words, which come as messages of their own, a little before it
// or after it: less at the beginning, when somebody waits for it.
const firstWithin, wordsWithin = 60 * time.Millisecond, 300 * time.Millisecond

// Voice implements tts.Voice and tts.Styled. It is safe for concurrent use: any number of
// texts are spoken at the same time, as far as the account allows. It is to be closed.
type Voice struct {
	cfg     Config
	control control
	clean   func(string) string
	pool    *pool
}

var _ tts.Styled = (*Voice)(nil)

// New makes a voice. It connects when it speaks.
func New(cfg Config) (*Voice, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", room, err)
	}
	return &Voice{
		cfg: cfg, control: control{cfg.Speed, cfg.Volume, cfg.Emotion}, clean: cfg.dialing().Clean, pool: newPool(cfg),
	}, nil
}

// Rate implements tts.Voice.
func (v *Voice) Rate() int { return v.cfg.SampleRate }

// Close breaks off what is being spoken, ends all connections and waits for their
// goroutines, 2 s at most.
func (v *Voice) Close() { v.pool.close() }

// Speak implements tts.Voice, with the words of the text. Texts of more than sound.MaxText
// characters are refused with sound.ErrTooLong.
func (v *Voice) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	return v.SpeakStyled(ctx, text, "", out)
}

// errLost marks errors of a connection, after which another may serve.
var errLost = errors.New("connection lost")

// SpeakStyled implements tts.Styled: a style is an emotion, or a word for the speed or the
// volume such as "slow" and "whisper".
func (v *Voice) SpeakStyled(ctx context.Context, text, style string, out func(tts.Chunk) error) error {
	text, err := sound.Text(text)
	if err != nil {
		return fmt.Errorf("%s: %w", room, err)
	}
	if text == "" || ctx.Err() != nil {
		return ctx.Err()
	}
	s := sound.NewSpeech(ctx, text, v.cfg.SampleRate, true, out)
	ask := request{
		Model: v.cfg.Model, Transcript: text, Voice: voiceRef{"id", v.cfg.Voice},
		Format: format{"raw", "pcm_s16le", v.cfg.SampleRate}, Language: v.cfg.Language, Timestamps: true,
	}
	if c := v.control.styled(style); c != (control{}) {
		ask.Control = &c
	}
	err = v.attempt(ctx, s, ask, false)
	if err != nil && errors.Is(err, errLost) && s.Again() {
		err = v.attempt(ctx, s, ask, true)
	}
	return s.Err(err)
}

// lostError is err, and errLost.
type lostError struct{ error }

func (e lostError) Is(target error) bool { return target == errLost }
func (e lostError) Unwrap() error        { return e.error }

// attempt speaks the text over one connection.
func (v *Voice) attempt(ctx context.Context, s *sound.Speech, ask request, fresh bool) error {
	c, err := v.pool.take(ctx, fresh)
	if err != nil {
		return err
	}
	defer v.pool.put(c)
	ask.ContextID = rand.Text()
	if err := post(c, ask); err != nil {
		return lostError{err}
	}
	t := turn{Voice: v, conn: c, id: ask.ContextID, speech: s}
	t.decoder = sound.NewDecoder(v.cfg.SampleRate, sound.Format{Encoding: sound.S16LE, Rate: v.cfg.SampleRate}, "")
	err = t.run(ctx)
	if err != nil && !t.ended && c.Err() == nil {
		// The service goes on until it is told. What it has sent by then is thrown away by
		// whoever reads the connection next.
		_ = post(c, cancel{ask.ContextID, true}) // then it is gone, and so is the text
	}
	return err
}

func post(c *conn, m any) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", room, err)
	}
	return c.Post(append(c.Buffer(), b...))
}

// turn is one text on its way.
type turn struct {
	*Voice
	conn    *conn
	id      string
	speech  *sound.Speech
	decoder *sound.Decoder
	ended   bool // by the service
}

// run takes messages until the text is spoken.
func (t *turn) run(ctx context.Context) error {
	stalled := time.NewTimer(t.cfg.Timeout)
	defer stalled.Stop()
	late := time.NewTimer(time.Hour)
	late.Stop()
	defer late.Stop()
	given := -1 // samples, when sound began to wait
	for !t.ended {
		select {
		case b, open := <-t.conn.In():
			if !open {
				return lostError{lost(t.conn)}
			}
			ours, err := t.take(b)
			if err != nil {
				return err
			}
			if ours {
				stalled.Reset(t.cfg.Timeout)
			}
			given = t.wait(late, given)
		case <-late.C:
			given = -1
			if err := t.speech.Release(); err != nil {
				return err
			}
			stalled.Reset(t.cfg.Timeout)
		case <-stalled.C:
			err := fmt.Errorf("%s: it sent nothing for %v", room, t.cfg.Timeout)
			t.conn.Fail(err) // it may serve nobody
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := t.decoder.Close(t.speech.Sound); err != nil {
		return fmt.Errorf("%s: %w", room, err)
	}
	if err := t.speech.End(); err != nil {
		return fmt.Errorf("%s: %w", room, err)
	}
	return nil
}

// wait sets the timer for sound that waits for its words. given is what was given of the
// speech when the timer was set; -1: it is not.
func (t *turn) wait(late *time.Timer, given int) int {
	now := t.speech.Given()
	switch {
	case !t.speech.Held():
		late.Stop()
		return -1
	case now == given:
		return given
	case now == 0:
		late.Reset(firstWithin)
	default:
		late.Reset(wordsWithin)
	}
	return now
}

// take takes one message. ours: it was of this text.
func (t *turn) take(b []byte) (ours bool, err error) {
	m, err := parse(b)
	if err != nil {
		t.conn.Fail(err)
		return false, lostError{err}
	}
	if m.ContextID != t.id && (m.ContextID != "" || m.Type != "error") {
		return false, nil // of a text that was cancelled
	}
	switch m.Type {
	case "chunk":
		pcm, err := m.sound()
		if err != nil {
			t.conn.Fail(err)
			return false, lostError{err}
		}
		if err := t.decoder.Write(pcm, t.speech.Sound); err != nil {
			return false, t.unreadable(err)
		}
	case "timestamps":
		m.Words.each(t.speech.Token)
		return true, t.speech.Flow()
	case "done":
		t.ended = true
	case "error":
		err := m.failure(t.clean)
		if m.ContextID == "" {
			t.conn.Fail(err)
		}
		t.ended = true
		return false, err
	}
	return true, nil
}

// unreadable is err, of what the service sends for sound.
func (t *turn) unreadable(err error) error {
	var f *sound.FormatError
	if errors.As(err, &f) && f.Text != "" {
		return fmt.Errorf("%s: %w; it said: %s", room, err, t.clean(f.Text))
	}
	return fmt.Errorf("%s: %w", room, err)
}
