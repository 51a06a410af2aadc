package sipp

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"parley/test/peers"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !slices.ContainsFunc(os.Args, func(a string) bool { return strings.Contains(a, "parallel") }) {
		_ = flag.Set("test.parallel", "10") // scenarios mostly wait
	}
	if os.Getenv("PARLEY_SIPP_TARGET") != "" {
		os.Exit(m.Run()) // the target is not in a namespace of ours
	}
	peers.Main(m)
}

// scenario is one run and what must be true afterwards.
type scenario struct {
	file string
	args []string
	// user is who is called, "agent" when it is empty, and local SIPp's address.
	user, local string
	// settings are the server's. Scenarios with the same share one, unless they want
	// one alone.
	settings peers.Settings
	alone    bool
	// own has a server started, once SIPp waits at a port that settings name as PORT
	// and a second SIPp, which plays second, at PORT2.
	own    bool
	second string
	// slow takes the gateway whose agent lets the caller hear ringing.
	slow bool
	// calls is how many calls the server must have on record of this run.
	calls int
	// refused is the code that the server must have refused the INVITE with, and
	// says so in its log.
	refused int
	// order is what is asked of the API beside the number and the trunk, for the
	// scenarios in which SIPp is called.
	order map[string]any
	// prepare comes before, and gives more arguments for SIPp.
	prepare func(st *stage) []string
	// drive is what else happens meanwhile, check what must be true in the end.
	drive func(st *stage)
	check func(st *stage)
}

// callee says whether SIPp is called in this scenario.
func (s *scenario) callee() bool { return strings.HasPrefix(s.file, "uas-") }

func (s *scenario) name() string { return strings.Join(append([]string{s.file}, s.args...), " ") }

// servers are those that scenarios share.
type servers struct {
	t     *testing.T
	mu    sync.Mutex
	byAny map[peers.Settings]*peers.Server
}

// with is the server that has these settings.
func (all *servers) with(settings peers.Settings) *peers.Server {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.byAny[settings]
	if s == nil {
		s = peers.StartServer(all.t, settings)
		all.byAny[settings] = s
	}
	return s
}

// table collects a line for each scenario.
type table struct {
	mu    sync.Mutex
	lines []string
}

func (tab *table) add(t *testing.T, s *scenario, began time.Time) {
	verdict := map[bool]string{false: "passed", true: "FAILED"}[t.Failed()]
	if t.Skipped() {
		verdict = "skipped"
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.lines = append(tab.lines, fmt.Sprintf("%s\t%s\t%.1f s\t%s", s.name(), verdict, time.Since(began).Seconds(), about(s.file)))
}

func (tab *table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	slices.Sort(tab.lines)
	for _, l := range tab.lines {
		_, _ = fmt.Fprintln(w, l)
	}
	_ = w.Flush()
	return b.String()
}

var comment = regexp.MustCompile(`(?s)<!-- (.*?) -->`)

// about is the first comment of a file: what it shows.
func about(file string) string {
	text, _ := Scenarios.ReadFile(file + ".xml")
	if m := comment.FindSubmatch(text); m != nil {
		return strings.Join(strings.Fields(string(m[1])), " ")
	}
	return ""
}

func TestScenarios(t *testing.T) {
	peers.Need(t, "sipp", "sip-tester")
	foreign := os.Getenv("PARLEY_SIPP_TARGET")
	if foreign == "" {
		peers.Isolated(t)
	}
	var tab table
	all := &servers{t: t, byAny: map[peers.Settings]*peers.Server{}}
	list := slices.Concat(callers, callees())
	// The longest first, so that they go on beside all others.
	slices.SortStableFunc(list, func(a, b scenario) int { return weight(b) - weight(a) })
	t.Run("of", func(t *testing.T) {
		for _, s := range list {
			t.Run(s.name(), func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				defer func() { tab.add(t, &s, began) }()
				if foreign != "" {
					s.against(t, foreign)
				} else {
					s.run(t, all)
				}
			})
		}
	})
	for _, server := range all.byAny {
		server.End()
	}
	t.Logf("SIPp:\n%s", tab.String())
}

// weight says how early a scenario begins.
func weight(s scenario) int {
	switch {
	case strings.Contains(s.file, "session-timer"):
		return 2
	case s.file == "uac-load": // before the machine is busy
		return 3
	case s.own:
		return 1
	}
	return 0
}

// against plays the scenario at a host that is not ours.
func (s *scenario) against(t *testing.T, target string) {
	if s.settings != (peers.Settings{}) || s.slow || s.own || s.drive != nil || s.callee() {
		t.Skip("this scenario needs a server with settings of its own")
	}
	user := os.Getenv("PARLEY_SIPP_USER")
	if user == "" {
		user = "parley"
	}
	st := &stage{T: t}
	local, err := net.Dial("udp", target) // sends nothing
	if err != nil {
		t.Fatal(err)
	}
	from := local.LocalAddr().(*net.UDPAddr).IP.String()
	_ = local.Close()
	st.sipp = Start(t, Play{File: s.file, Target: target, User: user, Local: from, Args: s.keys(st)})
	st.Run = st.sipp.Finish()
	st.verdict()
	if s.check != nil {
		s.check(st)
	}
}

