package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"parley/call"
)

// examples is the commented part of the sample, as a configuration.
func examples(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, m := range regexp.MustCompile(`(?m)^#   (.*)$`).FindAllStringSubmatch(string(text), -1) {
		if !strings.HasPrefix(m[1], "sip-server ") && !strings.Contains(m[1], "{ password_file") && !strings.Contains(m[1], "{ key_file") { // files that are not here
			shown = append(shown, m[1])
		}
	}
	return strings.Join(shown, "\n") + "\n"
}

// The commented examples of the sample load, have every key, and show the defaults.
func TestSampleExamples(t *testing.T) {
	text := examples(t)
	c := load(t, text, nil)
	if len(c.Trunk) != 1 || len(c.Auth.Users) != 1 || len(c.Route) != 3 || len(c.Agents) != 1 || len(c.MCP) != 2 || len(c.Plugins.Settings) != 1 || len(c.Tools.Destinations) != 2 {
		t.Fatalf("%d trunks, %d users, %d routes, %d agents in\n%s", len(c.Trunk), len(c.Auth.Users), len(c.Route), len(c.Agents), text)
	}
	want, got := defaultTrunk(), c.Trunk[0]
	want.Name, want.Trunk.Hosts, want.User = got.Name, got.Trunk.Hosts, got.User
	if diff := cmp.Diff(want, got, compareAddr, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the sample shows another trunk than the default (-default +sample):\n%s", diff)
	}
	at := lines([]byte(text))
	for section, v := range map[string]any{
		"trunk[0]": &Trunk{}, "route[0]": &call.Route{}, "plugins.orders": &Plugin{}, "mcp.docs": &MCP{}, "tools.destinations.billing": &Destination{},
	} {
		for _, k := range appendKeys(nil, section, reflect.ValueOf(v).Elem(), nil) {
			if at[k.path()] == 0 && at[strings.Replace(k.path(), "mcp.docs", "mcp.files", 1)] == 0 {
				t.Errorf("%s is not shown", k.path())
			}
		}
	}
}
