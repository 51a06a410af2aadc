package rtp_test

import (
	"testing"
	"testing/synctest"
	"time"

	"parley/rtp/rtptest"
)

func TestFiveMinutesBothWaysOverABadNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{Loss: 0.02, Duplicate: 0.01, Reorder: 0.02, Delay: 30 * ms, Jitter: 10 * ms}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		const n = 5 * 60 * 50
		talk(peer, n)
		s.Close()
		time.Sleep(time.Second)

		st, seen, in, net := s.Stats(), peer.Seen(), ph.packets(), r.net.Counts()
		if uint64(len(in)) != st.Received || st.Received+st.Duplicate+uint64(len(seen)) != net.Delivered {
			t.Errorf("handler %d, %+v, peer %d, network %+v", len(in), st, len(seen), net)
		}
		if net.Sent != n+st.Sent || net.Delivered+net.Unread+net.Lost+net.Unreachable != net.Sent+net.Duplicated {
			t.Errorf("sent %d and %d: network %+v", n, st.Sent, net)
		}
		lowest, highest := 1<<20, 0
		for _, p := range in {
			i := int(p.Sequence - 1000)
			lowest, highest = min(lowest, i), max(highest, i)
		}
		if want := uint64(highest - lowest + 1 - len(in)); st.Lost != want || want < n/100 {
			t.Errorf("lost %d, want %d", st.Lost, want)
		}
		if d := int(st.Sent) - n; d < -1 || d > 1 {
			t.Errorf("sent %d packets in the time of %d", st.Sent, n)
		}
		if st.Reordered < n/200 || st.Duplicate < n/200 || st.Jitter < 2*ms || st.Jitter > 15*ms || st.Strange+st.Malformed+st.SkippedSlots+st.Resyncs != 0 {
			t.Errorf("%+v", st)
		}
		peer.Close()
		r.close()
	})
}

func TestSendingKeepsItsScheduleAndItsTimestamps(t *testing.T) {
	for _, step := range []time.Duration{10 * ms, 20 * ms, 30 * ms, 40 * ms, 60 * ms} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rtptest.Conditions{}, nil)
			s, ph, peer := r.call()
			f := flowTo(peer.Addr())
			f.PacketTime = step
			s.SetFlow(f)
			join(s, ph)
			time.Sleep(10*time.Second + 2*ms)
			seen := peer.Seen()
			if n := int(10 * time.Second / step); len(seen) < n-1 || len(seen) > n+1 {
				t.Errorf("%v: %d packets in 10 s, want %d", step, len(seen), n)
			}
			onSchedule(t, seen, 0, 1) // BR-096, BR-102
			for i, p := range seen {
				if p.Marker != (i == 0) || p.From != s.Local() {
					t.Fatalf("packet %d: marker %v from %v", i, p.Marker, p.From)
				}
			}
			peer.Close()
			r.close()
		})
	}
}

func TestAChangeOfPacketTimeKeepsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		time.Sleep(time.Second)
		for _, step := range []time.Duration{60 * ms, 10 * ms, 30 * ms} {
			f := flowTo(peer.Addr())
			f.PacketTime = step
			s.SetFlow(f)
			before := len(peer.Seen())
			time.Sleep(1800 * ms)
			if n, want := len(peer.Seen())-before, int(1800*ms/step); n < want-2 || n > want+1 {
				t.Errorf("%v: %d packets in 1.8 s, want %d", step, n, want)
			}
		}
		onSchedule(t, peer.Seen(), 60*ms, 1)
		peer.Close()
		r.close()
	})
}

func TestAStallIsSkippedAndNotSentLate(t *testing.T) {
	tests := []struct {
		stall    time.Duration
		skipped  int // slots given up
		burst    int
		markers  int // after the first
		lateness time.Duration
	}{
		{15 * ms, 0, 1, 0, 20 * ms},
		{50 * ms, 0, 3, 0, 60 * ms}, // short: nothing is lost
		{300 * ms, 13, 1, 1, 20 * ms},
		{2 * time.Second, 98, 1, 1, 20 * ms},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rtptest.Conditions{}, nil)
			s, ph, peer := r.call()
			other, heavy, peer2 := r.call()
			join(s, ph)
			join(other, heavy)
			time.Sleep(time.Second)
			heavy.set(func() { heavy.stall = tt.stall })
			time.Sleep(3 * time.Second)
			seen := peer.Seen()
			onSchedule(t, seen, tt.lateness, tt.burst)
			markers := 0
			for _, p := range seen[1:] {
				if p.Marker {
					markers++
				}
			}
			st := s.Stats()
			if d := int(st.SkippedSlots) - tt.skipped; d < -2 || d > 2 || markers != tt.markers || len(seen)+int(st.SkippedSlots) < 199 {
				t.Errorf("%v: %d skipped, %d markers, %d sent", tt.stall, st.SkippedSlots, markers, len(seen))
			}
			if n := len(ph.skipped); n != tt.markers || n > 0 && ph.skipped[0] != int(st.SkippedSlots) {
				t.Errorf("%v: the handler heard of %v skipped", tt.stall, ph.skipped)
			}
			if ws := r.w.Stats(); ws.LongestTurn < tt.stall || tt.stall > 100*ms && (ws.MissedTurns == 0 || ws.SkippedSlots < st.SkippedSlots) {
				t.Errorf("%+v", ws)
			}
			peer.Close()
			peer2.Close()
			r.close()
		})
	}
}

func TestTimestampsPassWhileNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rtptest.Conditions{}, nil)
		s, ph, peer := r.call()
		join(s, ph)
		time.Sleep(time.Second)
		hold := flowTo(peer.Addr())
		hold.Send = false
		s.SetFlow(hold)
		time.Sleep(ptime)
		held := len(peer.Seen())
		time.Sleep(4 * time.Second)
		if n := len(peer.Seen()); n != held {
			t.Errorf("%d packets on hold", n-held)
		}
		s.SetFlow(flowTo(peer.Addr()))
		time.Sleep(time.Second)
		if resumed := peer.Seen()[held]; !resumed.Marker {
			t.Error("no marker after the hold")
		}
		ph.set(func() { ph.silent = true })
		time.Sleep(4 * time.Second)
		quiet := len(peer.Seen())
		ph.set(func() { ph.silent = false })
		time.Sleep(time.Second)
		if resumed := peer.Seen()[quiet]; resumed.Marker {
			t.Error("the marker after a pause is the handler's")
		}
		onSchedule(t, peer.Seen(), 0, 1)
		peer.Close()
		r.close()
	})
}
