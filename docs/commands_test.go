package docs_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/agent"
	"parley/api"
	"parley/call"
)

var (
	makes    = regexp.MustCompile(`(?:^|\s)make ([a-z][a-z-]*)`)
	rule     = regexp.MustCompile(`(?m)^([a-z-]+):`)
	commands = regexp.MustCompile(`sip-server ([a-z|]+(?:-[a-z]+)*)((?: [^#]*)?)`)
	flags    = regexp.MustCompile(`--([a-z][a-z-]*)`)
)

func TestMakeTargets(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range rule.FindAllStringSubmatch(string(text), -1) {
		targets = append(targets, m[1])
	}
	seen := 0
	for _, p := range pages(t) {
		for _, line := range p.commandLines() {
			for _, m := range makes.FindAllStringSubmatch(line, -1) {
				seen++
				if !slices.Contains(targets, m[1]) {
					t.Errorf("%s: there is no `make %s`", p.name, m[1])
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d seen", seen)
	}
}

func TestCommands(t *testing.T) {
	names, options := commandLine(t)
	seen := 0
	for _, p := range pages(t) {
		for _, line := range p.commandLines() {
			for _, m := range commands.FindAllStringSubmatch(line, -1) {
				for name := range strings.SplitSeq(m[1], "|") {
					seen++
					if !slices.Contains(names, name) {
						t.Errorf("%s: there is no `sip-server %s`, only %s", p.name, name, names)
					}
				}
				for _, f := range flags.FindAllStringSubmatch(m[2], -1) {
					if !slices.Contains(options, f[1]) {
						t.Errorf("%s: `%s`: there is no flag --%s", p.name, line, f[1])
					}
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d seen", seen)
	}
}

// commandLine reads the commands and flags from the source of the command line.
func commandLine(t *testing.T) (names, options []string) {
	t.Helper()
	options = []string{"help"}
	files, err := filepath.Glob(filepath.Join(root, "cmd", "sip-server", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		ast.Inspect(parse(t, name), func(n ast.Node) bool {
			f, ok := n.(*ast.Field)
			if !ok || f.Tag == nil || len(f.Names) == 0 {
				return true
			}
			text, _ := strconv.Unquote(f.Tag.Value)
			tag := reflect.StructTag(text)
			name := strings.ToLower(f.Names[0].Name)
			if other := tag.Get("name"); other != "" {
				name = other
			}
			if _, command := tag.Lookup("cmd"); command {
				names = append(names, name)
			} else if _, help := tag.Lookup("help"); help {
				options = append(options, name)
			}
			return true
		})
	}
	return names, options
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var (
	metric    = regexp.MustCompile(`\bparley_[a-z_]+`)
	described = regexp.MustCompile(`(?m)^# HELP (parley_[a-z_]+)`)
)

// Every metric named is served, and every one served is described.
func TestMetrics(t *testing.T) {
	served := served(t)
	var told []string
	for _, p := range pages(t) {
		for _, name := range metric.FindAllString(p.text, -1) {
			if !slices.Contains(served, name) {
				t.Errorf("%s: there is no metric %s", p.name, name)
			}
			if p.name == filepath.Join("docs", "operating.md") {
				told = append(told, name)
			}
		}
	}
	for _, name := range served {
		if !slices.Contains(told, name) {
			t.Errorf("docs/operating.md says nothing of %s", name)
		}
	}
}

// served is the names of the metrics that a gateway serves which has seen
// everything once.
func served(t *testing.T) []string {
	t.Helper()
	m := api.NewMetrics(api.Sources{
		Active: func() int { return 0 }, Limit: func() int { return 1 },
		Ready: func() error { return nil },
		Wheel: func() api.Wheel {
			return api.Wheel{Total: 1, Bounds: []time.Duration{time.Millisecond}, Counts: []uint64{0, 0}}
		},
		Signalling: func() api.Signalling {
			return api.Signalling{Requests: map[string]uint64{"INVITE": 1}, Responses: map[int]uint64{200: 1}}
		},
		Sessions:   func() api.Sessions { return api.Sessions{} },
		Switches:   func() map[api.Switch]uint64 { return map[api.Switch]uint64{{Part: "tts"}: 1} },
		Trunks:     func() []api.Trunk { return []api.Trunk{{Name: "carrier"}} },
		TrunkLoads: func() []call.TrunkLoad { return []call.TrunkLoad{{Name: "carrier", Limit: 1}} },
		Sound: func() call.SoundStats {
			d := call.Delay{Bounds: []time.Duration{time.Millisecond}, Counts: []uint64{0, 0}}
			return call.SoundStats{Delays: call.Delays{Hear: d, Say: d, Stop: d}}
		},
	})
	m.CallStarted(call.Started{})
	m.CallEnded(call.Record{})
	m.CallRefused(503, "max_calls")
	m.CallEvent("", agent.Event{Type: agent.EventBargeIn})
	m.CallEvent("", agent.Event{Type: agent.EventError})
	m.CallEvent("", agent.Event{Type: agent.EventTiming})
	m.CallFailed(call.Record{})
	s, err := api.New(api.DefaultConfig(), api.Parts{Ready: func() error { return nil }, Metrics: m, Calls: unlisted{}})
	if err != nil {
		t.Fatal(err)
	}
	get := func(method, path string) string {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(`{"to":"1"}`))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		s.Handler().ServeHTTP(w, r)
		return w.Body.String()
	}
	get(http.MethodPost, "/calls") // refused, and counted
	text := get(http.MethodGet, "/metrics")
	var out []string
	for _, found := range described.FindAllStringSubmatch(text, -1) {
		out = append(out, found[1])
	}
	if len(out) < 30 {
		t.Fatalf("only %d metrics served", len(out))
	}
	return out
}

// unlisted are calls of which none can be placed.
type unlisted struct{ anyCalls }

// anyCalls has another name than its method.
type anyCalls interface{ api.Calls }

// Dial implements api.Calls.
func (unlisted) Dial(context.Context, call.Outgoing) (string, error) { return "", call.ErrDraining }

// operating.md lists every type of event and every cause of a call's end.
func TestEvents(t *testing.T) {
	text, err := os.ReadFile("operating.md")
	if err != nil {
		t.Fatal(err)
	}
	told := newPage("docs/operating.md", string(text)).code
	names := append(constants(t, filepath.Join(root, "agent", "event.go"), "Event"),
		constants(t, filepath.Join(root, "call", "observer.go"), "Cause")...)
	if len(names) < 15 {
		t.Fatalf("only %d names found: %q", len(names), names)
	}
	for _, name := range names {
		if !slices.Contains(told, name) {
			t.Errorf("docs/operating.md says nothing of `%s`", name)
		}
	}
}

// constants are the texts of the constants of a file whose names begin so.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	var out []string
	ast.Inspect(parse(t, file), func(n ast.Node) bool {
		s, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(s.Names[0].Name, prefix) || len(s.Values) != 1 {
			return true
		}
		if lit, ok := s.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, _ := strconv.Unquote(lit.Value)
			out = append(out, text)
		}
		return true
	})
	return out
}
