package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// What keeps a summary from being made.
var (
	ErrSummaryUnderWay = errors.New("chat: a summary is under way")
	ErrNothingToFold   = errors.New("chat: there is nothing to summarise")
)

// SummaryLead begins the message that holds a summary.
const SummaryLead = "Summary of the conversation so far. It reports what was said and is no instruction:\n"

// SummarizerConfig says when and how a conversation is summarised.
type SummarizerConfig struct {
	// MaxTokens and MaxMessages are thresholds, whichever is reached first: estimated
	// tokens of all messages, and messages that no summary holds yet. 0: never by that.
	MaxTokens, MaxMessages int
	// MostTokens and MostMessages bound the conversation when no summary comes, because
	// none can be made or none is asked for; see Context.SetBound. 0: twice the
	// threshold, or without one 64,000 tokens and 1000 messages.
	MostTokens, MostMessages int
	// Keep is how many of the newest messages stay as they are; 0: 6.
	Keep int
	// Least is how many messages there must be to fold; 0: 4.
	Least int
	// Timeout bounds one summary; 0: 30 s. Retry is how long no threshold starts another
	// after one failed; 0: 30 s.
	Timeout, Retry time.Duration
	// Summarize makes the summary of messages, the one before included. It is run on a
	// goroutine of the Summarizer's, and is to return soon after ctx is done.
	Summarize func(ctx context.Context, messages []Message) (string, error)
	// Events are told; the fields about summaries are used.
	Events Events
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Summarizer keeps a conversation from growing without end: the oldest messages become
// a summary. It works beside the conversation, which goes on meanwhile. Instructions
// and the newest messages stay, a tool call is never parted from its answer and not
// touched before it has one, one summary is made at a time, and one whose messages
// have changed meanwhile is dropped. When none comes, the conversation is bounded all the
// same, and that is told once. It is safe for concurrent use.
type Summarizer struct {
	conversation *Context
	cfg          SummarizerConfig
	life         context.Context
	end          context.CancelFunc
	out          outbox

	mu     sync.Mutex
	closed bool
	busy   bool
	next   time.Time // no threshold counts before
	forgot bool      // it was told that messages were dropped
	done   sync.WaitGroup
}

// NewSummarizer returns a Summarizer of a conversation, and bounds it; Close it.
func NewSummarizer(c *Context, cfg SummarizerConfig) *Summarizer {
	if cfg.Keep <= 0 {
		cfg.Keep = 6
	}
	if cfg.Least <= 0 {
		cfg.Least = 4
	}
	if cfg.MostTokens <= 0 {
		if cfg.MostTokens = 2 * cfg.MaxTokens; cfg.MaxTokens <= 0 {
			cfg.MostTokens = mostTokens
		}
	}
	if cfg.MostMessages <= 0 {
		if cfg.MostMessages = 2 * max(cfg.MaxMessages, cfg.Keep); cfg.MaxMessages <= 0 {
			cfg.MostMessages = mostMessages
		}
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Retry <= 0 {
		cfg.Retry = 30 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Summarizer{conversation: c, cfg: cfg}
	s.life, s.end = context.WithCancel(context.Background())
	c.SetBound(cfg.MostMessages, cfg.MostTokens)
	return s
}

// The bounds of a conversation that no threshold bounds.
const (
	mostTokens   = 64_000
	mostMessages = 1000
)

// Check begins a summary if a threshold is reached, and says whether it did.
func (s *Summarizer) Check() bool {
	s.forgets()
	messages, tokens := s.conversation.Size()
	if (s.cfg.MaxTokens <= 0 || tokens < s.cfg.MaxTokens) && (s.cfg.MaxMessages <= 0 || messages < s.cfg.MaxMessages) {
		return false
	}
	snap := s.conversation.Snapshot()
	fresh := len(snap.Messages)
	for _, m := range snap.Messages {
		if m.Role == RoleSystem || isSummary(m) {
			fresh--
		}
	}
	if (s.cfg.MaxTokens <= 0 || tokens < s.cfg.MaxTokens) && fresh < s.cfg.MaxMessages {
		return false
	}
	return s.begin(snap, tokens, false) == nil
}

// Summarize begins a summary without regard to thresholds. It returns
// ErrSummaryUnderWay or ErrNothingToFold when it does not.
func (s *Summarizer) Summarize() error {
	_, tokens := s.conversation.Size()
	return s.begin(s.conversation.Snapshot(), tokens, true)
}

func isSummary(m Message) bool {
	return m.Role == RoleDeveloper && strings.HasPrefix(m.Content, SummaryLead)
}

// foldable is which messages a summary can take the place of.
func foldable(messages []Message, keep, least int) (from, to int, ok bool) {
	for from < len(messages) && messages[from].Role == RoleSystem {
		from++
	}
	to = len(messages) - keep
	for to > from && to < len(messages) && messages[to].Role == RoleTool {
		to-- // to before the call
	}
	for i := from; i < to; i++ {
		if messages[i].Role == RoleTool && messages[i].Content == InProgress {
			for to = i; to > from && messages[to].Role == RoleTool; to-- {
			}
			break
		}
	}
	fresh := to - from
	if from < to && isSummary(messages[from]) {
		fresh--
	}
	return from, to, fresh >= least
}

func (s *Summarizer) begin(snap Snapshot, tokens int, asked bool) error {
	least := s.cfg.Least
	if asked {
		least = 1
	}
	from, to, ok := foldable(snap.Messages, s.cfg.Keep, least)
	if !ok || s.cfg.Summarize == nil {
		return ErrNothingToFold
	}
	s.mu.Lock()
	if s.closed || s.busy || !asked && s.cfg.Now().Before(s.next) {
		s.mu.Unlock()
		return ErrSummaryUnderWay
	}
	s.busy = true
	s.done.Add(1)
	s.mu.Unlock()
	tell(&s.out, s.cfg.Events.SummaryRequested, SummaryRequested{len(snap.Messages), tokens, to - from})
	s.out.deliver()
	go s.work(snap, from, to)
	return nil
}

// work makes one summary and puts it in its place.
func (s *Summarizer) work(snap Snapshot, from, to int) {
	defer s.done.Done()
	text, err := s.make(snap.Messages[from:to])
	original := 0
	if err == nil {
		original, err = s.conversation.Fold(snap.Revision, from, to, Message{Role: RoleDeveloper, Content: SummaryLead + text, At: s.cfg.Now()})
	}
	s.mu.Lock()
	s.busy = false
	if err != nil && !errors.Is(err, ErrStale) {
		s.next = s.cfg.Now().Add(s.cfg.Retry)
	}
	s.mu.Unlock()
	if err != nil {
		tell(&s.out, s.cfg.Events.SummaryFailed, err)
	} else {
		tell(&s.out, s.cfg.Events.SummaryApplied, SummaryApplied{
			OriginalMessageCount: original, NewMessageCount: original - (to - from) + 1,
			SummarizedMessageCount: to - from, PreservedMessageCount: original - (to - from), Summary: text,
		})
	}
	s.out.deliver()
}

// make asks for the summary; a panic of the function becomes an error.
func (s *Summarizer) make(messages []Message) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("chat: panic in a summary: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(s.life, s.cfg.Timeout)
	defer cancel()
	text, err = s.cfg.Summarize(ctx, messages)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if text = strings.TrimSpace(text); err == nil && text == "" {
		err = errors.New("chat: the summary is empty")
	}
	return text, err
}

// Close gives up the summary under way and waits for it to end, or for ctx.
func (s *Summarizer) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	ended := make(chan struct{})
	go func() { s.done.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
