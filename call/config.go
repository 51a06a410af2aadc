package call

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Config is what an operator may set about calls. Plain values; a zero Config is
// not valid, start from DefaultConfig.
type Config struct {
	// Codecs are the encoding names offered and accepted, in our order of
	// preference.
	Codecs []string
	// MaxCalls is how many calls may be up or being set up at once. More are
	// refused with 503 and Retry-After.
	MaxCalls int
	// MaxDuration ends a call that is still up after so long, whatever the agent
	// does. 0: no limit.
	MaxDuration time.Duration
	// InitialMediaTimeout ends a call whose caller sent neither an audio packet nor
	// RTCP within so long of the answer. 0: no limit.
	InitialMediaTimeout time.Duration
	// MediaTimeout ends a call whose caller stopped sending audio and RTCP, unless the
	// call is on hold. 0: no limit.
	MediaTimeout time.Duration
	// OpenTimeout is how long an agent may take to be ready while the caller hears
	// ringing. Later the call is refused with 503.
	OpenTimeout time.Duration
	// EndTimeout is how long an agent may take to return from Run once its call is
	// over, before the gateway goes on without it.
	EndTimeout time.Duration
	// PacketTime is the length of the packets we send when the peer asks for none:
	// 10, 20, 30, 40 or 60 ms.
	PacketTime time.Duration
	// SpeechBuffer is how much encoded speech waits in the mouth at the most;
	// then Say blocks.
	SpeechBuffer time.Duration
	// JitterMin and JitterMax bound how long a missing packet is waited for.
	JitterMin, JitterMax time.Duration
	// KeyTones hears the keys of callers in the sound too, while their telephone offers
	// no telephone-event. Off by default: it costs, and music may press a key.
	KeyTones bool
	// EchoFloor keeps the agent's own echo from being taken for the caller: while the
	// agent is heard, a voice must be louder than what comes back of it.
	EchoFloor bool
	// Advertise is the address written into SDP; the zero value means the address
	// that the peer reached.
	Advertise netip.Addr
	// SRTP says whether the sound of calls without a trunk is encrypted (trunks have a
	// policy of their own): "off", "optional" (as the peer wishes) or "required".
	SRTP string
	// EventsDir, when set, gets one file of JSON lines per call: every event of the
	// conversation and, last, the call's record.
	EventsDir string
	// LogWords writes what is said, by both sides, to the log at info level. Off by
	// default: words are private.
	LogWords bool
	// Transfer says where calls may be sent that came by no trunk.
	Transfer TransferConfig
	// Recording is about files of the calls' sound.
	Recording RecordingConfig
}

// DefaultConfig is what a call does when nothing is configured.
func DefaultConfig() Config {
	return Config{
		Codecs:              []string{"opus", "G722", "PCMU", "PCMA"},
		MaxCalls:            500,
		MaxDuration:         2 * time.Hour,
		InitialMediaTimeout: 30 * time.Second,
		MediaTimeout:        60 * time.Second,
		OpenTimeout:         10 * time.Second,
		EndTimeout:          5 * time.Second,
		PacketTime:          20 * time.Millisecond,
		SpeechBuffer:        500 * time.Millisecond,
		JitterMin:           20 * time.Millisecond,
		JitterMax:           200 * time.Millisecond,
		EchoFloor:           true,
		SRTP:                srtpOptional,
		Recording:           DefaultRecordingConfig(),
	}
}

// Validate reports everything that is wrong with c, each with the field's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if len(c.Codecs) == 0 {
		bad("codecs: name at least one, such as PCMU")
	}
	if c.MaxCalls < 1 {
		bad("max_calls: %d, must be at least 1", c.MaxCalls)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"max_duration", c.MaxDuration}, {"initial_media_timeout", c.InitialMediaTimeout},
		{"media_timeout", c.MediaTimeout},
	} {
		if d.d < 0 {
			bad("%s: %v, must not be negative; 0 turns it off", d.name, d.d)
		}
	}
	if c.OpenTimeout <= 0 {
		bad("open_timeout: %v, must be more than 0", c.OpenTimeout)
	}
	if c.EndTimeout <= 0 {
		bad("end_timeout: %v, must be more than 0", c.EndTimeout)
	}
	switch c.PacketTime {
	case 10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond, 40 * time.Millisecond, 60 * time.Millisecond:
	default:
		bad("packet_time: %v, must be 10ms, 20ms, 30ms, 40ms or 60ms", c.PacketTime)
	}
	if c.SpeechBuffer < 100*time.Millisecond || c.SpeechBuffer > time.Minute {
		bad("speech_buffer: %v, must be between 100ms and 1m", c.SpeechBuffer)
	}
	if c.JitterMin < 0 || c.JitterMax < c.JitterMin || c.JitterMax > 2*time.Second {
		bad("jitter_min, jitter_max: %v and %v, must rise and end at 2s at the most", c.JitterMin, c.JitterMax)
	}
	if err := c.Recording.Validate(); err != nil {
		bad("recording: %w", err)
	}
	switch c.SRTP {
	case srtpOff, srtpOptional, srtpRequired:
	default:
		bad("srtp: %q, must be off, optional or required", c.SRTP)
	}
	return errors.Join(errs...)
}
