package opus

import (
	"encoding/binary"
	"io"
)

// pages writes the pages of one logical Ogg stream (RFC 3533 section 6).
type pages struct {
	w      io.Writer
	serial uint32
	number uint32
	b      []byte // the page being made: room for the header, then segments' bytes
	laces  []byte
	crc    [256]uint32
}

// Flags of a page.
const (
	firstPage = 2
	lastPage  = 4
)

// headOfPage is the fixed part of a page's header.
const headOfPage = 27

func newPages(w io.Writer, serial uint32) *pages {
	p := &pages{w: w, serial: serial}
	for i := range p.crc {
		r := uint32(i) << 24
		for range 8 {
			if r&(1<<31) != 0 {
				r = r<<1 ^ 0x04c11db7
			} else {
				r <<= 1
			}
		}
		p.crc[i] = r
	}
	return p
}

// fits says whether a packet of n bytes can be added to the page: it is given a
// whole number of segments of it.
func (p *pages) fits(n int) bool { return len(p.laces)+n/255+1 <= 255 }

// add puts a packet on the page.
func (p *pages) add(packet []byte) {
	n := len(packet)
	for ; n >= 255; n -= 255 {
		p.laces = append(p.laces, 255)
	}
	p.laces = append(p.laces, byte(n))
	p.b = append(p.b, packet...)
}

// end writes the page. granule is the position of the last packet that ends on it.
func (p *pages) end(flags byte, granule uint64) error {
	page := make([]byte, headOfPage, headOfPage+len(p.laces)+len(p.b))
	copy(page, "OggS")
	page[5] = flags
	le := binary.LittleEndian
	le.PutUint64(page[6:], granule)
	le.PutUint32(page[14:], p.serial)
	le.PutUint32(page[18:], p.number)
	page[26] = byte(len(p.laces))
	page = append(page, p.laces...)
	page = append(page, p.b...)
	sum := uint32(0)
	for _, b := range page {
		sum = sum<<8 ^ p.crc[byte(sum>>24)^b]
	}
	le.PutUint32(page[22:], sum)
	p.number++
	p.laces, p.b = p.laces[:0], p.b[:0]
	_, err := p.w.Write(page)
	return err
}
