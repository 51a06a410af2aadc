//go:build !cgo

package opus

import (
	"errors"
	"fmt"
	"math"

	"github.com/thesyncim/gopus"
)

// Library names what does the work, for the log.
func Library() string { return "gopus " + gopus.VersionString() }

// expectedLoss is what the encoder is told of the network in percent: it decides
// how much of the bits repeats earlier speech. Below about 5 nothing does.
const expectedLoss = 10

type libEncoder struct {
	config Config
	wishes wishes
	e      *gopus.Encoder
	size   int // of the frames it is made for, in samples
}

func newLibEncoder(c Config, w wishes) (*libEncoder, error) {
	e := &libEncoder{config: c, wishes: w}
	return e, e.begin(SampleRate / 50)
}

// begin makes an encoder for frames of that length. One that is told of another
// length amid speech makes a noise.
func (e *libEncoder) begin(size int) error {
	enc, err := gopus.NewEncoder(gopus.EncoderConfig{SampleRate: SampleRate, Channels: 1, Application: gopus.ApplicationVoIP})
	if err != nil {
		return fmt.Errorf("opus: encoder: %w", err)
	}
	bandwidths := [...]gopus.Bandwidth{narrowband: gopus.BandwidthNarrowband, mediumband: gopus.BandwidthMediumband, wideband: gopus.BandwidthWideband}
	errs := []error{
		enc.SetBitrate(e.config.Bitrate), enc.SetComplexity(e.config.Complexity), enc.SetSignal(gopus.SignalVoice),
		enc.SetMaxBandwidth(bandwidths[e.wishes.bandwidth]), enc.SetFrameSize(size),
	}
	if e.config.FEC {
		enc.SetFEC(true)
		errs = append(errs, enc.SetPacketLoss(expectedLoss))
	}
	enc.SetDTX(e.config.DTX)
	enc.SetVBR(!e.wishes.constant)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("opus: encoder: %w", err)
	}
	e.e, e.size = enc, size
	return nil
}

// encode fills dst from its beginning and returns the length.
func (e *libEncoder) encode(dst []byte, pcm []int16) (int, error) {
	if len(pcm) != e.size {
		if err := e.begin(len(pcm)); err != nil {
			return 0, err
		}
	}
	n, err := e.e.EncodeInt16(pcm, dst)
	if err != nil {
		return 0, fmt.Errorf("opus: encode: %w", err)
	}
	return n, nil
}

type libDecoder struct {
	d    *gopus.Decoder
	made []float32
}

func newLibDecoder() (*libDecoder, error) {
	c := gopus.DefaultDecoderConfig(SampleRate, 1)
	c.MaxPacketBytes = 1 << 16 // what UDP can carry; by itself it refuses more than 1500
	d, err := gopus.NewDecoder(c)
	if err != nil {
		return nil, fmt.Errorf("opus: decoder: %w", err)
	}
	return &libDecoder{d: d, made: make([]float32, longest)}, nil
}

// decode fills dst, which is as long as the packet lasts, and returns the length.
func (d *libDecoder) decode(dst []int16, payload []byte) (int, error) {
	n, err := d.d.DecodeInt16(payload, dst)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrPacket, err)
	}
	return n, nil
}

// conceal fills dst with made-up sound: the frame that next repeats, if it is
// given and repeats one.
func (d *libDecoder) conceal(dst []int16, next []byte) error {
	for len(dst) > 0 {
		n, err := d.d.DecodeWithFEC(next, d.made[:len(dst)], next != nil)
		if err != nil || n <= 0 {
			return fmt.Errorf("opus: conceal: %w", errors.Join(err, ErrLength))
		}
		n = min(n, len(dst))
		for i, v := range d.made[:n] {
			dst[i] = int16(math.RoundToEven(min(max(float64(v)*32768, math.MinInt16), math.MaxInt16)))
		}
		dst, next = dst[n:], nil
	}
	return nil
}

// fileEncoder encodes both sides of a file.
type fileEncoder struct{ e *gopus.Encoder }

func newFileEncoder(rate int, c FileConfig) (*fileEncoder, error) {
	e, err := gopus.NewEncoder(gopus.EncoderConfig{SampleRate: rate, Channels: 2, Application: gopus.ApplicationVoIP})
	if err != nil {
		return nil, fmt.Errorf("opus: encoder: %w", err)
	}
	if err := errors.Join(e.SetBitrate(c.Bitrate), e.SetComplexity(c.Complexity), e.SetFrameSize(rate/50)); err != nil {
		return nil, fmt.Errorf("opus: encoder: %w", err)
	}
	return &fileEncoder{e}, nil
}

// encode fills dst from its beginning and returns the length. pcm is interleaved.
func (e *fileEncoder) encode(dst []byte, pcm []int16) (int, error) { return e.e.EncodeInt16(pcm, dst) }
