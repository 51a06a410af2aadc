package peers

import (
	"flag"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
	"parley/test/audio"
	"parley/test/phone"
)

// The telephones wait most of the time: more of them than there are processors can
// talk at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	Main(m)
}

// speech is sound whose loudness and pitch wander as a sentence's do; two seeds
// have little in common.
func speech(seed float64, length time.Duration) []int16 {
	out := make([]int16, int(length.Seconds()*8000))
	for i := range out {
		t := float64(i) / 8000
		syllable := math.Abs(math.Sin(3.1*t*seed+0.7*math.Sin(5*t))) * (0.6 + 0.4*math.Sin(1.7*seed*t))
		if math.Sin(2.3*t*seed+seed) < -0.6 { // a pause
			syllable = 0
		}
		out[i] = int16(9000 * syllable * math.Sin(2*math.Pi*(180+120*math.Sin(2*t*seed))*t))
	}
	return out
}

// microphone writes a sound file: silence, the speech, and silence to the end, for
// a peer whose call ends with its file.
func microphone(t *testing.T, pcm []int16, lead, length time.Duration) string {
	t.Helper()
	all := make([]int16, int(length.Seconds()*8000))
	copy(all[int(lead.Seconds()*8000):], pcm)
	return wavFile(t, all)
}

func wavFile(t *testing.T, pcm []int16) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "microphone.wav")
	if err := writeMono(path, pcm); err != nil {
		t.Fatal(err)
	}
	return path
}

// heardBy fails the test unless the sentence is in the recording and the other one
// is not.
func heardBy(t *testing.T, who string, sentence, recording []int16, rate int) {
	t.Helper()
	m := audio.FindEnvelope(sentence, 8000, recording, rate)
	other := audio.FindEnvelope(speech(2.9, 2*time.Second), 8000, recording, rate)
	t.Logf("%s heard the sentence at %v: %.3f; another one scores %.3f", who, m.At, m.Score, other.Score)
	// On a quiet machine the score is above 0.95; a busy one makes the peers stutter.
	if m.Score < 0.7 || m.Score-other.Score < 0.15 {
		t.Errorf("%s did not hear what was said: %.3f, another sentence scores %.3f", who, m.Score, other.Score)
	}
}

func TestBaresipTalksWithAnAgent(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, way := range []struct{ codec, transport string }{{"PCMU/8000/1", "udp"}, {"PCMA/8000/1", "tcp"}} {
		t.Run(way.codec[:4]+" "+way.transport, func(t *testing.T) {
			asks, answers := speech(1.3, 2*time.Second), speech(2.1, 2*time.Second)
			performer := &Performer{Says: answers, Pause: 500 * time.Millisecond}
			g := StartGateway(t, performer)
			b := StartBaresip(t, "+12025550101", microphone(t, asks, 500*time.Millisecond, 30*time.Second), way.codec, way.transport)
			b.Call(g.URI("agent") + ";transport=" + way.transport)
			b.Do("sndcode", "4")
			time.Sleep(6 * time.Second)
			b.Do("hangup", "")
			r := g.Records(1)
			heardBy(t, "baresip", answers, b.Heard(), 8000)
			heardBy(t, "the agent", asks, performer.Heard(), 8000)
			if d := performer.Digits(); d != "4" {
				t.Errorf("the agent got the keys %q, pressed was 4", d)
			}
			if len(r) == 1 && (r[0].Codec != way.codec[:4] || r[0].Cause != call.CauseCallerHungUp || r[0].Stats.Lost != 0 || r[0].ResourceID != "+12025550101") {
				t.Errorf("%+v", r[0])
			}
		})
	}
}

// Hold, resume and keys of ours, over each transport.
func TestBaresipHoldsAndResumes(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, transport := range []string{"udp", "tcp", "tls"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			performer := &Performer{Says: speech(2.1, 2*time.Second), Pause: 100 * time.Millisecond}
			g := StartGateway(t, performer)
			b := StartBaresip(t, "+12025550102", microphone(t, speech(1.3, time.Second), 0, 40*time.Second), "PCMU/8000/1", transport,
				"sip_certificate "+certificateAndKey(t), "sip_verify_server no")
			b.Call(g.agentAt(transport))
			time.Sleep(time.Second)
			for round := 1; round <= 2; round++ {
				b.Do("hold", "")
				if !Eventually(3*time.Second, func() bool { return len(performer.Notices(agent.Held)) == round }) {
					t.Fatal("the agent was not told of the hold")
				}
				time.Sleep(700 * time.Millisecond)
				b.Do("resume", "")
				if !Eventually(3*time.Second, func() bool { return len(performer.Notices(agent.Resumed)) == round }) {
					t.Fatal("the agent was not told of the end of the hold")
				}
				time.Sleep(700 * time.Millisecond)
			}
			before := len(performer.Heard())
			time.Sleep(time.Second)
			if more := len(performer.Heard()) - before; more < 5000 {
				t.Errorf("after the hold the agent heard %d samples in a second", more)
			}
			if err := g.calls.SendDigits(within(t), performer.Calls()[0].ID, "5#"); err != nil {
				t.Error(err)
			}
			if !Eventually(3*time.Second, func() bool { return strings.Join(b.Params("CALL_DTMF_START"), "") == "5#" }) {
				t.Errorf("baresip got the keys %q", b.Params("CALL_DTMF_START"))
			}
			b.Do("hangup", "")
			g.Records(1)
		})
	}
}

