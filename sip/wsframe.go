package sip

import (
	"encoding/binary"
	"unicode/utf8"
)

// The opcodes of RFC 6455 section 5.2.
const (
	wsContinuation = 0x0
	wsText         = 0x1
	wsBinary       = 0x2
	wsClose        = 0x8
	wsPing         = 0x9
	wsPong         = 0xA
)

// wsError ends a WebSocket. Its code goes into the close frame (RFC 6455 section
// 7.4.1).
type wsError struct {
	code uint16
	text string
}

func (e *wsError) Error() string { return "sip: WebSocket: " + e.text }

// Why we close.
var (
	errWSDone     = &wsError{1000, "closed by the peer"}
	errWSAway     = &wsError{1001, "going away"}
	errWSProtocol = &wsError{1002, "protocol error"}
	errWSText     = &wsError{1007, "text that is not UTF-8"}
	errWSSize     = &wsError{1009, "message too large"}
)

// wsFrame is a whole message, or a control frame.
type wsFrame struct {
	op   byte
	data []byte
}

// wsFramer cuts what clients send into WebSocket messages (RFC 6455 section 5),
// however the bytes arrive. It holds at most one unfinished message.
type wsFramer struct {
	max int
	buf []byte
	op  byte   // of the message whose fragments are in msg; 0: none is open
	msg []byte // fragments that came
}

// push adds bytes read. b is copied.
func (w *wsFramer) push(b []byte) { w.buf = append(w.buf, b...) }

// partial says that a frame or a message has begun and not ended.
func (w *wsFramer) partial() bool { return len(w.buf) > 0 || w.op != 0 }

// wsHeader is the head of a frame.
type wsHeader struct {
	fin  bool
	op   byte
	size int // of the payload
	mask [4]byte
	len  int // of the head itself
}

// next returns the next message or control frame; ok is false when more bytes are
// needed. Control frames may stand between the fragments of a message. After an
// error the stream is over.
func (w *wsFramer) next() (f wsFrame, ok bool, err error) {
	for {
		h, ok, err := w.header()
		if err != nil || !ok {
			return wsFrame{}, false, err
		}
		if len(w.buf) < h.len+h.size {
			return wsFrame{}, false, nil
		}
		data := make([]byte, h.size)
		for i, b := range w.buf[h.len : h.len+h.size] {
			data[i] = b ^ h.mask[i&3]
		}
		if w.buf = w.buf[h.len+h.size:]; len(w.buf) == 0 {
			w.buf = nil // let go of the array
		}
		if h.op >= wsClose {
			return wsFrame{h.op, data}, true, nil
		}
		if h.op != wsContinuation {
			w.op = h.op
		}
		w.msg = append(w.msg, data...)
		if !h.fin {
			continue
		}
		f = wsFrame{w.op, w.msg}
		w.op, w.msg = 0, nil
		if f.op == wsText && !utf8.Valid(f.data) {
			return wsFrame{}, false, errWSText
		}
		return f, true, nil
	}
}

// header reads the head of the next frame and refuses what no client may send. It
// looks at the length before the payload is there.
func (w *wsFramer) header() (h wsHeader, ok bool, err error) {
	b := w.buf
	if len(b) < 2 {
		return h, false, nil
	}
	h.fin, h.op = b[0]&0x80 != 0, b[0]&0x0f
	if b[0]&0x70 != 0 || b[1]&0x80 == 0 { // extensions were not agreed on; clients must mask
		return h, false, errWSProtocol
	}
	size := uint64(b[1] & 0x7f)
	h.len = 2
	switch size {
	case 126:
		h.len = 4
	case 127:
		h.len = 10
	}
	if len(b) < h.len+4 {
		return h, false, nil
	}
	switch h.len {
	case 4:
		size = uint64(binary.BigEndian.Uint16(b[2:]))
	case 10:
		size = binary.BigEndian.Uint64(b[2:])
	}
	if h.len == 4 && size < 126 || h.len == 10 && size < 1<<16 { // the shortest form is a must
		return h, false, errWSProtocol
	}
	copy(h.mask[:], b[h.len:])
	h.len += 4
	if err := w.fits(h, size); err != nil {
		return h, false, err
	}
	h.size = int(size)
	return h, true, nil
}

// fits says whether a frame may come now and be as long as it says.
func (w *wsFramer) fits(h wsHeader, size uint64) error {
	switch h.op {
	case wsClose, wsPing, wsPong:
		if !h.fin || size > 125 {
			return errWSProtocol
		}
		return nil
	case wsContinuation:
		if w.op == 0 {
			return errWSProtocol
		}
	case wsText, wsBinary:
		if w.op != 0 {
			return errWSProtocol
		}
	default:
		return errWSProtocol
	}
	if size > uint64(w.max-len(w.msg)) {
		return errWSSize
	}
	return nil
}

// wsMessage is a SIP message of ours as one frame: text when it is UTF-8, else
// binary (RFC 7118 section 5.2). Servers do not mask.
func wsMessage(b []byte) []byte {
	if utf8.Valid(b) {
		return wsEncode(wsText, b)
	}
	return wsEncode(wsBinary, b)
}

// wsEncode writes one unmasked frame.
func wsEncode(op byte, b []byte) []byte {
	out := make([]byte, 0, len(b)+10)
	out = append(out, 0x80|op)
	switch n := len(b); {
	case n < 126:
		out = append(out, byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, 126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 127), uint64(n))
	}
	return append(out, b...)
}
