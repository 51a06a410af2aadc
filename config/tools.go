package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"parley/agent/tool"
	"parley/agent/tool/mcp"
	"parley/agent/tool/plugin"
)

// Tools is what an agent may do besides talking.
type Tools struct {
	// Allow are the tools of plugins and MCP servers that the agent has, by name or by
	// the beginning of one and a star. Empty: all.
	Allow []string
	// Skills are those of the plugins' directory that the agent has, by name. Empty: all.
	Skills []string
	// HangUp lets the agent end the call, Hold put the caller on hold.
	HangUp bool
	Hold   bool
	// Transfers is how many transfers one call may try, TransfersPerHour how many all
	// calls of the agent within an hour; 0: no bound but those of the trunk.
	Transfers        int
	TransfersPerHour int
	// Numbers and DenyNumbers are those of tool.CallPolicy.
	Numbers     []string
	DenyNumbers []string
	// Digits is how many keys the agent may press in one call; StarKeys adds * and A-D.
	Digits   int
	StarKeys bool
	// Verbatim demands that questions for a confirmation are spoken as they are.
	Verbatim bool
	// ConfirmationTTL is how long a confirmation can be used.
	ConfirmationTTL time.Duration
	// Timeout bounds the call of a tool that says nothing of its own.
	Timeout time.Duration
	// Destinations are who callers may be transferred to, by name.
	Destinations map[string]*Destination
}

// Destination is one of tools.destinations.
type Destination struct {
	// To is a number, or a sip: or tel: URI.
	To string
	// Description tells the model when.
	Description string
	// Attended calls the destination first, Confirm asks the caller first.
	Attended bool
	Confirm  bool
}

// defaultTools may hang up.
func defaultTools() Tools {
	return Tools{HangUp: true, Transfers: 3, ConfirmationTTL: 5 * time.Minute, Timeout: 30 * time.Second}
}

// CallPolicy is what an agent may do with its calls, without the quota.
func (a *Assistant) CallPolicy() tool.CallPolicy {
	t := a.Tools
	out := tool.CallPolicy{
		NoHangUp: !t.HangUp, Hold: t.Hold, Numbers: t.Numbers, DenyNumbers: t.DenyNumbers,
		Transfers: t.Transfers, Digits: t.Digits, StarKeys: t.StarKeys,
	}
	for _, name := range slices.Sorted(maps.Keys(t.Destinations)) {
		d := t.Destinations[name]
		out.Destinations = append(out.Destinations, tool.Destination{
			Name: name, Description: d.Description, To: d.To, Attended: d.Attended, Confirm: d.Confirm,
		})
	}
	return out
}

// Allows says whether the agent has the tool of a plugin or an MCP server.
func (t Tools) Allows(name string) bool {
	return len(t.Allow) == 0 || slices.ContainsFunc(t.Allow, func(a string) bool {
		beginning, star := strings.CutSuffix(a, "*")
		return name == a || star && strings.HasPrefix(name, beginning)
	})
}

// Plugins is where plugins and skills are.
type Plugins struct {
	// Directory holds plugins/NAME/plugin.yaml and skills/NAME/SKILL.md. Empty: none.
	Directory string
	// Timeout bounds one call of a plugin, StartTimeout its answer to initialize.
	Timeout      time.Duration
	StartTimeout time.Duration
	// Python and Node are the commands that run the languages. Empty: python3 and node.
	Python []string
	Node   []string
	// Settings are those of single plugins, by name.
	Settings map[string]*Plugin
}

// Plugin is one of [plugins.NAME].
type Plugin struct {
	// Disabled plugins are not started.
	Disabled bool
	// Pass names variables of the server's environment that the plugin gets.
	Pass []string
	// Timeout bounds one call. 0: that of [plugins].
	Timeout time.Duration
	// Config is what the plugin is given at its start, as it stands in the file.
	Config map[string]any
}

// Options are how plugins are run, without what the host offers them.
func (p Plugins) Options() plugin.Options {
	out := plugin.Options{Timeout: p.Timeout, StartTimeout: p.StartTimeout, Runtimes: map[string][]string{}, Plugins: map[string]plugin.Settings{}}
	if len(p.Python) > 0 {
		out.Runtimes["python"] = p.Python
	}
	if len(p.Node) > 0 {
		out.Runtimes["javascript"] = p.Node
		out.Runtimes["typescript"] = append(slices.Clone(p.Node), "--experimental-strip-types")
	}
	for name, s := range p.Settings {
		out.Plugins[name] = plugin.Settings{Disabled: s.Disabled, Pass: s.Pass, Timeout: s.Timeout, Config: s.Config}
	}
	return out
}

// MCP is one of [mcp.NAME], a server of the Model Context Protocol.
type MCP struct {
	// Command is a server on this machine; Pass names variables of the server's
	// environment that it gets.
	Command []string
	Pass    []string
	// URL is a server over HTTP. Token is sent to it as "Authorization: Bearer …".
	URL       string
	Token     Secret
	TokenFile string
	// Headers are sent besides.
	Headers map[string]Secret
	// Prefix is put before the names of its tools.
	Prefix string
	// Allow, Confirm and Interruptible are those of mcp.Config, by the server's names.
	Allow         []string
	Confirm       []string
	Interruptible []string
	// Timeout bounds one call, StartTimeout connecting.
	Timeout      time.Duration
	StartTimeout time.Duration
}

