package config

import (
	"strings"
	"testing"

	"parley/call"
)

func TestRoutes(t *testing.T) {
	c := load(t, `
[identity]
region = "US"
[[trunk]]
name = "berlin"
register = false
sources = ["192.0.2.1"]
region = "DE"
[[route]]
name = "berlin"
trunk = "berlin"
called = "030 901820"
agent = "de"
[[route]]
name = "rest"
called = "202-555-0100"
[agents.de.conversation]
language = "en-GB"
`, nil)
	r, err := c.Routes()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		called, trunk, want string
	}{
		{"+4930901820", "berlin", "berlin"}, {"030901820", "berlin", "berlin"}, {"030901820", "", ""}, {"+12025550100", "", "rest"}, {"12025550100", "", "rest"}, {"100", "berlin", ""},
	} {
		if got, _ := r.Match(call.Request{Called: q.called, Trunk: q.trunk}); got.Name != q.want {
			t.Errorf("%s by %q: %q, want %q", q.called, q.trunk, got.Name, q.want)
		}
	}
	if len(c.Warnings) > 0 {
		t.Errorf("%q", c.Warnings)
	}
	plain := Default()
	if r, err := plain.Routes(); r != nil || err != nil {
		t.Errorf("%v %v", r, err)
	}
	if got := numbering("030901820", "XX"); got != "" { // validate tells of the region
		t.Error(got)
	}
}

func TestMistakesInRoutes(t *testing.T) {
	for _, c := range []struct {
		why, text string
		want      []string
	}{
		{"unknown names", "[[route]]\nname = \"a\"\ntrunk = \"carier\"\nagent = \"sale\"\n[[trunk]]\nname = \"carrier\"\nregister = false\nhosts = [\"h\"]\n[agents.sales.llm]\nprovider = \"echo\"\n", []string{
			`FILE:3: route[0].trunk: there is no trunk "carier"; did you mean "carrier"?`, `FILE:4: route[0].agent: there is no agent "sale"; did you mean "sales"?`,
		}},
		{"each with its line", "[[route]]\ncalled = \"sip:x\"\n[[route]]\nname = \"b\"\ncaled = \"1\"\n[[route]]\nname = \"b\"\ncalled = 5\n", []string{
			`FILE:1: route[0].name: must be set`, `FILE:2: route[0].called: "sip:x" must have a user`, `FILE:5: route[1].caled: no such key; did you mean "called"?`,
			`FILE:7: route[2].name: there is a route "b" already`, `FILE:8: route[2].called: 5, must be text in quotes`,
		}},
		{"one table", "[route]\nname = \"a\"\n", []string{`FILE:1: route: must be written [[route]]`}},
	} {
		mistakes(t, c.why, c.text, c.want)
	}
}

func TestRoutesThatNeverGetACallAreAWarning(t *testing.T) {
	file := write(t, "[[route]]\nname = \"all\"\n[[route]]\nname = \"late\"\ncalled = \"+1*\"\n")
	c, err := Load(file, nil)
	if err != nil || len(c.Warnings) != 1 || c.Warnings[0] != file+`:3: route[1]: "late" never gets a call: "all" before it takes them all` {
		t.Errorf("%v %q", err, c.Warnings)
	}
}

func TestRouteWithoutAWayIsNoTrunk(t *testing.T) {
	c := load(t, "[[route]]\nname = \"default\"\nagent = \"default\"\n", nil)
	if strings.Join(c.Warnings, "") != "" || c.AgentNamed(c.Route[0].Agent) != &c.Assistant {
		t.Errorf("%q", c.Warnings)
	}
}
