package kit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/live"
	"parley/agent/live/livetest"
)

// does makes a tool of a function.
func does(name string, fn func(ctx context.Context, args map[string]any) (map[string]any, error)) *FuncTool {
	return &FuncTool{ToolName: name, ToolDescription: "does " + name, Fn: fn}
}

// noted has all hooks of tools note what they see.
func noted(b *bench) {
	b.hooks.AuthorizeToolCall = func(_ context.Context, _ SessionContext, c ToolCall) (map[string]any, error) {
		b.add("tool authorise %s", c.ID)
		return c.Args, nil
	}
	b.hooks.OnToolCall = func(_ context.Context, _ SessionContext, c ToolCall) { b.add("tool call %s", c.ID) }
	b.hooks.OnToolResult = func(_ context.Context, _ SessionContext, c ToolCall, r ToolResponse) {
		b.add("tool result %s %v", c.ID, r.Response)
	}
	b.script.OnSent = func(_ *livetest.ScriptConn, s livetest.Sent) error {
		if s.Kind == livetest.SentToolResponse {
			b.add("tool response %s", s.Response.ID)
		}
		return nil
	}
}

// 8: authorise, OnToolCall, Invoke, OnToolResult, response.
func TestToolOrder(t *testing.T) {
	sit(t, func(b *bench) {
		noted(b)
		b.register(does("look", func(context.Context, map[string]any) (map[string]any, error) {
			b.add("tool invoke")
			return map[string]any{"n": 1}, nil
		}))
		b.calls.OnToolCall = func(c ToolCall) { b.add("tool callback %s", c.ID) }
	}, func(b *bench) {
		b.tell(call("1", "look", nil))
		b.want("tool ", "authorise 1", "callback 1", "call 1", "invoke", "result 1 map[n:1]", "response 1")
	})
}

// 8: two slow calls overlap, are authorised in their order, and audio flows meanwhile.
func TestToolsOverlap(t *testing.T) {
	sit(t, func(b *bench) {
		noted(b)
		b.register(does("slow", func(ctx context.Context, _ map[string]any) (map[string]any, error) {
			time.Sleep(2 * time.Second)
			return nil, nil
		}))
	}, func(b *bench) {
		began := time.Now()
		b.tell(live.Message{ToolCalls: []ToolCall{{ID: "1", Name: "slow"}, {ID: "2", Name: "slow"}}})
		if got := b.all("tool authorise "); !slices.Equal(got, []string{"1", "2"}) {
			b.Errorf("authorised %q", got)
		}
		b.tell(live.Message{Audio: pcm(20 * ms)})
		b.want("audio ", "960")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := b.all("tool response "); len(got) != 2 || time.Since(began) > 2*time.Second {
			b.Errorf("after %v answered %q", time.Since(began), got)
		}
	})
}

// 8: every kind of call has its answer.
func TestToolAnswers(t *testing.T) {
	secret := errors.New("caller is on the list of debtors")
	for name, c := range map[string]struct {
		tool func(context.Context, map[string]any) (map[string]any, error)
		call string
		deny bool
		want string
		fire []string
	}{
		"unknown":    {nil, "x", false, `map[error:unknown tool: "x"]`, nil},
		"denied":     {func(context.Context, map[string]any) (map[string]any, error) { return nil, nil }, "look", true, "map[error:tool call denied by host policy]", []string{"authorise 1"}},
		"error":      {func(context.Context, map[string]any) (map[string]any, error) { return nil, errors.New("no such day") }, "look", false, "map[error:no such day]", nil},
		"nil result": {func(context.Context, map[string]any) (map[string]any, error) { return nil, nil }, "look", false, "map[]", nil},
		"panic":      {func(context.Context, map[string]any) (map[string]any, error) { panic("secret") }, "look", false, "map[error:tool: the tool failed inside]", nil},
	} {
		t.Run(name, func(t *testing.T) {
			sit(t, func(b *bench) {
				noted(b)
				if c.tool != nil {
					b.register(does("look", c.tool))
				}
				if c.deny {
					b.hooks.AuthorizeToolCall = func(_ context.Context, _ SessionContext, c ToolCall) (map[string]any, error) {
						b.add("tool authorise %s", c.ID)
						return nil, secret
					}
				}
			}, func(b *bench) {
				b.tell(call("1", c.call, nil))
				if got, want := b.sent(), []string{"response 1 " + c.want}; !slices.Equal(got, want) {
					b.Errorf("sent %q, want %q", got, want)
				}
				fired := slices.DeleteFunc(b.all("tool "), func(l string) bool { return strings.HasPrefix(l, "response") })
				if c.call == "x" && len(fired) > 0 || c.fire != nil && !slices.Equal(fired, c.fire) {
					b.Errorf("fired %q", fired)
				}
				b.is(live.StateProcessing) // the call goes on
			})
		})
	}
}

