package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

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
			if e.Kind == unstable.ArrayTable {
				arrays[strings.Join(names, ".")]++
			}
			section = slices.Clone(names)
			for i := range names {
				if n := arrays[strings.Join(names[:i+1], ".")]; n > 0 {
					section[i] = fmt.Sprintf("%s[%d]", names[i], n-1)
				}
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

// noteInline notes the keys of an inline table, or of those in a list.
func noteInline(p *unstable.Parser, out map[string]int, prefix []string, value *unstable.Node) {
	if value.Kind == unstable.Array {
		n := 0
		for it := value.Children(); it.Next(); n++ {
			one := slices.Clone(prefix)
			one[len(one)-1] += fmt.Sprintf("[%d]", n)
			noteInline(p, out, one, it.Node())
		}
	}
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
