package call

import (
	"testing"
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/rtp/rtptest"
)

func TestKeysOnTheClockOfTheCodec(t *testing.T) {
	for _, codec := range []media.Codec{g711.PCMU(), opusCodec(t)} {
		m := joinAs(t, rtptest.New(1, rtptest.Conditions{}), agent.Format{}, []media.Codec{codec}, 20*time.Millisecond, quietSession{})
		m.rtp.Close() // the test turns it itself
		side := (*turned)(m.Call)
		p := newPress(m.nego.now, '7')
		m.keys.pending.Store(p)
		var packets int
		var last []byte
		for {
			payload, pt, first := side.Event(0)
			if payload == nil {
				break
			}
			if pt != m.nego.now.accept.events[1] || first != (packets == 0) || payload[0] != 7 {
				t.Errorf("%s: packet %d: type %d, first %v, event %d", codec.Name, packets, pt, first, payload[0])
			}
			packets++
			last = append(last[:0], payload...)
		}
		select {
		case <-p.done:
		default:
			t.Errorf("%s: nobody is told that the key is up", codec.Name)
		}
		long := int(last[2])<<8 | int(last[3])
		if want := codec.ClockRate * int(keyLength/time.Millisecond) / 1000; long != want || last[1]&0x80 == 0 || packets != 8 {
			t.Errorf("%s: a key of %d units in %d packets, want %d in 8", codec.Name, long, packets, want)
		}
		if n := testing.AllocsPerRun(100, func() { side.Event(0) }); n != 0 {
			t.Errorf("%v allocations a slot", n)
		}
		m.leave(t)
	}
}
