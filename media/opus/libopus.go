//go:build cgo

package opus

/*
#cgo pkg-config: opus
#cgo noescape opus_encode
#cgo nocallback opus_encode
#cgo noescape opus_decode
#cgo nocallback opus_decode
#include <opus.h>

// The function is variadic in C.
static int set(OpusEncoder *e, int request, opus_int32 value) { return opus_encoder_ctl(e, request, value); }
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// Library names what does the work, for the log.
func Library() string { return C.GoString(C.opus_get_version_string()) }

// state is memory for a state of libopus, which holds no pointer into itself or
// into Go: so it may lie in memory that Go collects, and nobody has to free it.
// Whoever uses it keeps the slice: the collector does not follow pointers to types
// that only C knows.
type state []float64 // aligned for all that is in it

func newState(size C.int) state { return make(state, (int(size)+7)/8) }

func (s state) at() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func failed(what string, code C.int) error {
	if code == C.OPUS_INVALID_PACKET {
		return ErrPacket
	}
	return fmt.Errorf("opus: %s: %s", what, C.GoString(C.opus_strerror(code)))
}

// expectedLoss is what the encoder is told of the network in percent: it decides
// how much of the bits repeats earlier speech. Below about 5 nothing does.
const expectedLoss = 10

type libEncoder struct {
	p      *C.OpusEncoder
	memory state
}

func newLibEncoder(c Config, w wishes) (*libEncoder, error) {
	e := &libEncoder{memory: newState(C.opus_encoder_get_size(1))}
	e.p = (*C.OpusEncoder)(e.memory.at())
	if code := C.opus_encoder_init(e.p, SampleRate, 1, C.OPUS_APPLICATION_VOIP); code != C.OPUS_OK {
		return nil, failed("encoder", code)
	}
	bandwidths := [...]C.opus_int32{narrowband: C.OPUS_BANDWIDTH_NARROWBAND, mediumband: C.OPUS_BANDWIDTH_MEDIUMBAND, wideband: C.OPUS_BANDWIDTH_WIDEBAND}
	var errs []error
	for _, s := range []struct {
		request C.int
		value   C.opus_int32
	}{
		{C.OPUS_SET_BITRATE_REQUEST, C.opus_int32(c.Bitrate)},
		{C.OPUS_SET_COMPLEXITY_REQUEST, C.opus_int32(c.Complexity)},
		{C.OPUS_SET_SIGNAL_REQUEST, C.OPUS_SIGNAL_VOICE},
		{C.OPUS_SET_MAX_BANDWIDTH_REQUEST, bandwidths[w.bandwidth]},
		{C.OPUS_SET_INBAND_FEC_REQUEST, number(c.FEC)},
		{C.OPUS_SET_PACKET_LOSS_PERC_REQUEST, number(c.FEC) * expectedLoss},
		{C.OPUS_SET_DTX_REQUEST, number(c.DTX)},
		{C.OPUS_SET_VBR_REQUEST, number(!w.constant)},
	} {
		if code := C.set(e.p, s.request, s.value); code != C.OPUS_OK {
			errs = append(errs, failed("encoder", code))
		}
	}
	return e, errors.Join(errs...)
}

func number(b bool) C.opus_int32 {
	if b {
		return 1
	}
	return 0
}

// encode fills dst from its beginning and returns the length.
func (e *libEncoder) encode(dst []byte, pcm []int16) (int, error) {
	n := C.opus_encode(e.p, (*C.opus_int16)(unsafe.SliceData(pcm)), C.int(len(pcm)),
		(*C.uchar)(unsafe.SliceData(dst)), C.opus_int32(len(dst)))
	runtime.KeepAlive(e)
	if n < 0 {
		return 0, failed("encode", n)
	}
	return int(n), nil
}

type libDecoder struct {
	p      *C.OpusDecoder
	memory state
}

func newLibDecoder() (*libDecoder, error) {
	d := &libDecoder{memory: newState(C.opus_decoder_get_size(1))}
	d.p = (*C.OpusDecoder)(d.memory.at())
	if code := C.opus_decoder_init(d.p, SampleRate, 1); code != C.OPUS_OK {
		return nil, failed("decoder", code)
	}
	return d, nil
}

// decode fills dst, which is as long as the packet lasts, and returns the length.
func (d *libDecoder) decode(dst []int16, payload []byte) (int, error) {
	return d.call(dst, payload, 0)
}

// conceal fills dst with made-up sound: the frame that next repeats, if it is
// given and repeats one.
func (d *libDecoder) conceal(dst []int16, next []byte) error {
	_, err := d.call(dst, next, number(next != nil))
	return err
}

func (d *libDecoder) call(dst []int16, payload []byte, fec C.int) (int, error) {
	n := C.opus_decode(d.p, (*C.uchar)(unsafe.SliceData(payload)), C.opus_int32(len(payload)),
		(*C.opus_int16)(unsafe.SliceData(dst)), C.int(len(dst)), fec)
	runtime.KeepAlive(d)
	if n < 0 {
		return 0, failed("decode", n)
	}
	return int(n), nil
}
