package call

import (
	"errors"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/sip"
)

// line is a trunk with guardrails.
func guarded(o Outbound) *trunk {
	return &trunk{cfg: Trunk{Name: "t", Region: "US", Outbound: o, SIP: sip.Trunk{Name: "t", Hosts: []string{"sip.carrier.example:5060"}, User: "+14155550000"}}}
}

func TestWhoMayBeCalled(t *testing.T) { // BR-159
	for _, c := range []struct {
		name string
		o    Outbound
		by   who
		to   string
		want string // what is dialled; "!rule" a refusal
	}{
		{"a national number", Outbound{}, byOperator, "(212) 555-0123", "+12125550123"},
		{"the same in E.164", Outbound{}, byOperator, "+1 212 555 0123", "+12125550123"},
		{"a tel URI", Outbound{}, byOperator, "tel:+1-212-555-0123", "+12125550123"},
		{"a URI at the trunk", Outbound{}, byOperator, "sip:+12125550123@sip.carrier.example;user=phone", "+12125550123"},
		{"abroad", Outbound{}, byOperator, "+442071838750", "!international"},
		{"an island in +1", Outbound{}, byOperator, "+18095550123", "!international"},
		{"abroad, wanted", Outbound{International: true}, byOperator, "+442071838750", "+442071838750"},
		{"abroad, wanted, not denied", Outbound{International: true, Deny: []string{"+44"}}, byOperator, "+442071838750", "!denied"},
		{"a longer allowance wins", Outbound{International: true, Deny: []string{"+44"}, Allow: []string{"+4420"}}, byOperator, "+442071838750", "+442071838750"},
		{"a tie is denied", Outbound{International: true, Deny: []string{"+44"}, Allow: []string{"+44"}}, byOperator, "+442071838750", "!denied"},
		{"an allowance does not open borders", Outbound{Allow: []string{"+44"}}, byOperator, "+442071838750", "!international"},
		{"nothing but what is allowed", Outbound{Allow: []string{"+1212"}}, byOperator, "+14155550123", "!not_allowed"},
		{"premium rate", Outbound{}, byOperator, "+19005550123", "!premium"},
		{"premium rate by its range", Outbound{Allow: []string{"+1900"}}, byAgent, "+19005550123", "!premium"},
		{"premium rate by its number", Outbound{Allow: []string{"+19005550123"}}, byAgent, "+19005550123", "+19005550123"},
		{"premium rate abroad", Outbound{International: true}, byOperator, "+449098790123", "!premium"},
		{"a satellite", Outbound{International: true}, byOperator, "tel:+881612345678", "!premium"},
		{"a satellite, with blanks", Outbound{International: true, Allow: []string{"+8"}}, byAgent, "+88 16 123 45678", "!premium"},
		{"no country's network", Outbound{International: true}, byOperator, "+883510012345", "!premium"},
		{"an extension", Outbound{}, byOperator, "204", "!extension"},
		{"an extension, allowed", Outbound{Allow: []string{"2"}}, byAgent, "204", "204"},
		{"an emergency number", Outbound{}, byOperator, "911", "!extension"},
		{"a feature code", Outbound{Allow: []string{"*"}}, byOperator, "*72", "*72"},

		{"agents need an allowance", Outbound{International: true}, byAgent, "+12125550123", "!not_allowed"},
		{"agents by prefix", Outbound{Allow: []string{"+1212"}}, byAgent, "+12125550123", "+12125550123"},
		{"peers are like agents", Outbound{}, byPeer, "+12125550123", "!not_allowed"},
		{"the issue's number", Outbound{Allow: []string{"+1212"}}, byAgent, "+15550199900", "!not_allowed"},
		{"a strange host", Outbound{Allow: []string{"+1"}}, byAgent, "sip:x@evil.example", "!host"},
		{"a name at the trunk", Outbound{Allow: []string{"+1"}}, byAgent, "sip:x@sip.carrier.example", "!target"},
		{"Replaces in a URI", Outbound{Allow: []string{"+1"}}, byAgent, "sip:+1555@sip.carrier.example?Replaces=a", "!target"},
		{"two lines", Outbound{Allow: []string{"+1"}}, byAgent, "+15550100\r\nRoute: <sip:evil>", "!target"},
		{"two lines, escaped", Outbound{Hosts: []string{"pbx.example"}}, byAgent, "sip:a%0d%0aRoute@pbx.example", "!target"},
		{"a phone-context", Outbound{Allow: []string{"+1"}}, byAgent, "tel:5550123;phone-context=+881", "!target"},
		{"a web address", Outbound{Allow: []string{"+1"}}, byAgent, "http://evil.example", "!target"},
		{"nothing", Outbound{}, byOperator, " ", "!target"},
		{"very much", Outbound{}, byOperator, strings.Repeat("1", 300), "!target"},
		{"not Latin digits", Outbound{Allow: []string{"+1"}}, byAgent, "+1٢١٢5550123", "!target"},
		{"a configured host", Outbound{Hosts: []string{"pbx.example"}}, byAgent, "sip:sales@PBX.example:5080;transport=tcp;lr", "sip:sales@PBX.example:5080;transport=tcp"},
		{"one below it", Outbound{Hosts: []string{"*.pbx.example"}}, byAgent, "sip:sales@a.pbx.example", "sip:sales@a.pbx.example"},
		{"one that only ends so", Outbound{Hosts: []string{"*.pbx.example"}}, byAgent, "sip:sales@evilpbx.example", "!host"},
		{"the domain itself is not below", Outbound{Hosts: []string{"*.pbx.example"}}, byAgent, "sip:sales@pbx.example", "!host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := guarded(c.o).guard(c.to, c.by)
			rule, refused := strings.CutPrefix(c.want, "!")
			var guard *GuardError
			errors.As(err, &guard)
			switch {
			case refused && (guard == nil || guard.Rule != rule || !errors.Is(err, agent.ErrForbidden)):
				t.Errorf("%q: %+v, %v; want rule %s", c.to, got, err, rule)
			case !refused && (err != nil || got.to != c.want):
				t.Errorf("%q: %q, %v; want %q", c.to, got.to, err, c.want)
			}
		})
	}
	if _, err := (*trunk)(nil).guard("+12125550123", byAgent); err == nil {
		t.Error("a call without a trunk may call anybody")
	}
}

