package sip

import (
	"errors"
	"strconv"
	"time"
)

// Causes of the end of a call attempt or a dialog, found with context.Cause on
// Invite.Context and Dialog.Context.
var (
	// ErrCancelled: the caller took the INVITE back before a final answer.
	ErrCancelled = errors.New("sip: cancelled by the caller")
	// ErrPeerBye: the peer ended the call.
	ErrPeerBye = errors.New("sip: peer hung up")
	// ErrLocalBye: Dialog.Bye ended the call.
	ErrLocalBye = errors.New("sip: hung up by us")
	// ErrNoACK: no ACK came for a 2xx of ours within 64*T1. The peer's way back
	// to our Contact is usually what is broken.
	ErrNoACK = errors.New("sip: no ACK within 64*T1")
	// ErrNoPRACK: a provisional response that the caller wanted to confirm was not.
	ErrNoPRACK = errors.New("sip: no PRACK within 64*T1")
	// ErrNoAnswer: an offer of ours was answered with no SDP, or with one that
	// does not fit.
	ErrNoAnswer = errors.New("sip: our offer was not answered")
	// ErrGone: the peer does not know the call any more, or does not answer
	// requests in it.
	ErrGone = errors.New("sip: the peer has lost the call")
	// ErrExpired: a session timer ran out (RFC 4028).
	ErrExpired = errors.New("sip: the session was not refreshed")
	// ErrShutdown: the server is stopping.
	ErrShutdown = errors.New("sip: server is stopping")
	// ErrRejected: the INVITE got a final response that was not 2xx.
	ErrRejected = errors.New("sip: rejected")
)

// Errors a caller of this room may branch on.
var (
	// ErrAnswered: the INVITE has had its final response.
	ErrAnswered = errors.New("sip: the INVITE has been answered already")
	// ErrByeTimeout: the peer did not answer a BYE of ours. The dialog is over
	// all the same.
	ErrByeTimeout = errors.New("sip: the peer did not answer the BYE")
	// ErrTimeout: the peer did not answer a request within 64*T1.
	ErrTimeout = errors.New("sip: no response within 64*T1")
	// ErrTransport: a message could not be sent.
	ErrTransport = errors.New("sip: transport failed")
)

// RejectError is a refusal: what the peer is told, and what the log says.
type RejectError struct {
	// Code is the status, 300 to 699.
	Code int
	// Reason is the phrase of the status line; empty takes the usual one.
	Reason string
	// Text explains, in one line, what the peer could change. It is sent as
	// Warning 399 (RFC 3261 section 20.43) and logged.
	Text string
	// Warning replaces the code 399 of the Warning header, as 304 and 305 for
	// SDP that does not fit. 0 is 399.
	Warning int
	// RetryAfter, when positive, is sent in whole seconds.
	RetryAfter time.Duration
	// Rule names the rule that refused, for the log: "limit", "route", "codec".
	Rule string
	// Challenges are values of WWW-Authenticate, of a 401 (RFC 3261 section 20.44).
	// Control characters in them are sent as blanks.
	Challenges []string
}

// Error implements error.
func (r *RejectError) Error() string {
	s := "sip: refused with " + strconv.Itoa(r.Code)
	if r.Rule != "" {
		s += " by rule " + r.Rule
	}
	if r.Text != "" {
		s += ": " + r.Text
	}
	return s
}

// Reason is one value of a Reason header (RFC 3326): why a request was sent.
// The zero value writes no header.
type Reason struct {
	// Protocol is "SIP" or "Q.850".
	Protocol string
	// Cause is a status code or a Q.850 cause.
	Cause int
	// Text is for people.
	Text string
}
