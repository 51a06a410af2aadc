package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"parley/agent/session"
	"parley/config"
	"parley/identity"
)

// forgetCmd removes all that is kept of a caller. The server may run meanwhile.
type forgetCmd struct {
	configFlag
	Caller string `arg:"" help:"Telephone number, or another id that the caller is known by."`
	Region string `help:"Country of a national number; that of [identity] when left out." placeholder:"US"`
}

// Run removes it and says what was removed.
func (c forgetCmd) Run(s *stage) error {
	cfg, err := loadFor(s, c.Config)
	if err != nil {
		return err
	}
	if err := identity.ValidateRegion(c.Region); err != nil {
		return err
	}
	if strings.TrimSpace(c.Caller) == "" {
		return errors.New("forget: the caller is empty; name a number, such as +12025550143, or an id that `sip-server sessions list` shows")
	}
	id := callerID(c.Caller, cmp.Or(c.Region, cfg.Identity.Region))
	store, err := existingStore(s.ctx, cfg)
	if err != nil {
		return err
	}
	removed, err := store.Forget(s.ctx, id)
	if err = errors.Join(err, store.Close()); err != nil {
		return fmt.Errorf("not everything was removed, try again: %w", err)
	}
	if removed == (session.Removed{}) {
		fmt.Fprintf(s.out, "nothing is kept of %s\n", id)
	} else {
		fmt.Fprintf(s.out, "removed of %s: %s, %s, %s\n", id,
			counted(removed.Sessions, "conversation"), counted(removed.Events, "event"), counted(removed.Keys, "value"))
	}
	for _, other := range []struct{ what, dir string }{
		{"events", cfg.Call.EventsDir}, {"recordings", recordingDir(cfg)},
	} {
		if other.dir != "" {
			fmt.Fprintf(s.out, "note: %s of calls are in %s: those are not touched\n", other.what, other.dir)
		}
	}
	return nil
}

// recordingDir is where calls are recorded to; empty: they are not.
func recordingDir(cfg *config.Config) string {
	if cfg.Recording.When == "never" {
		return ""
	}
	return cfg.Recording.Dir
}

// counted is a number of things in words.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// callerID is the id of a caller who is named on the command line: a number as it is
// kept, or the text itself when it is none.
func callerID(named, region string) string { return cmp.Or(identity.E164(named, region), named) }

// loadFor loads the configuration of a command that looks at what a server keeps.
func loadFor(s *stage, file string) (*config.Config, error) {
	cfg, err := config.Load(file, s.environ)
	if err != nil {
		fmt.Fprintln(s.errOut, err)
		return nil, errReported
	}
	return cfg, nil
}

// existingStore opens the store that a server keeps; it makes none.
func existingStore(ctx context.Context, cfg *config.Config) (*session.Store, error) {
	switch cfg.Sessions.Backend {
	case config.SessionsOff:
		return nil, errors.New(`sessions.backend is "off": no conversation is kept`)
	case config.SessionsMemory:
		return nil, errors.New(`sessions.backend is "memory": conversations are in the server's own memory, out of reach of this command, and gone when it is restarted`)
	case config.SessionsSQLite, config.SessionsAuto:
		if _, err := os.Stat(cfg.Sessions.Path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("sessions.path: there is no %s here; a relative path begins in the server's working directory, run this there", cfg.Sessions.Path)
		} else if err != nil {
			return nil, cfg.Complain("sessions", wrapped("path", err))
		}
		only := *cfg
		only.Sessions.Backend = config.SessionsSQLite
		cfg = &only
	}
	store, _, _, err := openStore(ctx, cfg)
	return store, err
}
