package rtp

import "encoding/binary"

// RTCP packet types (RFC 3550 section 12.1, RFC 3611 section 2).
const (
	typeSR   = 200
	typeRR   = 201
	typeSDES = 202
	typeBYE  = 203
	typeXR   = 207
)

const (
	senderSize = 20 // sender info of an SR
	blockSize  = 24 // one report block
	voipBlock  = 7  // block type of VoIP Metrics, RFC 3611 section 4.7
	voipSize   = 32 // its length without the block header
	cnameSize  = 16 // 96 bits in base64: RFC 7022 section 4.2
)

// senderInfo is the part of an SR that an RR has not.
type senderInfo struct {
	ntp             uint64 // wall clock, 32.32 seconds since 1900
	rtp             uint32 // the same instant in timestamps of the stream
	packets, octets uint32
}

// reportBlock tells a sender how its stream arrives (RFC 3550 section 6.4.1).
type reportBlock struct {
	ssrc     uint32
	fraction uint8 // lost since the last report, of 256
	lost     int32 // 24 bits, signed: duplicates may make it negative
	highest  uint32
	jitter   uint32
	lsr      uint32 // the middle of the NTP time of the last SR; 0: none
	dlsr     uint32 // 1/65536 s since it came
}

// voipMetrics are the fields of a VoIP Metrics block that we know something of.
type voipMetrics struct {
	ssrc                       uint32
	loss, discard              uint8 // of 256
	duration, roundTrip, delay uint16
	r                          uint8 // R factor
	mosLQ, mosCQ               uint8 // × 10
	playout                    uint16
}

// appendHead appends an RTCP header; words is the length without its own word.
func appendHead(b []byte, count, kind uint8, words int) []byte {
	return append(b, 2<<6|count, kind, byte(words>>8), byte(words))
}

// appendReport appends an SR, or an RR when info is nil, with a block or none.
func appendReport(b []byte, ssrc uint32, info *senderInfo, block *reportBlock) []byte {
	kind, words, count := uint8(typeRR), 1, uint8(0)
	if info != nil {
		kind, words = typeSR, words+senderSize/4
	}
	if block != nil {
		count, words = 1, words+blockSize/4
	}
	be := binary.BigEndian
	b = be.AppendUint32(appendHead(b, count, kind, words), ssrc)
	if info != nil {
		b = be.AppendUint64(b, info.ntp)
		b = be.AppendUint32(b, info.rtp)
		b = be.AppendUint32(b, info.packets)
		b = be.AppendUint32(b, info.octets)
	}
	if block != nil {
		b = be.AppendUint32(b, block.ssrc)
		b = be.AppendUint32(b, uint32(block.fraction)<<24|uint32(block.lost)&0xffffff)
		b = be.AppendUint32(b, block.highest)
		b = be.AppendUint32(b, block.jitter)
		b = be.AppendUint32(b, block.lsr)
		b = be.AppendUint32(b, block.dlsr)
	}
	return b
}

// appendCNAME appends an SDES packet with a CNAME and nothing else: names and
// numbers of people do not belong there (RFC 3550 section 14).
func appendCNAME(b []byte, ssrc uint32, cname *[cnameSize]byte) []byte {
	const item = 2 + cnameSize
	const end = 4 - item%4 // one to four zeros end the chunk
	b = binary.BigEndian.AppendUint32(appendHead(b, 1, typeSDES, 1+(item+end)/4), ssrc)
	b = append(append(b, 1, cnameSize), cname[:]...)
	for range end {
		b = append(b, 0)
	}
	return b
}

// appendBYE appends a BYE of one source.
func appendBYE(b []byte, ssrc uint32) []byte {
	return binary.BigEndian.AppendUint32(appendHead(b, 1, typeBYE, 1), ssrc)
}

