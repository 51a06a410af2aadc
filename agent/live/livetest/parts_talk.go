package livetest

import (
	"bytes"
	"context"
	"strings"
	"time"

	"parley/agent/live"
)

// reply has the service say a whole reply.
func (r *rig) reply(c Conn, item, words string, pcm []byte) {
	r.Helper()
	r.tell(c, live.Message{ItemID: item, Audio: pcm, Agent: live.Transcript{Delta: words}})
	r.tell(c, live.Message{Agent: live.Transcript{Done: true, Text: words}, TurnDone: true})
}

// audioUp: what the caller says reaches the service as the sound it was, in pieces as
// calls give them.
func audioUp(r *rig) {
	c := r.open(nil)
	const length = time.Second
	pcm := tone(440, live.InputRate, length)
	for i := 0; i < len(pcm); i += 640 {
		piece := bytes.Clone(pcm[i:min(i+640, len(pcm))])
		r.try("SendAudio", func(ctx context.Context) error { return r.provider.SendAudio(ctx, piece) })
		clear(piece) // it does not keep pcm
	}
	r.try("EndAudioStream", func(ctx context.Context) error { return r.provider.EndAudioStream(ctx) })
	var got []int16
	rate := 0
	ctx, cancel := r.within()
	defer cancel()
	for rate == 0 || len(got) < rate*98/100 { // a change of rate may hold the last back
		s, err := c.Next(ctx)
		if err != nil {
			r.Fatalf("after %d samples: %v", len(got), err)
		}
		if s.Kind == SentAudio {
			got, rate = append(got, s.PCM...), s.Rate
		}
	}
	r.sounds("audio to the service", got, rate, 440, length)
}

// audioOf is the audio of messages.
func audioOf(all []live.Message) (pcm []byte) {
	for _, m := range all {
		pcm = append(pcm, m.Audio...)
	}
	return pcm
}

// audioDown: the model's speech arrives at live.OutputRate, whole, and with the item
// that it belongs to.
func audioDown(r *rig) {
	c := r.open(nil)
	pcm := tone(440, live.OutputRate, time.Second)
	for i := 0; i < len(pcm); i += 9600 {
		r.tell(c, live.Message{ItemID: "item-1", Audio: pcm[i:min(i+9600, len(pcm))]})
	}
	r.tell(c, live.Message{TurnDone: true})
	all := r.got("TurnDone", until(turnDone))
	got := audioOf(all)
	r.sounds("audio from the service", samples(got), live.OutputRate, 440, time.Second)
	if len(got)%2 != 0 {
		r.Errorf("%d bytes are no whole samples", len(got))
	}
	if _, ok := r.provider.(live.Truncator); !ok {
		return
	}
	for _, m := range all {
		if len(m.Audio) > 0 && m.ItemID == "" {
			r.Fatal("audio without the item that Truncate needs")
		}
	}
}

// audioOdd: messages that part a sample in two make no noise.
func audioOdd(r *rig) {
	c := r.open(nil)
	pcm := tone(440, live.OutputRate, 500*time.Millisecond)
	for i := 0; i < len(pcm); i += 4801 {
		r.tell(c, live.Message{ItemID: "item-1", Audio: pcm[i:min(i+4801, len(pcm))]})
	}
	r.tell(c, live.Message{TurnDone: true})
	all := r.got("TurnDone", until(turnDone))
	for _, m := range all {
		if len(m.Audio)%2 != 0 {
			r.Fatalf("a message of %d bytes", len(m.Audio))
		}
	}
	r.sounds("audio in odd pieces", samples(audioOf(all)), live.OutputRate, 440, 500*time.Millisecond)
}

