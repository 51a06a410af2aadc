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
//	│  ^  ^                  │ voice off              │ voice off,   │ voice on
//	│  │  └──── Resume ──────┘                        │ 0.6 s        │
//	│  │                                              v Finalize     │
//	│  └── Close, GoOn, Discard <── final transcript, 2 s ── waiting ┘
//	│  └── Close <── '#', enough digits, 2 s ── keying
//	└── a digit, at any time ────────────────────> keying
//
// Every turn that was opened ends with exactly one of Close, GoOn and Discard.
package turn
