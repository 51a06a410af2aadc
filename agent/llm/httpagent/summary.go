package httpagent

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"parley/agent/llm"
)

// minutes are what was said since the last digest. They are guarded by Model.mu.
type minutes struct {
	log     []exchange
	gone    int  // exchanges before log
	open    bool // the last of log is a turn whose reply may be told as it was heard
	size    int  // of log
	running bool // a digest is being made
	era     int  // grows with each Reset: a digest of before is of no use
}

// exchange is a turn and its reply; either may be empty.
type exchange struct{ caller, agent string }

const (
	// maxText bounds one text in the minutes, maxMinutes all of them: what is older goes
	// when no digest can be made.
	maxText    = 4 << 10
	maxMinutes = 64 << 10
	maxSummary = 16 << 10
)

var errNoDigest = errors.New("httpagent: the agent gave no digest of the conversation")

// note begins an exchange and returns what takes the words of the reply.
func (m *Model) note(t llm.Turn) (said func(string)) {
	if !m.summarises() {
		return func(string) {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.digestWhenDue()
	m.minutes.add(exchange{caller: line(t.Text)})
	m.minutes.open = true
	era, at := m.minutes.era, &m.minutes
	return func(text string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if at.era == era && at.open && len(at.log) > 0 {
			last := &at.log[len(at.log)-1]
			if room := maxText - len(last.agent); room > 0 {
				text = text[:llm.WholeRunes([]byte(text[:min(room, len(text))]))]
				last.agent += text
				at.size += len(text)
			}
		}
	}
}

func (m *Model) summarises() bool {
	s := m.provider.cfg.Summary
	return s.Turns > 0 || s.Characters > 0
}

// Heard puts what was heard in the place of what was generated, for the digest.
func (m *Model) Heard(h llm.Heard) {
	if !m.summarises() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	heard := line(h.Heard)
	if h.Interrupted {
		heard = strings.TrimSpace(heard + " [interrupted]")
	}
	at := &m.minutes
	if h.Own || !at.open || len(at.log) == 0 {
		if h.Heard != "" {
			at.add(exchange{agent: heard})
		}
	} else {
		last := &at.log[len(at.log)-1]
		at.size += len(heard) - len(last.agent)
		last.agent, at.open = heard, false
	}
	m.digestWhenDue()
}

// CallerSpeaks is of no use here.
func (m *Model) CallerSpeaks() {}

// line is a text on one line, bounded: what a caller says cannot look like what the
// agent said.
func line(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:llm.WholeRunes([]byte(text[:min(maxText, len(text))]))]
}

func (n *minutes) add(e exchange) {
	n.log = append(n.log, e)
	n.size += len(e.caller) + len(e.agent)
	for n.size > maxMinutes && len(n.log) > 1 {
		n.drop(1)
	}
	n.open = false
}

// drop forgets the first so many.
func (n *minutes) drop(count int) {
	for _, e := range n.log[:count] {
		n.size -= len(e.caller) + len(e.agent)
	}
	n.log = append([]exchange(nil), n.log[count:]...)
	n.gone += count
}

// digestWhenDue has a digest made when there is enough to sum up. The lock is held.
func (m *Model) digestWhenDue() {
	cfg, at := m.provider.cfg.Summary, &m.minutes
	turns, characters := 0, 0
	for _, e := range at.log {
		characters += utf8.RuneCountInString(e.caller) + utf8.RuneCountInString(e.agent)
		if e.caller != "" {
			turns++
		}
	}
	due := cfg.Turns > 0 && turns >= cfg.Turns || cfg.Characters > 0 && characters >= cfg.Characters
	if !due || at.running || m.life.Err() != nil {
		return
	}
	at.running = true
	d := digest{era: at.era, to: at.gone + len(at.log), log: at.log[:len(at.log):len(at.log)], before: m.summary}
	m.work.Go(func() { m.digest(d) })
}

// digest is what one is made of.
type digest struct {
	era    int
	to     int // the exchange behind the last
	log    []exchange
	before string // the digest of what came before
}

// digest makes a digest, beside the conversation.
func (m *Model) digest(d digest) {
	prompt := m.provider.cfg.Summary.Prompt
	if prompt == "" {
		prompt = DefaultSummaryPrompt
	}
	text, err := m.OneShot(m.life, prompt, script(d.log, d.before))
	if text = strings.TrimSpace(text); err == nil && text == "" {
		err = errNoDigest
	}
	text = text[:llm.WholeRunes([]byte(text[:min(maxSummary, len(text))]))]
	m.mu.Lock()
	if m.minutes.era != d.era {
		m.mu.Unlock()
		return
	}
	m.minutes.running = false
	h := llm.Happening{Kind: "summary", Before: len(m.minutes.log), Err: err}
	if err == nil {
		m.summary = text
		m.minutes.drop(max(d.to-m.minutes.gone, 0)) // the oldest may have gone meanwhile
		h.Text = text
	}
	h.Messages = len(m.minutes.log)
	m.mu.Unlock()
	if m.life.Err() == nil {
		m.emit(h)
	}
}

// script is what was said, as the digest is made of it.
func script(log []exchange, before string) string {
	var b strings.Builder
	if before != "" {
		fmt.Fprintf(&b, "Summary of what came before:\n%s\n\n", before)
	}
	for _, e := range log {
		if e.caller != "" {
			fmt.Fprintf(&b, "Caller: %s\n", e.caller)
		}
		if e.agent != "" {
			fmt.Fprintf(&b, "Agent: %s\n", line(e.agent))
		}
	}
	return strings.TrimSpace(b.String())
}
