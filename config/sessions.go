package config

import (
	"fmt"
	"time"

	"parley/agent/session"
)

// The values of sessions.backend.
const (
	SessionsAuto     = "auto"
	SessionsMemory   = "memory"
	SessionsSQLite   = "sqlite"
	SessionsPostgres = "postgres"
	SessionsOff      = "off"
)

// Backends may stand in sessions.backend: auto is sqlite where its file can be made,
// else memory.
var Backends = []string{SessionsAuto, SessionsMemory, SessionsSQLite, SessionsPostgres, SessionsOff}

// Sessions is where conversations are kept, and for how long.
type Sessions struct {
	// Backend is one of Backends.
	Backend string
	// Path is the file of sqlite.
	Path string
	// DSN is the database of postgres, as a URL or as "key=value" words.
	DSN Secret
	// DSNFile names a file that holds it.
	DSNFile string
	// RetentionDays is how long a conversation is kept after its last event, in days.
	// 0: for ever.
	RetentionDays int
	// UserRetentionDays is how long what is known of a caller is kept after it changed
	// last, when no conversation is left, in days. 0: for ever.
	UserRetentionDays int
	// SweepInterval is how often what is too old is removed.
	SweepInterval time.Duration
}

// defaultSessions is a file beside whatever else the server keeps.
func defaultSessions() Sessions {
	return Sessions{
		Backend: SessionsAuto, Path: "parley.db", RetentionDays: 30, UserRetentionDays: 365, SweepInterval: time.Hour,
	}
}

const day = 24 * time.Hour

// Retention is how long things are kept.
func (s Sessions) Retention() session.Retention {
	return session.Retention{Sessions: time.Duration(s.RetentionDays) * day, Users: time.Duration(s.UserRetentionDays) * day}
}

// maxRetention is a hundred years, in days.
const maxRetention = 36500

// validateSessions checks [sessions].
func (l *loader) validateSessions() {
	s := l.config.Sessions
	l.choice("sessions.backend", s.Backend, Backends)
	for name, days := range map[string]int{"retention_days": s.RetentionDays, "user_retention_days": s.UserRetentionDays} {
		if days < 0 || days > maxRetention {
			l.wrong("sessions."+name, fmt.Sprintf("%d, must be between 0, which is for ever, and %d", days, maxRetention))
		}
	}
	if s.SweepInterval < time.Minute {
		l.wrong("sessions.sweep_interval", fmt.Sprintf("%v, must be at least 1m", s.SweepInterval))
	}
	if s.Path == "" && (s.Backend == SessionsSQLite || s.Backend == SessionsAuto) {
		l.wrong("sessions.path", "must name a file")
	}
	given := s.DSN.Reveal() != "" || s.DSNFile != ""
	switch {
	case s.Backend == SessionsPostgres && !given:
		l.wrong("sessions.dsn", `must be set, such as "postgres://parley@db.example.com/parley", or PARLEY_SESSIONS_DSN, or dsn_file`)
	case s.Backend != SessionsPostgres && given:
		l.warn("sessions.dsn", fmt.Sprintf(`is not used: backend is %q, not "postgres"`, s.Backend))
	}
}
