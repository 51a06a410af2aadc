package dtmf

import (
	"encoding/binary"
	"testing"
	"time"
)

const ms = time.Millisecond

// report is one event packet of a table.
type report struct {
	at    int // ms
	ts    uint32
	event byte
	dur   uint16
	end   bool
	mark  bool
}

func (r report) payload() []byte {
	flags := byte(volume)
	if r.end {
		flags |= 0x80
	}
	return binary.BigEndian.AppendUint16([]byte{r.event, flags}, r.dur)
}

// hold is a press as it should be sent: a report every 20 ms and three ends.
func hold(at int, ts uint32, event byte, packets int, mark bool) (out []report) {
	for i := 1; i <= packets; i++ {
		out = append(out, report{at: at + 20*(i-1), ts: ts, event: event, dur: uint16(160 * i), mark: mark && i == 1})
	}
	for i := range 3 {
		out = append(out, report{at: at + 20*(packets+i), ts: ts, event: event, dur: uint16(160 * packets), end: true})
	}
	return out
}

func join(parts ...[]report) (out []report) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// presses are shared by the table test and the fuzzer's corpus.
var presses = []struct {
	name string
	rate int
	in   []report
	want string
}{
	{"no marker, and the same digit again", 8000, join(hold(0, 1000, 5, 5, false), hold(400, 4200, 5, 5, false)), "55"}, // BR-111
	{"with markers", 8000, join(hold(0, 1000, 1, 5, true), hold(300, 3400, 2, 5, true)), "12"},
	{"a gap within a long press", 8000, []report{ // BR-112
		{at: 0, ts: 9, event: 7, dur: 160}, {at: 20, ts: 9, event: 7, dur: 320},
		{at: 210, ts: 9, event: 7, dur: 1696, end: true}, {at: 230, ts: 9, event: 7, dur: 1696, end: true}, {at: 250, ts: 9, event: 7, dur: 1696, end: true},
	}, "7"},
	{"all ends lost, then another digit", 8000, join(hold(0, 1000, 5, 5, false)[:5], hold(200, 2600, 6, 5, false)), "56"}, // BR-115 a, d
	{"all ends lost, then the same digit", 8000, join(hold(0, 1000, 5, 5, false)[:5], hold(200, 2600, 5, 5, false)), "55"},
	{"only one end arrived", 8000, []report{{at: 0, ts: 1, event: 11, dur: 800, end: true}}, "#"},
	{"the second end has another timestamp", 8000, []report{ // BR-115 b
		{at: 0, ts: 100, event: 3, dur: 160, mark: true}, {at: 20, ts: 100, event: 3, dur: 320, end: true},
		{at: 40, ts: 260, event: 3, dur: 320, end: true}, {at: 60, ts: 420, event: 3, dur: 320, end: true},
	}, "3"},
	{"the timestamp moves with every packet", 8000, []report{
		{at: 0, ts: 100, event: 3, dur: 160}, {at: 20, ts: 260, event: 3, dur: 320}, {at: 40, ts: 420, event: 3, dur: 480}, {at: 60, ts: 580, event: 3, dur: 640, end: true},
	}, "3"},
	{"held for 20 seconds, a segment after each 65535", 8000, []report{ // BR-115 c
		{at: 0, ts: 0, event: 0, dur: 160, mark: true}, {at: 8180, ts: 0, event: 0, dur: 65440}, {at: 8192, ts: 0, event: 0, dur: 65535},
		{at: 8212, ts: 65535, event: 0, dur: 160}, {at: 16380, ts: 65535, event: 0, dur: 65500},
		{at: 16404, ts: 131070, event: 0, dur: 160}, {at: 20000, ts: 131070, event: 0, dur: 28930, end: true},
	}, "0"},
	{"a long press at 48 kHz", 48000, []report{
		{at: 0, ts: 0, event: 0, dur: 960, mark: true}, {at: 1360, ts: 0, event: 0, dur: 65280}, {at: 1380, ts: 65535, event: 0, dur: 960}, {at: 1400, ts: 65535, event: 0, dur: 1920, end: true},
		{at: 1600, ts: 80000, event: 0, dur: 960},
	}, "00"},
	{"a packet before a segment comes after it", 8000, []report{
		{at: 0, ts: 0, event: 0, dur: 160}, {at: 8180, ts: 0, event: 0, dur: 65440}, {at: 8212, ts: 65535, event: 0, dur: 160},
		{at: 8213, ts: 0, event: 0, dur: 65535}, {at: 8232, ts: 65535, event: 0, dur: 320, end: true},
	}, "0"},
	{"no duration yet", 8000, []report{ // BR-115 e
		{at: 0, ts: 5, event: 10, dur: 0, mark: true}, {at: 20, ts: 5, event: 10, dur: 160}, {at: 40, ts: 5, event: 10, dur: 320, end: true},
	}, "*"},
	{"a packet of the press before comes late", 8000, join(hold(0, 1000, 5, 5, false)[:7], []report{{at: 200, ts: 2600, event: 6, dur: 160}, {at: 210, ts: 1000, event: 5, dur: 800, end: true}, {at: 220, ts: 2600, event: 6, dur: 320}}), "56"},
	{"an overtaken press that nobody saw is not put behind", 8000, []report{{at: 200, ts: 2600, event: 6, dur: 160}, {at: 210, ts: 1000, event: 5, dur: 800, end: true}}, "6"},
	{"timestamps that begin anew", 8000, join(hold(0, 900000, 5, 5, false), hold(400, 100, 6, 5, false)), "56"},
	{"the timestamp wraps", 8000, join(hold(0, 1<<32-100, 5, 5, false), hold(400, 3100, 6, 5, false)), "56"},
	{"the letters", 8000, join(hold(0, 1, 12, 3, false), hold(200, 2000, 13, 3, false), hold(400, 4000, 14, 3, false), hold(600, 6000, 15, 3, false)), "ABCD"},
	{"a hook flash and fax tones are no digits", 8000, join(hold(0, 1, 16, 3, false), hold(200, 2000, 36, 3, false)), ""},
}

