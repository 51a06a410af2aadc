package main

import (
	"context"
	"os"
	"testing"
)

// asServer is the variable with which this test program is the server: the demo
// starts itself as its server and its caller.
const asServer = "SIP_SERVER_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		os.Exit(run(os.Args[1:], &stage{
			ctx: context.Background(), environ: os.Environ(), out: os.Stdout, errOut: os.Stderr, signals: terminationSignals, reloads: reloadSignals,
		}))
	}
	os.Exit(m.Run())
}
