package stt

import "errors"

// ErrLost is in the Result of a stream that cannot go on and must be opened anew.
var ErrLost = errors.New("stt: stream lost")