// Server is the configuration of the connection.
func (m *MCP) Server(name string) mcp.Config {
	out := mcp.Config{
		Name: name, Process: tool.Process{Command: m.Command, Pass: m.Pass}, URL: m.URL, Prefix: m.Prefix,
		Allow: m.Allow, Confirm: m.Confirm, Interruptible: m.Interruptible, Timeout: m.Timeout, StartTimeout: m.StartTimeout,
		Headers: revealed(m.Headers),
	}
	if m.Token.Reveal() != "" {
		out.Headers["Authorization"] = "Bearer " + m.Token.Reveal()
	}
	return out
}

// readDestinations reads the destinations of the tools in section, of one agent.
func (l *loader) readDestinations(section string, t *Tools, table map[string]any) {
	raw, ok := table["destinations"]
	if !ok {
		return
	}
	delete(table, "destinations")
	t.Destinations = map[string]*Destination{}
	l.readNamed(section+".destinations", raw, named{
		what: `a number in quotes, or { to = "…" }`, text: "to",
		add: func(name string) reflect.Value {
			t.Destinations[name] = &Destination{}
			return reflect.ValueOf(t.Destinations[name]).Elem()
		},
	})
}

// readPlugins reads [plugins.NAME].
func (l *loader) readPlugins(table map[string]any) {
	own := map[string]any{}
	for name, raw := range table {
		if inner, ok := raw.(map[string]any); ok {
			own[name] = inner
			delete(table, name)
		}
	}
	if len(own) == 0 {
		return
	}
	l.config.Plugins.Settings = map[string]*Plugin{}
	l.readNamed("plugins", own, named{what: "a section", add: func(name string) reflect.Value {
		p := &Plugin{}
		l.config.Plugins.Settings[name] = p
		inner := own[name].(map[string]any)
		if config, ok := inner["config"].(map[string]any); ok {
			p.Config = config
			delete(inner, "config")
		}
		return reflect.ValueOf(p).Elem()
	}})
}

// readMCP reads [mcp.NAME].
func (l *loader) readMCP(raw any) {
	l.config.MCP = map[string]*MCP{}
	taken := map[string]string{}
	l.readNamed("mcp", raw, named{what: "a section such as [mcp.docs]", add: func(name string) reflect.Value {
		l.config.MCP[name] = &MCP{Timeout: 30 * time.Second, StartTimeout: 10 * time.Second}
		if other, ok := taken[variable(name)]; ok {
			l.wrong("mcp."+name, fmt.Sprintf("is too much like %q: their variables have one name", other))
		}
		taken[variable(name)] = name
		return reflect.ValueOf(l.config.MCP[name]).Elem()
	}, variables: "PARLEY_MCP_"})
}

// validateTools checks the tools of one agent.
func (l *loader) validateTools(prefix string, a *Assistant) {
	section, t := prefix+"tools", a.Tools
	policy := a.CallPolicy()
	policy.Destinations = nil // below, each in its place
	_, err := tool.CallTools(struct{ tool.Line }{}, policy)
	l.room(section, err)
	for name, n := range map[string]int{"transfers": t.Transfers, "transfers_per_hour": t.TransfersPerHour, "digits": t.Digits} {
		if n < 0 {
			l.wrong(section+"."+name, fmt.Sprintf("%d, must not be negative", n))
		}
	}
	for name, d := range map[string]time.Duration{"confirmation_ttl": t.ConfirmationTTL, "timeout": t.Timeout} {
		if d < time.Second || d > time.Hour {
			l.wrong(section+"."+name, fmt.Sprintf("%v is not between 1s and 1h", d))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Destinations)) {
		path := section + ".destinations." + name
		if l.complained(path) || l.lines[section+".destinations"] == 0 { // inherited: told of above
			continue
		}
		one := tool.CallPolicy{Destinations: []tool.Destination{{Name: name, To: t.Destinations[name].To}}}
		if _, err := tool.CallTools(struct{ tool.Line }{}, one); err != nil {
			l.wrong(path, `must say where to: a number, or a sip: or tel: URI`)
		}
	}
}

// validateServers checks [plugins] and [mcp].
func (l *loader) validateServers() {
	p := l.config.Plugins
	for name, d := range map[string]time.Duration{"timeout": p.Timeout, "start_timeout": p.StartTimeout} {
		if d < 100*time.Millisecond || d > time.Hour {
			l.wrong("plugins."+name, fmt.Sprintf("%v is not between 100ms and 1h", d))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.config.MCP)) {
		path, m := "mcp."+name, l.config.MCP[name]
		if err := m.Server(name).Validate(); err != nil && !l.complained(path) {
			l.room(path, errors.New(strings.TrimPrefix(err.Error(), "mcp: "+name+": ")))
		}
		if m.Timeout < 0 || m.StartTimeout < 0 {
			l.wrong(path, "times must not be negative")
		}
		if given := m.Token.Reveal() != "" || m.TokenFile != "" || len(m.Headers) > 0; given && m.URL == "" {
			l.wrong(path, "token and headers are for a url; a command gets its secrets from the variables that pass names")
		}
		if len(m.Pass) > 0 && len(m.Command) == 0 {
			l.wrong(path+".pass", "is for a command")
		}
	}
}