func TestDecoderReportsEachPressOnce(t *testing.T) {
	for _, tt := range presses {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(tt.rate)
			var got []byte
			for _, r := range tt.in {
				if digit, ok := d.Receive(time.Duration(r.at)*ms, r.ts, r.mark, r.payload()); ok {
					got = append(got, digit)
				}
			}
			if string(got) != tt.want {
				t.Errorf("got %q want %q", got, tt.want)
			}
		})
	}
}

func TestDecoderIgnoresShortPayloadsAndForgets(t *testing.T) {
	d := NewDecoder(8000)
	for n := range 4 {
		if _, ok := d.Receive(0, 1, true, make([]byte, n)); ok {
			t.Errorf("%d bytes are a press", n)
		}
	}
	r := report{ts: 5, event: 1, dur: 160}
	for i := range 2 {
		if _, ok := d.Receive(0, r.ts, false, r.payload()); !ok {
			t.Errorf("stream %d: no press", i)
		}
		d.Reset()
	}
}

func TestDigitAndEventAreInverse(t *testing.T) {
	for e := range 256 {
		digit, ok := Digit(byte(e))
		if ok != (e < 16) {
			t.Fatalf("event %d: %v", e, ok)
		}
		if back, ok2 := Event(digit); ok && (!ok2 || back != byte(e)) {
			t.Errorf("event %d is %q is %d", e, digit, back)
		}
	}
	if e, ok := Event('d'); !ok || e != 15 {
		t.Errorf("d is %d %v", e, ok)
	}
}

// play runs an encoder for some slots into a decoder.
func play(e *Encoder, d *Decoder, rate int, ptime time.Duration, slots int) (digits []byte, events, ends int) {
	step := uint32(int64(rate) * int64(ptime) / int64(time.Second))
	var start uint32
	for i := range slots {
		p, first, last, ok := e.Next(nil)
		if !ok {
			continue
		}
		events++
		if first {
			start = uint32(i) * step
		}
		if last {
			ends++
		}
		if digit, ok := d.Receive(time.Duration(i)*ptime, start, first, p); ok {
			digits = append(digits, digit)
		}
	}
	return digits, events, ends
}