// 8: what authorise returns is the arguments, and everybody gets a copy.
func TestToolArguments(t *testing.T) {
	sit(t, func(b *bench) {
		spoil := func(args map[string]any) {
			args["who"] = "spoilt"
			args["list"].([]any)[0] = "spoilt"
		}
		b.hooks.AuthorizeToolCall = func(_ context.Context, _ SessionContext, c ToolCall) (map[string]any, error) {
			narrowed := map[string]any{"who": "narrowed", "list": []any{c.Args["list"].([]any)[0]}}
			spoil(c.Args)
			return narrowed, nil
		}
		b.hooks.OnToolCall = func(_ context.Context, _ SessionContext, c ToolCall) {
			b.add("args %v", c.Args)
			spoil(c.Args)
		}
		b.hooks.OnToolResult = func(_ context.Context, _ SessionContext, c ToolCall, r ToolResponse) {
			b.add("args %v", c.Args)
			r.Response["who"] = "spoilt"
		}
		b.register(does("look", func(_ context.Context, args map[string]any) (map[string]any, error) {
			b.add("args %v", args)
			got := maps.Clone(args)
			spoil(args)
			return map[string]any{"who": got["who"]}, nil
		}))
	}, func(b *bench) {
		args := map[string]any{"who": "asked", "list": []any{"a", "b"}}
		b.tell(call("1", "look", args))
		b.want("args ", "map[list:[a] who:narrowed]", "map[list:[a] who:narrowed]", "map[list:[a] who:narrowed]")
		if got := fmt.Sprint(args); got != "map[list:[a b] who:asked]" {
			b.Errorf("the provider's arguments are %s", got)
		}
		if got := b.sent(); !slices.Equal(got, []string{"response 1 map[who:narrowed]"}) {
			b.Errorf("sent %q", got)
		}
	})
}

// 8: a call that the provider takes back ends and is not answered.
func TestToolCancelled(t *testing.T) {
	sit(t, func(b *bench) {
		b.register(does("slow", func(ctx context.Context, _ map[string]any) (map[string]any, error) {
			<-ctx.Done()
			b.add("tool ended %v", context.Cause(ctx))
			return map[string]any{"late": true}, nil
		}))
	}, func(b *bench) {
		b.tell(call("1", "slow", nil))
		b.tell(live.Message{CancelledCalls: []string{"1"}})
		b.want("tool ended ", "tool: cancelled by the model")
		if got := b.sent(); len(got) != 0 {
			b.Errorf("sent %q", got)
		}
		if b.session.Running() != 0 {
			b.Error("the call still runs")
		}
	})
}

// 8: at every instant a new connection would know an answer of each call, or that it
// is to come.
func TestToolsInHistory(t *testing.T) {
	sit(t, func(b *bench) {
		b.register(does("slow", func(context.Context, map[string]any) (map[string]any, error) {
			time.Sleep(20 * time.Second)
			return map[string]any{"done": true}, nil
		}))
		b.register(does("quick", func(context.Context, map[string]any) (map[string]any, error) {
			return map[string]any{"quick": true}, nil
		}))
	}, func(b *bench) {
		b.tell(live.Message{User: live.Transcript{Text: "Both, please.", Done: true}})
		b.tell(call("1", "slow", nil))
		b.tell(call("2", "quick", nil))
		b.tell(call("3", "slow", nil))
		b.tell(live.Message{CancelledCalls: []string{"3"}})
		b.script.Last().Drop()
		synctest.Wait()
		h := b.script.Last().Config().History
		if len(h) != 4 || h[0].Text != "Both, please." || h[1].Call.ID != "1" || h[1].Response != nil ||
			h[2].Response == nil || h[2].Response.Response["quick"] != true || h[3].Response == nil {
			b.Fatalf("history %+v", h)
		}
		time.Sleep(20 * time.Second)
		if got := b.sent(); !slices.Equal(got, []string{"response 1 map[done:true]"}) {
			b.Errorf("sent over the new connection %q", got)
		}
	})
}

// Tools of the caller's own are the caller's to answer.
func TestOwnTools(t *testing.T) {
	sit(t, func(b *bench) {
		b.cfg.Tools = []ToolDefinition{{Name: "mine"}}
		b.calls.OnToolCall = func(c ToolCall) { b.add("tool %s", c.Name) }
	}, func(b *bench) {
		b.tell(call("1", "mine", nil))
		b.want("tool ", "mine")
		if err := b.session.Respond(ToolResponse{ID: "1", Name: "mine", Response: map[string]any{"ok": true}}); err != nil {
			b.Error(err)
		}
		if got := b.sent(); !slices.Equal(got, []string{"response 1 map[ok:true]"}) {
			b.Errorf("sent %q", got)
		}
	})
}

// 9: the registry refuses what is nil or taken, and gives sorted snapshots.
func TestRegistry(t *testing.T) {
	r := NewRegistry()
	first := does("b", nil)
	for _, c := range []struct {
		tool Tool
		want error
	}{
		{nil, ErrNilTool}, {(*FuncTool)(nil), ErrNilTool}, {does("", nil), ErrNilTool},
		{first, nil}, {does("b", nil), ErrDuplicateTool}, {does("a", nil), nil},
	} {
		if err := r.Register(c.tool); !errors.Is(err, c.want) {
			t.Errorf("Register(%v): %v, want %v", c.tool, err, c.want)
		}
	}
	if got, ok := r.Lookup("b"); !ok || got != Tool(first) || r.Len() != 2 {
		t.Errorf("b is %v, %v of %d", got, ok, r.Len())
	}
	all := r.All()
	if len(all) != 2 || all[0].Name() != "a" {
		t.Errorf("All: %v", all)
	}
	all[0] = nil
	if r.All()[0] == nil {
		t.Error("All is no snapshot")
	}
}
