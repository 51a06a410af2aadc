package cascade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/agent/chat"
	"parley/agent/kit"
	"parley/agent/live"
	"parley/agent/live/livetest"
	"parley/agent/llm"
	"parley/agent/stt"
	"parley/agent/stt/stttest"
	"parley/agent/tts"
	"parley/media/resample"
)

// parts are the parts of a provider, scripted, and the service that they make together.
type parts struct {
	stt      *stttest.Fake
	provider *provider
	sttRate  int
	ttsRate  int
	accepted int
	steps    chan llmStep

	mu       sync.Mutex
	running  int // Completes under way
	requests []llm.Request
	sound    []int16 // for the voice to give
}

// llmStep is what the scripted model does.
type llmStep struct {
	text  string
	calls []chat.ToolCall
	done  bool
	err   error
}

func newParts(sttRate, ttsRate int) *parts {
	s := &parts{stt: stttest.NewFake(), sttRate: sttRate, ttsRate: ttsRate, steps: make(chan llmStep, 1000)}
	s.stt.SampleRate = sttRate
	cfg := DefaultProviderConfig()
	cfg.STT, cfg.LLM, cfg.TTS = s.stt, s, s
	cfg.FirstToken = time.Minute
	s.provider = NewProvider(cfg).(*provider)
	return s
}

// Complete implements llm.Completer.
func (s *parts) Complete(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
	s.mu.Lock()
	s.running++
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
	var done llm.Completion
	for {
		select {
		case <-ctx.Done():
			return done, context.Cause(ctx)
		case step := <-s.steps:
			done.ToolCalls = append(done.ToolCalls, step.calls...)
			if step.text != "" {
				if err := out(llm.Delta{Text: step.text}); err != nil {
					return done, err
				}
			}
			if step.done || step.err != nil {
				return done, step.err
			}
		}
	}
}

// Rate implements tts.Voice.
func (s *parts) Rate() int { return s.ttsRate }

// Speak implements tts.Voice: it gives the sound that is there.
func (s *parts) Speak(_ context.Context, _ string, out func(tts.Chunk) error) error {
	s.mu.Lock()
	pcm := s.sound
	s.sound = nil
	s.mu.Unlock()
	return out(tts.Chunk{PCM: pcm})
}

