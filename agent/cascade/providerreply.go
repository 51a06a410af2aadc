package cascade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/agent/chat"
	"parley/agent/live"
	"parley/agent/llm"
)

// maxItems is how many replies can still be truncated.
const maxItems = 8

// errTruncated is why a reply that was cut is made no further.
var errTruncated = errors.New("cascade: truncated")

// spokenReply is a reply of a provider on its way to Receive.
type spokenReply struct {
	item   string
	space  string // white space behind the last sentence; the voice's goroutine's
	ctx    context.Context
	cancel context.CancelCauseFunc
	spoken *chat.Spoken
	pieces chan string // sentences for the voice

	mu      sync.Mutex // of the model's words
	pending *chat.Splitter
	plain   chat.Markdown
	last    *time.Timer   // gives up a silent model
	pause   *time.Timer   // gives the voice a sentence that is complete if nothing comes
	late    []string      // pieces that the voice had no room for
	ended   bool          // the model has said everything
	began   time.Time     // when its first sound was given
	length  time.Duration // of the sentences that were spoken

	// The loop's alone.
	message uint64 // in the context, once made; 0: none
	made    bool
}

// made: a reply is complete, or has failed.
type made struct {
	reply *spokenReply
	done  llm.Completion
	err   error
}

// ask has the model reply, to instructions too when there are any: now, or when the
// reply under way is complete and the caller's turn over.
func (t *talk) ask(instructions string) {
	t.again = true
	if instructions != "" {
		t.instruct = append(t.instruct, instructions)
	}
	t.next()
}

// next begins the reply that is to be made.
func (t *talk) next() {
	if !t.again || t.reply != nil || t.speaking() || t.life.Err() != nil {
		return
	}
	t.again = false
	request := llm.Request{Messages: t.messages(), MaxTokens: t.cfg.MaxTokens, Temperature: t.live.Temperature}
	for _, text := range t.instruct {
		request.Messages = append(request.Messages, chat.Message{Role: chat.RoleDeveloper, Content: text})
	}
	t.instruct = nil
	for _, d := range t.live.Tools {
		request.Tools = append(request.Tools, llm.ToolDefinition{Name: d.Name, Description: d.Description, Parameters: d.ParametersJSONSchema})
	}
	t.replies++
	r := &spokenReply{
		item: "reply_" + strconv.Itoa(t.replies), spoken: chat.NewSpoken(""),
		pieces: make(chan string, ahead), pending: chat.NewSplitterFor(t.live.Language),
	}
	r.ctx, r.cancel = context.WithCancelCause(t.life)
	t.reply = r
	t.items = append(t.items, r)
	if len(t.items) > maxItems {
		t.items = t.items[1:]
	}
	t.workers.Go(func() { t.make(r, request) })
}

// messages is the conversation for the model: not too long, and without replies of
// which nothing was heard.
func (t *talk) messages() []chat.Message {
	all := t.chat.Snapshot().Messages
	var out []chat.Message
	for _, m := range all {
		if m.Role != chat.RoleAssistant || m.Content != "" || len(m.ToolCalls) > 0 {
			out = append(out, m)
		}
	}
	most := t.cfg.MaxMessages
	if most == 0 {
		most = 200
	}
	if len(out) <= most {
		return out
	}
	kept := out[len(out)-most:]
	for len(kept) > 0 && kept[0].Role != chat.RoleUser { // no answer without its call
		kept = kept[1:]
	}
	if out[0].Role == chat.RoleSystem {
		kept = append([]chat.Message{out[0]}, kept...)
	}
	return kept
}

// make runs the model and, beside it, the voice.
func (t *talk) make(r *spokenReply, request llm.Request) {
	var result made
	defer func() {
		if p := recover(); p != nil {
			result.err = fmt.Errorf("cascade: panic in a provider: %v", p)
		}
		result.reply = r
		t.in.put(result)
	}()
	voiced := make(chan struct{})
	go func() {
		defer close(voiced)
		t.voiceOf(r)
	}()
	result.done, result.err = t.complete(r, request)
	close(r.pieces)
	<-voiced
}

