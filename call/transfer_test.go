package call

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/sip"
	"parley/test/phone"
)

// transferring is a call from a phone to a gateway whose trunk leads to desk, and the
// agent's session in it.
func transferring(t *testing.T, caller, desk *phone.Phone, change func(*Trunk)) (*gateway, *phone.Call, *fakeSession) {
	t.Helper()
	g := withTrunk(t, desk, func(tr *Trunk) {
		tr.Outbound.Allow = []string{"+1212555"}
		if change != nil {
			change(tr)
		}
	})
	c, err := caller.Dial(within(t), g.uri, phone.Header{Name: "X-Test-Trunk", Value: "carrier"})
	if err != nil {
		t.Fatal(err)
	}
	await(t, g.seen.started, "start")
	return g, c, g.agent.last()
}

// referTo calls whom a REFER names, as telephones do, and reports on it. Whoever that
// is can be reached at desk: a carrier knows, this phone does not.
func referTo(p, desk *phone.Phone, calls chan<- *phone.Call) func(*phone.Call, *phone.Message) {
	return func(c *phone.Call, m *phone.Message) {
		uri, headers, _ := strings.Cut(strings.Trim(m.Get("Refer-To"), "<>"), "?")
		user, _, _ := strings.Cut(uri, "@")
		uri = user + "@" + desk.Local().String()
		var extra []phone.Header
		if v, ok := strings.CutPrefix(headers, "Replaces="); ok {
			v = strings.NewReplacer("%3B", ";", "%3D", "=", "%40", "@").Replace(v)
			extra = append(extra, phone.Header{Name: "Replaces", Value: v})
		}
		ctx := context.Background()
		_ = c.Notify(ctx, 100, "Trying")
		next, err := p.Dial(ctx, uri, extra...)
		var status *phone.StatusError
		switch {
		case errors.As(err, &status):
			_ = c.Notify(ctx, status.Code, status.Phrase)
		case err != nil:
			_ = c.Notify(ctx, 503, "Service Unavailable")
		default:
			_ = c.Notify(ctx, 200, "OK")
			calls <- next
		}
	}
}

func TestBlindTransfer(t *testing.T) {
	caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	calls := make(chan *phone.Call, 1)
	caller.OnRefer(referTo(caller, desk, calls))
	answered := desk.AnswerAll()
	g, c, s := transferring(t, caller, desk, nil)
	if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "(212) 555-0123"}); err != nil {
		t.Fatal(err)
	}
	await(t, calls, "call between the two")
	await(t, answered, "answer")
	await(t, s.ended, "end of the agent")
	if r := g.seen.awaitEnd(t); r.Cause != CauseTransferred {
		t.Errorf("record %+v", r)
	}
	if end, err := c.WaitEnd(within(t)); err != nil || !end.ByPeer {
		t.Errorf("end %+v, %v", end, err)
	}
	if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123"}); !errors.Is(err, agent.ErrClosed) {
		t.Errorf("a transfer of a call that is over: %v", err)
	}
}

func TestATransferThatFailsGivesTheCallerBack(t *testing.T) {
	caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	caller.OnRefer(func(c *phone.Call, _ *phone.Message) {
		_ = c.Notify(context.Background(), 180, "Ringing")
		_ = c.Notify(context.Background(), 486, "Busy Here")
	})
	g, c, s := transferring(t, caller, desk, nil)
	err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123"})
	var failed *agent.TransferError
	if !errors.As(err, &failed) || failed.Code != 486 || failed.Reason != "Busy Here" {
		t.Fatalf("transfer: %v", err)
	}
	e := g.seen.awaitEvent(t, agent.EventConnection, agent.ConnectionTransferFailed)
	if e.Code != 486 || e.Text != "+12125550123" {
		t.Errorf("event %+v", e)
	}
	c.Say(sine(1000, 8000, 500*time.Millisecond))
	s.await(t, agent.VoiceConfirmed) // the caller is back with the agent
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	if r := g.seen.awaitEnd(t); r.Cause != CauseCallerHungUp {
		t.Errorf("record %+v", r)
	}
}

