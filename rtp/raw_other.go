//go:build !linux

package rtp

import "time"

// rawBinder is nil where there is no raw driver, batchOpener where there is no uring.
var (
	rawBinder   binder
	batchOpener func(*Wheel) error
)

// takeThread and preciseSleep are for the raw driver alone.
func takeThread()                  {}
func preciseSleep(d time.Duration) { time.Sleep(d) }
