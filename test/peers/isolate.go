// Package peers runs other people's telephones against the gateway: baresip,
// linphone and SIPp, each a process of its own in a network namespace that the
// test program makes for itself, so that ports never clash, no packet leaves the
// machine, and nothing survives the test.
//
// The package holds what such tests share; the tests beside it are the calls.
package peers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"testing"
)

// inside is set in the environment of the copy that runs in the namespace.
const inside = "PARLEY_TEST_NAMESPACE"

// Main is a TestMain that runs the tests in a network namespace of their own,
// with nothing but a loopback. Without the right to make one the tests run where
// they are, and those that call Isolated are skipped.
func Main(m *testing.M) {
	if os.Getenv(inside) != "" || cannotIsolate() != "" {
		os.Exit(m.Run())
	}
	args := append([]string{"-n", "sh", "-c", `ip link set lo up && exec "$0" "$@"`}, os.Args...)
	again := exec.Command("unshare", args...)
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.Env = append(os.Environ(), inside+"=1")
	err := again.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit):
		os.Exit(max(1, exit.ExitCode()))
	}
	fmt.Fprintln(os.Stderr, "peers: cannot run in a namespace:", err)
	os.Exit(1)
}

// cannotIsolate says why no namespace can be made, or "".
func cannotIsolate() string {
	if u, err := user.Current(); err != nil || u.Uid != "0" {
		return "a network namespace needs root"
	}
	for _, tool := range []string{"unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "a network namespace needs " + tool
		}
	}
	if exec.Command("unshare", "-n", "true").Run() != nil {
		return "this machine makes no network namespaces"
	}
	return ""
}

// Isolated skips the test when it does not run in a namespace of its own.
func Isolated(t testing.TB) {
	t.Helper()
	if os.Getenv(inside) == "" {
		t.Skip(cannotIsolate())
	}
}

// Need skips the test when a program is missing, with the Debian package that has
// it.
func Need(t testing.TB, program, debian string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is missing; on Debian: apt-get install %s", program, debian)
	}
}
