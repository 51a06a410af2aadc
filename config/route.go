package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"parley/call"
	"parley/identity"
)

// Routes are the rules of [[route]]; nil when there are none.
func (c *Config) Routes() (*call.Routes, error) {
	if len(c.Route) == 0 {
		return nil, nil
	}
	regions := map[string]string{"": c.Identity.Region}
	for _, t := range c.Trunk {
		regions[t.Name] = c.region(t)
	}
	return call.NewRoutes(c.Route, regions, numbering)
}

// numbering is how numbers are compared.
func numbering(dialled, region string) string {
	who, err := identity.New(identity.Config{Region: region})
	if err != nil {
		return "" // no such region: validate tells
	}
	caller, err := who.Resolve(identity.Source{From: identity.Party{URI: identity.URI{Scheme: "tel", User: dialled}}})
	if err != nil {
		return ""
	}
	return caller.Number
}

// readRoutes reads all [[route]].
func (l *loader) readRoutes(raw any) {
	l.readList("route", raw, func() reflect.Value {
		l.config.Route = append(l.config.Route, call.Route{})
		return reflect.ValueOf(&l.config.Route).Elem()
	})
}

// validateRoutes asks the room, and sees that what routes name is there.
func (l *loader) validateRoutes() {
	c := l.config
	routes, err := c.Routes()
	for _, one := range leaves(err) {
		if e, ok := errors.AsType[*call.RouteError](one); ok {
			l.wrong(fmt.Sprintf("route[%d].%s", e.Index, e.Field), e.Text)
		}
	}
	var trunks, used []string
	for _, t := range c.Trunk {
		trunks = append(trunks, t.Name)
	}
	for i, r := range c.Route {
		section := fmt.Sprintf("route[%d]", i)
		if r.Trunk != "" && !slices.Contains(trunks, r.Trunk) {
			l.wrong(section+".trunk", fmt.Sprintf("there is no trunk %q%s", r.Trunk, didYouMean(r.Trunk, trunks)))
		}
		if c.AgentNamed(r.Agent) == nil {
			l.wrong(section+".agent", fmt.Sprintf("there is no agent %q%s", r.Agent, didYouMean(r.Agent, c.AgentNames())))
		}
		used = append(used, r.Agent)
	}
	for _, name := range c.AgentNames()[1:] {
		if !slices.Contains(used, name) {
			l.warn("agents."+name, "no route gives it calls; only calls that are placed by its name come to it")
		}
	}
	if err != nil || routes == nil {
		return
	}
	for _, s := range routes.Shadowed() {
		l.warn(fmt.Sprintf("route[%d]", s.Index), fmt.Sprintf("%q never gets a call: %q before it takes them all", c.Route[s.Index].Name, c.Route[s.By].Name))
	}
}
