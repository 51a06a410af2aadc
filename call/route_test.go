package call

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/nyaruka/phonenumbers"
)

// e164 numbers as identity does.
func e164(dialled, region string) string {
	n, err := phonenumbers.Parse(dialled, region)
	if err != nil || !strings.HasPrefix(dialled, "+") && !phonenumbers.IsValidNumber(n) {
		return ""
	}
	return phonenumbers.Format(n, phonenumbers.E164)
}

var regions = map[string]string{"": "US", "berlin": "DE", "none": ""}

func TestRoutePatterns(t *testing.T) {
	for _, c := range []struct {
		called, uri, user, trunk string
		want                     bool
		why                      string
	}{
		{"", "sip:anything@h", "anything", "", true, "any called number"},
		{"*", "sip:h", "", "", true, "any called number"},
		{"+12025550100", "sip:+12025550100@h", "+12025550100", "", true, "is"},
		{"+12025550100", "sip:2025550100@h", "2025550100", "", true, "both are +12025550100"},
		{"202-555-0100", "sip:+12025550100@h", "+12025550100", "", true, "both are +12025550100"},
		{"(202) 555 0100", "sip:1-202-555-0100@h", "1-202-555-0100", "", true, "both are +12025550100"},
		{"202-555-0100", "sip:2025550100@h", "2025550100", "berlin", true, "is"},          // as it was dialled
		{"202-555-0100", "sip:+12025550100@h", "+12025550100", "berlin", false, "is not"}, // national there is another country
		{"030 901820", "sip:+4930901820@h", "+4930901820", "berlin", true, "both are +4930901820"},
		{"030 901820", "sip:+4930901820@h", "+4930901820", "", false, "is not"},
		{"+12025550100", "sip:2025550100@h", "2025550100", "none", false, "is not"},
		{"+12025550100", "sip:+12025550101@h", "+12025550101", "", false, `+12025550101 is not "+12025550100"`},
		{"+12025550100", "sip:+12025550100;npdi@h", "+12025550100;npdi", "", true, ""},
		{"tel:+12025550100", "tel:+1-202-555-0100;phone-context=x", "", "", true, ""},
		{"+1202*", "sip:+12025550100@h", "+12025550100", "", true, "begins with"},
		{"+1202*", "sip:2025550100@h", "2025550100", "", true, "which begins with"},
		{"+1202*", "sip:2035550100@h", "2035550100", "", false, "does not begin with"},
		{"1202*", "sip:12025550100@h", "12025550100", "", true, ""},
		{"1202*", "sip:+12025550100@h", "+12025550100", "", false, ""}, // as it was dialled
		{"+1202*", "sip:reception@h", "reception", "", false, "is no number"},
		{"100", "sip:100@h", "100", "", true, ""},
		{"100", "sip:1000@h", "1000", "", false, ""},
		{"reception", "sip:Reception@h", "Reception", "", true, ""},
		{"reception", "sip:receptionist@h", "receptionist", "", false, `"receptionist" is not "reception"`},
		{"recep*", "sip:receptionist@h", "receptionist", "", true, ""},
		{"*97", "sip:*97@h", "*97", "", true, ""}, // the key, not a wildcard
		{"*97", "sip:197@h", "197", "", false, ""},
		{"*97*", "sip:*97123@h", "*97123", "", true, ""},
		{"sip:*@Example.com", "sip:x@example.COM:5070;transport=tcp?a=b", "x", "", true, "the host is"},
		{"sip:*@example.com", "sips:x@example.com.", "x", "", true, ""},
		{"sip:*@example.com", "sip:x@sub.example.com", "x", "", false, "another host"},
		{"sip:*@*.example.com", "sip:x@sub.example.com", "x", "", true, ""},
		{"sip:*@*.example.com", "sip:x@example.com", "x", "", false, ""},
		{"sip:*@*.example.com", "sip:x@badexample.com", "x", "", false, ""},
		{"sip:sales@*", "sip:sales@[2001:db8::1]:5060", "sales", "", true, ""},
		{"sip:sales@[2001:DB8::1]", "sip:sales@[2001:db8::1]:5060", "sales", "", true, ""},
		{"sip:+1202*@example.com", "sip:2025550100@example.com", "2025550100", "", true, "which begins"},
		{"sip:+1202*@example.com", "sip:2025550100@other.com", "2025550100", "", false, "another host"},
		{"sip:*@example.com", "tel:+12025550100", "+12025550100", "", false, "another host"},
		{"sip:*@example.com", "nonsense", "", "", false, ""},
		{"sip:*@*", "sip:h", "", "", true, ""},
	} {
		r, err := NewRoutes([]Route{{Name: "r", Called: c.called}}, regions, e164)
		if err != nil {
			t.Errorf("%q: %v", c.called, err)
			continue
		}
		q := Request{Called: c.user, URI: c.uri, Trunk: c.trunk}
		_, got := r.Match(q)
		v := r.Explain(q)[0]
		if got != c.want || v.Takes != c.want || !strings.Contains(v.Why, c.why) {
			t.Errorf("%q takes %s: %v, want %v; %s", c.called, c.uri, got, c.want, v.Why)
		}
	}
}

