package sip

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestBuckets(t *testing.T) {
	b := newBuckets(2, 3)
	now := time.Unix(1000, 0)
	a, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	took := func(from netip.Addr, n int) (got int) {
		for range n {
			if b.take(from, now) {
				got++
			}
		}
		return got
	}
	if n := took(a, 10); n != 3 {
		t.Errorf("%d at once", n)
	}
	if n := took(netip.MustParseAddr("::ffff:192.0.2.1"), 10); n != 0 {
		t.Errorf("%d more as IPv6", n)
	}
	if n := took(other, 10); n != 3 {
		t.Errorf("%d of another", n)
	}
	now = now.Add(time.Second)
	if n := took(a, 10); n != 2 {
		t.Errorf("%d after a second", n)
	}
	now = now.Add(time.Hour)
	if n := took(a, 10); n != 3 {
		t.Errorf("%d after an hour", n)
	}
	now = now.Add(-time.Hour) // a clock that is set back gives nothing and takes nothing
	if n := took(a, 10); n != 0 {
		t.Errorf("%d in the past", n)
	}
	one, same, next := netip.MustParseAddr("2001:db8:1:2::1"), netip.MustParseAddr("2001:db8:1:2:3:4:5:6"), netip.MustParseAddr("2001:db8:1:3::1")
	if took(one, 3) != 3 || took(same, 1) != 0 || took(next, 1) != 1 {
		t.Error("a network of 64 bits is one source")
	}
	if newBuckets(0, 5) != nil || !(*buckets)(nil).take(a, now) {
		t.Error("no rate is a limit")
	}
}

// A million sources that do not exist leave the table as it is, and the one that
// does is heard.
func TestBucketsUnderSpoofing(t *testing.T) {
	b := newBuckets(10, 30)
	now := time.Unix(1000, 0)
	n := uint32(0)
	spoof := func() {
		n++
		now = now.Add(time.Microsecond)
		x := n * 2654435761
		b.take(netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)}), now)
	}
	if allocs := testing.AllocsPerRun(1_000_000, spoof); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	honest := netip.MustParseAddr("203.0.113.7")
	for range 20 {
		for range 5000 {
			spoof()
		}
		if !b.take(honest, now) {
			t.Fatal("who calls once in a while is not heard")
		}
	}
}

// BR-164: strangers at 200 INVITEs a second, whatever they call themselves; only
// the rate counts. Over UDP the rest is dropped in silence, over a connection it
// is 503.
func TestStrangersRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGate(Access{Realm: "example.com", Required: RequireAlways, RatePerSource: 5, RateBurst: 5}, map[string]string{"alice": "secret"},
			[]Source{{Trunk: "pbx", Addrs: prefixes("127.0.0.9/32"), Rate: 2, Burst: 2}})
		if err != nil {
			t.Fatal(err)
		}
		rules := func(from string, n int) map[string]int {
			got := map[string]int{}
			for range n {
				m := &message{flow: &flow{remote: netip.AddrPortFrom(netip.MustParseAddr(from), 5060)}, method: "INVITE", uri: "sip:a@b"}
				_, rej := g.judge(m, nil)
				got[fmt.Sprint(rej.Code, " ", rej.Rule)]++
			}
			return got
		}
		if got := rules("127.0.0.2", 200); got["401 credentials"] != 5 || got["503 rate_per_source"] != 195 {
			t.Errorf("%v", got)
		}
		if got := rules("127.0.0.3", 1); got["401 credentials"] != 1 {
			t.Errorf("another source: %v", got)
		}
		if got := rules("127.0.0.9", 10); got["401 credentials"] != 2 || got["503 trunk_rate"] != 8 {
			t.Errorf("a trunk: %v", got)
		}
		time.Sleep(time.Second)
		if got := rules("127.0.0.2", 200); got["401 credentials"] != 5 {
			t.Errorf("a second later: %v", got)
		}
	})
}
