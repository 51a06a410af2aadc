package rtp

import (
	"math"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pion/rtcp"
)

// TestWhatWeWriteIsReadByAnother lets another implementation read each kind of
// packet, field by field.
func TestWhatWeWriteIsReadByAnother(t *testing.T) {
	info := senderInfo{ntp: 0xE1D2C3B4A5968778, rtp: 0x01020304, packets: 1000, octets: 160000}
	block := reportBlock{ssrc: 7, fraction: 64, lost: 0x123456, highest: 0x1FFFF, jitter: 80, lsr: 0xC3B4A596, dlsr: 0x8000}
	cname := [cnameSize]byte([]byte("abcdefghijklmnop"))
	voip := voipMetrics{ssrc: 7, loss: 10, discard: 20, duration: 3000, roundTrip: 80, delay: 61, r: 81, mosLQ: 42, mosCQ: 41, playout: 41}
	var b []byte
	b = appendReport(b, 5, &info, &block)
	b = appendReport(b, 5, nil, nil)
	b = appendCNAME(b, 5, &cname)
	b = appendVoIP(b, 5, &voip)
	b = appendBYE(b, 5)
	if !validCompound(b) {
		t.Fatal("we do not take it ourselves")
	}
	all, err := rtcp.Unmarshal(b)
	if err != nil || len(all) != 5 {
		t.Fatalf("%d packets, %v", len(all), err)
	}
	sr, rr, sdes, xr, bye := all[0].(*rtcp.SenderReport), all[1].(*rtcp.ReceiverReport), all[2].(*rtcp.SourceDescription), all[3].(*rtcp.ExtendedReport), all[4].(*rtcp.Goodbye)
	want := rtcp.ReceptionReport{SSRC: 7, FractionLost: 64, TotalLost: 0x123456, LastSequenceNumber: 0x1FFFF, Jitter: 80, LastSenderReport: 0xC3B4A596, Delay: 0x8000}
	if sr.SSRC != 5 || sr.NTPTime != info.ntp || sr.RTPTime != info.rtp || sr.PacketCount != 1000 || sr.OctetCount != 160000 || len(sr.Reports) != 1 || sr.Reports[0] != want {
		t.Errorf("%+v", sr)
	}
	if rr.SSRC != 5 || len(rr.Reports) != 0 {
		t.Errorf("%+v", rr)
	}
	if len(sdes.Chunks) != 1 || sdes.Chunks[0].Source != 5 || len(sdes.Chunks[0].Items) != 1 ||
		sdes.Chunks[0].Items[0] != (rtcp.SourceDescriptionItem{Type: rtcp.SDESCNAME, Text: "abcdefghijklmnop"}) {
		t.Errorf("%+v", sdes)
	}
	if len(bye.Sources) != 1 || bye.Sources[0] != 5 {
		t.Errorf("%+v", bye)
	}
	m, ok := xr.Reports[0].(*rtcp.VoIPMetricsReportBlock)
	if !ok || xr.SenderSSRC != 5 || m.SSRC != 7 || m.LossRate != 10 || m.DiscardRate != 20 || m.GapDensity != 30 || m.GapDuration != 3000 || m.RoundTripDelay != 80 ||
		m.EndSystemDelay != 61 || m.SignalLevel != 127 || m.NoiseLevel != 127 || m.RERL != 127 || m.Gmin != 16 || m.RFactor != 81 || m.ExtRFactor != 127 ||
		m.MOSLQ != 42 || m.MOSCQ != 41 || m.RXConfig != 0xF0 || m.JBNominal != 41 || m.JBMaximum != 41 || m.JBAbsMax != 41 {
		t.Errorf("%+v", m)
	}
	if mos, ok := findVoIP(b[len(b)-8-voipSize-4:len(b)-8], 7); !ok || mos != 41 {
		t.Errorf("MOS %d, %v", mos, ok)
	}
	negative := appendReport(nil, 5, nil, &reportBlock{lost: -3})
	if r := readBlock(negative[8:]); r.lost != -3 || negative[13] != 0xff {
		t.Errorf("%+v", r)
	}
}

