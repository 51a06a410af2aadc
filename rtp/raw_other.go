//go:build !linux

package rtp

import "time"

// rawBinder is nil where there is no raw driver.
var rawBinder binder

// takeThread and preciseSleep are for the raw driver alone.
func takeThread()                  {}
func preciseSleep(d time.Duration) { time.Sleep(d) }
