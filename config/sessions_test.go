package config

import (
	"strings"
	"testing"
	"time"
)

func TestSessions(t *testing.T) {
	c := load(t, "[sessions]\nretention_days = 7\n", nil)
	if r := c.Sessions.Retention(); r.Sessions != 7*24*time.Hour || r.Users != 365*24*time.Hour {
		t.Errorf("%+v", r)
	}
	c = load(t, "[sessions]\nbackend = \"postgres\"\n", []string{"PARLEY_SESSIONS_DSN=postgres://u:hush@db/x"})
	if c.Sessions.DSN.Reveal() != "postgres://u:hush@db/x" || len(c.Warnings) != 0 {
		t.Errorf("%q %v", c.Sessions.DSN.Reveal(), c.Warnings)
	}
	c = load(t, "[sessions]\ndsn = \"postgres://db/x\"\n", nil)
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], `:2: sessions.dsn: is not used: backend is "auto", not "postgres"`) {
		t.Errorf("%v", c.Warnings)
	}
	file := write(t, "[sessions]\nbackend = \"files\"\npath = \"\"\nretention_days = -1\nuser_retention_days = 40000\nsweep_interval = \"1s\"\n")
	_, err := Load(file, nil)
	want := strings.ReplaceAll(`FILE:2: sessions.backend: "files", must be one of auto, memory, sqlite, postgres, off
FILE:4: sessions.retention_days: -1, must be between 0, which is for ever, and 36500
FILE:5: sessions.user_retention_days: 40000, must be between 0, which is for ever, and 36500
FILE:6: sessions.sweep_interval: 1s, must be at least 1m`, "FILE", file)
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	for text, want := range map[string]string{
		"[sessions]\nbackend = \"sqlite\"\npath = \"\"\n": ":3: sessions.path: must name a file",
		"[sessions]\nbackend = \"postgres\"\n":            ": sessions.dsn: must be set, such as",
	} {
		if _, err := Load(write(t, text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}