// Accept implements livetest.Service: memory connects at once, so it looks.
func (s *parts) Accept(ctx context.Context) (livetest.Conn, error) {
	for {
		if all := s.stt.Streams(); len(all) > s.accepted {
			if t := s.provider.open(); t != nil && t.stream == stt.Stream(all[len(all)-1]) {
				s.accepted = len(all)
				return &wire{parts: s, talk: t, stream: all[len(all)-1], known: map[string]bool{}}, nil
			}
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(2 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Refuse implements livetest.Service: parts do not tell why they refuse.
func (s *parts) Refuse(err error) error { return livetest.ErrCannot }

// wire is one connection.
type wire struct {
	*parts
	talk    *talk
	stream  *stttest.FakeStream
	interim string
	inReply bool

	samples, users, said, begins, ends int
	known                              map[string]bool
}

// Setup implements livetest.Conn.
func (w *wire) Setup() livetest.Setup {
	c := w.talk.live
	s := livetest.Setup{
		Model: c.Model, Voice: c.Voice, Language: c.Language, Tools: c.Tools, LocalTurns: w.talk.turns == nil,
		LocalCuts: c.LocalCuts, Transcribe: c.Transcribe, Temperature: c.Temperature,
	}
	for _, m := range w.talk.chat.Snapshot().Messages {
		switch m.Role {
		case chat.RoleSystem:
			s.Instructions = m.Content
		case chat.RoleTool:
			last := &s.History[len(s.History)-1]
			if m.Content != chat.InProgress {
				last.Response = &live.ToolResponse{ID: m.ToolCallID}
			}
			w.known[m.ToolCallID] = m.Content != chat.InProgress
		case chat.RoleAssistant:
			if len(m.ToolCalls) > 0 {
				s.History = append(s.History, live.Said{Role: "tool", Call: &live.ToolCall{ID: m.ToolCalls[0].ID, Name: m.ToolCalls[0].Name}})
				continue
			}
			s.History = append(s.History, live.Said{Role: "assistant", Text: m.Content})
		default:
			w.users++
			s.History = append(s.History, live.Said{Role: "user", Text: m.Content})
		}
	}
	return s
}

// provoked has the provider reply though nobody asked it.
type provoked struct{}

func (provoked) handle(t *talk) { t.ask("") }

// Tell implements livetest.Conn.
func (w *wire) Tell(m live.Message) error {
	switch {
	case m.GoAway != nil, len(m.CancelledCalls) > 0, len(m.Audio)%2 != 0:
		return livetest.ErrCannot
	case m.SpeechStarted:
		w.stream.Emit(stt.Result{Text: "Hm"})
	case m.SpeechStopped:
		w.stream.Emit(stt.Result{Text: "Hm.", Final: true})
	case m.Interrupted:
		w.inReply = false
		w.stream.Emit(stt.Result{Text: "Stop.", Final: true})
		w.steps <- llmStep{done: true}
	}
	if m.User != (live.Transcript{}) {
		w.interim += m.User.Delta
		text := w.interim
		if m.User.Text != "" {
			text = m.User.Text
		}
		w.stream.Emit(stt.Result{Text: text, Final: m.User.Done})
		if m.User.Done {
			w.interim = ""
			w.written(text)
		}
	}
	w.reply(m)
	return nil
}

// written waits until words are in the context: the service answers what it has heard.
func (w *wire) written(text string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for !slices.ContainsFunc(w.talk.chat.Snapshot().Messages, func(m chat.Message) bool { return m.Content == text }) {
		if pause(ctx) != nil {
			return
		}
	}
}

// reply has the model say what m holds.
func (w *wire) reply(m live.Message) {
	content := len(m.Audio) > 0 || m.Agent.Delta != "" || len(m.ToolCalls) > 0 || m.Warning != nil
	if content && !w.inReply {
		w.inReply = true
		w.mu.Lock()
		idle := w.running == 0
		w.mu.Unlock()
		if idle {
			w.talk.in.put(provoked{})
		}
	}
	text := m.Agent.Delta
	if len(m.Audio) > 0 {
		pcm := make([]int16, len(m.Audio)/2)
		for i := range pcm {
			pcm[i] = int16(uint16(m.Audio[2*i]) | uint16(m.Audio[2*i+1])<<8)
		}
		pcm, err := resample.Convert(live.OutputRate, w.ttsRate, resample.Voice, pcm)
		if err != nil {
			panic(err)
		}
		w.mu.Lock()
		w.sound = append(w.sound, pcm...)
		w.mu.Unlock()
		if text == "" {
			text = "Sound. "
		}
	}
	step := llmStep{text: text, err: m.Warning}
	for _, c := range m.ToolCalls {
		args, _ := json.Marshal(c.Args)
		step.calls = append(step.calls, chat.ToolCall{ID: c.ID, Name: c.Name, Arguments: args})
	}
	if step.text != "" || step.calls != nil || step.err != nil {
		w.steps <- step
	}
	if len(m.ToolCalls) > 0 || m.TurnDone && w.inReply && m.Warning == nil {
		w.steps <- llmStep{done: true} // what it calls it tells at its end
		w.inReply = false
	}
	if m.Warning != nil {
		w.inReply = false
	}
}

// Garble implements livetest.Conn.
func (w *wire) Garble() error { return livetest.ErrCannot }

// Drop implements livetest.Conn.
func (w *wire) Drop() { w.stream.Emit(stt.Result{Err: stt.ErrLost}) }

// Next implements livetest.Conn: it looks at what the parts were given.
func (w *wire) Next(ctx context.Context) (livetest.Sent, error) {
	for {
		if s, ok := w.look(); ok {
			return s, nil
		}
		if w.stream.Closed() {
			return livetest.Sent{}, io.EOF
		}
		if err := pause(ctx); err != nil {
			return livetest.Sent{}, err
		}
	}
}

func (w *wire) look() (livetest.Sent, bool) {
	begins, ends := w.stream.Counts()
	if w.talk.turns == nil && begins > w.begins {
		w.begins++
		return livetest.Sent{Kind: livetest.SentActivityStart}, true
	}
	if pcm := w.stream.PCM(); len(pcm) > w.samples {
		pcm, w.samples = pcm[w.samples:], len(pcm)
		return livetest.Sent{Kind: livetest.SentAudio, PCM: pcm, Rate: w.sttRate}, true
	}
	if w.talk.turns == nil && ends > w.ends {
		w.ends++
		return livetest.Sent{Kind: livetest.SentActivityEnd}, true
	}
	users := 0
	for _, m := range w.talk.chat.Snapshot().Messages {
		switch {
		case m.Role == chat.RoleUser:
			if users++; users > w.users {
				w.users++
				return livetest.Sent{Kind: livetest.SentText, Text: m.Content}, true
			}
		case m.Role == chat.RoleTool && m.Content != chat.InProgress && !w.known[m.ToolCallID]:
			w.known[m.ToolCallID] = true
			r := live.ToolResponse{ID: m.ToolCallID, Name: m.Name, Response: map[string]any{}}
			_ = json.Unmarshal([]byte(m.Content), &r.Response)
			return livetest.Sent{Kind: livetest.SentToolResponse, Response: r}, true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; w.said < len(w.requests); w.said++ {
		all := w.requests[w.said].Messages
		if last := all[max(len(all)-1, 0):]; len(last) > 0 && last[0].Role == chat.RoleDeveloper {
			w.said++
			return livetest.Sent{Kind: livetest.SentInstruct, Text: last[0].Content}, true
		}
	}
	return livetest.Sent{}, false
}

// TestProvider holds it to the suite that all realtime providers pass.
func TestProvider(t *testing.T) {
	livetest.Run(t, livetest.Suite{
		Open: func(*testing.T) (livetest.Service, func() live.LiveProvider) {
			s := newParts(8000, live.OutputRate)
			return s, func() live.LiveProvider { return s.provider }
		},
		Without: map[string]string{
			"connect cancelled":       "it connects at once",
			"truncate":                "its own context is the service: TestProviderTruncates",
			"truncate: nothing heard": "its own context is the service: TestProviderTruncates",
		},
	})
}

// spoken is a provider with a voice of whole words, under a fake clock.
type spoken struct {
	*testing.T
	provider live.LiveProvider
	model    *model
	stt      *stttest.Fake
	voice    *words
}

// model is a scripted completer.
type model struct {
	answer func(n int, r llm.Request, out func(llm.Delta) error) (llm.Completion, error)
	mu     sync.Mutex
	asked  []llm.Request
}

func (m *model) Complete(ctx context.Context, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
	m.mu.Lock()
	m.asked = append(m.asked, r)
	n := len(m.asked)
	m.mu.Unlock()
	return m.answer(n, r, out)
}

// last is what the model was told last, without instructions.
func (m *model) last() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, msg := range m.asked[len(m.asked)-1].Messages {
		line := fmt.Sprintf("%s: %s", msg.Role, msg.Content)
		for _, c := range msg.ToolCalls {
			line += " calls " + c.Name
		}
		if msg.Interrupted {
			line += " (cut)"
		}
		out = append(out, line)
	}
	return out
}

func says(text string) func(int, llm.Request, func(llm.Delta) error) (llm.Completion, error) {
	return func(_ int, _ llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
		return llm.Completion{Text: text}, out(llm.Delta{Text: text})
	}
}

func talking(t *testing.T, cfg live.LiveConfig, prepare func(*spoken, *ProviderConfig), run func(*spoken)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &spoken{T: t, stt: stttest.NewFake(), voice: &words{length: 200 * ms}, model: &model{}}
		c := DefaultProviderConfig()
		c.STT, c.LLM, c.TTS = s.stt, s.model, s.voice
		if prepare != nil {
			prepare(s, &c)
		}
		s.provider = NewProvider(c)
		if err := s.provider.Connect(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		defer s.provider.Close(context.Background())
		run(s)
	})
}

// until receives messages until enough.
func (s *spoken) until(enough func(live.Message) bool) (all []live.Message) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for {
		m, err := s.provider.Receive(ctx)
		if err != nil {
			s.Fatalf("Receive: %v after %+v", err, all)
		}
		if all = append(all, m); enough(m) {
			return all
		}
	}
}

func isDone(m live.Message) bool { return m.TurnDone }

// A cut is a cut of the context: to the words that were heard, or to nothing.
func TestProviderTruncates(t *testing.T) {
	for name, c := range map[string]struct {
		played time.Duration
		early  bool // the reply is still being made
		want   string
	}{
		"within":              {650 * ms, false, "assistant: One two three (cut)"},
		"nothing":             {0, false, ""},
		"more than there was": {time.Hour, false, "assistant: One two three four five. (cut)"},
		"while it is made":    {450 * ms, true, "assistant: One two (cut)"},
		"nothing of it yet":   {0, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var more chan struct{}
			talking(t, live.LiveConfig{LocalCuts: true}, func(s *spoken, _ *ProviderConfig) {
				more = make(chan struct{})
				s.model.answer = func(n int, _ llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
					if n == 1 {
						if err := out(llm.Delta{Text: "One two three four five. "}); err != nil || !c.early {
							return llm.Completion{}, err
						}
						<-more
						return llm.Completion{}, out(llm.Delta{Text: "And six."})
					}
					return llm.Completion{}, out(llm.Delta{Text: "Yes?"})
				}
			}, func(s *spoken) {
				_ = s.provider.SendText(t.Context(), "Count.")
				item := ""
				s.until(func(m live.Message) bool {
					if len(m.Audio) > 0 {
						item = m.ItemID
					}
					return m.TurnDone || c.early && m.Agent.Until >= time.Second
				})
				if err := s.provider.(live.Truncator).Truncate(t.Context(), item, c.played); err != nil {
					t.Fatal(err)
				}
				if c.early {
					synctest.Wait()
					close(more)
					for _, m := range s.until(isDone) {
						if len(m.Audio) > 0 || m.Agent != (live.Transcript{}) {
							t.Errorf("after the cut: %+v", m)
						}
					}
				}
				_ = s.provider.SendText(t.Context(), "And?")
				s.until(isDone)
				want := []string{"user: Count.", "user: And?"}
				if c.want != "" {
					want = slices.Insert(want, 1, c.want)
				}
				if got := s.model.last(); !slices.Equal(got, want) {
					t.Errorf("the model was told %q, want %q", got, want)
				}
			})
		})
	}
}

// The words are told with their places in the sound, sentence by sentence.
func TestProviderTellsPlaces(t *testing.T) {
	for _, untimed := range []bool{false, true} {
		t.Run(fmt.Sprintf("untimed %v", untimed), func(t *testing.T) {
			talking(t, live.LiveConfig{}, func(s *spoken, _ *ProviderConfig) {
				s.voice.untimed = untimed
				s.model.answer = says("One two. Three **four** five.")
			}, func(s *spoken) {
				_ = s.provider.SendText(t.Context(), "Count.")
				var text strings.Builder
				places := map[string]time.Duration{}
				bytes := 0
				for _, m := range s.until(isDone) {
					text.WriteString(m.Agent.Delta)
					if m.Agent.Until > 0 {
						places[text.String()] = m.Agent.Until
					}
					bytes += len(m.Audio)
				}
				if text.String() != "One two. Three four five." {
					t.Errorf("text %q", text.String())
				}
				if got := time.Duration(bytes/2) * time.Second / live.OutputRate; got != time.Second {
					t.Errorf("%v of sound, want 1s", got)
				}
				if places["One two."] != 400*ms || places["One two. Three four five."] != time.Second {
					t.Errorf("places %v", places)
				}
				if !untimed && places["One two. Three"] != 600*ms {
					t.Errorf("places of words %v", places)
				}
			})
		})
	}
}

// sine is a voice that says everything as a tone, at a rate of its own.
type sine struct{ rate int }

func (v sine) Rate() int { return v.rate }

func (v sine) Speak(_ context.Context, _ string, out func(tts.Chunk) error) error {
	pcm := make([]int16, v.rate)
	for i := range pcm {
		pcm[i] = int16(8000 * math.Sin(2*math.Pi*1000*float64(i)/float64(v.rate)))
	}
	for len(pcm) > 0 {
		n := min(len(pcm), 777)
		if err := out(tts.Chunk{PCM: pcm[:n]}); err != nil {
			return err
		}
		pcm = pcm[n:]
	}
	return nil
}

// BR-155: whatever the rate of the voice, a second stays one and a tone its pitch.
func TestProviderRates(t *testing.T) {
	for _, rate := range []int{8000, 16000, 22050, 24000, 44100, 48000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			talking(t, live.LiveConfig{}, func(s *spoken, c *ProviderConfig) {
				c.TTS = sine{rate}
				s.model.answer = says("Beep.")
			}, func(s *spoken) {
				_ = s.provider.SendText(t.Context(), "Beep, please.")
				var audio []byte
				for _, m := range s.until(isDone) {
					audio = append(audio, m.Audio...)
				}
				if n := len(audio) / 2; n < live.OutputRate-10 || n > live.OutputRate+10 {
					t.Errorf("%d samples of a second", n)
				}
				crossings := 0 // in the middle: the edges ring
				for i := len(audio) / 20 * 2; i < len(audio)/20*18; i += 2 {
					if int8(audio[i-1]) < 0 && int8(audio[i+1]) >= 0 {
						crossings++
					}
				}
				if crossings < 796 || crossings > 804 {
					t.Errorf("a tone of %d Hz", crossings*10/8)
				}
			})
		})
	}
}

