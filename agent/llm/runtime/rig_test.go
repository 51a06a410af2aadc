package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/agent/chat"
	"parley/agent/llm"
	"parley/agent/tool"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run is what a fake model does in one run.
type run func(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error)

// fake is a model that follows a script: the first run does the first step, and so on.
// Runs beyond the script say "Okay.".
type fake struct {
	t *testing.T

	mu       sync.Mutex
	script   []run
	requests []llm.Request
}

func (f *fake) Complete(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
	if err := chat.Valid(r.Messages); err != nil {
		f.t.Errorf("a model is run over what is no conversation: %v\n%s", err, shown(r.Messages))
	}
	f.mu.Lock()
	f.requests = append(f.requests, r)
	step := says("Okay.")
	if len(f.script) > 0 {
		step, f.script = f.script[0], f.script[1:]
	}
	f.mu.Unlock()
	return step(ctx, r, out)
}

// asked is the n-th request from 0; -1 is the last.
func (f *fake) asked(n int) llm.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < 0 {
		n += len(f.requests)
	}
	if n < 0 || n >= len(f.requests) {
		f.t.Fatalf("the model was run %d times", len(f.requests))
	}
	return f.requests[n]
}

func (f *fake) runs() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

// says gives text in bits.
func says(text string) run {
	return func(ctx context.Context, _ llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
		for _, bit := range strings.SplitAfter(text, " ") {
			if err := out(llm.Delta{Text: bit}); err != nil {
				return llm.Completion{}, err
			}
		}
		return llm.Completion{Text: text, Finish: llm.FinishStop}, context.Cause(ctx)
	}
}

// calls says text and calls tools: "name" or "name {json}".
func calls(text string, tools ...string) run {
	return func(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
		done, err := says(text)(ctx, r, out)
		if text == "" {
			done, err = llm.Completion{}, nil
		}
		for i, t := range tools {
			name, args, _ := strings.Cut(t, " ")
			done.ToolCalls = append(done.ToolCalls, llm.ToolCall{ID: fmt.Sprint("c", i), Name: name, Arguments: []byte(args)})
		}
		done.Finish = llm.FinishToolCalls
		return done, err
	}
}

// after waits first.
func after(d time.Duration, then run) run {
	return func(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
		select {
		case <-time.After(d):
			return then(ctx, r, out)
		case <-ctx.Done():
			return llm.Completion{}, context.Cause(ctx)
		}
	}
}

// hangs gives nothing.
func hangs(ctx context.Context, _ llm.Request, _ func(llm.Delta) error) (llm.Completion, error) {
	<-ctx.Done()
	return llm.Completion{}, context.Cause(ctx)
}

// nothing is an answer without a word, as Completers tell of it.
func nothing(context.Context, llm.Request, func(llm.Delta) error) (llm.Completion, error) {
	return llm.Completion{Finish: llm.FinishStop, PromptTokens: 12}, fmt.Errorf("fake: %w (stop)", llm.ErrEmpty)
}

func fails(err error) run {
	return func(context.Context, llm.Request, func(llm.Delta) error) (llm.Completion, error) {
		return llm.Completion{}, err
	}
}

// line records what is done to the call.
type line struct {
	mu   sync.Mutex
	done []string
	err  error
}

func (l *line) do(what string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, what)
	return l.err
}

func (l *line) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.done, ", ")
}

func (l *line) Transfer(_ context.Context, to string, _ bool) error { return l.do("transfer " + to) }
func (l *line) SendDigits(_ context.Context, d string) error        { return l.do("digits " + d) }
func (l *line) Hold(context.Context) error                          { return l.do("hold") }
func (l *line) Resume(context.Context) error                        { return l.do("resume") }
func (l *line) HangUp()                                             { _ = l.do("hang up") }

// rig is one conversation, driven as a call drives it.
type rig struct {
	*testing.T
	model  llm.Model
	fake   *fake
	closed bool
	line   *line
	mem    *forgetful

	mu        sync.Mutex
	woken     int
	happened  []llm.Happening
	faults    []error
	chunks    []llm.Chunk
	lastWords string
}

// rigConfig is the default, without what distracts.
func rigConfig() Config {
	cfg := DefaultConfig()
	cfg.System, cfg.Style, cfg.TellTime = "Be kind.", "", false
	cfg.Memory.KeepSummary = false
	return cfg
}

func newRig(t *testing.T, cfg Config, parts Parts, script ...run) *rig {
	t.Helper()
	return openRig(t, cfg, parts, llm.Conversation{SessionID: "s1", ResourceID: "+15550100"}, script...)
}