// keys are SIPp's arguments, with the port of an ear where the scenario names one.
func (s *scenario) keys(st *stage) []string {
	text, err := Scenarios.ReadFile(s.file + ".xml")
	if err != nil {
		st.Fatal(err)
	}
	args := slices.Clone(s.args)
	if strings.Contains(string(text), "[media]") {
		st.ear = Listen(st.T)
		args = append(args, "-key", "media", fmt.Sprint(st.ear.Port))
	}
	return args
}

// verdict is SIPp's.
func (st *stage) verdict() {
	st.Helper()
	if st.Status == 0 {
		return
	}
	st.Errorf("SIPp ended with status %d: %s", st.Status, st.Output)
	for _, m := range st.Messages[max(0, len(st.Messages)-6):] {
		st.Logf("%s %s", map[bool]string{true: "->", false: "<-"}[m.Sent], m.Text)
	}
}

// run plays the scenario at a server of ours and compares what that recorded.
func (s *scenario) run(t *testing.T, all *servers) {
	st := &stage{T: t}
	switch {
	case s.slow:
		s.ring(st)
		return
	case s.own:
		s.first(st)
	default:
		if s.settings == (peers.Settings{}) {
			s.settings = plain
		}
		st.server = all.with(s.settings)
		if s.alone {
			st.server = peers.StartServer(t, s.settings)
		}
		if s.callee() {
			s.called(st)
		} else {
			s.calling(st)
		}
	}
	if s.drive != nil {
		s.drive(st)
	}
	st.Run = st.sipp.Finish()
	st.verdict()
	if s.refused != 0 && !refused(st.server, st.sipp.Tag, s.refused) {
		st.Errorf("the server's log has no request of this run refused with %d", s.refused)
	}
	if s.own {
		st.records = st.server.Records(s.calls)
	} else {
		st.records = st.ofThisRun(s.calls)
	}
	if s.check != nil {
		s.check(st)
	}
	if s.alone || s.own {
		st.server.End()
	}
}

// ring plays it at a gateway whose agent is slow to open.
func (s *scenario) ring(st *stage) {
	st.agent = &peers.Performer{OpenAfter: 700 * time.Millisecond}
	g := peers.StartGateway(st.T, st.agent)
	st.sipp = Start(st.T, Play{File: s.file, Target: g.Host, User: "agent", Args: s.args})
	st.Run = st.sipp.Finish()
	st.verdict()
	st.records = g.Records(s.calls)
	if s.check != nil {
		s.check(st)
	}
}

// calling has SIPp call the server.
func (s *scenario) calling(st *stage) {
	target, user := st.server.Host, s.user
	if s.settings.IPv6 {
		target = st.server.Host6
	}
	if user == "" {
		user = "agent"
	}
	if s.second != "" {
		st.other = Start(st.T, Play{File: s.second, Port: ports()[s.file]})
		st.waits(ports()[s.file])
	}
	args := s.keys(st)
	if s.prepare != nil {
		args = append(args, s.prepare(st)...)
	}
	st.sipp = Start(st.T, Play{File: s.file, Target: target, User: user, Local: s.local, Args: args})
}

// called has the server call SIPp by its API.
func (s *scenario) called(st *stage) {
	port := ports()[s.file]
	st.sipp = Start(st.T, Play{File: s.file, Port: port, Args: s.keys(st)})
	st.waits(port)
	if s.second != "" {
		st.other = Start(st.T, Play{File: s.second, Port: port + 4})
		st.waits(port + 4)
	}
	order := map[string]any{"to": "+12025550123", "trunk": s.file}
	for k, v := range s.order {
		order[k] = v
	}
	var answer struct{ ID string }
	if code := st.server.Ask(st.Context(), http.MethodPost, "/calls", order, &answer); code != http.StatusAccepted {
		st.Fatalf("the call was not taken: %d", code)
	}
	st.id = answer.ID
}

// first starts SIPp and then the server, which begins by itself.
func (s *scenario) first(st *stage) {
	port := freePorts(st.T)
	st.sipp = Start(st.T, Play{File: s.file, Port: port, Args: s.keys(st)})
	st.waits(port)
	if s.second != "" {
		st.other = Start(st.T, Play{File: s.second, Port: port + 4})
		st.waits(port + 4)
	}
	settings := s.settings
	settings.Rest = strings.NewReplacer("PORT2", fmt.Sprint(port+4), "PORT", fmt.Sprint(port)).Replace(settings.Rest)
	st.server = peers.StartServer(st.T, settings)
}
