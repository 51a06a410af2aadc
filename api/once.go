package api

import (
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// How long and how many Idempotency-Keys are remembered.
const (
	onceTime = 24 * time.Hour
	onceMax  = 10000
)

// once remembers what came of requests that carried an Idempotency-Key, so that one
// which is sent again places no second call
// (draft-ietf-httpapi-idempotency-key-header). It is safe for concurrent use.
type once struct {
	mu    sync.Mutex
	done  map[string]*result
	order []*result // by age
}

// result is what came of the request with one key.
type result struct {
	key     string
	body    [sha256.Size]byte
	at      time.Time
	id      string // of the call; empty while it is being placed
	removed bool
}

func newOnce() *once { return &once{done: map[string]*result{}} }

// begin asks for the place of a key, which stands for one body. id is that of the
// call which the same request placed before. Otherwise the caller goes on and calls
// end.
func (o *once) begin(key string, body []byte, now time.Time) (id string, end func(id string), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.order) > 0 && (o.order[0].removed || now.Sub(o.order[0].at) >= onceTime || len(o.order) >= onceMax) {
		if old := o.order[0]; !old.removed {
			delete(o.done, old.key)
			old.removed = true
		}
		o.order = o.order[1:]
	}
	hash := sha256.Sum256(body)
	if r := o.done[key]; r != nil {
		switch {
		case r.body != hash:
			return "", nil, trouble(http.StatusUnprocessableEntity, "idempotency_key_reused", "Another request had this Idempotency-Key.", "Use a new key for each call.").on("Idempotency-Key")
		case r.id == "":
			return "", nil, trouble(http.StatusConflict, "idempotency_key_busy", "The first request with this Idempotency-Key is still being worked on.", "Try again.").on("Idempotency-Key").later(time.Second)
		}
		return r.id, nil, nil
	}
	r := &result{key: key, body: hash, at: now}
	o.done[key] = r
	o.order = append(o.order, r)
	return "", func(id string) { o.end(r, id) }, nil
}

// end notes the call that was placed. When none was, the key is free again.
func (o *once) end(r *result, id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if id != "" {
		r.id = id
		return
	}
	if !r.removed {
		delete(o.done, r.key)
		r.removed = true
	}
}
