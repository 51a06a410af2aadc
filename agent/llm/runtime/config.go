// Package runtime is the agent that is built in: a model that somebody else runs
// becomes one that holds conversations, calls tools, knows what its words were heard
// of, remembers callers, and looks things up.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/agent/llm"
	"parley/agent/tool"
)

// Config is how the agent behaves. Start from DefaultConfig.
type Config struct {
	// System is who the agent is and what it does: the first of its instructions.
	System string
	// Style tells the model that its words are spoken. Empty: nothing is told.
	Style string
	// Greeting is what the model is told in order to open the conversation, such as
	// "Greet the caller and ask what you can do." Empty: it leaves the first word to the
	// caller, or to whoever speaks a greeting of their own.
	Greeting string
	// TellTime tells the model the day and the time at which the call began.
	TellTime bool

	// MaxTokens bounds one answer of the model; 0: the service's own bound.
	MaxTokens int
	// Temperature; nil: the service's own.
	Temperature *float64
	// FirstToken is how long the model may take to its first word or thought; then it
	// is asked once more. Silence is how long it may be silent after that.
	FirstToken, Silence time.Duration
	// ThinkAfter is how long the caller may hear nothing before the silence is to be
	// filled (llm.Chunk.Thinking), while the model or a tool is at work. 0: never. Tools
	// with a thinking sound have it after 500 ms.
	ThinkAfter time.Duration
	// Styles are the delivery tags that the model may begin a sentence with, such as
	// "warm" for "[warm]", without brackets. None: brackets are text.
	Styles []string
	// Markers lets the model find that a turn which may not be over is not.
	Markers bool
	// LowConfidence is below which confidence of the recogniser a turn counts as hard to
	// understand. 0: none does.
	LowConfidence float64

	// MaxRounds is how often the model may call tools before it has to answer.
	MaxRounds int
	// ToolWait is how long a reply waits for its tools. Then the model goes on without
	// the results, and tells of them when they are there.
	ToolWait time.Duration
	// ToolTimeout bounds one call of a tool that says nothing else. 0: 30 s.
	ToolTimeout time.Duration
	// SpeakQuestions has the question of a confirmation spoken word by word, as the
	// tool gives it, instead of by the model in its own words; and only a yes to exactly
	// these words counts.
	SpeakQuestions bool

	Memory    MemoryConfig
	Summary   SummaryConfig
	Retrieval RetrievalConfig
}

// MemoryConfig is what is kept of callers. It works for those with a resource id.
type MemoryConfig struct {
	// Tell tells the model what is known of the caller from before.
	Tell bool
	// Tools lets it remember, recall and, when the caller agrees, forget.
	Tools bool
	// KeepSummary writes a short summary of the call to "user:summary" at its end, which
	// is one more request after the call is over. SummaryTime bounds it.
	KeepSummary bool
	SummaryTime time.Duration
	// VerifiedOnly leaves callers without a memory whose identity was not proved: a number
	// can be forged. They are told nothing, and nothing is kept of what they say.
	VerifiedOnly bool
}

// of says whether the conversation's caller has a memory.
func (c MemoryConfig) of(conversation llm.Conversation) bool {
	return conversation.ResourceID != "" && (conversation.Verified || !c.VerifiedOnly)
}

// SummaryConfig is when the beginning of a long conversation becomes a summary.
type SummaryConfig struct {
	// MaxTokens, as estimated, and MaxMessages since the last summary; whichever is
	// reached first. 0: not by that.
	MaxTokens, MaxMessages int
	// Keep is how many of the newest messages stay as they are.
	Keep int
	// Timeout bounds one summary.
	Timeout time.Duration
}

// RetrievalConfig is how a Retriever is used.
type RetrievalConfig struct {
	// Limit is how many passages the model is told.
	Limit int
	// MinWords is how many words a turn needs for a search.
	MinWords int
	// Wait is how long a reply waits for a search.
	Wait time.Duration
}

// Retriever finds passages that may help to answer. It is safe for concurrent use.
type Retriever interface {
	// Search returns the best passages for query, best first, at most limit.
	Search(ctx context.Context, query string, limit int) ([]string, error)
}

// Skill is a text of instructions for one kind of task.
type Skill struct {
	Name, Description string
	// Triggers are words or phrases of the caller that the skill is for. Without any the
	// skill counts from the beginning.
	Triggers []string
	// Text is Markdown.
	Text string
}

