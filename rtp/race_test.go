//go:build race

package rtp

// raced says that the race detector is on: it makes the compiler inline less, and
// what stays on the stack otherwise is allocated.
const raced = true
