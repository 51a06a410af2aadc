package peers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/call"
)

// theCall waits until the server has one call that is answered and returns it.
func (s *Server) theCall(t *testing.T) call.Status {
	t.Helper()
	var list struct{ Calls []call.Status }
	if !Eventually(5*time.Second, func() bool {
		return s.Ask(within(t), http.MethodGet, "/calls?state=answered", nil, &list) == 200 && len(list.Calls) == 1
	}) {
		t.Fatalf("the calls are %+v", list.Calls)
	}
	return list.Calls[0]
}

// Keys that are sent over HTTP reach the telephone, and its own the server.
func TestBaresipGetsKeys(t *testing.T) {
	Isolated(t)
	t.Parallel()
	for _, transport := range []string{"udp", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			s := StartServer(t, Settings{API: true})
			b := StartBaresip(t, "+12025550140", microphone(t, nil, 0, 20*time.Second), "PCMU/8000/1", transport)
			b.Call(s.URI("echo") + ";transport=" + transport)
			c := s.theCall(t)
			if code := s.Ask(within(t), http.MethodPost, "/calls/"+c.ID+"/dtmf", map[string]string{"digits": "12,*#D"}, nil); code != 204 {
				t.Errorf("POST dtmf: %d", code)
			}
			if !Eventually(3*time.Second, func() bool { return b.Saw("CALL_DTMF_END") >= 5 }) {
				t.Error("not all keys came")
			}
			if got := strings.Join(b.Params("CALL_DTMF_START"), ""); got != "12*#D" {
				t.Errorf("baresip got the keys %q", got)
			}
			for _, key := range []string{"7", "*"} {
				b.Do("sndcode", key)
				time.Sleep(400 * time.Millisecond)
			}
			b.Do("hangup", "")
			if r := s.Records(1)[0]; r.Stats.Digits != 2 || r.CallID != c.ID || r.Cause != call.CauseCallerHungUp {
				t.Errorf("record %+v", r)
			}
		})
	}
}

func TestLinphoneGetsKeys(t *testing.T) {
	Isolated(t)
	t.Parallel()
	s := StartServer(t, Settings{API: true})
	l := StartLinphone(t, "+12025550141", microphone(t, nil, 0, 20*time.Second))
	l.Call(s.URI("echo"))
	c := s.theCall(t)
	time.Sleep(500 * time.Millisecond) // it does not listen for keys at once
	if code := s.Ask(within(t), http.MethodPost, "/calls/"+c.ID+"/dtmf", map[string]string{"digits": "12*#"}, nil); code != 204 {
		t.Errorf("POST dtmf: %d", code)
	}
	for _, key := range "12*#" {
		l.WaitFor(fmt.Sprintf("Receiving tone %c from", key), 3*time.Second)
	}
	l.Tell("8")
	time.Sleep(time.Second)
	l.Tell("terminate")
	if r := s.Records(1)[0]; r.Stats.Digits != 1 || r.CallID != c.ID {
		t.Errorf("record %+v", r)
	}
}
