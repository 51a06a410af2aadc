package script

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/agent/llm"
)

// Model is one conversation by a script.
type Model struct {
	provider  *Provider
	returning bool
	last      time.Time  // of the last call of a returning caller
	memory    llm.Memory // nil: nothing is kept

	mu    sync.Mutex
	facts map[string]string
	at    place
}

var _ llm.Model = (*Model)(nil)

// place is where the conversation is.
type place struct {
	state   *node
	back    *node  // where @back leads
	confirm string // the number that waits for a yes
	misses  int    // how often the caller was not understood here
}

// plan is what a reply will say and do, and where it leads.
type plan struct {
	to     place
	facts  map[string]string
	chunks []llm.Chunk
}

// Greet says what the first state says.
func (m *Model) Greet(ctx context.Context, out func(llm.Chunk) error) error {
	m.mu.Lock()
	p := m.plan()
	m.enter(p, m.provider.script.start)
	m.mu.Unlock()
	return m.do(ctx, p, out)
}

// Reply moves to the state that the turn leads to, and says what it says.
func (m *Model) Reply(ctx context.Context, t llm.Turn, out func(llm.Chunk) error) error {
	m.mu.Lock()
	p := m.plan()
	m.answer(p, t)
	m.mu.Unlock()
	return m.do(ctx, p, out)
}

// Close has nothing to free: that the caller called is kept by whoever records calls.
func (m *Model) Close(context.Context, llm.End) {}

func (m *Model) plan() *plan {
	return &plan{to: m.at, facts: maps.Clone(m.facts)}
}

// do gives what was planned. The conversation moves with the first words that are
// taken: a reply that was cancelled before never was.
func (m *Model) do(ctx context.Context, p *plan, out func(llm.Chunk) error) error {
	expect := p.to.state.expect
	if p.to.confirm != "" {
		expect = p.to.state.confirm
	}
	if len(p.chunks) == 0 {
		p.chunks = []llm.Chunk{{}} // what to expect has to be told all the same
	}
	p.chunks[0].Expect = &expect
	for i, c := range p.chunks {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if i > 0 && c.Text != "" {
			c.Text = " " + c.Text
		}
		if err := out(c); err != nil {
			return err
		}
		if i == 0 {
			m.commit(p)
		}
	}
	return nil
}

func (m *Model) commit(p *plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(p.facts)
	m.at, m.facts = p.to, p.facts
}

// enter goes to a state, and on to others while none waits.
func (m *Model) enter(p *plan, n *node) {
	if from := p.to.state; from != n && listens(from) {
		p.to.back = from
	}
	for {
		p.to = place{state: n, back: p.to.back}
		texts := n.say
		if m.returning && len(n.back) > 0 {
			texts = n.back
		}
		m.say(p, texts)
		m.keep(p, n)
		if n.action != nil {
			p.chunks = append(p.chunks, llm.Chunk{Action: n.action})
		}
		if n.next == nil {
			return
		}
		n = n.next
	}
}

func listens(n *node) bool { return len(n.options) > 0 || n.collect != nil }

func (m *Model) say(p *plan, texts []text) {
	if words := pick(texts, func(name string) string { return m.fact(p, name) }); words != "" {
		p.chunks = append(p.chunks, llm.Chunk{Text: words})
	}
}

// fact is what is known under a name, as it is said.
func (m *Model) fact(p *plan, name string) string {
	now := m.provider.now()
	switch name {
	case "time":
		return now.Format("3:04 PM")
	case "day":
		return now.Weekday().String()
	case "last_visit":
		return ago(m.last, now)
	case "name":
		return p.facts[name]
	}
	short, last := strings.CutSuffix(name, ending)
	value := p.facts[short]
	if p.to.confirm != "" && p.to.state.collect.as == short {
		value = p.to.confirm // what the question is about
	}
	if strings.Trim(value, "0123456789") != "" { // words
		if last {
			return ""
		}
		return value
	}
	if last {
		value = value[max(len(value)-4, 0):]
	}
	return m.provider.script.digits.say(value)
}