// appendVoIP appends an XR packet with a VoIP Metrics block. All of the call is
// one gap: we do not look for bursts.
func appendVoIP(b []byte, ssrc uint32, m *voipMetrics) []byte {
	const unknown, gmin = 127, 16
	const receiver = 3<<6 | 3<<4 // standard concealment, adaptive jitter buffer
	be := binary.BigEndian
	b = be.AppendUint32(appendHead(b, 0, typeXR, 2+voipSize/4), ssrc)
	b = append(b, voipBlock, 0, 0, voipSize/4)
	b = be.AppendUint32(b, m.ssrc)
	gap := uint8(min(255, int(m.loss)+int(m.discard)))
	b = append(b, m.loss, m.discard, 0, gap, 0, 0)
	b = be.AppendUint16(b, m.duration)
	b = be.AppendUint16(b, m.roundTrip)
	b = be.AppendUint16(b, m.delay)
	b = append(b, unknown, unknown, unknown, gmin, m.r, unknown, m.mosLQ, m.mosCQ, receiver, 0)
	b = be.AppendUint16(b, m.playout)
	b = be.AppendUint16(b, m.playout)
	return be.AppendUint16(b, m.playout)
}

// validCompound is RFC 3550 section A.2: version 2 throughout, an SR or RR without
// padding first, padding in the last alone, and lengths that add up. It also checks
// that what the counts promise fits, so that who reads on need not.
func validCompound(b []byte) bool {
	if len(b) < 8 || b[0]&0x20 != 0 || b[1] != typeSR && b[1] != typeRR {
		return false
	}
	for len(b) > 0 {
		if len(b) < 4 || b[0]>>6 != 2 {
			return false
		}
		size := 4 + 4*int(binary.BigEndian.Uint16(b[2:]))
		if size > len(b) || b[0]&0x20 != 0 && !validPadding(b, size) {
			return false
		}
		body, _ := cut(b)
		if len(body) < promised(b[1], int(b[0]&0x1f)) {
			return false
		}
		b = b[size:]
	}
	return true
}

// validPadding is whether padding may stand at the end of b[:size].
func validPadding(b []byte, size int) bool {
	pad := int(b[size-1])
	return size == len(b) && pad > 0 && pad%4 == 0 && pad <= size-4
}

// promised is how long the body of a packet must be for its count.
func promised(kind uint8, count int) int {
	switch kind {
	case typeSR:
		return 4 + senderSize + count*blockSize
	case typeRR:
		return 4 + count*blockSize
	case typeBYE, typeSDES:
		return 4 * count
	case typeXR:
		return 4
	}
	return 0
}

// cut takes the first packet off a compound whose lengths hold: its body, without
// header and padding, and the rest.
func cut(b []byte) (body, rest []byte) {
	size := 4 + 4*int(binary.BigEndian.Uint16(b[2:]))
	end := size
	if b[0]&0x20 != 0 {
		end -= int(b[size-1])
	}
	return b[4:end], b[size:]
}

// readBlock reads a report block; b is long enough.
func readBlock(b []byte) reportBlock {
	be := binary.BigEndian
	lost := be.Uint32(b[4:])
	return reportBlock{
		ssrc: be.Uint32(b), fraction: uint8(lost >> 24), lost: int32(lost<<8) >> 8,
		highest: be.Uint32(b[8:]), jitter: be.Uint32(b[12:]), lsr: be.Uint32(b[16:]), dlsr: be.Uint32(b[20:]),
	}
}

// findVoIP looks through the blocks of an XR packet, behind its SSRC, for the
// conversational MOS × 10 of our stream. Blocks that do not fit end the search.
func findVoIP(b []byte, ssrc uint32) (mos uint8, ok bool) {
	for len(b) >= 4 {
		size := 4 + 4*int(binary.BigEndian.Uint16(b[2:]))
		if size > len(b) {
			return 0, false
		}
		if b[0] == voipBlock && size == 4+voipSize && binary.BigEndian.Uint32(b[4:]) == ssrc {
			mos = b[27]
			return mos, mos >= 10 && mos <= 50
		}
		b = b[size:]
	}
	return 0, false
}