// Tools: the model goes on when all of its calls are answered, and is told every answer.
func TestProviderTools(t *testing.T) {
	talking(t, live.LiveConfig{Tools: []live.ToolDefinition{{Name: "look"}}}, func(s *spoken, _ *ProviderConfig) {
		s.model.answer = func(n int, r llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
			if n == 1 {
				return llm.Completion{ToolCalls: []chat.ToolCall{{ID: "a", Name: "look", Arguments: []byte(`{"x":1}`)}, {ID: "b", Name: "look", Arguments: []byte(`"no object"`)}}},
					out(llm.Delta{Text: "One moment."})
			}
			return llm.Completion{}, out(llm.Delta{Text: "Found it."})
		}
	}, func(s *spoken) {
		_ = s.provider.SendText(t.Context(), "Look.")
		var calls []live.ToolCall
		for _, m := range s.until(isDone) {
			calls = append(calls, m.ToolCalls...)
		}
		if len(calls) != 2 || calls[0].Args["x"] != 1.0 || calls[1].Args["arguments"] == nil {
			t.Fatalf("calls %+v", calls)
		}
		_ = s.provider.SendToolResponse(t.Context(), live.ToolResponse{ID: "b", Response: map[string]any{"error": "invalid"}})
		synctest.Wait()
		if len(s.model.asked) != 1 {
			t.Error("the model went on before all calls were answered")
		}
		_ = s.provider.SendToolResponse(t.Context(), live.ToolResponse{ID: "a", Response: map[string]any{"found": true}})
		s.until(isDone)
		want := []string{"user: Look.", "assistant: One moment. calls look calls look", `tool: {"found":true}`, `tool: {"error":"invalid"}`}
		if got := s.model.last(); !slices.Equal(got, want) {
			t.Errorf("the model was told %q, want %q", got, want)
		}
	})
}

