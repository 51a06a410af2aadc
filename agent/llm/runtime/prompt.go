package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"parley/agent/llm"
	"parley/agent/tool"
)

// Bounds of what a call brings along.
const (
	maxCallText  = 200 // characters of one text
	maxCallTexts = 32  // of headers, and of the context of an outbound call
)

// prompt is the instructions of one conversation: who the agent is, what it can do, and
// what is known of the call. It is safe for concurrent use.
type prompt struct {
	skills []Skill

	mu        sync.Mutex
	lead      []string // before the skills
	extra     []string
	about     []string // after them: data
	triggered map[string]bool
}

func newPrompt(p *provider, c llm.Conversation) *prompt {
	pr := &prompt{skills: p.parts.Skills, triggered: map[string]bool{}}
	pr.lead = []string{p.cfg.System, p.cfg.Style}
	pr.about = append(pr.about, callData(c))
	if p.cfg.TellTime {
		pr.about = append(pr.about, "The call began on "+started(p.now())+".")
	}
	if p.cfg.Memory.Tell && (c.Verified || !p.cfg.Memory.VerifiedOnly) {
		pr.about = append(pr.about, knownData(c.Memory))
	}
	return pr
}

// text is the whole, parts joined by a blank line, each once.
func (p *prompt) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	size := 0
	skills := slices.Clone(p.lead)
	var listed []string
	for _, s := range p.skills {
		if len(s.Triggers) > 0 && !p.triggered[s.Name] {
			listed = append(listed, "- "+s.Name+": "+tool.CleanText(s.Description, maxCallText))
			continue
		}
		text := s.body()
		if size += len(text); size > maxSkills {
			continue
		}
		skills = append(skills, text)
	}
	if listed != nil {
		skills = append(skills, "There are more instructions for some tasks. Call read_skill before you begin one of these:\n"+strings.Join(listed, "\n"))
	}
	for _, part := range slices.Concat(skills, p.extra, p.about) {
		if part = strings.TrimSpace(part); part != "" && !slices.Contains(out, part) {
			out = append(out, part)
		}
	}
	return strings.Join(out, "\n\n")
}

// body is a skill as it is told.
func (s Skill) body() string {
	return strings.TrimSpace("# Skill: " + s.Name + "\n\n" + strings.TrimSpace(s.Text))
}

// add adds instructions, each once. It reports whether they are new.
func (p *prompt) add(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text = strings.TrimSpace(text); text == "" || slices.Contains(p.extra, text) {
		return false
	}
	p.extra = append(p.extra, text)
	return true
}

// trigger adds the skills that words of the caller are for, each once, and reports
// whether there were any.
func (p *prompt) trigger(words string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	said, found := " "+plainWords(words)+" ", false
	for _, s := range p.skills {
		if p.triggered[s.Name] {
			continue
		}
		for _, t := range s.Triggers {
			if t = plainWords(t); t != "" && contains(said, t) {
				p.triggered[s.Name], found = true, true
			}
		}
	}
	return found
}

// read returns the text of one skill.
func (p *prompt) read(name string) (string, bool) {
	for _, s := range p.skills {
		if s.Name == name {
			return s.body(), true
		}
	}
	return "", false
}

// contains finds whole words; where words are not parted by spaces, anything.
func contains(said, phrase string) bool {
	if strings.Contains(said, " "+phrase+" ") {
		return true
	}
	return strings.ContainsFunc(phrase, unspaced) && strings.Contains(said, phrase)
}

func hasTriggers(skills []Skill) bool {
	return slices.ContainsFunc(skills, func(s Skill) bool { return len(s.Triggers) > 0 })
}

// skillTool lets the model read a skill that no trigger has added.
func skillTool(m *model) tool.Tool {
	var names []any
	for _, s := range m.p.parts.Skills {
		if len(s.Triggers) > 0 {
			names = append(names, s.Name)
		}
	}
	return &tool.FuncTool{
		ToolName:        "read_skill",
		ToolDescription: "Read the instructions for a kind of task.",
		ToolSchema: tool.Schema{
			"type": "object", "required": []any{"name"}, "additionalProperties": false,
			"properties": map[string]any{"name": map[string]any{"type": "string", "enum": names}},
		},
		Fn: func(_ context.Context, args map[string]any) (map[string]any, error) {
			name, _ := args["name"].(string)
			text, ok := m.prompt.read(name)
			if !ok {
				return nil, errors.New("there is no such skill")
			}
			return map[string]any{"instructions": text}, nil
		},
	}
}

// callData tells what is known of the call. All of it comes from outside.
func callData(c llm.Conversation) string {
	data := map[string]any{}
	put := func(key, value string) {
		if value = tool.CleanText(value, maxCallText); value != "" {
			data[key] = value
		}
	}
	put("direction", c.Direction)
	put("caller", c.ResourceID)
	put("caller_name", c.CallerName)
	put("called", c.Called)
	put("agent", c.Agent)
	for key, texts := range map[string]map[string]string{"headers": c.Headers, "context": c.Context} {
		clean := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			if len(clean) < maxCallTexts {
				clean[tool.CleanText(name, maxCallText)] = tool.CleanText(texts[name], maxCallText)
			}
		}
		if len(clean) > 0 {
			data[key] = clean
		}
	}
	if len(data) == 0 {
		return ""
	}
	return "About this call:\n" + asData(data)
}
