package script

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parley/agent/llm"
)

// script is a script that was checked. It does not change.
type script struct {
	start   *node
	digits  numerals
	yes, no option
	nodes   []*node
	said    []spoken
	// remembered are the facts that are kept for the caller's next call.
	remembered map[string]bool
}

// node is a state.
type node struct {
	name    string
	say     []text
	back    []text // instead of say, for a caller who called before
	options []option
	collect *number
	// remember is kept once the state's words were said.
	remember []kept
	next     *node
	action   *llm.Action
	retries  [][]text
	silent   []text
	lost     *node

	expect, confirm llm.Expect
}

// option is what may be said or keyed in, and where it leads.
type option struct {
	phrases [][]string
	key     string
	target  *node // nil with again and back
	again   bool  // say this state's words again
	back    bool  // go to the state before
}

// number is what a state collects.
type number struct {
	as       string
	min, max int
	confirm  []text
	next     *node
	remember bool
}

const (
	again = "@again"
	back  = "@back"

	maxDigits = 32
)

// checker turns a file into a script and notes what is wrong.
type checker struct {
	file     string
	lines    map[string]int
	mistakes Mistakes
	script   script
	byName   map[string]*node
	facts    map[string]bool
}

// wrong notes a mistake about the setting at path, which is the file's own:
// "state.0.next".
func (c *checker) wrong(f file, path, format string, a ...any) {
	line, shown := c.place(f, path)
	c.mistakes = append(c.mistakes, Mistake{c.file, line, shown, fmt.Sprintf(format, a...)})
}

// place is where the setting at path stands, and its path with the state's name
// instead of its number, as a reader is shown it.
func (c *checker) place(f file, path string) (line int, shown string) {
	for p := path; line == 0 && p != ""; {
		line = c.lines[p]
		p = p[:max(strings.LastIndexByte(p, '.'), 0)]
	}
	if parts := strings.Split(path, "."); parts[0] == "state" && len(parts) > 1 {
		if i, err := strconv.Atoi(parts[1]); err == nil && f.States[i].Name != "" {
			parts[1] = f.States[i].Name
			path = strings.Join(parts, ".")
		}
	}
	return line, path
}

func (c *checker) check(f file) *script {
	c.byName = make(map[string]*node)
	c.script.remembered = make(map[string]bool)
	if f.Callers != nil {
		c.wrong(f, "callers", "is no setting any more: how long callers are remembered is up to [sessions] of the configuration")
	}
	c.numerals(f)
	c.names(f)
	c.script.yes = c.answer(f, "yes", f.Yes, choice{Say: "yes", Key: "1"})
	c.script.no = c.answer(f, "no", f.No, choice{Say: "no", Key: "2"})
	always := c.options(f, "always", f.Always, nil)
	for i := range f.States {
		c.state(f, i, always)
	}
	c.start(f)
	if len(c.mistakes) == 0 {
		c.reachable(f)
		c.circles(f)
	}
	return &c.script
}

func (c *checker) numerals(f file) {
	words := f.Digits
	if words == nil {
		words = englishDigits
	}
	if len(words) != 10 || slices.ContainsFunc(words, func(w string) bool { return len(tokens(w)) == 0 || strings.ContainsFunc(w, asciiDigit) }) {
		c.wrong(f, "digits", "must be ten texts, the words for 0 to 9")
		words = englishDigits
	}
	c.script.digits = newNumerals(words)
	if f.Digits != nil {
		c.hears(f, "digits", c.script.digits.all())
	}
}

// names makes a node for each state, and learns the facts there may be.
func (c *checker) names(f file) {
	c.facts = make(map[string]bool)
	for i, s := range f.States {
		path := fmt.Sprintf("state.%d", i)
		n := &node{name: s.Name}
		c.script.nodes = append(c.script.nodes, n)
		switch {
		case !identifier(s.Name):
			c.wrong(f, path+".name", "%q, must be letters, digits and underscores, beginning with a letter", s.Name)
		case c.byName[s.Name] != nil:
			c.wrong(f, path+".name", "there is a state %q already", s.Name)
		default:
			c.byName[s.Name] = n
		}
		for _, name := range slices.Sorted(maps.Keys(s.Remember)) {
			if c.fact(f, path+".remember."+name, name) {
				c.script.remembered[name] = true
			}
		}
		if s.Collect != nil && c.fact(f, path+".collect.as", s.Collect.As) && s.Collect.Remember {
			c.script.remembered[s.Collect.As] = true
		}
	}
	if len(f.States) == 0 {
		c.wrong(f, "", "there is no [[state]]")
	}
}

// fact learns that there is a fact of that name.
func (c *checker) fact(f file, path, name string) bool {
	switch {
	case !identifier(name):
		c.wrong(f, path, "%q, must be letters, digits and underscores, beginning with a letter", name)
	case builtIn[name] || reserved[name]:
		c.wrong(f, path, "%q has a meaning already", name)
	default:
		c.facts[name] = true
		return true
	}
	return false
}

