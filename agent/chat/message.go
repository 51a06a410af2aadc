package chat

import (
	"encoding/json"
	"time"
)

// Role is whose words a Message holds.
type Role string

// The roles.
const (
	// RoleSystem: instructions of whoever runs the agent.
	RoleSystem Role = "system"
	// RoleDeveloper: notices of the gateway to the model, such as a change of tools.
	RoleDeveloper Role = "developer"
	// RoleUser: exactly what the caller said or keyed in.
	RoleUser Role = "user"
	// RoleAssistant: what the caller heard of the agent, and the tools it called.
	RoleAssistant Role = "assistant"
	// RoleTool: the answer to one tool call.
	RoleTool Role = "tool"
)

// Message is one entry of a conversation as a model is told it.
type Message struct {
	Role Role
	// Content is the text. For RoleTool it is the answer as JSON, or one of the
	// placeholders of a call that has none yet.
	Content string
	// ToolCalls are the calls that a message of RoleAssistant makes.
	ToolCalls []ToolCall
	// ToolCallID and Name say which call a message of RoleTool answers.
	ToolCallID string
	Name       string
	// Interrupted says that the caller cut the message off after Content.
	Interrupted bool
	// At is when the turn began.
	At time.Time
	// UserID identifies who spoke, where that is known.
	UserID string
}

// ToolCall is a model's wish to call a tool, as it stands in a conversation.
type ToolCall struct {
	ID, Name string
	// Arguments is a JSON object, as the model wrote it.
	Arguments json.RawMessage
}
