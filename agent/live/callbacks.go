package live

// State is where a Session is.
//
//	inactive ─> connecting ─> listening ⇄ processing ⇄ speaking ─> deactivating ─> inactive
//	                                └──> recovering ──┘
type State string

// The states.
const (
	StateInactive   State = "inactive"
	StateConnecting State = "connecting"
	// StateListening: the model waits for the caller.
	StateListening State = "listening"
	// StateProcessing: the caller is done, and the model has said nothing yet.
	StateProcessing State = "processing"
	// StateSpeaking: the model's speech arrives.
	StateSpeaking State = "speaking"
	// StateRecovering: the connection is made anew. What is sent meanwhile is delivered
	// after.
	StateRecovering   State = "recovering"
	StateDeactivating State = "deactivating"
)

// active says whether a conversation is held.
func (s State) active() bool {
	switch s {
	case StateInactive, StateConnecting, StateDeactivating:
		return false
	}
	return true
}

// Callbacks are told what happens in a Session. Each may be nil.
//
// They are called one at a time, in the order of what they tell of, and not under any
// lock: mostly on the goroutine that receives from the provider, else on that of a
// timer or of a method of the Session. A callback that blocks makes the provider wait;
// OnAudio may, for back-pressure. A callback that panics is told to OnError, and the
// session goes on. They may call the Session's methods, but Stop only on a goroutine of
// its own: Stop waits for them.
type Callbacks struct {
	// OnSessionStart follows a Start that succeeded, before anything else is told.
	OnSessionStart func()
	// OnMessage sees every message of the provider before what follows from it is told.
	OnMessage func(m Message)
	// OnAudio takes the model's speech, in the encoding of LiveConfig.Wire; it owns pcm.
	OnAudio func(pcm []byte)
	// OnText takes pieces of the text of the model's reply, whichever way the provider
	// tells of it.
	OnText func(text string)
	// OnUserTranscript and OnAgentTranscript take transcripts as they come: pieces, and
	// with done the whole message.
	OnUserTranscript  func(text string, done bool)
	OnAgentTranscript func(text string, done bool)
	// OnUserMessage and OnAgentMessage take each whole message once. That of a reply
	// that was cut is what was heard of it, as far as that is known.
	OnUserMessage  func(text string)
	OnAgentMessage func(text string)
	// OnToolCall takes a call that is to be answered by SendToolResponse; with a
	// kit.AgentSession, one that was allowed, on the goroutine of the call and before
	// the tool. OnToolCancelled takes ids that the service took back.
	OnToolCall      func(call ToolCall)
	OnToolCancelled func(ids []string)
	// OnInterrupted: the service cut the reply off; what is queued of it is not to be
	// played. It is only called when the agent was speaking.
	OnInterrupted func()
	// OnTurnDone: the model has finished its reply.
	OnTurnDone func()
	// OnStateChange is called once for every change.
	OnStateChange func(s State)
	// OnIdleReminder: nobody has spoken for IdleConfig.ReminderAfter.
	OnIdleReminder func()
	// OnError is told of what failed. The session may go on; OnSessionEnd says when not.
	OnError func(err error)
	// OnSessionEnd is called once for every OnSessionStart, whatever ended the session.
	OnSessionEnd func()
}
