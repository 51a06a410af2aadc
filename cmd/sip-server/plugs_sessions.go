package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"parley/agent/record"
	"parley/agent/session"
	"parley/agent/session/postgres"
	"parley/agent/session/sqlite"
	"parley/api"
	"parley/config"
)

const (
	// storePatience is how long a store may take to be opened.
	storePatience = 15 * time.Second
	// flushPatience is how long the server's end waits for records that are not written.
	flushPatience = 10 * time.Second
	// inMemory is how long a conversation is kept where nobody can read it later.
	inMemory = time.Hour
)

// keepSessions opens the store and puts every conversation on record. An echo is no
// conversation.
func (p *plugs) keepSessions(ctx context.Context, log *zap.Logger) error {
	wanted := map[string]bool{}
	for name := range p.agents {
		if p.cfg.AgentNamed(name).LLM.Provider != "echo" {
			wanted[name] = true
		}
	}
	if len(wanted) == 0 || p.cfg.Sessions.Backend == config.SessionsOff {
		p.about = append(p.about, zap.String("sessions", "off"))
		return nil
	}
	store, kept, note, err := openStore(ctx, p.cfg)
	if err != nil {
		return err
	}
	if note != "" {
		p.notes = append(p.notes, note)
	}
	p.undo = append(p.undo, func() { complainTo(log, "sessions", store.Close()) })
	p.recorder = session.NewRecorder(store, session.RecorderConfig{Logger: log})
	p.undo = append(p.undo, func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushPatience)
		defer cancel()
		complainTo(log, "records of calls", p.recorder.Close(ctx))
	})
	p.sweep(store, kept, log)
	for name := range wanted {
		p.agents[name] = record.New(p.agents[name], p.recorder, record.Config{App: config.DefaultAgent, Log: log})
	}
	p.about = append(p.about, zap.String("sessions", kept))
	return nil
}

// openStore opens what the configuration names, and says what it is.
func openStore(ctx context.Context, cfg *config.Config) (store *session.Store, kept, note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	s := cfg.Sessions
	switch s.Backend {
	case config.SessionsMemory:
		return session.NewStore(session.NewMemory()), s.Backend, "", nil
	case config.SessionsPostgres:
		store, err = postgres.Open(ctx, s.DSN.Reveal())
		return store, s.Backend, "", cfg.Complain("sessions", wrapped("dsn", err))
	}
	store, err = sqlite.Open(ctx, s.Path)
	if s.Backend == config.SessionsAuto && unwritable(err) {
		return session.NewStore(session.NewMemory()), config.SessionsMemory,
			"conversations, and what agents remember of callers, are lost when the server ends: " + s.Path +
				` cannot be made here; set sessions.path, or sessions.backend = "memory" to silence this`, nil
	}
	return store, config.SessionsSQLite + " " + s.Path, "", cfg.Complain("sessions", wrapped("path", err))
}

// wrapped puts the key before an error, where there is one.
func wrapped(key string, err error) error {
	if err == nil {
		return nil
	}
	return errors.New(key + ": " + err.Error()) // one error, whatever it joins
}

// unwritable says that a file can be neither opened nor made where it is to be.
func unwritable(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EROFS)
}

// sweep removes what is too old, now and then.
func (p *plugs) sweep(store *session.Store, kept string, log *zap.Logger) {
	keep, interval := p.cfg.Sessions.Retention(), p.cfg.Sessions.SweepInterval
	if kept == config.SessionsMemory {
		keep.Sessions, interval = inMemory, min(interval, 10*time.Minute)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		store.KeepSwept(ctx, interval, keep, func(r session.Removed, err error) {
			switch {
			case err != nil:
				log.Warn("conversations that are too old could not be removed", zap.Error(err))
			case r != session.Removed{}:
				log.Info("conversations that are too old were removed",
					zap.Int("sessions", r.Sessions), zap.Int("events", r.Events), zap.Int("values", r.Keys))
			}
		})
	}()
	p.undo = append(p.undo, func() { cancel(); <-done })
}

// sessionStats are the figures of the recorder.
func (p *plugs) sessionStats() api.Sessions {
	if p.recorder == nil {
		return api.Sessions{}
	}
	s := p.recorder.Stats()
	return api.Sessions{
		Waiting: int(s.Waiting), Written: uint64(s.Written), Retried: uint64(s.Failures), Lost: uint64(s.Lost), Forgotten: uint64(s.Forgotten),
	}
}

// checkStore says why the file of sqlite cannot be opened or made, without making it.
func checkStore(cfg *config.Config) error {
	s := cfg.Sessions
	if s.Backend != config.SessionsSQLite {
		return nil
	}
	_, err := os.Stat(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		err = creatable(filepath.Dir(s.Path))
	} else if err == nil {
		var f *os.File
		if f, err = os.OpenFile(s.Path, os.O_RDWR, 0); err == nil {
			err = f.Close()
		}
	}
	return cfg.Complain("sessions", wrapped("path", err))
}

// checkDatabase opens the store of postgres, as the server would.
func checkDatabase(ctx context.Context, cfg *config.Config) error {
	if cfg.Sessions.Backend != config.SessionsPostgres {
		return nil
	}
	store, _, _, err := openStore(ctx, cfg)
	if err != nil {
		return err
	}
	return store.Close()
}

// creatable says why no file can be made in a folder, or in the first folder above it
// that is there.
func creatable(dir string) error {
	f, err := os.CreateTemp(dir, ".check-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
