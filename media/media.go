// Package media says what sound is inside Parley: mono signed 16-bit PCM in the
// machine's byte order, held in []int16, at a rate that travels beside it. A
// codec is a plain value that makes encoders and decoders; nothing registers
// itself. The sub-packages are the codecs and the signal processing, each usable
// alone.
package media

import "time"

// Codec describes one RTP audio encoding as a plain value. Copy it freely; it is
// never changed after it was made and may be shared between goroutines.
type Codec struct {
	// Name is the encoding name of the rtpmap attribute, such as "PCMU"
	// (RFC 8866 section 6.6). Names are compared without case.
	Name string
	// PayloadType is the static payload type (RFC 3551 section 6), or the
	// dynamic one to propose in offers of ours.
	PayloadType uint8
	// ClockRate is the RTP timestamp clock in Hz. G.722 says 8000 here although
	// it carries 16 kHz audio (RFC 3551 section 4.5.2).
	ClockRate int
	// SampleRate is the PCM rate in Hz that the encoder takes and the decoder
	// gives.
	SampleRate int
	// Channels is the channel count of the rtpmap attribute; 0 and 1 both mean
	// that none is written. PCM is mono whatever it says.
	Channels int
	// Params is our own fmtp attribute for offers and answers, without the
	// payload type; empty when there is none.
	Params string
	// Duration tells how long a payload lasts, in units of ClockRate; 0 when that
	// payload cannot tell. Nil when payloads of this codec never tell.
	Duration func(payload []byte) int
	// PacketTimes are the lengths of packets that the encoder takes. Nil: any, and
	// payloads can be joined and cut as the sound in them can.
	PacketTimes []time.Duration
	// For is this codec as it is to be used towards a peer whose fmtp attribute
	// holds params. Nil: that makes no difference.
	For func(params string) Codec
	// NewEncoder makes the encoder of one call.
	NewEncoder func() (Encoder, error)
	// NewDecoder makes the decoder of one call.
	NewDecoder func() (Decoder, error)
}

// Encoder turns PCM into RTP payloads. One goroutine at a time may use it.
type Encoder interface {
	// Encode appends the payload for one packet of pcm, at Codec.SampleRate, to
	// dst and returns the longer slice. It keeps neither slice and does not
	// allocate when dst has room.
	Encode(dst []byte, pcm []int16) ([]byte, error)
}

// Idler is implemented by an Encoder whose silence cannot be encoded once and sent
// over and over: one that follows its listener's decoder sample by sample (ADPCM).
type Idler interface {
	// Idle appends a payload that lasts samples, sounds like silence and leaves a
	// decoder unharmed, however often it is sent.
	Idle(dst []byte, samples int) []byte
	// Follow makes the encoder go on from where a decoder is after payload, which
	// it did not make.
	Follow(payload []byte)
}

// Decoder turns RTP payloads into PCM. One goroutine at a time may use it.
type Decoder interface {
	// Decode appends the samples of one payload, at Codec.SampleRate, to dst and
	// returns the longer slice. It keeps neither slice and does not allocate when
	// dst has room. A payload that cannot be decoded is an error and leaves the
	// decoder usable.
	Decode(dst []int16, payload []byte) ([]int16, error)
}

// Concealer is implemented by a Decoder whose codec conceals loss itself (Opus).
// For the others the call puts a media/plc concealer behind the decoder.
type Concealer interface {
	// Conceal appends samples of plausible sound for a packet that never came.
	Conceal(dst []int16, samples int) ([]int16, error)
}

// Recoverer is implemented by a Concealer whose packets repeat something of the
// packet before (Opus with in-band FEC).
type Recoverer interface {
	// Recover appends samples of sound for what is missing directly before the
	// payload next, which is decoded as usual afterwards. What next does not repeat
	// is concealed.
	Recover(dst []int16, next []byte, samples int) ([]int16, error)
}

// FrameTime is the length of the PCM frames that an agent hears.
const FrameTime = 20 * time.Millisecond

// Samples is how many samples d lasts at rate Hz, rounded down.
func Samples(d time.Duration, rate int) int {
	return int(int64(d) * int64(rate) / int64(time.Second))
}

// Duration is how long n samples last at rate Hz, rounded down to a nanosecond.
// A rate of zero or less gives 0.
func Duration(n, rate int) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(int64(n) * int64(time.Second) / int64(rate))
}
