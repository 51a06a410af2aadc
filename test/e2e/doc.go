// Package e2e tests the whole gateway as its two ends see it: a phone that keeps a
// log of its packets, and an agent of one's own behind HTTP. What the gateway
// believes about itself is compared with what went over the wire.
//
//	phone ──SIP, RTP──> gateway: sip, rtp, call, cascade ──HTTP──> agent (httptest)
//	  │ packet log                │ events, journal, record           │ requests, their ends
//	  └───────────────────────────┴───────── the tests ───────────────┘
//
// The tests take the time that calls take and wait for nothing else. They listen
// on free ports of 127.0.0.1. Figures that have a bar are printed as lines that
// begin with BAR; on a busy machine what the scheduler took is told apart.
package e2e