// reserved are names under which whoever records calls keeps something itself.
var reserved = map[string]bool{"calls": true, "last_call_at": true}

func identifier(s string) bool {
	for i, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && (r == '_' || asciiDigit(r))) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// target finds the state that a setting names.
func (c *checker) target(f file, path, name string) *node {
	n := c.byName[name]
	switch {
	case name == "":
		c.wrong(f, path, "must name a state")
	case n == nil:
		c.wrong(f, path, "there is no state %q", name)
	}
	return n
}

// texts reads something to say.
func (c *checker) texts(f file, path string, v any) []text {
	alternatives, err := several(v)
	if err != nil {
		c.wrong(f, path, "%v", err)
		return nil
	}
	var out []text
	for _, s := range alternatives {
		t, err := parseText(s)
		if err != nil {
			c.wrong(f, path, "%v", err)
			continue
		}
		if strings.TrimSpace(s) == "" {
			c.wrong(f, path, "a text is empty")
		}
		for _, p := range t {
			if name := strings.TrimSuffix(p.fact, ending); p.words == "" && !builtIn[p.fact] && !c.facts[name] {
				c.wrong(f, path, "{%s} is nothing that is known; there is %s", p.fact, strings.Join(c.known(), ", "))
			}
		}
		out = append(out, t)
	}
	return out
}

// known are the facts, as a text may name them.
func (c *checker) known() []string {
	var names []string
	for name := range builtIn {
		names = append(names, "{"+name+"}")
	}
	for name := range c.facts {
		names = append(names, "{"+name+"}", "{"+name+ending+"}")
	}
	slices.Sort(names)
	return names
}

// answer reads "yes" or "no".
func (c *checker) answer(f file, path string, given *choice, otherwise choice) option {
	if given == nil {
		given = &otherwise
	}
	if given.Next != "" {
		c.wrong(f, path+".next", "leads where the number's state says")
	}
	return c.phrases(f, path, *given)
}

// phrases reads the words and the key of a choice.
func (c *checker) phrases(f file, path string, ch choice) option {
	o := option{key: ch.Key}
	said, err := several(ch.Say)
	if err != nil {
		c.wrong(f, path+".say", "%v", err)
	}
	for _, s := range said {
		words := c.script.digits.words(s)
		if len(words) == 0 || strings.ContainsAny(s, "{}<>|=;") {
			c.wrong(f, path+".say", "%q holds no words that can be said, or marks that cannot", s)
			continue
		}
		o.phrases = append(o.phrases, words)
		c.hears(f, path+".say", words)
	}
	if len(said) == 0 && ch.Key == "" && err == nil {
		c.wrong(f, path, "needs words to say or a key")
	}
	if len(ch.Key) > 1 || ch.Key != "" && !strings.Contains("0123456789*", ch.Key) {
		c.wrong(f, path+".key", "%q, must be one of 0 to 9 and *", ch.Key)
	}
	return o
}

// options reads the choices of a state, and adds those that always are.
func (c *checker) options(f file, path string, choices []choice, always []option) []option {
	var out []option
	said, keys := map[string]bool{}, map[string]bool{}
	for i, ch := range choices {
		path := fmt.Sprintf("%s.%d", path, i)
		o := c.phrases(f, path, ch)
		switch ch.Next {
		case again:
			o.again = true
		case back:
			o.back = true
		default:
			o.target = c.target(f, path+".next", ch.Next)
		}
		for _, p := range o.phrases {
			words := strings.Join(p, " ")
			if said[words] {
				c.wrong(f, path+".say", "%q leads somewhere already", words)
			}
			said[words] = true
		}
		if keys[o.key] {
			c.wrong(f, path+".key", "%q leads somewhere already", o.key)
		}
		keys[o.key] = o.key != ""
		out = append(out, o)
	}
	// What a state says itself wins.
	for _, o := range always {
		o.phrases = slices.DeleteFunc(slices.Clone(o.phrases), func(p []string) bool { return said[strings.Join(p, " ")] })
		if keys[o.key] {
			o.key = ""
		}
		out = append(out, o)
	}
	return out
}

// beside leaves out of options what would be taken for a part of the number that a
// state collects: a caller who pauses in it must not be sent elsewhere.
func (c *checker) beside(options []option) []option {
	for i, o := range options {
		options[i].phrases = slices.DeleteFunc(o.phrases, c.numeric)
		if strings.Trim(o.key, "0123456789") == "" {
			options[i].key = ""
		}
	}
	return options
}

// numeric tells a phrase that is a number.
func (c *checker) numeric(phrase []string) bool {
	return !slices.ContainsFunc(phrase, func(w string) bool { return c.script.digits.number([]string{w}) == "" })
}

func (c *checker) start(f file) {
	if c.script.start = c.byName[f.Start]; c.script.start == nil && len(f.States) > 0 {
		c.wrong(f, "start", "%q, must name the state that the conversation begins with", f.Start)
	}
}
