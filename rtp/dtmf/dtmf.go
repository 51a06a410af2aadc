// Package dtmf turns telephone-event payloads (RFC 4733) into digits and back. It
// is pure: time is an argument.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     event     |E|R|   volume  |          duration             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
package dtmf

import "strings"

// payloadSize is the length of one event report (RFC 4733 section 2.3).
const payloadSize = 4

// digits by event code (RFC 4733 section 3.2).
const digits = "0123456789*#ABCD"

// Digit is the character of an event code: 0-9, *, #, A-D. ok is false for others,
// such as the hook flash.
func Digit(event byte) (digit byte, ok bool) {
	if int(event) >= len(digits) {
		return 0, false
	}
	return digits[event], true
}

// Event is the code of a digit; small letters count as capitals.
func Event(digit byte) (event byte, ok bool) {
	if digit >= 'a' && digit <= 'd' {
		digit -= 'a' - 'A'
	}
	i := strings.IndexByte(digits, digit)
	return byte(i), i >= 0
}
