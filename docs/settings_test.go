package docs_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"parley/agent/llm/script"
	"parley/config"
	"parley/sip"
)

// sample is the sample configuration: section, key.
func sample(t *testing.T) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "sip-server.toml"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	if err := toml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

var (
	bracketed = regexp.MustCompile(`^\[([a-z.]+)\] ([a-z0-9_]+)`)
	dotted    = regexp.MustCompile(`^([a-z]+)\.([a-z0-9_]+)( = .*)?$`)
	variable  = regexp.MustCompile(`PARLEY_[A-Z0-9_]+`)
	named     = regexp.MustCompile(`^PARLEY_(TRUNK_[A-Z0-9_]+_PASSWORD|AGENTS_[A-Z0-9_]+_(API_KEY|AUTH_TOKEN)|MCP_[A-Z0-9_]+_(TOKEN|HEADERS))$`) // by the operator
)

func TestKeys(t *testing.T) {
	sections := sample(t)
	for section, keys := range maps.Clone(sections) { // sections within sections
		for name, inner := range keys {
			if table, ok := inner.(map[string]any); ok {
				sections[section+"."+name] = table
			}
		}
	}
	known := func(section, key string) bool {
		_, ok := sections[section][key]
		return ok
	}
	variables := map[string]bool{
		"PARLEY_CONFIG": true, "PARLEY_SECTION_KEY": true,
		"PARLEY_SIPP_TARGET": true, "PARLEY_SIPP_USER": true, // of the tests
	}
	for section, keys := range sections {
		for key := range maps.Keys(keys) {
			variables["PARLEY_"+strings.ToUpper(strings.ReplaceAll(section, ".", "_")+"_"+key)] = true
		}
	}
	seen := 0
	for _, p := range pages(t) {
		for _, code := range p.code {
			if m := bracketed.FindStringSubmatch(code); m != nil {
				seen++
				if !known(m[1], m[2]) {
					t.Errorf("%s: there is no key `[%s] %s`", p.name, m[1], m[2])
				}
			}
			// "call.go" is a file; "llm.Provider" is Go and not matched.
			if m := dotted.FindStringSubmatch(code); m != nil && sections[m[1]] != nil && m[2] != "go" && !known(m[1], m[2]) {
				t.Errorf("%s: there is no key `%s.%s`", p.name, m[1], m[2])
			}
		}
		for _, name := range variable.FindAllString(p.text, -1) {
			if !variables[name] && !named.MatchString(name) {
				t.Errorf("%s: there is no variable %s", p.name, name)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d keys seen", seen)
	}
}

// Every TOML block is a configuration that loads, and those marked "script" are
// scripts that load.
func TestTOML(t *testing.T) {
	configurations, scripts := 0, 0
	for _, p := range pages(t) {
		for _, b := range append(p.blocks, indented(p)...) {
			file := filepath.Join(t.TempDir(), "example.toml")
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			switch b.info {
			case "toml":
				configurations++
				if err := whole(file); err != nil {
					t.Errorf("%s:%d: %v", p.name, b.line, err)
				}
			case "toml script":
				scripts++
				if _, err := script.New(script.Config{File: file}); err != nil {
					t.Errorf("%s:%d: %v", p.name, b.line, err)
				}
			}
		}
	}
	if configurations < 4 || scripts < 1 {
		t.Errorf("only %d configurations and %d scripts seen", configurations, scripts)
	}
}

// whole loads a configuration and makes of it what can be made without files and ports.
func whole(file string) error {
	cfg, err := config.Load(file, nil)
	if err != nil {
		return err
	}
	_, routes := cfg.Routes()
	sources, err := cfg.Sources()
	errs := []error{routes, err}
	_, err = sip.NewGate(cfg.Auth.Access, cfg.Passwords(), sources)
	errs = append(errs, err)
	for _, t := range cfg.Trunks() {
		if t.SIP.Hosts != nil { // it can be called
			errs = append(errs, t.SIP.Validate())
		}
	}
	for _, w := range cfg.Warnings {
		errs = append(errs, fmt.Errorf("warning: %v", w))
	}
	return errors.Join(errs...)
}

// products are those that trunks.md has to show, with Parley's side each.
var products = []string{"Kamailio", "Asterisk", "FreeSWITCH", "3CX", "Twilio", "Telnyx"}

// trunkKey is a key of the commented [[trunk]] of the sample.
var trunkKey = regexp.MustCompile(`(?m)^#   ([a-z_]+) = `)

// trunks.md tells of every key that a trunk has, and shows each product with a trunk
// that loads and a table of what to look at.
func TestTrunks(t *testing.T) {
	sample, err := os.ReadFile(filepath.Join(root, "deploy", "sip-server.toml"))
	if err != nil {
		t.Fatal(err)
	}
	_, trunk, _ := strings.Cut(string(sample), "#   [[trunk]]")
	trunk, _, _ = strings.Cut(trunk, "#   [[route]]")
	text, err := os.ReadFile("trunks.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := trunkKey.FindAllStringSubmatch(trunk, -1)
	if len(keys) < 30 {
		t.Fatalf("only %d keys of a trunk found", len(keys))
	}
	for _, key := range keys {
		if !regexp.MustCompile("`" + key[1] + "[`= ]|(?m)^" + key[1] + " = ").Match(text) {
			t.Errorf("docs/trunks.md says nothing of `%s`", key[1])
		}
	}
	for _, name := range products {
		_, section, found := strings.Cut(string(text), "\n## "+name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !found || !strings.Contains(section, "[[trunk]]") || !strings.Contains(section, "| see |") && !strings.Contains(section, "| symptom |") {
			t.Errorf("docs/trunks.md does not show %s as a trunk, or not what to look at", name)
		}
	}
}

// indented are the blocks of p that are set off by four spaces and begin with a
// section.
func indented(p page) []block {
	var out []block
	open := false
	for line := range strings.Lines(p.prose) {
		bare, in := strings.CutPrefix(line, "    ")
		switch {
		case in && !open && strings.HasPrefix(bare, "[") && !strings.HasPrefix(bare, "[["):
			open = true
			out = append(out, block{info: "toml", text: bare})
		case open && (in || strings.TrimSpace(line) == ""):
			out[len(out)-1].text += bare
		default:
			open = false
		}
	}
	return out
}

// Every Go block is a package that compiles.
func TestGo(t *testing.T) {
	fset := token.NewFileSet()
	from := importer.ForCompiler(fset, "source", nil)
	seen := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.info != "go" {
				continue
			}
			seen++
			file, err := parser.ParseFile(fset, p.name, b.text, 0)
			if err != nil {
				t.Errorf("%s:%d: %v", p.name, b.line, err)
				continue
			}
			if _, err := (&types.Config{Importer: from}).Check(file.Name.Name, fset, []*ast.File{file}, nil); err != nil {
				t.Errorf("%s:%d: %v", p.name, b.line, err)
			}
		}
	}
	if seen == 0 {
		t.Error("no Go seen")
	}
}