// passThrough: G.711 goes both ways byte for byte where the service takes it.
func passThrough(r *rig) {
	s, ok := r.provider.(live.Supporter)
	if !ok || !s.Supports(live.PCMU) {
		r.Skip("the service takes PCM only")
	}
	c := r.open(func(cfg *live.LiveConfig) { cfg.Wire = live.PCMU })
	if w := c.Setup().Wire; w != live.PCMU {
		r.Fatalf("the session is set up with %q, want pcmu", w)
	}
	up := make([]byte, 160)
	for i := range up {
		up[i] = byte(i)
	}
	r.try("SendAudio", func(ctx context.Context) error { return r.provider.SendAudio(ctx, up) })
	if got := r.sent(c, SentAudio).Payload; !bytes.Equal(got, up) {
		r.Errorf("the service got % x, want % x", got, up)
	}
	down := bytes.Repeat([]byte{0x7f, 0xd5, 0x00}, 321)
	r.tell(c, live.Message{ItemID: "item-1", Audio: down})
	r.tell(c, live.Message{TurnDone: true})
	if got := audioOf(r.got("TurnDone", until(turnDone))); !bytes.Equal(got, down) {
		r.Errorf("%d bytes came, want the %d that were sent", len(got), len(down))
	}
}

// speechEdges: the service's own voice detection is told.
func speechEdges(r *rig) {
	c := r.open(nil)
	r.tell(c, live.Message{SpeechStarted: true})
	r.got("the start of speech", until(func(m live.Message) bool { return m.SpeechStarted }))
	r.tell(c, live.Message{SpeechStopped: true})
	r.got("the end of speech", until(func(m live.Message) bool { return m.SpeechStopped }))
}

// gather puts a transcript together as hosts do, and counts how often it was done.
func gather(all []live.Message, side func(live.Message) live.Transcript) (texts []string) {
	var b strings.Builder
	for _, m := range all {
		t := side(m)
		b.WriteString(t.Delta)
		if !t.Done {
			continue
		}
		if t.Text != "" {
			b.Reset()
			b.WriteString(t.Text)
		}
		if b.Len() > 0 {
			texts = append(texts, b.String())
		}
		b.Reset()
	}
	return texts
}

func ofUser(m live.Message) live.Transcript  { return m.User }
func ofAgent(m live.Message) live.Transcript { return m.Agent }

// transcripts: both sides are told, each text once.
func transcripts(r *rig) {
	c := r.open(nil)
	r.tell(c, live.Message{User: live.Transcript{Delta: "Good "}})
	r.tell(c, live.Message{User: live.Transcript{Delta: "morning."}})
	r.tell(c, live.Message{User: live.Transcript{Done: true, Text: "Good morning."}})
	r.tell(c, live.Message{ItemID: "item-1", Agent: live.Transcript{Delta: "Good "}, Audio: tone(440, live.OutputRate, 100*time.Millisecond)})
	r.tell(c, live.Message{ItemID: "item-1", Agent: live.Transcript{Delta: "evening."}})
	r.tell(c, live.Message{Agent: live.Transcript{Done: true, Text: "Good evening."}})
	r.tell(c, live.Message{TurnDone: true})
	all := r.got("TurnDone", until(turnDone))
	if got := gather(all, ofUser); len(got) != 1 || got[0] != "Good morning." {
		r.Errorf("the caller said %q, want it once: Good morning.", got)
	}
	if got := gather(all, ofAgent); len(got) != 1 || got[0] != "Good evening." {
		r.Errorf("the agent said %q, want it once: Good evening.", got)
	}
}

// text: a text of the user's is sent as it is and answered.
func text(r *rig) {
	c := r.open(nil)
	const words = "I pressed 1, 2 and \"three\".\nÄöü – 東京"
	r.try("SendText", func(ctx context.Context) error { return r.provider.SendText(ctx, words) })
	if got := r.sent(c, SentText).Text; got != words {
		r.Errorf("the service got %q, want %q", got, words)
	}
	r.stillWorks(c)
}

// tools: a call arrives whole and once, and its answer goes back under its id.
func tools(r *rig) {
	c := r.open(func(cfg *live.LiveConfig) { cfg.Tools = []live.ToolDefinition{definition("book")} })
	r.tell(c, live.Message{ToolCalls: []live.ToolCall{{ID: "call-1", Name: "book", Args: map[string]any{"day": "Monday", "n": 2.0}}}})
	r.tell(c, live.Message{TurnDone: true})
	all := r.got("TurnDone", until(turnDone))
	calls := callsOf(all)
	if len(calls) != 1 || calls[0].ID == "" || calls[0].Name != "book" || calls[0].Args["day"] != "Monday" || calls[0].Args["n"] != 2.0 {
		r.Fatalf("calls %+v, want book(day: Monday, n: 2) once, with an id", calls)
	}
	r.answer(c, calls[0], map[string]any{"booked": true, "text": "Montag, 10 Uhr"})
	r.stillWorks(c)
}

