package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// encode writes the struct v and, after its own fields, those of other that it has no
// name for.
func encode(v any, other map[string]json.RawMessage) ([]byte, error) {
	out, err := json.Marshal(v)
	if err != nil || len(other) == 0 {
		return out, err
	}
	known := fields(reflect.TypeOf(v), nil)
	b := bytes.NewBuffer(out[:len(out)-1])
	for _, name := range slices.Sorted(maps.Keys(other)) {
		if isKnown(known, name) || other[name] == nil {
			continue
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(key)
		b.WriteByte(':')
		if err := json.Compact(b, other[name]); err != nil {
			return nil, fmt.Errorf("session: field %q: %w", name, err)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// decode reads data into the struct that v points to and returns the fields that it
// has no name for.
func decode(data []byte, v any) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return nil, err
	}
	var other map[string]json.RawMessage
	if err := json.Unmarshal(data, &other); err != nil {
		return nil, err
	}
	known := fields(reflect.TypeOf(v), nil)
	maps.DeleteFunc(other, func(name string, raw json.RawMessage) bool {
		return isKnown(known, name) || string(raw) == "null"
	})
	if len(other) == 0 {
		return nil, nil
	}
	for name, raw := range other {
		var short bytes.Buffer
		if err := json.Compact(&short, raw); err != nil {
			return nil, err
		}
		other[name] = short.Bytes()
	}
	return other, nil
}

// fields appends to names the JSON names of the struct t, or of what t points to.
func fields(t reflect.Type, names []string) []string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Tag.Get("json") == "" {
			names = fields(f.Type, names)
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// isKnown compares as encoding/json does when it looks for a field.
func isKnown(known []string, name string) bool {
	return slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
}

// settle turns the numbers in v, which were read as json.Number, into float64 where
// nothing is lost by it.
func settle(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		whole := !strings.ContainsAny(v.String(), ".eE")
		if err != nil || whole && math.Abs(f) > 1<<53-1 {
			return v
		}
		return f
	case map[string]any:
		return settleMap(v)
	case []any:
		for i := range v {
			v[i] = settle(v[i])
		}
	}
	return v
}

func settleMap(m map[string]any) map[string]any {
	for k, v := range m {
		m[k] = settle(v)
	}
	return m
}

// decodeValue reads one value of the state.
func decodeValue(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("session: stored value: %w", err)
	}
	return settle(v), nil
}

// parseTimestamp reads RFC 3339 or seconds since 1970.
func parseTimestamp(raw json.RawMessage) (time.Time, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return time.Time{}, nil
	}
	if raw[0] == '"' {
		var t time.Time
		if err := json.Unmarshal(raw, &t); err != nil {
			return time.Time{}, fmt.Errorf("session: timestamp: %w", err)
		}
		return t, inRange(t)
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("session: timestamp %.40s is neither RFC 3339 nor a number of seconds", raw)
	}
	// Compared before it is converted: what an integer cannot hold would wrap around.
	if f < float64(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix()) || f >= float64(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()) {
		return time.Time{}, fmt.Errorf("session: timestamp %.40s is outside the years 0 to 9999", raw)
	}
	seconds, fraction := math.Modf(f)
	t := time.Unix(int64(seconds), int64(math.Round(fraction*1e6))*1000).UTC()
	return t, inRange(t)
}

// epoch writes t as seconds since 1970.
func epoch(t time.Time) (json.RawMessage, error) {
	if err := inRange(t); err != nil {
		return nil, err
	}
	t = t.Round(time.Microsecond)
	seconds, micros, sign := t.Unix(), int64(t.Nanosecond()/1000), ""
	if seconds < 0 { // counted from 1970 backwards, the fraction too
		total := -(seconds*1e6 + micros)
		seconds, micros, sign = total/1e6, total%1e6, "-"
	}
	return fmt.Appendf(nil, "%s%d.%06d", sign, seconds, micros), nil
}

// inRange refuses what RFC 3339 cannot write.
func inRange(t time.Time) error {
	if y := t.Year(); y < 0 || y > 9999 {
		return fmt.Errorf("%w: the year %d is outside 0 to 9999", ErrInvalid, y)
	}
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("%w: the year %d in UTC is outside 0 to 9999", ErrInvalid, y)
	}
	return nil
}
