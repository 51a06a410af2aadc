package call

import (
	"time"

	"parley/agent"
)

// Observer is told what happens to calls, for metrics and event streams. Its
// methods may be called from many goroutines at once and must not block.
type Observer interface {
	// CallStarted: a call was answered.
	CallStarted(Started)
	// CallEnded: a call that had been answered is over. One that was placed and not
	// answered is told to a FailureObserver.
	CallEnded(Record)
	// CallRefused: an INVITE got a final answer of 300 or more. rule is a short,
	// fixed name of the reason, such as "max_calls" or "no_common_codec".
	CallRefused(code int, rule string)
	// CallEvent: something happened in the conversation of a call.
	CallEvent(callID string, e agent.Event)
}

// FailureObserver is what an Observer may be as well.
type FailureObserver interface {
	// CallFailed: a call that was placed was not answered. Record.Answered is zero;
	// Code, Reason and Q850 say why, as far as anybody said.
	CallFailed(Record)
}

// Started describes a call that was just answered.
type Started struct {
	CallID, SessionID string
	// Direction is "inbound" or "outbound", Trunk the trunk's name or empty.
	Direction, Trunk string
	Codec            string
	// Setup is the time from the INVITE to the 200.
	Setup time.Duration
}

// Record is the "call ended" record: what is worth keeping about a call. It holds
// the caller's number; log lines hold it masked.
type Record struct {
	CallID     string `json:"call_id"`
	SIPCallID  string `json:"sip_call_id"`
	SessionID  string `json:"session_id"`
	ResourceID string `json:"resource_id,omitempty"`
	Direction  string `json:"direction"`
	Called     string `json:"called"`
	Peer       string `json:"peer"`
	// From is the number that an outbound call showed.
	From string `json:"from,omitempty"`
	// Trunk is the name of the trunk that the call came or went by.
	Trunk string `json:"trunk,omitempty"`
	// Route and Agent are the rule that took the call and the agent it named.
	Route string `json:"route,omitempty"`
	Agent string `json:"agent,omitempty"`
	Codec string `json:"codec"`
	// SRTP is how the sound was encrypted at the end, such as AEAD_AES_128_GCM; empty:
	// it was not.
	SRTP  string    `json:"srtp,omitempty"`
	Began time.Time `json:"began"`
	// Answered is the zero time when the call was not.
	Answered time.Time `json:"answered"`
	Ended    time.Time `json:"ended"`
	// Cause is one of the Cause constants.
	Cause string `json:"cause"`
	// Error is set when Cause is CauseFault or CauseUnprotected, or holds the words of
	// who used the API to end the call.
	Error string `json:"error,omitempty"`
	// Code, Reason and Q850 are what was told when an outbound call was not answered:
	// the SIP status, its words, and the cause of the telephone network (ITU-T Q.850).
	Code   int    `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
	Q850   int    `json:"q850,omitempty"`
	// Attempts are those who did not take an outbound call that several could.
	Attempts []Attempt `json:"attempts,omitempty"`
	Stats    Stats     `json:"stats"`
}

// Attempt is why one of several who could take an outbound call did not.
type Attempt struct {
	// To is who was called, and Trunk through which trunk.
	To    string `json:"to"`
	Trunk string `json:"trunk"`
	// Cause is one of the Cause constants, Code, Reason and Q850 what was told.
	Cause  string `json:"cause"`
	Code   int    `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
	Q850   int    `json:"q850,omitempty"`
}

