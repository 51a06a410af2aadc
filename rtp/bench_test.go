package rtp

import (
	"fmt"
	"net/netip"
	"slices"
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

// BenchmarkPacing measures how far packets leave from their schedule while the
// wheel turns as many calls in real time, both ways: -benchtime 500x is 10 s.
func BenchmarkPacing(b *testing.B) {
	for _, driver := range []string{DriverRaw, DriverGoroutine} {
		for _, n := range []int{200, 500} {
			b.Run(fmt.Sprint(driver, "/", n), func(b *testing.B) { pace(b, driver, n) })
		}
	}
}

func pace(b *testing.B, driver string, n int) {
	w, err := NewWheel(local(driver))
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	all := loopback(b, w, n, b.N)
	for _, q := range all {
		q.s.Join(q)
	}
	cpu := cpuTime()
	time.Sleep(time.Duration(b.N)*20*time.Millisecond + 40*time.Millisecond)
	cpu = cpuTime() - cpu
	for _, q := range all {
		q.s.Close()
	}
	var late []time.Duration
	for _, q := range all {
		late = append(late, q.late...)
	}
	slices.Sort(late)
	st := w.Stats()
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	b.ReportMetric(ms(late[len(late)/2]), "p50-ms")
	b.ReportMetric(ms(late[len(late)*99/100]), "p99-ms")
	b.ReportMetric(ms(late[len(late)-1]), "max-ms")
	b.ReportMetric(ms(st.LongestTurn), "longest-turn-ms")
	b.ReportMetric(float64(cpu.Microseconds())/float64(n)/(float64(b.N)*0.02), "µs/call-s")
	b.ReportMetric(float64(st.SkippedSlots), "skipped")
}