func TestWithoutARegionNothingIsNational(t *testing.T) {
	tr := guarded(Outbound{})
	tr.cfg.Region = ""
	if _, err := tr.guard("+12125550123", byOperator); err == nil {
		t.Error("called a country without knowing ours")
	}
}

func TestHowMuchAgentsMayBegin(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
	tr := guarded(Outbound{MaxPerCall: 2, MaxPerHour: 5})
	rule := func(err error) string {
		var g *GuardError
		if errors.As(err, &g) {
			return g.Rule
		}
		return ""
	}
	if got := rule(tr.charge(2, now)); got != "max_per_call" {
		t.Errorf("a third in one call: rule %q", got)
	}
	for i := range 5 {
		if err := tr.charge(0, now.Add(time.Duration(i)*10*time.Minute)); err != nil {
			t.Fatal(i, err)
		}
	}
	if got := rule(tr.charge(0, now.Add(59*time.Minute))); got != "max_per_hour" {
		t.Errorf("a sixth within the hour: rule %q", got)
	}
	if err := tr.charge(0, now.Add(60*time.Minute)); err != nil {
		t.Errorf("after the first is an hour ago: %v", err)
	}
	if got := rule(tr.charge(0, now.Add(61*time.Minute))); got != "max_per_hour" {
		t.Errorf("the next: rule %q", got)
	}
	if err := tr.charge(0, now.Add(48*time.Hour)); err != nil {
		t.Errorf("two days later: %v", err)
	}
	careful := guarded(Outbound{})
	if rule(careful.charge(defaultPerCall, now)) != "max_per_call" || careful.charge(defaultPerCall-1, now) != nil {
		t.Error("the zero value has no cap of its own")
	}
}

func TestBucket(t *testing.T) {
	b := bucket{rate: 2}
	now := time.Now()
	passed := 0
	for i := range 100 { // 10 s
		if ok, wait := b.take(now.Add(time.Duration(i) * 100 * time.Millisecond)); ok {
			passed++
		} else if wait <= 0 || wait > 500*time.Millisecond {
			t.Fatalf("wait %v", wait)
		}
	}
	if passed < 20 || passed > 22 {
		t.Errorf("%d passed in 10 s at 2 a second", passed)
	}
}

func FuzzGuard(f *testing.F) {
	for _, s := range []string{"+12125550123", "sip:x@pbx.example", "tel:+1;phone-context=a", "sip:%0d%0a@pbx.example", "sip:+1@sip.carrier.example?a=b", "٢", "sips:a;b=c@[::1]:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, to string) {
		tr := guarded(Outbound{International: true, Allow: []string{"+1212"}, Hosts: []string{"pbx.example"}})
		got, err := tr.guard(to, byAgent)
		if err != nil {
			return
		}
		if strings.ContainsFunc(got.to, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || strings.ContainsAny(got.to, "?<>\"") {
			t.Errorf("%q is dialled as %q", to, got.to)
		}
		if u, perr := sip.ParseURI(got.to); perr == nil {
			if !strings.EqualFold(u.Host, "pbx.example") {
				t.Errorf("%q leads to %q", to, got.to)
			}
		} else if !strings.HasPrefix(got.to, "+1212") {
			t.Errorf("%q is dialled as %q", to, got.to)
		}
	})
}
