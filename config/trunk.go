package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"parley/sip"
)

// Trunk is a peer that we register with: a [[trunk]] of the file.
type Trunk struct {
	// Password answers the trunk's challenges.
	Password Secret
	// PasswordFile names a file that holds it.
	PasswordFile string
	sip.Trunk
	sip.TLS `hide:"client_auth"` // for connections to the trunk; empty is [tls]
}

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

// Trunks are the trunks to register with.
func (c *Config) Trunks() []sip.Trunk {
	var out []sip.Trunk
	for i := range c.Trunk {
		t := c.Trunk[i].Trunk
		t.Password, t.TLS = c.Trunk[i].Password.Reveal(), c.Trunk[i].TLS
		out = append(out, t)
	}
	return out
}

// Passwords are those of auth.users.
func (c *Config) Passwords() map[string]string {
	out := make(map[string]string, len(c.Auth.Users))
	for name, u := range c.Auth.Users {
		out[name] = u.Password.Reveal()
	}
	return out
}

// trunkSection is the section of the i-th trunk's keys.
func trunkSection(i int) string { return fmt.Sprintf("trunk[%d]", i) }

// readTrunks reads all [[trunk]].
func (l *loader) readTrunks(raw any) {
	list, ok := raw.([]any)
	if !ok {
		l.wrong("trunk", "must be written [[trunk]], once for each")
		return
	}
	for range list { // keys point into the slice, which must not move any more
		l.config.Trunk = append(l.config.Trunk, Trunk{Trunk: sip.DefaultTrunk()})
	}
	for i, one := range list {
		section, v := trunkSection(i), reflect.ValueOf(&l.config.Trunk[i]).Elem()
		keys := appendKeys(nil, section, v, nil)
		for j := range keys {
			keys[j].env = "" // but for the password; see nameTrunks
		}
		l.keys = append(l.keys, keys...)
		table, ok := one.(map[string]any)
		if !ok {
			l.wrong("trunk", "must be written [[trunk]], once for each")
			return
		}
		l.readTable(section, table)
	}
	l.nameTrunks()
}

// nameTrunks gives every trunk's password its variable,
// PARLEY_TRUNK_NAME_PASSWORD, and sees that it is one trunk's alone.
func (l *loader) nameTrunks() {
	taken := map[string]string{}
	for i := range l.config.Trunk {
		name := l.config.Trunk[i].Name
		env := "PARLEY_TRUNK_" + variable(name) + "_PASSWORD"
		if other, ok := taken[env]; ok && name != "" {
			l.wrong(trunkSection(i)+".name", fmt.Sprintf("%q is too much like %q: both have the variable %s", name, other, env))
			continue
		}
		taken[env] = name
		for j := range l.keys {
			if l.keys[j].path() == trunkSection(i)+".password" {
				l.keys[j].env = env
			}
		}
	}
}

// variable is a name as part of an environment variable's.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return '_'
		}
		return unicode.ToUpper(r)
	}, name)
}

// validateTrunks asks the room about each trunk.
func (l *loader) validateTrunks() {
	udp := slices.ContainsFunc(l.config.SIP.Listen, func(s string) bool { return strings.HasPrefix(s, "udp://") })
	for i, t := range l.config.Trunks() {
		section := trunkSection(i)
		for _, err := range leaves(t.Validate()) {
			text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "sip: trunk."), "tls: ")
			l.room(section, errors.New(text))
		}
		if t.User == "" && !l.complained(section+".user") {
			l.wrong(section+".user", "must be set: who is registered")
		}
		if t.Transport == "udp" && !udp {
			l.wrong(section+".transport", "udp needs a udp:// address in sip.listen")
		}
	}
	if len(l.config.Trunk) > 0 && l.config.Auth.Required == sip.RequireAlways {
		l.config.Warnings = append(l.config.Warnings, `auth.required = "always" asks trunks for passwords too: calls of trunks that cannot answer are refused`)
	}
}

// readUsers reads auth.users: a name and a password, or a table that has one.
func (l *loader) readUsers(raw any) {
	const section = "auth.users"
	table, ok := raw.(map[string]any)
	if !ok {
		l.wrong(section, "must be a section such as [auth.users]")
		return
	}
	l.config.Auth.Users = make(map[string]*User, len(table))
	for _, name := range slices.Sorted(maps.Keys(table)) {
		u := &User{}
		l.config.Auth.Users[name] = u
		path := section + "." + name
		password := key{section: path, name: "password", value: reflect.ValueOf(&u.Password).Elem()}
		file := key{section: path, name: "password_file", value: reflect.ValueOf(&u.PasswordFile).Elem()}
		l.keys = append(l.keys, password, file)
		switch value := table[name].(type) {
		case string:
			u.Password = NewSecret(value)
		case map[string]any:
			l.readTable(path, value)
		default:
			l.wrong(path, "must be a password in quotes, or { password_file = \"…\" }")
		}
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

// complained says that there is a mistake at path or below.
func (l *loader) complained(path string) bool {
	return slices.ContainsFunc(l.mistakes, func(m Mistake) bool {
		return m.Path == path || strings.HasPrefix(m.Path, path+".")
	})
}
