package sipp

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"parley/call"
	"parley/test/peers"
	"parley/test/phone"
)

func TestMain(m *testing.M) {
	if os.Getenv("PARLEY_SIPP_TARGET") != "" {
		os.Exit(m.Run()) // the target is not in a namespace of ours
	}
	peers.Main(m)
}

// result is what a check may look at. records is empty for a foreign target.
type result struct {
	Run
	records []call.Record
}

// scenario is one run and what must be true afterwards.
type scenario struct {
	file     string
	args     []string
	settings peers.Settings
	// slow takes the gateway whose agent lets the caller hear ringing.
	slow bool
	// calls is how many calls the server must have on record.
	calls int
	// refused is the code that the server must have refused the INVITE with.
	refused int
	check   func(t *testing.T, r result)
}

// record checks the record of the one call.
func record(check func(r call.Record) bool) func(*testing.T, result) {
	return func(t *testing.T, r result) {
		t.Helper()
		for _, rec := range r.records {
			if !check(rec) {
				t.Errorf("the record is not as it should be: %+v", rec)
			}
		}
	}
}

// sound: about so many packets came in, none was lost, and sound went out.
func sound(least, most uint64) func(call.Record) bool {
	return func(r call.Record) bool {
		s := r.Stats
		return s.PacketsIn >= least && s.PacketsIn <= most && s.Lost == 0 && s.Strange == 0 && s.PacketsOut >= least/2 && r.Cause == call.CauseCallerHungUp
	}
}

var scenarios = []scenario{
	{file: "uac-answer-bye", calls: 1, check: record(sound(80, 110))},
	{file: "uac-answer-bye", args: []string{"-t", "t1"}, calls: 1, check: record(sound(80, 110))},
	{file: "uac-load", args: []string{"-m", "60", "-r", "20", "-d", "2000"}, calls: 60, check: record(sound(70, 120))},
	{file: "uac-cancel-while-ringing", slow: true},
	{file: "uac-hold-resume", calls: 1, check: record(func(r call.Record) bool { return r.Cause == call.CauseCallerHungUp && r.Stats.PacketsIn > 60 })},
	{file: "uac-late-offer", calls: 1, check: record(sound(35, 65))},
	{file: "uac-late-offer-unanswered", calls: 1, check: record(func(r call.Record) bool { return r.Cause != call.CauseCallerHungUp })},
	{file: "uac-options"},
	{file: "uac-no-common-codec", refused: 488},
	{file: "uac-bad-bye"},
	{file: "uac-unknown-require"},
	{file: "uac-unknown-method", calls: 1},
	{file: "uac-retransmitted-invite", slow: true, calls: 1},
	{file: "uac-merged-request", slow: true, calls: 1},
	{file: "uac-no-ack", settings: peers.Settings{SIP: `t1 = "50ms"`}, calls: 1, check: func(t *testing.T, r result) {
		// 50, 100, 200 ... 3200 ms with T1 = 50 ms; and never a BYE before the end.
		if n := r.Count(false, "SIP/2.0 200"); n < 5 {
			t.Errorf("the 200 was sent %d times", n)
		}
		record(func(r call.Record) bool { return r.Cause == call.CauseNoACK })(t, r)
	}},
	{file: "uac-late-ack", calls: 1, check: func(t *testing.T, r result) {
		if n := r.Count(false, "SIP/2.0 200 "); n < 3 {
			t.Errorf("the 200 was sent %d times before the ACK came", n)
		}
	}},
	{file: "uac-info-dtmf", calls: 1, check: record(func(r call.Record) bool { return r.Stats.Digits == 2 })},
	{file: "uac-reinvite-codec", calls: 1, check: record(func(r call.Record) bool { return r.Codec == "PCMU" })},
	{file: "uac-reinvite-refused", calls: 1, check: record(sound(35, 70))},
	{file: "uac-update", calls: 1},
	{file: "uac-old-sequence", calls: 1, check: record(func(r call.Record) bool { return r.Stats.Digits == 0 })},
	{file: "uac-over-capacity", settings: peers.Settings{Call: "max_calls = 1"}, calls: 1, refused: 503},
	{file: "uac-trunk-headers", calls: 1, check: record(func(r call.Record) bool { return r.ResourceID == "+12025550191" })},
	{file: "uac-withheld-identity", calls: 1, check: record(func(r call.Record) bool { return r.ResourceID == "" })},
}