func TestCompoundsThatAreNone(t *testing.T) {
	rr := "80 c9 0001 00000005 "
	tests := []struct {
		in, why string
		ok      bool
	}{
		{rr, "an RR without blocks", true},
		{rr + "81 cb 0001 00000005", "an RR and a BYE", true},
		{rr + "a1 cb 0002 00000005 00000004", "padding at the end", true},
		{rr + "80 ce 0002 00000005 00000000", "a kind unknown to us", true},
		{"", "nothing", false},
		{"80 c9 0001 0000", "cut off", false},
		{"81 cb 0001 00000005", "a BYE first", false},
		{"81 ca 0002 00000005 00000000", "an SDES first", false},
		{"a0 c9 0002 00000005 00000004", "padding in the first", false},
		{"81 c9 0001 00000005", "a block that is not there", false},
		{"9f c8 0006 00000005 00000000 00000000 00000000 00000000 00000000", "31 blocks that are not there", false},
		{"80 c8 0001 00000005", "an SR without its sender info", false},
		{"80 c9 0002 00000005", "longer than the datagram", false},
		{"80 c9 ffff 00000005", "much longer than the datagram", false},
		{rr + "80 c9 00", "a rest that is no header", false},
		{rr + "40 cb 0001 00000005", "version 1 within", false},
		{rr + "a1 cb 0001 00000005 " + rr, "padding before the end", false},
		{rr + "a0 cb 0001 00000000", "padding of 0", false},
		{rr + "a0 cb 0001 00000003", "padding that is no multiple of four", false},
		{rr + "a0 cb 0001 00000008", "padding longer than the packet", false},
		{rr + "a1 cb 0001 00000004", "padding in place of a source", false},
		{rr + "9f cb 0001 00000005", "31 sources that are not there", false},
		{rr + "80 cf 0000", "an XR without its source", false},
	}
	for _, tt := range tests {
		if got := validCompound(bytesOf(t, tt.in)); got != tt.ok {
			t.Errorf("%s: %v", tt.why, got)
		}
	}
}

func TestMOSOfOthersIsLookedForWithinBounds(t *testing.T) {
	block := appendVoIP(nil, 5, &voipMetrics{ssrc: 7, mosCQ: 41})[8:]
	other := "04 00 0002 00000000 00000000"
	tests := []struct {
		b   []byte
		mos uint8
	}{
		{block, 41},
		{append(bytesOf(t, other), block...), 41},
		{appendVoIP(nil, 5, &voipMetrics{ssrc: 8, mosCQ: 41})[8:], 0},
		{appendVoIP(nil, 5, &voipMetrics{ssrc: 7, mosCQ: 127})[8:], 0},
		{block[:len(block)-4], 0},
		{bytesOf(t, "07 00 0000"), 0},
		{bytesOf(t, "07 00 ffff 00000007"), 0},
		{nil, 0},
	}
	for i, tt := range tests {
		if mos, ok := findVoIP(tt.b, 7); ok != (tt.mos > 0) || ok && mos != tt.mos {
			t.Errorf("%d: %d, %v", i, mos, ok)
		}
	}
}

func TestReportBlocksCountAsTheRFCDoes(t *testing.T) {
	type want struct {
		fraction uint8
		lost     int32
		highest  uint32
	}
	var q sequence
	if _, ok := q.report(); ok {
		t.Error("a report on nothing")
	}
	feed := func(ssrc uint32, numbers ...uint16) {
		for _, n := range numbers {
			q.accept(ssrc, n)
		}
	}
	expect := func(why string, w want) {
		t.Helper()
		if b, ok := q.report(); !ok || b.fraction != w.fraction || b.lost != w.lost || b.highest != w.highest || b.ssrc != q.ssrc {
			t.Errorf("%s: %+v, %v", why, b, ok)
		}
	}
	feed(1, 65533, 65534, 65535, 1) // 0 is missing
	expect("one in five", want{256 / 5, 1, 1<<16 + 1})
	if b, ok := q.report(); ok {
		t.Errorf("nothing came: %+v", b)
	}
	feed(1, 0) // it was late
	expect("late", want{0, 0, 1<<16 + 1})
	feed(1, 2, 3, 4, 12)
	expect("seven of eleven", want{7 * 256 / 11, 7, 1<<16 + 12})
	feed(2, 500, 501) // another stream: the first packet is on probation
	expect("a new source", want{0, 0, 501})
	if q.lostSoFar() != 7 {
		t.Errorf("%d lost over all", q.lostSoFar())
	}
	q.received += 1 << 24
	if b, _ := q.report(); b.lost != -1<<23 || b.fraction != 0 {
		t.Errorf("%+v", b)
	}
}

