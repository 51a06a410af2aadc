package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"parley/agent/live"
	"parley/agent/live/socket"
)

// message is what the service sends. The SDK has no type for an error.
type message struct {
	genai.LiveServerMessage
	Error *failure `json:"error"`
}

// failure is an error that the service tells of.
type failure struct {
	Code    int    `json:"code"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

// err is f in the terms of agent/live. What is said of a key is left out: it often
// repeats it.
func (f *failure) err(clean func(string) string) error {
	kind := ofReason(f.Status + " " + f.Message)
	if kind == nil && f.Code >= 400 {
		if k := socket.OfStatus(f.Code); !errors.Is(k, live.ErrRejected) {
			kind = k
		}
	}
	said := strings.TrimSpace(fmt.Sprintf("%d %s", f.Code, clean(f.Status)))
	if !errors.Is(kind, live.ErrAuth) && f.Message != "" {
		said += ": " + clean(f.Message)
	}
	if kind == nil {
		return fmt.Errorf("gemini: the service says: %s", said)
	}
	return fmt.Errorf("gemini: %w: %s", kind, said)
}

// parse reads a message of the service.
func parse(b []byte) (*message, error) {
	var m *message
	if err := json.Unmarshal(b, &m); err != nil || m == nil {
		return nil, fmt.Errorf("gemini: a message that cannot be read: %.80q", b)
	}
	return m, nil
}

// tell adds a message for Receive.
func (t *talk) tell(m live.Message) { t.out = append(t.out, m) }

// warn tells of an error that ends nothing.
func (t *talk) warn(err error) { t.tell(live.Message{Warning: err}) }

// apply takes a message. Its error ends the connection.
func (t *talk) apply(m *message) error {
	if m.Error != nil {
		err := m.Error.err(t.clean)
		if errors.Is(err, live.ErrAuth) {
			return err
		}
		t.warn(err)
	}
	t.resumption(m.SessionResumptionUpdate)
	t.edges(m)
	if m.UsageMetadata != nil {
		t.usage = *m.UsageMetadata
	}
	if m.ServerContent != nil {
		if err := t.content(m.ServerContent); err != nil {
			return err
		}
	}
	if m.ToolCall != nil {
		t.calls(m.ToolCall.FunctionCalls)
	}
	if c := m.ToolCallCancellation; c != nil {
		t.cancelled(c.IDs)
	}
	if m.GoAway != nil {
		t.tell(live.Message{GoAway: &live.GoAway{TimeLeft: max(0, m.GoAway.TimeLeft)}})
	}
	return nil
}

// resumption: the service has kept the conversation, or cannot at the moment.
func (t *talk) resumption(u *genai.LiveServerSessionResumptionUpdate) {
	if u == nil {
		return
	}
	t.kept.mu.Lock()
	defer t.kept.mu.Unlock()
	if u.Resumable && u.NewHandle != "" {
		t.kept.handle, t.kept.stale = u.NewHandle, false
		return
	}
	t.kept.stale = true
}

// edges: the service's own voice detection.
func (t *talk) edges(m *message) {
	var started, stopped bool
	if v := m.VoiceActivity; v != nil {
		started = v.VoiceActivityType == genai.VoiceActivityTypeActivityStart
		stopped = v.VoiceActivityType == genai.VoiceActivityTypeActivityEnd
	}
	if s := m.VoiceActivityDetectionSignal; s != nil {
		started = started || s.VADSignalType == genai.VADSignalTypeSos
		stopped = stopped || s.VADSignalType == genai.VADSignalTypeEos
	}
	if started || stopped {
		t.tell(live.Message{SpeechStarted: started, SpeechStopped: stopped})
	}
}

// content is part of a turn.
func (t *talk) content(c *genai.LiveServerContent) error {
	if c.Interrupted {
		// What was said is cut; its words are the host's to end.
		t.spoke, t.replying = false, false
		t.half = t.half[:0]
		t.tell(live.Message{Interrupted: true})
	}
	t.userWords(c.InputTranscription)
	t.agentWords(c.OutputTranscription)
	if c.ModelTurn != nil {
		for _, part := range c.ModelTurn.Parts {
			if err := t.sound(part); err != nil {
				return err
			}
		}
	}
	if c.TurnComplete {
		t.turnDone(c.TurnCompleteReason)
	}
	return nil
}

// userWords are the caller's.
func (t *talk) userWords(w *genai.Transcription) {
	if w == nil {
		return
	}
	done := w.Finished && (t.heard || w.Text != "")
	if w.Text != "" || done {
		t.tell(live.Message{User: live.Transcript{Delta: w.Text, Done: done}})
		t.heard = !done
	}
}

// agentWords are the model's.
func (t *talk) agentWords(w *genai.Transcription) {
	if w == nil {
		return
	}
	if w.Text != "" {
		t.reply()
	}
	done := w.Finished && (t.spoke || w.Text != "")
	if w.Text != "" || done {
		t.tell(live.Message{Agent: live.Transcript{Delta: w.Text, Done: done}, ItemID: t.item})
		t.spoke = !done
	}
}

// reply: the model's turn is under way, so that the caller's words are complete.
func (t *talk) reply() {
	t.userDone()
	if t.replying {
		return
	}
	t.replying = true
	t.turns++
	t.item = fmt.Sprintf("turn-%d.%d", t.number, t.turns)
}

func (t *talk) userDone() {
	if t.heard {
		t.heard = false
		t.tell(live.Message{User: live.Transcript{Done: true}})
	}
}

// sound is audio of a reply. Thoughts are no part of it.
func (t *talk) sound(part *genai.Part) error {
	if part == nil || part.Thought || part.InlineData == nil || len(part.InlineData.Data) == 0 {
		return nil
	}
	if err := checkFormat(part.InlineData.MIMEType); err != nil {
		return fmt.Errorf("gemini: %w: it sends %s", live.ErrRejected, t.clean(part.InlineData.MIMEType))
	}
	t.reply()
	// A sample may be parted between two messages.
	audio := append(t.half, part.InlineData.Data...)
	whole := len(audio) &^ 1
	t.half = slices.Clone(audio[whole:])
	if audio = audio[:whole]; len(audio) > 0 {
		t.tell(live.Message{Audio: audio, ItemID: t.item})
	}
	return nil
}

// checkFormat says whether audio of that type is what the contract has: anything else
// would be noise in the caller's ear. Without a type it is what the reference says.
func checkFormat(mimeType string) error {
	if mimeType == "" {
		return nil
	}
	kind, parameters, err := mime.ParseMediaType(mimeType)
	if err != nil {
		return err
	}
	if rate := parameters["rate"]; kind != "audio/pcm" || rate != "" && rate != "24000" {
		return errors.New("another format")
	}
	return nil
}

// turnDone: the model's turn is over.
func (t *talk) turnDone(reason genai.TurnCompleteReason) {
	t.userDone()
	m := live.Message{
		TurnDone:     true,
		InputTokens:  int(t.usage.PromptTokenCount + t.usage.ToolUsePromptTokenCount),
		OutputTokens: int(t.usage.ResponseTokenCount + t.usage.ThoughtsTokenCount),
	}
	if t.spoke {
		m.Agent, m.ItemID = live.Transcript{Done: true}, t.item
	}
	switch reason {
	case "", genai.TurnCompleteReasonUnspecified, genai.TurnCompleteReasonNeedMoreInput:
	default:
		m.Warning = fmt.Errorf("gemini: a reply was cut short by the service: %s", t.clean(string(reason)))
	}
	t.spoke, t.replying, t.half = false, false, t.half[:0]
	t.usage = genai.UsageMetadata{}
	t.tell(m)
}

// calls are the model's wishes to call tools.
func (t *talk) calls(calls []*genai.FunctionCall) {
	t.userDone()
	var told []live.ToolCall
	t.kept.mu.Lock()
	defer t.kept.mu.Unlock()
	for _, f := range calls {
		if f == nil || f.Name == "" {
			continue
		}
		call := live.ToolCall{ID: f.ID, Name: t.names.ours(f.Name), Args: f.Args}
		if call.Args == nil {
			call.Args = map[string]any{}
		}
		if call.ID == "" {
			t.serial++
			call.ID = fmt.Sprintf("call-%d-%d", time.Now().UnixNano(), t.serial)
			t.nameless[call.ID] = true
		}
		if _, again := t.open[call.ID]; again || len(t.open) >= maxOpen {
			continue
		}
		t.open[call.ID], t.kept.open[call.ID] = call, call
		t.kept.stale = true
		told = append(told, call)
	}
	if len(told) > 0 {
		t.tell(live.Message{ToolCalls: told})
	}
}

// cancelled are calls that the service takes back.
func (t *talk) cancelled(ids []string) {
	var told []string
	t.kept.mu.Lock()
	defer t.kept.mu.Unlock()
	for _, id := range ids {
		if _, ok := t.open[id]; ok {
			delete(t.open, id)
			delete(t.kept.open, id)
			told = append(told, id)
		}
	}
	if len(told) > 0 {
		t.tell(live.Message{CancelledCalls: told})
	}
}
