package tool

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Process is how a tool's process is started.
type Process struct {
	// Command is the program and its arguments. A program without a slash is looked
	// for in PATH, one with a slash that is not absolute in Dir.
	Command []string
	// Dir is its working directory; it must be there.
	Dir string
	// Pass names variables of the gateway's environment that the process gets too.
	Pass []string
	// Env are variables for the process.
	Env map[string]string
}

// Prepare makes a command of it, in a process group of its own (see KillGroup). Of the
// gateway's environment it gets PATH and what Pass names, so that no secret of the
// gateway leaks: names that begin with PARLEY_ are refused. Nothing is started yet.
func (p Process) Prepare() (*exec.Cmd, error) {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return nil, errors.New("tool: no command")
	}
	program := p.Command[0]
	if strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) {
		program = filepath.Join(p.Dir, program)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("tool: program not found: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("tool: program not found: %w", err)
	}
	env := map[string]string{"PATH": os.Getenv("PATH"), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
	for _, name := range p.Pass {
		if strings.HasPrefix(name, "PARLEY_") {
			return nil, fmt.Errorf("tool: variable %s is the gateway's own and is not passed on", CleanText(name, 80))
		}
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	for name, value := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("tool: bad name or value of variable %q", CleanText(name, 80))
		}
		env[name] = value
	}
	cmd := exec.Command(path, p.Command[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = make([]string, 0, len(env))
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	slices.Sort(cmd.Env)
	ownGroup(cmd)
	return cmd, nil
}