// answer plans the reply to a turn.
func (m *Model) answer(p *plan, t llm.Turn) {
	n := p.to.state
	switch {
	case !listens(n):
		// The caller speaks into a goodbye, or is still there after a transfer.
		m.enter(p, n)
	case t.Nothing && !t.Garbled:
		m.ask(p, n.silent)
	case p.to.confirm != "":
		m.confirmed(p, t)
	default:
		m.heard(p, t)
	}
}

// ask says something without leaving the state. A number that waits for a yes is
// asked for again.
func (m *Model) ask(p *plan, texts []text) {
	if p.to.confirm != "" {
		texts = p.to.state.collect.confirm
	}
	m.say(p, texts)
}

// heard plans the reply to a turn in a state that waits for a choice or a number.
func (m *Model) heard(p *plan, t llm.Turn) {
	n := p.to.state
	if n.collect != nil {
		value := m.number(t)
		if len(value) >= n.collect.min && len(value) <= n.collect.max {
			m.collected(p, value)
			return
		}
	}
	if o := m.choice(t, n.options); o != nil {
		m.follow(p, o)
		return
	}
	m.miss(p)
}

// number is the digits of a turn.
func (m *Model) number(t llm.Turn) string {
	if t.Digits {
		value := strings.TrimSuffix(t.Text, "#")
		if strings.Trim(value, "0123456789") != "" {
			return ""
		}
		return value
	}
	digits := m.provider.script.digits
	return digits.number(digits.words(t.Text))
}

// choice is the option that the turn chose.
func (m *Model) choice(t llm.Turn, options []option) *option {
	if t.Digits {
		key := strings.TrimSuffix(t.Text, "#")
		i := slices.IndexFunc(options, func(o option) bool { return o.key == key && key != "" })
		if i < 0 {
			return nil
		}
		return &options[i]
	}
	var phrases [][]string
	var owner []int
	for i, o := range options {
		for _, phrase := range o.phrases {
			phrases, owner = append(phrases, phrase), append(owner, i)
		}
	}
	i := match(m.provider.script.digits.words(t.Text), phrases)
	if i < 0 {
		return nil
	}
	return &options[owner[i]]
}

func (m *Model) follow(p *plan, o *option) {
	switch {
	case o.again:
		m.ask(p, p.to.state.say)
	case o.back:
		m.enter(p, p.to.back)
	default:
		m.enter(p, o.target)
	}
}

// collected takes a number, or asks whether it is right.
func (m *Model) collected(p *plan, value string) {
	k := p.to.state.collect
	if len(k.confirm) == 0 {
		p.facts[k.as] = value
		m.enter(p, k.next)
		return
	}
	p.to.confirm = value
	m.ask(p, k.confirm)
}

// confirmed plans the reply to a turn that should be yes or no.
func (m *Model) confirmed(p *plan, t llm.Turn) {
	n, s := p.to.state, m.provider.script
	options := append([]option{s.yes, s.no}, n.options...)
	o := m.choice(t, options)
	if value := m.number(t); len(value) >= max(n.collect.min, 2) && len(value) <= n.collect.max {
		m.collected(p, value) // "no, it is …"
		return
	}
	switch o {
	case nil:
		m.miss(p)
	case &options[0]:
		p.facts[n.collect.as] = p.to.confirm
		m.enter(p, n.collect.next)
	case &options[1]:
		p.to.confirm = ""
		m.again(p)
	default:
		m.follow(p, o)
	}
}

// miss asks again, in other words each time, and gives up after the last.
func (m *Model) miss(p *plan) {
	n := p.to.state
	if p.to.misses >= len(n.retries) {
		m.enter(p, n.lost)
		return
	}
	if m.say(p, n.retries[p.to.misses]); p.to.confirm != "" {
		m.ask(p, nil)
	}
	p.to.misses++
}

// again asks for a number once more, as often as it asks a caller whom it does not
// understand.
func (m *Model) again(p *plan) {
	n := p.to.state
	if p.to.misses >= len(n.retries) {
		m.enter(p, n.lost)
		return
	}
	m.say(p, n.say)
	p.to.misses++
}
