//go:build !unix

package rtp

import "syscall"

// markDSCP does nothing: here the system decides about the mark.
func markDSCP(int) func(network, address string, c syscall.RawConn) error { return nil }
