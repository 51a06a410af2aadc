package phone

import (
	"cmp"
	"encoding/binary"
	"io"
	"slices"
	"time"
)

// WriteCapture writes everything the phone sent and received, SIP over UDP and the
// RTP of the given calls, as a pcap file with nanosecond times, to be read by
// tshark and its kin. What the impairment dropped is left out. IPv4 only.
func (p *Phone) WriteCapture(w io.Writer, calls ...*Call) error {
	p.mu.Lock()
	var records []signal
	if p.config.Transport == "udp" {
		records = slices.Clone(p.signals)
	}
	p.mu.Unlock()
	for _, c := range calls {
		for _, pk := range c.log.Packets() {
			if !pk.Dropped {
				records = append(records, signal{pk.At, pk.Local, pk.Remote, pk.Direction == Sent, appendRTP(nil, pk)})
			}
		}
	}
	slices.SortStableFunc(records, func(a, b signal) int { return cmp.Compare(a.at, b.at) })
	out := captureHeader()
	for _, r := range records {
		out = r.append(out, p.clock.wall(r.at))
	}
	_, err := w.Write(out)
	return err
}

// captureHeader is the file header: nanoseconds, raw IP (link type 101).
func captureHeader() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0xa1b23c4d)
	b = binary.LittleEndian.AppendUint16(b, 2)
	b = binary.LittleEndian.AppendUint16(b, 4)
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = binary.LittleEndian.AppendUint32(b, 1<<16)
	return binary.LittleEndian.AppendUint32(b, 101)
}

// append adds the record with the IPv4 and UDP headers that the packet had.
func (r signal) append(b []byte, at time.Time) []byte {
	source, target := r.remote, r.local
	if r.sent {
		source, target = r.local, r.remote
	}
	if !source.Addr().Is4() || !target.Addr().Is4() {
		return b
	}
	size := 20 + 8 + len(r.data)
	b = binary.LittleEndian.AppendUint32(b, uint32(at.Unix()))
	b = binary.LittleEndian.AppendUint32(b, uint32(at.Nanosecond()))
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	head := len(b)
	b = append(b, 0x45, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(size))
	b = append(b, 0, 0, 0x40, 0, 64, 17, 0, 0)
	b = append(b, source.Addr().AsSlice()...)
	b = append(b, target.Addr().AsSlice()...)
	binary.BigEndian.PutUint16(b[head+10:], checksum(b[head:]))
	b = binary.BigEndian.AppendUint16(b, source.Port())
	b = binary.BigEndian.AppendUint16(b, target.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(r.data)))
	b = append(b, 0, 0) // no UDP checksum
	return append(b, r.data...)
}

// checksum is the internet checksum of RFC 1071 over an even number of bytes.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
