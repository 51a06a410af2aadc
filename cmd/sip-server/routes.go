package main

import (
	"parley/agent"
	"parley/call"
	"parley/config"
)

// needed are the names of the agents that calls may come to: the default one only
// when a rule, or the lack of rules, gives it calls.
func (p *plugs) needed() []string {
	names := p.cfg.AgentNames()
	if p.routes == nil {
		return names
	}
	for _, r := range p.cfg.Route {
		if agentName(r.Agent) == config.DefaultAgent {
			return names
		}
	}
	return names[1:]
}

// agentName is an agent's name as logs and records have it.
func agentName(name string) string {
	if name == "" {
		return config.DefaultAgent
	}
	return name
}

// route finds the agent for a call.
func (p *plugs) route(q call.Request) (call.Routed, bool) {
	var rule call.Route
	if p.routes != nil {
		var ok bool
		if rule, ok = p.routes.Match(q); !ok {
			return call.Routed{}, false
		}
	}
	opener := p.agent(rule.Agent)
	return call.Routed{Route: rule.Name, Agent: agentName(rule.Agent), Opener: opener}, opener != nil
}

// agent finds an agent by its name; nil when there is none.
func (p *plugs) agent(name string) agent.Opener { return p.agents[agentName(name)] }
