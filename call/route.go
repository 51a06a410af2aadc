package call

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/agent"
	"parley/identity"
)

// Request is what is known of a call when its agent is chosen.
type Request struct {
	// Called is the user part that was dialled, cleaned: a number or a name.
	Called string
	// URI is the whole Request-URI, cleaned.
	URI string
	// Trunk is the trunk that the call came by, or goes by. Empty: none.
	Trunk string
	// Caller is who calls.
	Caller identity.Caller
	// Direction is "inbound" or "outbound".
	Direction string
}

// Routed is where a call goes.
type Routed struct {
	// Route is the name of the rule that took the call, for logs and records. Empty:
	// there are no rules.
	Route string
	// Agent is the agent's name.
	Agent string
	// Opener opens it.
	Opener agent.Opener
}

// Route is a rule that gives calls to an agent. It is a plain value.
type Route struct {
	// Name is the rule's name in logs and records.
	Name string
	// Trunk is the trunk that calls must come by. Empty: any, or none.
	Trunk string
	// Called is what must have been dialled:
	//
	//	"" or "*"                 anything
	//	"+12025550100"            a number, however it is written: "202-555-0100" too,
	//	                          when that is the region's way
	//	"+1202*"                  numbers that begin so; without a plus sign what was
	//	                          dialled must begin so, as it was dialled
	//	"reception"               a name; upper and lower case are one
	//	"sip:*@example.com"       any user at a host; "sip:sales@*.example.com",
	//	                          "sip:+1202*@*" and the like
	Called string
	// Agent is the name of the agent that takes the call. Empty: the one without a
	// name.
	Agent string
}

// Verdict says whether one rule takes a call, and why.
type Verdict struct {
	Route Route
	// Takes says that all its conditions hold. The first such rule has the call.
	Takes bool
	// Why is the condition that failed, or those that held, in words.
	Why string
}

// Numbering gives the E.164 form of a number as it is dialled in a region (ISO
// 3166; empty: none), or nothing when it is no number there.
type Numbering func(dialled, region string) string

// Routes are rules in order. They do not change and are safe for concurrent use.
type Routes struct {
	rules   []Route
	called  []pattern
	number  Numbering
	regions map[string]string
}

// NewRoutes makes Routes. regions has the region of each trunk by its name, and that
// of calls by none under ""; number may be nil, numbers are then compared as they are
// written. The error joins all mistakes; each is a *RouteError.
func NewRoutes(rules []Route, regions map[string]string, number Numbering) (*Routes, error) {
	if number == nil {
		number = func(string, string) string { return "" }
	}
	r := &Routes{rules: slices.Clone(rules), number: number, regions: regions}
	var errs []error
	bad := func(i int, field, text string) { errs = append(errs, &RouteError{Index: i, Field: field, Text: text}) }
	for i, rule := range rules {
		switch {
		case rule.Name == "":
			bad(i, "name", "must be set: logs and records say it")
		case identity.CleanText(rule.Name, maxRouteName) != rule.Name:
			bad(i, "name", fmt.Sprintf("%q is not a line of up to %d characters", rule.Name, maxRouteName))
		case slices.ContainsFunc(rules[:i], func(o Route) bool { return o.Name == rule.Name }):
			bad(i, "name", fmt.Sprintf("there is a route %q already", rule.Name))
		}
		p, err := parsePattern(rule.Called)
		if err != nil {
			bad(i, "called", err.Error())
		}
		p.learn(r, rule.Trunk)
		r.called = append(r.called, p)
	}
	return r, errors.Join(errs...)
}

const maxRouteName = 64

// RouteError is a mistake in one rule.
type RouteError struct {
	Index int    // of the rule
	Field string // "name" or "called"
	Text  string
}

// Error names the rule by its place.
func (e *RouteError) Error() string {
	return fmt.Sprintf("call: route %d: %s: %s", e.Index+1, e.Field, e.Text)
}

// Len is how many rules there are.
func (r *Routes) Len() int { return len(r.rules) }

// Match is the first rule that takes a call; false when none does.
func (r *Routes) Match(q Request) (Route, bool) {
	d := r.dialled(q)
	for i, rule := range r.rules {
		if takes, _ := r.judge(i, q, d); takes {
			return rule, true
		}
	}
	return Route{}, false
}

// Explain says of every rule, in order, whether it takes a call and why. The first
// that does has the call; those after it are judged all the same.
func (r *Routes) Explain(q Request) []Verdict {
	d := r.dialled(q)
	out := make([]Verdict, len(r.rules))
	for i, rule := range r.rules {
		takes, why := r.judge(i, q, d)
		out[i] = Verdict{Route: rule, Takes: takes, Why: why}
	}
	return out
}

// judge asks one rule.
func (r *Routes) judge(i int, q Request, d dialled) (takes bool, why string) {
	rule := r.rules[i]
	if rule.Trunk != "" && rule.Trunk != q.Trunk {
		came := "by no trunk"
		if q.Trunk != "" {
			came = fmt.Sprintf("by trunk %q", q.Trunk)
		}
		return false, fmt.Sprintf("wants trunk %q, the call is %s", rule.Trunk, came)
	}
	takes, why = r.called[i].match(d)
	if takes && rule.Trunk != "" {
		why = fmt.Sprintf("trunk %q, %s", rule.Trunk, why)
	}
	return takes, why
}

// dialled is what was dialled, in all the forms that patterns look at.
type dialled struct {
	user   string // cleaned of parameters
	digits string // user without separators, when it is a number as it was dialled
	e164   string // with a plus sign, or empty
	host   string // lower case, without a port
	region string
}

// region is that of a trunk's numbers.
func (r *Routes) region(trunk string) string {
	if region, ok := r.regions[trunk]; ok {
		return region
	}
	return r.regions[""]
}

func (r *Routes) dialled(q Request) dialled {
	user, host := splitURI(q.URI)
	if q.Called != "" {
		user = q.Called
	}
	user, _, _ = strings.Cut(user, ";") // ";npdi", ";phone-context": not what was dialled
	d := dialled{user: user, host: host, region: r.region(q.Trunk)}
	if d.digits = plainNumber(user); d.digits != "" {
		d.e164 = r.number(d.digits, d.region)
	}
	return d
}

// Shadow is a rule that never gets a call, because an earlier one takes all of its
// calls.
type Shadow struct {
	// Index and By are the places of the rule and of the one before it.
	Index, By int
}

// Shadowed finds the rules that can never get a call.
func (r *Routes) Shadowed() []Shadow {
	var out []Shadow
	for i := range r.rules {
		for j := range i {
			wide := r.rules[j].Trunk == "" || r.rules[j].Trunk == r.rules[i].Trunk
			if wide && r.covers(j, i) {
				out = append(out, Shadow{Index: i, By: j})
				break
			}
		}
	}
	return out
}

// covers says that the j-th rule wants every called number that the i-th does, in all
// regions that calls of the i-th may come from.
func (r *Routes) covers(j, i int) bool {
	if trunk := r.rules[i].Trunk; trunk != "" {
		return r.called[j].covers(r.called[i], r.region(trunk))
	}
	if !r.called[j].covers(r.called[i], r.region("")) {
		return false
	}
	for _, region := range r.regions {
		if !r.called[j].covers(r.called[i], region) {
			return false
		}
	}
	return true
}
