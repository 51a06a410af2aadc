package rtptest

import (
	"errors"
	"net/netip"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stream sends 1000 packets over a network and gives what came.
func stream(t *testing.T, seed uint64, c Conditions) ([]Seen, Counts) {
	n := New(seed, c)
	to, err := NewPeer(n, netip.AddrPort{}, netip.AddrPort{})
	if err != nil {
		t.Fatal(err)
	}
	from, err := NewPeer(n, netip.AddrPort{}, to.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		from.Send(false, []byte{1})
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(time.Second)
	from.Close()
	to.Close()
	if n.Open() != 0 {
		t.Errorf("%d sockets open", n.Open())
	}
	return to.Seen(), n.Counts()
}

func TestNetworkDoesWhatItWasToldAndCountsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, c := stream(t, 1, Conditions{})
		if len(seen) != 1000 || c != (Counts{Sent: 1000, Delivered: 1000}) {
			t.Errorf("a good network: %d, %+v", len(seen), c)
		}
		seen, c = stream(t, 1, Conditions{Loss: 0.1, Duplicate: 0.1, Reorder: 0.1, Delay: 50 * time.Millisecond, Jitter: 30 * time.Millisecond})
		swapped, twice := 0, 0
		for i, s := range seen[1:] {
			switch before := seen[i].Sequence; {
			case s.Sequence == before:
				twice++
			case int16(s.Sequence-before) < 0:
				swapped++
			}
		}
		if c.Lost < 50 || c.Lost > 150 || c.Sent-c.Lost+c.Duplicated != c.Delivered || uint64(len(seen)) != c.Delivered || uint64(twice) != c.Duplicated || swapped < int(c.Reordered)/2 || c.Reordered < 50 {
			t.Errorf("a bad network: %d swapped, %d twice, %+v", swapped, twice, c)
		}
		again, c2 := stream(t, 1, Conditions{Loss: 0.1, Duplicate: 0.1, Reorder: 0.1, Delay: 50 * time.Millisecond, Jitter: 30 * time.Millisecond})
		for i := range again {
			again[i].At = seen[i].At
		}
		if c != c2 || !reflect.DeepEqual(seen, again) {
			t.Error("the same seed did something else")
		}
		if other, _ := stream(t, 2, Conditions{Loss: 0.1}); len(other) == len(seen) {
			t.Error("another seed did the same")
		}
	})
}

func TestSocketsOfANetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1, Conditions{})
		addr := netip.MustParseAddrPort("127.0.0.9:40000")
		a, err := n.Listen(addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Listen(addr); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("twice: %v", err)
		}
		if _, err := NewPeer(n, addr, addr); err == nil {
			t.Error("a peer on a port that is taken")
		}
		b, err := n.Listen(netip.AddrPortFrom(addr.Addr(), 0))
		if err != nil || b.LocalAddr().String() != "127.0.0.9:40002" {
			t.Errorf("any port: %v %v", b.LocalAddr(), err)
		}
		n.Set(Conditions{Delay: time.Second})
		for _, to := range []string{"127.0.0.9:40002", "127.0.0.9:1"} {
			if _, err := a.WriteToUDPAddrPort([]byte{1}, netip.MustParseAddrPort(to)); err != nil {
				t.Error(err)
			}
		}
		b.Close()
		b.Close()
		if _, err := b.WriteToUDPAddrPort([]byte{1}, addr); err == nil {
			t.Error("a closed socket sent")
		}
		a.Close()
		if c := n.Counts(); c != (Counts{Sent: 2, Unreachable: 1, Unread: 1}) {
			t.Errorf("%+v", c)
		}
	})
}
