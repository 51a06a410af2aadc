package call

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtcp"

	"parley/agent"
	"parley/rtp/rtptest"
	"parley/test/phone"
)

func TestWhereRTCPGoes(t *testing.T) { // BR-025, BR-026
	n := testNegotiation()
	port, bound := uint16(20001), 0
	n.listenRTCP = func() uint16 { bound++; return port }
	steps := []struct {
		name    string
		offer   []byte
		mux, xr bool
		rtcp    string
		bound   int // calls of listenRTCP in all
		lines   []string
	}{
		{"shared", offered("m=audio 4000 RTP/AVP 0", "a=rtcp-mux"), true, false, "192.0.2.1:4000", 0, []string{"a=rtcp-mux"}},
		{"the port above", offered("m=audio 4000 RTP/AVP 0"), false, false, "192.0.2.1:4001", 1, nil},
		{"elsewhere", offered("m=audio 4000 RTP/AVP 0", "a=rtcp:5007 IN IP4 192.0.2.9"), false, false, "192.0.2.9:5007", 2, nil},
		{"with metrics", offered("m=audio 4000 RTP/AVP 0", "a=rtcp-xr:voip-metrics"), false, true, "192.0.2.1:4001", 3, []string{"a=rtcp-xr:voip-metrics"}},
		{"shared again", offered("m=audio 4000 RTP/AVP 0", "a=rtcp-mux"), true, false, "192.0.2.1:4000", 3, []string{"a=rtcp-mux"}},
	}
	for _, s := range steps {
		text, c, refusal := n.answer(s.offer)
		if refusal != nil {
			t.Fatal(refusal)
		}
		if c.flow.Mux != s.mux || c.flow.Extended != s.xr || c.flow.RTCP.String() != s.rtcp || bound != s.bound {
			t.Errorf("%s: %+v, %d calls", s.name, c.flow, bound)
		}
		if got := rtcpLines(text); strings.Join(got, "|") != strings.Join(s.lines, "|") {
			t.Errorf("%s: %q", s.name, got)
		}
	}
	if got := rtcpLines(n.propose()); len(got) != 1 || got[0] != "a=rtcp-mux" || bound != 3 {
		t.Errorf("our offer to a peer that shares: %q", got)
	}
	if c, err := n.accepted(offered("m=audio 4000 RTP/AVP 0")); err != nil || c.flow.Mux || bound != 4 {
		t.Errorf("the peer shares no longer: %+v, %v", c, err)
	}
	port = 31000 // the port above was taken
	before := version(t, n.last)
	text, _, _ := n.answer(offered("m=audio 4000 RTP/AVP 0"))
	if got := rtcpLines(text); len(got) != 1 || got[0] != "a=rtcp:31000" || version(t, text) == before {
		t.Errorf("%q, version %s after %s", got, version(t, text), before)
	}
}

func rtcpLines(text []byte) (found []string) {
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "a=rtcp") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestReportsKeepACallUpButNotForEver(t *testing.T) { // BR-088
	rr, err := rtcp.Marshal([]rtcp.Packet{&rtcp.ReceiverReport{SSRC: 0x5EED}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		audio   int           // packets at the beginning
		reports time.Duration // how long they come, every 5 s
		strange bool          // from somebody else
		end     error
		after   time.Duration
	}{
		{"muted from the first moment", 0, time.Hour, false, errMaxDuration, 10 * time.Minute},
		{"muted after a while", 250, time.Hour, false, errMaxDuration, 10 * time.Minute},
		{"then gone", 250, 3 * time.Minute, false, errMediaTimeout, 4 * time.Minute},
		{"no reports", 250, 0, false, errMediaTimeout, 65 * time.Second},
		{"reports of a stranger", 250, time.Hour, true, errMediaTimeout, 65 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := rtptest.New(1, rtptest.Conditions{})
				m := join(t, n, agent.Format{HearRate: 8000, SayRate: 8000})
				m.server.cfg.MaxDuration = 10 * time.Minute
				began := time.Now()
				stop := m.watch()
				stranger, err := n.Listen(netip.MustParseAddrPort("127.0.0.1:41000"))
				if err != nil {
					t.Fatal(err)
				}
				for range tt.audio {
					m.peer.Send(false, constantPayload(t, 8000))
					time.Sleep(20 * time.Millisecond)
				}
				for time.Since(began) < tt.reports && m.ctx.Err() == nil {
					if tt.strange {
						_, _ = stranger.WriteToUDPAddrPort(rr, m.rtp.Local())
					} else {
						m.peer.Raw(rr)
					}
					time.Sleep(5 * time.Second)
				}
				<-m.ctx.Done()
				if d := time.Since(began) - tt.after; d < -6*time.Second || d > 6*time.Second || !errors.Is(context.Cause(m.ctx), tt.end) {
					t.Errorf("%v after %v", context.Cause(m.ctx), time.Since(began))
				}
				stop()
				stranger.Close()
				m.leave(t)
			})
		})
	}
}

func TestTheRecordHoldsWhatRTCPSays(t *testing.T) {
	g := startGateway(t, nil)
	c := dial(t, ringUp(t, phone.Config{}), g.uri)
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	if s := g.seen.awaitEnd(t).Stats; s.LastRTCP != nil || s.RTCPIn != 0 || s.RTT != 0 || s.PeerMOS != 0 {
		t.Errorf("a phone without RTCP: %+v", s)
	}
}
