package rtp

import (
	"encoding/binary"

	pion "github.com/pion/rtp"
)

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
	kindDTLS
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
	if k := demux(b); k != kindRTP {
		return k
	}
	var h pion.Header
	begin, err := h.Unmarshal(b)
	if err != nil {
		return kindMalformed
	}
	end := len(b)
	if h.Padding {
		// The last octet counts the padding, itself included.
		if begin == end {
			return kindMalformed
		}
		pad := int(b[end-1])
		if pad == 0 || pad > end-begin {
			return kindMalformed
		}
		end -= pad
	}
	p.PayloadType, p.Marker = h.PayloadType, h.Marker
	p.Sequence, p.Timestamp, p.SSRC = h.SequenceNumber, h.Timestamp, h.SSRC
	p.Payload = b[begin:end:end]
	return kindRTP
}

// demux says what a datagram is by its first octets (RFC 7983 section 7, RFC 5761
// section 4), which no encryption hides.
func demux(b []byte) kind {
	if len(b) < 2 {
		return kindMalformed
	}
	switch {
	case b[0] <= 3:
		if len(b) >= 20 && binary.BigEndian.Uint32(b[4:]) == stunCookie {
			return kindSTUN
		}
		return kindMalformed
	case b[0] >= 20 && b[0] <= 63:
		return kindDTLS
	case b[0]>>6 != 2:
		return kindMalformed
	}
	if pt := b[1] & 0x7f; pt >= 64 && pt <= 95 {
		return kindRTCP
	}
	return kindRTP
}

// writeHeader writes a header of ours: no CSRC list, no extension, no padding.
func writeHeader(b []byte, pt uint8, marker bool, seq uint16, ts, ssrc uint32) {
	h := pion.Header{Version: 2, Marker: marker, PayloadType: pt, SequenceNumber: seq, Timestamp: ts, SSRC: ssrc}
	_, _ = h.MarshalTo(b) // fails only when b is shorter than headerSize
}
