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
	l.readNamed("auth.users", raw, named{
		what: `a password in quotes, or { password_file = "…" }`, text: "password",
		add: func(name string) reflect.Value {
			u := &User{}
			l.config.Auth.Users[name] = u
			return reflect.ValueOf(u).Elem()
		},
	})
}

// readAPIKeys reads api.keys.
func (l *loader) readAPIKeys(raw any) {
	l.config.API.Keys = map[string]*APIKey{}
	l.readNamed("api.keys", raw, named{
		what: `a key in quotes, or { key_file = "…" }`, text: "key",
		add: func(name string) reflect.Value {
			k := &APIKey{}
			l.config.API.Keys[name] = k
			return reflect.ValueOf(k).Elem()
		},
	})
}

// named is what a section by name holds.
type named struct {
	// what one must be, for errors.
	what string
	// text is the key that one which is a text in quotes, not a table, is the value of.
	// Empty: it must be a table.
	text string
	// add makes room for one.
	add func(name string) reflect.Value
	// variables begins the names of the environment variables of secrets, before the
	// name and the key. Empty: there are none.
	variables string
}

// readNamed reads a section whose keys are names that the operator gave.
func (l *loader) readNamed(section string, raw any, n named) {
	table, ok := raw.(map[string]any)
	if !ok {
		l.wrong(section, "must be a section such as ["+section+"]")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		path := section + "." + name
		keys := appendKeys(nil, path, n.add(name), nil)
		for i := range keys {
			env := ""
			if secret(keys[i].value) && n.variables != "" {
				env = n.variables + variable(name) + "_" + variable(keys[i].name)
			}
			keys[i].env = env // of the others there is no end
		}
		l.keys = append(l.keys, keys...)
		value, isText := table[name].(string)
		inner, isTable := table[name].(map[string]any)
		switch {
		case isText && n.text != "":
			l.readTable(path, map[string]any{n.text: value})
		case isTable:
			l.readTable(path, inner)
		default:
			l.wrong(path, "must be "+n.what)
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
