package peers

import (
	"testing"
	"time"

	"parley/agent"
	"parley/call"
)

// linphoneOf is a linphone that says something from the first second of each call.
func linphoneOf(t *testing.T, number string, says []int16, answers bool) *Linphone {
	t.Helper()
	l := StartLinphone(t, number, microphone(t, says, time.Second, 60*time.Second))
	if answers {
		l.Tell("autoanswer enable")
	}
	return l
}

// We send linphone elsewhere, and it goes.
func TestLinphoneIsTransferred(t *testing.T) {
	Isolated(t)
	t.Parallel()
	performer := &Performer{Says: agentSays, Pause: 200 * time.Millisecond}
	caller, desk := linphoneOf(t, "+12025550130", callerSays, false), baresipOf(t, "desk", deskSays)
	g := StartGatewayWith(t, performer, Setup{Trunk: switchboard(desk.Host)})
	caller.Call(g.URI("agent"))
	time.Sleep(4 * time.Second)
	heardBy(t, "the agent", callerSays, performer.Heard(), 8000)
	if err := g.calls.Transfer(within(t), performer.Calls()[0].ID, agent.Transfer{To: "sip:desk@" + desk.Host}); err != nil {
		t.Fatal(err)
	}
	if r := g.Records(1)[0]; r.Cause != call.CauseTransferred {
		t.Errorf("record %+v", r)
	}
	time.Sleep(4 * time.Second)
	caller.Tell("terminate")
	if !desk.Ended() {
		t.Error("the two were not connected")
	}
	heardBy(t, "the desk", callerSays, desk.Heard(), 8000)
}

// Linphone sends us elsewhere: the agent goes on with who is there.
func TestLinphoneTransfersUs(t *testing.T) {
	Isolated(t)
	t.Parallel()
	performer := &Performer{Says: agentSays, Pause: 200 * time.Millisecond}
	caller, desk := linphoneOf(t, "+12025550131", callerSays, false), baresipOf(t, "desk", deskSays)
	g := StartGatewayWith(t, performer, Setup{Trunk: switchboard(desk.Host)})
	caller.Call(g.URI("agent"))
	time.Sleep(4 * time.Second)
	caller.Tell("transfer sip:desk@" + desk.Host)
	if !Eventually(5*time.Second, func() bool { return desk.Saw("CALL_ESTABLISHED") == 1 }) {
		t.Fatal("the desk was not called")
	}
	time.Sleep(4 * time.Second)
	desk.Do("hangup", "")
	g.Records(1)
	said(t, "the agent hears the desk", deskSays, performer.Heard(), true)
	said(t, "the desk hears the agent", agentSays, desk.Heard(), true)
}

// We call the desk first and then have linphone take that call over, by an INVITE
// with Replaces.
func TestLinphoneIsTransferredAttended(t *testing.T) {
	Isolated(t)
	t.Parallel()
	performer := &Performer{Says: agentSays, Pause: 200 * time.Millisecond}
	caller, desk := linphoneOf(t, "+12025550132", callerSays, false), linphoneOf(t, "desk", deskSays, true)
	g := StartGatewayWith(t, performer, Setup{Trunk: switchboard(desk.Host)})
	caller.Call(g.URI("agent"))
	time.Sleep(4 * time.Second)
	if err := g.calls.Transfer(within(t), performer.Calls()[0].ID, agent.Transfer{To: "sip:desk@" + desk.Host, Attended: true}); err != nil {
		t.Fatal(err)
	}
	if r := g.Records(1)[0]; r.Cause != call.CauseTransferred {
		t.Errorf("record %+v", r)
	}
	time.Sleep(4 * time.Second)
	caller.Tell("terminate")
	desk.WaitFor("Call 2 with sip:+12025550132@127.0.0.1 ended", 5*time.Second)
	heard, rate := desk.Heard()
	heardBy(t, "the desk", callerSays, heard, rate)
}

// Linphone calls us, calls the desk, and connects the two: REFER to us with Replaces.
func TestLinphoneTransfersUsAttended(t *testing.T) {
	Isolated(t)
	t.Parallel()
	performer := &Performer{Says: agentSays, Pause: 200 * time.Millisecond}
	caller, desk := linphoneOf(t, "+12025550133", callerSays, false), linphoneOf(t, "desk", deskSays, true)
	g := StartGatewayWith(t, performer, Setup{Trunk: switchboard(desk.Host)})
	caller.Call(g.URI("agent"))
	time.Sleep(2 * time.Second)
	caller.Tell("pause")
	if !Eventually(3*time.Second, func() bool { return len(performer.Notices(agent.Held)) == 1 }) {
		t.Fatal("the agent was not told of the hold")
	}
	caller.Call("sip:desk@" + desk.Host)
	time.Sleep(time.Second)
	caller.Tell("transfer 1 --to-call 2")
	if !Eventually(5*time.Second, func() bool { return len(performer.Notices(agent.Resumed)) == 1 }) {
		t.Fatal("the agent was not told that somebody is there")
	}
	time.Sleep(4 * time.Second)
	desk.Tell("terminate")
	if r := g.Records(1)[0]; len(performer.Calls()) != 1 {
		t.Errorf("record %+v, %d conversations", r, len(performer.Calls()))
	}
	heard, rate := desk.Heard()
	heardBy(t, "the desk", agentSays, heard, rate)
}

// Linphone talks with another one, asks the agent, and hands that other one over to
// it: an INVITE with Replaces to us.
func TestLinphoneHandsACallOverToUs(t *testing.T) {
	Isolated(t)
	t.Parallel()
	performer := &Performer{Says: agentSays, Pause: 200 * time.Millisecond}
	desk, guest := linphoneOf(t, "desk", callerSays, false), linphoneOf(t, "guest", deskSays, true)
	// Linphone leaves the port out of Refer-To.
	g := StartGatewayWith(t, performer, Setup{Trunk: switchboard(guest.Host), Port: 5060})
	desk.Call("sip:guest@" + guest.Host)
	time.Sleep(time.Second)
	desk.Tell("pause")
	time.Sleep(500 * time.Millisecond)
	desk.Call(g.URI("agent"))
	time.Sleep(3 * time.Second)
	desk.Tell("transfer 1 --to-call 2")
	if !Eventually(5*time.Second, func() bool {
		past, _, stop, err := g.calls.Events(performer.Calls()[0].ID)
		if err != nil {
			return false
		}
		stop()
		for _, e := range past {
			if e.Type == agent.EventConnection && e.Reason == agent.ConnectionMoved {
				return true
			}
		}
		return false
	}) {
		t.Fatal("the call was not taken over")
	}
	time.Sleep(4 * time.Second)
	guest.Tell("terminate")
	if r := g.Records(1)[0]; len(performer.Calls()) != 1 || r.Cause != call.CauseCallerHungUp {
		t.Errorf("record %+v, %d conversations", r, len(performer.Calls()))
	}
	heard, rate := guest.Heard()
	heardBy(t, "the guest", agentSays, heard, rate)
}
