package sip

import (
	"maps"
	"sync"
)

// Stats are counters since NewServer, and gauges of now.
type Stats struct {
	// Requests received, by method; those we do not know count as "OTHER".
	// Retransmissions count too.
	Requests map[string]uint64
	// Responses sent, by status code. Retransmissions do not count.
	Responses map[int]uint64
	// Malformed messages: refused for their form, or not even that.
	Malformed uint64
	// Dropped messages: stray ACKs and responses.
	Dropped uint64
	// Retransmitted requests and responses of ours.
	Retransmitted uint64
	// Overloads: new requests refused for MaxTransactions.
	Overloads uint64
	// Limited: messages and calls of sources above their rate, which were dropped.
	Limited uint64
	// Ignored: requests of strangers that were left without an answer.
	Ignored uint64
	// Panics recovered.
	Panics uint64
	// Dialogs answered and not ended, server transactions alive, TCP connections
	// open.
	Dialogs, Transactions, Connections int
}

// counter guards the counters of Stats. They count messages, not packets of
// sound: a lock is good enough.
type counter struct {
	mu sync.Mutex
	st Stats
}

func newCounter() counter {
	return counter{st: Stats{Requests: make(map[string]uint64), Responses: make(map[int]uint64)}}
}

func (s *Server) count(f func(*Stats)) {
	s.counter.mu.Lock()
	defer s.counter.mu.Unlock()
	f(&s.counter.st)
}

func (s *Server) countRequest(method string) {
	if !knownMethod(method) {
		method = "OTHER" // the peer must not be able to grow the map
	}
	s.count(func(st *Stats) { st.Requests[method]++ })
}

func (s *Server) countResponse(code int) {
	s.count(func(st *Stats) { st.Responses[code]++ })
}

// Stats returns a copy.
func (s *Server) Stats() Stats {
	s.counter.mu.Lock()
	st := s.counter.st
	st.Requests, st.Responses = maps.Clone(st.Requests), maps.Clone(st.Responses)
	s.counter.mu.Unlock()
	st.Transactions = s.txs.len()
	st.Dialogs = s.dialogs.live()
	s.mu.Lock()
	st.Connections = len(s.conns)
	s.mu.Unlock()
	return st
}