func TestATransferThatIsRefused(t *testing.T) {
	caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	g, _, s := transferring(t, caller, desk, nil) // the caller's phone answers REFER by 603
	var failed *agent.TransferError
	if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123"}); !errors.As(err, &failed) || failed.Code != 603 {
		t.Errorf("transfer: %v", err)
	}
	if n := g.Active(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestAgentsCannotBeTalkedIntoFraud(t *testing.T) { // BR-159
	caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	referred := make(chan struct{}, 10)
	caller.OnRefer(func(c *phone.Call, _ *phone.Message) {
		referred <- struct{}{}
		_ = c.Notify(context.Background(), 486, "Busy Here")
	})
	desk.Answer(func(i *phone.Incoming) { referred <- struct{}{}; i.Refuse(486, "Busy Here") })
	g, _, s := transferring(t, caller, desk, func(tr *Trunk) { tr.Outbound.MaxPerCall = 1 })
	for _, to := range []string{"+15550199900", "sip:x@evil.example", "tel:+881612345678", "sip:+1555@host?Replaces=a", "+15550100\r\nRoute: <sip:evil>", "+19005550123"} {
		for _, attended := range []bool{false, true} {
			if err := s.call.Control.Transfer(within(t), agent.Transfer{To: to, Attended: attended}); !errors.Is(err, agent.ErrForbidden) {
				t.Errorf("%q, attended %v: %v", to, attended, err)
			}
		}
	}
	if len(referred) > 0 {
		t.Error("something was tried")
	}
	if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123", Headers: map[string]string{"Route": "<sip:evil>"}, Attended: true}); !errors.Is(err, agent.ErrForbidden) {
		t.Errorf("a Route header: %v", err)
	}
	if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123"}); errors.Is(err, agent.ErrForbidden) || err == nil {
		t.Errorf("the one that is allowed: %v", err)
	}
	if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123"}); !errors.Is(err, agent.ErrForbidden) {
		t.Errorf("one more than may be: %v", err)
	}
	if err := g.Transfer(within(t), s.call.ID, agent.Transfer{To: "+12125550123"}); errors.Is(err, agent.ErrForbidden) {
		t.Errorf("an operator is bound by the agent's cap: %v", err)
	}
}

func TestAttendedTransfer(t *testing.T) {
	caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	calls, consulting := make(chan *phone.Call, 1), make(chan *phone.Call, 1)
	caller.OnRefer(func(c *phone.Call, m *phone.Message) {
		consulting <- await(t, consulting, "consultation") // it has heard us
		referTo(caller, desk, calls)(c, m)
	})
	consulted, replacing := make(chan *phone.Call, 1), make(chan *phone.Message, 1)
	desk.Answer(func(i *phone.Incoming) {
		c, err := i.Accept()
		if err != nil {
			return
		}
		if i.Invite.Get("Replaces") != "" { // the caller's phone: our call is over
			replacing <- i.Invite
			return
		}
		for c.Log().Quality(phone.Heard).Packets < 3 && t.Context().Err() == nil { // BR-108: not a dead line
			time.Sleep(time.Millisecond)
		}
		consulting <- c
		consulted <- c
	})
	g, c, s := transferring(t, caller, desk, nil)
	done := make(chan error, 1)
	go func() {
		done <- s.call.Control.Transfer(context.Background(), agent.Transfer{To: "+12125550123", Attended: true, Headers: map[string]string{"X-Reason": "sales"}})
	}()
	ours := await(t, consulted, "consultation")
	if err := await(t, done, "transfer"); err != nil {
		t.Fatal(err)
	}
	m := await(t, replacing, "INVITE with Replaces")
	if !strings.HasPrefix(m.Get("Replaces"), ours.ID()+";") {
		t.Errorf("Replaces %q for the call %q", m.Get("Replaces"), ours.ID())
	}
	if r := g.seen.awaitEnd(t); r.Cause != CauseTransferred {
		t.Errorf("record %+v", r)
	}
	for _, over := range []*phone.Call{c, ours} {
		if end, err := over.WaitEnd(within(t)); err != nil || !end.ByPeer {
			t.Errorf("end %+v, %v", end, err)
		}
	}
	await(t, calls, "call between the two")
}

func TestAnAttendedTransferToNobody(t *testing.T) {
	caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	desk.Answer(func(i *phone.Incoming) { i.Ring(); i.Refuse(480, "Temporarily Unavailable") })
	g, c, s := transferring(t, caller, desk, nil)
	var failed *agent.TransferError
	if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123", Attended: true}); !errors.As(err, &failed) || failed.Code != 480 {
		t.Errorf("transfer: %v", err)
	}
	if err := g.SendDigits(within(t), s.call.ID, "1"); err != nil { // the call goes on
		t.Error(err)
	}
	_ = c
}

func TestTheCallerLeavesDuringATransfer(t *testing.T) {
	caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	ringing := make(chan struct{})
	canceled := make(chan struct{})
	desk.Answer(func(i *phone.Incoming) { i.Ring(); close(ringing); <-i.Canceled(); close(canceled) })
	g, c, s := transferring(t, caller, desk, nil)
	done := make(chan error, 1)
	go func() {
		done <- s.call.Control.Transfer(context.Background(), agent.Transfer{To: "+12125550123", Attended: true})
	}()
	await(t, ringing, "ringing")
	if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123"}); !errors.Is(err, ErrState) {
		t.Errorf("a second transfer: %v", err)
	}
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	await(t, canceled, "CANCEL to the target")
	if err := await(t, done, "transfer"); !errors.Is(err, agent.ErrClosed) {
		t.Errorf("transfer: %v", err)
	}
	if r := g.seen.awaitEnd(t); r.Cause != CauseCallerHungUp {
		t.Errorf("record %+v", r)
	}
}