// A model that fails, or says nothing, is told of, and the talk goes on.
func TestProviderModelFails(t *testing.T) {
	talking(t, live.LiveConfig{}, func(s *spoken, c *ProviderConfig) {
		c.FirstToken = time.Second
		s.model.answer = func(n int, _ llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
			switch n {
			case 1:
				return llm.Completion{}, errors.New("no")
			case 2:
				time.Sleep(2 * time.Second)
				return llm.Completion{}, out(llm.Delta{Text: "Too late."})
			}
			return llm.Completion{}, out(llm.Delta{Text: "Here I am."})
		}
	}, func(s *spoken) {
		for _, want := range []string{"no", errNoWord.Error()} {
			_ = s.provider.SendText(t.Context(), "Hello?")
			var warned error
			for _, m := range s.until(isDone) {
				if m.Warning != nil {
					warned = m.Warning
				}
			}
			if warned == nil || warned.Error() != want {
				t.Errorf("warned of %v, want %s", warned, want)
			}
		}
		_ = s.provider.SendText(t.Context(), "Hello?")
		if all := s.until(isDone); len(all) < 2 {
			t.Errorf("messages %+v", all)
		}
	})
}

// Voice by a detector, without LocalCuts: the caller's voice stops the reply, and the
// context keeps what may have been heard.
func TestProviderInterrupts(t *testing.T) {
	var voice atomic.Bool
	talking(t, live.LiveConfig{}, func(s *spoken, c *ProviderConfig) {
		c.Detector = func() func([]int16) bool { return func([]int16) bool { return voice.Load() } }
		s.model.answer = func(n int, _ llm.Request, out func(llm.Delta) error) (llm.Completion, error) {
			if n == 1 {
				return llm.Completion{}, out(llm.Delta{Text: "One two three four five six seven eight nine ten."})
			}
			return llm.Completion{}, out(llm.Delta{Text: "Yes?"})
		}
		s.stt.Add(stttest.Utterance{Text: "Stop it.", Confidence: 0.9})
	}, func(s *spoken) {
		frame := make([]byte, 640)
		hear := func(on bool, d time.Duration) {
			voice.Store(on)
			for range int(d / (20 * ms)) {
				_ = s.provider.SendAudio(t.Context(), frame)
				time.Sleep(20 * ms)
			}
		}
		_ = s.provider.SendText(t.Context(), "Count.")
		s.until(isDone)
		hear(false, 500*ms)
		hear(true, 600*ms)
		hear(false, time.Second)
		all := s.until(isDone)
		started := slices.IndexFunc(all, func(m live.Message) bool { return m.SpeechStarted })
		cut := slices.IndexFunc(all, func(m live.Message) bool { return m.Interrupted })
		user := slices.IndexFunc(all, func(m live.Message) bool { return m.User.Text == "Stop it." && m.User.Done })
		if started < 0 || cut < started || user < cut {
			t.Errorf("started %d, interrupted %d, user %d of %+v", started, cut, user, all)
		}
		got := s.model.last()
		if len(got) != 3 || !strings.HasSuffix(got[1], " (cut)") || got[2] != "user: Stop it." {
			t.Errorf("the model was told %q", got)
		}
	})
}

