package sip

import (
	"context"
	"net/netip"
)

// LocalAddr is the address of ours that leads to a trunk, for a session description:
// the one that we are bound to, or the one that the system sends from.
func (s *Server) LocalAddr(ctx context.Context, t Trunk) (netip.Addr, error) {
	all, err := s.targets(ctx, t)
	if err != nil {
		return netip.Addr{}, err
	}
	to := all[0].addr
	if l, err := s.listenerFor(t.Transport, to.Addr()); err == nil && !l.bound().Addr().IsUnspecified() {
		return l.bound().Addr().Unmap(), nil
	}
	return routeTo(to), nil
}
