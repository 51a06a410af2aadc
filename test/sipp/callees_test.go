package sipp

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"parley/call"
	"parley/test/peers"
)

// ports are those at which SIPp is called, by scenario: each is a trunk of its own of
// one server.
var ports = sync.OnceValue(func() map[string]int {
	out := map[string]int{"uac-refer-accepted": reserve()}
	for i := range calledScenarios {
		out[calledScenarios[i].file] = reserve()
	}
	return out
})

// trunks is the server that calls SIPp.
var trunks = sync.OnceValue(func() peers.Settings {
	var b strings.Builder
	trunk := func(name, hosts, more string) {
		fmt.Fprintf(&b, "[[trunk]]\nname = %q\nhosts = [%s]\ndomain = \"127.0.0.1\"\nuser = \"gw1\"\npassword = \"secret\"\nrealms = [\"trunk\"]\n"+
			"register = false\nallow = [\"+1202\"]\n%s\n", name, hosts, more)
	}
	for _, s := range calledScenarios {
		port := ports()[s.file]
		hosts := fmt.Sprintf("\"127.0.0.1:%d\"", port)
		if s.second != "" {
			hosts += fmt.Sprintf(", \"127.0.0.1:%d\"", port+4)
		}
		trunk(s.file, hosts, "")
	}
	trunk("carrier", `"127.0.0.2:5060"`, "sources = [\"127.0.0.2\"]\ntrust_identity = true")
	trunk("mover", fmt.Sprintf("\"127.0.0.1:%d\"", ports()["uac-refer-accepted"]), "sources = [\"127.0.0.3\"]\naccept_refer = true")
	return peers.Settings{API: true, Rest: b.String()}
})

// callees are the scenarios in which SIPp is called or registered at.
func callees() []scenario {
	var out []scenario
	for _, s := range calledScenarios {
		s.settings = trunks()
		out = append(out, s)
	}
	return append(out, registrars...)
}

// failed: the call was not answered, for that reason.
func failed(cause string, code int) func(*stage) {
	return record(func(r call.Record) bool { return r.Cause == cause && r.Code == code && r.Answered.IsZero() })
}

// heard: we hung up, and sound came until then.
func heard(least uint64) func(*stage) { return record(ended(call.CauseOperator, least)) }

