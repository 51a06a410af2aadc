package config

import "slices"

// Complain gives what was found wrong with a section, after Load, the place in the
// file: err is that of the room, or of a part that was made of it, and may join
// several. A section of an agent is "agents.NAME.SECTION". Without an error there
// is none.
func (c *Config) Complain(section string, err error) error {
	if err == nil {
		return nil
	}
	l := loader{config: c, keys: keys(c)} // for a Config that was not loaded
	if c.loaded != nil {
		l = *c.loaded
		l.keys, l.mistakes = slices.Clone(l.keys), nil
	}
	l.room(section, err)
	return l.mistakes.sorted()
}
