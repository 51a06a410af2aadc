package e2e

import (
	"context"
	"syscall"
	"testing"
	"time"

	"parley/test/phone"
)

// TestAServerThatStoodStill (BR-102): the whole process is stopped for two seconds
// amid a call, as by a host that is busy or moves it. Its stream goes on where it would
// have been: the slots that passed are skipped and not sent after, and the timestamps
// tell the time that went by.
func TestAServerThatStoodStill(t *testing.T) {
	const stop = 2 * time.Second
	s := serve(t, nil).ready(t)
	c := dial(t, newPhone(t, phone.Config{T1: 200 * time.Millisecond}), s.uri("a"))
	pause := func(d time.Duration) {
		wait(t, "the call", patience, func(ctx context.Context) error { return c.Pause(ctx, d) })
	}
	c.Say(human(t, "transfer")) // it is echoed: there is speech to send late
	pause(3 * time.Second)
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	pause(stop)
	if err := s.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	pause(3 * time.Second)
	var heard []phone.Packet
	for _, p := range c.Log().Packets() {
		if p.Direction == phone.Heard {
			heard = append(heard, p)
		}
	}
	hangUp(t, c)
	if len(heard) < 200 {
		t.Fatalf("%d packets were heard", len(heard))
	}
	gap, at := time.Duration(0), 0
	for i := 1; i < len(heard); i++ {
		before, p := heard[i-1], heard[i]
		if p.Sequence != before.Sequence+1 || int32(p.Timestamp-before.Timestamp) <= 0 || (p.Timestamp-before.Timestamp)%160 != 0 || p.SSRC != before.SSRC {
			t.Errorf("packet %d: sequence %d and timestamp %d after %d and %d", i, p.Sequence, p.Timestamp, before.Sequence, before.Timestamp)
		}
		if p.At-before.At > gap {
			gap, at = p.At-before.At, i
		}
		if i >= 5 && p.At-heard[i-5].At < 10*time.Millisecond {
			t.Errorf("packet %d is the sixth within %v", i, p.At-heard[i-5].At)
		}
	}
	if gap < stop-200*time.Millisecond || !heard[at].Marker {
		t.Fatalf("the longest gap is %v, and the packet behind it has marker %v: was it stopped?", gap, heard[at].Marker)
	}
	// What was sent and what was skipped are as many as the time has slots; a busy
	// machine may be late by one or two at either end.
	first, last := heard[0], heard[len(heard)-1]
	slots, want := int(last.Timestamp-first.Timestamp)/160, int((last.At-first.At+packet/2)/packet)
	if d := slots - want; d < -2 || d > 2 {
		t.Errorf("the timestamps tell %d slots, the clock %d", slots, want)
	}
	skipped := slots + 1 - len(heard)
	if d := skipped - int(stop/packet); d < -15 || d > 15 {
		t.Errorf("%d slots were skipped in %v", skipped, gap)
	}
	record, _ := s.record(t)
	if d := int(record.Stats.SkippedSlots) - skipped; d < -2 || d > 2 {
		t.Errorf("the record has %d skipped slots, the phone counts %d", record.Stats.SkippedSlots, skipped)
	}
}
