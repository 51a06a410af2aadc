package livetest

import (
	"testing"

	"go.uber.org/goleak"

	"parley/agent/live"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScript holds the service in memory and its provider to the suite: what passes
// with them as a stand-in passes with a provider.
func TestScript(t *testing.T) {
	Run(t, Suite{
		Open: func(t *testing.T) (Service, func() live.LiveProvider) {
			s := NewScript()
			return s, func() live.LiveProvider { return s.Provider() }
		},
		Without: map[string]string{"connect cancelled": "memory connects at once"},
	})
}

func TestBare(t *testing.T) {
	Run(t, Suite{
		Open: func(t *testing.T) (Service, func() live.LiveProvider) {
			s := NewScript()
			return s, func() live.LiveProvider { return s.Bare() }
		},
		Without: map[string]string{"connect cancelled": "memory connects at once"},
	})
}
