package call

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/media"
	"parley/media/g711"
	"parley/sip"
	"parley/test/phone"
)

// spoken is an agent that announces.
type spoken struct {
	*fakeAgent
	said chan string
}

type spokenSession struct {
	agent.Session
	said chan string
}

func (s spoken) Open(ctx context.Context, c agent.Call) (agent.Session, error) {
	inner, err := s.fakeAgent.Open(ctx, c)
	return spokenSession{inner, s.said}, err
}

func (s spokenSession) Announce(ctx context.Context, text string) error {
	if text == "wait" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	s.said <- text
	return nil
}

func TestSaySomething(t *testing.T) {
	voice := spoken{&fakeAgent{}, make(chan string, 1)}
	g := startGatewayOf(t, nil, func(p *Parts) {
		p.Route = func(r Request) (Routed, bool) {
			if r.Called == "mute" {
				return Routed{Opener: voice.fakeAgent}, true
			}
			return Routed{Opener: voice}, true
		}
	})
	p := ringUp(t, phone.Config{Number: "+14155550100"})
	c := dial(t, p, g.uri)
	id := await(t, g.seen.started, "start").CallID
	if err := g.Say(within(t), id, "We close soon."); err != nil || await(t, voice.said, "words") != "We close soon." {
		t.Error(err)
	}
	for _, text := range []string{"", strings.Repeat("a", maxSaid+1)} {
		if err := g.Say(within(t), id, text); err == nil {
			t.Errorf("%d bytes were taken", len(text))
		}
	}
	done := make(chan error, 1)
	go func() { done <- g.Say(context.Background(), id, "wait") }()
	if err := g.Record(id, true); !errors.Is(err, ErrNotSupported) {
		t.Errorf("recording where nothing is recorded: %v", err)
	}
	if err := c.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := await(t, done, "end of Say"); !errors.Is(err, agent.ErrClosed) && !errors.Is(err, ErrNoCall) {
		t.Errorf("words into a call that ended: %v", err)
	}
	mute := dial(t, p, strings.Replace(g.uri, "agent", "mute", 1))
	if err := g.Say(within(t), await(t, g.seen.started, "start").CallID, "Hello"); !errors.Is(err, ErrNotSupported) {
		t.Errorf("an agent that cannot announce: %v", err)
	}
	if err := mute.Hangup(within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestThereIsNoSuchCall(t *testing.T) {
	g := startGateway(t, nil)
	ctx := within(t)
	_, _, _, err := g.Events("x")
	for name, err := range map[string]error{
		"hang up": g.HangUp("x", ""), "transfer": g.Transfer(ctx, "x", agent.Transfer{}), "digits": g.SendDigits(ctx, "x", "1"),
		"hold": g.Hold(ctx, "x"), "resume": g.Resume(ctx, "x"), "say": g.Say(ctx, "x", "a"), "record": g.Record("x", true), "events": err,
	} {
		if !errors.Is(err, ErrNoCall) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, ok := g.Call("x"); ok || len(g.Calls()) != 0 {
		t.Error("there is one")
	}
	if _, err := g.Dial(ctx, Outgoing{To: "+12125550123"}); err == nil {
		t.Error("a call without a trunk")
	}
}

func TestASlowReaderLosesItsPlace(t *testing.T) {
	h := &history{}
	h.add(agent.Event{Text: "first"})
	past, live, stop, err := h.follow()
	if err != nil || len(past) != 1 {
		t.Fatal(past, err)
	}
	defer stop()
	_, quick, leave, err := h.follow()
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxBehind + 10 {
		h.add(agent.Event{Position: time.Duration(i)})
		<-quick
	}
	var got []agent.Event
	for e := range live {
		got = append(got, e)
	}
	if len(got) != maxBehind+1 || got[maxBehind].Type != agent.EventLagged || got[0].Position != 0 {
		t.Errorf("%d events, the last %+v", len(got), got[len(got)-1])
	}
	leave()
	leave()
	if _, open := <-quick; open {
		t.Error("still followed")
	}
	for range maxPast {
		h.add(agent.Event{Text: "later"})
	}
	h.add(agent.Event{Text: "last"})
	past, live, stop, err = h.follow()
	if err != nil || len(past) != maxPast || past[maxPast-1].Text != "last" || past[0].Text != "later" {
		t.Errorf("the past is %d events", len(past))
	}
	h.close()
	if _, open := <-live; open {
		t.Error("the stream outlives the call")
	}
	stop()
	if _, live, _, err = h.follow(); err != nil {
		t.Fatal(err)
	}
	if _, open := <-live; open {
		t.Error("a stream of a call that is over")
	}
	crowd := &history{}
	for range maxReaders {
		if _, _, _, err := crowd.follow(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, _, err := crowd.follow(); !errors.Is(err, ErrLimit) {
		t.Errorf("one reader too many: %v", err)
	}
}

// minter makes tokens that say what was asked for.
type minter struct{ fails error }

func (m minter) Mint(sub, aud string, extra map[string]any, ttl time.Duration) (string, error) {
	return "token of " + sub + " " + aud, m.fails
}

func TestWhatATrustedTrunkSays(t *testing.T) {
	told := make(chan agent.Call, 1)
	g := startGatewayOf(t, nil, func(p *Parts) {
		p.Tokens = minter{}
		p.Trunks = []Trunk{
			{Name: "pbx", TrustIdentity: true, Region: "DE", Codecs: []string{"PCMA"}, Advertise: netip.MustParseAddr("127.0.0.1")},
			{Name: "stranger"},
		}
	})
	g.agent.opens(func(_ context.Context, c agent.Call) error { told <- c; return nil })
	p := ringUp(t, phone.Config{Number: "030123456", Codecs: []string{"PCMU", "PCMA"}})
	headers := []phone.Header{
		{Name: "P-Asserted-Identity", Value: "<sip:+14155550111@pbx.example>"}, {Name: "Diversion", Value: "<sip:+493055550100@pbx.example>;reason=user-busy"},
		{Name: "x-account", Value: "7"}, {Name: "X-Account", Value: "8"}, {Name: "X-Long", Value: strings.Repeat("a", 1000)},
	}
	for _, c := range []struct {
		trunk, caller, original, account, codec, token string
	}{
		{"pbx", "+14155550111", "+493055550100", "7, 8", "PCMA", "token of +14155550111 "},
		{"stranger", "", "", "", "PCMU", ""},
	} {
		call, err := p.Dial(within(t), g.uri, append(slices.Clone(headers), phone.Header{Name: "X-Test-Trunk", Value: c.trunk})...)
		if err != nil {
			t.Fatal(err)
		}
		got := await(t, told, "agent")
		if got.Caller.ResourceID != c.caller || got.Original != c.original || got.Headers["X-Account"] != c.account || got.Trunk != c.trunk || got.Agent != "fake" || got.Token != c.token {
			t.Errorf("%s: the agent is told %+v", c.trunk, got)
		}
		if len(got.Headers["X-Long"]) > maxHeaderValue {
			t.Errorf("a header of %d bytes", len(got.Headers["X-Long"]))
		}
		if err := call.Hangup(within(t)); err != nil {
			t.Fatal(err)
		}
		if r := g.seen.awaitEnd(t); r.Trunk != c.trunk || r.Route != "all" || r.Agent != "fake" || r.Codec != c.codec {
			t.Errorf("%s: record %+v", c.trunk, r)
		}
	}
}

func TestATokenThatCannotBeMade(t *testing.T) {
	g := startGatewayOf(t, nil, func(p *Parts) { p.Tokens = minter{errors.New("no key")} })
	p := ringUp(t, phone.Config{Number: "+14155550100"})
	var status *phone.StatusError
	if _, err := p.Dial(within(t), g.uri); !errors.As(err, &status) || status.Code != 500 {
		t.Errorf("%v", err)
	}
}

func TestTrunksThatCannotBe(t *testing.T) {
	g := startGateway(t, nil)
	for name, trunks := range map[string][]Trunk{
		"no name": {{}}, "twice": {{Name: "a"}, {Name: "a"}}, "a codec we have not": {{Name: "a", Codecs: []string{"opus"}}},
	} {
		p := g.parts
		p.Trunks = trunks
		if s, err := NewServer(DefaultConfig(), p); err == nil {
			t.Errorf("%s: taken", name)
			_ = s.Close()
		}
	}
}

func TestAnAgentByName(t *testing.T) {
	p := ringUp(t, phone.Config{Number: "+12125550123"})
	other := &fakeAgent{}
	g := startGatewayOf(t, func(c *Config, _ *sip.Config) { c.EventsDir = filepath.Join(t.TempDir(), "events") }, func(parts *Parts) {
		parts.Trunks = []Trunk{trunkTo(p)}
		parts.Codecs = []media.Codec{g711.PCMU(), g711.PCMA()}
		parts.Agent = func(name string) agent.Opener {
			if name == "other" {
				return other
			}
			return nil
		}
	})
	p.AnswerAll()
	id := order(t, g, Outgoing{To: "+12125550123", Agent: "other", ResourceID: "customer-7"})
	await(t, g.seen.started, "start")
	if c := other.last().call; c.Agent != "other" || c.Caller.ResourceID != "customer-7" {
		t.Errorf("the agent is told %+v", c)
	}
	if _, err := g.Dial(within(t), Outgoing{To: "+12125550123", Agent: "third"}); err == nil {
		t.Error("an agent there is not")
	}
	large := map[string]string{"a": strings.Repeat("a", maxContextValue+1)}
	if _, err := g.Dial(within(t), Outgoing{To: "+12125550123", Context: large}); err == nil {
		t.Error("a context without bounds")
	}
	if err := g.Resume(within(t), id); err != nil { // it is on no hold: nothing to do
		t.Error(err)
	}
	other.opens(func(context.Context, agent.Call) error { panic("open") })
	order(t, g, Outgoing{To: "+12125550123", Agent: "other"})
	if r := await(t, g.seen.failed, "failure"); r.Cause != CauseFault || !strings.Contains(r.Error, "panic") {
		t.Errorf("record %+v", r)
	}
	other.opens(func(context.Context, agent.Call) error { return errors.New("no model") })
	order(t, g, Outgoing{To: "+12125550123", Agent: "other"})
	if r := await(t, g.seen.failed, "failure"); r.Cause != CauseFault || !strings.Contains(r.Error, "no model") {
		t.Errorf("record %+v", r)
	}
}