func TestEModel(t *testing.T) {
	tests := []struct {
		loss  float64
		delay time.Duration
		r     float64
		mos   float64
	}{
		{0, 0, 93.2, 4.41},
		{0, 100 * time.Millisecond, 90.8, 4.36},
		{0, 400 * time.Millisecond, 59.1, 3.05},
		{0.01, 0, 89.56, 4.33},
		{0.05, 100 * time.Millisecond, 75.02, 3.82},
		{0.2, 0, 51.07, 2.63},
		{1, 10 * time.Second, 0, 1},
		{-1, -time.Second, 100, 4.5},
	}
	for _, tt := range tests {
		r := rFactor(tt.loss, tt.delay)
		if mos := opinion(r); math.Abs(r-tt.r) > 0.01 || math.Abs(mos-tt.mos) > 0.006 {
			t.Errorf("loss %v, delay %v: R %.2f, MOS %.3f, want %v and %v", tt.loss, tt.delay, r, mos, tt.r, tt.mos)
		}
	}
	for loss, last := 0.0, 5.0; loss <= 1; loss += 0.01 {
		mos := opinion(rFactor(loss, 50*time.Millisecond))
		if mos > last || mos < 1 {
			t.Errorf("loss %v: %v after %v", loss, mos, last)
		}
		last = mos
	}
}

func TestIntervalsAreThoseOfTheRFC(t *testing.T) {
	var sum time.Duration
	const n = 20000
	for range n {
		d := interval(minInterval)
		if d < 2052*time.Millisecond || d > 6157*time.Millisecond {
			t.Fatal(d)
		}
		sum += d
	}
	if mean := sum / n; mean < 4050*time.Millisecond || mean > 4160*time.Millisecond {
		t.Errorf("mean %v", mean)
	}
}

func TestARoundTripCannotBeMadeUp(t *testing.T) {
	w := &Wheel{began: time.Now()}
	s := &Session{wheel: w}
	sent := uint32(w.ntp(time.Second) >> 16)
	s.control.ours[3] = sent
	tests := []struct {
		lsr, dlsr uint32
		at        time.Duration
		rtt       time.Duration
		ok        bool
	}{
		{sent, 0, 1100 * time.Millisecond, 100 * time.Millisecond, true},
		{sent, 1 << 16, 2100 * time.Millisecond, 100 * time.Millisecond, true},
		{sent, 1<<16 + 600, 2 * time.Second, 15 * time.Microsecond, true}, // their clock is a little faster
		{sent, 1<<16 + 60000, 2 * time.Second, 0, false},
		{sent, math.MaxUint32, 2 * time.Second, 0, false},
		{sent, 1 << 31, 2 * time.Second, 0, false},
		{sent, 0, 999 * time.Millisecond, 0, false},
		{sent + 1, 0, 2 * time.Second, 0, false},
		{0, 0, 2 * time.Second, 0, false},
	}
	for _, tt := range tests {
		rtt, ok := s.roundTrip(&reportBlock{lsr: tt.lsr, dlsr: tt.dlsr}, tt.at)
		if d := rtt - tt.rtt; ok != tt.ok || d < -50*time.Microsecond || d > 50*time.Microsecond {
			t.Errorf("%+v: %v, %v", tt, rtt, ok)
		}
	}
}

func TestNTPTimesAndTimestamps(t *testing.T) {
	w := &Wheel{began: time.Date(2026, 1, 1, 0, 0, 0, 500_000_000, time.UTC)}
	if got, want := w.ntp(2*time.Second), uint64(3976214402)<<32|1<<31; got != want {
		t.Errorf("%x, want %x", got, want)
	}
	o := &sender{ts: 160, next: time.Second}
	if a, b := o.clock(time.Second+10*time.Millisecond, 8000), o.clock(time.Second-20*time.Millisecond, 8000); a != 240 || b != 0 {
		t.Errorf("%d, %d", a, b)
	}
	if fixed(-1) != 0 || fixed(1500*time.Millisecond) != 3<<15 || fixed(math.MaxInt64) == 0 {
		t.Error("fixed")
	}
}

