// Command sip-server is Parley: it puts an AI agent on the telephone. This file
// is its command line; serve.go is the life of the server and plugs.go what it
// is made of.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// commands is the command line.
type commands struct {
	Serve     serveCmd     `cmd:"" help:"Answer calls until SIGTERM or SIGINT."`
	Check     checkCmd     `cmd:"" help:"Say all that is wrong with a configuration."`
	RouteTest routeTestCmd `cmd:"" name:"route-test" help:"Say what would become of a call, and why."`
	Sessions  sessionsCmd  `cmd:"" help:"Look at conversations on record."`
	Plugins   pluginsCmd   `cmd:"" help:"Start plugins and MCP servers, and say what they offer."`
	Forget    forgetCmd    `cmd:"" help:"Remove all that is kept of a caller."`
	Demo      demoCmd      `cmd:"" help:"Place a real call over loopback and show it."`
	Version   versionCmd   `cmd:"" help:"Say which build this is."`
}

// configFlag is how a command is told its configuration.
type configFlag struct {
	Config string `short:"c" type:"path" env:"PARLEY_CONFIG" placeholder:"FILE" help:"Configuration file; without one the defaults are used (${env})."`
}

// stage is the outside world as a command sees it.
type stage struct {
	ctx         context.Context // done never; commands handle signals themselves
	environ     []string
	out, errOut io.Writer
	signals     func() (<-chan os.Signal, func())
	reloads     func() (<-chan os.Signal, func()) // nil: nothing is read again
}

// errReported is returned by a command that has already said what is wrong.
var errReported = errors.New("reported")

// exit is an error that has been said, with a status of its own.
type exit int

// Error names the status.
func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func main() {
	os.Exit(run(os.Args[1:], &stage{
		ctx: context.Background(), environ: os.Environ(),
		out: os.Stdout, errOut: os.Stderr, signals: terminationSignals, reloads: reloadSignals,
	}))
}

// run executes the command line and returns the exit status.
func run(args []string, s *stage) int {
	var cli commands
	code := -1
	parser, err := kong.New(&cli,
		kong.Name("sip-server"),
		kong.Description("Parley, a SIP voice gateway for AI agents."),
		kong.UsageOnError(),
		kong.Writers(s.out, s.errOut),
		kong.Exit(func(c int) { code = c }),
		kong.Bind(s),
	)
	if err != nil {
		fmt.Fprintln(s.errOut, "sip-server:", err)
		return 2
	}
	command, err := parser.Parse(args)
	switch {
	case code >= 0: // --help has answered
		return code
	case err != nil:
		parser.FatalIfErrorf(err)
		return 2
	}
	switch err := command.Run(); {
	case err == nil:
		return 0
	default:
		if code, ok := errors.AsType[exit](err); ok {
			return int(code)
		}
		if errors.Is(err, errReported) {
			break
		}
		fmt.Fprintln(s.errOut, "sip-server:", err)
	}
	return 1
}

// versionCmd says which build this is.
type versionCmd struct{}

// Run prints the version, the commit and what the build can do.
func (versionCmd) Run(s *stage) error {
	version, commit := build()
	speech := "with embedded speech"
	if !embeddedSpeech {
		speech = "without embedded speech (built without cgo)"
	}
	_, err := fmt.Fprintf(s.out, "sip-server %s %s %s %s/%s, %s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, speech)
	return err
}

// build is the version and commit that the Go tool wrote into the program.
func build() (version, commit string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)", "(unknown)"
	}
	version, commit = info.Main.Version, "(no commit)"
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			commit += "+"
		}
	}
	return version, commit
}
