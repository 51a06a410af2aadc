package peers

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
	"parley/test/audio"
)

// A browser calls directly: SIP over WebSocket, ICE, DTLS-SRTP.
func TestChromiumTalksWithAnAgent(t *testing.T) {
	Isolated(t)
	for _, way := range []struct{ name, network, codec, record string }{
		{"Opus over WSS", "wss", "", "opus"},
		{"PCMU over WS", "ws", "0", "PCMU"},
	} {
		t.Run(way.name, func(t *testing.T) {
			asks, answers := prompt(t, "vm-goodbye", 1.3), prompt(t, "vm-isunavail", 2.1)
			performer := &Performer{Rate: 16000, Says: answers, Pause: 700 * time.Millisecond}
			g := StartGateway(t, performer)
			host := map[string]string{"ws": g.WSHost, "wss": g.WSSHost}[way.network]
			c := StartChromium(t, way.network+"://"+host, "sip:agent@127.0.0.1", "+12025550115",
				chromiumMicrophone(t, asks, 4*time.Second, 30*time.Second), way.codec)
			c.Await("up", 20*time.Second)
			time.Sleep(6 * time.Second)
			c.Do(map[string]any{"press": "5"})
			time.Sleep(2 * time.Second)
			c.Do(map[string]any{"stats": true})
			if stats := c.Await("stats", 5*time.Second); !strings.Contains(stats, `"dtlsState":"connected"`) || !strings.Contains(stats, `"nominated":true`) {
				t.Errorf("chromium's own figures: %s", stats)
			}
			c.Do(map[string]any{"hangUp": true})
			c.Await("ended", 5*time.Second)
			r := g.Records(1)[0]

			check := func(who string, want, got []int16, alike float64) {
				t.Helper()
				m := audio.FindWaveform(want[len(want)/4:len(want)*3/4], got, 16000)
				t.Logf("%s heard the sentence at %v with a correlation of %.3f", who, m.At, m.Score)
				if m.Score < alike {
					t.Errorf("%s heard the sentence with a correlation of %.3f, want %.2f", who, m.Score, alike)
				}
			}
			check("chromium", answers, c.Heard(), 0.95)
			check("the agent", asks, performer.Heard(), 0.95)
			if d := performer.Digits(); d != "5" {
				t.Errorf("the agent got the keys %q, pressed was 5", d)
			}
			t.Logf("%s, %s", r.Codec, r.SRTP)
			if r.Codec != way.record || r.SRTP == "" || r.Cause != call.CauseCallerHungUp || r.Stats.Forged != 0 || r.Stats.RTCPIn == 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestChromiumHoldsResumesAndIsHungUpOn(t *testing.T) {
	Isolated(t)
	performer := &Performer{Rate: 16000, Says: prompt(t, "vm-isunavail", 2.1), Pause: 100 * time.Millisecond}
	g := StartGateway(t, performer)
	c := StartChromium(t, "wss://"+g.WSSHost, "sip:agent@127.0.0.1", "+12025550116", chromiumMicrophone(t, nil, 0, 20*time.Second), "")
	c.Await("up", 20*time.Second)
	for round := 1; round <= 2; round++ {
		c.Do(map[string]any{"hold": true})
		if !Eventually(3*time.Second, func() bool { return len(performer.Notices(agent.Held)) == round }) {
			t.Fatal("the agent was not told of the hold")
		}
		time.Sleep(500 * time.Millisecond)
		c.Do(map[string]any{"hold": false})
		if !Eventually(3*time.Second, func() bool { return len(performer.Notices(agent.Resumed)) == round }) {
			t.Fatal("the agent was not told of the end of the hold")
		}
		time.Sleep(500 * time.Millisecond)
	}
	before := len(performer.Heard())
	time.Sleep(2 * time.Second)
	if more := len(performer.Heard()) - before; more < 16000 {
		t.Errorf("after the hold the agent heard %d samples in two seconds", more)
	}
	g.hangUp()
	if cause := c.Await("ended", 5*time.Second); cause == "" {
		t.Error("chromium does not say why the call ended")
	}
	if r := g.Records(1)[0]; r.Stats.Forged != 0 || r.SRTP == "" {
		t.Errorf("%+v", r)
	}
}

// On a machine that is in a network a browser takes that network's address for its
// sound, although it calls by the loopback. Answers must come from the address that
// the session description names, or its checks fail and nobody hears anything.
func TestChromiumOnAMachineInANetwork(t *testing.T) {
	Isolated(t)
	for _, args := range [][]string{
		{"link", "add", "near0", "type", "veth", "peer", "name", "far0"},
		{"addr", "add", "192.0.2.2/24", "dev", "near0"},
		{"link", "set", "near0", "up"},
		{"link", "set", "far0", "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Skipf("ip %v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "near0").Run() })
	performer := &Performer{Rate: 16000, Says: prompt(t, "vm-isunavail", 2.1), Pause: 100 * time.Millisecond}
	g := StartGatewayWith(t, performer, Setup{AnyAddress: true})
	c := StartChromium(t, "ws://"+g.WSHost, "sip:agent@127.0.0.1", "+12025550117", chromiumMicrophone(t, nil, 0, 20*time.Second), "")
	c.Await("up", 20*time.Second)
	if !Eventually(5*time.Second, func() bool { return len(performer.Heard()) > 16000 }) {
		t.Error("the agent hears nothing")
	}
	g.hangUp()
	c.Await("ended", 5*time.Second)
	if r := g.Records(1)[0]; r.SRTP == "" || r.Stats.PacketsIn == 0 || r.Stats.PacketsOut == 0 {
		t.Errorf("%+v", r)
	}
}
