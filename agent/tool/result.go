package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DefaultMaxResult is the most bytes of a result as JSON.
const DefaultMaxResult = 64 << 10

// ErrPanicked is wrapped by the error of a call whose tool panicked.
var ErrPanicked = errors.New("tool: the tool failed inside")

// invoke validates args and calls the tool; a panic of it becomes an error.
func (e *registered) invoke(ctx context.Context, args map[string]any) (map[string]any, error) {
	own, err := e.schema.check(args)
	if err != nil {
		return nil, err
	}
	return e.run(ctx, own)
}

// run calls the tool with arguments that were checked.
func (e *registered) run(ctx context.Context, args map[string]any) (result map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			// What it says may hold anything, and is for the operator, not the caller.
			result, err = nil, &panicError{CleanText(fmt.Sprint(p), maxErrorText)}
		}
	}()
	return e.tool.Invoke(ctx, args)
}

// panicError keeps what a tool panicked with for the log.
type panicError struct{ text string }

// Error implements error with the part that a model may know.
func (e *panicError) Error() string { return ErrPanicked.Error() }

// Is makes errors.Is find ErrPanicked.
func (e *panicError) Is(target error) bool { return target == ErrPanicked }

// normalise returns a copy of result that holds only what JSON can and is at most
// limit bytes as JSON. Of a larger one the beginning is kept, and said to be one.
func normalise(result map[string]any, limit int) (map[string]any, error) {
	if len(result) == 0 {
		return map[string]any{}, nil
	}
	text, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("tool: the result cannot be told: %w", err)
	}
	if len(text) <= limit {
		return Object(text)
	}
	for keep := limit; ; keep /= 2 {
		for keep > 0 && !utf8.RuneStart(text[keep]) {
			keep--
		}
		out := map[string]any{"truncated": true, "beginning": string(text[:keep])}
		if short, err := json.Marshal(out); err != nil || len(short) <= limit || keep == 0 {
			return out, err
		}
	}
}

// failure is what a model is told of an error.
func failure(err error) map[string]any {
	return map[string]any{"error": CleanText(err.Error(), maxErrorText)}
}

// CleanText makes one line of at most limit characters of what came from outside:
// white space becomes single spaces; control, format and invalid characters go.
func CleanText(s string, limit int) string {
	if enough := 8*limit + 64; len(s) > enough {
		s = s[:enough]
	}
	var b strings.Builder
	n, space := 0, false
	for _, r := range strings.ToValidUTF8(s, "") {
		if unicode.IsSpace(r) {
			space = n > 0
			continue
		}
		if unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			continue
		}
		if space {
			n++
		}
		if n >= limit {
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}
