package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
)

type (
	timeKey struct{}
	uuidKey struct{}
)

// WithTimeProvider makes NewEvent, and stores that are used with the context, take the
// time from clock.
func WithTimeProvider(ctx context.Context, clock func() time.Time) context.Context {
	return context.WithValue(ctx, timeKey{}, clock)
}

// WithUUIDProvider makes NewEvent, and stores that are used with the context, take ids
// of sessions and events from next.
func WithUUIDProvider(ctx context.Context, next func() string) context.Context {
	return context.WithValue(ctx, uuidKey{}, next)
}

// now is the time that ctx gives, else clock, else the system.
func now(ctx context.Context, clock func() time.Time) time.Time {
	if c, ok := ctx.Value(timeKey{}).(func() time.Time); ok && c != nil {
		return c()
	}
	if clock != nil {
		return clock()
	}
	return time.Now()
}

// newID is the id that ctx gives, else next, else a random UUID (RFC 9562 section 5.4).
func newID(ctx context.Context, next func() string) string {
	if n, ok := ctx.Value(uuidKey{}).(func() string); ok && n != nil {
		return n()
	}
	if next != nil {
		return next()
	}
	var b [16]byte
	rand.Read(b[:]) // it never fails: the program is ended when there is no randomness
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
