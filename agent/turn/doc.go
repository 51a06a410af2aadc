// Package turn decides whose turn it is in a spoken conversation: when the caller
// has begun to speak, whether that cuts the agent off, when the caller is done,
// and when nobody says anything.
//
// A Controller is a pure state machine. It is told what happens (Step) and says
// what is to be done; time is an argument, Due says when to ask again. It starts
// no goroutine and no timer and takes no lock, so every order of events can be
// written down in a table. One goroutine at a time may use it.
//
//	          voice on           100 ms, or words
//	┌─ quiet ──────────> candidate ────────────────> open <──────────┐
//	│  ^  ^  ^               │ voice off              │ voice off,   │ voice on,
//	│  │  │  └─── Resume ────┤                        │ 0.6 s        │ or words
//	│  │  │                  v over the agent         v Finalize     │
//	│  │  └─── Resume ──── doubt ── words ──> open    waiting ───────┤
//	│  │       backchannel, 2 s                       │              │
//	│  └── Close, GoOn, Discard <── final transcript, 2 s            │
//	│  └── Close <── the model: complete, 5 s ── tentative, unfinished┘  (StopDeferred)
//	│  └── Close <── '#', enough digits, 2 s ── keying
//	└── a digit, at any time ────────────────────> keying
//
// What opens a turn and what ends it are strategies, named in Config and asked in their
// order; Decision.Reason says which one decided. Over the agent a voice first is a
// candidate, which pauses it, and then an interruption or a backchannel: the words of
// the languages are in the folder languages.
//
// Every turn that was opened ends with exactly one of Close, GoOn and Discard, every
// Pause with Resume or Stop, and every Infer with Drop or a Close that is Inferred.
package turn