// Parts are what the agent is made of besides the model. All are optional.
type Parts struct {
	// Tools are those of all calls. Changes take effect with the next run of a model.
	Tools *tool.ToolRegistry
	// Calls allows the model to act on the call itself, within its bounds. nil: not.
	Calls *tool.CallPolicy
	// Gate keeps confirmations. nil: one of the provider's own.
	Gate *tool.Gate
	// Hooks see and decide about tool calls.
	Hooks tool.Hooks
	// Skills are instructions for kinds of tasks.
	Skills []Skill
	// Retriever finds passages for each turn.
	Retriever Retriever
	// Summarizer is the model for summaries. nil: the agent's own.
	Summarizer llm.Completer
	// OnError is told what went wrong beside a reply, of which call. It must not block.
	OnError func(c llm.Conversation, err error)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// DefaultStyle tells a model that it is on the telephone.
const DefaultStyle = "You are on the telephone: what you write is spoken aloud. Answer in one to three short sentences, in the language of the caller. " +
	"No Markdown, lists, emojis or links. Write numbers, times and abbreviations as they are spoken. Ask one question at a time. " +
	"What you hear comes from a speech recogniser and may hold mistakes. Before a tool that takes time, say in a few words what you do."

// DefaultConfig suits a telephone.
func DefaultConfig() Config {
	return Config{
		System: "You are a friendly and helpful assistant.", Style: DefaultStyle, TellTime: true,
		FirstToken: 4 * time.Second, Silence: 8 * time.Second, ThinkAfter: time.Second,
		Markers: true, LowConfidence: 0.4,
		MaxRounds: 6, ToolWait: 15 * time.Second, ToolTimeout: 30 * time.Second,
		Memory:    MemoryConfig{Tell: true, Tools: true, KeepSummary: true, SummaryTime: 2 * time.Second},
		Summary:   SummaryConfig{MaxTokens: 6000, MaxMessages: 60, Keep: 12, Timeout: 30 * time.Second},
		Retrieval: RetrievalConfig{Limit: 4, MinWords: 3, Wait: 400 * time.Millisecond},
	}
}

// Validate says all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("runtime: %s must be positive, not %v", name, d))
		}
	}
	positive("first token timeout", c.FirstToken)
	positive("silence timeout", c.Silence)
	positive("tool wait", c.ToolWait)
	if c.Memory.KeepSummary {
		positive("memory summary time", c.Memory.SummaryTime)
	}
	if c.ThinkAfter < 0 || c.ToolTimeout < 0 {
		errs = append(errs, errors.New("runtime: a time is negative"))
	}
	if c.MaxRounds < 1 || c.MaxRounds > 50 {
		errs = append(errs, fmt.Errorf("runtime: max rounds %d is not 1 to 50", c.MaxRounds))
	}
	if c.LowConfidence < 0 || c.LowConfidence > 1 {
		errs = append(errs, fmt.Errorf("runtime: low confidence %v is not 0 to 1", c.LowConfidence))
	}
	if c.Temperature != nil && *c.Temperature < 0 {
		errs = append(errs, fmt.Errorf("runtime: temperature %v is negative", *c.Temperature))
	}
	if slices.Min([]int{c.MaxTokens, c.Summary.MaxTokens, c.Summary.MaxMessages, c.Summary.Keep, c.Retrieval.Limit, c.Retrieval.MinWords}) < 0 {
		errs = append(errs, errors.New("runtime: a number is negative"))
	}
	if c.Summary.MaxMessages > 0 && c.Summary.Keep >= c.Summary.MaxMessages {
		errs = append(errs, fmt.Errorf("runtime: summary keeps %d messages of %d: nothing is left to summarise", c.Summary.Keep, c.Summary.MaxMessages))
	}
	return errors.Join(errs...)
}

// validate says what is wrong with skills.
func (p Parts) validate() error {
	var errs []error
	seen := map[string]bool{}
	for _, s := range p.Skills {
		if s.Name == "" || seen[s.Name] {
			errs = append(errs, fmt.Errorf("runtime: skill %q: the name is empty or taken", s.Name))
		}
		seen[s.Name] = true
	}
	if p.Calls != nil {
		if _, err := tool.CallTools(noLine{}, *p.Calls); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// noLine is no call: policies are checked against it.
type noLine struct{}

func (noLine) Transfer(context.Context, string, bool) error { return ErrClosed }
func (noLine) SendDigits(context.Context, string) error     { return ErrClosed }
func (noLine) Hold(context.Context) error                   { return ErrClosed }
func (noLine) Resume(context.Context) error                 { return ErrClosed }
func (noLine) HangUp()                                      {}
