package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// set puts a value of the file into v. raw is what TOML gives: string, int64,
// float64, bool, []any, map[string]any or a time.
func set(v reflect.Value, raw any) error {
	if v.Type() == durationType {
		s, ok := raw.(string)
		if !ok {
			return fmt.Errorf("%s, must be a time such as \"500ms\" or \"2m\"", describe(raw))
		}
		return setText(v, s)
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		s, ok := raw.(string)
		if !ok {
			return fmt.Errorf("%s, must be text in quotes", describe(raw))
		}
		return unmarshal(u, s)
	}
	switch v.Kind() {
	case reflect.String:
		if s, ok := raw.(string); ok {
			v.SetString(s)
			return nil
		}
		return fmt.Errorf("%s, must be text in quotes", describe(raw))
	case reflect.Bool:
		if b, ok := raw.(bool); ok {
			v.SetBool(b)
			return nil
		}
		return fmt.Errorf("%s, must be true or false", describe(raw))
	case reflect.Float64:
		switch n := raw.(type) {
		case float64:
			v.SetFloat(n)
			return nil
		case int64:
			v.SetFloat(float64(n))
			return nil
		}
		return fmt.Errorf("%s, must be a number", describe(raw))
	case reflect.Slice:
		return setList(v, raw)
	case reflect.Map:
		return setMap(v, raw)
	}
	n, ok := raw.(int64)
	if !ok {
		return fmt.Errorf("%s, must be a whole number", describe(raw))
	}
	return setWhole(v, n)
}

// setList puts a list of texts into v.
func setList(v reflect.Value, raw any) error {
	items, ok := raw.([]any)
	if !ok {
		return fmt.Errorf("%s, must be a list such as [\"a\", \"b\"]", describe(raw))
	}
	list := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		s, ok := item.(string)
		if !ok {
			return fmt.Errorf("item %d: %s, must be text in quotes", i+1, describe(item))
		}
		list.Index(i).SetString(s)
	}
	v.Set(list)
	return nil
}

// setMap puts texts by name into v.
func setMap(v reflect.Value, raw any) error {
	items, ok := raw.(map[string]any)
	if !ok {
		return fmt.Errorf("%s, must be a table such as { name = \"text\" }", describe(raw))
	}
	m := reflect.MakeMapWithSize(v.Type(), len(items))
	for name, item := range items {
		if v.Type().Elem().Kind() == reflect.Interface { // anything
			m.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(item))
			continue
		}
		s, ok := item.(string)
		if !ok {
			return fmt.Errorf("%q: must be text in quotes", name)
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if err := set(value, s); err != nil {
			return err
		}
		m.SetMapIndex(reflect.ValueOf(name), value)
	}
	v.Set(m)
	return nil
}

// setWhole puts n into an integer of any size.
func setWhole(v reflect.Value, n int64) error {
	switch {
	case v.CanInt() && !v.OverflowInt(n):
		v.SetInt(n)
		return nil
	case v.CanUint() && n >= 0 && !v.OverflowUint(uint64(n)):
		v.SetUint(uint64(n))
		return nil
	case v.CanUint():
		return fmt.Errorf("%d, must be between 0 and %d", n, uint64(math.MaxUint64)>>(64-v.Type().Bits()))
	}
	return fmt.Errorf("%d, is too large", n)
}

// setText puts a text of the environment into v: as in the file without the
// quotes, lists with commas between the items.
func setText(v reflect.Value, s string) error {
	if v.Type() == durationType {
		d, err := time.ParseDuration(strings.TrimSpace(s))
		if err != nil {
			return fmt.Errorf("%q, must be a time such as \"500ms\" or \"2m\"", s)
		}
		v.SetInt(int64(d))
		return nil
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return unmarshal(u, s)
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
		return nil
	case reflect.Slice:
		var items []any
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return setList(v, items)
	case reflect.Map:
		items := map[string]any{}
		for item := range strings.SplitSeq(s, ",") {
			name, text, ok := strings.Cut(item, "=")
			if name = strings.TrimSpace(name); !ok || name == "" {
				return errors.New("must be texts by name, such as a=one,b=two")
			}
			items[name] = strings.TrimSpace(text)
		}
		return setMap(v, items)
	case reflect.Bool:
		b, err := strconv.ParseBool(strings.TrimSpace(s))
		if err != nil {
			return fmt.Errorf("%q, must be true or false", s)
		}
		return set(v, b)
	case reflect.Float64:
		f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil {
			return fmt.Errorf("%q, must be a number", s)
		}
		return set(v, f)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return fmt.Errorf("%q, must be a whole number", s)
	}
	return set(v, n)
}

// unmarshal gives s to a type that reads itself. An empty text is its zero.
func unmarshal(u encoding.TextUnmarshaler, s string) error {
	if err := u.UnmarshalText([]byte(s)); err != nil {
		return fmt.Errorf("%q: %w", s, err)
	}
	return nil
}

// describe names a TOML value in an error.
func describe(raw any) string {
	switch v := raw.(type) {
	case string:
		return strconv.Quote(v)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	case time.Time:
		return "a date"
	}
	return fmt.Sprint(raw)
}
