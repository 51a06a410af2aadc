package tool_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/tool"
)

// host is what a conversation sees of its calls.
type host struct {
	mu      sync.Mutex
	log     []string
	answers map[string][]tool.ToolResponse
	faults  []string
}

func (h *host) note(format string, a ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, fmt.Sprintf(format, a...))
}

func (h *host) respond(_ context.Context, r tool.ToolResponse) error {
	h.note("respond %s %v", r.ID, r.Response)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[r.ID] = append(h.answers[r.ID], r)
	return nil
}

// got is a snapshot of the answers.
func (h *host) got() map[string][]tool.ToolResponse {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.answers)
}

func (h *host) fault(_ tool.ToolCall, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, err.Error())
}

func (h *host) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.log
	h.log = nil
	return out
}

// dispatch runs f in a bubble with tools and hooks that note what happens.
func dispatch(t *testing.T, change func(*tool.DispatcherConfig, *host), tools []tool.Tool, f func(*tool.Dispatcher, *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &host{answers: map[string][]tool.ToolResponse{}}
		r := tool.NewRegistry()
		for _, one := range tools {
			if err := r.Register(one); err != nil {
				t.Fatal(err)
			}
		}
		cfg := tool.DispatcherConfig{
			Session: "s1", Registry: r, Respond: h.respond, OnError: h.fault,
			Hooks: tool.Hooks{
				AuthorizeToolCall: func(_ context.Context, c tool.ToolCall) (map[string]any, error) {
					h.note("authorize %s %v", c.ID, c.Args)
					return c.Args, nil
				},
				OnToolCall: func(_ context.Context, c tool.ToolCall) { h.note("call %s %v", c.ID, c.Args) },
				OnToolResult: func(_ context.Context, c tool.ToolCall, r tool.ToolResponse) {
					h.note("result %s %v", c.ID, r.Response)
				},
			},
		}
		if change != nil {
			change(&cfg, h)
		}
		d := tool.NewDispatcher(t.Context(), cfg)
		f(d, h)
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// fn is a tool of a function.
func fn(name string, traits tool.Traits, f func(ctx context.Context, args map[string]any) (map[string]any, error)) tool.Tool {
	return &tool.FuncTool{ToolName: name, ToolDescription: name, ToolTraits: traits, Fn: f}
}

func send(t *testing.T, d *tool.Dispatcher, id, name string, args map[string]any) {
	t.Helper()
	if err := d.Dispatch(tool.ToolCall{ID: id, Name: name, Args: args}); err != nil {
		t.Fatal(err)
	}
}

func TestOrder(t *testing.T) {
	secret := errors.New("account 4711 is locked")
	for _, c := range []struct {
		name   string
		call   tool.ToolCall
		change func(*tool.DispatcherConfig, *host)
		want   []string
		fault  string
	}{
		{"good", tool.ToolCall{ID: "1", Name: "echo", Args: map[string]any{"a": "b"}}, nil,
			[]string{"authorize 1 map[a:b]", "call 1 map[a:b]", "invoke map[a:b] s1", "result 1 map[a:b]", "respond 1 map[a:b]"}, ""},
		{"unknown", tool.ToolCall{ID: "1", Name: "x"}, nil, []string{`respond 1 map[error:unknown tool: "x"]`}, ""},
		{"internal", tool.ToolCall{ID: "1", Name: "inside"}, nil, []string{`respond 1 map[error:unknown tool: "inside"]`}, ""},
		{"denied", tool.ToolCall{ID: "1", Name: "echo"}, func(c *tool.DispatcherConfig, _ *host) {
			c.Hooks.AuthorizeToolCall = func(context.Context, tool.ToolCall) (map[string]any, error) { return nil, secret }
		}, []string{"respond 1 map[error:tool call denied by host policy]"}, secret.Error()},
		{"panic in authorize", tool.ToolCall{ID: "1", Name: "echo"}, func(c *tool.DispatcherConfig, _ *host) {
			c.Hooks.AuthorizeToolCall = func(context.Context, tool.ToolCall) (map[string]any, error) { panic("oh") }
		}, []string{"respond 1 map[error:tool call denied by host policy]"}, "oh"},
		{"narrowed", tool.ToolCall{ID: "1", Name: "echo", Args: map[string]any{"a": "b", "all": true}}, func(c *tool.DispatcherConfig, _ *host) {
			c.Hooks.AuthorizeToolCall = func(context.Context, tool.ToolCall) (map[string]any, error) {
				return map[string]any{"only": 1.0}, nil
			}
		}, []string{"call 1 map[only:1]", "invoke map[only:1] s1", "result 1 map[only:1]", "respond 1 map[only:1]"}, ""},
		{"error", tool.ToolCall{ID: "1", Name: "fail"}, nil,
			[]string{"authorize 1 map[]", "call 1 map[]", "result 1 map[error:no such order]", "respond 1 map[error:no such order]"}, ""},
		{"nil result", tool.ToolCall{ID: "1", Name: "nil"}, nil,
			[]string{"authorize 1 map[]", "call 1 map[]", "result 1 map[]", "respond 1 map[]"}, ""},
		{"panic", tool.ToolCall{ID: "1", Name: "panic"}, nil,
			[]string{"authorize 1 map[]", "call 1 map[]", "result 1 map[error:tool: the tool failed inside]", "respond 1 map[error:tool: the tool failed inside]"}, "password"},
		{"not JSON", tool.ToolCall{ID: "1", Name: "chan"}, nil,
			[]string{"authorize 1 map[]", "call 1 map[]", "result 1 map[error:tool: the result cannot be told: json: unsupported type: chan int]", "respond 1 map[error:tool: the result cannot be told: json: unsupported type: chan int]"}, ""},
		{"panic in hooks", tool.ToolCall{ID: "1", Name: "nil"}, func(c *tool.DispatcherConfig, _ *host) {
			c.Hooks.OnToolCall = func(context.Context, tool.ToolCall) { panic("1") }
			c.Hooks.OnToolResult = func(context.Context, tool.ToolCall, tool.ToolResponse) { panic("2") }
		}, []string{"authorize 1 map[]", "respond 1 map[]"}, "panic in a hook"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h *host
			tools := []tool.Tool{
				fn("echo", tool.Traits{}, func(ctx context.Context, args map[string]any) (map[string]any, error) {
					h.note("invoke %v %s", args, tool.SessionFrom(ctx))
					return args, nil
				}),
				fn("inside", tool.Traits{Internal: true}, nil),
				fn("fail", tool.Traits{}, func(context.Context, map[string]any) (map[string]any, error) { return nil, errors.New("no such order") }),
				fn("nil", tool.Traits{}, func(context.Context, map[string]any) (map[string]any, error) { return nil, nil }),
				fn("panic", tool.Traits{}, func(context.Context, map[string]any) (map[string]any, error) { panic("password 123") }),
				fn("chan", tool.Traits{}, func(context.Context, map[string]any) (map[string]any, error) {
					return map[string]any{"c": make(chan int)}, nil
				}),
			}
			dispatch(t, c.change, tools, func(d *tool.Dispatcher, hh *host) {
				h = hh
				send(t, d, c.call.ID, c.call.Name, c.call.Args)
				synctest.Wait()
				if got := h.take(); !reflect.DeepEqual(got, c.want) {
					t.Errorf("%q\nwant %q", got, c.want)
				}
				h.mu.Lock()
				defer h.mu.Unlock()
				if got := strings.Join(h.faults, " "); (c.fault == "") != (got == "") || !strings.Contains(got, c.fault) {
					t.Errorf("faults %q, want %q", got, c.fault)
				}
			})
		})
	}
}

// TestClones: nobody sees what another does to the arguments or the result.
func TestClones(t *testing.T) {
	kept := map[string]any{"list": []any{"x"}}
	args := map[string]any{"m": map[string]any{"k": "v"}}
	spoil := func(m map[string]any) { m["m"].(map[string]any)["k"] = "spoilt" }
	var invoked string
	dispatch(t, func(c *tool.DispatcherConfig, _ *host) {
		c.Hooks.AuthorizeToolCall = func(_ context.Context, call tool.ToolCall) (map[string]any, error) {
			out := map[string]any{"m": map[string]any{"k": call.Args["m"].(map[string]any)["k"]}}
			spoil(call.Args)
			return out, nil
		}
		c.Hooks.OnToolCall = func(_ context.Context, call tool.ToolCall) { spoil(call.Args) }
		c.Hooks.OnToolResult = func(_ context.Context, call tool.ToolCall, r tool.ToolResponse) {
			spoil(call.Args)
			r.Response["list"].([]any)[0] = "spoilt"
		}
	}, []tool.Tool{fn("f", tool.Traits{}, func(_ context.Context, args map[string]any) (map[string]any, error) {
		invoked = fmt.Sprint(args)
		spoil(args)
		return kept, nil
	})}, func(d *tool.Dispatcher, h *host) {
		send(t, d, "1", "f", args)
		synctest.Wait()
		if invoked != "map[m:map[k:v]]" {
			t.Errorf("invoked with %s", invoked)
		}
		if fmt.Sprint(args) != "map[m:map[k:v]]" || fmt.Sprint(kept) != "map[list:[x]]" {
			t.Errorf("the caller's are %v and %v", args, kept)
		}
		if got := fmt.Sprint(h.got()["1"][0].Response); got != "map[list:[x]]" {
			t.Errorf("answered %s", got)
		}
	})
}

// sleeper works for d, whatever its context says, and returns "done".
func sleeper(name string, traits tool.Traits, d time.Duration, deaf bool) tool.Tool {
	return fn(name, traits, func(ctx context.Context, _ map[string]any) (map[string]any, error) {
		if deaf {
			time.Sleep(d)
			return map[string]any{"status": "done"}, nil
		}
		select {
		case <-time.After(d):
			return map[string]any{"status": "done"}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

func TestSlowCallsOverlap(t *testing.T) {
	dispatch(t, nil, []tool.Tool{sleeper("slow", tool.Traits{}, 10*time.Second, false)}, func(d *tool.Dispatcher, h *host) {
		began := time.Now()
		send(t, d, "1", "slow", nil)
		send(t, d, "2", "slow", nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(h.got()) != 2 || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", h.got(), time.Since(began))
		}
	})
}

func TestCancelAndInterrupt(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		tools := []tool.Tool{
			sleeper("long", tool.Traits{}, 20*time.Second, deaf),
			sleeper("soft", tool.Traits{Interruptible: true}, 20*time.Second, deaf),
		}
		dispatch(t, nil, tools, func(d *tool.Dispatcher, h *host) {
			send(t, d, "cancelled", "long", nil)
			send(t, d, "stays", "long", nil)
			send(t, d, "soft", "soft", nil)
			time.Sleep(time.Second)
			d.Cancel("cancelled", "never was")
			d.Interrupt()
			synctest.Wait()
			if got := fmt.Sprint(h.got()["soft"]); !strings.Contains(got, "caller spoke") || len(h.got()) != 1 {
				t.Errorf("deaf %v: %v", deaf, h.got())
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(h.got()["cancelled"]) != 0 || len(h.got()["soft"]) != 1 || len(h.got()["stays"]) != 1 || d.Running() != 0 {
				t.Errorf("deaf %v: %v", deaf, h.got())
			}
			d.Cancel("stays") // answered: nothing to take back
		})
	}
}

func TestTimeouts(t *testing.T) {
	tools := []tool.Tool{
		sleeper("deaf", tool.Traits{}, time.Hour, true),
		sleeper("own", tool.Traits{Timeout: 2 * time.Second}, time.Hour, false),
	}
	dispatch(t, nil, tools, func(d *tool.Dispatcher, h *host) {
		send(t, d, "deaf", "deaf", nil)
		send(t, d, "own", "own", nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(h.got()["own"]) != 1 || len(h.got()["deaf"]) != 0 {
			t.Errorf("after 2 s: %v", h.got())
		}
		time.Sleep(28 * time.Second)
		synctest.Wait()
		if got := fmt.Sprint(h.got()["deaf"]); !strings.Contains(got, "no result in time") {
			t.Errorf("after 30 s: %v", got)
		}
		if d.Running() != 1 {
			t.Error("the deaf tool is forgotten while it runs")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if len(h.got()["deaf"]) != 1 {
			t.Errorf("its late result was told: %v", h.got()["deaf"])
		}
	})
}

func TestBounds(t *testing.T) {
	running, most := 0, 0
	var mu sync.Mutex
	count := fn("count", tool.Traits{}, func(ctx context.Context, _ map[string]any) (map[string]any, error) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		running--
		mu.Unlock()
		return nil, nil
	})
	dispatch(t, func(c *tool.DispatcherConfig, _ *host) { c.MaxRunning, c.MaxCalls = 3, 10 }, []tool.Tool{count}, func(d *tool.Dispatcher, h *host) {
		for i := range 14 {
			send(t, d, fmt.Sprint(i), "count", nil)
		}
		synctest.Wait()
		busy := 0
		for _, a := range h.got() {
			if strings.Contains(fmt.Sprint(a), "too many") {
				busy++
			}
		}
		if busy != 4 {
			t.Errorf("%d refused, want 4", busy)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if most != 3 || len(h.got()) != 14 {
			t.Errorf("%d at a time, %d answers", most, len(h.got()))
		}
	})
}

func TestDuplicateID(t *testing.T) {
	dispatch(t, nil, []tool.Tool{sleeper("slow", tool.Traits{}, time.Second, false)}, func(d *tool.Dispatcher, h *host) {
		send(t, d, "1", "slow", nil)
		if err := d.Dispatch(tool.ToolCall{ID: "1", Name: "slow"}); !errors.Is(err, tool.ErrDuplicateCall) {
			t.Error(err)
		}
		send(t, d, "", "slow", nil)
		send(t, d, "", "slow", nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(h.got()["1"]) != 1 || len(h.got()[""]) != 2 {
			t.Error(h.got())
		}
		send(t, d, "1", "slow", nil) // the id is free again
		time.Sleep(2 * time.Second)
	})
}

func TestClose(t *testing.T) {
	dispatch(t, nil, []tool.Tool{sleeper("deaf", tool.Traits{}, 20*time.Second, true), sleeper("polite", tool.Traits{}, time.Hour, false)}, func(d *tool.Dispatcher, h *host) {
		send(t, d, "1", "deaf", nil)
		send(t, d, "2", "polite", nil)
		synctest.Wait()
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		began := time.Now()
		if err := d.Close(ctx); err == nil || !strings.Contains(err.Error(), "deaf") || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := d.Dispatch(tool.ToolCall{Name: "polite"}); !errors.Is(err, tool.ErrClosed) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(h.got()) != 0 {
			t.Errorf("answered after the end: %v", h.got())
		}
	})
}

func TestThinking(t *testing.T) {
	var h *host
	change := func(c *tool.DispatcherConfig, hh *host) {
		h = hh
		c.Hooks = tool.Hooks{}
		c.Thinking = func(call tool.ToolCall, on bool) { h.note("thinking %s %v", call.ID, on) }
	}
	marked := tool.Traits{ThinkingSound: true}
	tools := []tool.Tool{sleeper("slow", marked, 2*time.Second, false), sleeper("quick", marked, 100*time.Millisecond, false), sleeper("plain", tool.Traits{}, 2*time.Second, false)}
	dispatch(t, change, tools, func(d *tool.Dispatcher, _ *host) {
		send(t, d, "q", "quick", nil)
		send(t, d, "p", "plain", nil)
		time.Sleep(3 * time.Second)
		h.take()
		send(t, d, "s", "slow", nil)
		time.Sleep(499 * time.Millisecond)
		synctest.Wait()
		early := h.take()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want := []string{"thinking s true", "respond s map[status:done]", "thinking s false"}
		if got := h.take(); len(early) != 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, then %v", early, got)
		}
	})
}

// TestRandomOrders: whatever happens in whatever order, a call has one answer, or none
// if it was taken back.
func TestRandomOrders(t *testing.T) {
	for seed := range 200 {
		tools := []tool.Tool{
			sleeper("a", tool.Traits{}, time.Duration(seed%7)*time.Second, seed%2 == 0),
			sleeper("b", tool.Traits{Interruptible: true}, time.Duration(seed%5)*time.Second, seed%3 == 0),
			fn("c", tool.Traits{}, func(context.Context, map[string]any) (map[string]any, error) { panic(1) }),
		}
		dispatch(t, func(c *tool.DispatcherConfig, _ *host) { c.Timeout = time.Duration(1+seed%4) * time.Second }, tools, func(d *tool.Dispatcher, h *host) {
			cancelled := map[string]bool{}
			for i := range 30 {
				id := fmt.Sprint(i)
				send(t, d, id, []string{"a", "b", "c", "d"}[(i*7+seed)%4], nil)
				switch (i * seed) % 6 {
				case 1:
					d.Cancel(id)
					cancelled[id] = true
				case 2:
					d.Interrupt()
				case 3:
					time.Sleep(time.Duration(i*seed%900) * time.Millisecond)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			for i := range 30 {
				id := fmt.Sprint(i)
				if n := len(h.got()[id]); n != 1 && !cancelled[id] || n > 1 {
					t.Errorf("seed %d: call %s has %d answers", seed, id, n)
				}
			}
		})
	}
}
