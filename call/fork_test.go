package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/sip"
	"parley/test/phone"
)

// withTrunks starts a gateway with a trunk to each phone, "a", "b" and so on.
func withTrunks(t *testing.T, change func(*Trunk), phones ...*phone.Phone) *gateway {
	t.Helper()
	var all []Trunk
	for i, p := range phones {
		tr := trunkTo(p)
		tr.Name = string(rune('a' + i))
		tr.SIP.Name = tr.Name
		if change != nil {
			change(&tr)
		}
		all = append(all, tr)
	}
	return startGatewayOf(t, nil, func(p *Parts) { p.Trunks = all })
}

// several are n phones, and a target behind a trunk for each.
func several(t *testing.T, n int, configs ...phone.Config) (phones []*phone.Phone, targets []Target) {
	t.Helper()
	for i := range n {
		var c phone.Config
		if i < len(configs) {
			c = configs[i]
		}
		c.Number = fmt.Sprintf("+1212555012%d", i)
		phones = append(phones, ringUp(t, c))
		targets = append(targets, Target{To: c.Number, Trunk: string(rune('a' + i))})
	}
	return phones, targets
}

// ringing answers by ringing, and tells of the CANCEL.
func ringing(p *phone.Phone) (rings, canceled chan struct{}) {
	rings, canceled = make(chan struct{}), make(chan struct{})
	p.Answer(func(i *phone.Incoming) { i.Ring(); close(rings); <-i.Canceled(); close(canceled) })
	return rings, canceled
}

// noLegs sees that every place was given back.
func noLegs(t *testing.T, g *gateway) {
	t.Helper()
	settled(t, g)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, tr := range g.trunks {
		if g.legs != 0 || tr.active != 0 {
			t.Errorf("trunk %s has %d calls, and there are %d legs", tr.name(), tr.active, g.legs)
		}
	}
}

