package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"parley/sip"
)

// Auth is whom we take calls from.
type Auth struct {
	sip.Access
	// Users may call from anywhere, by their passwords.
	Users map[string]*User
}

// User is one of auth.users.
type User struct {
	// Password is what the user's telephone answers challenges with.
	Password Secret
	// PasswordFile names a file that holds it.
	PasswordFile string
}

// Passwords are those of auth.users.
func (c *Config) Passwords() map[string]string {
	out := make(map[string]string, len(c.Auth.Users))
	for name, u := range c.Auth.Users {
		out[name] = u.Password.Reveal()
	}
	return out
}

// readUsers reads auth.users.
func (l *loader) readUsers(raw any) {
	l.config.Auth.Users = map[string]*User{}
	l.readNamed("auth.users", raw, "a password", "password", func(name string) reflect.Value {
		u := &User{}
		l.config.Auth.Users[name] = u
		return reflect.ValueOf(u).Elem()
	})
}

// readAPIKeys reads api.keys.
func (l *loader) readAPIKeys(raw any) {
	l.config.API.Keys = map[string]*APIKey{}
	l.readNamed("api.keys", raw, "a key", "key", func(name string) reflect.Value {
		k := &APIKey{}
		l.config.API.Keys[name] = k
		return reflect.ValueOf(k).Elem()
	})
}

// readNamed reads a section of secrets by name: each a text in quotes, which is the
// key secret of a table, or that table. add makes room for one.
func (l *loader) readNamed(section string, raw any, what, secret string, add func(name string) reflect.Value) {
	table, ok := raw.(map[string]any)
	if !ok {
		l.wrong(section, "must be a section such as ["+section+"]")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		path := section + "." + name
		keys := appendKeys(nil, path, add(name), nil)
		for i := range keys {
			keys[i].env = "" // there is no end of names
		}
		l.keys = append(l.keys, keys...)
		switch value := table[name].(type) {
		case string:
			l.readTable(path, map[string]any{secret: value})
		case map[string]any:
			l.readTable(path, value)
		default:
			l.wrong(path, "must be "+what+" in quotes, or { "+secret+"_file = \"…\" }")
		}
	}
}

// validateAPI asks the room about [api].
func (l *loader) validateAPI() {
	c := l.config
	for _, err := range leaves(c.APIConfig().Validate()) {
		text := strings.TrimPrefix(err.Error(), "api: ")
		var name string
		if rest, ok := strings.CutPrefix(text, "keys: "); ok { // of one key, by its name
			if _, err := fmt.Sscanf(rest, "%q", &name); err == nil && c.API.Keys[name] != nil {
				if path := "api.keys." + name; !l.complained(path) {
					l.wrong(path, strings.TrimPrefix(rest, fmt.Sprintf("%q: ", name)))
				}
				continue
			}
		}
		l.room("api", err)
	}
	if c.API.Tokens && !c.TokenConfig().Enabled() {
		l.wrong("api.tokens", "no token counts: set [identity.token]")
	}
}

// validateAuth asks the room about [auth].
func (l *loader) validateAuth() {
	a := l.config.Auth
	l.room("auth", a.Validate())
	for _, name := range slices.Sorted(maps.Keys(a.Users)) {
		path := "auth.users." + name
		if strings.TrimSpace(name) == "" || strings.ContainsFunc(name, unicode.IsControl) {
			l.wrong(path, "is no name of a user")
		}
		// A file that could not be read has been complained about.
		if u := a.Users[name]; u.Password.Reveal() == "" && u.PasswordFile == "" && !l.complained(path) {
			l.wrong(path, "needs a password")
		}
	}
	if a.Required == sip.RequireAlways && len(a.Users) == 0 {
		l.wrong("auth.required", `"always" needs at least one of [auth.users], or nobody may call`)
	}
}
