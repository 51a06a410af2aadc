package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// DefaultAgent is the name of the agent of the top-level sections.
const DefaultAgent = "default"

// AgentNames are the names of all agents, DefaultAgent first.
func (c *Config) AgentNames() []string {
	return append([]string{DefaultAgent}, slices.Sorted(maps.Keys(c.Agents))...)
}

// AgentNamed is an agent's sections by its name; empty is DefaultAgent. nil: there
// is none of that name.
func (c *Config) AgentNamed(name string) *Assistant {
	if name == "" || name == DefaultAgent {
		return &c.Assistant
	}
	return c.Agents[name]
}

// agentOf is the prefix of the sections of an agent, "agents.NAME."; nothing of a
// section that is no agent's of its own.
func agentOf(section string) string {
	rest, ok := strings.CutPrefix(section, "agents.")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, ".")
	return "agents." + name + "."
}

// inherited says that a mistake at path is no news: the agent has the value from
// the top level, where there is a mistake already.
func (l *loader) inherited(path string) bool {
	prefix := agentOf(path)
	return prefix != "" && l.lines[path] == 0 && l.complained(strings.TrimPrefix(path, prefix))
}

// readAgents reads [agents.NAME] over copies of the top level's sections.
func (l *loader) readAgents() {
	if l.agents == nil {
		return
	}
	table, ok := l.agents.(map[string]any)
	if !ok {
		l.wrong("agents", "must be sections such as [agents.sales.llm]")
		return
	}
	l.config.Agents = make(map[string]*Assistant, len(table))
	variables := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		path := "agents." + name
		sections, ok := table[name].(map[string]any)
		switch {
		case !ok:
			l.wrong(path, "must be a section, such as ["+path+".llm]; what is set for the one agent there is stands in [agent], not [agents]")
			continue
		case name == DefaultAgent:
			l.wrong(path, "is the name of the agent of the sections without a name")
			continue
		case name == "" || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r != '-' && (r == '/' || notWord(r)) }):
			l.wrong(path, "a name is letters, digits, - and _, 64 at the most")
			continue
		}
		if other, ok := variables[variable(name)]; ok {
			l.wrong(path, fmt.Sprintf("is too much like %q: their variables have one name", other))
			continue
		}
		variables[variable(name)] = name
		a := l.config.Assistant
		l.config.Agents[name] = &a
		l.readAgent(path, &a, sections)
	}
}

// readAgent reads the sections of one agent.
func (l *loader) readAgent(path string, a *Assistant, sections map[string]any) {
	keys := appendSections(nil, path+".", reflect.ValueOf(a).Elem())
	for i := range keys {
		if _, secret := keys[i].value.Addr().Interface().(*Secret); !secret {
			keys[i].env = "" // those of the top level are for all agents
		}
	}
	l.keys = append(l.keys, keys...)
	a.parted(sections)
	var known []string
	for _, k := range keys {
		if name := strings.TrimPrefix(k.section, path+"."); !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		full := path + "." + section
		table, ok := sections[section].(map[string]any)
		switch {
		case !ok:
			l.wrong(full, "a key outside of any section"+l.whereIs(full, section))
		case !slices.Contains(known, section):
			hint := didYouMean(section, known)
			if hint == "" {
				hint = "; an agent has " + strings.Join(known, ", ")
			}
			l.wrong(full, "no such section"+hint)
		default:
			if section == "tools" {
				l.readDestinations(full, &a.Tools, table)
			}
			l.readTable(full, table)
		}
	}
}