func TestScenarios(t *testing.T) {
	peers.Need(t, "sipp", "sip-tester")
	foreign := os.Getenv("PARLEY_SIPP_TARGET")
	if foreign == "" {
		peers.Isolated(t)
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	for _, s := range scenarios {
		name := strings.Join(append([]string{s.file}, s.args...), " ")
		t.Run(name, func(t *testing.T) {
			defer func() {
				verdict := map[bool]string{false: "passed", true: "FAILED"}[t.Failed()]
				if t.Skipped() {
					verdict = "skipped"
				}
				fmt.Fprintf(w, "%s\t%s\n", verdict, name)
			}()
			if foreign != "" {
				s.against(t, foreign)
			} else {
				s.run(t)
			}
		})
	}
	_ = w.Flush()
	t.Logf("SIPp:\n%s", table.String())
}

// against plays the scenario at a host that is not ours.
func (s scenario) against(t *testing.T, target string) {
	if s.settings != (peers.Settings{}) || s.slow {
		t.Skip("this scenario needs a server with settings of its own")
	}
	r := Play(t, s.file, target, "parley", s.args...)
	s.verdict(t, r)
	if s.check != nil {
		s.check(t, result{Run: r})
	}
}

func (s scenario) verdict(t *testing.T, r Run) {
	t.Helper()
	if r.Status == 0 {
		return
	}
	t.Errorf("SIPp ended with status %d: %s", r.Status, r.Output)
	for _, m := range r.Messages[max(0, len(r.Messages)-6):] {
		t.Logf("%s %s", map[bool]string{true: "->", false: "<-"}[m.Sent], m.Text)
	}
}

// run plays the scenario at a server of its own and compares its records.
func (s scenario) run(t *testing.T) {
	if s.slow {
		g := peers.StartGateway(t, &peers.Performer{OpenAfter: 700 * time.Millisecond})
		s.verdict(t, Play(t, s.file, g.Host, "agent", s.args...))
		g.Records(s.calls)
		return
	}
	server := peers.StartServer(t, s.settings)
	if s.file == "uac-over-capacity" {
		defer occupy(t, server)()
	}
	r := Play(t, s.file, server.Host, "agent", s.args...)
	s.verdict(t, r)
	if s.refused != 0 && !server.Refused(s.refused) {
		t.Errorf("the server's log has no call refused with %d", s.refused)
	}
	if s.file == "uac-over-capacity" {
		return // the call on record is the one that occupies the server
	}
	res := result{Run: r, records: server.Records(s.calls)}
	if s.check != nil {
		s.check(t, res)
	}
	server.End()
}

// occupy holds a call until the returned function is called.
func occupy(t *testing.T, server *peers.Server) func() {
	t.Helper()
	p, err := phone.New(phone.Config{Number: "+12025550193"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Dial(t.Context(), server.URI("agent"))
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := c.Hangup(t.Context()); err != nil {
			t.Error(err)
		}
		server.Records(1)
		_ = p.Close()
	}
}

func TestEveryFileIsPlayed(t *testing.T) {
	files, err := fs.Glob(Scenarios, "*.xml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(f, ".xml")
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.file == name }) {
			t.Errorf("%s is in no run", f)
		}
		text, _ := Scenarios.ReadFile(f)
		if strings.Contains(string(text), "ACK [") && strings.Contains(string(text), "[last_CSeq:]\nContent-Length: 0\n\n  ]]></send>\n  <recv") {
			t.Errorf("%s copies the CSeq of another message into a request", f)
		}
		if !strings.Contains(string(text), `<scenario name="`+name+`">`) {
			t.Errorf("%s does not bear its name", f)
		}
	}
}

func TestParseMessages(t *testing.T) {
	const log = "----------------------------------------------- 2026-01-01 00:00:00.000000\nUDP message sent (12 bytes):\n\nINVITE sip:a\r\nTo: x\r\n" +
		"\n----------------------------------------------- 2026-01-01 00:00:00.000001\nUDP message received [9] bytes :\n\nSIP/2.0 200 OK\r\n"
	got := parseMessages(log)
	if len(got) != 2 || !got[0].Sent || got[1].First() != "SIP/2.0 200 OK" {
		t.Errorf("%+v", got)
	}
	if n := (Run{Messages: got}).Count(false, "SIP/2.0 2"); n != 1 {
		t.Errorf("%d responses", n)
	}
}
