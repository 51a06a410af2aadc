package sipp

import (
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
)

// Each run of SIPp has so many ports for itself: one for signalling, the third for
// sound and those behind it.
const portsEach = 10

// used counts the ports given away. Runs go on at the same time, so none is given
// twice; all are below those of peers.FreePort and those that the system picks from.
var used atomic.Int32

// freePorts is the first, even one of portsEach ports that are free now.
func freePorts(t testing.TB) int {
	t.Helper()
	for range 2000 {
		port := 11000 + int(used.Add(portsEach)-portsEach)%10000
		if free(port) && free(port+2) && free(port+4) {
			return port
		}
	}
	t.Fatal("no ports are free")
	return 0
}

func free(port int) bool {
	syscall.ForkLock.RLock() // see peers.FreePort
	defer syscall.ForkLock.RUnlock()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	udp, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	_ = udp.Close()
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	_ = tcp.Close()
	return true
}
