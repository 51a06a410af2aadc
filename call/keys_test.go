package call

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/rtp/rtptest"
	"parley/sip"
	"parley/test/phone"
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

// What a caller keys in may be a PIN: the log has nothing of it, not even at its most
// talkative and with words (BR-117).
func TestKeysOfCallersAreNotInTheLog(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	g := startGatewayOf(t, func(c *Config, _ *sip.Config) { c.LogWords = true }, func(p *Parts) { p.Log = zap.New(core) })
	p := ringUp(t, phone.Config{Number: "+14155550100"})
	c := dial(t, p, g.uri)
	s := g.agent.last()
	for _, key := range []byte("73") {
		u, err := c.Press(key, 100*time.Millisecond)
		if err == nil {
			err = u.Wait(within(t))
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := s.await(t, agent.Digit); n.Digit != key {
			t.Errorf("key %c, want %c", n.Digit, key)
		}
	}
	for _, body := range []string{"Signal=9\r\nDuration=160\r\n", "Signal=1\r\nDuration=160\r\n", "Signal=77\r\n"} {
		if _, err := c.Request(within(t), "INFO", "application/dtmf-relay", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	if r := g.seen.awaitEnd(t); r.Stats.Digits != 4 {
		t.Errorf("%d keys", r.Stats.Digits)
	}
	settled(t, g)
	for _, e := range logs.All() {
		for name, v := range e.ContextMap() {
			if text := fmt.Sprint(v); text == "7" || text == "3" || text == "9" || text == "1" || strings.Contains(text, "Signal") || strings.Contains(name, "digit") || strings.Contains(name, "key") {
				if _, figure := v.(uint64); !figure { // counters may well be 1
					t.Errorf("%s: %s is %q", e.Message, name, text)
				}
			}
		}
	}
}
