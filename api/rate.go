package api

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxClients bounds the clients whose rates are told apart. Beyond it they share
// one.
const maxClients = 1024

// rates bounds how fast each client may make requests. It is safe for concurrent
// use.
type rates struct {
	limit rate.Limit
	burst int

	mu      sync.Mutex
	clients map[string]*rate.Limiter
	others  *rate.Limiter
}

func newRates(perSecond float64, burst int) *rates {
	return &rates{
		limit: rate.Limit(perSecond), burst: burst,
		clients: map[string]*rate.Limiter{}, others: rate.NewLimiter(rate.Limit(perSecond), burst),
	}
}

// take is 0 when the client may make a request now, else how long it should wait.
func (r *rates) take(client string, now time.Time) time.Duration {
	l := r.of(client, now)
	reservation := l.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now) // refused requests cost nothing later
	}
	return wait
}

// of is the client's limiter. When the table is full those who were quiet long
// enough to have all of their burst again are forgotten, which changes nothing for
// them.
func (r *rates) of(client string, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.clients[client]; l != nil {
		return l
	}
	if len(r.clients) >= maxClients {
		for name, l := range r.clients {
			if l.TokensAt(now) >= float64(r.burst) {
				delete(r.clients, name)
			}
		}
	}
	if len(r.clients) >= maxClients {
		return r.others
	}
	l := rate.NewLimiter(r.limit, r.burst)
	r.clients[client] = l
	return l
}
