package config

import (
	"os"
	"slices"
	"strings"
)

// readEnvironment sets those of keys that have a variable, such as
// PARLEY_CALL_MAX_CALLS. An empty variable is one that is not set.
func (l *loader) readEnvironment(environ []string, keys []key) {
	byName := map[string]key{}
	for _, k := range keys {
		if k.env != "" {
			byName[k.env] = k
		}
	}
	for _, assignment := range environ {
		name, value, _ := strings.Cut(assignment, "=")
		k, ok := byName[name]
		if !ok || value == "" {
			continue
		}
		l.set[k.path()] = name
		if err := setText(k.value, value); err != nil {
			text := err.Error()
			if secret(k.value) {
				text = "is not what it must be" // its text is not to be printed
			}
			l.wrong(k.path(), text)
		}
	}
}

// misspelt warns of variables that look like a misspelt key. Others that begin with
// PARLEY_ are left alone: container platforms make such names up themselves.
func (l *loader) misspelt(environ []string) {
	var variables []string
	for _, k := range l.keys {
		if k.env != "" {
			variables = append(variables, k.env)
		}
	}
	for _, assignment := range environ {
		name, value, _ := strings.Cut(assignment, "=")
		if !strings.HasPrefix(name, "PARLEY_") || value == "" || slices.Contains(variables, name) {
			continue
		}
		hint := didYouMean(name, variables)
		if whose := l.nobodys(name); whose != "" {
			hint = ": there is no " + whose + " of that name" + hint
		}
		if hint != "" {
			l.config.Warnings = append(l.config.Warnings, "environment "+name+" is not used"+hint)
		}
	}
}

// nobodys says whose secret a variable would be if there were one of that name.
func (l *loader) nobodys(variable string) string {
	for _, c := range []struct{ begins, ends, whose string }{
		{"PARLEY_TRUNK_", "_PASSWORD", "trunk"},
		{"PARLEY_MCP_", "_TOKEN", "MCP server"},
		{"PARLEY_AGENTS_", "_API_KEY", "agent"},
	} {
		if rest, ok := strings.CutPrefix(variable, c.begins); ok && len(rest) > len(c.ends) && strings.HasSuffix(rest, c.ends) {
			return c.whose
		}
	}
	return ""
}

// readSecrets reads every secret KEY of keys that is empty from the file that
// KEY_file names.
func (l *loader) readSecrets(keys []key) {
	for _, k := range keys {
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
