package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Load reads the file at path over the defaults and the environment, in the form
// of os.Environ, over both. An empty path means no file. When something is wrong
// the error is of type Mistakes and lists everything that is; the Config is then
// what could be read of it.
func Load(path string, environ []string) (*Config, error) {
	c := Default()
	l := loader{file: path, config: &c, keys: keys(&c)}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return &c, Mistakes{{Text: "cannot read the configuration: " + err.Error()}}
		}
		if !l.readFile(text) {
			return &c, l.mistakes
		}
	}
	l.readEnvironment(environ)
	l.readSecrets()
	l.validate()
	if len(l.mistakes) > 0 {
		return &c, l.mistakes.sorted()
	}
	return &c, nil
}

// loader is the state of one Load.
type loader struct {
	file     string
	config   *Config
	keys     []key
	lines    map[string]int    // of keys and sections in the file, by path
	set      map[string]string // the environment variable that set a key, by path
	mistakes Mistakes
}

// wrong notes a mistake about the key or section at path.
func (l *loader) wrong(path, text string) {
	m := Mistake{Path: path, Text: text}
	if env := l.set[path]; env != "" {
		m.Env = env
	} else {
		m.File, m.Line = l.file, l.lines[path]
		if section, _, ok := strings.Cut(path, "]."); ok && m.Line == 0 {
			m.Line = l.lines[section+"]"] // of the [[trunk]] that lacks it
		}
	}
	l.mistakes = append(l.mistakes, m)
}

