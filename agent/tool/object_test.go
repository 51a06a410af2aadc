package tool_test

import (
	"context"
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"parley/agent/tool"
)

// The number of an order does not become another one's on its way to a tool and back.
func TestLargeNumbers(t *testing.T) {
	for text, want := range map[string]map[string]any{
		`{"n":12345678901234567}`:     {"n": json.Number("12345678901234567")},
		`{"n":9007199254740991}`:      {"n": 9007199254740991.0},
		`{"n":[-9007199254740993,1]}`: {"n": []any{json.Number("-9007199254740993"), 1.0}},
		`{"n":{"a":1.5e300}}`:         {"n": map[string]any{"a": 1.5e300}},
		`null`:                        {},
		`{"n":1e400}`:                 nil,
		`{"n":1} x`:                   nil,
		`[1]`:                         nil,
		``:                            nil,
	} {
		got, err := tool.Object([]byte(text))
		if (err == nil) != (want != nil) || want != nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", text, got, err)
		}
	}
	r := tool.NewRegistry()
	var order any
	err := r.Register(&tool.FuncTool{
		ToolName: "look_up", ToolSchema: tool.Schema{"type": "object", "properties": map[string]any{"order": map[string]any{"type": "integer"}}},
		Fn: func(_ context.Context, args map[string]any) (map[string]any, error) {
			order = args["order"]
			return map[string]any{"found": int64(math.MaxInt64)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	args, err := tool.Object([]byte(`{"order":12345678901234567}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Call(t.Context(), "look_up", args)
	if order != json.Number("12345678901234567") || got["found"] != json.Number("9223372036854775807") || err != nil {
		t.Errorf("%v, %v, %v", order, got, err)
	}
}
