package chat

import (
	"slices"
	"strings"
)

// ToolDefinition is a tool as a model is told of it.
type ToolDefinition struct {
	Name, Description string
	// Parameters is the JSON Schema of the arguments; nil: none.
	Parameters map[string]any
}

// SetTools says what the model may call. The model is not told of the change: it is
// for the beginning of a conversation.
func (c *Context) SetTools(tools []ToolDefinition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	c.tools = slices.Clone(tools)
}

// ChangeTools says what the model may call from now on. One message tells the model
// which tools came and went, by name and sorted, so that it neither calls what is gone
// nor makes up what it would have said; there is none when the names are the same.
func (c *Context) ChangeTools(tools []ToolDefinition) (added, removed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, now := names(c.tools), names(tools)
	for name := range now {
		if !before[name] {
			added = append(added, name)
		}
	}
	for name := range before {
		if !now[name] {
			removed = append(removed, name)
		}
	}
	slices.Sort(added)
	slices.Sort(removed)
	c.revision++
	c.tools = slices.Clone(tools)
	var told []string
	if len(added) > 0 {
		told = append(told, "You can call these tools now: "+strings.Join(added, ", ")+".")
	}
	if len(removed) > 0 {
		told = append(told, "These tools are gone, do not call them: "+strings.Join(removed, ", ")+".")
	}
	if told != nil {
		c.add(Message{Role: RoleDeveloper, Content: strings.Join(told, " ")})
	}
	return added, removed
}

func names(tools []ToolDefinition) map[string]bool {
	set := make(map[string]bool, len(tools))
	for _, t := range tools {
		set[t.Name] = true
	}
	return set
}
