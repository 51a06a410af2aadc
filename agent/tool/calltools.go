package tool

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Destination is somebody a model may transfer calls to, by name.
type Destination struct {
	// Name is what the model says, such as "sales".
	Name string
	// Description tells the model when.
	Description string
	// To is a telephone number, or a sip: or tel: URI. The model never learns it.
	To string
	// Attended calls the destination first.
	Attended bool
	// Confirm asks the caller first.
	Confirm bool
}

// CallPolicy is what a model may do with its call. The zero value allows to hang up and
// nothing else. It is checked here, before the guardrails of the trunk, which hold too.
// Nothing that is said in the call changes it.
type CallPolicy struct {
	// NoHangUp leaves hanging up to the caller.
	NoHangUp bool
	// Hold allows to hold and resume.
	Hold bool
	// Destinations are the names that calls may be transferred to.
	Destinations []Destination
	// Numbers are E.164 prefixes ("+4930") of numbers that may be transferred to when
	// the caller names them. Each such transfer needs the caller's confirmation.
	// Empty: none. A prefix with fewer than three digits behind the country code means a
	// country: it allows geographic, mobile, freephone and internet numbers that exist
	// there, of the country that the code is known for (+1: the United States and
	// Canada). Premium rates, shared cost, personal and corporate numbers, and the other
	// countries of a shared code need a prefix of their own: "+49180", "+1809".
	Numbers []string
	// DenyNumbers are prefixes that are never dialled; the longest match decides, and
	// Deny wins a tie. They come on top of satellites and international networks, which
	// only a longer prefix allows.
	DenyNumbers []string
	// Transfers is how many transfers one call may try; 0: 3.
	Transfers int
	// Quota bounds transfers over all calls; nil: no bound but those of the trunk.
	Quota *Quota
	// Digits allows to press 0-9 and #, as many as this in one call; 0: none.
	Digits int
	// StarKeys allows *, A, B, C and D too: in many networks they begin codes that
	// forward calls or place new ones.
	StarKeys bool
}

// Quota bounds how often something is done within an hour, over all calls. It is safe
// for concurrent use.
type Quota struct {
	mu    sync.Mutex
	limit int
	taken []time.Time
}

// NewQuota allows limit times within any hour.
func NewQuota(limit int) *Quota { return &Quota{limit: limit} }

// Take is false when the hour's share is used up.
func (q *Quota) Take() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = slices.DeleteFunc(q.taken, func(t time.Time) bool { return time.Since(t) >= time.Hour })
	if len(q.taken) >= q.limit {
		return false
	}
	q.taken = append(q.taken, time.Now())
	return true
}

// What call tools tell models about refusals.
var (
	errNotAllowed = errors.New("a transfer to there is not allowed; do not try again")
	errTooMany    = errors.New("no more transfers in this call")
	errQuota      = errors.New("no more transfers at this time")
	errDigits     = errors.New("these keys may not be pressed")
)

// callTools are the tools of one call.
type callTools struct {
	line   Line
	policy CallPolicy

	mu       sync.Mutex
	attempts int // transfers tried or refused
	pressed  int // keys
}

// CallTools returns what a model may do with one call: hang_up, and by policy
// transfer_call, transfer_call_confirmed (destinations with Confirm),
// transfer_to_number, send_digits, hold_call, resume_call. Make them
// anew for every call, since they count.
func CallTools(line Line, policy CallPolicy) ([]Tool, error) {
	orElse(&policy.Transfers, 3)
	for _, p := range slices.Concat(policy.Numbers, policy.DenyNumbers) {
		if !prefix().MatchString(p) {
			return nil, fmt.Errorf("tool: %q is no prefix of numbers: want a plus sign and digits", CleanText(p, 40))
		}
	}
	seen := map[string]bool{}
	for _, d := range policy.Destinations {
		if d.Name == "" || d.To == "" || seen[d.Name] || strings.ContainsAny(d.To, "\r\n\x00") {
			return nil, fmt.Errorf("tool: transfer destination %q: name or target missing, or name taken", CleanText(d.Name, 40))
		}
		seen[d.Name] = true
	}
	c := &callTools{line: line, policy: policy}
	var out []Tool
	if !policy.NoHangUp {
		out = append(out, c.hangUp())
	}
	// A destination that needs no confirmation must not be reached through one that
	// does, nor the other way round: two tools, each with its own names.
	for _, confirm := range []bool{false, true} {
		if t := c.transferTo(confirm); t != nil {
			out = append(out, t)
		}
	}
	if len(policy.Numbers) > 0 {
		out = append(out, c.transferNumber())
	}
	if policy.Digits > 0 {
		out = append(out, c.sendDigits())
	}
	if policy.Hold {
		out = append(out,
			c.simple("hold_call", "Put the other party on hold. Nobody hears the other until resume_call.", line.Hold),
			c.simple("resume_call", "End the hold that hold_call began.", line.Resume))
	}
	return out, nil
}

