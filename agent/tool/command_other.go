//go:build !unix

package tool

import (
	"errors"
	"os"
	"os/exec"
)

// ownGroup does nothing: there are no process groups here.
func ownGroup(*exec.Cmd) {}

// KillGroup ends a command of Process.Prepare. Processes it has started live on.
func KillGroup(cmd *exec.Cmd) error {
	if cmd.Process == nil {
		return nil
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// TerminateGroup is KillGroup here.
func TerminateGroup(cmd *exec.Cmd) error { return KillGroup(cmd) }
