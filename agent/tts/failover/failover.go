// Package failover is a voice made of several: when one fails, the next speaks.
package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/agent/tts"
	"parley/media/resample"
)

// Choice is a voice with its name, for errors and events.
type Choice struct {
	Name  string
	Voice tts.Voice
}

// Config is how a voice takes over from another.
type Config struct {
	// FirstSound is how long a voice may take to its first sound, and between two
	// chunks, while there is another to try. Then it has failed.
	FirstSound time.Duration
	// Cooldown is how long a voice that failed is not asked again, unless all have.
	Cooldown time.Duration
	// OnSwitch is told when a voice failed and which speaks next; "" when none is left.
	// It must not block. May be nil.
	OnSwitch func(failed, next string, err error)
}

// DefaultConfig is a second and a half, and half a minute.
func DefaultConfig() Config {
	return Config{FirstSound: 1500 * time.Millisecond, Cooldown: 30 * time.Second}
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if c.FirstSound < 100*time.Millisecond || c.FirstSound > time.Minute {
		errs = append(errs, fmt.Errorf("tts/failover: first sound %v is not between 100ms and 1m", c.FirstSound))
	}
	if c.Cooldown < 0 || c.Cooldown > time.Hour {
		errs = append(errs, fmt.Errorf("tts/failover: cooldown %v is not between 0 and 1h", c.Cooldown))
	}
	return errors.Join(errs...)
}

// Voice is several voices in order of preference. A text whose first sound never came is
// spoken by the next voice. One that broke off is not said again: the error is returned,
// and the texts after it are the next voice's. All sound has the rate of the first.
type Voice struct {
	cfg     Config
	choices []Choice

	mu   sync.Mutex
	down []time.Time // by choice: until when it is not asked
}

var (
	errSilent = errors.New("tts/failover: no sound in time")
	errNone   = errors.New("tts/failover: no voice")
)

// New makes a voice of choices, the preferred one first.
func New(cfg Config, choices ...Choice) (*Voice, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(choices) == 0 {
		return nil, errNone
	}
	for _, c := range choices {
		if c.Voice == nil {
			return nil, fmt.Errorf("tts/failover: %q is no voice", c.Name)
		}
		if from, to := c.Voice.Rate(), choices[0].Voice.Rate(); from != to {
			if _, err := resample.New(from, to, resample.Voice); err != nil {
				return nil, fmt.Errorf("tts/failover: %s: %w", c.Name, err)
			}
		}
	}
	return &Voice{cfg: cfg, choices: slices.Clone(choices), down: make([]time.Time, len(choices))}, nil
}

// Rate implements tts.Voice.
func (v *Voice) Rate() int { return v.choices[0].Voice.Rate() }

// Speak implements tts.Voice.
func (v *Voice) Speak(ctx context.Context, text string, out func(tts.Chunk) error) error {
	return v.SpeakStyled(ctx, text, "", out)
}

// SpeakStyled implements tts.Styled. Voices that know no styles speak without.
func (v *Voice) SpeakStyled(ctx context.Context, text, style string, out func(tts.Chunk) error) error {
	order := v.order()
	var errs []error
	for i, at := range order {
		c := v.choices[at]
		a := attempt{ctx: ctx, voice: c.Voice, rate: v.Rate(), out: out}
		if i < len(order)-1 {
			a.patience = v.cfg.FirstSound
		}
		err := a.speak(text, style)
		if err == nil {
			v.recovered(at)
			return nil
		}
		if a.refused || ctx.Err() != nil { // by whoever listens: nobody's failure
			return err
		}
		v.failed(at)
		errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
		next := ""
		if i < len(order)-1 {
			next = v.choices[order[i+1]].Name
		}
		if v.cfg.OnSwitch != nil {
			v.cfg.OnSwitch(c.Name, next, err)
		}
		if a.sounded {
			break // half a sentence is not begun again by another voice
		}
	}
	return fmt.Errorf("tts/failover: %w", errors.Join(errs...))
}

// order is whom to ask: those that are well in order of preference, then the others.
func (v *Voice) order() []int {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	var well, down []int
	for i, until := range v.down {
		if now.Before(until) {
			down = append(down, i)
		} else {
			well = append(well, i)
		}
	}
	return append(well, down...)
}

func (v *Voice) failed(i int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.down[i] = time.Now().Add(v.cfg.Cooldown)
}

func (v *Voice) recovered(i int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.down[i] = time.Time{}
}

// attempt is one voice at one text.
type attempt struct {
	ctx      context.Context
	voice    tts.Voice
	rate     int // wanted
	patience time.Duration
	out      func(tts.Chunk) error

	sounded, refused bool
}

func (a *attempt) speak(text, style string) error {
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	watch := time.AfterFunc(time.Hour, func() { cancel(errSilent) })
	defer watch.Stop()
	if a.patience > 0 {
		watch.Reset(a.patience)
	} else {
		watch.Stop()
	}
	var rate *resample.Resampler
	if a.voice.Rate() != a.rate {
		var err error
		if rate, err = resample.New(a.voice.Rate(), a.rate, resample.Voice); err != nil {
			return err
		}
	}
	give := func(c tts.Chunk) error {
		watch.Stop()
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if rate != nil {
			c.PCM = rate.Process(nil, c.PCM)
		}
		a.sounded = a.sounded || len(c.PCM) > 0
		if err := a.out(c); err != nil {
			a.refused = true
			return err
		}
		if a.patience > 0 {
			watch.Reset(a.patience)
		}
		return nil
	}
	err := speak(ctx, a.voice, text, style, give)
	if err == nil && rate != nil && a.sounded {
		if rest := rate.Flush(nil); len(rest) > 0 {
			if err = a.out(tts.Chunk{PCM: rest}); err != nil {
				a.refused = true
			}
		}
	}
	if err != nil && !a.refused && errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

func speak(ctx context.Context, v tts.Voice, text, style string, out func(tts.Chunk) error) error {
	if s, ok := v.(tts.Styled); ok && style != "" {
		return s.SpeakStyled(ctx, text, style, out)
	}
	return v.Speak(ctx, text, out)
}

var _ tts.Styled = (*Voice)(nil)
