package agent

import "time"

// EventType names what happened in a conversation, as it is written in event
// streams and timelines.
type EventType string

// The event types.
const (
	// EventUserStarted: the caller's turn began. Reason is the strategy that opened it.
	EventUserStarted EventType = "user_started"
	// EventTranscript: words of the caller; Final tells interim from final.
	EventTranscript EventType = "transcript"
	// EventUserStopped: the caller's turn is complete; Text is all of it. Reason is
	// empty, "digits", "garbled" (no word was understood), "misheard" (too little
	// confidence), "unfinished" (the caller did not go on), "noise", "backchannel" or
	// "muted" (it was no turn), or "call ended"; Strategy is what closed it, empty when
	// none did.
	EventUserStopped EventType = "user_stopped"
	// EventStopTimeout: a turn was closed though the recogniser never said that its
	// words are final.
	EventStopTimeout EventType = "stop_timeout"
	// EventInference: the model is asked. Reason is why: one of the Inference constants.
	EventInference EventType = "inference"
	// EventIdle: nobody has said anything for so long that the caller is asked
	// (Reason "prompt") or left ("goodbye").
	EventIdle EventType = "idle"
	// EventAgentStarted: the first sound of a reply was put on the wire, at Position. Latency
	// is the time since the caller's last sound, when the reply answers a turn.
	EventAgentStarted EventType = "agent_started"
	// EventAgentText: a sentence of the reply was given to the voice.
	EventAgentText EventType = "agent_text"
	// EventAgentStopped: the reply is over. Text is what was generated, Heard what
	// the caller heard, Interrupted whether it was cut.
	EventAgentStopped EventType = "agent_stopped"
	// EventBargeIn: the caller cut the agent off. Latency is the time from the
	// first sound of the caller to the stop. Reason is "voice" or "digit".
	EventBargeIn EventType = "barge_in"
	// EventFalseBargeIn: a candidate interruption proved false; speech resumed.
	EventFalseBargeIn EventType = "false_barge_in"
	// EventDigit: a key was pressed. Text is empty where digits are secret.
	EventDigit EventType = "digit"
	// EventAction: the agent did something to the call; Reason names it.
	EventAction EventType = "action"
	// EventState: the conversation moved to another state; Reason names it.
	EventState EventType = "state"
	// EventConnection: the connection changed; Reason is one of the Connection
	// constants, Code the SIP status that goes with it, Text what the peer said.
	EventConnection EventType = "connection"
	// EventRecording: the call's recording; Reason is "on", "off" or "failed".
	EventRecording EventType = "recording"
	// EventTiming: how long a part of the work took; Reason names the part, Latency
	// is the time.
	EventTiming EventType = "timing"
	// EventToolCall: the agent called a tool. Reason is its name, ID the call's, Text
	// the arguments as JSON.
	EventToolCall EventType = "tool_call"
	// EventToolResult: a tool call was answered; Text is the answer as JSON.
	EventToolResult EventType = "tool_result"
	// EventThought: a model reasoned; Text is what. It is not spoken.
	EventThought EventType = "thought"
	// EventSummary: earlier turns are being summarised (Reason "requested"), were
	// replaced by the summary in Text ("applied"; Before and Messages count the messages
	// before and after), or were not ("failed").
	EventSummary EventType = "summary"
	// EventCompletion: a run of a language model ended; Text is what it wrote, Reason what
	// went wrong.
	EventCompletion EventType = "completion"
	// EventRetrieval: a search for what may help to answer ended; Text is what it found,
	// Reason what went wrong.
	EventRetrieval EventType = "retrieval"
	// EventAnsweredBy: who took an outbound call. Reason is "human", "machine",
	// "unknown", or "beep": the machine records now. Latency is the time since the answer.
	EventAnsweredBy EventType = "answered_by"
	// EventMuted: what the caller says is dropped (Reason "on") or heard again ("off").
	EventMuted EventType = "muted"
	// EventLagged: the last event of a stream whose reader was too slow; what came
	// after is missing.
	EventLagged EventType = "lagged"
	// EventError: something failed; Reason says what, in words without secrets.
	EventError EventType = "error"
)

// The reasons of EventInference.
const (
	// InferenceTurn: the caller's turn is complete.
	InferenceTurn = "turn"
	// InferenceTentative: it may not be; the model judges.
	InferenceTentative = "tentative"
	// InferenceEager: it is not yet over, and what the model says is kept until it is.
	InferenceEager    = "eager"
	InferenceGreeting = "greeting"
	InferenceSilence  = "silence" // nobody says anything
	InferenceWoken    = "woken"   // the model asked to be asked
	// InferenceAgain: a noise had cut the reply to the same turn off.
	InferenceAgain = "again"
)

// The reasons of EventConnection.
const (
	ConnectionDialling = "dialling"
	ConnectionRinging  = "ringing"
	// ConnectionEarlyMedia: the peer sends sound before the answer.
	ConnectionEarlyMedia = "early_media"
	ConnectionAnswered   = "answered"
	// ConnectionFailed: an outbound call was not answered. Code, Q850 and Text say why.
	ConnectionFailed = "failed"
	// ConnectionTargetFailed: one of several who could take an outbound call did not.
	// Text is who, Code and Q850 say why.
	ConnectionTargetFailed = "target_failed"
	ConnectionHeld         = "held"
	// ConnectionResumed: a hold is over.
	ConnectionResumed = "resumed"
	// ConnectionTransferring: a transfer began, or came further; Text is the target,
	// Code the status that the target gave.
	ConnectionTransferring   = "transferring"
	ConnectionTransferred    = "transferred"
	ConnectionTransferFailed = "transfer_failed"
	// ConnectionMoved: another dialog took the call over, by Replaces or REFER.
	ConnectionMoved = "moved"
	ConnectionEnded = "ended"
)

// Event is one thing that happened in a conversation, for logs, metrics, event
// streams and timelines. Receivers must not change it.
type Event struct {
	Type        EventType     `json:"type"`
	At          time.Time     `json:"at"`
	Text        string        `json:"text,omitempty"`
	Heard       string        `json:"heard,omitempty"`
	Final       bool          `json:"final,omitempty"`
	Interrupted bool          `json:"interrupted,omitempty"`
	Latency     time.Duration `json:"latency_ns,omitempty"`
	Position    time.Duration `json:"position_ns,omitempty"`
	Confidence  float64       `json:"confidence,omitempty"`
	Reason      string        `json:"reason,omitempty"`
	Strategy    string        `json:"strategy,omitempty"`
	// Before and Messages count the messages of a conversation.
	Before   int `json:"before,omitempty"`
	Messages int `json:"messages,omitempty"`
	// ID is that of a tool call.
	ID string `json:"id,omitempty"`
	// Code is a SIP status, Q850 a cause of the telephone network (ITU-T Q.850).
	Code int `json:"code,omitempty"`
	Q850 int `json:"q850,omitempty"`
}
