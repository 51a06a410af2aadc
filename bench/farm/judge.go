package main

import (
	"slices"
	"syscall"
	"time"
)

// verdict is what the arrivals say about the system under test.
type verdict struct {
	Streams int     `json:"streams"` // that sent at all in the window
	Packets int     `json:"packets"`
	Lost    int     `json:"lost"`        // sequence numbers that never came
	Skipped int     `json:"skipped"`     // slots that were not sent: timestamps jumped, sequence did not
	RateMin float64 `json:"rate_min"`    // packets a second of the slowest stream
	RateMax float64 `json:"rate_max"`    // and of the fastest
	DevP50  float64 `json:"dev_p50_ms"`  // lateness against the stream's own schedule
	DevP99  float64 `json:"dev_p99_ms"`  //
	DevP999 float64 `json:"dev_p999_ms"` //
	DevMax  float64 `json:"dev_max_ms"`  //
	// GapMax is the longest silence of any stream; Burst the most packets that
	// came within 10 ms after it; Recover how long after it the stream was back
	// within 5 ms of its schedule.
	GapMax  float64 `json:"gap_max_ms"`
	Burst   int     `json:"burst"`
	Recover float64 `json:"recover_ms"`
	FarmCPU float64 `json:"farm_cpu_s"`
}

func judge(streams []*stream) verdict {
	v := verdict{RateMin: 1e9}
	var late []int64
	for _, s := range streams {
		if len(s.arrived) < 10 {
			continue
		}
		v.Streams++
		v.Packets += len(s.arrived)
		// Between first and last, so that a window of n seconds does not count one
		// packet more or less by its edges.
		last := len(s.arrived) - 1
		rate := float64(last) / time.Duration(s.arrived[last].at-s.arrived[0].at).Seconds()
		v.RateMin, v.RateMax = min(v.RateMin, rate), max(v.RateMax, rate)
		own := schedule(s.arrived)
		late = append(late, own...)
		v.count(s.arrived)
		v.stall(s.arrived, own)
	}
	if len(late) > 0 {
		slices.Sort(late)
		at := func(q float64) float64 { return ms(late[min(len(late)-1, int(q*float64(len(late))))]) }
		v.DevP50, v.DevP99, v.DevP999, v.DevMax = at(.5), at(.99), at(.999), at(1)
	}
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	v.FarmCPU = time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
	return v
}

// schedule is how late each packet is against an ideal sender that began when the
// stream's earliest packet, relative to its timestamp, says.
func schedule(a []arrival) []int64 {
	late := make([]int64, len(a))
	earliest := int64(1 << 62)
	for i := range a {
		slots := int64(int32(a[i].ts-a[0].ts)) / payload
		late[i] = a[i].at - a[0].at - slots*period*int64(time.Millisecond)
		earliest = min(earliest, late[i])
	}
	for i := range late {
		late[i] -= earliest
	}
	return late
}

func (v *verdict) count(a []arrival) {
	for i := 1; i < len(a); i++ {
		lost, skipped := between(a[i-1], a[i])
		v.Lost += lost
		v.Skipped += skipped
	}
}

// stall looks at what came after the longest gap of a stream.
func (v *verdict) stall(a []arrival, late []int64) {
	longest, end := int64(0), 0
	for i := 1; i < len(a); i++ {
		if gap := a[i].at - a[i-1].at; gap > longest {
			longest, end = gap, i
		}
	}
	burst := 0
	for i := end; i < len(a); i++ {
		n := 0
		for j := i; j < len(a) && a[j].at-a[i].at < int64(10*time.Millisecond); j++ {
			n++
		}
		burst = max(burst, n)
	}
	back := a[len(a)-1].at - a[end].at
	for i := end; i < len(a); i++ {
		if late[i] <= int64(5*time.Millisecond) {
			back = a[i].at - a[end].at
			break
		}
	}
	v.GapMax = max(v.GapMax, ms(longest))
	v.Burst = max(v.Burst, burst)
	v.Recover = max(v.Recover, ms(back))
}

func ms(ns int64) float64 { return float64(ns/1000) / 1000 }