func TestFirstRouteWins(t *testing.T) {
	r, err := NewRoutes([]Route{
		{Name: "berlin", Trunk: "berlin", Called: "+49*", Agent: "de"},
		{Name: "sales", Called: "sales", Agent: "seller"},
		{Name: "rest of berlin", Trunk: "berlin"},
		{Name: "again", Called: "sales", Agent: "never"},
	}, regions, e164)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ user, trunk, want string }{
		{"030901820", "berlin", "berlin"}, {"sales", "berlin", "sales"}, {"sales", "", "sales"}, {"100", "berlin", "rest of berlin"}, {"100", "", ""}, {"100", "other", ""},
	} {
		got, ok := r.Match(Request{Called: c.user, URI: "sip:" + c.user + "@h", Trunk: c.trunk})
		if got.Name != c.want || ok != (c.want != "") {
			t.Errorf("%s by %q: %q, want %q", c.user, c.trunk, got.Name, c.want)
		}
	}
	why := r.Explain(Request{Called: "sales", URI: "sip:sales@h"})
	if len(why) != 4 || r.Len() != 4 || why[0].Takes || why[0].Why != `wants trunk "berlin", the call is by no trunk` || !why[1].Takes || why[2].Takes || !why[3].Takes {
		t.Errorf("%+v", why)
	}
	if why := r.Explain(Request{Called: "x", Trunk: "none"})[0].Why; !strings.Contains(why, `by trunk "none"`) {
		t.Error(why)
	}
	if why := r.Explain(Request{Called: "x", Trunk: "berlin"})[2].Why; why != `trunk "berlin", takes any called number` {
		t.Error(why)
	}
}

func TestRoutesThatNeverGetACall(t *testing.T) {
	for _, c := range []struct {
		why          string
		first, later Route
		want         bool
	}{
		{"anything first", Route{}, Route{Called: "x"}, true},
		{"anything of a trunk", Route{Trunk: "a"}, Route{Called: "x"}, false},
		{"anything of the same trunk", Route{Trunk: "a"}, Route{Trunk: "a", Called: "x"}, true},
		{"another trunk", Route{Trunk: "a"}, Route{Trunk: "b"}, false},
		{"the same number, written otherwise", Route{Called: "+12025550100"}, Route{Trunk: "a", Called: "202-555-0100"}, true},
		{"in another region it is another number", Route{Called: "+12025550100"}, Route{Called: "202-555-0100"}, false},
		{"a prefix", Route{Called: "+1*"}, Route{Called: "+1202*"}, true},
		{"a prefix before a number", Route{Called: "+1*"}, Route{Trunk: "a", Called: "2025550100"}, true},
		{"a prefix as it is dialled", Route{Called: "202*"}, Route{Trunk: "a", Called: "2025550100"}, false},
		{"an extension", Route{Called: "1*"}, Route{Called: "100"}, true},
		{"a longer prefix", Route{Called: "+1202*"}, Route{Called: "+1*"}, false},
		{"names", Route{Called: "rec*"}, Route{Called: "Reception"}, true},
		{"a name and a number", Route{Called: "1*"}, Route{Called: "1a"}, false},
		{"a host", Route{Called: "sip:*@*.example.com"}, Route{Called: "sip:x@a.example.com"}, true},
		{"another host", Route{Called: "sip:*@example.com"}, Route{Called: "sip:x@example.org"}, false},
		{"any host", Route{Called: "sip:*@example.com"}, Route{Called: "x"}, false},
		{"a number, whatever the host", Route{Called: "x"}, Route{Called: "sip:x@example.com"}, true},
	} {
		c.first.Name, c.later.Name = "first", "later"
		r, err := NewRoutes([]Route{c.first, c.later}, regions, e164)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Shadowed(); (len(got) == 1 && got[0] == Shadow{Index: 1, By: 0}) != c.want {
			t.Errorf("%s: %+v", c.why, got)
		}
	}
}

