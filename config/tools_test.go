package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/agent/tool"
)

func TestTools(t *testing.T) {
	c := load(t, `
[tools]
hold = true
numbers = ["+1202"]
[tools.destinations]
sales = "+12025550123"
desk = { to = "sip:desk@pbx", description = "people", attended = true, confirm = true }
[plugins]
directory = "/srv/tools"
node = ["/opt/node"]
[plugins.orders]
pass = ["ORDERS"]
timeout = "5s"
config = { shop = "main", depth = 3 }
[mcp.docs]
url = "https://mcp.example.com/mcp"
headers = { X-Team = "hush" }
[agents.quiet.tools]
hang_up = false
allow = ["crm_*", "find"]
[agents.quiet.tools.destinations]
boss = "+12025550199"
[[route]]
name = "quiet"
agent = "quiet"
`, []string{"PARLEY_MCP_DOCS_TOKEN=secret", "PARLEY_TOOLS_DIGITS=4"})
	want := tool.CallPolicy{
		Hold: true, Numbers: []string{"+1202"}, Transfers: 3, Digits: 4,
		Destinations: []tool.Destination{
			{Name: "desk", To: "sip:desk@pbx", Description: "people", Attended: true, Confirm: true}, {Name: "sales", To: "+12025550123"},
		},
	}
	if diff := cmp.Diff(want, c.CallPolicy()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	quiet := c.Agents["quiet"]
	want.NoHangUp, want.Destinations = true, []tool.Destination{{Name: "boss", To: "+12025550199"}}
	if diff := cmp.Diff(want, quiet.CallPolicy()); diff != "" {
		t.Errorf("an agent's own (-want +got):\n%s", diff)
	}
	for name, want := range map[string]bool{"crm_find": true, "find": true, "finder": false, "": false} {
		if got := quiet.Tools.Allows(name); got != want || !c.Tools.Allows(name) {
			t.Errorf("%q: %v", name, got)
		}
	}
	o := c.Plugins.Options()
	if p := o.Plugins["orders"]; p.Timeout != 5*time.Second || len(p.Pass) != 1 || p.Config["shop"] != "main" || p.Config["depth"] != int64(3) || strings.Join(o.Runtimes["typescript"], " ") != "/opt/node --experimental-strip-types" {
		t.Errorf("%+v", o)
	}
	m := c.MCP["docs"].Server("docs")
	if m.Headers["Authorization"] != "Bearer secret" || m.Headers["X-Team"] != "hush" || m.Timeout != 30*time.Second {
		t.Errorf("%+v", m)
	}
}

func TestMistakesOfTools(t *testing.T) {
	file := write(t, `[tools]
transfers = -1
numbers = ["1202"]
timeout = "1ms"
[tools.destinations]
sales = 5
desk = { two = "x" }
none = ""
[plugins]
timeout = "0s"
[plugins.orders]
disable = true
[mcp]
odd = "x"
[mcp.docs]
url = "ftp://x"
[mcp.both]
url = "https://x"
command = ["y"]
[mcp.here]
command = ["y"]
headers = { A = 5 }
token = "t"
[mcp.a-b]
command = ["y"]
[mcp.a_b]
command = ["y"]
[agents.x.tools]
transfer = 1
[agents.x.tools.destinations]
nobody = ""
`)
	_, err := Load(file, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`:2: tools.transfers: -1, must not be negative`,
		`:3: tools.numbers: "1202" is no prefix of numbers`,
		`:4: tools.timeout: 1ms is not between 1s and 1h`,
		`:6: tools.destinations.sales: must be a number in quotes, or { to = "…" }`,
		`:7: tools.destinations.desk.two: no such key; did you mean "to"?`,
		`:8: tools.destinations.none: must say where to`,
		`:10: plugins.timeout: 0s is not between`,
		`:12: plugins.orders.disable: no such key; did you mean "disabled"?`,
		`:14: mcp.odd: must be a section such as [mcp.docs]`,
		`:15: mcp.docs: want a URL of http or https`,
		`:19: mcp.both.command: want a command or a URL`,
		`:22: mcp.here.headers: must be text in quotes`,
		`:20: mcp.here: token and headers are for a url`,
		`mcp.a_b: is too much like "a-b"`,
		`:29: agents.x.tools.transfer: no such key; did you mean "transfers"?`,
		`:31: agents.x.tools.destinations.nobody: must say where to`,
	} {
		found := false
		for line := range strings.Lines(err.Error()) {
			line = strings.TrimPrefix(line, file)
			found = found || strings.HasPrefix(line, want) || !strings.HasPrefix(want, ":") && strings.Contains(line, want)
		}
		if !found {
			t.Errorf("no mistake %s in\n%v", want, err)
		}
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 16 {
		t.Errorf("%d mistakes:\n%v", n, err)
	}
}

func TestSecretsOfNobody(t *testing.T) {
	c := load(t, "[[trunk]]\nname = \"carrier\"\nhosts = [\"a\"]\nuser = \"u\"\n", []string{
		"PARLEY_TRUNK_CARRIER_PASSWORD=x", "PARLEY_TRUNK_PBX_PASSWORD=x", "PARLEY_MCP_DOCS_TOKEN=x", "PARLEY_AGENTS_SALES_AGENT_API_KEY=x", "PARLEY_PORT_PASSWORD=x",
	})
	want := []string{
		"environment PARLEY_TRUNK_PBX_PASSWORD is not used: there is no trunk of that name",
		"environment PARLEY_MCP_DOCS_TOKEN is not used: there is no MCP server of that name",
		"environment PARLEY_AGENTS_SALES_AGENT_API_KEY is not used: there is no agent of that name",
	}
	if len(c.Warnings) != len(want) {
		t.Fatalf("%q", c.Warnings)
	}
	for i, w := range want {
		if !strings.HasPrefix(c.Warnings[i], w) {
			t.Errorf("%q, want %q", c.Warnings[i], w)
		}
	}
}