func openRig(t *testing.T, cfg Config, parts Parts, c llm.Conversation, script ...run) *rig {
	t.Helper()
	r := &rig{T: t, fake: &fake{t: t, script: script}, line: &line{}, mem: &forgetful{values: map[string]any{}}}
	if c.Memory == nil {
		c.Memory = r.mem
	}
	c.Line = r.line
	c.Wake = func() { r.mu.Lock(); r.woken++; r.mu.Unlock() }
	c.Emit = func(h llm.Happening) { r.mu.Lock(); r.happened = append(r.happened, h); r.mu.Unlock() }
	parts.OnError = func(_ llm.Conversation, err error) { r.mu.Lock(); r.faults = append(r.faults, err); r.mu.Unlock() }
	p, err := New(cfg, r.fake, parts)
	if err != nil {
		t.Fatal(err)
	}
	if r.model, err = p.Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close() })
	return r
}

// close ends the conversation, once.
func (r *rig) close() {
	if !r.closed {
		r.closed = true
		r.model.Close(context.Background(), llm.End{Cause: "test"})
	}
}

// out collects a reply.
func (r *rig) out(c llm.Chunk) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chunks = append(r.chunks, c)
	return nil
}

// reply has the model answer, and returns its words.
func (r *rig) reply(ctx context.Context, t llm.Turn) (string, error) {
	r.mu.Lock()
	r.chunks = nil
	r.mu.Unlock()
	err := r.model.Reply(ctx, t, r.out)
	r.lastWords = r.words()
	return r.lastWords, err
}

// words are those of the reply so far.
func (r *rig) words() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text strings.Builder
	for _, c := range r.chunks {
		text.WriteString(c.Text)
	}
	return text.String()
}

// thinks is how often the silence was to be filled.
func (r *rig) thinks() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.chunks {
		if c.Thinking {
			n++
		}
	}
	return n
}

// say is a turn that is answered and heard to the end.
func (r *rig) say(text string) string {
	r.Helper()
	words, err := r.reply(r.Context(), llm.Turn{Text: text})
	if err != nil {
		r.Errorf("%q: %v", text, err)
	}
	r.heard(words)
	return words
}

// heard tells that a reply was heard to its end.
func (r *rig) heard(words string) {
	words = strings.TrimSpace(words)
	r.tell(llm.Heard{Text: words, Heard: words})
}

func (r *rig) tell(h llm.Heard) { r.hearer().Heard(h) }

func (r *rig) hearer() llm.Hearer {
	h, ok := r.model.(llm.Hearer)
	if !ok {
		r.Fatal("the model is no Hearer")
	}
	return h
}

// holds compares the conversation, instructions left out.
func (r *rig) holds(want ...string) {
	r.Helper()
	m, ok := r.model.(*model)
	if !ok {
		r.Fatal("no model of this package")
	}
	messages := m.pair.Context().Snapshot().Messages
	if err := chat.Valid(messages); err != nil {
		r.Error(err)
	}
	if got := shown(messages); got != strings.Join(want, "\n") {
		r.Errorf("conversation:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// shown is a conversation as lines, without the instructions at its beginning.
func shown(messages []chat.Message) string {
	var lines []string
	for _, m := range messages {
		if m.Role == chat.RoleSystem {
			continue
		}
		text := string(m.Role) + ": " + m.Content
		for _, c := range m.ToolCalls {
			text += fmt.Sprintf(" <%s %s>", c.Name, c.Arguments)
		}
		if m.Role == chat.RoleTool {
			text = fmt.Sprintf("%s = %s", m.Name, m.Content)
		}
		if m.Interrupted {
			text += " [cut]"
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// system is the instructions of a request.
func system(r llm.Request) string {
	if len(r.Messages) > 0 && r.Messages[0].Role == chat.RoleSystem {
		return r.Messages[0].Content
	}
	return ""
}

// notes are the developer messages of a request.
func notes(r llm.Request) string {
	var out []string
	for _, m := range r.Messages {
		if m.Role == chat.RoleDeveloper {
			out = append(out, m.Content)
		}
	}
	return strings.Join(out, "\n")
}

func (r *rig) wakes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.woken
}

// kinds are the happenings of one kind, as "name text".
func (r *rig) kinds(kind string) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.happened {
		if h.Kind == kind {
			text := strings.TrimSpace(h.Name + " " + h.Text)
			if h.Err != nil {
				text += "error: " + h.Err.Error()
			}
			out = append(out, text)
		}
	}
	return out
}

// tools is a registry of tools.
func tools(t *testing.T, all ...tool.Tool) *tool.ToolRegistry {
	t.Helper()
	r := tool.NewRegistry()
	for _, x := range all {
		if err := r.Register(x); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// waitTool is a tool that takes a time, with traits.
func waitTool(name string, takes time.Duration, traits tool.Traits) *tool.FuncTool {
	return &tool.FuncTool{ToolName: name, ToolDescription: name, ToolTraits: traits,
		Fn: func(ctx context.Context, _ map[string]any) (map[string]any, error) {
			select {
			case <-time.After(takes):
				return map[string]any{"from": name}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}}
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func isErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
