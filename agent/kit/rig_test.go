package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/agent/live"
	"parley/agent/live/livetest"
)

const ms = time.Millisecond

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal is what was called, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) all(prefix string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []string
	for _, l := range j.lines {
		if strings.HasPrefix(l, prefix) {
			out = append(out, strings.TrimPrefix(l, prefix))
		}
	}
	return out
}

// bench is an AgentSession with a scripted provider, under a fake clock.
type bench struct {
	*testing.T
	script   *livetest.Script
	provider live.LiveProvider
	registry *ToolRegistry
	hooks    LifecycleHooks
	calls    Callbacks
	memory   Memory
	cfg      LiveConfig
	idle     IdleConfig
	session  *AgentSession
	journal
}

// seat runs a test with a session that was prepared and not started.
func seat(t *testing.T, prepare func(*bench), run func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, script: livetest.NewScript(), registry: NewRegistry(), cfg: LiveConfig{Transcribe: true}}
		b.provider = b.script.Provider()
		b.calls = Callbacks{
			OnStateChange:     func(s State) { b.add("state %s", s) },
			OnAudio:           func(pcm []byte) { b.add("audio %d", len(pcm)) },
			OnUserTranscript:  func(text string, done bool) { b.add("user transcript %q %v", text, done) },
			OnAgentTranscript: func(text string, done bool) { b.add("agent transcript %q %v", text, done) },
			OnInterrupted:     func() { b.add("interrupted") },
			OnError:           func(err error) { b.add("error %v", err) },
			OnIdleReminder:    func() { b.add("reminder") },
		}
		b.hooks = LifecycleHooks{
			OnSessionStart: func(_ context.Context, sc SessionContext) { b.add("start %v", sc.SessionID != "") },
			OnSessionEnd:   func(ctx context.Context, _ SessionContext) { b.add("end %v", ctx.Err()) },
			OnUserMessage:  func(_ context.Context, _ SessionContext, text string) { b.add("user %s", text) },
			OnAgentMessage: func(_ context.Context, _ SessionContext, text string) { b.add("agent %s", text) },
		}
		if prepare != nil {
			prepare(b)
		}
		b.session = NewAgentSession(b.provider, b.calls, b.registry, b.hooks, b.memory)
		defer b.session.Stop()
		run(b)
	})
}

// sit is seat with a session that was started.
func sit(t *testing.T, prepare func(*bench), run func(*bench)) {
	t.Helper()
	seat(t, prepare, func(b *bench) {
		b.start()
		run(b)
	})
}

func (b *bench) start() {
	b.Helper()
	if err := b.session.Start(b.Context(), b.cfg, b.idle); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// tell has the model say m and waits until all is done that follows at once.
func (b *bench) tell(m live.Message) {
	b.Helper()
	if err := b.script.Last().Tell(m); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// want compares what was called, of a kind.
func (b *bench) want(prefix string, want ...string) {
	b.Helper()
	synctest.Wait()
	if got := b.all(prefix); !slices.Equal(got, want) {
		b.Errorf("%s: %q, want %q", strings.TrimSpace(prefix), got, want)
	}
}

// is compares the state.
func (b *bench) is(s State) {
	b.Helper()
	synctest.Wait()
	if got := b.session.State(); got != s {
		b.Errorf("state %s, want %s", got, s)
	}
}

// sent are the texts of what the newest connection was given.
func (b *bench) sent() []string {
	synctest.Wait()
	return texts(b.script.Last().All())
}

func texts(all []livetest.Sent) []string {
	out := []string{}
	for _, s := range all {
		switch s.Kind {
		case livetest.SentToolResponse:
			out = append(out, fmt.Sprintf("response %s %v", s.Response.ID, s.Response.Response))
		default:
			out = append(out, strings.TrimSpace(string(s.Kind)+" "+s.Text))
		}
	}
	return out
}

func pcm(d time.Duration) []byte { return make([]byte, 2*int(d*live.OutputRate/time.Second)) }

// call is the model's wish to call a tool.
func call(id, name string, args map[string]any) live.Message {
	return live.Message{ToolCalls: []ToolCall{{ID: id, Name: name, Args: args}}}
}

func (b *bench) register(t Tool) {
	b.Helper()
	if err := b.registry.Register(t); err != nil {
		b.Fatal(err)
	}
}
