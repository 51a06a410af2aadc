package script

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"parley/agent/llm"
)

// state checks one state and completes its node.
func (c *checker) state(f file, i int, always []option) {
	s, n := f.States[i], c.script.nodes[i]
	path := fmt.Sprintf("state.%d", i)
	n.say = c.texts(f, path+".say", s.Say)
	if n.back = c.texts(f, path+".welcome_back", s.WelcomeBack); len(n.say) == 0 && s.Say == nil {
		c.wrong(f, path+".say", "must say something")
	}
	c.exit(f, path, s, n)
	c.remember(f, path, s, n)
	if !waits(s) {
		if s.Else != nil || s.Silent != nil || s.Lost != "" {
			c.wrong(f, path, "does not wait for the caller, so else, silent and lost have no meaning")
		}
		return
	}
	n.options = c.options(f, path+".expect", s.Expect, always)
	if s.Collect != nil {
		c.collect(f, path, s, n)
	}
	c.retries(f, path, s, n)
	n.expect = c.expectation(n.name, n.options, n.collect)
	if n.collect != nil && n.collect.confirm != nil {
		n.confirm = c.expectation(n.name+"_confirm", append([]option{c.script.yes, c.script.no}, n.options...), nil)
	}
}

// waits tells a state that listens to the caller.
func waits(s state) bool { return len(s.Expect) > 0 || s.Collect != nil }

// exit checks what a state does and how it is left.
func (c *checker) exit(f file, path string, s state, n *node) {
	switch kind := llm.ActionKind(s.Action); kind {
	case "":
	case llm.Hangup:
		n.action = &llm.Action{Kind: kind}
		if waits(s) || s.Next != "" {
			c.wrong(f, path, "hangs up, so nothing comes after it")
		}
	case llm.Transfer:
		n.action = &llm.Action{Kind: kind, To: s.To}
		switch {
		case s.To == "":
			c.wrong(f, path+".to", "must say where the caller is transferred to")
		case !dialable(s.To):
			c.wrong(f, path+".to", "%q, must be a telephone number or a sip: URI", s.To)
		}
	default:
		c.wrong(f, path+".action", "%q, must be hangup or transfer", s.Action)
	}
	if s.To != "" && s.Action != string(llm.Transfer) {
		c.wrong(f, path+".to", "has a meaning with action = \"transfer\" only")
	}
	switch {
	case s.Next != "" && waits(s):
		c.wrong(f, path+".next", "goes on without waiting for the caller, so expect and collect have no meaning")
	case s.Next != "":
		n.next = c.target(f, path+".next", s.Next)
	case !waits(s) && s.Action != string(llm.Hangup):
		c.wrong(f, path, "leads nowhere; give it expect, collect, next or action = \"hangup\"")
	}
}

// dialable tells a number, however it is written, or a URI. Whether it may be called is
// up to the trunk.
func dialable(to string) bool {
	scheme, rest, ok := strings.Cut(to, ":")
	if ok {
		return rest != "" && slices.Contains([]string{"sip", "sips", "tel"}, strings.ToLower(scheme))
	}
	return strings.ContainsFunc(to, asciiDigit) && strings.Trim(strings.TrimPrefix(to, "+"), "0123456789*#-.() ") == ""
}

// remember reads what a state keeps of the caller.
func (c *checker) remember(f file, path string, s state, n *node) {
	for _, name := range slices.Sorted(maps.Keys(s.Remember)) {
		path := path + ".remember." + name
		written, ok := s.Remember[name].(string)
		if !ok {
			c.wrong(f, path, "must be a text, not %v", s.Remember[name])
			continue
		}
		for _, t := range c.texts(f, path, written) {
			n.remember = append(n.remember, kept{name, t})
		}
	}
}

func (c *checker) collect(f file, path string, s state, n *node) {
	path += ".collect"
	k := s.Collect
	n.collect = &number{
		as: k.As, min: k.Min, max: k.Max, remember: k.Remember,
		confirm: c.texts(f, path+".confirm", k.Confirm),
		next:    c.target(f, path+".next", k.Next),
	}
	if k.Min < 1 || k.Max < k.Min || k.Max > maxDigits {
		c.wrong(f, path, "min %d, max %d: must be 1 or more, in order, and %d at the most", k.Min, k.Max, maxDigits)
	}
	for i, ch := range s.Expect {
		path := fmt.Sprintf("%s.expect.%d", strings.TrimSuffix(path, ".collect"), i)
		if strings.Trim(ch.Key, "0123456789") == "" && ch.Key != "" {
			c.wrong(f, path+".key", "%q is a digit of the number that is collected", ch.Key)
		}
		for _, p := range n.options[i].phrases {
			if c.numeric(p) {
				c.wrong(f, path+".say", "%q is a part of the number that is collected", strings.Join(p, " "))
			}
		}
	}
	n.options = c.beside(n.options)
}

// retries reads what is said to a caller who was not understood.
func (c *checker) retries(f file, path string, s state, n *node) {
	v, from := s.Else, path+".else"
	if v == nil {
		v, from = f.Else, "else"
	}
	said, err := several(v)
	if err != nil {
		c.wrong(f, from, "%v", err)
	}
	for _, words := range said {
		n.retries = append(n.retries, c.texts(f, from, words))
	}
	if len(said) == 0 && err == nil {
		c.wrong(f, path+".else", "must say what is said when the caller is not understood, here or at the top")
	}
	v, from = s.Silent, path+".silent"
	if v == nil {
		v, from = f.Silent, "silent"
	}
	if n.silent = c.texts(f, from, v); n.silent == nil {
		n.silent = n.say
	}
	name, from := s.Lost, path+".lost"
	if name == "" {
		if name = f.Lost; name != "" {
			from = "lost"
		}
	}
	n.lost = c.target(f, from, name)
}

// expectation is what may be said and keyed in.
func (c *checker) expectation(name string, options []option, k *number) llm.Expect {
	var phrases [][]string
	e := llm.Expect{MaxDigits: 1}
	for _, o := range options {
		for _, p := range o.phrases {
			phrases = append(phrases, p)
			e.Phrases = append(e.Phrases, strings.Join(p, " "))
		}
	}
	var digits []string
	if k != nil {
		e.MaxDigits = k.max
		digits = c.script.digits.all()
		e.Phrases = append(e.Phrases, digits...)
	}
	e.Grammar = grammar(name, phrases, digits)
	return e
}

// reachable notes the states that no way leads to.
func (c *checker) reachable(f file) {
	seen := make(map[*node]bool)
	var visit func(*node)
	visit = func(n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		visit(n.next)
		visit(n.lost)
		for _, o := range n.options {
			visit(o.target)
		}
		if n.collect != nil {
			visit(n.collect.next)
		}
	}
	visit(c.script.start)
	for i, n := range c.script.nodes {
		if !seen[n] {
			c.wrong(f, fmt.Sprintf("state.%d", i), "no way leads to it")
		}
	}
}

// circles notes states that go on to each other without ever waiting.
func (c *checker) circles(f file) {
	for i, n := range c.script.nodes {
		at := n.next
		for steps := 0; at != nil && at != n && steps < len(c.script.nodes); steps++ {
			at = at.next
		}
		if at == n && n.next != nil {
			c.wrong(f, fmt.Sprintf("state.%d.next", i), "goes round in a circle without waiting for the caller")
		}
	}
}
