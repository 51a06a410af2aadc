package sip

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// The size of a table of buckets. It never changes, whatever sources there are or
// pretend to be: about 400 KB.
const (
	bucketSets = 4096
	bucketWays = 4
)

// bucket is how much one source may still do.
type bucket struct {
	key    uint64 // 0: free
	at     int64  // when tokens was right, in nanoseconds
	tokens float32
}

// buckets are token buckets by source address. Of a source that has been pushed
// out by others nothing is remembered: it begins with a full bucket again. So
// nobody is harmed by addresses that others make up, and who makes up addresses
// is not slowed down by it; that is what refusing without state is for.
type buckets struct {
	rate, burst float64 // tokens a second, and most at a time

	mu   sync.Mutex
	seed maphash.Seed
	sets [bucketSets][bucketWays]bucket
}

// newBuckets makes a table; it is nil, and lets everything through, without a
// rate.
func newBuckets(rate float64, burst int) *buckets {
	if rate <= 0 {
		return nil
	}
	return &buckets{rate: rate, burst: float64(burst), seed: maphash.MakeSeed()}
}

// take takes one token of a source. False: it has none.
func (b *buckets) take(source netip.Addr, now time.Time) bool {
	if b == nil {
		return true
	}
	key := b.key(source)
	at := now.UnixNano()
	b.mu.Lock()
	defer b.mu.Unlock()
	set := &b.sets[key%bucketSets]
	oldest := 0
	for i := range set {
		if set[i].key == key {
			return b.spend(&set[i], at)
		}
		if set[i].at < set[oldest].at {
			oldest = i
		}
	}
	set[oldest] = bucket{key: key, at: at, tokens: float32(b.burst)}
	return b.spend(&set[oldest], at)
}

// spend fills a bucket up for the time that passed and takes one token.
func (b *buckets) spend(one *bucket, at int64) bool {
	passed := max(0, time.Duration(at-one.at)).Seconds()
	one.tokens = float32(min(b.burst, float64(one.tokens)+passed*b.rate))
	one.at = at
	if one.tokens < 1 {
		return false
	}
	one.tokens--
	return true
}

// key is never 0. An IPv6 network of 64 bits is one source: who has one address
// of it has all.
func (b *buckets) key(source netip.Addr) uint64 {
	source = source.Unmap().WithZone("")
	if source.Is6() {
		if p, err := source.Prefix(64); err == nil {
			source = p.Addr()
		}
	}
	return maphash.Comparable(b.seed, source) | 1<<63
}
