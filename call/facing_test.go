package call

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestFacing(t *testing.T) {
	four, six := netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()
	lan := netip.MustParseAddr("192.0.2.5")
	for _, c := range []struct {
		name              string
		local, peer, want netip.Addr
	}{
		{"met in the network", lan, netip.MustParseAddr("192.0.2.9"), lan},
		{"a peer on the loopback too", four, netip.MustParseAddr("127.0.0.2"), four},
		{"a peer that names no address", four, netip.Addr{}, four},
		{"a hold of RFC 2543", four, netip.IPv4Unspecified(), four},
		{"another family", four, netip.MustParseAddr("2001:db8::1"), four},
		{"another family, the other way", six, lan, six},
		{"an address nobody has told us", netip.Addr{}, lan, netip.Addr{}},
	} {
		if got := facing(c.local, c.peer); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	own := ownAddress(t)
	if got := facing(four, own); got != own {
		t.Errorf("a peer of this machine at %v is met from %v", own, got)
	}
}

// ownAddress is an IPv4 address of this machine that is not the loopback's.
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			return p.Addr()
		}
	}
	t.Skip("this machine has no address but the loopback's")
	return netip.Addr{}
}

// The first offer decides where we are; what comes later in the call does not move us.
func TestTheAnswerNamesTheAddressThatThePeerSees(t *testing.T) {
	n := testNegotiation()
	asked := 0
	n.facing = func(_, peer netip.Addr) netip.Addr {
		asked++
		if want := netip.MustParseAddr("192.0.2.1"); peer != want {
			t.Errorf("asked for %v, want %v", peer, want)
		}
		return netip.MustParseAddr("192.0.2.7")
	}
	for i, line := range []string{"a=sendrecv", "a=ptime:30"} {
		answer, _, refusal := n.answer(offered("m=audio 4000 RTP/AVP 0", line))
		if refusal != nil {
			t.Fatal(refusal)
		}
		if !strings.Contains(string(answer), "c=IN IP4 192.0.2.7\r\n") {
			t.Errorf("answer %d names another address:\n%s", i, answer)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