// complete runs the model and gives the voice its sentences.
func (t *talk) complete(r *spokenReply, request llm.Request) (llm.Completion, error) {
	ctx, giveUp := context.WithCancelCause(r.ctx)
	defer giveUp(nil)
	r.mu.Lock()
	r.last = time.AfterFunc(t.cfg.FirstToken, func() { giveUp(errNoWord) })
	r.mu.Unlock()
	defer r.last.Stop()
	done, err := t.cfg.LLM.Complete(ctx, request, func(d llm.Delta) error {
		r.last.Reset(t.cfg.FirstToken)
		if d.Text == "" {
			return context.Cause(ctx)
		}
		r.mu.Lock()
		pieces := r.pending.Write(d.Text)
		if r.pause == nil {
			r.pause = time.AfterFunc(pauseAfter, func() { r.paused() })
		} else {
			r.pause.Reset(pauseAfter)
		}
		r.mu.Unlock()
		r.last.Stop() // the voice may take its time
		defer r.last.Reset(t.cfg.FirstToken)
		return r.give(ctx, pieces)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	r.mu.Lock()
	if r.pause != nil {
		r.pause.Stop()
	}
	pieces := r.pending.Flush()
	r.ended = true
	r.mu.Unlock()
	if err == nil {
		err = r.give(r.ctx, pieces)
	}
	return done, err
}

// paused gives the voice what is complete if nothing more comes for now.
func (r *spokenReply) paused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	for _, p := range r.pending.Pause() {
		select {
		case r.pieces <- p:
		default: // the voice has enough to do
			r.late = append(r.late, p)
		}
	}
}

// give gives pieces to the voice, which may be behind.
func (r *spokenReply) give(ctx context.Context, pieces []string) error {
	r.mu.Lock()
	pieces = append(r.late, pieces...)
	r.late = nil
	r.mu.Unlock()
	for _, p := range pieces {
		select {
		case r.pieces <- p:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return context.Cause(ctx)
}

// handle takes a reply that is complete.
func (e made) handle(t *talk) {
	r := e.reply
	if t.reply == r {
		t.reply = nil
	}
	cut := r.made // the context knows already how much of it was heard
	r.made = true
	defer r.cancel(nil)
	text := strings.TrimSpace(r.spoken.Text())
	if e.err != nil && r.ctx.Err() == nil {
		t.warn(e.err)
	}
	calls := e.done.ToolCalls
	if e.err != nil || cut {
		calls = nil
	}
	switch {
	case cut:
	case len(calls) > 0:
		var as []chat.ToolCall
		r.message, as = t.chat.AppendCalls(chat.Message{Content: text, At: time.Now()}, calls)
		t.out.put(live.Message{ToolCalls: toolCalls(as)})
	default:
		t.remember(r, text, false)
	}
	m := live.Message{TurnDone: true, InputTokens: e.done.PromptTokens, OutputTokens: e.done.CompletionTokens}
	if text != "" && !cut {
		m.Agent = live.Transcript{Text: text, Done: true}
		m.ItemID = r.item
	}
	t.out.put(m)
	t.next()
}

// remember puts a reply into the context.
func (t *talk) remember(r *spokenReply, text string, cut bool) {
	if text == "" {
		return
	}
	id, err := t.chat.Append(chat.Message{Role: chat.RoleAssistant, Content: text, Interrupted: cut, At: time.Now()})
	if err != nil {
		t.warn(err)
	}
	r.message = id
}

// handle cuts a reply down to what was heard.
func (e truncated) handle(t *talk) {
	for _, r := range t.items {
		if r.item == e.item {
			t.cutTo(r, e.played, errTruncated)
			return
		}
	}
}

// cutTo cuts a reply down to what was heard when it was played for so long.
func (t *talk) cutTo(r *spokenReply, played time.Duration, why error) {
	heard := strings.TrimSpace(r.spoken.Heard(played))
	if r.made {
		t.chat.Revise(r.message, heard, true)
		t.out.forget(r.item)
		return
	}
	r.made = true
	r.cancel(why)
	t.out.forget(r.item)
	t.remember(r, heard, true)
}

// interrupt cuts off what is being said, as far as the sound that was given may have
// been heard by now.
func (t *talk) interrupt() {
	if len(t.items) == 0 {
		return
	}
	r := t.items[len(t.items)-1]
	played := time.Duration(0)
	r.mu.Lock()
	if !r.began.IsZero() {
		played = time.Since(r.began)
	}
	over := r.made && played > r.length
	r.mu.Unlock()
	if over {
		return // it was heard to its end
	}
	if !r.made || played > 0 {
		t.cutTo(r, played, errInterrupted)
		t.out.put(live.Message{Interrupted: true})
	}
}

// toolCalls are the model's calls as hosts get them. Arguments that are no JSON object
// are what no schema takes.
func toolCalls(calls []chat.ToolCall) []live.ToolCall {
	var out []live.ToolCall
	for _, c := range calls {
		args := map[string]any{}
		if err := json.Unmarshal(c.Arguments, &args); err != nil {
			args = map[string]any{"arguments": string(c.Arguments)}
		}
		out = append(out, live.ToolCall{ID: c.ID, Name: c.Name, Args: args})
	}
	return out
}

// jsonOf is a map as JSON.
func jsonOf(m map[string]any) json.RawMessage {
	if m == nil {
		return json.RawMessage("{}")
	}
	text, err := json.Marshal(m)
	if err != nil {
		return json.RawMessage(`{"error":"the result cannot be told"}`)
	}
	return text
}