func TestBaresipIsHungUpOn(t *testing.T) {
	Isolated(t)
	t.Parallel()
	g := StartGateway(t, &Brief{For: time.Second})
	b := StartBaresip(t, "+12025550103", microphone(t, nil, 0, 20*time.Second), "PCMU/8000/1", "udp")
	b.Call(g.URI("agent"))
	if !b.Ended() {
		t.Error("baresip did not hear of the end of the call")
	}
	if r := g.Records(1); len(r) == 1 && r[0].Cause != call.CauseAgentHungUp {
		t.Errorf("%+v", r[0])
	}
}

func TestLinphoneTalksWithAnAgent(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, transport := range []string{"udp", "tcp", "tls"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			linphoneTalks(t, transport)
		})
	}
}

func linphoneTalks(t *testing.T, transport string) {
	t.Helper()
	asks, answers := speech(1.3, 2*time.Second), speech(2.1, 2*time.Second)
	performer := &Performer{Says: answers, Pause: 500 * time.Millisecond}
	g := StartGateway(t, performer)
	l := StartLinphone(t, "+12025550104", microphone(t, asks, 500*time.Millisecond, 20*time.Second))
	l.Call(g.agentAt(transport))
	time.Sleep(3 * time.Second)
	l.Tell("7")
	time.Sleep(time.Second)
	l.Tell("pause")
	if !Eventually(3*time.Second, func() bool { return len(performer.Notices(agent.Held)) == 1 }) {
		t.Error("the agent was not told of the hold")
	}
	time.Sleep(500 * time.Millisecond)
	l.Tell("resume 1")
	if !Eventually(3*time.Second, func() bool { return len(performer.Notices(agent.Resumed)) == 1 }) {
		t.Error("the agent was not told of the end of the hold")
	}
	time.Sleep(3 * time.Second)
	if err := g.calls.SendDigits(within(t), performer.Calls()[0].ID, "9"); err != nil {
		t.Error(err)
	}
	l.WaitFor("Receiving tone 9 from", 3*time.Second)
	l.Tell("terminate")
	g.Records(1)
	heard, rate := l.Heard()
	heardBy(t, "linphone", answers, heard, rate)
	heardBy(t, "the agent", asks, performer.Heard(), 8000)
	if d := performer.Digits(); d != "7" {
		t.Errorf("the agent got the keys %q, pressed was 7", d)
	}
}

func TestCancelAndByeInAnyOrderLeaveNothing(t *testing.T) {
	Isolated(t)
	slow := &Performer{OpenAfter: 400 * time.Millisecond}
	g := StartGateway(t, slow)
	p, err := phone.New(phone.Config{Number: "+12025550105"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	answered := 0
	// From well before the answer to after it: the CANCEL comes in time, crosses
	// the 200, or finds the call up.
	for after := time.Duration(0); after <= 600*time.Millisecond; after += 50 * time.Millisecond {
		c, err := p.Invite(g.URI("agent"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(after)
		c.Cancel()
		if c.WaitAnswer(t.Context()) == nil {
			answered++
			if err := c.Hangup(t.Context()); err != nil {
				t.Errorf("BYE after a CANCEL that came too late: %v", err)
			}
		}
		if _, err := c.WaitEnd(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if answered == 0 || answered == 13 {
		t.Errorf("%d of 13 calls were answered; the times do not cover both cases", answered)
	}
	g.Records(answered)
}

func TestBothHangUpAtOnce(t *testing.T) {
	Isolated(t)
	g := StartGateway(t, &Brief{For: 300 * time.Millisecond})
	p, err := phone.New(phone.Config{Number: "+12025550106"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range 8 {
		c, err := p.Dial(t.Context(), g.URI("agent"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(300*time.Millisecond + time.Duration(i-4)*300*time.Microsecond)
		if err := c.Hangup(t.Context()); err != nil {
			t.Error(err)
		}
	}
	g.Records(8)
}

func TestServerEndsInOrderWithACallUp(t *testing.T) {
	Isolated(t)
	t.Parallel()
	s := StartServer(t, Settings{Rest: "[server]\ndrain_timeout = \"500ms\"\n"})
	b := StartBaresip(t, "+12025550107", microphone(t, speech(1.3, time.Second), 0, 20*time.Second), "PCMU/8000/1", "udp")
	b.Call(s.URI("echo"))
	s.End()
	if !b.Ended() {
		t.Error("baresip did not hear of the end of the call")
	}
	r := s.Records(1)
	if len(r) == 1 && r[0].Cause != call.CauseShutdown {
		t.Errorf("%+v", r[0])
	}
	if strings.Contains(s.Output(), "goroutine ") {
		t.Error("the server ended with a stack trace")
	}
}
