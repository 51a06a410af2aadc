package script

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// file is a script as it is written. Texts are one string or several: the first of
// them whose facts are all known is said.
type file struct {
	Start   string   `toml:"start"`   // the state that opens the conversation
	Callers any      `toml:"callers"` // no setting any more
	Digits  []string `toml:"digits"`  // ten strings, each the words for a digit
	Else    any      `toml:"else"`    // what is said, in turn, when the caller is not understood
	Silent  any      `toml:"silent"`  // what is said when the caller says nothing; absent: the state's say again
	Lost    string   `toml:"lost"`    // the state after the last of Else
	Yes     *choice  `toml:"yes"`
	No      *choice  `toml:"no"`
	Always  []choice `toml:"always"` // may be said in every state
	States  []state  `toml:"state"`
}

// choice is words or a key, and where they lead.
type choice struct {
	Say  any    `toml:"say"`
	Key  string `toml:"key"`
	Next string `toml:"next"`
}

// state is a place in the conversation.
type state struct {
	Name        string   `toml:"name"`
	Say         any      `toml:"say"`
	WelcomeBack any      `toml:"welcome_back"` // instead of Say, for a caller who called before
	Expect      []choice `toml:"expect"`
	Collect     *collect `toml:"collect"`
	// Remember are texts to keep of the caller, by the name of the fact they become.
	Remember map[string]any `toml:"remember"`
	Next     string         `toml:"next"`   // goes on without waiting for the caller
	Action   string         `toml:"action"` // "hangup" or "transfer"
	To       string         `toml:"to"`     // of a transfer
	Else     any            `toml:"else"`
	Silent   any            `toml:"silent"`
	Lost     string         `toml:"lost"`
}

// collect asks for a number, by voice or keys.
type collect struct {
	As       string `toml:"as"` // the fact's name
	Min      int    `toml:"min"`
	Max      int    `toml:"max"`
	Confirm  any    `toml:"confirm"` // asks whether it was heard right; absent: is believed
	Next     string `toml:"next"`
	Remember bool   `toml:"remember"` // for the caller's next call
}

// Mistake is one thing that is wrong with a script.
type Mistake struct {
	// File and Line say where.
	File string
	Line int
	// Path is the setting, such as "state.menu.next".
	Path string
	// Text says what is wrong.
	Text string
}

// Error writes m as "file:line: path: text".
func (m Mistake) Error() string {
	s := m.File + ":"
	if m.Line > 0 {
		s += strconv.Itoa(m.Line) + ":"
	}
	if m.Path != "" {
		s += " " + m.Path + ":"
	}
	return s + " " + m.Text
}

// Mistakes is all that is wrong with a script, in the order of the file.
type Mistakes []Mistake

// Error writes one mistake per line.
func (ms Mistakes) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "\n")
}

// parse reads and checks a script.
func parse(name string, data []byte) (*script, error) {
	c := checker{file: name}
	var f file
	dec := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	err := dec.Decode(&f)
	var strict *toml.StrictMissingError
	var decode *toml.DecodeError
	switch {
	case errors.As(err, &strict):
		for _, e := range strict.Errors {
			line, _ := e.Position()
			c.mistakes = append(c.mistakes, Mistake{name, line, strings.Join(e.Key(), "."), "there is no such setting"})
		}
	case errors.As(err, &decode):
		line, _ := decode.Position()
		return nil, Mistakes{{name, line, strings.Join(decode.Key(), "."), strings.TrimPrefix(decode.Error(), "toml: ")}}
	case err != nil:
		return nil, Mistakes{{File: name, Text: strings.TrimPrefix(err.Error(), "toml: ")}}
	}
	c.lines = lines(data)
	s := c.check(f)
	if len(c.mistakes) > 0 {
		sort.SliceStable(c.mistakes, func(i, j int) bool { return c.mistakes[i].Line < c.mistakes[j].Line })
		return nil, c.mistakes
	}
	return s, nil
}

// lines says in which line each setting of a TOML document stands, by a path such
// as "state.0.expect.1.next". The document must be valid.
func lines(data []byte) map[string]int {
	at := make(map[string]int)
	count := make(map[string]int) // of the tables in an array
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.KeyValue:
			note(&p, at, table, e)
		case unstable.Table, unstable.ArrayTable:
			table = ""
			var line int
			for it := e.Key(); it.Next(); {
				k := it.Node()
				table = join(table, string(k.Data))
				line = p.Shape(k.Raw).Start.Line
				if e.Kind == unstable.ArrayTable && it.IsLast() {
					count[table]++
				}
				if n := count[table]; n > 0 {
					table = join(table, strconv.Itoa(n-1))
				}
			}
			at[table] = line
		}
	}
	return at
}

// note adds the lines of a key and of what is in its value.
func note(p *unstable.Parser, at map[string]int, table string, e *unstable.Node) {
	path := table
	for it := e.Key(); it.Next(); {
		path = join(path, string(it.Node().Data))
		at[path] = p.Shape(it.Node().Raw).Start.Line
	}
	noteValue(p, at, path, e.Value())
}

func noteValue(p *unstable.Parser, at map[string]int, path string, v *unstable.Node) {
	for i, it := 0, v.Children(); it.Next(); i++ {
		switch v.Kind {
		case unstable.Array:
			element := join(path, strconv.Itoa(i))
			noteValue(p, at, element, it.Node())
			if r := it.Node().Raw; r.Length > 0 {
				at[element] = p.Shape(r).Start.Line
			}
		case unstable.InlineTable:
			note(p, at, path, it.Node())
			for k := it.Node().Key(); k.Next(); {
				if at[path] == 0 {
					at[path] = p.Shape(k.Node().Raw).Start.Line
				}
			}
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// several turns a text of the file into its alternatives.
func several(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		var out []string
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("must be a text or a list of texts, not a list with %v", e)
			}
			out = append(out, s)
		}
		return out, nil
	}
	return nil, fmt.Errorf("must be a text or a list of texts, not %v", v)
}
