package agent

import "errors"

// ErrStopped is returned by Speaker.Say when Stop dropped the speech.
var ErrStopped = errors.New("agent: speech stopped")

// ErrClosed is returned by Speaker.Say when the call is over.
var ErrClosed = errors.New("agent: call is over")
