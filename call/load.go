package call

import (
	"cmp"
	"slices"
)

// TrunkLoad is how many calls a trunk has at the moment.
type TrunkLoad struct {
	// Name is the trunk's name.
	Name string
	// Active is how many calls of both directions are up or being set up, Limit how
	// many may be: Trunk.MaxCalls, 0 for no limit.
	Active, Limit int
}

// TrunkLoads are those of all trunks, by name. It may be called from any goroutine.
func (s *Server) TrunkLoads() []TrunkLoad {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]TrunkLoad, 0, len(s.trunks))
	for name, t := range s.trunks {
		out = append(out, TrunkLoad{Name: name, Active: t.active, Limit: t.cfg.MaxCalls})
	}
	slices.SortFunc(out, func(a, b TrunkLoad) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
