//go:build !linux

package sip

import (
	"net"
	"net/netip"
)

// Other systems than Linux are asked for the route to the peer instead.

func wantDestination(*net.UDPConn) bool { return false }

func destination([]byte) (netip.Addr, bool) { return netip.Addr{}, false }

func sourceControl(netip.Addr, bool) []byte { return nil }
