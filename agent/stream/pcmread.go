package stream

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"unicode/utf8"

	"parley/agent"
)

// The bounds of what an agent may send as text, in characters unless it says bytes.
// docs/stream.schema.json has the same.
const (
	maxTextMessage = 64 << 10 // bytes
	maxID          = 128
	maxMarkName    = 256
	maxWords       = 4096
	maxKey         = 128
	maxHeaders     = 32
	maxHeaderValue = 256
)

// The shapes of some texts; docs/stream.schema.json has the same.
var (
	digitsShape = regexp.MustCompile(`^[0-9*#A-Da-d,]{1,64}$`)
	targetShape = regexp.MustCompile(`^[!-~]{1,256}$`)
	headerShape = regexp.MustCompile(`^[Xx]-[0-9A-Za-z-]{1,62}$`)
	valueShape  = regexp.MustCompile(`^[ -~]{0,256}$`)
)

// fields is a JSON object that is read field by field. The first thing that is wrong
// with it is kept.
type fields struct {
	m   map[string]json.RawMessage
	err error
}

// readText understands a text message of dialect PCM.
func readText(text []byte) (any, error) {
	if len(text) > maxTextMessage {
		return nil, bad("message", "is longer than %d bytes", maxTextMessage)
	}
	f := fields{}
	if err := json.Unmarshal(text, &f.m); err != nil || f.m == nil {
		return nil, bad("message", "is no JSON object")
	}
	kind := f.text("type", true, 0, maxID)
	if f.err != nil {
		return nil, f.err
	}
	c := f.command(kind)
	if f.err != nil {
		return nil, f.err
	}
	return c, nil
}

// command reads the fields of a type.
func (f *fields) command(kind string) any {
	switch kind {
	case "mark":
		return markCommand{name: f.text("name", true, 1, maxMarkName), text: f.text("text", false, 0, maxWords)}
	case "clear":
		return clearCommand{}
	case "pause", "resume":
		return pauseCommand{on: kind == "pause"}
	case "hangup":
		return hangupCommand{}
	case "transfer":
		return actCommand{action: kind, id: f.text("id", false, 0, maxID), transfer: agent.Transfer{
			To: f.shaped("to", targetShape), Attended: f.flag("attended", false), Trunk: f.text("trunk", false, 0, maxID), Headers: f.headers("headers"),
		}}
	case "dtmf":
		return actCommand{action: kind, id: f.text("id", false, 0, maxID), digits: f.shaped("digits", digitsShape)}
	case "hold":
		return actCommand{action: kind, id: f.text("id", false, 0, maxID), hold: f.flag("on", true)}
	case "config":
		c := configCommand{statistics: f.interval("statistics_ms")}
		if f.has("hear") {
			hear := f.flag("hear", true)
			c.hear = &hear
		}
		return c
	case "transcript":
		return wordsCommand{text: f.text("text", true, 1, maxWords), final: f.flag("final", true)}
	case "memory":
		return memoryCommand{key: f.text("key", true, 1, maxKey), value: f.value("value")}
	}
	return unknownCommand{kind}
}

func (f *fields) has(name string) bool {
	_, ok := f.m[name]
	return ok
}

// fail keeps the first mistake.
func (f *fields) fail(name, format string, a ...any) {
	if f.err == nil {
		f.err = bad(name, format, a...)
	}
}

// text is a string of so many characters.
func (f *fields) text(name string, required bool, least, most int) (s string) {
	if !f.has(name) {
		if required {
			f.fail(name, "is missing")
		}
		return ""
	}
	if !isString(f.m[name]) || json.Unmarshal(f.m[name], &s) != nil {
		f.fail(name, "is no string")
		return ""
	}
	if n := utf8.RuneCountInString(s); n < least || n > most {
		f.fail(name, "has %d characters, must have %d to %d", n, least, most)
		return ""
	}
	return s
}

// isString tells strings from null, which would pass for any type.
func isString(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte{'"'}) }

// shaped is a string of that shape.
func (f *fields) shaped(name string, shape *regexp.Regexp) string {
	s := f.text(name, true, 0, math.MaxInt)
	if f.err == nil && !shape.MatchString(s) {
		f.fail(name, "does not match %s", shape)
	}
	return s
}

// flag is true or false.
func (f *fields) flag(name string, required bool) bool {
	switch string(f.m[name]) {
	case "true":
		return true
	case "false":
		return false
	case "":
		if required {
			f.fail(name, "is missing")
		}
		return false
	}
	f.fail(name, "is neither true nor false")
	return false
}

// The bounds of the time between statistics, in ms; 0 is off.
const minStatistics, maxStatistics = 250, 600000

// interval is a time in ms, if it is there.
func (f *fields) interval(name string) *int {
	if !f.has(name) {
		return nil
	}
	var v float64
	if raw := f.m[name]; bytes.Equal(raw, []byte("null")) || json.Unmarshal(raw, &v) != nil {
		f.fail(name, "is no number")
		return nil
	}
	if v != math.Trunc(v) || v != 0 && (v < minStatistics || v > maxStatistics) {
		f.fail(name, "must be 0, or a whole number between %d and %d", minStatistics, maxStatistics)
		return nil
	}
	n := int(v)
	return &n
}

// headers are names and values, all strings.
func (f *fields) headers(name string) map[string]string {
	if !f.has(name) {
		return nil
	}
	var raw map[string]json.RawMessage
	if json.Unmarshal(f.m[name], &raw) != nil || raw == nil {
		f.fail(name, "is no object")
		return nil
	}
	if len(raw) > maxHeaders {
		f.fail(name, "has %d members, at most %d", len(raw), maxHeaders)
		return nil
	}
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		var value string
		switch {
		case !headerShape.MatchString(key):
			f.fail(name, "has a name that does not match %s", headerShape)
		case !isString(raw[key]) || json.Unmarshal(raw[key], &value) != nil:
			f.fail(name+"."+key, "is no string")
		case !valueShape.MatchString(value):
			f.fail(name+"."+key, "does not match %s", valueShape)
		}
		out[key] = value
	}
	return out
}

// value is anything; null is a value, too.
func (f *fields) value(name string) (v any) {
	if !f.has(name) {
		f.fail(name, "is missing")
	} else if json.Unmarshal(f.m[name], &v) != nil {
		f.fail(name, "cannot be read")
	}
	return v
}
