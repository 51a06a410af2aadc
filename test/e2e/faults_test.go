package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent"
	"parley/call"
	"parley/sip"
	"parley/test/audio"
	"parley/test/faults"
	"parley/test/phone"
)

// patienceOfCallers is how long a caller may hear nothing who waits for a reply.
const patienceOfCallers = 2 * time.Second

// trouble is what happens to a service's connections in mid-call.
type trouble struct {
	name string
	faults.Fault
	// reset cuts the connections off when it begins.
	reset bool
	// amid the reply to the caller's second turn it begins; else amid that turn.
	amid bool
	// lasts is how long; 0: until the end of the call.
	lasts time.Duration
}

// faulty is a service that has trouble, and the agent that needs it.
type faulty struct {
	name string
	// build makes the agent, whose service is to be reached at an address. close lets go
	// of what outlives calls, such as idle connections; nil: nothing does.
	build func(t *testing.T, address string) (o agent.Opener, close func())
	// service starts the service and says where it is.
	service  func(t *testing.T) string
	troubles []trouble
	// ends are the names of troubles that end the call, with an apology.
	ends []string
	// greets: the agent speaks first.
	greets bool
	// heard says which words are heard of the reply to the last turn.
	heard func(pcm []int16) ([]string, error)
	last  string
}

// Amid what the caller says the connection fails; amid a reply it is cut.
func troubles(slow int) []trouble {
	return []trouble{
		{name: "reset", reset: true, amid: true},
		{name: "stalled", Fault: faults.Fault{Stall: true}, lasts: 6 * time.Second},
		{name: "garbled", Fault: faults.Fault{Garble: true}, lasts: 3 * time.Second},
		{name: "slow", Fault: faults.Fault{Rate: slow}, lasts: 8 * time.Second},
		{name: "refused", Fault: faults.Fault{Refuse: true}, reset: true, lasts: 3 * time.Second},
	}
}

// TestFaults: sockets of agents, models, recognisers and voices are cut, stalled, garbled,
// slowed down and refused in mid-call. The caller hears something within two seconds, and
// no longer silence than that until there is a reply or an apology; the next turn works, or
// the call ends with words; and nothing is left behind (BR-125, BR-129, BR-132, BR-135).
func TestFaults(t *testing.T) {
	before, descriptors := goleak.IgnoreCurrent(), openFiles()
	t.Cleanup(func() {
		goleak.VerifyNone(t, before)
		eventually(t, 5*time.Second, "all descriptors are closed", func() bool { return openFiles() <= descriptors })
	})
	g, probe := startGateway(t, func(c *call.Config, _ *sip.Config) { c.MaxCalls = 100 }), newProbe(t)
	type scenario struct {
		faulty
		trouble
	}
	var all []scenario
	for _, f := range services {
		for _, x := range f.troubles {
			all = append(all, scenario{f, x})
		}
	}
	atOnce := 9
	if raced {
		atOnce = 3
	}
	together(t, atOnce, len(all), func(i int) string { return all[i].faulty.name + "/" + all[i].trouble.name }, func(t *testing.T, i int) {
		c := &faultyCall{t: t, g: g, probe: probe, faulty: all[i].faulty, trouble: all[i].trouble}
		c.run(i)
	})
}

func openFiles() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

// faultyCall is a call with trouble.
type faultyCall struct {
	faulty
	trouble
	t     *testing.T
	g     *gateway
	probe *probe
	proxy *faults.Proxy
	noted *noted
	*cutter
}

func (c *faultyCall) run(number int) {
	t := c.t
	c.proxy = faults.Start(t, c.service(t))
	o, closed := c.build(t, c.proxy.Addr())
	name := fmt.Sprint("faults", number)
	c.noted = &noted{Opener: o}
	c.g.serve(name, c.noted)
	c.cutter = c.g.cutter(t, name, 400+number, nil)
	if c.greets {
		c.speaks(0)
		c.quiet()
	}
	c.say(human(t, "hello"))
	c.settles(c.phone.Now())

	// The turn in which it happens.
	u := c.call.Say(human(t, "transfer"))
	if !c.amid {
		c.at(c.phone.Now(), 200*time.Millisecond)
		c.begin()
	}
	wait(t, "it is said", patience, u.Wait)
	_, said, _ := u.Loud()
	if c.amid {
		from := c.speaks(said)
		c.at(from, 600*time.Millisecond)
		c.begin()
	}
	begun := c.phone.Now()
	over := c.settles(begun)
	c.judgeSilence(said, over)
	if slices.Contains(c.ends, c.trouble.name) {
		c.judgeEnd()
		return
	}
	if c.lasts > 0 { // what was to come may come after it
		c.at(begun, c.lasts+3*time.Second)
		c.settles(begun)
	}

	// The next turn works.
	c.say(human(t, "hello"))
	from := c.speaksAnew(c.phone.Now())
	c.settles(from)
	c.quiet()
	c.hangUp(closed)
	sound := capture(t, c.call, from, time.Hour)
	if heard, err := c.heard(sound.pcm); (err != nil || strings.Join(heard, " ") != c.last) && !sound.torn {
		t.Errorf("the reply to the next turn was heard as %q, %v", heard, err)
	}
}