func TestTheFirstOfSeveralHasTheCall(t *testing.T) {
	for _, encryption := range []string{"", phone.SDES} {
		t.Run("sound "+encryption, func(t *testing.T) {
			p, targets := several(t, 3, phone.Config{Encryption: encryption}, phone.Config{Encryption: encryption}, phone.Config{Encryption: encryption})
			g := withTrunks(t, func(tr *Trunk) {
				if encryption != "" {
					tr.SRTP = srtpRequired
				}
				tr.MaxCalls = 1 // a place for each
				if tr.Name == "c" {
					tr.Codecs = []string{"PCMA"} // not what the call was made ready for
				}
			}, p...)
			_, canceled := ringing(p[0])
			p[1].Answer(func(i *phone.Incoming) { i.Refuse(486, "Busy Here") })
			calls := make(chan *phone.Call, 1)
			p[2].Answer(func(i *phone.Incoming) {
				i.Ring()
				for !missed(g, 1) && t.Context().Err() == nil { // the second has told that it is busy
					time.Sleep(time.Millisecond)
				}
				if c, err := i.Accept(); err != nil {
					t.Error(err)
				} else {
					calls <- c
				}
			})
			g.agent.does(func(ctx context.Context, s *fakeSession) error {
				if err := s.call.Speaker.Say(ctx, sine(440, 8000, 300*time.Millisecond)); err != nil {
					return err
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			id := order(t, g, Outgoing{Targets: targets, Parallel: true, ResourceID: "ann"})
			c := await(t, calls, "call")
			await(t, canceled, "CANCEL")
			if encryption != "" {
				if err := c.WaitEncrypted(within(t)); err != nil {
					t.Error(err)
				}
			}
			started := await(t, g.seen.started, "start")
			if started.Trunk != "c" || started.Codec != "PCMA" {
				t.Errorf("started %+v", started)
			}
			s := g.agent.last()
			c.Say(sine(1000, 8000, 500*time.Millisecond))
			s.await(t, agent.VoiceConfirmed)
			s.await(t, agent.SpeechEnded)
			if err := s.call.Control.SendDigits(within(t), "5"); err != nil || c.Log().Digits(phone.Heard) != "5" {
				t.Errorf("keys %q, %v", c.Log().Digits(phone.Heard), err)
			}
			if q := c.Log().Quality(phone.Heard); q.Packets < 20 {
				t.Errorf("the callee heard %d packets", q.Packets)
			}
			st, _ := g.Call(id)
			if st.Called != targets[2].To || st.Trunk != "c" || st.ResourceID != "ann" || st.State != StateAnswered {
				t.Errorf("status %+v", st)
			}
			if loads := g.TrunkLoads(); loads[0].Active != 0 || loads[1].Active != 0 || loads[2].Active != 1 || g.Active() != 1 {
				t.Errorf("calls of the trunks: %+v", loads)
			}
			if n := g.wheel.Stats().Sessions; n != 1 {
				t.Errorf("%d ports are turned, want the one", n)
			}
			if err := c.Hangup(within(t)); err != nil {
				t.Fatal(err)
			}
			r := g.seen.awaitEnd(t)
			if r.Trunk != "c" || r.Called != targets[2].To || r.Cause != CauseCalleeHungUp || (r.SRTP != "") != (encryption != "") {
				t.Errorf("record %+v", r)
			}
			want := map[string]Attempt{
				targets[0].To: {To: targets[0].To, Trunk: "a", Cause: CauseElsewhere},
				targets[1].To: {To: targets[1].To, Trunk: "b", Cause: CauseBusy, Code: 486, Reason: "Busy Here"},
			}
			if len(r.Attempts) != 2 || r.Attempts[0] != want[r.Attempts[0].To] || r.Attempts[1] != want[r.Attempts[1].To] {
				t.Errorf("attempts %+v", r.Attempts)
			}
			noLegs(t, g)
		})
	}
}

// missed says whether n of a call's targets have failed.
func missed(g *gateway, n int) bool {
	all := g.Calls()
	return len(all) == 1 && len(all[0].Attempts) >= n
}

func TestOneAfterTheOther(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	g := withTrunk(t, p, func(tr *Trunk) { tr.MaxCalls = 1 }) // one at a time needs one place
	asked := make(chan string, 3)
	calls := make(chan *phone.Call, 1)
	p.Answer(func(i *phone.Incoming) {
		user, _, _ := strings.Cut(strings.TrimPrefix(i.Invite.URI, "sip:"), "@")
		asked <- user
		switch user {
		case "+12125550121":
			i.Refuse(404, "Not Found", phone.Header{Name: "Reason", Value: "Q.850;cause=1"})
		case "+12125550122":
			i.Ring()
		default:
			if c, err := i.Accept(); err == nil {
				calls <- c
			}
		}
	})
	id := order(t, g, Outgoing{RingTimeout: 300 * time.Millisecond, Targets: []Target{{To: "+12125550121"}, {To: "+12125550122"}, {To: "+12125550123"}, {To: "+12125550124"}}})
	c := await(t, calls, "call")
	await(t, g.seen.started, "start")
	st, _ := g.Call(id)
	want := []Attempt{
		{To: "+12125550121", Trunk: "carrier", Cause: CauseNoSuchNumber, Code: 404, Q850: 1, Reason: "Not Found"},
		{To: "+12125550122", Trunk: "carrier", Cause: CauseNoAnswer, Reason: "sip: not answered in time"},
	}
	if len(st.Attempts) != 2 || st.Attempts[0] != want[0] || st.Attempts[1] != want[1] || st.Called != "+12125550123" {
		t.Errorf("status %+v", st)
	}
	if len(asked) != 3 {
		t.Errorf("%d were called", len(asked))
	}
	c.Say(sine(1000, 8000, 500*time.Millisecond))
	g.agent.last().await(t, agent.VoiceConfirmed)
	if err := g.HangUp(id, ""); err != nil {
		t.Fatal(err)
	}
	g.seen.awaitEnd(t)
	noLegs(t, g)
}

func TestWhyNoneOfSeveralTookTheCall(t *testing.T) {
	for _, c := range []struct {
		name     string
		parallel bool
		codes    []int
		code     int
		cause    string
		told     int
	}{
		{"at the same time", true, []int{486, 404, 480}, 0, "", 3},
		{"one after the other", false, []int{503, 486, 404}, 486, CauseBusy, 3},
		{"one refuses for all", false, []int{486, 603, 200}, 603, CauseDeclined, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, targets := several(t, 3)
			g := withTrunks(t, nil, p...)
			for i, code := range c.codes {
				p[i].Answer(func(in *phone.Incoming) { in.Refuse(code, "Refused") })
			}
			id := order(t, g, Outgoing{Targets: targets, Parallel: c.parallel})
			r := await(t, g.seen.failed, "failure")
			if c.code != 0 && (r.Code != c.code || r.Cause != c.cause) || r.Code == 0 {
				t.Errorf("record %+v", r)
			}
			for range c.told {
				g.seen.awaitEvent(t, agent.EventConnection, agent.ConnectionTargetFailed)
			}
			st, ok := g.Call(id)
			if !ok || len(st.Attempts) != c.told || len(r.Attempts) != c.told {
				t.Fatalf("status %+v", st)
			}
			for _, a := range st.Attempts {
				if i := int(a.Trunk[0] - 'a'); a.Code != c.codes[i] || a.To != targets[i].To || a.Cause == "" {
					t.Errorf("attempt %+v, want code %d", a, c.codes[i])
				}
			}
			await(t, g.agent.last().ended, "end of the agent")
			noLegs(t, g)
		})
	}
}

func TestSeveralThatRingAreTakenBack(t *testing.T) {
	p, targets := several(t, 2)
	g := withTrunks(t, nil, p...)
	rings, first := ringing(p[0])
	too, second := ringing(p[1])
	id := order(t, g, Outgoing{Targets: targets, Parallel: true})
	await(t, rings, "ringing")
	await(t, too, "ringing")
	if err := g.HangUp(id, "enough"); err != nil {
		t.Fatal(err)
	}
	await(t, first, "CANCEL")
	await(t, second, "CANCEL")
	if r := await(t, g.seen.failed, "failure"); r.Cause != CauseOperator || len(r.Attempts) != 2 || r.Attempts[0].Cause != CauseOperator {
		t.Errorf("record %+v", r)
	}
	noLegs(t, g)
}

func TestSeveralNeedWhatOneNeeds(t *testing.T) {
	p, targets := several(t, 2)
	g := withTrunks(t, func(tr *Trunk) { tr.MaxCalls, tr.CallsPerSecond = 1, 100 }, p...)
	for name, o := range map[string]Outgoing{
		"abroad":           {Targets: []Target{targets[0], {To: "+442071838750", Trunk: "b"}}},
		"no trunk":         {Targets: []Target{targets[0], {To: targets[1].To}}},
		"both ways":        {To: targets[0].To, Targets: targets},
		"a trunk for all":  {Trunk: "a", Targets: targets},
		"too many":         {Targets: make([]Target, maxTargets+1)},
		"nobody in a list": {Targets: []Target{{Trunk: "a"}}},
	} {
		if _, err := g.Dial(within(t), o); err == nil {
			t.Errorf("%s: placed", name)
		}
	}
	// Two at the same time through a trunk that has one place.
	if _, err := g.Dial(within(t), Outgoing{Parallel: true, Targets: []Target{targets[0], {To: targets[1].To, Trunk: "a"}}}); !errors.Is(err, ErrLimit) {
		t.Errorf("more at the same time than the trunk takes: %v", err)
	}
	noLegs(t, g)
}

func TestAPortThatIsNotToBeHad(t *testing.T) {
	p, targets := several(t, 2)
	g := withTrunks(t, nil, p...)
	p[0].Answer(func(i *phone.Incoming) {
		g.mu.Lock()
		g.trunks["b"].cfg.MaxCalls, g.trunks["b"].active = 1, 1 // full by now
		g.mu.Unlock()
		i.Refuse(486, "Busy Here")
	})
	order(t, g, Outgoing{Targets: targets})
	r := await(t, g.seen.failed, "failure")
	if len(r.Attempts) != 2 || r.Attempts[1].Cause != CauseUnreachable || !strings.Contains(r.Attempts[1].Reason, "limit") || r.Code != 486 {
		t.Errorf("record %+v", r)
	}
	g.mu.Lock()
	g.trunks["b"].active = 0
	g.mu.Unlock()
	noLegs(t, g)
}

// The events' file of a call that nobody took says why, of each who was called.
func TestTheFileOfACallThatFailed(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	p.Answer(func(i *phone.Incoming) {
		i.Refuse(486, "Busy Here", phone.Header{Name: "Reason", Value: `Q.850;cause=17;text="User busy"`})
	})
	dir := filepath.Join(t.TempDir(), "events")
	g := startGatewayOf(t, func(c *Config, _ *sip.Config) { c.EventsDir = dir }, func(parts *Parts) { parts.Trunks = []Trunk{trunkTo(p)} })
	one := order(t, g, Outgoing{To: "+12125550123"})
	await(t, g.seen.failed, "failure")
	two := order(t, g, Outgoing{Targets: []Target{{To: "+12125550123"}, {To: "+12125550124"}}})
	await(t, g.seen.failed, "failure")
	settled(t, g)
	for id, attempts := range map[string]int{one: 0, two: 2} {
		var last struct {
			Type, Cause, Reason string
			Code, Q850          int
			Attempts            []Attempt
		}
		reasons := ""
		for limit := within(t); last.Type != "call_ended"; time.Sleep(5 * time.Millisecond) {
			if limit.Err() != nil {
				t.Fatalf("%s has no record: %s", id, reasons)
			}
			text, err := os.ReadFile(filepath.Join(dir, id+".jsonl"))
			if err != nil {
				continue
			}
			reasons = ""
			for line := range strings.Lines(string(text)) {
				last.Type = ""
				if err := json.Unmarshal([]byte(line), &last); err != nil {
					break // it is being written
				}
				reasons += last.Reason + " "
				if last.Reason == agent.ConnectionFailed && (last.Code != 486 || last.Q850 != 17) {
					t.Errorf("%s", line)
				}
			}
		}
		if last.Cause != CauseBusy || last.Code != 486 || last.Q850 != 17 || last.Reason != "User busy" || len(last.Attempts) != attempts {
			t.Errorf("record %+v", last)
		}
		if strings.Count(reasons, agent.ConnectionTargetFailed) != attempts || !strings.Contains(reasons, "dialling ") || !strings.Contains(reasons, " failed ended User busy") {
			t.Errorf("events %q", reasons)
		}
	}
}
