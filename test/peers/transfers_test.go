package peers

import (
	"context"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
	"parley/sip"
	"parley/test/audio"
)

// switchboard is a trunk that everybody on this machine comes by and that leads to
// host.
func switchboard(host string) call.Trunk {
	t := call.Trunk{Name: "switchboard", SIP: sip.DefaultTrunk(), Region: "US", TrustIdentity: true, AcceptRefer: true,
		Outbound: call.Outbound{Hosts: []string{"127.0.0.1"}}}
	t.SIP.Name, t.SIP.User, t.SIP.Domain, t.SIP.Hosts = t.Name, "parley", "127.0.0.1", []string{host}
	return t
}

// The three who talk in a transfer, and what each says.
var (
	callerSays = speech(1.3, 2*time.Second)
	agentSays  = speech(2.1, 2*time.Second)
	deskSays   = speech(0.7, 2*time.Second)
)

// said fails the test unless who heard the wave that was said; it is for parties that
// do not stretch time. How well the wave is kept is for TestFidelity to say.
func said(t *testing.T, who string, sentence, recording []int16, want bool) {
	t.Helper()
	m := audio.FindWaveform(sentence[len(sentence)/4:len(sentence)*3/4], recording, 8000)
	t.Logf("%s: %.3f at %v", who, m.Score, m.At)
	if want && m.Score < 0.8 || !want && m.Score > 0.7 {
		t.Errorf("%s: a correlation of %.3f", who, m.Score)
	}
}

func baresipOf(t *testing.T, number string, says []int16, settings ...string) *Baresip {
	t.Helper()
	return StartBaresip(t, number, microphone(t, says, time.Second, 60*time.Second), "PCMU/8000/1", "udp", settings...)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// We send baresip elsewhere: it calls there, says so, and we hang up.
func TestBaresipIsTransferred(t *testing.T) {
	Isolated(t)
	t.Parallel()
	performer := &Performer{Says: agentSays, Pause: 200 * time.Millisecond}
	caller, desk := baresipOf(t, "+12025550120", callerSays), baresipOf(t, "desk", deskSays)
	g := StartGatewayWith(t, performer, Setup{Trunk: switchboard(desk.Host)})
	caller.Call(g.URI("agent"))
	time.Sleep(4 * time.Second)
	said(t, "the agent hears the caller", callerSays, performer.Heard(), true)
	if err := g.calls.Transfer(within(t), performer.Calls()[0].ID, agent.Transfer{To: "sip:desk@" + desk.Host}); err != nil {
		t.Fatal(err)
	}
	r := g.Records(1)[0]
	if r.Cause != call.CauseTransferred || !caller.Ended() {
		t.Errorf("record %+v; baresip closed %d calls", r, caller.Saw("CALL_CLOSED"))
	}
	time.Sleep(4 * time.Second)
	caller.Do("hangup", "")
	if !desk.Ended() {
		t.Error("the two were not connected")
	}
	first, _ := caller.HeardIn(0)
	said(t, "the caller hears the agent", agentSays, first, true)
	said(t, "the desk hears the caller", callerSays, desk.Heard(), true)
	said(t, "the caller hears the desk", deskSays, caller.Heard(), true)
}

// Who baresip is sent to is busy: the call goes on.
func TestBaresipComesBackFromATransfer(t *testing.T) {
	Isolated(t)
	t.Parallel()
	performer := &Performer{Says: agentSays, Pause: 200 * time.Millisecond}
	caller := baresipOf(t, "+12025550121", callerSays)
	nobody := userAgent(t, func(_ context.Context, inv *sip.Invite) {
		_ = inv.Reject(&sip.RejectError{Code: 486, Rule: "busy", Text: "Busy Here"})
	})
	there := nobody.Addrs()[0].Addr.String()
	g := StartGatewayWith(t, performer, Setup{Trunk: switchboard(there)})
	caller.Call(g.URI("agent"))
	time.Sleep(time.Second)
	err := g.calls.Transfer(within(t), performer.Calls()[0].ID, agent.Transfer{To: "sip:desk@" + there})
	if err == nil {
		t.Fatal("the transfer succeeded")
	}
	t.Log(err)
	if g.calls.Active() != 1 {
		t.Fatal("the caller is gone")
	}
	before := len(performer.Heard())
	time.Sleep(time.Second)
	if more := len(performer.Heard()) - before; more < 5000 {
		t.Errorf("after it the agent heard %d samples in a second", more)
	}
	g.hangUp()
	g.Records(1)
}

// Baresip sends us elsewhere: the agent goes on with who is there.
func TestBaresipTransfersUs(t *testing.T) {
	Isolated(t)
	t.Parallel()
	performer := &Performer{Says: agentSays, Pause: 200 * time.Millisecond}
	caller, desk := baresipOf(t, "+12025550122", callerSays), baresipOf(t, "desk", deskSays)
	g := StartGatewayWith(t, performer, Setup{Trunk: switchboard(desk.Host)})
	caller.Call(g.URI("agent"))
	time.Sleep(4 * time.Second)
	said(t, "the agent hears the caller", callerSays, performer.Heard(), true)
	said(t, "the agent does not hear the desk yet", deskSays, performer.Heard(), false)
	caller.Do("transfer", "sip:desk@"+desk.Host)
	if !caller.Ended() {
		t.Fatal("baresip's call did not end")
	}
	time.Sleep(4 * time.Second)
	desk.Do("hangup", "")
	r := g.Records(1)[0]
	if r.Cause != call.CauseCallerHungUp || len(performer.Calls()) != 1 {
		t.Errorf("record %+v; %d conversations", r, len(performer.Calls()))
	}
	said(t, "the agent hears the desk", deskSays, performer.Heard(), true)
	said(t, "the desk hears the agent", agentSays, desk.Heard(), true)
}

// A trunk that may not transfer us.
func TestBaresipMayNotTransferUs(t *testing.T) {
	Isolated(t)
	t.Parallel()
	performer := &Performer{Says: agentSays, Pause: 200 * time.Millisecond}
	caller, desk := baresipOf(t, "+12025550123", callerSays), baresipOf(t, "desk", deskSays)
	trunk := switchboard(desk.Host)
	trunk.AcceptRefer = false
	g := StartGatewayWith(t, performer, Setup{Trunk: trunk})
	caller.Call(g.URI("agent"))
	time.Sleep(500 * time.Millisecond)
	caller.Do("transfer", "sip:desk@"+desk.Host)
	if !Eventually(5*time.Second, func() bool { return caller.Saw("TRANSFER_FAILED") > 0 }) {
		t.Errorf("baresip was not told: %+v", caller.events)
	}
	if desk.Saw("CALL_INCOMING") != 0 {
		t.Error("the desk was called")
	}
	if r := g.Records(1)[0]; r.Cause != call.CauseCallerHungUp { // baresip gives up then
		t.Errorf("record %+v", r)
	}
}