func callsOf(all []live.Message) (calls []live.ToolCall) {
	for _, m := range all {
		calls = append(calls, m.ToolCalls...)
	}
	return calls
}

// answer answers a call and looks whether it arrived.
func (r *rig) answer(c Conn, call live.ToolCall, response map[string]any) {
	r.Helper()
	r.try("SendToolResponse", func(ctx context.Context) error {
		return r.provider.SendToolResponse(ctx, live.ToolResponse{ID: call.ID, Name: call.Name, Response: response})
	})
	got := r.sent(c, SentToolResponse).Response
	if got.ID != call.ID || len(got.Response) != len(response) {
		r.Errorf("the service got %+v, want the answer %v to %s", got, response, call.ID)
	}
	for k, v := range response {
		if got.Response[k] != v {
			r.Errorf("the answer's %q is %v, want %v", k, got.Response[k], v)
		}
	}
}

// twoTools: two calls of one reply are both answered, in any order, and the model goes
// on only then.
func twoTools(r *rig) {
	c := r.open(func(cfg *live.LiveConfig) {
		cfg.Tools = []live.ToolDefinition{definition("book"), definition("cancel")}
	})
	r.tell(c, live.Message{ToolCalls: []live.ToolCall{
		{ID: "call-1", Name: "book", Args: map[string]any{"day": "Monday"}},
		{ID: "call-2", Name: "cancel", Args: map[string]any{"day": "Friday"}},
	}})
	r.tell(c, live.Message{TurnDone: true})
	calls := callsOf(r.got("TurnDone", until(turnDone)))
	if len(calls) != 2 || calls[0].ID == calls[1].ID {
		r.Fatalf("calls %+v, want two with ids of their own", calls)
	}
	r.answer(c, calls[1], map[string]any{"cancelled": true})
	r.answer(c, calls[0], map[string]any{"booked": true})
	r.stillWorks(c)
}

// cancelledTools: calls that the service takes back are named.
func cancelledTools(r *rig) {
	c := r.open(func(cfg *live.LiveConfig) { cfg.Tools = []live.ToolDefinition{definition("book")} })
	r.tell(c, live.Message{ToolCalls: []live.ToolCall{{ID: "call-1", Name: "book", Args: map[string]any{"day": "Monday"}}}})
	calls := callsOf(r.got("the call", until(func(m live.Message) bool { return len(m.ToolCalls) > 0 })))
	r.tell(c, live.Message{CancelledCalls: []string{"call-1"}})
	all := r.got("the cancellation", until(func(m live.Message) bool { return len(m.CancelledCalls) > 0 }))
	if got := all[len(all)-1].CancelledCalls; len(got) != 1 || got[0] != calls[0].ID {
		r.Errorf("cancelled %q, want %q", got, calls[0].ID)
	}
}

// interrupted: a reply that the service cut off by itself is told to be.
func interrupted(r *rig) {
	c := r.open(nil)
	r.tell(c, live.Message{ItemID: "item-1", Audio: tone(440, live.OutputRate, 100*time.Millisecond)})
	r.tell(c, live.Message{Interrupted: true})
	r.got("the interruption", until(func(m live.Message) bool { return m.Interrupted }))
	r.stillWorks(c)
}

// truncator is the provider as one, or passes the part over.
func (r *rig) truncator() live.Truncator {
	t, ok := r.provider.(live.Truncator)
	if !ok {
		r.Skip("the provider does not truncate")
	}
	return t
}

// item has the service begin a reply and returns the item's id as the provider tells
// it.
func (r *rig) item(c Conn, length time.Duration) string {
	r.Helper()
	pcm := tone(440, live.OutputRate, length)
	r.tell(c, live.Message{ItemID: "item-1", Audio: pcm, Agent: live.Transcript{Delta: "A long reply that is cut. "}})
	n, id := 0, ""
	r.got("the audio", func(all []live.Message) bool {
		m := all[len(all)-1]
		if n += len(m.Audio); len(m.Audio) > 0 {
			id = m.ItemID
		}
		return n >= len(pcm)-4
	})
	return id
}

