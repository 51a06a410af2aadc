package call

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/test/phone"
)

// awaitEvent takes events until one has the type and the reason.
func (w *watcher) awaitEvent(t *testing.T, kind agent.EventType, reason string) agent.Event {
	t.Helper()
	for {
		if e := await(t, w.events, string(kind)+" "+reason); e.Type == kind && e.Reason == reason {
			return e
		}
	}
}

// connection are the reasons of the connection's events in what was seen so far.
func connection(events []agent.Event) (reasons []string) {
	for _, e := range events {
		if e.Type == agent.EventConnection {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

func order(t *testing.T, g *gateway, o Outgoing) string {
	t.Helper()
	id, err := g.Dial(within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAnOutboundCallAndItsRecord(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, nil)
	opened := make(chan agent.Call, 1)
	rang := make(chan bool, 1)
	g.agent.opens(func(_ context.Context, c agent.Call) error { opened <- c; return nil })
	g.agent.does(func(ctx context.Context, s *fakeSession) error {
		if err := s.call.Speaker.Say(ctx, sine(440, 8000, time.Second)); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	p.Answer(func(i *phone.Incoming) {
		rang <- len(opened) == 1 // the agent is ready before anything rings
		i.Ring()
		if _, err := i.Accept(); err != nil {
			t.Error(err)
		}
	})
	id := order(t, g, Outgoing{To: "(212) 555-0123", From: "+14155550001", Name: "Parley", Context: map[string]string{"order": "7"}, Headers: map[string]string{"X-Job": "a"}})
	started := await(t, g.seen.started, "start")
	if started.CallID != id || started.Direction != "outbound" || started.Trunk != "carrier" {
		t.Errorf("started %+v", started)
	}
	if !await(t, rang, "INVITE") {
		t.Error("it rang before the agent was ready")
	}
	c := await(t, opened, "agent")
	if c.Direction != "outbound" || c.Caller.ResourceID != "+12125550123" || c.Called != "+12125550123" || c.Trunk != "carrier" || c.Context["order"] != "7" {
		t.Errorf("the agent was told %+v", c)
	}
	s := g.agent.last()
	s.await(t, agent.SpeechStarted)
	st, ok := g.Call(id)
	if !ok || st.State != StateAnswered || st.Direction != "outbound" || st.Called != "+12125550123" || st.Caller != "+14155550001" || st.Answered == nil || st.Codec != "PCMU" {
		t.Errorf("status %+v, %v", st, ok)
	}
	past, live, stop, err := g.Events(id)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if got := connection(past); !slices.Equal(got, []string{"dialling", "ringing", "answered"}) {
		t.Errorf("events so far %v", got)
	}
	s.await(t, agent.SpeechEnded)
	if err := g.HangUp(id, "enough\r\nX"); err != nil {
		t.Fatal(err)
	}
	r := g.seen.awaitEnd(t)
	if r.Cause != CauseOperator || r.Error != "enough X" || r.Direction != "outbound" || r.Trunk != "carrier" || r.From != "+14155550001" ||
		r.ResourceID != "+12125550123" || r.Code != 0 || r.SIPCallID == "" || r.Stats.Speech != time.Second {
		t.Errorf("record %+v", r)
	}
	for range live { // the stream ends with the call
	}
	if _, ok := g.Call(id); !ok {
		t.Error("the call is forgotten at once")
	}
	g.awaitNone() // the record comes a moment before the call is gone
	if err := g.HangUp(id, ""); !errors.Is(err, ErrNoCall) {
		t.Errorf("hanging up twice: %v", err)
	}
}

func TestTheINVITEOfAnOutboundCall(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, nil)
	seen := make(chan *phone.Message, 1)
	p.Answer(func(i *phone.Incoming) { seen <- i.Invite; i.Refuse(486, "Busy Here") })
	order(t, g, Outgoing{To: "+12125550123", Name: `The "Shop"`, Headers: map[string]string{"x-job": "a", "User-to-User": "00;encoding=hex"}})
	m := await(t, seen, "INVITE")
	if !strings.HasPrefix(m.URI, "sip:+12125550123@") || !strings.Contains(m.Get("From"), "+14155550000@") || m.Get("X-Job") != "a" || m.Get("User-to-User") == "" {
		t.Errorf("INVITE %s\n%s", m.URI, m.Bytes())
	}
	if strings.Count(string(m.Body), "telephone-event/8000") != 1 { // BR-118
		t.Errorf("offer\n%s", m.Body)
	}
}

func TestWhyAnOutboundCallFailed(t *testing.T) {
	for _, c := range []struct {
		name   string
		code   int
		phrase string
		extra  []phone.Header
		cause  string
		want   Record
	}{
		{"busy", 486, "Busy Here", nil, CauseBusy, Record{Code: 486, Reason: "Busy Here"}},
		{"nobody", 480, "Temporarily Unavailable", []phone.Header{{Name: "Reason", Value: `Q.850;cause=19;text="no answer from user"`}}, CauseNoAnswer, Record{Code: 480, Q850: 19, Reason: "no answer from user"}},
		{"unknown", 404, "Not Found", []phone.Header{{Name: "Reason", Value: `Q.850;cause=1`}}, CauseNoSuchNumber, Record{Code: 404, Q850: 1, Reason: "Not Found"}},
		{"declined", 603, "Decline", nil, CauseDeclined, Record{Code: 603, Reason: "Decline"}},
		{"redirected", 302, "Moved Temporarily", []phone.Header{{Name: "Contact", Value: "<sip:+19005550000@127.0.0.1>"}}, CauseUnreachable, Record{Code: 302, Reason: "Moved Temporarily"}},
		{"broken", 500, "Server Internal Error", []phone.Header{{Name: "Warning", Value: `399 x "out of lines"`}}, CauseUnreachable, Record{Code: 500, Reason: "out of lines"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := ringUp(t, phone.Config{Number: "+12125550123"})
			g := withTrunk(t, p, nil)
			p.Answer(func(i *phone.Incoming) { i.Refuse(c.code, c.phrase, c.extra...) })
			id := order(t, g, Outgoing{To: "+12125550123"})
			r := await(t, g.seen.failed, "failure")
			if r.Cause != c.cause || r.Code != c.want.Code || r.Q850 != c.want.Q850 || r.Reason != c.want.Reason || !r.Answered.IsZero() || r.CallID != id {
				t.Errorf("record %+v", r)
			}
			e := g.seen.awaitEvent(t, agent.EventConnection, agent.ConnectionFailed)
			if e.Code != c.want.Code || e.Q850 != c.want.Q850 || e.Text != c.want.Reason {
				t.Errorf("event %+v", e)
			}
			await(t, g.agent.last().ended, "end of the agent")
			settled(t, g)
			if st, ok := g.Call(id); !ok || st.State != StateEnded || st.Code != c.want.Code || st.Cause != c.cause {
				t.Errorf("status %+v", st)
			}
		})
	}
}

func TestNobodyAnswersInTime(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, nil)
	canceled := make(chan struct{})
	p.Answer(func(i *phone.Incoming) { i.Ring(); <-i.Canceled(); close(canceled) })
	order(t, g, Outgoing{To: "+12125550123", RingTimeout: 300 * time.Millisecond})
	if r := await(t, g.seen.failed, "failure"); r.Cause != CauseNoAnswer {
		t.Errorf("record %+v", r)
	}
	await(t, canceled, "CANCEL")
}

func TestACallThatRingsIsTakenBack(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, nil)
	canceled := make(chan struct{})
	p.Answer(func(i *phone.Incoming) { i.Ring(); <-i.Canceled(); close(canceled) })
	id := order(t, g, Outgoing{To: "+12125550123"})
	g.seen.awaitEvent(t, agent.EventConnection, agent.ConnectionRinging)
	if st, _ := g.Call(id); st.State != StateRinging {
		t.Errorf("state %q", st.State)
	}
	if err := g.Hold(within(t), id); !errors.Is(err, ErrState) {
		t.Errorf("hold of a call that rings: %v", err)
	}
	if err := g.HangUp(id, "not wanted"); err != nil {
		t.Fatal(err)
	}
	await(t, canceled, "CANCEL")
	if r := await(t, g.seen.failed, "failure"); r.Cause != CauseOperator || r.Error != "not wanted" {
		t.Errorf("record %+v", r)
	}
}

func TestEarlyMediaIsNotTheCallers(t *testing.T) { // BR-105
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, nil)
	calls := make(chan *phone.Call, 1)
	p.Answer(func(i *phone.Incoming) {
		c := i.Progress(183, "Session Progress", true)
		if err := c.Say(sine(425, 8000, time.Second)).Wait(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := i.Accept(); err != nil {
			t.Error(err)
		}
		calls <- c
	})
	id := order(t, g, Outgoing{To: "+12125550123"})
	g.seen.awaitEvent(t, agent.EventConnection, agent.ConnectionEarlyMedia)
	c := await(t, calls, "call")
	await(t, g.seen.started, "start")
	s := g.agent.last()
	frames, loud, _ := s.heard()
	if loud > 0 {
		t.Errorf("the agent heard %d frames, %d of them of the ringing tone", frames, loud)
	}
	st, _ := g.Call(id)
	if st.Stats.Early < 40 {
		t.Errorf("%d packets before the answer, want about 50", st.Stats.Early)
	}
	c.Say(sine(1000, 8000, 500*time.Millisecond))
	on := s.await(t, agent.VoiceConfirmed)
	if on.Kind != agent.VoiceConfirmed {
		t.Error("not heard after the answer")
	}
	if _, loud, _ = s.heard(); loud == 0 {
		t.Error("nothing heard after the answer")
	}
	if early := c.Log().Quality(phone.Heard).Packets; early < 30 {
		t.Errorf("the callee got %d packets, want silence during its early media", early)
	}
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	if r := g.seen.awaitEnd(t); r.Cause != CauseCalleeHungUp || r.Stats.Early < 40 {
		t.Errorf("record %+v", r)
	}
}

func TestOutboundCallsCountAndStop(t *testing.T) { // BR-179
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, func(tr *Trunk) { tr.MaxCalls = 2 })
	calls := p.AnswerAll()
	id := order(t, g, Outgoing{To: "+12125550123"})
	order(t, g, Outgoing{To: "+12125550124"})
	first := await(t, calls, "call")
	await(t, calls, "call")
	if _, err := g.Dial(within(t), Outgoing{To: "+12125550125"}); !errors.Is(err, ErrLimit) {
		t.Errorf("a third call: %v", err)
	}
	caller := ringUp(t, phone.Config{Number: "+14155550100"})
	_, err := caller.Dial(within(t), g.uri, phone.Header{Name: "X-Test-Trunk", Value: "carrier"})
	var status *phone.StatusError
	if !errors.As(err, &status) || status.Code != 503 || status.Response.Get("Retry-After") == "" {
		t.Errorf("a call in through the full trunk: %v", err)
	}
	if got := g.seen.awaitRefusal(t); got != "503 trunk_max_calls" {
		t.Errorf("refused with %q", got)
	}
	if all := g.Calls(); len(all) != 2 || all[0].ID != id {
		t.Errorf("calls %+v", all)
	}
	g.Drain(true)
	if _, err := g.Dial(within(t), Outgoing{To: "+12125550125"}); !errors.Is(err, ErrDraining) {
		t.Errorf("a call while draining: %v", err)
	}
	if err := first.Hold(within(t)); err != nil { // in a call all works on
		t.Error(err)
	}
	g.Drain(false)
	if err := first.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	g.seen.awaitEnd(t)
	for g.Active() != 1 {
		time.Sleep(time.Millisecond)
	}
	order(t, g, Outgoing{To: "+12125550125"})
	again := await(t, calls, "call")
	for range 3 {
		await(t, g.seen.started, "start")
	}
	over, stop := context.WithCancel(context.Background())
	stop()
	g.Shutdown(over)
	if end, err := again.WaitEnd(within(t)); err != nil || !end.ByPeer || !strings.Contains(end.Reason, "shutdown") {
		t.Errorf("end %+v, %v: want a BYE", end, err)
	}
}

func TestCallsPerSecond(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, func(tr *Trunk) { tr.CallsPerSecond = 1 })
	p.AnswerAll()
	order(t, g, Outgoing{To: "+12125550123"})
	if _, err := g.Dial(within(t), Outgoing{To: "+12125550124"}); !errors.Is(err, ErrLimit) {
		t.Errorf("a second call at once: %v", err)
	}
	if n := g.Active(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func TestDialNeedsWhatItNeeds(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, nil)
	for _, c := range []struct {
		name string
		o    Outgoing
		rule string
	}{
		{"no such trunk", Outgoing{Trunk: "other", To: "+12125550123"}, "no_trunk"},
		{"not our number", Outgoing{To: "+12125550123", From: "+12025550199"}, "caller_id"},
		{"a name of two lines", Outgoing{To: "+12125550123", Name: "a\r\nRoute: <sip:evil>"}, "name"},
		{"a header of ours", Outgoing{To: "+12125550123", Headers: map[string]string{"P-Asserted-Identity": "<sip:a@b>"}}, "header"},
		{"a header of two lines", Outgoing{To: "+12125550123", Headers: map[string]string{"X-A": "a\r\nRoute: <sip:evil>"}}, "header"},
		{"an agent there is not", Outgoing{To: "+12125550123", Agent: "nobody"}, ""},
		{"a long time", Outgoing{To: "+12125550123", RingTimeout: time.Hour}, ""},
		{"an id that is none", Outgoing{To: "+12125550123", ResourceID: "a b"}, ""},
		{"no route", Outgoing{To: "sip:nobody@127.0.0.1"}, "target"},
	} {
		_, err := g.Dial(within(t), c.o)
		var guard *GuardError
		if errors.As(err, &guard); err == nil || c.rule != "" && (guard == nil || guard.Rule != c.rule) {
			t.Errorf("%s: %v, want rule %q", c.name, err, c.rule)
		}
	}
	if g.Active() != 0 {
		t.Errorf("%d calls", g.Active())
	}
}

func TestHoldAndResumeByUs(t *testing.T) { // BR-108
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, nil)
	calls := p.AnswerAll()
	g.agent.does(func(ctx context.Context, s *fakeSession) error {
		for ctx.Err() == nil {
			if err := s.call.Speaker.Say(ctx, sine(440, 8000, 100*time.Millisecond)); err != nil {
				break
			}
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	id := order(t, g, Outgoing{To: "+12125550123"})
	c := await(t, calls, "call")
	s := func() *fakeSession { await(t, g.seen.started, "start"); return g.agent.last() }()
	s.await(t, agent.SpeechStarted)
	if err := s.call.Control.Hold(within(t)); err != nil {
		t.Fatal(err)
	}
	s.await(t, agent.Held)
	if got := c.HeldBy(); got != "sendonly" {
		t.Errorf("our hold is offered as %q", got)
	}
	if st, _ := g.Call(id); st.State != StateHeld {
		t.Errorf("state %q", st.State)
	}
	if err := s.call.Control.SendDigits(within(t), "1"); !errors.Is(err, ErrState) {
		t.Errorf("a key on hold: %v", err)
	}
	before, _ := g.Call(id)
	from := p.Now()
	time.Sleep(600 * time.Millisecond) // what is measured is real time
	to := p.Now()
	after, _ := g.Call(id)
	skipped := int(after.Stats.SkippedSlots - before.Stats.SkippedSlots) // by a machine under load
	if err := s.call.Control.Resume(within(t)); err != nil {
		t.Fatal(err)
	}
	s.await(t, agent.Resumed)
	n, loud := 0, 0
	for _, pk := range c.Log().Packets() {
		if pk.Direction == phone.Heard && pk.At > from+50*time.Millisecond && pk.At < to {
			n++
			if pk.Level > -50 {
				loud++
			}
		}
	}
	if n+skipped < 22 || n < 5 || loud > 0 {
		t.Errorf("%d packets in 550 ms on hold, %d of them with sound, %d skipped; want 27 of silence", n, loud, skipped)
	}
	if c.HeldBy() != "sendrecv" {
		t.Errorf("resumed as %q", c.HeldBy())
	}
	for limit := within(t); ; time.Sleep(10 * time.Millisecond) { // speech goes on
		all := c.Log().Packets()
		if last := all[len(all)-1]; last.Direction == phone.Heard && last.At > to && last.Level > -30 {
			break
		}
		if limit.Err() != nil {
			t.Fatal("nothing is said after the hold")
		}
	}
}

func TestDigitsByRFC4733(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, nil)
	calls := p.AnswerAll()
	id := order(t, g, Outgoing{To: "+12125550123"})
	c := await(t, calls, "call")
	await(t, g.seen.started, "start")
	if err := g.SendDigits(within(t), id, "12,#d"); err != nil {
		t.Fatal(err)
	}
	for c.Log().Digits(phone.Heard) != "12#D" {
		if within(t).Err() != nil {
			t.Fatal("late")
		}
		time.Sleep(10 * time.Millisecond)
		if len(c.Log().Digits(phone.Heard)) > 4 {
			t.Fatalf("digits %q", c.Log().Digits(phone.Heard))
		}
	}
	for _, bad := range []string{"", "x", "1 2", strings.Repeat("1", 65), "1\r\n"} {
		if err := g.SendDigits(within(t), id, bad); err == nil {
			t.Errorf("digits %q were taken", bad)
		}
	}
}

func TestDigitsByINFO(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, nil)
	calls := make(chan *phone.Call, 1)
	p.Answer(func(i *phone.Incoming) {
		i.NoEvents()
		if c, err := i.Accept(); err == nil {
			calls <- c
		}
	})
	id := order(t, g, Outgoing{To: "+12125550123"})
	c := await(t, calls, "call")
	await(t, g.seen.started, "start")
	if err := g.SendDigits(within(t), id, "7"); err != nil {
		t.Fatal(err)
	}
	if got := c.Informed(); len(got) != 1 || !strings.Contains(got[0], "Signal=7") {
		t.Errorf("INFO %q", got)
	}
}
