package script

import (
	"strings"
	"time"
	"unicode"

	"parley/agent/llm"
)

// The values of llm.Memory that tell a caller who called before; whoever records calls
// sets them.
const (
	userPrefix = "user:"
	userCalls  = userPrefix + "calls"
	lastCall   = userPrefix + "last_call_at"
)

// maxFact is the most characters of a remembered text that are spoken.
const maxFact = 200

// kept is something that a state remembers of the caller.
type kept struct {
	name string
	text text
}

// recall takes over what is known of the caller from calls before.
func (m *Model) recall(memory llm.Memory) {
	if memory == nil {
		return
	}
	m.memory = memory
	if v, ok := memory.Get(userCalls); ok {
		n, _ := v.(float64)
		m.returning = n >= 1
	}
	if v, ok := memory.Get(lastCall); ok {
		at, _ := v.(string)
		if last, err := time.Parse(time.RFC3339, at); err == nil {
			m.returning, m.last = true, last
		}
	}
	for name := range m.provider.script.remembered {
		if v, ok := memory.Get(userPrefix + name); ok {
			if s, ok := v.(string); ok {
				m.facts[name] = speakable(s)
			}
		}
	}
}

// speakable makes a text that somebody else may have kept fit to be said.
func speakable(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.ToValidUTF8(s, "") {
		if n++; n > maxFact {
			break
		}
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case !unicode.In(r, unicode.C, unicode.Zl, unicode.Zp):
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}

// remember keeps what differs from before.
func (m *Model) remember(facts map[string]string) {
	if m.memory == nil {
		return
	}
	for name := range m.provider.script.remembered {
		if value, ok := facts[name]; ok && value != m.facts[name] {
			m.memory.Set(userPrefix+name, value)
		}
	}
}

// keep does what a state remembers.
func (m *Model) keep(p *plan, n *node) {
	for _, k := range n.remember {
		value, whole := k.text.fill(func(name string) string {
			if own, ok := p.facts[name]; ok {
				return own
			}
			return m.fact(p, name)
		})
		if whole && value != "" {
			p.facts[k.name] = speakable(value)
		}
	}
}