var calledScenarios = []scenario{
	{file: "uas-answer", calls: 1, check: record(func(r call.Record) bool {
		return ended(call.CauseCalleeHungUp, 35)(r) && r.Stats.Lost == 0 && r.Stats.PacketsOut >= 20 && r.Trunk == "uas-answer"
	})},
	{file: "uas-bye-by-us", calls: 1, drive: talk(time.Second), check: heard(35)},
	{file: "uas-early-media", calls: 1, drive: talk(500 * time.Millisecond), check: record(func(r call.Record) bool {
		return r.Stats.Early >= 25 && r.Cause == call.CauseOperator
	})},
	{file: "uas-prack", calls: 1, drive: talk(500 * time.Millisecond), check: heard(10)},
	{file: "uas-busy", calls: 1, check: failed(call.CauseBusy, 486)},
	{file: "uas-declined", calls: 1, check: failed(call.CauseDeclined, 603)},
	{file: "uas-no-such-number", calls: 1, check: record(func(r call.Record) bool {
		return r.Cause == call.CauseNoSuchNumber && r.Code == 404 && r.Q850 == 1
	})},
	{file: "uas-ring-no-answer", calls: 1, order: map[string]any{"ring_timeout_seconds": 5}, check: record(func(r call.Record) bool {
		return r.Cause == call.CauseNoAnswer && r.Ended.Sub(r.Began) > 4900*time.Millisecond && r.Ended.Sub(r.Began) < 7*time.Second
	})},
	{file: "uas-late-200", calls: 1, order: map[string]any{"ring_timeout_seconds": 5}, check: record(ended(call.CauseNoAnswer, 0))},
	{file: "uas-unavailable", second: "uas-bye-by-us", calls: 1, drive: talk(time.Second), check: func(st *stage) {
		heard(35)(st)
		st.otherPlayed()
	}},
	{file: "uas-redirect", calls: 1, check: record(func(r call.Record) bool { return r.Code == 302 && r.Answered.IsZero() })},
	{file: "uas-challenge", calls: 1, drive: talk(500 * time.Millisecond), check: heard(10)},
	{file: "uas-challenge-sha256", calls: 1, drive: talk(500 * time.Millisecond), check: heard(10)},
	{file: "uas-forked-200", calls: 1, drive: talk(1800 * time.Millisecond), check: heard(10)},
	{file: "uas-lost-200", args: []string{"-nr"}, calls: 1, drive: talk(1800 * time.Millisecond), check: heard(10)},
	{file: "uas-session-timer", calls: 1, drive: talk(46 * time.Second), check: heard(2000)},
	{file: "uas-session-too-short", calls: 1, drive: talk(500 * time.Millisecond), check: heard(10)},
	{file: "uas-no-common-codec", calls: 1, check: record(func(r call.Record) bool { return r.Cause != call.CauseOperator && r.Stats.PacketsOut == 0 })},
	{file: "uas-reinvite", calls: 1, drive: talk(1800 * time.Millisecond), check: record(func(r call.Record) bool { return r.Codec == "PCMA" })},
	{file: "uas-transfer-blind", calls: 1, drive: transfer(http.StatusNoContent), check: func(st *stage) {
		record(ended(call.CauseTransferred, 10))(st)
		// From our answer on: how soon a busy SIPp sees it is not ours.
		if late := st.between("SIP/2.0 200", "BYE"); late > 200*time.Millisecond {
			st.Errorf("BYE %v after the answer to the last NOTIFY", late)
		}
	}},
	{file: "uas-transfer-failed", calls: 1, drive: func(st *stage) {
		transfer(http.StatusBadGateway)(st)
		st.hangUp(time.Second)
	}, check: heard(50)},
	{file: "uas-transfer-refused", calls: 1, drive: func(st *stage) {
		transfer(http.StatusBadGateway)(st)
		st.hangUp(time.Second)
	}, check: heard(50)},
	{file: "uas-hold", calls: 1, drive: func(st *stage) {
		st.status(call.StateAnswered)
		time.Sleep(500 * time.Millisecond)
		st.must("hold", struct{}{})
		st.status(call.StateHeld)
		time.Sleep(500 * time.Millisecond)
		st.must("resume", struct{}{})
		st.status(call.StateAnswered)
		st.hangUp(500 * time.Millisecond)
	}, check: func(st *stage) {
		heard(40)(st)
		st.steady()
	}},
	{file: "uas-dtmf", calls: 1, drive: func(st *stage) {
		st.status(call.StateAnswered)
		st.must("dtmf", map[string]string{"digits": "15,9*#D"})
		st.hangUp(200 * time.Millisecond)
	}, check: func(st *stage) {
		if keys, ended := st.ear.Keys(101); keys != "159*#D" || ended != 6 {
			st.Errorf("keys %q, %d of them with their end three times; want 159*#D, 6", keys, ended)
		}
	}},
}

// transfer transfers the answered call and wants that status.
func transfer(want int) func(*stage) {
	return func(st *stage) {
		st.status(call.StateAnswered)
		time.Sleep(400 * time.Millisecond)
		if code := st.act("transfer", map[string]string{"to": "+12025550177"}); code != want {
			st.Errorf("the transfer was answered %d, want %d", code, want)
		}
	}
}

// registered waits for so many registrations of the server, and asks the API for it.
func (st *stage) registered(n int) {
	st.Helper()
	if !peers.Eventually(20*time.Second, func() bool { return st.grants() >= n }) {
		st.Fatalf("%d registrations, want %d", st.grants(), n)
	}
	var trunks []struct{ Name, State string }
	if !peers.Eventually(2*time.Second, func() bool {
		st.server.Ask(st.Context(), http.MethodGet, "/trunks", nil, &trunks)
		return len(trunks) == 1 && trunks[0].State == "registered"
	}) {
		st.Errorf("the API says %+v", trunks)
	}
}

// grants are the answers 200 of SIPp to REGISTER.
func (st *stage) grants() (n int) {
	for _, m := range st.sipp.Messages() {
		if m.Sent && strings.HasPrefix(m.First(), "SIP/2.0 200") && strings.Contains(m.Header("CSeq"), "REGISTER") {
			n++
		}
	}
	return n
}

// unregistered ends the server after so many registrations.
func unregistered(n int) func(*stage) {
	return func(st *stage) {
		st.registered(n)
		st.server.End()
	}
}

