package sip

import (
	"bytes"
	"errors"
)

// framer cuts a stream into messages by Content-Length (RFC 3261 section 18.3),
// however the bytes arrive. It holds at most one unfinished message.
type framer struct {
	max     int
	buf     []byte
	scanned int // bytes of buf known to hold no end of headers
	blank   int // line ends in a row between messages
}

// What ends a stream: no boundary is left to go on from.
var (
	errFrameSize   = errors.New("sip: message too large for the stream")
	errFrameLength = errors.New("sip: no usable Content-Length in the stream")
	errFrameStart  = errors.New("sip: garbage where a message should begin")
)

// push adds bytes read. b is copied.
func (f *framer) push(b []byte) { f.buf = append(f.buf, b...) }

// partial says that a message has begun and not ended.
func (f *framer) partial() bool { return len(f.buf) > 0 }

// next returns the next whole message, or nil when more bytes are needed. pings
// counts the CRLFCRLF keep-alives passed on the way (RFC 5626 section 3.5.1):
// line ends count as that only between messages. With an error the message, when
// its head could be read, is good for an answer, and the stream is over.
func (f *framer) next() (msg []byte, pings int, err error) {
	for len(f.buf) > 0 && (f.buf[0] == '\r' || f.buf[0] == '\n') {
		if f.buf[0] == '\n' {
			if f.blank++; f.blank == 2 {
				f.blank = 0
				pings++
			}
		}
		f.buf = f.buf[1:]
	}
	if len(f.buf) == 0 {
		f.buf = nil // let go of the array
		return nil, pings, nil
	}
	f.blank = 0
	if c := f.buf[0]; c <= ' ' || c >= 0x7f {
		return nil, pings, errFrameStart
	}
	end := bytes.Index(f.buf[f.scanned:], []byte("\r\n\r\n"))
	if end < 0 {
		f.scanned = max(0, len(f.buf)-3)
		if len(f.buf) > f.max {
			return nil, pings, errFrameSize
		}
		return nil, pings, nil
	}
	end += f.scanned
	head := f.buf[:end]
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	if !bytes.HasPrefix(line, []byte("SIP/")) && !bytes.Contains(line, []byte(" SIP/")) {
		return nil, pings, errFrameStart
	}
	n, has, err := contentLength(head)
	if err != nil || !has {
		return f.buf[:end+4], pings, errFrameLength
	}
	total := end + 4 + n
	if total > f.max {
		return f.buf[:end+4], pings, errFrameSize
	}
	if len(f.buf) < total {
		return nil, pings, nil
	}
	msg = f.buf[:total:total]
	f.buf, f.scanned = f.buf[total:], 0
	return msg, pings, nil
}