// readFile reads a TOML text. It reports whether it is TOML at all.
func (l *loader) readFile(text []byte) bool {
	tree := map[string]any{}
	if err := toml.Unmarshal(text, &tree); err != nil {
		m := Mistake{File: l.file, Text: "not TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
		if decode, ok := errors.AsType[*toml.DecodeError](err); ok {
			m.Line, _ = decode.Position()
		}
		l.mistakes = append(l.mistakes, m)
		return false
	}
	l.lines = lines(text)
	if trunks, ok := tree["trunk"]; ok { // first: others' mistakes may be keys of theirs
		l.readTrunks(trunks)
		delete(tree, "trunk")
	}
	for _, section := range slices.Sorted(maps.Keys(tree)) {
		l.readSection(section, tree[section])
	}
	return true
}

// readSection reads one table of the file.
func (l *loader) readSection(section string, raw any) {
	known := l.names(section)
	if len(known) == 0 {
		if _, table := raw.(map[string]any); table {
			l.wrong(section, "no such section"+didYouMean(section, l.sections()))
		} else {
			l.wrong(section, "a key outside of any section"+l.whereIs(section))
		}
		return
	}
	table, ok := raw.(map[string]any)
	if !ok {
		l.wrong(section, "must be a section: ["+section+"]")
		return
	}
	if users, ok := table["users"]; ok && section == "auth" {
		l.readUsers(users)
		delete(table, "users")
	}
	l.readTable(section, table)
}

// readTable reads the keys of a section.
func (l *loader) readTable(section string, table map[string]any) {
	known := l.names(section)
	for _, name := range slices.Sorted(maps.Keys(table)) {
		path := section + "." + name
		k, ok := l.find(path)
		if !ok {
			hint := didYouMean(name, known)
			if hint == "" {
				hint = l.whereIs(name)
			}
			l.wrong(path, "no such key"+hint)
			continue
		}
		if err := set(k.value, table[name]); err != nil {
			text := err.Error()
			if k.value.Type() == reflect.TypeFor[Secret]() {
				text = "must be text in quotes" // a password of digits is not to be printed
			}
			l.wrong(path, text)
		}
	}
}

// whereIs says in which section a key stands that was put into another one.
func (l *loader) whereIs(name string) string {
	for _, k := range l.keys {
		if k.name == name {
			return "; it belongs into " + written(k.section)
		}
	}
	return ""
}

// written is a section's name as it stands in the file.
func written(section string) string {
	if strings.HasPrefix(section, "trunk[") {
		return "[[trunk]]"
	}
	return "[" + section + "]"
}

// readEnvironment sets keys from variables such as PARLEY_CALL_MAX_CALLS. Other
// variables that begin with PARLEY_ are left alone, because container platforms
// make such names up themselves; those that look like a misspelt key become a
// warning.
func (l *loader) readEnvironment(environ []string) {
	l.set = map[string]string{}
	byName, variables := map[string]key{}, []string{}
	for _, k := range l.keys {
		if k.env != "" {
			byName[k.env] = k
			variables = append(variables, k.env)
		}
	}
	for _, assignment := range environ {
		name, value, _ := strings.Cut(assignment, "=")
		if !strings.HasPrefix(name, "PARLEY_") || value == "" {
			continue // an empty variable is one that is not set
		}
		k, ok := byName[name]
		if !ok {
			if hint := didYouMean(name, variables); hint != "" {
				l.config.Warnings = append(l.config.Warnings, "environment "+name+" is not used"+hint)
			}
			continue
		}
		l.set[k.path()] = name
		if err := setText(k.value, value); err != nil {
			l.wrong(k.path(), err.Error())
		}
	}
}

// readSecrets reads every secret KEY that is empty from the file that KEY_file
// names.
func (l *loader) readSecrets() {
	for _, k := range l.keys {
		secret, ok := k.value.Addr().Interface().(*Secret)
		if !ok {
			continue
		}
		from, ok := l.find(k.path() + "_file")
		if !ok || from.value.String() == "" {
			continue
		}
		if secret.Reveal() != "" {
			l.wrong(from.path(), "give "+k.name+" or "+from.name+", not both")
			continue
		}
		text, err := os.ReadFile(from.value.String())
		if err != nil {
			l.wrong(from.path(), err.Error())
			continue
		}
		line := strings.TrimSpace(string(text))
		if line == "" || strings.ContainsAny(line, "\r\n") {
			l.wrong(from.path(), "the file must hold one line, the secret")
			continue
		}
		*secret = NewSecret(line)
	}
}

// find is the key at path.
func (l *loader) find(path string) (key, bool) {
	i := slices.IndexFunc(l.keys, func(k key) bool { return k.path() == path })
	if i < 0 {
		return key{}, false
	}
	return l.keys[i], true
}

// names lists the keys of a section.
func (l *loader) names(section string) []string {
	var out []string
	for _, k := range l.keys {
		if k.section == section {
			out = append(out, k.name)
		}
	}
	return out
}

// sections lists the sections.
func (l *loader) sections() []string {
	out := []string{"trunk"}
	for _, k := range l.keys {
		if !slices.Contains(out, k.section) && !strings.ContainsAny(k.section, "[.") {
			out = append(out, k.section)
		}
	}
	return out
}

// lines says on which line each key and section of a TOML text stands. Those of the
// second [[x]] stand under "x[1]".
func lines(text []byte) map[string]int {
	out := map[string]int{}
	arrays := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	var section []string
	for p.NextExpression() {
		e := p.Expression()
		names, line := []string{}, 0
		for it := e.Key(); it.Next(); {
			names = append(names, string(it.Node().Data))
			if line == 0 {
				line = p.Shape(it.Node().Raw).Start.Line
			}
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			note(out, names, line)
			top := names[0]
			if e.Kind == unstable.ArrayTable && len(names) == 1 {
				arrays[top]++
			}
			section = slices.Clone(names)
			if n := arrays[top]; n > 0 {
				section[0] = fmt.Sprintf("%s[%d]", top, n-1)
			}
			note(out, section, line)
		case unstable.KeyValue:
			full := append(slices.Clone(section), names...)
			note(out, full, line)
			noteInline(&p, out, full, e.Value())
		}
	}
	return out
}

// noteInline notes the keys of an inline table.
func noteInline(p *unstable.Parser, out map[string]int, prefix []string, value *unstable.Node) {
	if value.Kind != unstable.InlineTable {
		return
	}
	for it := value.Children(); it.Next(); {
		full := slices.Clone(prefix)
		line := 0
		for names := it.Node().Key(); names.Next(); {
			full = append(full, string(names.Node().Data))
			line = p.Shape(names.Node().Raw).Start.Line
		}
		note(out, full, line)
	}
}

// note keeps the first line on which a path or what contains it stands.
func note(out map[string]int, names []string, line int) {
	for i := range names {
		path := strings.Join(names[:i+1], ".")
		if _, ok := out[path]; !ok {
			out[path] = line
		}
	}
}