// oneRegistration: all REGISTERs have the same Call-ID, and their CSeq goes up by one
// (RFC 3261 section 10.2.4).
func oneRegistration(st *stage) {
	ids, last := map[string]bool{}, 0
	for _, m := range st.Messages {
		if m.Sent || !strings.HasPrefix(m.First(), "REGISTER") {
			continue
		}
		var n int
		if _, err := fmt.Sscanf(m.Header("CSeq"), "%d", &n); err != nil || last != 0 && n != last+1 {
			st.Errorf("CSeq %d after %d, %v", n, last, err)
		}
		ids[m.Header("Call-ID")], last = true, n
	}
	if len(ids) != 1 {
		st.Errorf("%d Call-IDs of one registration", len(ids))
	}
}

const account = "[[trunk]]\nname = \"pbx\"\nhosts = [\"127.0.0.1:PORT\"]\ndomain = \"127.0.0.1\"\nuser = \"gw1\"\npassword = \"secret\"\nbackoff = \"200ms\"\nkeep_alive = \"0s\"\n"

var registrars = []scenario{
	{file: "uas-trunk-register", own: true, settings: peers.Settings{API: true, Rest: account}, drive: unregistered(2), check: oneRegistration},
	{file: "uas-registrar-stale-nonce", own: true, settings: peers.Settings{API: true, Rest: account}, drive: unregistered(3), check: oneRegistration},
	{file: "uas-registrar-unavailable", own: true, second: "uas-registrar",
		settings: peers.Settings{API: true, Rest: strings.Replace(account, "PORT\"]", "PORT\", \"127.0.0.1:PORT2\"]", 1)},
		drive: func(st *stage) {
			st.sipp, st.other = st.other, st.sipp
			st.registered(1)
			st.server.End()
		}, check: (*stage).otherPlayed},
	{file: "uas-registrar", own: true, settings: peers.Settings{API: true, Rest: account}, drive: unregistered(1), check: oneRegistration},
	{file: "uas-registrar-call", own: true, calls: 1, settings: peers.Settings{API: true, Rest: account}, drive: func(st *stage) {
		st.registered(1)
		st.server.Records(1)
		st.server.End()
	}, check: record(func(r call.Record) bool { return r.Trunk == "pbx" && sound(10, 60)(r) })},
}

// reserve is freePorts where no test is to blame.
func reserve() int {
	return 11000 + int(used.Add(portsEach)-portsEach)%10000
}

// steady: all requests of the server's one call have the same From and Call-ID, CSeq
// goes up by one, and the version of the session by one from offer to offer.
func (st *stage) steady() {
	var from, id, session string
	var sequence, version int
	for _, m := range st.Messages {
		if m.Sent || strings.HasPrefix(m.First(), "SIP/2.0") || strings.HasPrefix(m.First(), "ACK") {
			continue
		}
		var n int
		if _, err := fmt.Sscanf(m.Header("CSeq"), "%d", &n); err != nil || sequence != 0 && n != sequence+1 {
			st.Errorf("%s: CSeq %d after %d, %v", m.First(), n, sequence, err)
		}
		if from != "" && (m.Header("From") != from || m.Header("Call-ID") != id) {
			st.Errorf("%s: From or Call-ID have changed", m.First())
		}
		sequence, from, id = n, m.Header("From"), m.Header("Call-ID")
		_, origin, ok := strings.Cut(m.Text, "\no=")
		if fields := strings.Fields(origin); ok && len(fields) > 2 {
			var v int
			if _, err := fmt.Sscanf(fields[2], "%d", &v); err != nil || session != "" && (v != version+1 || fields[1] != session) {
				st.Errorf("session %s version %d after %s version %d, %v", fields[1], v, session, version, err)
			}
			session, version = fields[1], v
		}
	}
}

// between is the time from the last message received or sent that begins so to the
// next one received that begins with then.
func (st *stage) between(first, then string) time.Duration {
	var at time.Time
	for _, m := range st.Messages {
		switch {
		case strings.HasPrefix(m.First(), first):
			at = m.At
		case !m.Sent && !at.IsZero() && strings.HasPrefix(m.First(), then):
			return m.At.Sub(at)
		}
	}
	st.Errorf("no %s after %s", then, first)
	return 0
}

// apart is the time between two of the received messages that begin so, by their places.
// Copies of a message do not count.
func (st *stage) apart(start string, from, to int) time.Duration {
	st.Helper()
	var at []time.Time
	seen := map[string]bool{}
	for _, m := range st.Messages {
		if key := m.Header("CSeq"); !m.Sent && strings.HasPrefix(m.First(), start) && !seen[key] {
			seen[key], at = true, append(at, m.At)
		}
	}
	if len(at) <= max(from, to) {
		st.Errorf("%d messages %s, want %d", len(at), start, max(from, to)+1)
		return 0
	}
	return at[to].Sub(at[from])
}
