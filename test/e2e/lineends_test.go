package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
	"parley/test/phone"
)

// TestNoiseWithoutWordsEndsTheCall: a caller of whom nothing but the noise of a line is to
// be heard is asked for, told goodbye and left, and the BYE says why (BR-128, BR-156).
func TestNoiseWithoutWordsEndsTheCall(t *testing.T) {
	a := newAgent(t, func(w http.ResponseWriter, _ *http.Request, _ turn, _ int) { say(w, "Never asked.") })
	g := startGateway(t, nil)
	p := newParts(a.URL)
	c := &p.cascade
	c.Greeting, c.Goodbye, c.Reprompts = "Welcome here.", goodbye, []string{reprompt}
	c.Turn.Idle, c.Turn.Reprompts = time.Second, 1
	p.plug(t, g, "noise")
	caller := dial(t, newPhone(t, phone.Config{Number: "+14155551710", Noise: -60}), g.uri("noise"))
	wait(t, "the end of the call", patience, func(ctx context.Context) error {
		_, err := caller.WaitEnd(ctx)
		return err
	})
	if end := caller.End(); !end.ByPeer || !strings.Contains(end.Reason, "Q.850;cause=16") || !strings.Contains(end.Reason, call.CauseAgentHungUp) {
		t.Errorf("ended by %+v", end)
	}
	_, events := g.ended(t, caller)
	var spoken []string
	for _, e := range of(events, agent.EventAgentText) {
		spoken = append(spoken, e.Text)
	}
	if got, want := strings.Join(spoken, "|"), strings.Join([]string{c.Greeting, reprompt, goodbye}, "|"); got != want {
		t.Errorf("spoken %q, want %q", got, want)
	}
	if turns := of(events, agent.EventUserStarted); len(turns) > 0 || len(a.asked("")) > 0 {
		t.Errorf("noise was taken for a turn: %+v", turns)
	}
}
