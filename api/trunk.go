package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What a Trunk's State may be.
const (
	// TrunkRegistering: no answer so far.
	TrunkRegistering = "registering"
	// TrunkRegistered: calls come by it.
	TrunkRegistered = "registered"
	// TrunkFailed: the last attempt failed; another one follows.
	TrunkFailed = "failed"
	// TrunkClosed: the registration was taken back.
	TrunkClosed = "closed"
)

// Trunk is a registration as it is now. It holds no secrets.
type Trunk struct {
	// Name is the trunk's name in the configuration.
	Name string `json:"name"`
	// State is one of those above.
	State string `json:"state"`
	// Registrar is the address that took the registration, or was asked last.
	Registrar string `json:"registrar,omitempty"`
	// Since is when the registration began, Expires when it ends unless it is
	// refreshed; zero when there is none.
	Since   time.Time `json:"since,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	// Next is when it is refreshed or tried again.
	Next time.Time `json:"next,omitzero"`
	// Code is the status of the registrar's last answer, 0 for none.
	Code int `json:"code,omitempty"`
	// LastError is why the last attempt failed; empty when it did not. A
	// registration may still stand then, until it expires.
	LastError string `json:"last_error,omitempty"`
	// Failures counts the attempts that failed.
	Failures uint64 `json:"failures"`
}

// trunks lists the registrations.
func (s *Server) trunks(w http.ResponseWriter, _ *http.Request) {
	list := []Trunk{} // an empty list, not null
	if s.metrics.trunks != nil {
		list = append(list, s.metrics.trunks()...)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(list) // the client left: nothing to do about it
}

func (c *sourceCollector) trunks(ch chan<- prometheus.Metric, list []Trunk) {
	for _, t := range list {
		up := 0
		if t.State == TrunkRegistered {
			up = 1
		}
		c.gauge(ch, "trunk_registered", up, t.Name)
		c.count(ch, "trunk_registration_failures_total", t.Failures, t.Name)
	}
}
