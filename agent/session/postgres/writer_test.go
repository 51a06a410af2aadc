//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"os"

	"parley/agent/session/postgres"
	"parley/agent/session/sessiontest"
)

// writerEnv makes this process the one that is killed.
const writerEnv = "PARLEY_TEST_WRITER"

// writer is what it does then.
func writer(dsn string) int {
	store, err := postgres.Open(context.Background(), dsn)
	if err == nil {
		err = sessiontest.Writer(store, os.Stdout)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
