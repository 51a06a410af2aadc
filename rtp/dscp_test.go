//go:build linux

package rtp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Every packet is marked for expedited forwarding (RFC 3246), by each driver and in
// both families.
func TestPacketsAreMarked(t *testing.T) {
	const want = 46 << 2
	for _, driver := range drivers() {
		for host, level := range map[string][3]int{
			"127.0.0.1": {unix.IPPROTO_IP, unix.IP_RECVTOS, unix.IP_TOS},
			"::1":       {unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, unix.IPV6_TCLASS},
		} {
			t.Run(driver+" "+host, func(t *testing.T) {
				conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(host)})
				if err != nil {
					t.Skip(err)
				}
				defer conn.Close()
				raw, err := conn.SyscallConn()
				if err != nil {
					t.Fatal(err)
				}
				var set error
				if err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), level[0], level[1], 1) }); err != nil || set != nil {
					t.Fatal(err, set)
				}
				cfg := local(driver)
				cfg.Addr = netip.MustParseAddr(host)
				w, err := NewWheel(cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				s := listen(t, w)
				s.SetFlow(Flow{Peer: conn.LocalAddr().(*net.UDPAddr).AddrPort(), Send: true, ClockRate: 8000, PacketTime: 10 * time.Millisecond, Rearm: true})
				s.Join(&counted{})
				b, oob := make([]byte, 2000), make([]byte, 200)
				if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					_, n, _, _, err := conn.ReadMsgUDPAddrPort(b, oob)
					if err != nil {
						t.Fatal(err)
					}
					messages, err := unix.ParseSocketControlMessage(oob[:n])
					if err != nil || len(messages) != 1 || int(messages[0].Header.Type) != level[2] || messages[0].Data[0] != want {
						t.Fatalf("%v %+v, want a mark of %#x", err, messages, want)
					}
				}
				s.Close()
			})
		}
	}
}
