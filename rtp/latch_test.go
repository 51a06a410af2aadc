package rtp

import (
	"net/netip"
	"testing"
	"time"
)

func TestLatch(t *testing.T) {
	const ms = time.Millisecond
	addr := netip.MustParseAddrPort
	sdp, port, nat, evil := addr("10.0.0.2:4000"), addr("10.0.0.2:4002"), addr("192.0.2.7:9000"), addr("203.0.113.3:666")
	moved, movedPort := addr("10.0.0.2:5000"), addr("10.0.0.2:5002")
	// step is one packet, or an offer/answer when arm is set.
	type step struct {
		at    time.Duration
		arm   netip.AddrPort
		from  netip.AddrPort
		ssrc  uint32
		seq   uint16
		alien bool // of a payload type that was not agreed on
		want  verdict
		dest  netip.AddrPort
	}
	run := func(from netip.AddrPort, at time.Duration, seq uint16, want ...verdict) (out []step) {
		for i, v := range want {
			out = append(out, step{at: at + time.Duration(i)*20*ms, from: from, ssrc: uint32(from.Port()), seq: seq + uint16(i), want: v})
		}
		return out
	}
	join := func(parts ...[]step) (out []step) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	const heard, probation, strange = verdictHeard, verdictProbation, verdictStrange
	none := netip.AddrPort{}
	tests := []struct {
		name             string
		strict           bool
		relatch          time.Duration
		peer             netip.AddrPort
		steps            []step
		dest, asymmetric netip.AddrPort
	}{
		{"the address of the SDP at once", false, 0, sdp, run(sdp, 0, 1, heard, heard), sdp, sdp},
		{"another port of the host after three", false, 0, sdp, run(port, 0, 1, probation, probation, heard, heard), port, sdp},
		{"another host not at once", false, 0, sdp, run(nat, 0, 1, probation, probation, probation, probation), sdp, sdp},
		{"another host after the wait", false, 0, sdp, run(nat, 180*ms, 1, probation, probation, probation, probation, heard), nat, sdp},
		{"and then nobody else", false, 0, sdp, join(run(nat, 300*ms, 1, probation, probation, heard), run(evil, 400*ms, 1, strange, strange, strange, strange)), nat, sdp},
		{"an attacker in mid-call", false, 0, sdp, join(run(sdp, 0, 1, heard), run(evil, 300*ms, 1, strange, strange, strange, strange)), sdp, sdp}, // BR-158
		{"an attacker who was first loses to the SDP", false, 0, sdp, join(run(evil, 300*ms, 1, probation, probation, heard), run(sdp, 400*ms, 1, heard), run(evil, 420*ms, 4, strange, strange)), sdp, sdp},
		{"packets out of order are not believed", false, 0, sdp, []step{
			{from: port, ssrc: 1, seq: 1, want: probation}, {from: port, ssrc: 1, seq: 3, want: probation}, {from: port, ssrc: 1, seq: 5, want: probation}, {from: port, ssrc: 1, seq: 7, want: probation},
		}, sdp, sdp},
		{"nor those of changing SSRC", false, 0, sdp, []step{
			{from: port, ssrc: 1, seq: 1, want: probation}, {from: port, ssrc: 2, seq: 2, want: probation}, {from: port, ssrc: 3, seq: 3, want: probation}, {from: port, ssrc: 4, seq: 4, want: probation},
		}, sdp, sdp},
		{"nor one packet again and again", false, 0, sdp, []step{
			{from: port, ssrc: 1, seq: 1, want: probation}, {from: port, ssrc: 1, seq: 1, want: probation}, {from: port, ssrc: 1, seq: 1, want: probation}, {from: port, ssrc: 1, seq: 1, want: probation},
		}, sdp, sdp},
		{"nor types nobody agreed on", false, 0, sdp, []step{
			{from: port, ssrc: 1, seq: 1, alien: true, want: probation}, {from: port, ssrc: 1, seq: 2, alien: true, want: probation}, {from: port, ssrc: 1, seq: 3, alien: true, want: probation}, {from: port, ssrc: 1, seq: 4, alien: true, want: probation},
		}, sdp, sdp},
		{"two that take turns: the first to have three", false, 0, sdp, join(run(port, 0, 1, probation), run(movedPort, 5*ms, 1, probation), run(port, 20*ms, 2, probation), run(movedPort, 25*ms, 2, probation), run(port, 40*ms, 3, heard), run(movedPort, 45*ms, 3, strange)), port, sdp},
		{"five strangers: the oldest trial makes room", false, 0, sdp, join(
			run(addr("10.0.0.2:1"), 0, 1, probation), run(addr("10.0.0.2:2"), 1, 1, probation), run(addr("10.0.0.2:3"), 2, 1, probation), run(addr("10.0.0.2:4"), 3, 1, probation), run(addr("10.0.0.2:5"), 4, 1, probation),
			run(addr("10.0.0.2:5"), 20*ms, 2, probation, heard)), addr("10.0.0.2:5"), sdp},
		{"strict: the SDP alone", true, 0, sdp, join(run(port, 300*ms, 1, strange, strange, strange, strange), run(sdp, 400*ms, 1, heard)), sdp, sdp},
		{"no address in the SDP: whoever sends", false, 0, none, run(evil, 0, 1, probation, probation, heard), evil, none},
		{"held at 0.0.0.0", false, 0, addr("0.0.0.0:9"), run(nat, 0, 1, probation), none, none},
		{"a port of 0", false, 0, addr("10.0.0.2:0"), run(port, 0, 1, probation), none, none},
		{"a re-INVITE to a new port, sent from yet another", false, 0, sdp, join( // BR-097
			run(port, 0, 1, probation, probation, heard),
			[]step{{at: time.Second, arm: moved, dest: moved}},
			run(port, 1010*ms, 4, heard, heard), // still under way
			run(movedPort, 1050*ms, 1, probation, probation, heard),
			run(port, 1200*ms, 6, strange)), movedPort, moved},
		{"a re-INVITE that changes nothing", false, 0, sdp, join(
			run(port, 0, 1, probation, probation, heard),
			[]step{{at: time.Second, arm: sdp, dest: port}},
			run(port, 1010*ms, 4, heard), run(evil, 2*time.Second, 1, strange, strange, strange, strange)), port, sdp},
		{"a re-INVITE after which all goes on from the old source", false, 0, sdp, join(
			run(port, 0, 1, probation, probation, heard),
			[]step{{at: time.Second, arm: moved, dest: moved}},
			run(port, 2010*ms, 4, heard, heard), run(evil, 2500*ms, 1, strange, strange, strange)), port, moved},
		{"silence opens nothing", false, 0, sdp, join(run(sdp, 0, 1, heard), run(port, time.Hour, 1, strange, strange, strange, strange)), sdp, sdp},
		{"unless the policy says so", false, 5 * time.Second, sdp, join(run(sdp, 0, 1, heard), run(port, 4*time.Second, 1, strange, strange, strange), run(port, 6*time.Second, 10, probation, probation, heard)), port, sdp},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := latch{packets: 3, wait: 250 * ms, relatch: tt.relatch}
			l.arm(tt.peer, 0)
			for i, s := range tt.steps {
				if s.arm.IsValid() {
					l.arm(s.arm, s.at)
					if d := l.destination(false); d != s.dest {
						t.Errorf("step %d: sends to %v, want %v", i, d, s.dest)
					}
					continue
				}
				if v := l.admit(s.from, &Packet{SSRC: s.ssrc, Sequence: s.seq}, s.at, !s.alien, tt.strict); v != s.want {
					t.Errorf("step %d from %v: %d, want %d", i, s.from, v, s.want)
				}
			}
			if d := l.destination(false); d != tt.dest {
				t.Errorf("sends to %v, want %v", d, tt.dest)
			}
			if d := l.destination(true); d != tt.asymmetric {
				t.Errorf("asymmetric: sends to %v, want %v", d, tt.asymmetric)
			}
		})
	}
}