func prefix() *regexp.Regexp { return regexp.MustCompile(`^\+[0-9]{1,15}$`) }
func number() *regexp.Regexp { return regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`) }
func keys() *regexp.Regexp   { return regexp.MustCompile(`^[0-9#*A-D,]{1,32}$`) }

// nothing is the schema of a tool without arguments.
func nothing() Schema {
	return Schema{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
}

// one is the schema of a tool with one text.
func one(name string, property map[string]any) Schema {
	property["type"] = "string"
	return Schema{
		"type": "object", "properties": map[string]any{name: property},
		"required": []any{name}, "additionalProperties": false,
	}
}

func (c *callTools) hangUp() Tool {
	return &FuncTool{
		ToolName: "hang_up", ToolSchema: nothing(),
		ToolDescription: "End the call. What you have said and what you say next is heard first, so say goodbye. If the caller speaks meanwhile, the call goes on.",
		Fn: func(context.Context, map[string]any) (map[string]any, error) {
			c.line.HangUp()
			return map[string]any{"status": "the call ends after your last words"}, nil
		},
	}
}

func (c *callTools) simple(name, description string, do func(context.Context) error) Tool {
	return &FuncTool{
		ToolName: name, ToolDescription: description, ToolSchema: nothing(),
		Fn: func(ctx context.Context, _ map[string]any) (map[string]any, error) {
			if err := do(ctx); err != nil {
				return nil, reason(name, err)
			}
			return map[string]any{"status": "done"}, nil
		},
	}
}

// reason bounds and cleans what the other side of a call gave as a reason.
func reason(what string, err error) error {
	return errors.New(what + " failed: " + CleanText(err.Error(), 120))
}

// transferTo is the tool for the destinations that need a confirmation or do not.
func (c *callTools) transferTo(confirm bool) Tool {
	var names []any
	known := map[string]Destination{}
	var text strings.Builder
	text.WriteString("Transfer the caller. Tell the caller first.")
	for _, d := range c.policy.Destinations {
		if d.Confirm != confirm {
			continue
		}
		names = append(names, d.Name)
		known[d.Name] = d
		if d.Description != "" {
			fmt.Fprintf(&text, " %s: %s.", d.Name, strings.TrimSuffix(CleanText(d.Description, 200), "."))
		}
	}
	if names == nil {
		return nil
	}
	t := &FuncTool{
		ToolName: "transfer_call", ToolDescription: text.String(),
		ToolSchema: one("destination", map[string]any{"enum": names}),
		ToolTraits: Traits{Timeout: 90 * time.Second, Confirm: confirm},
		Fn: func(ctx context.Context, args map[string]any) (map[string]any, error) {
			name, _ := args["destination"].(string)
			d, ok := known[name]
			if !ok {
				return nil, c.refused(errNotAllowed)
			}
			return c.transfer(ctx, d.To, d.Attended)
		},
	}
	if !confirm {
		return t
	}
	t.ToolName = "transfer_call_confirmed"
	return &asking{FuncTool: t, ask: func(args map[string]any) string {
		return fmt.Sprintf("Shall I transfer you to %s?", args["destination"])
	}}
}

func (c *callTools) transferNumber() Tool {
	t := &FuncTool{
		ToolName:        "transfer_to_number",
		ToolDescription: "Transfer the caller to a telephone number that the caller named. Only some numbers are allowed.",
		ToolSchema: one("number", map[string]any{
			"pattern": number().String(), "description": "international, such as +4930123456",
		}),
		ToolTraits: Traits{Timeout: 90 * time.Second, Confirm: true},
		Fn: func(ctx context.Context, args map[string]any) (map[string]any, error) {
			to, _ := args["number"].(string)
			if !c.policy.allows(to) {
				return nil, c.refused(errNotAllowed)
			}
			return c.transfer(ctx, to, false)
		},
	}
	return &asking{FuncTool: t, check: func(args map[string]any) error {
		// Refused before the caller is asked for something that will not be done.
		if to, _ := args["number"].(string); !c.policy.allows(to) {
			return c.refused(errNotAllowed)
		}
		return nil
	}, ask: func(args map[string]any) string {
		to, _ := args["number"].(string)
		return "Shall I transfer you to the number " + strings.Join(strings.Split(to, ""), " ") + "?"
	}}
}

// asking is a FuncTool whose question depends on the arguments.
type asking struct {
	*FuncTool
	check func(args map[string]any) error
	ask   func(args map[string]any) string
}

// ConfirmationPrompt implements Prompter.
func (a *asking) ConfirmationPrompt(_ context.Context, args map[string]any) (string, error) {
	if a.check != nil {
		if err := a.check(args); err != nil {
			return "", err
		}
	}
	return a.ask(args), nil
}

// refused counts an attempt that was not allowed: who probes is stopped as well.
func (c *callTools) refused(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempts++; c.attempts > c.policy.Transfers {
		return errTooMany
	}
	return err
}

func (c *callTools) transfer(ctx context.Context, to string, attended bool) (map[string]any, error) {
	if err := c.refused(nil); err != nil {
		return nil, err
	}
	if c.policy.Quota != nil && !c.policy.Quota.Take() {
		return nil, errQuota
	}
	if err := c.line.Transfer(ctx, to, attended); err != nil {
		return nil, reason("transfer", err)
	}
	return map[string]any{"status": "transferred"}, nil
}

func (c *callTools) sendDigits() Tool {
	return &FuncTool{
		ToolName:        "send_digits",
		ToolDescription: "Press keys of the telephone, as for the menu of a machine that answered. A comma is a pause of half a second.",
		ToolSchema:      one("digits", map[string]any{"pattern": keys().String()}),
		Fn: func(ctx context.Context, args map[string]any) (map[string]any, error) {
			digits, _ := args["digits"].(string)
			if !keys().MatchString(digits) || !c.policy.StarKeys && strings.ContainsAny(digits, "*ABCD") {
				return nil, errDigits
			}
			c.mu.Lock()
			n := len(digits) - strings.Count(digits, ",")
			enough := c.pressed+n > c.policy.Digits
			if !enough {
				c.pressed += n
			}
			c.mu.Unlock()
			if enough {
				return nil, errDigits
			}
			if err := c.line.SendDigits(ctx, digits); err != nil {
				return nil, reason("send_digits", err)
			}
			return map[string]any{"status": "done"}, nil
		},
	}
}
