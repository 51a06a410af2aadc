package chat

import (
	"strings"
	"testing"
)

// conversation.md line 1, the text's part.
func TestWhatIsCollected(t *testing.T) {
	for name, c := range map[string]struct {
		said []Transcript
		want string
	}{
		"white space opens nothing":    {[]Transcript{final("  \t\n")}, ""},
		"interim is never written":     {[]Transcript{{Text: "I want"}, {Text: "I want to"}}, ""},
		"one final":                    {[]Transcript{{Text: "hello"}, final("hello there")}, "hello there"},
		"one space between":            {[]Transcript{final("hello"), final("there")}, "hello there"},
		"a space of its own, before":   {[]Transcript{final("hello"), final(" there")}, "hello there"},
		"a space of its own, behind":   {[]Transcript{final("hello "), final("there")}, "hello there"},
		"white space between is none":  {[]Transcript{final("hello"), final(" "), final("there")}, "hello there"},
		"led by white space":           {[]Transcript{final("  hello")}, "hello"},
		"interim between":              {[]Transcript{final("one"), {Text: "two or"}, final("two")}, "one two"},
		"a language without spaces":    {[]Transcript{final("你好"), final("世界")}, "你好 世界"},
		"the last user id is the turn": {[]Transcript{{Text: "a", Final: true, UserID: "u1"}, final("b")}, "a b"},
	} {
		r := newRecorded(PairConfig{})
		for _, s := range c.said {
			r.User().Add(s)
		}
		if opened := r.User().Open(); opened != (c.want != "") {
			t.Errorf("%s: open: %v", name, opened)
		}
		if draft := r.User().Draft(); draft != c.want {
			t.Errorf("%s: draft %q, want %q", name, draft, c.want)
		}
		r.User().Stop("silence")
		if c.want == "" {
			r.holds(t)
			r.saw(t)
			continue
		}
		r.holds(t, "user: "+c.want)
		id := ""
		if c.said[0].UserID != "" {
			id = "u1"
		}
		r.saw(t, "user started by transcription", `message added: "`+c.want+`" `+id, `user stopped by "silence": "`+c.want+`" `+id+` true`)
	}
}

// conversation.md lines 4 and 21: one message per turn; an early inference makes
// segments; what comes after the end is the next turn.
func TestOneMessagePerTurn(t *testing.T) {
	r := newRecorded(PairConfig{})
	u := r.User()
	u.Start("voice")
	u.Start("voice")
	u.Add(final("I would like"))
	u.Add(final("a table"))
	u.Stop("speech timeout")
	u.Stop("speech timeout")
	u.Add(final("for two"))
	u.Infer("model")
	u.Infer("model")
	u.Add(final("please"))
	u.Stop("silence")
	r.holds(t, "user: I would like a table", "user: for two", "user: please")
	r.saw(t,
		"user started by voice", `message added: "I would like a table" `, `user stopped by "speech timeout": "I would like a table"  true`,
		"user started by transcription", "inference by model", `message added: "for two" `, "inference by model",
		`message added: "please" `, `user stopped by "silence": "for two please"  true`)
	u.Infer("model")
	r.saw(t)
}

func TestTimeoutIdleMute(t *testing.T) {
	r := newRecorded(PairConfig{})
	u := r.User()
	u.Timeout()
	u.Idle()
	u.Start("voice")
	u.Idle()
	u.Timeout()
	r.saw(t, "idle", "user started by voice", "timeout", `user stopped by "": ""  true`)
	u.Mute(true)
	u.Mute(true)
	u.Start("voice")
	u.Add(final("dropped"))
	u.Mute(false)
	u.Mute(false)
	r.saw(t, "muted", "unmuted")
	r.holds(t)
	r.Assistant().Calls([]ToolCall{call("1", "a")})
	r.lines = nil
	u.Idle()
	r.saw(t) // a tool is at work
}

