//go:build !linux

package rtp

import "time"

// rawBinder is nil where there is no raw driver.
var rawBinder binder

// preciseSleep is the raw driver's.
func preciseSleep(d time.Duration) { time.Sleep(d) }
