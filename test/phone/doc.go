// Package phone is a softphone that follows a script: it dials, speaks a sound
// file at a given moment, presses keys, puts the call on hold, interrupts, hangs
// up, and writes down every packet it sent and heard, with times.
//
// It is the project's own measure of itself, so it shares nothing with the server
// that it calls: message parser, transactions, SDP, RTP and clock are written here
// once more, small and plain. What the server and its library agree on wrongly,
// the phone does not.
//
// Sound leaves on absolute 20 ms deadlines from an operating system thread of its
// own and never stops while the call is up; when there is nothing to say, silence
// is sent. Arrivals carry the kernel's receive timestamps where the system has
// them. All times are counted from Phone's own start, on one monotonic clock.
//
// A Phone and its Calls are safe for concurrent use. Close ends every goroutine.
package phone
