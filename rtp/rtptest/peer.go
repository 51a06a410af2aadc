package rtptest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"time"

	"parley/rtp"
)

// Peer is the far end of a call: a stream out by its own calls, and a record of
// the stream that came in. Its fields may be changed between packets.
type Peer struct {
	Conn        rtp.PacketConn
	To          netip.AddrPort
	PayloadType uint8
	SSRC        uint32
	Sequence    uint16
	Timestamp   uint32
	Step        uint32 // clock units of one packet

	mu   sync.Mutex
	seen []Seen
	done chan struct{}
}

// Seen is one packet that a Peer received, in order of arrival.
type Seen struct {
	At          time.Time
	From        netip.AddrPort
	PayloadType uint8
	Marker      bool
	Sequence    uint16
	Timestamp   uint32
	SSRC        uint32
	Payload     []byte
}

// NewPeer binds a peer that sends to `to`, and reads what comes until Close.
func NewPeer(n *Network, addr, to netip.AddrPort) (*Peer, error) {
	conn, err := n.Listen(addr)
	if err != nil {
		return nil, err
	}
	p := &Peer{Conn: conn, To: to, SSRC: 0x5EED, Sequence: 1000, Timestamp: 160000, Step: 160, done: make(chan struct{})}
	go p.read()
	return p, nil
}

// Addr is where the peer listens: what its SDP would say.
func (p *Peer) Addr() netip.AddrPort {
	return p.Conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// Send sends one packet and moves sequence number and timestamp on.
func (p *Peer) Send(marker bool, payload []byte) {
	p.SendAs(p.PayloadType, marker, p.Timestamp, payload)
	p.Timestamp += p.Step
}

// SendAs sends one packet of another type and timestamp, as for a
// telephone-event, and moves the sequence number on.
func (p *Peer) SendAs(payloadType uint8, marker bool, timestamp uint32, payload []byte) {
	b := make([]byte, 12, 12+len(payload))
	b[0], b[1] = 0x80, payloadType
	if marker {
		b[1] |= 0x80
	}
	binary.BigEndian.PutUint16(b[2:], p.Sequence)
	binary.BigEndian.PutUint32(b[4:], timestamp)
	binary.BigEndian.PutUint32(b[8:], p.SSRC)
	p.Sequence++
	p.Raw(append(b, payload...))
}

// Raw sends a datagram as it is.
func (p *Peer) Raw(b []byte) { _, _ = p.Conn.WriteToUDPAddrPort(b, p.To) }

// Seen is all that came so far.
func (p *Peer) Seen() []Seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Seen(nil), p.seen...)
}

// Close ends the peer and waits for its reader.
func (p *Peer) Close() {
	p.Conn.Close()
	<-p.done
}

func (p *Peer) read() {
	defer close(p.done)
	b := make([]byte, 2048)
	for {
		n, from, err := p.Conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		if n < 12 {
			continue
		}
		s := Seen{
			At: time.Now(), From: from, PayloadType: b[1] & 0x7f, Marker: b[1]&0x80 != 0,
			Sequence:  binary.BigEndian.Uint16(b[2:]),
			Timestamp: binary.BigEndian.Uint32(b[4:]),
			SSRC:      binary.BigEndian.Uint32(b[8:]),
			Payload:   append([]byte(nil), b[12:n]...),
		}
		p.mu.Lock()
		p.seen = append(p.seen, s)
		p.mu.Unlock()
	}
}
