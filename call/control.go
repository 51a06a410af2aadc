package call

import (
	"time"

	"go.uber.org/zap"

	"parley/rtp"
)

// listenRTCP gives a session of the call a port for RTCP. A call without one goes
// on: its peer just has no reports.
func (c *Call) listenRTCP(session *rtp.Session) uint16 {
	port, err := session.ListenRTCP()
	if err != nil {
		c.log.Warn("no port for RTCP", zap.Error(err))
		return 0
	}
	return port
}

// control sees to a port for RTCP when it is not to share that of RTP.
func (n *negotiation) control(shared bool) {
	if !shared && n.listenRTCP != nil {
		n.local.RTCPPort = n.listenRTCP()
	}
}

// Playout implements rtp.Playout: what the jitter buffer waits for a missing packet,
// and what came later than that.
func (t *turned) Playout() (delay time.Duration, discarded uint64) {
	st := t.ear.jitter.Stats()
	return st.Delay, st.Late
}
