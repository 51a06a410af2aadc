package sipp

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"
)

// Ear is a port that a scenario names in its description as [media]: it keeps what
// arrives there, for scenarios whose verdict is in the sound that the server sends.
type Ear struct {
	Port int

	conn *net.UDPConn
	done chan struct{}
	mu   sync.Mutex
	got  []Packet
}

// Packet is one RTP packet that arrived.
type Packet struct {
	At        time.Time
	Type      int
	Marker    bool
	Seq       uint16
	Timestamp uint32
	Payload   []byte
}

// Listen opens an ear until the test ends.
func Listen(t testing.TB) *Ear {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: freePorts(t)})
	if err != nil {
		t.Fatal(err)
	}
	e := &Ear{Port: conn.LocalAddr().(*net.UDPAddr).Port, conn: conn, done: make(chan struct{})}
	go e.read()
	t.Cleanup(func() {
		_ = conn.Close()
		<-e.done
	})
	return e
}

func (e *Ear) read() {
	defer close(e.done)
	b := make([]byte, 2048)
	for {
		n, err := e.conn.Read(b)
		if err != nil {
			return
		}
		if n < 12 || b[0]>>6 != 2 {
			continue
		}
		e.mu.Lock()
		e.got = append(e.got, Packet{
			At: time.Now(), Type: int(b[1] & 0x7f), Marker: b[1]&0x80 != 0, Seq: binary.BigEndian.Uint16(b[2:]),
			Timestamp: binary.BigEndian.Uint32(b[4:]), Payload: append([]byte(nil), b[12:n]...),
		})
		e.mu.Unlock()
	}
}

// Packets are those of a payload type, in the order of their arrival.
func (e *Ear) Packets(payloadType int) []Packet {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Packet
	for _, p := range e.got {
		if p.Type == payloadType {
			out = append(out, p)
		}
	}
	return out
}

// Keys are the telephone events of RFC 4733 in that payload type, and how many of
// them came with their end three times.
func (e *Ear) Keys(payloadType int) (keys string, ended int) {
	const names = "0123456789*#ABCD"
	ends := map[uint32]int{}
	for _, p := range e.Packets(payloadType) {
		if len(p.Payload) != 4 || int(p.Payload[0]) >= len(names) {
			continue
		}
		if _, known := ends[p.Timestamp]; !known {
			keys += names[p.Payload[0]:][:1]
			ends[p.Timestamp] = 0
		}
		if p.Payload[1]&0x80 != 0 {
			ends[p.Timestamp]++
		}
	}
	for _, n := range ends {
		if n == 3 {
			ended++
		}
	}
	return keys, ended
}

// Gap is the longest time without a packet of that type, between the first and the
// last.
func (e *Ear) Gap(payloadType int) time.Duration {
	var longest time.Duration
	packets := e.Packets(payloadType)
	for i := 1; i < len(packets); i++ {
		longest = max(longest, packets[i].At.Sub(packets[i-1].At))
	}
	return longest
}
