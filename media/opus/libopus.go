//go:build cgo

package opus

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/hraban/opus"
)

// Library names what does the work, for the log.
func Library() string { return opus.Version() }

// expectedLoss is what the encoder is told of the network in percent: it decides
// how much of the bits repeats earlier speech. Below about 5 nothing does.
const expectedLoss = 10

// Two things to know of the binding. It takes the room that a slice has by its
// capacity, not by its length: slices that it fills are cut to what is meant. And
// the collector may not know that C is still at work in an encoder or a decoder:
// each is kept alive until the call returns.

type libEncoder struct{ e *opus.Encoder }

func newLibEncoder(c Config, w wishes) (*libEncoder, error) {
	e, err := opus.NewEncoder(SampleRate, 1, opus.AppVoIP)
	if err != nil {
		return nil, fmt.Errorf("opus: encoder: %w", err)
	}
	bandwidths := [...]opus.Bandwidth{narrowband: opus.Narrowband, mediumband: opus.Mediumband, wideband: opus.Wideband}
	loss := 0
	if c.FEC {
		loss = expectedLoss
	}
	if err := errors.Join(
		e.SetBitrate(c.Bitrate), e.SetComplexity(c.Complexity), e.SetMaxBandwidth(bandwidths[w.bandwidth]),
		e.SetInBandFEC(c.FEC), e.SetPacketLossPerc(loss), e.SetDTX(c.DTX), e.SetVBR(!w.constant),
	); err != nil {
		return nil, fmt.Errorf("opus: encoder: %w", err)
	}
	return &libEncoder{e}, nil
}

// encode fills dst from its beginning and returns the length.
func (e *libEncoder) encode(dst []byte, pcm []int16) (int, error) {
	n, err := e.e.Encode(pcm, dst[:len(dst):len(dst)])
	runtime.KeepAlive(e)
	if err != nil {
		return 0, fmt.Errorf("opus: encode: %w", err)
	}
	return n, nil
}

type libDecoder struct{ d *opus.Decoder }

func newLibDecoder() (*libDecoder, error) {
	d, err := opus.NewDecoder(SampleRate, 1)
	if err != nil {
		return nil, fmt.Errorf("opus: decoder: %w", err)
	}
	return &libDecoder{d}, nil
}

// decode fills dst, which is as long as the packet lasts, and returns the length.
func (d *libDecoder) decode(dst []int16, payload []byte) (int, error) {
	n, err := d.d.Decode(payload, dst[:len(dst):len(dst)])
	runtime.KeepAlive(d)
	if err != nil {
		return 0, refused(err)
	}
	return n, nil
}

// conceal fills dst with made-up sound: the frame that next repeats, if it is
// given and repeats one.
func (d *libDecoder) conceal(dst []int16, next []byte) error {
	dst = dst[:len(dst):len(dst)]
	var err error
	if next == nil {
		err = d.d.DecodePLC(dst)
	} else {
		err = d.d.DecodeFEC(next, dst)
	}
	runtime.KeepAlive(d)
	if err != nil {
		return refused(err)
	}
	return nil
}

// refused is the error for a payload. What is no packet is ErrPacket and nothing
// more: anybody may send that as often as they like.
func refused(err error) error {
	if errors.Is(err, opus.ErrInvalidPacket) {
		return ErrPacket
	}
	return fmt.Errorf("opus: decode: %w", err)
}

// fileEncoder encodes both sides of a file.
type fileEncoder struct{ e *opus.Encoder }

func newFileEncoder(rate int, c FileConfig) (*fileEncoder, error) {
	e, err := opus.NewEncoder(rate, 2, opus.AppVoIP)
	if err != nil {
		return nil, fmt.Errorf("opus: encoder: %w", err)
	}
	if err := errors.Join(e.SetBitrate(c.Bitrate), e.SetComplexity(c.Complexity)); err != nil {
		return nil, fmt.Errorf("opus: encoder: %w", err)
	}
	return &fileEncoder{e}, nil
}

// encode fills dst from its beginning and returns the length. pcm is interleaved.
func (e *fileEncoder) encode(dst []byte, pcm []int16) (int, error) {
	n, err := e.e.Encode(pcm, dst[:len(dst):len(dst)])
	runtime.KeepAlive(e)
	return n, err
}