// truncate: what was heard is told in milliseconds, never more than was received; what
// comes of the item after that is not given on.
func truncate(r *rig) {
	t := r.truncator()
	c := r.open(func(cfg *live.LiveConfig) { cfg.LocalCuts = true })
	id := r.item(c, time.Second)
	r.try("Truncate", func(ctx context.Context) error { return t.Truncate(ctx, id, 333*time.Millisecond+700*time.Microsecond) })
	if s := r.sent(c, SentTruncate); s.ItemID != id || s.Played != 333*time.Millisecond {
		r.Errorf("truncated %q at %v, want %q at 333ms", s.ItemID, s.Played, id)
	}
	r.reply(c, "item-2", "A new reply.", tone(400, live.OutputRate, 200*time.Millisecond))
	all := r.got("a reply after the cut", func(all []live.Message) bool {
		return len(audioOf(all)) > 0 && turnDone(all[len(all)-1])
	})
	for _, m := range all {
		if len(m.Audio) > 0 && m.ItemID == id {
			r.Error("audio of an item that was cut")
		}
	}
	// More than was received is bounded by it.
	id = r.itemNamed(c, "item-3", 500*time.Millisecond)
	r.try("Truncate", func(ctx context.Context) error { return t.Truncate(ctx, id, time.Minute) })
	if s := r.sent(c, SentTruncate); s.Played > 500*time.Millisecond || s.Played < 480*time.Millisecond {
		r.Errorf("truncated at %v of 500ms that were received", s.Played)
	}
}

// itemNamed is item with a name of its own.
func (r *rig) itemNamed(c Conn, name string, length time.Duration) string {
	r.Helper()
	pcm := tone(440, live.OutputRate, length)
	r.tell(c, live.Message{ItemID: name, Audio: pcm})
	n, id := 0, ""
	r.got("the audio", func(all []live.Message) bool {
		m := all[len(all)-1]
		if n += len(m.Audio); len(m.Audio) > 0 {
			id = m.ItemID
		}
		return n >= len(pcm)-4
	})
	return id
}

// truncateNothing: an item of which nothing was heard is forgotten.
func truncateNothing(r *rig) {
	t := r.truncator()
	c := r.open(func(cfg *live.LiveConfig) { cfg.LocalCuts = true })
	id := r.item(c, 500*time.Millisecond)
	r.try("Truncate", func(ctx context.Context) error { return t.Truncate(ctx, id, 0) })
	if s := r.sent(c, SentTruncate); s.ItemID != id || s.Played != 0 {
		r.Errorf("truncated %q at %v, want %q forgotten", s.ItemID, s.Played, id)
	}
}

// truncateUnknown: an item that nobody knows is nothing to send.
func truncateUnknown(r *rig) {
	t := r.truncator()
	c := r.open(nil)
	r.try("Truncate", func(ctx context.Context) error { return t.Truncate(ctx, "no such item", time.Second) })
	r.silent(c, "truncating an unknown item")
	r.stillWorks(c)
}

// localTurns: the caller's turn begins and ends when we say so.
func localTurns(r *rig) {
	p, ok := r.provider.(live.TurnTaker)
	if !ok {
		r.Skip("the provider takes no turns of ours")
	}
	c := r.open(func(cfg *live.LiveConfig) { cfg.LocalTurns = true })
	r.try("ActivityStart", p.ActivityStart)
	r.sent(c, SentActivityStart)
	pcm := tone(440, live.InputRate, 200*time.Millisecond)
	r.try("SendAudio", func(ctx context.Context) error { return r.provider.SendAudio(ctx, pcm) })
	r.try("ActivityEnd", p.ActivityEnd)
	r.sent(c, SentActivityEnd)
	r.stillWorks(c)
}

// instruct: the model is made to speak without words of the user's.
func instruct(r *rig) {
	p, ok := r.provider.(live.Instructor)
	if !ok {
		r.Skip("the provider cannot be instructed")
	}
	c := r.open(nil)
	r.try("Instruct", func(ctx context.Context) error { return p.Instruct(ctx, "Greet the caller.") })
	if got := r.sent(c, SentInstruct).Text; !strings.Contains(got, "Greet the caller.") {
		r.Errorf("instructed %q", got)
	}
	r.stillWorks(c)
}
