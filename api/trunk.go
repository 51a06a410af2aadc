package api

import (
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
	// TrunkUnregistered: it is known by its address or its certificate, or calls only
	// go out by it; there is no registration.
	TrunkUnregistered = "unregistered"
)

// Trunk is a trunk, and its registration, as it is now. It holds no secrets.
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

// trunks is GET /trunks.
func (s *Server) trunks(w http.ResponseWriter, _ *http.Request, _ client) error {
	list := []Trunk{} // an empty list, not null
	if s.parts.Metrics.trunks != nil {
		list = append(list, s.parts.Metrics.trunks()...)
	}
	give(w, http.StatusOK, list)
	return nil
}

func (c *sourceCollector) trunks(ch chan<- prometheus.Metric, list []Trunk) {
	for _, t := range list {
		if t.State == TrunkUnregistered {
			continue // a 0 would look like a failure
		}
		up := 0
		if t.State == TrunkRegistered {
			up = 1
		}
		c.gauge(ch, "trunk_registered", up, t.Name)
		c.count(ch, "trunk_registration_failures_total", t.Failures, t.Name)
	}
}
