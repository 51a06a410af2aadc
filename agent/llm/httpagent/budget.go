package httpagent

import (
	"context"
	"fmt"
	"time"
)

// budget is the time that a turn of the agent may take. It stands still while the
// voice takes words. It belongs to one goroutine.
type budget struct {
	total *allowance
	first *allowance // nil: none, or the first word came
}

// allowance is a timer that can be halted.
type allowance struct {
	left  time.Duration
	since time.Time // when it last began to run
	timer *time.Timer
	over  func()
}

// timeoutError says which time ran out. It tells the operator what to change.
type timeoutError struct {
	what  string
	limit time.Duration
}

func (e *timeoutError) Error() string { return fmt.Sprintf("%s, %v, ran out", e.what, e.limit) }

// Timeout is what net.Error asks.
func (e *timeoutError) Timeout() bool { return true }

// newBudget starts a budget that calls cancel when it is spent. first may be 0.
func newBudget(cancel context.CancelCauseFunc, what string, total, first time.Duration) *budget {
	b := &budget{total: newAllowance(cancel, what, total)}
	if first > 0 {
		b.first = newAllowance(cancel, "the time to the first word (first_token_timeout_ms)", first)
	}
	b.run()
	return b
}

func newAllowance(cancel context.CancelCauseFunc, what string, limit time.Duration) *allowance {
	return &allowance{left: limit, over: func() { cancel(&timeoutError{what, limit}) }}
}

// run lets the time pass.
func (b *budget) run() {
	b.total.run()
	if b.first != nil {
		b.first.run()
	}
}

// halt makes the time stand still.
func (b *budget) halt() {
	b.total.halt()
	if b.first != nil {
		b.first.halt()
	}
}

// word notes that the first word came.
func (b *budget) word() {
	if b.first != nil {
		b.first.halt()
		b.first = nil
	}
}

func (a *allowance) run() {
	a.since = time.Now()
	a.timer = time.AfterFunc(a.left, a.over)
}

func (a *allowance) halt() {
	if a.timer != nil && a.timer.Stop() {
		a.left -= time.Since(a.since)
	}
	a.timer = nil
}
