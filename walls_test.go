package parley

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// walls says who may import whom: for every room the rooms it may use. A name
// that ends in "/*" stands for the rooms one step below. Rooms that are not named
// may import nothing of ours. docs/architecture.md gives the reasons; test files
// may use any room but those of never.
var walls = map[string][]string{
	"cmd/*":  {"anything"},
	"test/*": {"anything"},
	"config": {"anything"},
	"api":    {"call", "identity", "agent"}, // agent: the events that call reports

	"call": {
		"sip", "sip/sdp", "rtp", "rtp/jitter", "rtp/dtmf",
		"media", "media/resample", "media/vad", "media/plc", "media/tone", "agent", "identity",
	},

	"agent/kit":          {"agent", "agent/live", "agent/tool", "agent/turn", "agent/chat", "agent/session", "media", "media/g711", "media/tone"},
	"agent/cascade":      {"agent", "agent/live", "agent/turn", "agent/chat", "agent/stt", "agent/tts", "agent/llm", "agent/machine", "media/resample", "media/tone"},
	"agent/live":         {"agent/tool"},
	"agent/live/*":       {"agent/live", "agent/tool"},
	"agent/live/openai":  {"agent/live", "agent/tool", "agent/live/socket", "media/resample"},
	"agent/live/gemini":  {"agent/live", "agent/tool", "agent/live/socket"},
	"agent/echo":         {"agent"},
	"agent/stream":       {"agent", "media", "media/g711"},
	"agent/stt/*":        {"agent/stt", "agent/stt/internal/utterance"},
	"agent/tts/*":        {"agent/tts"},
	"agent/stt/failover": {"agent/stt", "media/resample"},
	"agent/stt/openai":   {"agent/stt", "agent/stt/internal/utterance", "agent/internal/wire"},
	"agent/stt/deepgram": {"agent/stt", "agent/live", "agent/live/socket"}, // live: why a connection failed
	"agent/tts/failover": {"agent/tts", "media/resample"},
	// Voices of services: what they send as sound is read in one place. The socket is that of
	// realtime models, and knows no messages: a voice over a WebSocket needs nothing else.
	"agent/tts/sound":      {"agent/tts", "agent/internal/wire", "media/resample", "media/g711"},
	"agent/tts/openai":     {"agent/tts", "agent/tts/sound", "agent/internal/wire"},
	"agent/tts/deepgram":   {"agent/tts", "agent/tts/sound", "agent/internal/wire"},
	"agent/tts/elevenlabs": {"agent/tts", "agent/tts/sound", "agent/internal/wire"},
	"agent/tts/cartesia":   {"agent/tts", "agent/tts/sound", "agent/live/socket"},
	"agent/llm":            {"agent/chat"},
	"agent/llm/*":          {"agent/llm", "agent/chat", "agent/internal/wire", "agent/llm/internal/answer"},
	"agent/llm/runtime":    {"agent/llm", "agent/chat", "agent/tool", "agent/retrieval"},
	"agent/retrieval/*":    {"agent/retrieval"},
	"agent/record":         {"agent", "agent/session"},
	"agent/tool/*":         {"agent/tool"},
	"agent/session/*":      {"agent/session"},
	"sip":                  {"sip/sdp"},
	"media/*":              {"media"},
	"media/vad/silero":     {"media/vad"},
	"rtp/rtptest":          {"rtp"}, // a network in memory for tests
}

// never holds for test files too: a room that needs one of these to be tested
// cannot be understood alone.
var never = map[string][]string{
	"sip":      {"rtp", "agent", "identity", "call", "config", "api", "cmd"},
	"rtp":      {"sip", "agent", "identity", "call", "config", "api", "cmd"},
	"media":    {"sip", "agent", "identity", "call", "config", "api", "cmd"},
	"agent":    {"sip", "rtp", "identity", "call", "config", "api", "cmd"},
	"identity": {"sip", "rtp", "agent", "call", "config", "api", "cmd"},
	"call":     {"config", "api", "cmd"},
	"api":      {"config", "cmd"},
	"config":   {"cmd"},
}

// elsewhere are folders that are no rooms: modules and material of their own.
var elsewhere = []string{"bench", "examples", "docs", "out", "bin", "vendor", "node_modules", "testdata"}

