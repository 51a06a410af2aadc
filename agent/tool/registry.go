package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// ErrNilTool is returned for a tool that is nil or has no name.
var ErrNilTool = errors.New("tool: nil tool or empty name")

// ErrDuplicateTool is wrapped when a name is taken already. The first tool stays.
var ErrDuplicateTool = errors.New("tool: duplicate tool")

// ErrToolName is wrapped when a name has characters that models do not take.
var ErrToolName = errors.New("tool: bad tool name")

// ErrSchema is wrapped when a tool's schema is no JSON Schema.
var ErrSchema = errors.New("tool: bad schema")

// TokenArgument is the argument that carries the proof of a confirmation; see Gate.
// No tool may have an argument of that name.
const TokenArgument = "confirmation_token"

// maxToolName is the most characters of a tool's name.
const maxToolName = 128

// registered is a tool with what was asked of it once.
type registered struct {
	tool   Tool
	name   string
	schema *validator
	traits Traits
	source string
}

// ToolRegistry holds tools by name. It is safe for concurrent use.
type ToolRegistry struct {
	mu    sync.RWMutex
	tools map[string]*registered
}

// NewRegistry returns an empty registry.
func NewRegistry() *ToolRegistry {
	return &ToolRegistry{tools: map[string]*registered{}}
}

// inspect asks t all there is to ask, outside any lock: a tool is foreign code.
func inspect(t Tool, source string) (*registered, error) {
	if t == nil {
		return nil, ErrNilTool
	}
	e := &registered{tool: t, name: t.Name(), source: source}
	if e.name == "" {
		return nil, ErrNilTool
	}
	if !ValidName(e.name) {
		return nil, fmt.Errorf("%w: %q", ErrToolName, CleanText(e.name, maxToolName))
	}
	if c, ok := t.(Traited); ok {
		e.traits = c.Traits()
	}
	input := t.InputSchema()
	if properties, ok := input["properties"].(map[string]any); ok {
		if _, taken := properties[TokenArgument]; taken {
			return nil, fmt.Errorf("%w of %s: the argument %s is taken", ErrSchema, e.name, TokenArgument)
		}
	}
	var err error
	if e.schema, err = compile(input); err != nil {
		return nil, fmt.Errorf("%w of %s: %w", ErrSchema, e.name, err)
	}
	if _, err = compile(e.traits.Response); err != nil {
		return nil, fmt.Errorf("%w of %s's result: %w", ErrSchema, e.name, err)
	}
	return e, nil
}

// ValidName says whether a tool may be called name.
func ValidName(name string) bool {
	return name != "" && len(name) <= maxToolName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.:", r)
	})
}

// Register adds t. It returns ErrNilTool for nil or a tool without a name, and errors
// that wrap ErrDuplicateTool, ErrToolName or ErrSchema.
func (r *ToolRegistry) Register(t Tool) error {
	e, err := inspect(t, "")
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.tools[e.name]; taken {
		return fmt.Errorf("%w: %q", ErrDuplicateTool, e.name)
	}
	r.tools[e.name] = e
	return nil
}

// Sync makes tools what the registry holds of source, in one step: those that source
// no longer has go, new ones come, changed ones are replaced. It returns the names
// that came and went, sorted. Tools that cannot be taken are left out and told of in
// the error, which joins them; a name that somebody else holds stays with him. Calls
// that are under way end with the tool they began with.
func (r *ToolRegistry) Sync(source string, tools []Tool) (added, removed []string, err error) {
	var errs []error
	next := map[string]*registered{}
	for _, t := range tools {
		e, err := inspect(t, source)
		if err == nil && next[e.name] != nil {
			err = fmt.Errorf("%w: %q", ErrDuplicateTool, e.name)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		next[e.name] = e
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := map[string]bool{}
	for name, e := range r.tools {
		if e.source == source {
			before[name] = true
			delete(r.tools, name)
		}
	}
	for name, e := range next {
		if _, taken := r.tools[name]; taken {
			errs = append(errs, fmt.Errorf("%w: %q", ErrDuplicateTool, name))
			continue
		}
		r.tools[name] = e
		if !before[name] {
			added = append(added, name)
		}
		delete(before, name)
	}
	slices.Sort(added)
	return added, slices.Sorted(maps.Keys(before)), errors.Join(errs...)
}

// Lookup finds a tool by its name.
func (r *ToolRegistry) Lookup(name string) (Tool, bool) {
	if e := r.find(name); e != nil {
		return e.tool, true
	}
	return nil, false
}

func (r *ToolRegistry) find(name string) *registered {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tools[name]
}

// Len is how many tools there are.
func (r *ToolRegistry) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.tools)
}

// sorted is a snapshot in the order of names.
func (r *ToolRegistry) sorted() []*registered {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.tools), func(a, b *registered) int { return strings.Compare(a.name, b.name) })
}

// All returns a snapshot of the tools, sorted by name.
func (r *ToolRegistry) All() []Tool {
	all := r.sorted()
	out := make([]Tool, len(all))
	for i, e := range all {
		out[i] = e.tool
	}
	return out
}

// Definitions returns what models are told of the tools, sorted by name, without
// those that are internal. The schemas are copies. A tool that needs a confirmation
// has one more argument, TokenArgument.
func (r *ToolRegistry) Definitions() []ToolDefinition {
	var out []ToolDefinition
	for _, e := range r.sorted() {
		if e.traits.Internal {
			continue
		}
		d := ToolDefinition{
			Name: e.name, Description: e.tool.Description(), Behavior: e.traits.Behavior,
			ParametersJSONSchema: clone(e.schema.source), ResponseJSONSchema: clone(e.traits.Response),
		}
		if e.traits.Confirm {
			d.ParametersJSONSchema = withToken(d.ParametersJSONSchema)
		}
		out = append(out, d)
	}
	return out
}

// withToken adds TokenArgument to the schema s, which is the caller's to change.
func withToken(s Schema) Schema {
	if s == nil {
		s = Schema{"type": "object"}
	}
	properties, ok := s["properties"].(map[string]any)
	if !ok {
		properties = map[string]any{}
		s["properties"] = properties
	}
	properties[TokenArgument] = map[string]any{
		"type": "string",
		"description": "Leave it out at first: the answer tells what to ask the caller and gives the token. " +
			"Once the caller has said yes, call again with the same arguments and the token.",
	}
	return s
}

// Call runs one tool for another part of the host, with all checks of arguments and
// bounds of results that a model's calls have, and without hooks. It refuses tools
// that need a confirmation.
func (r *ToolRegistry) Call(ctx context.Context, name string, args map[string]any) (map[string]any, error) {
	e := r.find(name)
	switch {
	case e == nil:
		return nil, unknownTool(name)
	case e.traits.Confirm:
		return nil, errors.New("tool: " + name + " needs the caller's confirmation")
	}
	result, err := e.invoke(ctx, args)
	if err != nil {
		return nil, err
	}
	return normalise(result, DefaultMaxResult)
}

// unknownTool is the error for a name that no tool has, which may be anything.
func unknownTool(name string) error {
	return fmt.Errorf("unknown tool: %q", CleanText(name, maxToolName))
}
