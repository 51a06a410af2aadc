package sipp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/call"
	"parley/test/peers"
)

// stage is a scenario at work.
type stage struct {
	*testing.T
	server *peers.Server
	sipp   *Running
	ear    *Ear
	other  *Running
	agent  *peers.Performer // of a slow one
	// id is the call's at the API.
	id string
	Run
	records []call.Record
}

// waits returns when SIPp has the port.
func (st *stage) waits(port int) {
	if !peers.Eventually(10*time.Second, func() bool { return !free(port) }) {
		st.Fatalf("SIPp does not listen on port %d", port)
	}
}

// refused says whether the log has a request of the run refused with a code.
func refused(server *peers.Server, tag string, code int) bool {
	return peers.Eventually(3*time.Second, func() bool {
		for line := range strings.Lines(server.Output()) {
			if strings.Contains(line, tag) && strings.Contains(line, fmt.Sprintf(`:%d,`, code)) {
				return true
			}
		}
		return false
	})
}

// ofThisRun waits until n calls of the run are over, and returns their records.
func (st *stage) ofThisRun(n int) []call.Record {
	st.Helper()
	var mine []call.Record
	look := func() bool {
		mine = nil
		_, records := st.server.Journal()
		for _, r := range records {
			if r.CallID == st.id || strings.Contains(r.SIPCallID, st.sipp.Tag+"-") {
				mine = append(mine, r)
			}
		}
		return len(mine) >= n
	}
	peers.Eventually(5*time.Second, look)
	if len(mine) != n {
		st.Errorf("the server has records of %d calls of this run, want %d", len(mine), n)
	}
	return mine
}

// record checks each record of the run.
func record(check func(r call.Record) bool) func(*stage) {
	return func(st *stage) {
		st.Helper()
		for _, rec := range st.records {
			if !check(rec) {
				st.Errorf("the record is not as it should be: %+v", rec)
			}
		}
	}
}

// status waits until the call is in a state, and makes its id known.
func (st *stage) status(state string) {
	st.Helper()
	if !peers.Eventually(10*time.Second, func() bool {
		time.Sleep(50 * time.Millisecond) // the API answers so many requests a second
		if st.id == "" {
			st.find()
			return false
		}
		var c struct{ State string }
		return st.server.Ask(st.Context(), http.MethodGet, "/calls/"+st.id, nil, &c) == http.StatusOK && c.State == state
	}) {
		st.Fatalf("the call is not %s", state)
	}
}

// find looks for the call that SIPp has placed.
func (st *stage) find() {
	var list struct {
		Calls []struct {
			ID      string
			SIPCall string `json:"sip_call_id"`
		}
	}
	st.server.Ask(st.Context(), http.MethodGet, "/calls?limit=200", nil, &list)
	for _, c := range list.Calls {
		if strings.Contains(c.SIPCall, st.sipp.Tag+"-") {
			st.id = c.ID
		}
	}
}

// act does something to the call by the API and returns the status.
func (st *stage) act(what string, body any) int {
	ctx, cancel := context.WithTimeout(st.Context(), 20*time.Second)
	defer cancel()
	return st.server.Ask(ctx, http.MethodPost, "/calls/"+st.id+"/"+what, body, nil)
}

// must is act where it has to be done.
func (st *stage) must(what string, body any) {
	st.Helper()
	if code := st.act(what, body); code != http.StatusNoContent {
		st.Errorf("%s: status %d", what, code)
	}
}

// hangUp ends the call by the API after a while of it.
func (st *stage) hangUp(after time.Duration) {
	st.Helper()
	time.Sleep(after)
	if code := st.server.Ask(st.Context(), http.MethodDelete, "/calls/"+st.id, nil, nil); code != http.StatusNoContent {
		st.Errorf("hanging up: status %d", code)
	}
}

// talk lets an answered call go on for a while and then ends it by the API.
func talk(d time.Duration) func(*stage) {
	return func(st *stage) {
		st.status(call.StateAnswered)
		st.hangUp(d)
	}
}
