package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/agent/tool"
	"parley/agent/tool/tooltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a tool that returns its arguments.
func echo(name string) *tool.FuncTool {
	return &tool.FuncTool{
		ToolName: name, ToolDescription: "says it back",
		ToolSchema: tool.Schema{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}, "required": []any{"text"}},
		Fn:         func(_ context.Context, args map[string]any) (map[string]any, error) { return args, nil },
	}
}

func TestFuncTool(t *testing.T) {
	tooltest.Run(t, func(*testing.T) ([]tool.Tool, func()) {
		return []tool.Tool{
			echo("echo"),
			&tool.FuncTool{ToolName: "wait", ToolDescription: "waits", Fn: func(ctx context.Context, _ map[string]any) (map[string]any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}},
			&tool.FuncTool{ToolName: "fail", ToolDescription: "fails", Fn: func(context.Context, map[string]any) (map[string]any, error) {
				return nil, errors.New("out of stock")
			}},
			&tool.FuncTool{ToolName: "big", ToolDescription: "is big", Fn: func(context.Context, map[string]any) (map[string]any, error) {
				return map[string]any{"text": strings.Repeat("ä\"", 60_000)}, nil
			}},
		}, nil
	})
}

func TestRegister(t *testing.T) {
	r := tool.NewRegistry()
	first := echo("b")
	for _, c := range []struct {
		name string
		tool tool.Tool
		want error
	}{
		{"nil", nil, tool.ErrNilTool},
		{"typed nil", (*tool.FuncTool)(nil), tool.ErrNilTool},
		{"no name", echo(""), tool.ErrNilTool},
		{"first", first, nil},
		{"duplicate", echo("b"), tool.ErrDuplicateTool},
		{"another", echo("a"), nil},
		{"space", echo("a b"), tool.ErrToolName},
		{"long", echo(strings.Repeat("a", 129)), tool.ErrToolName},
		{"no schema", &tool.FuncTool{ToolName: "c", ToolSchema: tool.Schema{"type": 7}}, tool.ErrSchema},
		{"schema elsewhere", &tool.FuncTool{ToolName: "c", ToolSchema: tool.Schema{"$ref": "file:///etc/passwd"}}, tool.ErrSchema},
		{"schema on the net", &tool.FuncTool{ToolName: "c", ToolSchema: tool.Schema{"$ref": "http://127.0.0.1:1/x"}}, tool.ErrSchema},
		{"token taken", &tool.FuncTool{ToolName: "c", ToolSchema: tool.Schema{"properties": map[string]any{tool.TokenArgument: map[string]any{}}}}, tool.ErrSchema},
		{"bad response", &tool.FuncTool{ToolName: "c", ToolTraits: tool.Traits{Response: tool.Schema{"type": "thing"}}}, tool.ErrSchema},
	} {
		if err := r.Register(c.tool); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if got, ok := r.Lookup("b"); !ok || got != tool.Tool(first) {
		t.Error("the first did not stay")
	}
	if _, ok := r.Lookup("c"); ok || r.Len() != 2 {
		t.Error("a refused tool is there")
	}
	all := r.All()
	if all[0].Name() != "a" || all[1].Name() != "b" {
		t.Errorf("not sorted: %v", all)
	}
	all[0] = nil
	if r.All()[0] == nil {
		t.Error("All is no snapshot")
	}
}

func TestDefinitions(t *testing.T) {
	r := tool.NewRegistry()
	z := echo("z")
	z.ToolTraits = tool.Traits{Behavior: tool.ToolBehaviorNonBlocking, Response: tool.Schema{"type": "object"}, Confirm: true}
	hidden := echo("hidden")
	hidden.ToolTraits.Internal = true
	for _, one := range []tool.Tool{z, hidden, &tool.FuncTool{ToolName: "a", ToolTraits: tool.Traits{Confirm: true}}} {
		if err := r.Register(one); err != nil {
			t.Fatal(err)
		}
	}
	d := r.Definitions()
	if len(d) != 2 || d[0].Name != "a" || d[1].Name != "z" {
		t.Fatalf("%+v", d)
	}
	if d[1].Behavior != tool.ToolBehaviorNonBlocking || d[1].ResponseJSONSchema["type"] != "object" {
		t.Errorf("behaviour or response: %+v", d[1])
	}
	for _, one := range d {
		if one.ParametersJSONSchema["properties"].(map[string]any)[tool.TokenArgument] == nil {
			t.Errorf("%s has no token", one.Name)
		}
	}
	// What is given out is a copy: neither the tool nor the next definition changes.
	d[1].ParametersJSONSchema["properties"].(map[string]any)["text"] = nil
	if p := z.ToolSchema["properties"].(map[string]any); p["text"] == nil || p[tool.TokenArgument] != nil {
		t.Error("the tool's schema changed")
	}
	if r.Definitions()[1].ParametersJSONSchema["properties"].(map[string]any)["text"] == nil {
		t.Error("the definitions share a schema")
	}
}

func TestSync(t *testing.T) {
	r := tool.NewRegistry()
	if err := r.Register(echo("mine")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tools          []tool.Tool
		added, removed []string
		fails          bool
		all            string
	}{
		{[]tool.Tool{echo("b"), echo("a")}, []string{"a", "b"}, nil, false, "a b mine"},
		{[]tool.Tool{echo("b"), echo("c")}, []string{"c"}, []string{"a"}, false, "b c mine"},
		{[]tool.Tool{echo("mine"), echo("b"), echo("b"), nil}, nil, []string{"c"}, true, "b mine"},
		{nil, nil, []string{"b"}, false, "mine"},
	} {
		added, removed, err := r.Sync("s", c.tools)
		if !reflect.DeepEqual(added, c.added) || !reflect.DeepEqual(removed, c.removed) || (err != nil) != c.fails {
			t.Errorf("added %v removed %v err %v, want %v %v", added, removed, err, c.added, c.removed)
		}
		var names []string
		for _, one := range r.All() {
			names = append(names, one.Name())
		}
		if got := strings.Join(names, " "); got != c.all {
			t.Errorf("%s, want %s", got, c.all)
		}
	}
}

func TestArguments(t *testing.T) {
	r := tool.NewRegistry()
	strict := echo("strict")
	strict.ToolSchema = tool.Schema{
		"type": "object", "additionalProperties": false,
		"properties": map[string]any{
			"day": map[string]any{"enum": []any{"monday", "tuesday"}},
			"n":   map[string]any{"type": "integer", "minimum": 1, "maximum": 9},
			"on":  map[string]any{"type": "string", "format": "date"},
		},
	}
	free := echo("free")
	free.ToolSchema = nil
	for _, one := range []tool.Tool{strict, free} {
		if err := r.Register(one); err != nil {
			t.Fatal(err)
		}
	}
	deep := map[string]any{}
	for at, i := deep, 0; i < 80; i++ {
		next := map[string]any{}
		at["a"] = next
		at = next
	}
	for _, c := range []struct {
		tool string
		args map[string]any
		want string // in the error
	}{
		{"strict", map[string]any{"day": "monday", "n": 3, "on": "2026-12-01"}, ""},
		{"strict", nil, ""},
		{"strict", map[string]any{"day": "sunday"}, "/day"},
		{"strict", map[string]any{"n": 1.5}, "/n"},
		{"strict", map[string]any{"n": 10}, "/n"},
		{"strict", map[string]any{"on": "soon"}, "/on"},
		{"strict", map[string]any{"to": "+1900"}, "additional"},
		{"strict", map[string]any{"n": json.Number("9007199254740993")}, "/n"},
		{"free", map[string]any{"any": []string{"thing"}}, ""},
		{"free", map[string]any{"x": strings.Repeat("a", 70_000)}, "bytes"},
		{"free", deep, "deep"},
		{"free", map[string]any{"f": func() {}}, "invalid arguments"},
		{"none\r\n", nil, `unknown tool: "none"`},
	} {
		_, err := r.Call(t.Context(), c.tool, c.args)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s(%.60v): %v, want %q", c.tool, c.args, err, c.want)
		}
	}
}

