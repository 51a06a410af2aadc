package peers

import (
	"regexp"
	"strconv"
	"testing"
	"time"
)

// counted are the packets sent and received of baresip's last words as the reports of
// its peer have them: by receiver reports and by sender reports.
var counted = regexp.MustCompile(`pkt\.report:\s+(\d+)\s+(\d+)`)

func TestBaresipAndWeReportToEachOther(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, mux := range []string{"no", "yes"} {
		t.Run("rtcp_mux "+mux, func(t *testing.T) {
			performer := &Performer{Says: speech(2.1, 2*time.Second), Pause: 500 * time.Millisecond}
			g := StartGateway(t, performer)
			b := StartBaresip(t, "+12025550108", microphone(t, speech(1.3, 2*time.Second), 500*time.Millisecond, 60*time.Second),
				"PCMU/8000/1", "udp", "rtcp_mux "+mux)
			b.Call(g.URI("agent"))
			time.Sleep(13 * time.Second)
			b.Do("hangup", "")
			records := g.Records(1)
			if !Eventually(3*time.Second, func() bool { return counted.MatchString(b.Output()) }) {
				t.Fatal("baresip says nothing of reports")
			}
			told := counted.FindStringSubmatch(b.Output())
			sent, _ := strconv.Atoi(told[1])
			received, _ := strconv.Atoi(told[2])
			if sent < 100 || received < 100 {
				t.Errorf("by our reports baresip sent %d and received %d packets", sent, received)
			}
			if len(records) != 1 {
				return
			}
			r := records[0]
			s := r.Stats
			t.Logf("in %d, out %d, round trip %v, MOS %.2f and %.2f there; baresip: %d, %d", s.RTCPIn, s.RTCPOut, s.RTT, s.MOS, s.PeerMOS, sent, received)
			if s.RTCPIn < 2 || s.RTCPOut < 2 || s.LastRTCP == nil || r.Ended.Sub(*s.LastRTCP) > 8*time.Second {
				t.Errorf("RTCP: %+v", s)
			}
			if s.RTT <= 0 || s.RTT > 50*time.Millisecond || s.PeerLost != 0 || s.MOS < 4 || s.PeerMOS < 4 {
				t.Errorf("what it says: %+v", s)
			}
		})
	}
}