func TestEncoderIsUnderstoodAtAllClocksAndPacketTimes(t *testing.T) {
	for _, rate := range []int{8000, 16000, 48000} {
		for _, ptime := range []time.Duration{10 * ms, 20 * ms, 30 * ms, 40 * ms, 60 * ms} {
			e := NewEncoder(rate, ptime)
			for _, c := range []byte("1180*#aD") {
				if !e.Press(c, 100*ms) {
					t.Fatalf("%q refused", c)
				}
			}
			digits, _, ends := play(e, NewDecoder(rate), rate, ptime, int(5*time.Second/ptime))
			if string(digits) != "1180*#AD" || ends != 8 || e.Busy() {
				t.Errorf("%d Hz %v: %q, %d ends", rate, ptime, digits, ends)
			}
		}
	}
}

func TestEncoderSendsThreeEndsAndPauses(t *testing.T) {
	e := NewEncoder(8000, 20*ms)
	e.Press('5', 60*ms)
	e.Press('6', 60*ms)
	var got []report
	var gaps []int
	gap := 0
	for range 20 {
		p, first, _, ok := e.Next(nil)
		if !ok {
			gap++
			continue
		}
		if first {
			gaps, gap = append(gaps, gap), 0
		}
		got = append(got, report{event: p[0], end: p[1]&0x80 != 0, dur: binary.BigEndian.Uint16(p[2:]), mark: first})
	}
	want := []report{
		{event: 5, dur: 160, mark: true}, {event: 5, dur: 320}, {event: 5, dur: 480, end: true}, {event: 5, dur: 480, end: true}, {event: 5, dur: 480, end: true},
		{event: 6, dur: 160, mark: true}, {event: 6, dur: 320}, {event: 6, dur: 480, end: true}, {event: 6, dur: 480, end: true}, {event: 6, dur: 480, end: true},
	}
	if len(got) != len(want) || gaps[1] != 3 {
		t.Fatalf("got %+v, gaps %v", got, gaps)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("packet %d: %+v want %+v", i, got[i], want[i])
		}
	}
}

func TestEncoderRefusesAndBounds(t *testing.T) {
	e := NewEncoder(48000, 20*ms)
	if e.Press('x', 100*ms) {
		t.Error("x is a digit")
	}
	for i := range queue {
		if !e.Press('1', time.Hour) {
			t.Fatalf("press %d refused", i)
		}
	}
	if e.Press('1', 0) {
		t.Error("a full queue takes more")
	}
	most := uint16(0)
	for range 80 {
		if p, _, _, ok := e.Next(nil); ok {
			most = max(most, binary.BigEndian.Uint16(p[2:]))
		}
	}
	if most != 65280 {
		t.Errorf("longest duration %d", most)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	e, d := NewEncoder(8000, 20*ms), NewDecoder(8000)
	buf := make([]byte, 0, 8)
	ts := uint32(0)
	if n := testing.AllocsPerRun(500, func() {
		e.Press('3', 100*ms)
		ts += 160
		if p, first, _, ok := e.Next(buf); ok {
			d.Receive(0, ts, first, p)
		}
	}); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

// FuzzDTMF feeds packets of (time, timestamp, flags, payload) and checks that only
// digits come out, at most one a packet, and none twice for an event at a
// timestamp while nothing else was reported.
func FuzzDTMF(f *testing.F) {
	for _, p := range presses {
		var b []byte
		for _, r := range p.in {
			b = append(b, byte(min(r.at, 255)), 0)
			b = binary.BigEndian.AppendUint32(b, r.ts)
			b = append(b, r.payload()...)
		}
		f.Add(b, p.rate)
	}
	f.Fuzz(func(t *testing.T, b []byte, rate int) {
		d := NewDecoder(rate)
		var now time.Duration
		lastTS, last := uint32(0), byte(0)
		for len(b) >= 10 {
			now += time.Duration(b[0]) * ms
			ts := binary.BigEndian.Uint32(b[2:])
			digit, ok := d.Receive(now, ts, b[1]&1 != 0, b[6:10-int(b[1]>>1&3)])
			b = b[10:]
			if !ok {
				continue
			}
			if _, is := Event(digit); !is {
				t.Fatalf("%q is no digit", digit)
			}
			if digit == last && ts == lastTS {
				t.Fatalf("%q at %d twice", digit, ts)
			}
			lastTS, last = ts, digit
		}
	})
}
