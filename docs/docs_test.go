// Package docs_test keeps the documents true: links lead somewhere, keys exist,
// examples load and compile, metrics are served, commands are there.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the top of the repository, seen from here.
const root = ".."

// page is one document.
type page struct {
	name   string // from the root
	text   string
	blocks []block
	code   []string // what stands between single backticks
	prose  string   // text without blocks
}

// block is a fenced block.
type block struct {
	info string // after the fence: "toml", "toml script"
	text string
	line int
}

var backticks = regexp.MustCompile("`([^`\n]+)`")

// pages reads the documents that users read.
func pages(t *testing.T) []page {
	t.Helper()
	var names []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "examples/*/*.md", "bench/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	if len(names) < 10 {
		t.Fatalf("only %d documents found", len(names))
	}
	var out []page
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(root, name)
		out = append(out, newPage(rel, string(text)))
	}
	return out
}

// newPage takes a document apart.
func newPage(name, text string) page {
	p := page{name: name, text: text}
	var prose strings.Builder
	var open *block
	indent := ""
	for i, line := range strings.Split(text, "\n") {
		bare := strings.TrimLeft(line, " ")
		switch {
		case open == nil && strings.HasPrefix(bare, "```"):
			open, indent = &block{info: strings.TrimPrefix(bare, "```"), line: i + 1}, line[:len(line)-len(bare)]
		case open != nil && strings.HasPrefix(bare, "```"):
			p.blocks, open = append(p.blocks, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		default:
			prose.WriteString(line + "\n")
		}
	}
	p.prose = prose.String()
	// A span may be broken over two lines.
	for paragraph := range strings.SplitSeq(p.prose, "\n\n") {
		for _, m := range backticks.FindAllStringSubmatch(strings.ReplaceAll(paragraph, "\n", " "), -1) {
			p.code = append(p.code, m[1])
		}
	}
	return p
}

// commandLines is everything in p that a reader may type.
func (p page) commandLines() []string {
	lines := slices.Clone(p.code)
	for _, b := range p.blocks {
		if b.info == "sh" || b.info == "" {
			lines = append(lines, strings.Split(b.text, "\n")...)
		}
	}
	return lines
}

func TestPagesAreTakenApart(t *testing.T) {
	p := newPage("x.md", "a `b\nc` d\n\n   ```toml script\n   x = 1\n     y\n   ```\nend `e`\n")
	if len(p.blocks) != 1 || p.blocks[0].info != "toml script" || p.blocks[0].text != "x = 1\n  y\n" || p.blocks[0].line != 4 {
		t.Errorf("blocks: %+v", p.blocks)
	}
	if !slices.Equal(p.code, []string{"b c", "e"}) {
		t.Errorf("code: %q", p.code)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

func TestLinks(t *testing.T) {
	for _, p := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(p.prose, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := filepath.Join(root, p.name)
			if target != "" {
				file = filepath.Join(filepath.Dir(file), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the link %s leads nowhere", p.name, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(t, file), anchor) {
				t.Errorf("%s: the link %s: no such heading", p.name, m[1])
			}
		}
	}
}

// anchors are the ids of a document's headings, as forges make them.
func anchors(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range heading.FindAllStringSubmatch(newPage(file, string(text)).prose, -1) {
		id := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 0x7f:
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		out = append(out, id)
	}
	return out
}

// A path in backticks that begins with a folder of ours exists.
func TestPaths(t *testing.T) {
	for _, p := range pages(t) {
		if strings.HasPrefix(p.name, "bench/") || p.name == "CHANGELOG.md" {
			continue // paths from elsewhere, and of the past
		}
		for _, code := range p.code {
			top, _, below := strings.Cut(code, "/")
			if !below || strings.ContainsAny(code, " *<>…") || top == "out" || top == "bin" {
				continue
			}
			if info, err := os.Stat(filepath.Join(root, top)); top == "" || err != nil || !info.IsDir() {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, code)); err != nil {
				t.Errorf("%s: there is no `%s`", p.name, code)
			}
		}
	}
}