// conversation.md line 21: a turn that proves incomplete comes again as a whole; one
// that was thought complete goes on.
func TestRetractAndAmend(t *testing.T) {
	r := newRecorded(PairConfig{})
	u := r.User()
	u.Add(final("I want"))
	u.Retract()
	u.Add(final("I want to pay"))
	u.Stop("silence")
	r.holds(t, "user: I want to pay")
	if !u.Amend("I want to pay now") {
		t.Error("not amended")
	}
	r.holds(t, "user: I want to pay now")
	r.Assistant().Speak("Fine.")
	r.Assistant().Stop(Uttered{Heard: "Fine."})
	if _, text := u.Last(); text != "I want to pay now" {
		t.Error(text)
	}
	u.Add(final("bye"))
	u.Stop("silence")
	r.Context().Reset()
	if u.Amend("hm") {
		t.Error("amended a message that is gone")
	}
}

// conversation.md lines 11 and 23.
func TestWhatWasHeardIsWritten(t *testing.T) {
	for name, c := range map[string]struct {
		generated string
		u         Uttered
		want      string // of the conversation
		content   string // of the event
	}{
		"to the end":            {"Hello there. How are you?", Uttered{Heard: "Hello there. How are you?"}, "assistant: Hello there. How are you?", "Hello there. How are you?"},
		"cut":                   {"Hello there. How are you?", Uttered{Heard: "Hello there.", Interrupted: true}, "assistant: Hello there. [cut]", "Hello there."},
		"before any word":       {"Hello there.", Uttered{Interrupted: true}, "", ""},
		"Markdown is not heard": {"**Hello** there.", Uttered{Heard: "Hello there.", Interrupted: true}, "assistant: Hello there. [cut]", "Hello there."},
		"more than was sent":    {"Hello there.", Uttered{Heard: "Hello there. And more."}, "assistant: Hello there.", "Hello there."},
		"something else":        {"Hello there.", Uttered{Heard: "Good day", Interrupted: true}, "", ""},
		"half a word":           {"Hello there.", Uttered{Heard: "Hello th", Interrupted: true}, "assistant: Hello [cut]", "Hello"},
		"what was sent counts":  {"Hi :-)", Uttered{Sent: "Hi", Heard: "Hi"}, "assistant: Hi", "Hi"},
		"Chinese":               {"你好世界。", Uttered{Heard: "你好", Interrupted: true}, "assistant: 你好 [cut]", "你好"},
	} {
		r := newRecorded(PairConfig{})
		a := r.Assistant()
		for _, bit := range strings.SplitAfter(c.generated, " ") {
			a.Write(bit)
		}
		r.holds(t) // nothing is written before it was heard
		a.Stop(c.u)
		a.Stop(c.u)
		if c.want == "" {
			r.holds(t)
		} else {
			r.holds(t, c.want)
		}
		cut := "false"
		if c.u.Interrupted {
			cut = "true"
		}
		r.saw(t, "assistant started true", `assistant stopped: "`+c.content+`" interrupted=`+cut)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// conversation.md line 23: a greeting, a notice: turns of their own; never glued.
func TestStandaloneSpeech(t *testing.T) {
	r := newRecorded(PairConfig{})
	a := r.Assistant()
	a.Speak("Welcome.")
	a.Stop(Uttered{Heard: "Welcome."})
	a.Speak("This call is recorded.")
	a.Heard("This call")
	a.Start() // the one before ends as far as it was heard
	a.Write("How can I help?")
	a.Stop(Uttered{Heard: "How can I help?"})
	r.holds(t, "assistant: Welcome.", "assistant: This call [cut]", "assistant: How can I help?")
	r.saw(t, "assistant started true", `assistant stopped: "Welcome." interrupted=false`,
		"assistant started true", `assistant stopped: "This call" interrupted=true`,
		"assistant started true", `assistant stopped: "How can I help?" interrupted=false`)
}

// conversation.md line 7: a false interruption, and the reply goes on.
func TestResume(t *testing.T) {
	r := newRecorded(PairConfig{})
	a := r.Assistant()
	a.Write("One two three four.")
	a.Stop(Uttered{Heard: "One two", Interrupted: true})
	if !a.Resume(Uttered{Sent: "One two three four.", Heard: "One two three", Interrupted: true}) {
		t.Error("not resumed")
	}
	r.holds(t, "assistant: One two three [cut]")
	if !a.Resume(Uttered{Sent: "One two three four.", Heard: "One two three four."}) {
		t.Error("not resumed")
	}
	r.holds(t, "assistant: One two three four.")
	if a.Resume(Uttered{Sent: "One two three four.", Heard: "One two three four."}) {
		t.Error("resumed what has ended")
	}
	a.Write("Five.")
	a.Stop(Uttered{Interrupted: true})
	if a.Resume(Uttered{Sent: "Five.", Heard: "Five."}) {
		t.Error("resumed what was never heard: that is a turn of its own")
	}
}

// conversation.md line 12: words before a call stand before it, and are what was heard.
func TestWordsBesideCalls(t *testing.T) {
	for _, c := range []struct {
		heard string
		cut   bool
		want  []string
	}{
		{"One *moment*. It is on its way.", false, nil}, // no beginning of what was sent
		{"One moment. It is on its way.", false, []string{"assistant: One moment. <1 a>", "tool 1: {}", "assistant: It is on its way."}},
		{"One moment. It is", true, []string{"assistant: One moment. <1 a>", "tool 1: {}", "assistant: It is [cut]"}},
		{"One moment.", true, []string{"assistant: One moment. <1 a> [cut]", "tool 1: {}"}},
		{"One", true, []string{"assistant: One <1 a> [cut]", "tool 1: {}"}},
		{"", true, []string{"assistant:  <1 a>", "tool 1: {}"}},
	} {
		r := newRecorded(PairConfig{})
		a := r.Assistant()
		a.Write("One *moment*.")
		a.Calls([]ToolCall{call("1", "a")})
		r.holds(t, "assistant:  <1 a>", "tool 1: IN_PROGRESS")
		// The model is run over what it has said itself, heard or not.
		if got := told(r.Run().Messages); got != "assistant: One *moment*. <1 a>\ntool 1: IN_PROGRESS" {
			t.Errorf("the next run: %s", got)
		}
		a.Result("1", "{}")
		a.Write(" It is on its way.")
		a.Stop(Uttered{Sent: "One moment. It is on its way.", Heard: c.heard, Interrupted: c.cut})
		if c.want != nil {
			r.holds(t, c.want...)
		}
	}
	// After a false interruption the rest comes behind the answer.
	r := newRecorded(PairConfig{})
	a := r.Assistant()
	a.Write("One moment.")
	a.Calls([]ToolCall{call("1", "a")})
	a.Result("1", "{}")
	a.Write(" It is here.")
	a.Stop(Uttered{Heard: "One moment.", Interrupted: true})
	a.Resume(Uttered{Sent: "One moment. It is here.", Heard: "One moment. It is here."})
	r.holds(t, "assistant: One moment. <1 a>", "tool 1: {}", "assistant: It is here.")
	// A voice that was given other words than were generated.
	r = newRecorded(PairConfig{})
	a = r.Assistant()
	a.Write("One :-) moment.")
	a.Calls([]ToolCall{call("1", "a")})
	a.Write(" Here.")
	a.Stop(Uttered{Sent: "One moment. Here.", Heard: "One moment.", Interrupted: true})
	r.holds(t, "assistant:  <1 a>", "tool 1: IN_PROGRESS", "assistant: One moment. [cut]")
}

// conversation.md line 12.
func TestToolCallsInAConversation(t *testing.T) {
	r := newRecorded(PairConfig{})
	a := r.Assistant()
	as := a.Calls([]ToolCall{call("1", "a"), call("2", "b"), call("3", "c")})
	if len(as) != 3 || !a.HasFunctionCallsInProgress() {
		t.Error("no calls in progress")
	}
	due := func(want bool, why string) {
		t.Helper()
		if r.RunDue() != want {
			t.Errorf("%s: due: %v", why, !want)
		}
	}
	if !a.Result("2", `{"ok":true}`) || a.Result("2", "again") || a.Result("9", "x") {
		t.Error("a result counts once, for its call")
	}
	due(false, "two are in progress")
	a.Result("1", "")
	if !a.Cancel("3") || a.Cancel("3") || a.Result("3", "late") {
		t.Error("a call is given up once, and its late result dropped")
	}
	r.holds(t, "assistant:  <1 a> <2 b> <3 c>", "tool 1: COMPLETED", `tool 2: {"ok":true}`, "tool 3: CANCELLED")
	due(true, "after the last")
	r.User().Start("voice")
	due(false, "over the caller who speaks")
	r.User().Stop("noise")
	a.Speaking(true)
	due(false, "while the agent speaks")
	a.Speaking(false)
	due(true, "at the end")
	if !r.Untold() {
		t.Error("untold")
	}
	r.Run()
	due(false, "one run")
}

// conversation.md line 16.
func TestThoughtsAndCompletions(t *testing.T) {
	r := newRecorded(PairConfig{})
	a := r.Assistant()
	a.Think("let me ")
	a.Think("see")
	a.Write("Yes.")
	a.Think("more")
	a.End(true)
	a.Stop(Uttered{Heard: "Yes."})
	a.Think("then")
	a.Calls([]ToolCall{call("1", "a")})
	a.End(false)
	r.saw(t, `thought: "let me see"`, "assistant started true", `thought: "more"`, `completion: "Yes." true`, `assistant stopped: "Yes." interrupted=false`,
		`thought: "then"`, "assistant started true", `completion: "" false`)
}

// A model that thinks without end does not fill the memory.
func TestThoughtIsBounded(t *testing.T) {
	var thought string
	p := NewPair(PairConfig{Events: Events{AssistantThought: func(e AssistantThought) { thought = e.Content }}})
	for range 100 {
		p.Assistant().Think(strings.Repeat("hm ", 1000))
	}
	p.Assistant().Write("Yes.")
	if n := len(thought); n < 60<<10 || n > 64<<10 {
		t.Errorf("a thought of %d bytes", n)
	}
}

// conversation.md line 22.
func TestRealtime(t *testing.T) {
	r := newRecorded(PairConfig{Realtime: true})
	u, a := r.User(), r.Assistant()
	u.Add(final("hello"))
	if u.Open() {
		t.Error("a transcription opened a turn")
	}
	u.Start("provider")
	u.Stop("provider")
	u.Add(final("there")) // late
	r.holds(t)
	a.Start()
	r.holds(t, "user: hello there")
	a.Write("Hi.")
	a.Stop(Uttered{Heard: "Hi."})
	u.Add(final("bye"))
	r.Close()
	r.holds(t, "user: hello there", "assistant: Hi.", "user: bye")
}

func TestCloseLeavesNothingOpen(t *testing.T) {
	r := newRecorded(PairConfig{})
	r.User().Add(final("hello"))
	r.Assistant().Write("Hi there.")
	r.Assistant().Calls([]ToolCall{call("1", "a")})
	r.Assistant().Heard("Hi")
	r.Close()
	r.Close()
	r.holds(t, "assistant: Hi <1 a> [cut]", "tool 1: CANCELLED", "user: hello")
}

// conversation.md line 16: handlers are called in order, also those of what a handler
// does, and never under a lock.
func TestHandlersMayAct(t *testing.T) {
	var p *Pair
	var order []string
	p = NewPair(PairConfig{Events: Events{
		UserTurnStopped: func(UserTurnStopped) {
			p.Assistant().Speak("Yes.")
			p.Assistant().Stop(Uttered{Heard: "Yes."})
			order = append(order, "user")
		},
		AssistantTurnStopped: func(AssistantTurnStopped) { order = append(order, "assistant") },
	}})
	p.User().Add(final("hm"))
	p.User().Stop("silence")
	if strings.Join(order, " ") != "user assistant" {
		t.Error(order)
	}
}
