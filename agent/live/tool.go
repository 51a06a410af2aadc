package live

import "parley/agent/tool"

// Tools are told of, called and answered in the types of agent/tool.
type (
	// Schema is a JSON Schema of a tool's arguments or of its result.
	Schema = tool.Schema
	// ToolDefinition is a tool as models are told of it.
	ToolDefinition = tool.ToolDefinition
	// ToolCall is a model's wish to call a tool.
	ToolCall = tool.ToolCall
	// ToolResponse is the answer to a ToolCall.
	ToolResponse = tool.ToolResponse
	// ToolBehavior says whether the model waits for a tool's result.
	ToolBehavior = tool.ToolBehavior
	// ToolResponseScheduling says what a late result does to a model that speaks.
	ToolResponseScheduling = tool.ToolResponseScheduling
)

// The behaviours of tools.
const (
	ToolBehaviorUnspecified = tool.ToolBehaviorUnspecified
	ToolBehaviorBlocking    = tool.ToolBehaviorBlocking
	ToolBehaviorNonBlocking = tool.ToolBehaviorNonBlocking
)
