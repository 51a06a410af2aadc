package rtp

import (
	"net/netip"
)

// batchSocket is a rawSocket whose reads are done ahead and whose writes are done
// behind, together with those of others, once in a while of a turn.
type batchSocket struct {
	rawSocket
	u *uring
	// Of the reads that were done ahead.
	round            uint32
	first, count, at int
	// refused is told of datagrams that send has taken and the system has not.
	refused func(b []byte)
}

func openBatch(w *Wheel) error {
	u, err := openUring()
	if err != nil {
		return err
	}
	w.batch = (*uringBatch)(u)
	w.bind = func(w *Wheel, port uint16, queue uint32) (socket, error) {
		s, err := bindRaw(w, port, queue)
		if err != nil {
			return nil, err
		}
		return &batchSocket{rawSocket: *s.(*rawSocket), u: u}, nil
	}
	return nil
}

func (s *batchSocket) onRefusal(f func(b []byte)) { s.refused = f }

// recv gives what was read ahead, and asks the system when that was all there was
// room for, or nothing was read ahead.
func (s *batchSocket) recv() ([]byte, netip.AddrPort, bool) {
	if s.round != s.u.round || s.at >= s.count {
		return s.rawSocket.recv()
	}
	for s.at < s.count {
		o := &s.u.in[s.first+s.at]
		s.at++
		if o.result < 0 {
			continue // a datagram may have come between this read and the next
		}
		n := int(o.result)
		if n > len(o.b) {
			n = 0
		}
		return o.b[:n], s.source(&o.name), true
	}
	return nil, netip.AddrPort{}, false // the socket is empty: whoever asks again means later
}

// send queues b. It is on its way when the wheel has turned those sessions that it
// turns together, at the latest when the turn is over.
func (s *batchSocket) send(b []byte, to netip.AddrPort) bool {
	if s.u.broken || len(b) > maxDatagram || len(b) == 0 {
		return s.rawSocket.send(b, to)
	}
	if s.u.writing == batchWrites {
		s.u.do()
	}
	o := &s.u.out[s.u.writing]
	size, ok := s.address(&o.name, to)
	if !ok {
		return false
	}
	s.u.write(s, o, copy(o.b[:], b), size)
	return true
}

// uringBatch is a uring as the wheel uses it.
type uringBatch uring

func (b *uringBatch) begin() { (*uring)(b).begin() }

func (b *uringBatch) want(s socket, n int) bool {
	u := (*uring)(b)
	k, ok := s.(*batchSocket)
	if !ok || u.broken {
		return true
	}
	if !u.room(n) {
		return false
	}
	u.want(k, n)
	return true
}

func (b *uringBatch) do()    { (*uring)(b).do() }
func (b *uringBatch) close() { (*uring)(b).close() }
