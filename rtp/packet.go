package rtp

import "encoding/binary"

// headerSize is the fixed RTP header without CSRC list and extension.
const headerSize = 12

// maxPayload is the longest payload sent: an Ethernet frame less IPv6, UDP and RTP.
const maxPayload = 1440

// stunCookie is the magic cookie of RFC 5389 section 6.
const stunCookie = 0x2112A442

type kind uint8

const (
	kindMalformed kind = iota
	kindRTP
	kindRTCP
	kindSTUN
)

// parse reads one datagram into p and says what it is; p is only filled for RTP.
// p.Payload is a part of b. RFC 3550 section 5.1:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|V=2|P|X|  CC   |M|     PT      |       sequence number         |
//	|                           timestamp                           |
//	|                             SSRC                              |
//	|                CSRC × CC, then the extension if X             |
func parse(b []byte, p *Packet) kind {
	if len(b) < 2 {
		return kindMalformed
	}
	if b[0] <= 3 { // RFC 7983 section 7
		if len(b) >= 20 && binary.BigEndian.Uint32(b[4:]) == stunCookie {
			return kindSTUN
		}
		return kindMalformed
	}
	if b[0]>>6 != 2 {
		return kindMalformed
	}
	pt := b[1] & 0x7f
	if pt >= 64 && pt <= 95 { // RFC 5761 section 4
		return kindRTCP
	}
	if len(b) < headerSize {
		return kindMalformed
	}
	begin, end, ok := bounds(b)
	if !ok {
		return kindMalformed
	}
	p.PayloadType = pt
	p.Marker = b[1]&0x80 != 0
	p.Sequence = binary.BigEndian.Uint16(b[2:])
	p.Timestamp = binary.BigEndian.Uint32(b[4:])
	p.SSRC = binary.BigEndian.Uint32(b[8:])
	p.Payload = b[begin:end:end]
	return kindRTP
}

// bounds is where the payload of an RTP packet begins and ends. ok is false when
// the CSRC list, the extension (RFC 3550 section 5.3.1) or the padding do not fit.
func bounds(b []byte) (begin, end int, ok bool) {
	begin, end = headerSize+4*int(b[0]&0x0f), len(b)
	if b[0]&0x10 != 0 {
		if begin+4 > end {
			return 0, 0, false
		}
		begin += 4 + 4*int(binary.BigEndian.Uint16(b[begin+2:]))
	}
	if begin > end {
		return 0, 0, false
	}
	if b[0]&0x20 != 0 {
		// The last octet counts the padding, itself included.
		pad := int(b[end-1])
		if pad == 0 || pad > end-begin {
			return 0, 0, false
		}
		end -= pad
	}
	return begin, end, true
}

// writeHeader writes a header of ours: no CSRC list, no extension, no padding.
func writeHeader(b []byte, pt uint8, marker bool, seq uint16, ts, ssrc uint32) {
	b[0] = 2 << 6
	b[1] = pt & 0x7f
	if marker {
		b[1] |= 0x80
	}
	binary.BigEndian.PutUint16(b[2:], seq)
	binary.BigEndian.PutUint32(b[4:], ts)
	binary.BigEndian.PutUint32(b[8:], ssrc)
}
