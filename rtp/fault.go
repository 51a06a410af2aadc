package rtp

import "fmt"

// FaultError is a panic of a Handler, which detached its session and no other.
type FaultError struct {
	// Value is what the Handler panicked with.
	Value any
	// Stack is where, as debug.Stack prints it.
	Stack []byte
}

// Error names the value, not the stack.
func (e *FaultError) Error() string { return fmt.Sprintf("rtp: handler panicked: %v", e.Value) }
