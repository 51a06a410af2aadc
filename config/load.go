package config

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Load reads the file at path over the defaults and the environment, in the form
// of os.Environ, over both. An empty path means no file. When something is wrong
// the error is of type Mistakes and lists everything that is; the Config is then
// what could be read of it.
func Load(path string, environ []string) (*Config, error) {
	c := Default()
	l := loader{file: path, config: &c, keys: keys(&c), set: map[string]string{}}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return &c, Mistakes{{Text: "cannot read the configuration: " + err.Error()}}
		}
		if !l.readFile(text) {
			return &c, l.mistakes
		}
	}
	l.readEnvironment(environ, l.keys)
	l.readSecrets(l.keys)
	known := len(l.keys)
	l.readAgents() // last: what they do not say is as it is above
	l.readEnvironment(environ, l.keys[known:])
	l.readSecrets(l.keys[known:])
	l.misspelt(environ)
	l.validate()
	c.loaded = &l
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
	agents   any               // the file's [agents]
	mistakes Mistakes
}

// wrong notes a mistake about the key or section at path.
func (l *loader) wrong(path, text string) {
	m := Mistake{Path: path, Text: text}
	if env := l.set[path]; env != "" {
		m.Env = env
	} else {
		m.File, m.Line = l.file, l.lines[path]
		if l.inherited(path) {
			return // it was told of where it stands
		}
		for above := path; m.Line == 0 && above != ""; { // the section that lacks it
			above = above[:max(strings.LastIndexByte(above, '.'), 0)]
			m.Line = l.lines[above]
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
	for _, list := range []struct {
		name string
		read func(any)
	}{{"trunk", l.readTrunks}, {"route", l.readRoutes}, {"mcp", l.readMCP}} { // first: others' mistakes may be keys of theirs
		if raw, ok := tree[list.name]; ok {
			list.read(raw)
			delete(tree, list.name)
		}
	}
	l.agents = tree["agents"]
	delete(tree, "agents")
	for _, section := range slices.Sorted(maps.Keys(tree)) {
		l.readSection(section, tree[section])
	}
	return true
}

// readSection reads one table of the file.
func (l *loader) readSection(section string, raw any) {
	known := l.names(section)
	if len(known) == 0 {
		_, table := raw.(map[string]any)
		if list, ok := raw.([]any); ok && len(list) > 0 { // [[section]]
			_, table = list[0].(map[string]any)
		}
		if table {
			l.wrong(section, "no such section"+didYouMean(section, l.sections()))
		} else {
			l.wrong(section, "a key outside of any section"+l.whereIs("", section))
		}
		return
	}
	table, ok := raw.(map[string]any)
	if !ok {
		l.wrong(section, "must be a section: ["+section+"]")
		return
	}
	for _, named := range []struct {
		section, name string
		read          func(any)
	}{{"auth", "users", l.readUsers}, {"api", "keys", l.readAPIKeys}, {"tls", "certificates", l.readCertificates}} {
		if raw, ok := table[named.name]; ok && section == named.section {
			named.read(raw)
			delete(table, named.name)
		}
	}
	switch section {
	case "tools":
		l.readDestinations(section, &l.config.Tools, table)
	case "plugins":
		l.readPlugins(table)
	}
	l.readTable(section, table)
}

// readTable reads the keys of a section.
func (l *loader) readTable(section string, table map[string]any) {
	known := l.names(section)
	for _, name := range slices.Sorted(maps.Keys(table)) {
		path := section + "." + name
		if inner, ok := table[name].(map[string]any); ok && len(l.names(path)) > 0 && !l.isMap(path) {
			l.readTable(path, inner) // a section within this one
			continue
		}
		k, ok := l.find(path)
		if !ok {
			hint := didYouMean(name, known)
			if hint == "" {
				hint = l.whereIs(section, name)
			}
			l.wrong(path, "no such key"+hint)
			continue
		}
		if err := set(k.value, table[name]); err != nil {
			text := err.Error()
			if secret(k.value) {
				text = "must be text in quotes" // a password of digits is not to be printed
			}
			l.wrong(path, text)
		}
	}
}

// isMap says that the key at path holds texts by name.
func (l *loader) isMap(path string) bool {
	k, ok := l.find(path)
	return ok && k.value.Kind() == reflect.Map
}

// whereIs says in which section a key stands that was put into another one: of the
// same agent, when that is where it was put.
func (l *loader) whereIs(section, name string) string {
	within := agentOf(section)
	for _, k := range l.keys {
		if k.name == name && agentOf(k.section) == within {
			return "; it belongs into " + written(k.section)
		}
	}
	return ""
}

// written is a section's name as it stands in the file.
func written(section string) string {
	if list, _, ok := strings.Cut(section, "["); ok {
		return "[[" + list + "]]"
	}
	return "[" + section + "]"
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
	out := []string{"trunk", "route", "agents", "mcp"}
	for _, k := range l.keys {
		if !slices.Contains(out, k.section) && !strings.ContainsAny(k.section, "[.") {
			out = append(out, k.section)
		}
	}
	return out
}
