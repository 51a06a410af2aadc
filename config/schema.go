package config

import (
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Secret is a text that is never printed, logged or written back. Its zero value
// is no secret.
type Secret struct{ text string }

// NewSecret makes a Secret of text.
func NewSecret(text string) Secret { return Secret{text} }

// String hides the secret.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return "[secret]"
}

// GoString hides it from %#v too.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides it from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText sets it.
func (s *Secret) UnmarshalText(text []byte) error {
	s.text = string(text)
	return nil
}

// Equal says whether both are the same.
func (s Secret) Equal(other Secret) bool { return s == other }

// Reveal is the secret itself, for the one place that needs it.
func (s Secret) Reveal() string { return s.text }

// key is one setting: its name in the file, its name in the environment, and the
// place of its value in a Config.
type key struct {
	section, name string
	env           string
	value         reflect.Value
}

func (k key) path() string { return k.section + "." + k.name }

var durationType = reflect.TypeFor[time.Duration]()

// keys lists the settings of c in the order of its fields. The rooms' own Config
// structs are the schema: a field MaxCalls of section Call is the key
// call.max_calls and the variable PARLEY_CALL_MAX_CALLS. A `key` tag renames a
// field, `key:"-"` leaves it out, and on an embedded struct a `hide` tag leaves
// out the named fields of it. Fields that no file can hold (functions,
// interfaces, pointers) are left out.
func keys(c *Config) []key {
	return appendSections(nil, "", reflect.ValueOf(c).Elem())
}

// appendSections appends the keys of the fields of struct v, each of which is a
// section of that prefix. Those of an embedded struct are sections like others.
func appendSections(out []key, prefix string, v reflect.Value) []key {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch name := keyName(f); {
		case name == "-" || !f.IsExported() || f.Type.Kind() != reflect.Struct:
		case f.Anonymous:
			out = appendSections(out, prefix, v.Field(i))
		default:
			out = appendKeys(out, prefix+name, v.Field(i), nil)
		}
	}
	return out
}

// appendKeys appends the fields of struct v, minding names in taken, which an
// outer struct has defined anew.
func appendKeys(out []key, section string, v reflect.Value, taken []string) []key {
	var embedded []int
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			embedded = append(embedded, i)
			continue
		}
		name := keyName(f)
		if name == "-" || !f.IsExported() || !settable(f.Type) || slices.Contains(taken, name) {
			continue
		}
		taken = append(taken, name)
		out = append(out, key{
			section: section, name: name, value: v.Field(i),
			env: "PARLEY_" + variable(section) + "_" + variable(name),
		})
	}
	for _, i := range embedded {
		hidden := strings.Split(v.Type().Field(i).Tag.Get("hide"), ",")
		out = appendKeys(out, section, v.Field(i), append(slices.Clone(taken), hidden...))
	}
	return out
}

// settable says whether a file can hold a value of type t.
func settable(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(textType) {
		return true
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float64,
		reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Slice:
		return t.Elem().Kind() == reflect.String
	case reflect.Map:
		return t.Key().Kind() == reflect.String && (t.Elem().Kind() == reflect.String || t.Elem() == secretType || t.Elem().Kind() == reflect.Interface)
	}
	return false
}

var secretType = reflect.TypeFor[Secret]()

// secret says whether v is a secret, or holds some.
func secret(v reflect.Value) bool {
	return v.Type() == secretType || v.Kind() == reflect.Map && v.Type().Elem() == secretType
}

// keyName is the name of a field in the file.
func keyName(f reflect.StructField) string {
	if tag := f.Tag.Get("key"); tag != "" {
		return tag
	}
	return snake(f.Name)
}

// snake turns a Go name into a key: MaxCalls max_calls, T1 t1, APIKey api_key,
// DSCP dscp, EventsDir events_dir, CallerIDs caller_ids.
func snake(name string) string {
	var b strings.Builder
	rs := []rune(name)
	for i, r := range rs {
		if unicode.IsUpper(r) && i > 0 {
			afterLower := !unicode.IsUpper(rs[i-1])
			beforeLower := i+1 < len(rs) && unicode.IsLower(rs[i+1]) && string(rs[i+1:]) != "s" // a plural
			if afterLower || beforeLower {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
