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

	"parley/agent"
	"parley/agent/cascade"
	"parley/agent/chat"
	"parley/agent/live"
	"parley/agent/llm"
	"parley/agent/stt/stttest"
	"parley/agent/tts"
)

// thinker is a language model that is told of in full.
type thinker struct {
	mu    sync.Mutex
	asked []llm.Request
}

func (m *thinker) Complete(_ context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
	m.mu.Lock()
	m.asked = append(m.asked, r)
	n := len(m.asked)
	m.mu.Unlock()
	text := fmt.Sprintf("Reply number %d has nine words in all, indeed.", n)
	return llm.Completion{Text: text}, out(llm.Delta{Text: text})
}

// told is what the model was told last, without its instructions.
func (m *thinker) told() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, msg := range m.asked[len(m.asked)-1].Messages {
		if msg.Role != chat.RoleSystem {
			out = append(out, string(msg.Role)+": "+msg.Content)
		}
	}
	return out
}

// reader is a voice whose words are as long as each other.
type reader struct{ p *phone }

func (reader) Rate() int { return live.OutputRate }

func (r reader) Speak(_ context.Context, text string, out func(tts.Chunk) error) error {
	for i, w := range strings.Fields(text) {
		at := time.Duration(i) * wordTime
		c := tts.Chunk{PCM: r.p.wordPCM(w), Words: []tts.Word{{Text: w, Start: at, End: at + wordTime}}}
		if err := out(c); err != nil {
			return err
		}
	}
	return nil
}

// A whole call over recogniser, language model and voice as one realtime model, with
// our turns: what the caller heard of a reply that he cut off is what the language
// model is told it said, to the word.
func TestCallOverCascade(t *testing.T) {
	for _, local := range []bool{true, false} {
		t.Run(fmt.Sprintf("local turns %v", local), func(t *testing.T) {
			model, heard := &thinker{}, stttest.NewFake()
			heard.Add(stttest.Utterance{Text: "What is the matter?"}, stttest.Utterance{Text: "Stop, please."})
			ringWith(t, false, func(p *phone) {
				p.cfg.Session.LocalTurns = local
				c := cascade.DefaultProviderConfig()
				c.STT, c.LLM, c.TTS = heard, model, reader{p}
				c.Detector = func() func([]int16) bool { return func(pcm []int16) bool { return pcm[0] != 0 } }
				p.cfg.Provider = func() live.LiveProvider { return cascade.NewProvider(c) }
			}, func(p *phone) {
				speak := func(d time.Duration) {
					p.line.set(func() { p.line.voice = 1000 })
					go func() {
						time.Sleep(d)
						p.line.set(func() { p.line.voice = 0 })
					}()
					p.sound(d)
				}
				speak(time.Second)
				p.until("it speaks", func() bool { return len(p.all(agent.EventAgentStarted)) == 1 })
				time.Sleep(700 * ms)
				speak(900 * ms)
				p.quiet(2)
				stopped := p.all(agent.EventAgentStopped)
				if !stopped[0].Interrupted || stopped[0].Heard == "" || !strings.HasPrefix(p.heard(), stopped[0].Heard+" Reply") {
					p.Errorf("heard %q, of the first %q\n%s", p.heard(), stopped[0].Heard, p.log())
				}
				want := []string{"user: What is the matter?", "assistant: " + stopped[0].Heard, "user: Stop, please."}
				if got := model.told(); !slices.Equal(got, want) {
					p.Errorf("the model was told %q, want %q", got, want)
				}
				p.wantUser("What is the matter?", "Stop, please.")
				synctest.Wait()
				for _, e := range p.all(agent.EventError) {
					p.Errorf("error: %s", e.Reason)
				}
			})
		})
	}
}
