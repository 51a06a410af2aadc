//go:build unix

package tool

import (
	"errors"
	"os/exec"
	"syscall"
)

// ownGroup makes cmd the first of a process group.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// KillGroup ends a command of Process.Prepare and all processes it has started, at
// once. One that is gone already is no error. Call it before the command is waited
// for, or soon after: as long as a process of the group lives, its number is not used
// again.
func KillGroup(cmd *exec.Cmd) error {
	if cmd.Process == nil {
		return nil
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// TerminateGroup asks the processes of the group to end.
func TerminateGroup(cmd *exec.Cmd) error {
	if cmd.Process == nil {
		return nil
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
