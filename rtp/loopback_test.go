package rtp

import (
	"net/netip"
	"testing"
	"time"
)

// quiet is a Handler that sends 20 ms of silence and notes when it was asked.
type quiet struct {
	s       *Session
	payload [160]byte
	late    []time.Duration
	packets int
}

func (q *quiet) Packet(*Packet)     { q.packets++ }
func (q *quiet) Turn(time.Duration) {}
func (q *quiet) Slot(time.Duration, int) ([]byte, bool) {
	if len(q.late) < cap(q.late) {
		due := q.s.out.next - q.s.out.ptime
		q.late = append(q.late, q.s.wheel.Now()-due)
	}
	return q.payload[:], false
}

// loopback is n sessions in pairs that talk to each other.
func loopback(tb testing.TB, w *Wheel, n, notes int) []*quiet {
	tb.Helper()
	all := make([]*quiet, n)
	for i := range all {
		s, err := w.Listen()
		if err != nil {
			tb.Fatal(err)
		}
		all[i] = &quiet{s: s, late: make([]time.Duration, 0, notes)}
	}
	for i, q := range all {
		q.s.SetFlow(Flow{
			Peer: all[i^1].s.Local(), Send: true, Recv: true, ClockRate: 8000,
			PacketTime: 20 * time.Millisecond, Accept: Types(0), Rearm: true,
		})
	}
	return all
}

func local(driver string) Config {
	cfg := DefaultConfig()
	cfg.PortMin, cfg.PortMax, cfg.Driver = 0, 0, driver
	cfg.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	return cfg
}