// Stats are the figures of one call's sound.
type Stats struct {
	// Setup is the time from the INVITE to the 200.
	Setup time.Duration `json:"setup_ns"`
	// Early counts the packets of the callee before it answered.
	Early uint64 `json:"early_packets"`
	// PacketsIn and PacketsOut count RTP packets of the caller and to the caller.
	PacketsIn  uint64 `json:"packets_in"`
	PacketsOut uint64 `json:"packets_out"`
	// Lost counts packets that never came, Late those that came after their place
	// was concealed, Concealed the samples that were made up, in milliseconds.
	Lost        uint64 `json:"lost"`
	Late        uint64 `json:"late"`
	Duplicate   uint64 `json:"duplicate"`
	ConcealedMS uint64 `json:"concealed_ms"`
	// Strange counts packets from a source that is not the caller's.
	Strange   uint64 `json:"strange"`
	Malformed uint64 `json:"malformed"`
	// Forged counts packets that the keys of the encryption do not open, Replayed those
	// that came again. They were dropped.
	Forged   uint64 `json:"forged"`
	Replayed uint64 `json:"replayed"`
	// Jitter is the interarrival jitter of RFC 3550 section 6.4.1 at the end.
	Jitter time.Duration `json:"jitter_ns"`
	// RTT is the round-trip time that RTCP measured last, 0 for none.
	RTT time.Duration `json:"rtt_ns"`
	// PeerLost, PeerLossRate (0 to 1) and PeerJitter are how our packets arrived, as
	// the peer reported last; RTCPIn and RTCPOut count compound packets. Without
	// reports all are 0.
	PeerLost     uint64        `json:"peer_lost"`
	PeerLossRate float64       `json:"peer_loss_rate"`
	PeerJitter   time.Duration `json:"peer_jitter_ns"`
	RTCPIn       uint64        `json:"rtcp_in"`
	RTCPOut      uint64        `json:"rtcp_out"`
	// LastRTCP is when the last RTCP packet came, nil if none did.
	LastRTCP *time.Time `json:"last_rtcp,omitempty"`
	// MOS estimates how the caller sounded here, PeerMOS how we sounded there (E-model,
	// ITU-T G.107): 1 to 4.5, 0 when there is nothing to judge by.
	MOS     float64 `json:"mos"`
	PeerMOS float64 `json:"peer_mos"`
	// SkippedSlots counts sending times that a stall of the process made us miss.
	SkippedSlots uint64 `json:"skipped_slots"`
	// Speech is how much of the agent's speech was put on the wire.
	Speech time.Duration `json:"speech_ns"`
	// Digits counts keys pressed by the caller.
	Digits uint64 `json:"digits"`
	// BargeIns counts replies that the caller cut off.
	BargeIns uint64 `json:"barge_ins"`
	// Turns counts the caller's turns.
	Turns uint64 `json:"turns"`
}

// The causes of a call's end.
const (
	CauseCallerHungUp = "caller hung up"
	CauseAgentHungUp  = "agent hung up"
	CauseMediaTimeout = "media timeout"
	CauseMaxDuration  = "maximum duration"
	CauseShutdown     = "shutdown"
	CauseNoACK        = "no ACK"
	CauseNoPRACK      = "no PRACK"
	CauseLost         = "caller lost the call"
	CauseExpired      = "session expired"
	CauseFault        = "fault"
	// CauseUnprotected: the sound could not be encrypted as was agreed.
	CauseUnprotected = "media encryption failed"

	// CauseCalleeHungUp: who we had called ended the call.
	CauseCalleeHungUp = "callee hung up"
	// CauseTransferred: the other party was handed to somebody else.
	CauseTransferred = "transferred"
	// CauseOperator: Server.HangUp ended the call.
	CauseOperator = "operator hung up"

	// Of outbound calls that were not answered.
	CauseNoAnswer     = "no answer"
	CauseBusy         = "busy"
	CauseDeclined     = "declined"
	CauseNoSuchNumber = "no such number"
	CauseUnreachable  = "unreachable"
	// CauseElsewhere: another of those who were called was faster. Only in Attempts.
	CauseElsewhere = "answered elsewhere"
)

// nobody is the Observer of a server that was given none.
type nobody struct{}

func (nobody) CallStarted(Started)           {}
func (nobody) CallEnded(Record)              {}
func (nobody) CallRefused(int, string)       {}
func (nobody) CallEvent(string, agent.Event) {}
