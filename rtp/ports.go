package rtp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// Ports hands out the even ports of a range, in turn from a random one on, so
// that a port rests as long as can be before it is used again.
type Ports struct {
	quarantine time.Duration

	mu    sync.Mutex
	first uint16          // an even port
	next  int             // index to try first
	free  []time.Duration // by index: when it may be used again; inUse for never
}

// inUse stands for the time at which a port that is taken will be free.
const inUse = time.Duration(1<<63 - 1)

// pairs is how many even ports with the odd one above lie in min-max.
func pairs(min, max uint16) int {
	first := int(min) + int(min)&1
	if n := (int(max) - first + 1) / 2; min > 0 && n > 0 {
		return n
	}
	return 0
}

// newPorts makes the pool of a range; an odd min begins one above.
func newPorts(min, max uint16, quarantine time.Duration) *Ports {
	p := &Ports{quarantine: quarantine, first: min + min&1, free: make([]time.Duration, pairs(min, max))}
	if len(p.free) > 0 {
		p.next = rand.IntN(len(p.free))
	}
	return p
}

// Take reserves a port that bind can bind. A port that another process has is
// passed over; any other error of bind ends the search. The error wraps ErrNoPort
// when all are in use or in quarantine.
func (p *Ports) Take(now time.Duration, bind func(port uint16) error) (uint16, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	foreign := 0
	for range p.free {
		i := p.next
		p.next = (p.next + 1) % len(p.free)
		if p.free[i] > now {
			continue
		}
		port := p.first + uint16(2*i)
		switch err := bind(port); {
		case err == nil:
			p.free[i] = inUse
			return port, nil
		case errors.Is(err, syscall.EADDRINUSE):
			foreign++
		default:
			return 0, err
		}
	}
	used, resting := p.count(now)
	return 0, fmt.Errorf("%w in %d-%d: %d in use, %d in quarantine, %d taken by others",
		ErrNoPort, p.first, int(p.first)+2*len(p.free)-1, used, resting, foreign)
}

// Release puts a port into quarantine.
func (p *Ports) Release(port uint16, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free[(port-p.first)/2] = now + p.quarantine
}

// Count is how many ports are in use, in quarantine, and there at all.
func (p *Ports) Count(now time.Duration) (used, resting, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used, resting = p.count(now)
	return used, resting, len(p.free)
}

func (p *Ports) count(now time.Duration) (used, resting int) {
	for _, at := range p.free {
		switch {
		case at == inUse:
			used++
		case at > now:
			resting++
		}
	}
	return used, resting
}