// Whoever comes by no trunk is sent where [transfer] allows, and nowhere else.
func TestTransfersWithoutATrunk(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*TransferConfig)
		to       string
		referTo  string // begins so, "" is a refusal
		attended bool
	}{
		{"nowhere by default", nil, "+12125550123", "", false},
		{"a number", func(c *TransferConfig) { c.Allow = []string{"+1212"} }, "(212) 555-0123", "<sip:+12125550123@127.0.0.1", false},
		{"a number elsewhere", func(c *TransferConfig) { c.Allow = []string{"+1212"} }, "+14155550123", "", false},
		{"an extension at a domain", func(c *TransferConfig) { c.Allow, c.Domain = []string{"2"}, "pbx.example" }, "204", "<sip:204@pbx.example>", false},
		{"a host", func(c *TransferConfig) { c.Hosts = []string{"pbx.example"} }, "sip:sales@pbx.example", "<sip:sales@pbx.example>", false},
		{"another host", func(c *TransferConfig) { c.Hosts = []string{"pbx.example"} }, "sip:sales@evil.example", "", false},
		{"attended needs a call of ours", func(c *TransferConfig) { c.Allow = []string{"+1212"} }, "+12125550123", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := startGateway(t, func(cfg *Config, _ *sip.Config) {
				cfg.Transfer.Region = "US"
				if c.change != nil {
					c.change(&cfg.Transfer)
				}
			})
			p := ringUp(t, phone.Config{Number: "+14155550100"})
			asked := make(chan string, 2)
			p.OnRefer(func(call *phone.Call, m *phone.Message) {
				asked <- m.Get("Refer-To")
				_ = call.Notify(context.Background(), 200, "OK")
			})
			dial(t, p, g.uri)
			id := await(t, g.seen.started, "start").CallID
			operator := g.Transfer(within(t), id, agent.Transfer{To: c.to, Attended: c.attended})
			if c.referTo == "" {
				err := g.agent.last().call.Control.Transfer(within(t), agent.Transfer{To: c.to, Attended: c.attended})
				want := agent.ErrForbidden
				if c.attended {
					want = agent.ErrNotSupported
				}
				if !errors.Is(err, want) || !errors.Is(operator, want) || len(asked) > 0 {
					t.Errorf("%v; of an operator %v", err, operator)
				}
				return
			}
			if got := await(t, asked, "REFER"); operator != nil || !strings.HasPrefix(got, c.referTo) {
				t.Errorf("Refer-To %s, %v", got, operator)
			}
			if r := g.seen.awaitEnd(t); r.Cause != CauseTransferred {
				t.Errorf("record %+v", r)
			}
		})
	}
}

// Headers of a transfer stand in the address, where the trunk takes them.
func TestHeadersOfABlindTransfer(t *testing.T) {
	caller, desk := ringUp(t, phone.Config{Number: "+14155550100"}), ringUp(t, phone.Config{Number: "+12125550123"})
	asked := make(chan string, 2)
	caller.OnRefer(func(c *phone.Call, m *phone.Message) {
		asked <- m.Get("Refer-To")
		_ = c.Notify(context.Background(), 200, "OK")
	})
	headers := map[string]string{"X-Order": "47 & 11?;<x>", "x-b": "2"}
	_, _, s := transferring(t, caller, desk, nil)
	if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123", Headers: headers}); !errors.Is(err, agent.ErrNotSupported) || len(asked) > 0 {
		t.Errorf("not configured: %v", err)
	}
	_, _, s = transferring(t, caller, desk, func(tr *Trunk) { tr.ReferHeaders = true })
	for name, bad := range map[string]map[string]string{"not an extension": {"Subject": "x"}, "a route": {"Route": "<sip:evil>"}, "two lines": {"X-A": "a\r\nRoute: x"}} {
		if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123", Headers: bad}); !errors.Is(err, agent.ErrForbidden) || len(asked) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.call.Control.Transfer(within(t), agent.Transfer{To: "+12125550123", Headers: headers}); err != nil {
		t.Fatal(err)
	}
	if got := await(t, asked, "REFER"); got != "<sip:+12125550123@127.0.0.1?X-Order=47%20%26%2011%3F%3B%3Cx%3E&x-b=2>" {
		t.Errorf("Refer-To %s", got)
	}
}
