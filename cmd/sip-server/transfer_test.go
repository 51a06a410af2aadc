package main

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/agent"
	"parley/call"
	"parley/config"
	"parley/test/phone"
)

// The receptionist sends a softphone that came by no trunk to a person, where [transfer]
// allows that host. When nobody is there the caller is back and hears so.
func TestTheReceptionistTransfersASoftphone(t *testing.T) {
	if !embeddedSpeech {
		t.Skip("needs the embedded voice")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	desk := newPhone(t)
	host := desk.Local()
	text, err := os.ReadFile("../../deploy/receptionist.toml")
	if err != nil {
		t.Fatal(err)
	}
	const place = `say = "I am sorry, nobody has told me yet whom to connect you to."`
	if !strings.Contains(string(text), place) {
		t.Fatal("the receptionist transfers to somebody else")
	}
	cfg := testConfig(t)
	cfg.LLM.Provider = "script"
	cfg.Script.File = write(t, strings.Replace(string(text), place, "say = \"One moment please.\"\naction = \"transfer\"\nto = \"sip:operator@"+host.String()+"\"", 1))
	cfg.Sessions.Backend = config.SessionsMemory
	cfg.Transfer.AllowHosts = []string{host.Addr().String()}
	r := launch(t, cfg)

	for _, busy := range []bool{true, false} {
		desk.Answer(func(i *phone.Incoming) {
			if busy {
				i.Refuse(486, "Busy Here")
			} else if _, err := i.Accept(); err != nil {
				t.Error(err)
			}
		})
		caller := newPhone(t)
		referred := make(chan *phone.Call, 1)
		caller.OnRefer(func(c *phone.Call, m *phone.Message) {
			_ = c.Notify(ctx, 100, "Trying")
			next, err := caller.Dial(ctx, strings.Trim(m.Get("Refer-To"), "<>"))
			if err != nil {
				_ = c.Notify(ctx, 486, "Busy Here")
				return
			}
			_ = c.Notify(ctx, 200, "OK")
			referred <- next
		})
		c, err := caller.Dial(ctx, r.uri())
		if err != nil {
			t.Fatal(err)
		}
		id := r.calls.Calls()[0].ID
		if err := c.WaitAgentSpeaking(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Press('4', 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		_, live, stop, err := r.calls.Events(id)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for e := range live {
			if e.Type == agent.EventAgentText {
				said += e.Text + " "
			}
			if busy && strings.Contains(said, "There is no person here") {
				break
			}
		}
		stop()
		if busy {
			if st, ok := r.calls.Call(id); !ok || st.State != call.StateAnswered {
				t.Errorf("the caller is not back: %+v, after %q", st, said)
			}
			if err := c.Hangup(ctx); err != nil {
				t.Error(err)
			}
			until(t, func() bool { return r.calls.Active() == 0 })
			continue
		}
		if end, err := c.WaitEnd(ctx); err != nil || !end.ByPeer {
			t.Errorf("end %+v %v", end, err)
		}
		select {
		case next := <-referred:
			if err := next.Hangup(ctx); err != nil {
				t.Error(err)
			}
		case <-ctx.Done():
			t.Fatalf("nobody was called; said %q", said)
		}
		if st, _ := r.calls.Call(id); st.Cause != call.CauseTransferred {
			t.Errorf("the call ended with %q", st.Cause)
		}
	}
	r.signals <- syscall.SIGTERM
	r.wait(t)
}