// begin begins the trouble.
func (c *faultyCall) begin() {
	c.proxy.Set(c.Fault)
	if c.reset {
		c.proxy.Reset()
	}
	if c.lasts > 0 {
		over := time.AfterFunc(c.lasts, func() { c.proxy.Set(faults.Fault{}) })
		c.t.Cleanup(func() { over.Stop() })
	}
}

// settles waits until it is the caller's turn again, or the call is over, after a time of
// the phone's clock, and says when that was.
func (c *faultyCall) settles(after time.Duration) time.Duration {
	c.t.Helper()
	var at time.Time
	eventually(c.t, 25*time.Second, "it is the caller's turn", func() bool {
		c.g.mu.Lock()
		defer c.g.mu.Unlock()
		states := of(c.g.events[c.noted.id], agent.EventState)
		if len(states) == 0 {
			return false
		}
		last := states[len(states)-1]
		at = last.At
		spoken := c.lastLoud()
		if last.Reason != "over" && (last.Reason != "listening" || spoken < after || c.phone.Now()-spoken < 200*time.Millisecond) {
			return false
		}
		return true
	})
	return max(after, c.phone.Now()-time.Since(at))
}

// noted is an agent that notes the gateway's name of its call.
type noted struct {
	agent.Opener
	id string
}

// Open implements agent.Opener.
func (n *noted) Open(ctx context.Context, c agent.Call) (agent.Session, error) {
	n.id = c.ID
	return n.Opener.Open(ctx, c)
}

// lastLoud is when the last sound was heard.
func (c *faultyCall) lastLoud() (last time.Duration) {
	for _, m := range c.call.Log().Marks(phone.Heard) {
		if m.Level >= audio.Loud {
			last = m.At
		}
	}
	return last
}

// judgeSilence fails when the caller, who said the last word at said, heard nothing for
// too long until it was their turn again. Silence that the machine made does not count.
func (c *faultyCall) judgeSilence(said, over time.Duration) {
	c.t.Helper()
	last, longest, at := said, time.Duration(0), said
	for _, m := range c.call.Log().Marks(phone.Heard) {
		if m.At <= said || m.Level < audio.Loud || m.At > over {
			continue
		}
		gap := m.At - last
		if gap > patienceOfCallers {
			gap -= c.probe.taken(c.phone.Wall(last), c.phone.Wall(m.At))
		}
		if gap > longest {
			longest, at = gap, last
		}
		last = m.At
	}
	if last == said {
		c.t.Errorf("the caller heard nothing at all in %v", over-said)
		return
	}
	fmt.Printf("%-14s %-8s: longest silence %v, of %v\n", c.faulty.name, c.trouble.name, ms(longest), ms(over-said))
	if longest > patienceOfCallers {
		c.t.Errorf("silence of %v, from %v after the caller's last word on", longest, at-said)
	}
}

// judgeEnd wants the call to have ended with words.
func (c *faultyCall) judgeEnd() {
	c.t.Helper()
	select {
	case <-c.call.Done():
	case <-time.After(patience):
		c.t.Fatal("the call goes on")
	}
	record, events := c.g.ended(c.t, c.call)
	if record.Cause != call.CauseFault || record.Error == "" {
		c.t.Errorf("ended by %q: %s", record.Cause, record.Error)
	}
	texts := of(events, agent.EventAgentText)
	if len(texts) == 0 || texts[len(texts)-1].Text != apology {
		c.t.Errorf("the last words are %+v, want %q", texts, apology)
	}
	eventually(c.t, time.Second+busy, "its connections are gone", func() bool { return c.proxy.Open() == 0 })
}

// hangUp ends the call, after which nothing is left of it.
func (c *faultyCall) hangUp(closed func()) {
	c.t.Helper()
	hangUp(c.t, c.call)
	_, events := c.g.ended(c.t, c.call)
	if closed != nil { // what outlives a call
		closed()
	}
	eventually(c.t, time.Second+busy, "its connections are gone", func() bool { return c.proxy.Open() == 0 })
	sorry := slices.ContainsFunc(events, func(e agent.Event) bool { return e.Type == agent.EventAgentText && e.Text == fallback })
	if sorry && len(of(events, agent.EventError)) == 0 {
		c.t.Error("the caller was told that something failed, and the operator was not")
	}
}

// apology is what callers hear before a call ends.
const apology = "Sorry we end here"