// It holds a call through agent/kit like any other realtime model.
func TestProviderInKit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var user, agent []string
		m := &model{answer: says("Good morning. How are you?")}
		c := DefaultProviderConfig()
		fake := stttest.NewFake()
		c.STT, c.LLM, c.TTS = fake, m, &words{length: 100 * ms}
		session := kit.NewAgentSession(NewProvider(c), kit.Callbacks{}, nil, kit.LifecycleHooks{
			OnUserMessage: func(_ context.Context, _ kit.SessionContext, text string) {
				mu.Lock()
				defer mu.Unlock()
				user = append(user, text)
			},
			OnAgentMessage: func(_ context.Context, _ kit.SessionContext, text string) {
				mu.Lock()
				defer mu.Unlock()
				agent = append(agent, text)
			},
		}, nil)
		if err := session.Start(t.Context(), kit.LiveConfig{Instructions: "Be kind."}, kit.IdleConfig{}); err != nil {
			t.Fatal(err)
		}
		fake.Streams()[0].Emit(stt.Result{Text: "Hello.", Final: true})
		time.Sleep(2 * time.Second)
		// The recogniser is lost: a new one goes on with the conversation.
		fake.Streams()[0].Emit(stt.Result{Err: stt.ErrLost})
		time.Sleep(time.Second)
		fake.Streams()[1].Emit(stt.Result{Text: "Fine.", Final: true})
		time.Sleep(2 * time.Second)
		session.Stop()
		if !slices.Equal(user, []string{"Hello.", "Fine."}) || !slices.Equal(agent, []string{"Good morning. How are you?", "Good morning. How are you?"}) {
			t.Errorf("user %q, agent %q", user, agent)
		}
		want := []string{"system: Be kind.", "user: Hello.", "assistant: Good morning. How are you?", "user: Fine."}
		if got := m.last(); !slices.Equal(got, want) {
			t.Errorf("the model was told %q, want %q", got, want)
		}
	})
}