func TestMistakesInRoutes(t *testing.T) {
	for _, c := range []struct{ name, called, field, want string }{
		{"", "x", "name", "must be set"},
		{"a\nb", "x", "name", "is not a line"},
		{strings.Repeat("x", 65), "x", "name", "is not a line"},
		{"first", "x", "name", `there is a route "first" already`},
		{"r", "sip:example.com", "called", "must have a user"},
		{"r", "sip:@example.com", "called", "must have a user"},
		{"r", "sip:x@ex*mple.com", "called", "a host may be"},
		{"r", "sip:x@*.", "called", "a host may be"},
		{"r", "tel:home", "called", "has no number"},
		{"r", "x@example.com", "called", "a URI begins with sip:"},
		{"r", "two words", "called", "is no number"},
		{"r", "a\x00", "called", "control characters"},
		{"r", strings.Repeat("1", 257), "called", "longer than 256"},
	} {
		_, err := NewRoutes([]Route{{Name: "first"}, {Name: c.name, Called: c.called}}, nil, nil)
		e, ok := errors.AsType[*RouteError](err)
		if !ok || e.Index != 1 || e.Field != c.field || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %q: %v", c.name, c.called, err)
		}
	}
}

// Without numbering numbers are compared as they are written.
func TestRoutesWithoutNumbering(t *testing.T) {
	r, err := NewRoutes([]Route{{Name: "r", Called: "+1 202 555 0100"}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]bool{"+12025550100": true, "+1.202.555.0100": true, "2025550100": false, "+": false} {
		if _, got := r.Match(Request{Called: user}); got != want {
			t.Errorf("%s: %v", user, got)
		}
	}
}

// What a stranger dials never upsets the rules, and Explain agrees with Match.
func FuzzRoutes(f *testing.F) {
	f.Add("+1202*", "sip:+1 (202)@h", "berlin")
	f.Add("sip:*@*.h", "sip:a@b@c.h:x?;", "")
	f.Add("*", "tel:", "none")
	f.Add("sip:[@[", "sips:[", "")
	f.Fuzz(func(t *testing.T, called, uri, trunk string) {
		r, err := NewRoutes([]Route{{Name: "a", Called: called}, {Name: "b", Trunk: trunk}}, regions, e164)
		if err != nil {
			return
		}
		user, _ := splitURI(uri)
		q := Request{Called: user, URI: uri, Trunk: trunk}
		route, ok := r.Match(q)
		verdicts := r.Explain(q)
		first := ""
		for i := len(verdicts) - 1; i >= 0; i-- {
			if verdicts[i].Takes {
				first = verdicts[i].Route.Name
			}
		}
		if !ok || route.Name != first {
			t.Errorf("match %q, explain %q", route.Name, first)
		}
		for _, s := range r.Shadowed() { // a shadowed rule is never the first
			if route.Name == r.rules[s.Index].Name {
				t.Errorf("%q takes %q, which %q covers", route.Name, uri, r.rules[s.By].Called)
			}
		}
	})
}

func BenchmarkRoutes(b *testing.B) {
	var rules []Route
	for i := range 100 {
		rules = append(rules, Route{Name: strconv.Itoa(i), Called: "202-555-0100"})
	}
	r, err := NewRoutes(rules, regions, e164)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r.Match(Request{Called: "2025550199", URI: "sip:2025550199@h"})
	}
}
