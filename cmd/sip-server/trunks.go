package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"parley/api"
)

// unregisterPatience is how long the end waits for registrars that do not answer.
// What they hold then lasts until it expires.
const unregisterPatience = 5 * time.Second

// register begins the registrations at the trunks. The addresses are bound; a
// registrar that does not answer holds nothing up.
func (g *gateway) register() error {
	for _, t := range g.cfg.Registrations() {
		r, err := g.sip.Register(t)
		if err != nil {
			return fmt.Errorf("trunk %s: %w", t.Name, err)
		}
		g.lines = append(g.lines, r)
	}
	return nil
}

// unregister takes all registrations back, so that trunks send calls elsewhere, and
// waits for the answers. sip logs those that did not come.
func (g *gateway) unregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, unregisterPatience)
	defer cancel()
	var all sync.WaitGroup
	for _, r := range g.lines {
		all.Go(func() { _ = r.Close(ctx) })
	}
	all.Wait()
}

// trunks are the trunks and their registrations as they are now, in the order of the
// configuration.
func (g *gateway) trunks() []api.Trunk {
	var out []api.Trunk
	lines := g.lines
	for _, configured := range g.cfg.Trunk {
		if !configured.Register {
			out = append(out, api.Trunk{Name: configured.Name, State: api.TrunkUnregistered})
			continue
		}
		if len(lines) == 0 { // not begun
			out = append(out, api.Trunk{Name: configured.Name, State: api.TrunkRegistering})
			continue
		}
		r := lines[0]
		lines = lines[1:]
		st := r.State()
		t := api.Trunk{Name: st.Trunk, State: api.TrunkRegistering, Registrar: st.Registrar, Code: st.Code, Failures: st.Failed, Next: st.Next}
		if st.Err != nil {
			t.State, t.LastError = api.TrunkFailed, st.Err.Error()
		}
		switch {
		case st.Registered:
			t.State, t.Since, t.Expires = api.TrunkRegistered, st.Since, st.Expires
		case g.phase.Load() == draining:
			t.State, t.Next = api.TrunkClosed, time.Time{}
		}
		out = append(out, t)
	}
	return out
}