func TestWalls(t *testing.T) {
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			to, ours := strings.CutPrefix(imported, "parley/")
			if !ours || to == s.room {
				continue
			}
			if !allowed(s, to) {
				t.Errorf("%s: %s must not import %s", s.name, s.room, to)
			}
		}
	}
}

// allowed says whether the file s may import the room to.
func allowed(s source, to string) bool {
	for from, rooms := range never {
		for _, room := range rooms {
			if within(s.room, from) && within(to, room) {
				return false
			}
		}
	}
	if s.test || within(to, s.room+"/internal") { // a room's own cellar
		return true
	}
	if within(to, "test") || within(to, "cmd") {
		return within(s.room, "test") || within(s.room, "cmd")
	}
	// A room that is named has its own wall; otherwise that of its neighbours.
	rooms, named := walls[s.room]
	for parent := path.Dir(s.room); !named && parent != "."; parent = path.Dir(parent) {
		rooms, named = walls[parent+"/*"]
	}
	return slices.Contains(rooms, "anything") || slices.Contains(rooms, to)
}

// within says whether room is tree or lies below it.
func within(room, tree string) bool {
	return room == tree || strings.HasPrefix(room, tree+"/")
}

func TestWallsAreSeen(t *testing.T) {
	// The table is only worth something if it refuses: these are violations.
	for _, c := range []struct {
		room string
		test bool
		to   string
		want bool
	}{
		{"sip", false, "agent", false},
		{"sip", true, "rtp/dtmf", false},
		{"sip", false, "sip/sdp", true},
		{"rtp", false, "media", false},
		{"rtp/jitter", false, "rtp", false},
		{"media/g711", false, "media", true},
		{"media/vad/silero", false, "media/wav", false},
		{"agent/stt/pocketsphinx", false, "agent/stt", true},
		{"agent/stt/pocketsphinx", false, "agent", false},
		{"agent/stt/pocketsphinx", false, "agent/stt/pocketsphinx/internal/wide", true},
		{"agent/stt", false, "agent/stt/pocketsphinx/internal/wide", false},
		{"agent/cascade", true, "agent/stt/stttest", true},
		{"agent/cascade", false, "call", false},
		{"agent", false, "identity", false},
		{"identity", true, "sip", false},
		{"call", false, "media/g711", false},
		{"call", true, "media/g711", true},
		{"call", false, "config", false},
		{"call", false, "api", false},
		{"api", false, "sip", false},
		{"api", false, "call", true},
		{"config", false, "sip", true},
		{"config", false, "cmd/sip-server", false},
		{"cmd/sip-server", false, "agent/tts/flite", true},
		{"call", false, "test/phone", false},
		{"new/room", false, "media", false},
	} {
		if got := allowed(source{room: c.room, test: c.test}, c.to); got != c.want {
			t.Errorf("%s (test %v) -> %s: %v, want %v", c.room, c.test, c.to, got, c.want)
		}
	}
}

func TestNoInitAndNoPanic(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || within(s.room, "test") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%s: init(): parts are plugged together in cmd/sip-server/plugs.go", s.at(n))
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "panic" && !within(s.room, "cmd") {
					t.Errorf("%s: panic: return an error", s.at(n))
				}
			}
			return true
		})
	}
}

// The sizes above which a reader loses the thread. Above the soft ones the test
// only reports, above the hard ones it fails.
const (
	softFile, hardFile         = 420, 700
	softFunction, hardFunction = 80, 150
)

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		report := func(what string, lines, soft, hard int) {
			switch {
			case lines > hard:
				t.Errorf("%s: %d lines, at most %d", what, lines, hard)
			case lines > soft:
				t.Logf("%s: %d lines, better at most %d", what, lines, soft)
			}
		}
		report(s.name, s.set.Position(s.file.FileEnd).Line, softFile, hardFile)
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1
				report(s.at(f)+": "+f.Name.Name, lines, softFunction, hardFunction)
			}
		}
	}
}

// source is one Go file of ours.
type source struct {
	name string // path from the root
	room string // its folder
	test bool
	file *ast.File
	set  *token.FileSet
}

func (s source) at(n ast.Node) string {
	return s.name + ":" + strconv.Itoa(s.set.Position(n.Pos()).Line)
}

// sources parses every Go file of the module, whatever its build tags are: a tool
// that asks the compiler would see only half of them, and could answer from a
// cache.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains(elsewhere, d.Name())):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		out = append(out, source{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), file, set})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
