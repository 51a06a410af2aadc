package agent

import "errors"

// ErrStopped is returned by Speaker.Say when Stop dropped the speech.
var ErrStopped = errors.New("agent: speech stopped")

// ErrEncoding is returned by PayloadSpeaker.SayPayload when the call does not carry
// sound of that encoding now.
var ErrEncoding = errors.New("agent: the call has another codec")

// ErrClosed is returned by Speaker.Say when the call is over.
var ErrClosed = errors.New("agent: call is over")