func TestCallRefusesWhatNeedsAYes(t *testing.T) {
	r := tool.NewRegistry()
	gated := echo("gated")
	gated.ToolTraits.Confirm = true
	if err := r.Register(gated); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Call(t.Context(), "gated", map[string]any{"text": "x"}); err == nil {
		t.Error("called without a confirmation")
	}
}

func TestCleanText(t *testing.T) {
	for in, want := range map[string]string{
		"a\r\nb\x00c\x1b[31m": "a bc[31m",
		"  a  b ":             "a b",
		"a\u202eb\u2028c":     "ab c",
		"\xff\xfeok":          "ok",
		"abcdefghijkl":        "abcdefghij",
		"日本語日本語日本語日本語":        "日本語日本語日本語日",
		"123456789 b":         "123456789",
	} {
		if got := tool.CleanText(in, 10); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzSchema(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, `{"$ref":"#"}`, `{"$ref":"http://x/y"}`,
		`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#"}}}`, `{"pattern":"(a+)+$"}`, `{"$dynamicRef":"#x"}`, `{"$schema":"nothing"}`,
	} {
		f.Add(s, `{"a":"aaaaaaaaaaaaaaaa!"}`)
	}
	f.Fuzz(func(t *testing.T, schema, args string) {
		var s tool.Schema
		var a map[string]any
		if json.Unmarshal([]byte(schema), &s) != nil || json.Unmarshal([]byte(args), &a) != nil {
			return
		}
		r := tool.NewRegistry()
		one := &tool.FuncTool{ToolName: "a", ToolSchema: s, Fn: func(_ context.Context, args map[string]any) (map[string]any, error) { return args, nil }}
		if r.Register(one) != nil {
			return
		}
		if _, err := json.Marshal(r.Definitions()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		got, err := r.Call(ctx, "a", a)
		if err != nil && len([]rune(err.Error())) > 1000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		if text, e := json.Marshal(got); e != nil || len(text) > tool.DefaultMaxResult {
			t.Error(len(text), e)
		}
	})
}