func TestCNAMEsAreRandom(t *testing.T) {
	var a, b control
	a.name()
	b.name()
	if a.cname == b.cname || strings.ContainsRune(string(a.cname[:]), 0) {
		t.Errorf("%s, %s", a.cname, b.cname)
	}
}

// agreeOnRTCP has the pairs of loopback report to each other, with all that there is.
func agreeOnRTCP(tb testing.TB, all []*quiet, mux bool) {
	tb.Helper()
	for _, q := range all {
		if _, err := q.s.ListenRTCP(); err != nil {
			tb.Fatal(err)
		}
	}
	for i, q := range all {
		f, peer := *q.s.flow.Load(), all[i^1].s
		f.Mux, f.Extended, f.RTCP = mux, true, (*peer.control.sock.Load()).local()
		q.s.SetFlow(f)
	}
}

// twoWithRTCP are two sessions on a wheel that the test turns itself.
func twoWithRTCP(tb testing.TB, driver string, mux bool) (*Wheel, []*quiet) {
	tb.Helper()
	w, err := newWheel(local(driver))
	if err != nil {
		tb.Fatal(err)
	}
	all := loopback(tb, w, 2, 0)
	agreeOnRTCP(tb, all, mux)
	for _, q := range all {
		q.s.Join(q)
	}
	tb.Cleanup(func() {
		close(w.stopped)
		for _, q := range all {
			q.s.Close()
		}
	})
	return w, all
}

func TestNothingIsAllocatedPerReport(t *testing.T) { // P12
	if runtime.GOOS != "linux" {
		t.Log("measured for the raw driver, which is for Linux")
		return
	}
	for _, mux := range []bool{false, true} {
		w, all := twoWithRTCP(t, DriverRaw, mux)
		tick := time.Second
		turn := func() {
			tick += 20 * time.Millisecond
			for _, q := range all {
				q.s.control.due, q.s.control.poll, q.s.control.report = 0, 0, 0
			}
			w.turn(tick, tick)
		}
		for range 3 {
			turn()
		}
		if n := testing.AllocsPerRun(300, turn); n != 0 {
			t.Errorf("mux %v: %v allocations a turn", mux, n)
		}
		for _, q := range all {
			r := q.s.Stats().Reports
			if r.Sent < 300 || r.Received < 295 || r.Extended < 295 || !r.Reported || r.RTT == 0 || r.RTT > time.Second || r.Strange+r.Malformed != 0 {
				t.Errorf("mux %v: %+v", mux, r)
			}
		}
	}
}

// FuzzRTCP reads what any peer may send.
func FuzzRTCP(f *testing.F) {
	cname := [cnameSize]byte{}
	full := appendReport(nil, 5, &senderInfo{}, &reportBlock{ssrc: 9, lsr: 1})
	full = appendBYE(appendVoIP(appendCNAME(full, 5, &cname), 5, &voipMetrics{ssrc: 9, mosCQ: 40}), 5)
	f.Add(full)
	f.Add(appendReport(nil, 5, nil, nil))
	f.Add(bytesOf(f, "80 c9 0001 00000005 a1 cb 0002 00000005 00000004"))
	f.Add(bytesOf(f, "80 c9 0001 00000005 80 cf 0003 00000005 07 00 ffff 00000009"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxDatagram {
			return
		}
		w := &Wheel{cfg: DefaultConfig(), began: time.Now()}
		s := newSession(w, &scripted{}, 0)
		s.out.ssrc = 9
		peer := netip.MustParseAddrPort("10.0.0.2:4001")
		flow := &Flow{RTCP: peer, ClockRate: 8000}
		var k socket = &scripted{b: [][]byte{b}, from: []netip.AddrPort{peer}}
		s.control.sock.Store(&k)
		s.drainControl(flow)
		st := s.Stats().Reports
		if st.Received+st.Malformed+st.Strange != 1 {
			t.Fatalf("%+v", st)
		}
	})
}

// BenchmarkReport is one report sent and one received, with all that may be in it.
func BenchmarkReport(b *testing.B) {
	w, all := twoWithRTCP(b, drivers()[0], true)
	s := all[0].s
	tick := time.Second
	for range 5 {
		tick += 20 * time.Millisecond
		w.turn(tick, tick)
	}
	f := s.flow.Load()
	b.ReportAllocs()
	for b.Loop() {
		s.sendReport(f, false)
		all[1].s.drain(tick, tick)
	}
}
