package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"parley/agent/internal/wire"
	"parley/agent/llm"
)

// calls are the pieces put together, as "id name arguments" joined by "|".
func calls(t *testing.T, parts ...CallPart) string {
	t.Helper()
	a := New(func(llm.Delta) error { return nil })
	for _, p := range parts {
		if err := a.Call(p); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := a.Close()
	var got []string
	for _, call := range c.ToolCalls {
		if !json.Valid(call.Arguments) {
			t.Errorf("arguments %q", call.Arguments)
		}
		id := call.ID
		if strings.HasPrefix(id, "call_") {
			id = "?"
		}
		got = append(got, fmt.Sprintf("%s %s %s", id, call.Name, call.Arguments))
	}
	return strings.Join(got, "|")
}

// Arguments take a model longer than it may be silent: each piece is a sign of life, and
// who does not want any more is not given more.
func TestPiecesOfToolCallsAreSignsOfLife(t *testing.T) {
	signs, enough := 0, errors.New("enough")
	a := New(func(d llm.Delta) error {
		if d != (llm.Delta{}) {
			t.Errorf("%+v", d)
		}
		if signs++; signs == 3 {
			return enough
		}
		return nil
	})
	for i, want := range []error{nil, nil, enough} {
		if err := a.Call(CallPart{ID: "a", Name: "f", Arguments: `{`}); !errors.Is(err, want) {
			t.Errorf("piece %d: %v", i, err)
		}
	}
}

func TestToolCallsInPieces(t *testing.T) {
	tests := []struct {
		name  string
		parts []CallPart
		want  string
	}{
		{"OpenAI", []CallPart{
			{Index: 0, ID: "a", Name: "weather"},
			{Index: 0, Arguments: `{"ci`},
			{Index: 0, Arguments: `ty":"Rome"}`},
			{Index: 1, ID: "b", Name: "time"},
			{Index: 1, Arguments: `{}`},
		}, `a weather {"city":"Rome"}|b time {}`},
		{"two at the same time", []CallPart{
			{Index: 0, ID: "a", Name: "f"},
			{Index: 1, ID: "b", Name: "g"},
			{Index: 1, Arguments: `{"y":`},
			{Index: 0, Arguments: `{"x":1}`},
			{Index: 1, Arguments: `2}`},
		}, `a f {"x":1}|b g {"y":2}`},
		{"whole calls, all with number 0", []CallPart{
			{Index: 0, ID: "a", Name: "f", Arguments: `{"x":1}`},
			{Index: 0, ID: "b", Name: "f", Arguments: `{"x":2}`},
		}, `a f {"x":1}|b f {"x":2}`},
		{"the same without ids", []CallPart{
			{Index: 0, Name: "f", Arguments: `{"x":1}`},
			{Index: 0, Name: "f", Arguments: `{"x":2}`},
		}, `? f {"x":1}|? f {"x":2}`},
		{"interleaved, with number 0", []CallPart{
			{Index: 0, ID: "a", Name: "f"},
			{Index: 0, ID: "b", Name: "g"},
			{Index: 0, ID: "a", Arguments: `{"x":1}`},
		}, `a f {"x":1}|b g {}`},
		{"no numbers", []CallPart{
			{Index: -1, ID: "a", Name: "f"},
			{Index: -1, Arguments: `{"x":1}`},
			{Index: -1, ID: "b", Name: "g"},
			{Index: -1, Name: "h", Arguments: "{}"},
		}, `a f {"x":1}|b g {}|? h {}`},
		{"id and name with each piece", []CallPart{
			{Index: 0, ID: "a", Name: "f", Arguments: `{"x"`},
			{Index: 0, ID: "a", Name: "f", Arguments: `:1}`},
			{Index: 0, Name: "f"},
		}, `a f {"x":1}`},
		{"the id comes late", []CallPart{{Index: 0, Name: "f"}, {Index: 0, ID: "a", Arguments: `{}`}}, `a f {}`},
		{"a name in pieces", []CallPart{{Index: 0, ID: "a", Name: "get_"}, {Index: 0, Name: "weather"}}, `a get_weather {}`},
		{"no arguments", []CallPart{{ID: "a", Name: "f"}, {Index: 1, ID: "b", Name: "g", Arguments: "null"}, {Index: 2, ID: "c", Name: "h", Arguments: " "}}, `a f {}|b g {}|c h {}`},
		{"arguments within a text", []CallPart{{ID: "a", Name: "f", Arguments: `"{\"x\":1}"`}}, `a f {"x":1}`},
		{"arguments that are none", []CallPart{{ID: "a", Name: "f", Arguments: `{"x":`}, {Index: 1, ID: "b", Name: "g", Arguments: `[1]`}}, `a f "{\"x\":"|b g "[1]"`},
		{"invalid bytes", []CallPart{{ID: "a", Name: "f", Arguments: "{\"x\":\"\xff\"}"}}, "a f {\"x\":\"\ufffd\"}"},
		{"no name", []CallPart{{ID: "a", Arguments: `{}`}}, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := calls(t, tt.parts...); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	none := func(llm.Delta) error { return nil }
	a := New(none)
	var err error
	for i := range maxCalls + 1 {
		err = errors.Join(err, a.Call(CallPart{Index: i, Name: "f"}))
	}
	if !errors.Is(err, errCalls) {
		t.Error(err)
	}
	half := strings.Repeat("x", MaxText/2+1)
	a = New(none)
	if err := errors.Join(a.Text(half), a.Text(half)); !errors.Is(err, errText) {
		t.Error(err)
	}
	a = New(none)
	if err := errors.Join(a.Call(CallPart{Name: "f", Arguments: half}), a.Call(CallPart{Arguments: half})); !errors.Is(err, errText) {
		t.Error(err)
	}
}

func TestFinish(t *testing.T) {
	call := CallPart{ID: "a", Name: "f"}
	tests := []struct {
		reason, text string
		calls        bool
		want         llm.FinishReason
		empty        bool
	}{
		{"stop", "Hi.", false, llm.FinishStop, false},
		{"eos", "Hi.", false, llm.FinishStop, false},
		{"length", "Hi", false, llm.FinishLength, false},
		{"max_tokens", "Hi", true, llm.FinishLength, false},
		{"content_filter", "Hi", false, llm.FinishFiltered, false},
		{"content_filter", "", false, llm.FinishFiltered, true},
		{"tool_calls", "", true, llm.FinishToolCalls, false},
		{"stop", "", true, llm.FinishToolCalls, false},
		{"tool_calls", "Hi.", false, llm.FinishStop, false},
		{"", "Hi.", false, llm.FinishStop, false},
		{"stop", " \n", false, llm.FinishStop, true},
		{"stop", "", false, llm.FinishStop, true},
	}
	for _, tt := range tests {
		a := New(func(llm.Delta) error { return nil })
		if tt.reason != "" {
			a.Done(tt.reason)
		}
		if a.Finished() != (tt.reason != "") {
			t.Errorf("%q: finished %v", tt.reason, a.Finished())
		}
		err := a.Text(tt.text)
		if tt.calls {
			err = errors.Join(err, a.Call(call))
		}
		c, end := a.Close()
		if err != nil || c.Finish != tt.want || errors.Is(end, llm.ErrEmpty) != tt.empty || end != nil && !tt.empty {
			t.Errorf("%q %q: %s, %v %v", tt.reason, tt.text, c.Finish, err, end)
		}
	}
}

// divided writes text in bits of n bytes; 0: at once.
func divided(t *testing.T, text string, n int) (said, thought string) {
	t.Helper()
	a := New(func(d llm.Delta) error {
		said += d.Text
		thought += d.Thought
		return nil
	})
	if n == 0 {
		n = len(text) + 1
	}
	for len(text) > 0 {
		bit := text[:min(n, len(text))]
		if err := a.Text(bit); err != nil {
			t.Fatal(err)
		}
		text = text[len(bit):]
	}
	if c, err := a.Close(); c.Text != said || err != nil && !errors.Is(err, llm.ErrEmpty) {
		t.Fatalf("%q, %v", c.Text, err)
	}
	return said, thought
}

func TestThoughtsAmongTheWords(t *testing.T) {
	tests := []struct{ name, in, said, thought string }{
		{"none", "Hello. <think>x</think>", "Hello. <think>x</think>", ""},
		{"some", "<think>Hm.\n</think>\n\nHello.", "Hello.", "Hm.\n"},
		{"white space before", "\n <think>Hm.</think> Hello.", "Hello.", "Hm."},
		{"the other tag", "<thinking>a < b</thinking>Hello.", "Hello.", "a < b"},
		{"empty", "<think>\n\n</think>\n\nHello.", "Hello.", "\n\n"},
		{"no end", "<think>Hm.", "", "Hm."},
		{"another end", "<think>a </thin b </thinking></think>c", "c", "a </thin b </thinking>"},
		{"no tag after all", "<thin ice", "<thin ice", ""},
		{"half a tag", " <thi", " <thi", ""},
		{"nothing", "", "", ""},
		{"white space", " \n", " \n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for n := range 5 {
				if said, thought := divided(t, tt.in, n); said != tt.said || thought != tt.thought {
					t.Errorf("in bits of %d: %q and %q, want %q and %q", n, said, thought, tt.said, tt.thought)
				}
			}
		})
	}
}

func TestWritten(t *testing.T) {
	for _, text := range []string{`{"a":1}`, `{"a":`, `[1]`, "grüße"} {
		if got := Written(Arguments(text)); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := Written(nil); got != "{}" {
		t.Error(got)
	}
}

func TestFailed(t *testing.T) {
	u, _ := url.Parse("http://host/v1?secret=x")
	s := wire.NewService("room", u, "k3y", nil, nil)
	stop := errors.New("stop")
	if err := Failed(t.Context(), s, &OutError{stop}); err != stop {
		t.Error(err)
	}
	for _, busy := range []bool{false, true} {
		err := Failed(t.Context(), s, &ServiceError{Text: "no\x07 k3y", Busy: busy})
		if !strings.HasSuffix(err.Error(), "room: http://host/v1 reported an error: no [secret]") || errors.Is(err, llm.ErrBusy) != busy {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if err := Failed(ctx, s, &ServiceError{Text: "no"}); !errors.Is(err, stop) {
		t.Error(err)
	}
	for code, busy := range map[int]bool{429: true, 500: false} {
		if err := Refused(&wire.StatusError{Code: code}); errors.Is(err, llm.ErrBusy) != busy {
			t.Error(err)
		}
	}
	if err := Failed(t.Context(), s, &ServiceError{What: "sent a page", Text: "<p>"}); err.Error() != "room: http://host/v1 sent a page: <p>" {
		t.Error(err)
	}
	if err := Failed(t.Context(), s, llm.ErrEmpty); !errors.Is(err, llm.ErrEmpty) || !strings.HasPrefix(err.Error(), "room: ") {
		t.Error(err)
	}
	if err := New(func(llm.Delta) error { return stop }).Text("x"); !errors.Is(err, stop) || err.Error() != "stop" {
		t.Error(err)
	}
}

func FuzzCalls(f *testing.F) {
	f.Add([]byte("\x00af{\x01bg}\x00.."))
	f.Add([]byte("\xff\x00\x01\x02\x03"))
	f.Fuzz(func(t *testing.T, script []byte) {
		names := []string{"", "f", "g", "get_"}
		arguments := []string{"", "{}", `{"x":1`, "}", `"`, "null", "\xff", `{"y":2}`}
		a := New(func(llm.Delta) error { return nil })
		for len(script) >= 2 {
			p := CallPart{Index: int(script[0]&3) - 1, Name: names[script[0]>>2&3], Arguments: arguments[script[1]&7]}
			if id := script[1] >> 3 & 3; id > 0 {
				p.ID = string('a' + rune(id))
			}
			if err := a.Call(p); err != nil && !errors.Is(err, errCalls) {
				t.Fatal(err)
			}
			script = script[2:]
		}
		c, err := a.Close()
		if err != nil && !errors.Is(err, llm.ErrEmpty) {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		for _, call := range c.ToolCalls {
			if call.ID == "" || call.Name == "" || !json.Valid(call.Arguments) || ids[call.ID] {
				t.Fatalf("%+v", c.ToolCalls)
			}
			ids[call.ID] = true
		}
	})
}

func FuzzThoughts(f *testing.F) {
	f.Add("<think>a</think>b")
	f.Add(" <thinking>a</think")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "")
		if len(text) > 1000 {
			return
		}
		said, thought := divided(t, text, 0)
		got, got2 := "", ""
		a := New(func(d llm.Delta) error { got += d.Text; got2 += d.Thought; return nil })
		for _, r := range text {
			if err := a.Text(string(r)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Close(); err != nil && !errors.Is(err, llm.ErrEmpty) {
			t.Fatal(err)
		}
		if got != said || got2 != thought {
			t.Fatalf("rune by rune %q and %q, at once %q and %q", got, got2, said, thought)
		}
	})
}
