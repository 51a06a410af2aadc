// Package live is the contract with realtime models: audio in, audio out, tools, over
// one connection. Providers are in the sub-packages, livetest is the suite that all of
// them pass, and agent/kit holds a conversation through one.
package live

import (
	"context"
	"errors"
	"time"
)

// The PCM that goes over the contract: S16LE, mono. A provider that speaks other
// rates to its service converts.
const (
	InputRate  = 16000
	OutputRate = 24000
)

// LiveProvider is one conversation with a realtime model. Connect may be called again
// after Close, or to connect anew after Receive failed; the conversation then goes
// on where it was, as far as the service can: it resumes what the service has kept, or
// begins with LiveConfig.History. Receive belongs to one goroutine; the other methods
// may be called from any, also while Receive waits.
//
// No method but Receive waits for something that only Receive would take from the
// connection: what has to wait for the service (a reply that is still under way) is
// kept by the provider and sent when it may be. A model says nothing before it is
// spoken to, so that connecting anew greets nobody twice.
type LiveProvider interface {
	// Name is the provider's, for logs.
	Name() string
	// Connect opens the connection and sets the session up; it returns when the model
	// can be talked to. Its error wraps ErrAuth, ErrBusy or ErrRejected where that is
	// known.
	Connect(ctx context.Context, cfg LiveConfig) error
	// SendAudio sends what the caller says, in real time, S16LE mono at InputRate. It
	// does not keep pcm.
	SendAudio(ctx context.Context, pcm []byte) error
	// EndAudioStream says that no more audio comes for now.
	EndAudioStream(ctx context.Context) error
	// SendText gives the model a text of the user's to answer.
	SendText(ctx context.Context, text string) error
	// SendToolResponse answers tool calls. The model goes on by itself when all calls
	// of its response are answered. A call of a connection before is answered like one
	// of this.
	SendToolResponse(ctx context.Context, responses ...ToolResponse) error
	// Receive waits for the next message. io.EOF: Close was called. Other errors, that
	// of a ctx that is done included: the connection is gone; Reconnectable says whether
	// to try again. What the service sends and nobody knows is passed over.
	Receive(ctx context.Context) (Message, error)
	// Close ends the connection and waits for the provider's goroutines, for ctx at
	// most. It may be called more than once.
	Close(ctx context.Context) error
}

// Truncator is what a LiveProvider may be as well: it can be told how much of its
// reply was heard.
type Truncator interface {
	// Truncate cuts the item down to what the caller heard, in its context too, and
	// stops what is still being generated: audio and words of the item that come after
	// it are dropped by the provider. played is counted from the item's first sample
	// and bounded by what was received; 0 means that nothing was heard, and the item is
	// forgotten. An item that is not known is no error.
	Truncate(ctx context.Context, itemID string, played time.Duration) error
}

// TurnTaker is what a LiveProvider may be as well: it lets us say when the caller's
// turn begins and ends, when LiveConfig.LocalTurns is set.
type TurnTaker interface {
	ActivityStart(ctx context.Context) error
	ActivityEnd(ctx context.Context) error
}

// Instructor is what a LiveProvider may be as well: it can make the model speak
// without words of the user's, such as a greeting or an apology.
type Instructor interface {
	Instruct(ctx context.Context, instructions string) error
}

// Encoding is the format of audio on the wire of a service that can take a call's own.
type Encoding string

// The encodings.
const (
	PCM16 Encoding = "pcm16" // S16LE
	PCMU  Encoding = "pcmu"  // G.711 µ-law, 8 kHz
	PCMA  Encoding = "pcma"  // G.711 A-law, 8 kHz
)

// LiveConfig is how a realtime session is set up.
type LiveConfig struct {
	// Model and Voice are the service's names; empty: the provider's defaults.
	Model, Voice string
	// Instructions is the system prompt.
	Instructions string
	// Language is a BCP 47 tag; empty: the model's choice.
	Language string
	// Tools are those of the caller of Start; those of the registry are added.
	Tools []ToolDefinition
	// Temperature; nil: the service's own.
	Temperature *float64
	// LocalTurns leaves it to us to say whose turn it is; the service's own turn
	// detection is switched off.
	LocalTurns bool
	// LocalCuts leaves it to us to say when a reply is cut off, by Truncate: the
	// service's voice detection ends the caller's turns but stops no reply.
	LocalCuts bool
	// Transcribe asks for transcripts of both sides.
	Transcribe bool
	// History is what was said in the conversation before, for a service that does not
	// keep it over a new connection.
	History []Said
	// Wire is what SendAudio and Message.Audio hold. Empty: PCM16, at InputRate and
	// OutputRate. PCMU and PCMA pass a call's payloads through, 8 kHz both ways, with
	// providers that say so by Supports.
	Wire Encoding
	// Recovery is how a Session connects anew. Providers do not look at it.
	Recovery Recovery
}

// Supporter is what a LiveProvider may be as well: it says which encodings other than
// PCM16 its service takes.
type Supporter interface{ Supports(Encoding) bool }

// Said is something that was said before.
type Said struct {
	// Role is "user", "assistant" or "tool". The text of an assistant is what was heard.
	Role, Text string
	// Call and Response are those of a tool call. A nil Response is yet to come, by
	// SendToolResponse.
	Call     *ToolCall
	Response *ToolResponse
}

// Message is what a provider tells. Several fields may be set; they apply in the order
// in which they are declared.
type Message struct {
	// SpeechStarted and SpeechStopped: the service's own voice detection.
	SpeechStarted, SpeechStopped bool
	// Interrupted: the service has cut its reply off by itself.
	Interrupted bool
	// User is a transcript of the caller, Agent one of the model's speech.
	User, Agent Transcript
	// Audio is speech, in the encoding of LiveConfig.Wire. ItemID names the item that
	// it belongs to, for Truncate.
	Audio  []byte
	ItemID string
	// ToolCalls are whole calls; CancelledCalls are ids that the service took back.
	ToolCalls      []ToolCall
	CancelledCalls []string
	// TurnDone: the model has finished its reply.
	TurnDone bool
	// GoAway: the service ends the connection soon; connect anew.
	GoAway *GoAway
	// Warning is an error of the service that does not end the session.
	Warning error
	// InputTokens and OutputTokens are those of the reply that TurnDone ends.
	InputTokens, OutputTokens int
}

// Transcript is text of one side. Delta is added to what was gathered. Done ends the
// message; Text, when set then, is all of it and takes the place of the deltas. Where
// the service does not say that a transcript is complete, the provider sends Done once
// it is: a user's before the reply to it begins, an agent's with TurnDone.
type Transcript struct {
	Delta, Text string
	Done        bool
	// Until is how much of the item's audio holds the words so far, Delta included,
	// where the service tells; 0: it does not.
	Until time.Duration
}

// GoAway says that the service ends the connection.
type GoAway struct{ TimeLeft time.Duration }

// Why a provider cannot connect or has lost its connection.
var (
	ErrAuth     = errors.New("live: the service refuses the key")
	ErrBusy     = errors.New("live: the service is busy")
	ErrRejected = errors.New("live: the service refuses the session")
	ErrLost     = errors.New("live: connection lost")
	// ErrClosed is returned by methods of a provider that is not connected.
	ErrClosed = errors.New("live: not connected")
)

// Reconnectable says whether it is worth connecting again after err.
func Reconnectable(err error) bool {
	return err != nil && !errors.Is(err, ErrAuth) && !errors.Is(err, ErrRejected) && !errors.Is(err, ErrClosed)
}
