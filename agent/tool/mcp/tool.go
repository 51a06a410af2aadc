package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/agent/tool"
)

// remote is a tool of a server.
type remote struct {
	c           *Client
	theirs      string // its name there
	name        string
	description string
	input       tool.Schema
	traits      tool.Traits
}

// adopt makes a tool of what the server says about it. Names that models do not take
// are changed; a schema that is none is left out by the registry, which says so.
func (c *Client) adopt(t *sdk.Tool) tool.Tool {
	description := t.Description
	if description == "" {
		description = t.Title
	}
	return &remote{
		c: c, theirs: t.Name, name: c.cfg.Prefix + usable(t.Name), description: tool.CleanText(description, maxDescription),
		input: schema(t.InputSchema),
		traits: tool.Traits{
			Response: schema(t.OutputSchema), Timeout: c.own,
			Confirm:       slices.Contains(c.cfg.Confirm, t.Name) || slices.Contains(c.cfg.Confirm, "*"),
			Interruptible: slices.Contains(c.cfg.Interruptible, t.Name),
		},
	}
}

// usable replaces characters that names of tools do not have.
func usable(name string) string {
	return strings.Map(func(r rune) rune {
		if tool.ValidName(string(r)) {
			return r
		}
		return '_'
	}, name)
}

// schema is the schema that the SDK has read as any; nil if there is none.
func schema(v any) tool.Schema {
	s, _ := v.(map[string]any)
	return s
}

// Name implements tool.Tool.
func (r *remote) Name() string { return r.name }

// Description implements tool.Tool.
func (r *remote) Description() string { return r.description }

// InputSchema implements tool.Tool.
func (r *remote) InputSchema() tool.Schema { return r.input }

// Traits implements tool.Traited.
func (r *remote) Traits() tool.Traits { return r.traits }

// Invoke implements tool.Tool. A call that the connection lost is not made again: it
// may have been done.
func (r *remote) Invoke(ctx context.Context, args map[string]any) (map[string]any, error) {
	conn, err := r.c.live(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, r.c.cfg.Timeout, tool.ErrTimeout)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(conn.life, func() { end(errGone) })()
	if args == nil {
		args = map[string]any{}
	}
	result, err := conn.session.CallTool(ctx, &sdk.CallToolParams{Name: r.theirs, Arguments: args})
	if err == nil {
		return read(result)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, errors.New(tool.CleanText(refused.Message, 300))
	}
	conn.fail()
	return nil, errGone
}

// read makes a tool's result of a server's.
func read(result *sdk.CallToolResult) (map[string]any, error) {
	text := contents(result.Content)
	if result.IsError {
		if text = tool.CleanText(text, 500); text == "" {
			text = "the tool failed"
		}
		return nil, errors.New(text)
	}
	if result.NeedsInput() {
		return nil, errors.New("the tool wants to ask something, which is not possible here")
	}
	content := result.StructuredContent
	if raw, ok := content.(string); ok { // see exact
		var err error
		if content, err = structured(raw); err != nil {
			return nil, err
		}
	}
	switch v := content.(type) {
	case nil:
	case map[string]any:
		return v, nil
	default:
		return map[string]any{"result": v}, nil
	}
	if text == "" {
		return map[string]any{}, nil
	}
	return map[string]any{"result": text}, nil
}

// contents is what a model can be told of contents: texts as they are, the rest by
// what they are.
func contents(all []sdk.Content) string {
	var out []string
	for _, c := range all {
		switch c := c.(type) {
		case *sdk.TextContent:
			out = append(out, c.Text)
		case *sdk.ImageContent:
			out = append(out, fmt.Sprintf("[image, %s, %d bytes]", c.MIMEType, len(c.Data)))
		case *sdk.AudioContent:
			out = append(out, fmt.Sprintf("[audio, %s, %d bytes]", c.MIMEType, len(c.Data)))
		case *sdk.ResourceLink:
			out = append(out, fmt.Sprintf("[%s: %s]", c.Name, c.URI))
		case *sdk.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				out = append(out, c.Resource.Text)
			}
		default:
			if text, err := json.Marshal(c); err == nil {
				out = append(out, string(text))
			}
		}
	}
	return strings.Join(out, "\n")
}
