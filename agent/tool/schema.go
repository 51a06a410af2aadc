package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Bounds of what is read from outside.
const (
	maxSchema    = 256 << 10 // bytes of a schema as JSON
	maxArguments = 64 << 10  // bytes of a call's arguments as JSON
	maxDepth     = 64        // levels of nesting of either
	maxErrorText = 600       // characters of an error that a model is told
)

// validator holds values against a schema. It is safe for concurrent use.
type validator struct {
	source   Schema // a copy of our own
	compiled *jsonschema.Schema
}

// nothingElse refuses every schema that lies elsewhere: a schema of a plugin or a
// server must not make the gateway read files or the network.
type nothingElse struct{}

// Load implements jsonschema.URLLoader.
func (nothingElse) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema may not refer to %s", CleanText(url, 120))
}

// compile reads a schema. nil makes a validator that takes everything: the model
// was told of no arguments, and what it sends all the same harms nobody.
func compile(s Schema) (*validator, error) {
	if s == nil {
		return &validator{}, nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if len(text) > maxSchema {
		return nil, fmt.Errorf("%d bytes, at most %d", len(text), maxSchema)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if tooDeep(doc, maxDepth) {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nothingElse{})
	c.AssertFormat()
	if err := c.AddResource("tool:///schema", doc); err != nil {
		return nil, plain(err)
	}
	compiled, err := c.Compile("tool:///schema")
	if err != nil {
		return nil, plain(err)
	}
	v := &validator{compiled: compiled}
	if err := json.Unmarshal(text, &v.source); err != nil {
		return nil, err
	}
	return v, nil
}

// plain drops what the library adds for debuggers.
func plain(err error) error {
	return errors.New(CleanText(err.Error(), maxErrorText))
}

// check holds args against the schema. It returns a copy that holds nothing but what
// JSON can, and an error whose text tells a model what to mend.
func (v *validator) check(args map[string]any) (map[string]any, error) {
	if args == nil {
		args = map[string]any{}
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("invalid arguments: %w", err)
	}
	if len(text) > maxArguments {
		return nil, fmt.Errorf("invalid arguments: %d bytes, at most %d", len(text), maxArguments)
	}
	own, err := Object(text)
	if err != nil {
		return nil, fmt.Errorf("invalid arguments: %w", err)
	}
	if tooDeep(own, maxDepth) {
		return nil, fmt.Errorf("invalid arguments: nested more than %d deep", maxDepth)
	}
	if v.compiled == nil {
		return own, nil
	}
	// Validated with exact numbers: a float64 would make integers of what is none.
	exact, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("invalid arguments: %w", err)
	}
	err = v.compiled.Validate(exact)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return own, nil
	case errors.As(err, &invalid):
		return nil, errors.New("invalid arguments: " + CleanText(strings.Join(reasons(invalid), "; "), maxErrorText))
	}
	return nil, fmt.Errorf("invalid arguments: %w", plain(err))
}

// Object reads one JSON object, as the arguments and the results of tools are; null is an
// empty one. Numbers are float64, but for integers that a float64 cannot hold: those stay
// what they are, as json.Number, or the number of an order would become another one's.
func Object(text []byte) (map[string]any, error) {
	if !json.Valid(text) {
		return nil, errors.New("no JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	out := map[string]any{}
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	if out == nil { // null
		out = map[string]any{}
	}
	if _, err := settle(out); err != nil {
		return nil, err
	}
	return out, nil
}

// maxExact is the largest integer up to which a float64 holds each.
const maxExact = 1<<53 - 1

// settle makes float64 of the numbers in v that can be.
func settle(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if !strings.ContainsAny(v.String(), ".eE") && (err != nil || math.Abs(f) > maxExact) {
			return v, nil
		}
		return f, err
	case map[string]any:
		for key, inner := range v {
			if v[key], err = settle(inner); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, inner := range v {
			if v[i], err = settle(inner); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// reasons lists the innermost causes: "/day: value must be one of ...".
func reasons(e *jsonschema.ValidationError) []string {
	if len(e.Causes) == 0 {
		text := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
		if len(e.InstanceLocation) > 0 {
			text = "/" + strings.Join(e.InstanceLocation, "/") + ": " + text
		}
		return []string{text}
	}
	var out []string
	for _, cause := range e.Causes {
		if out = append(out, reasons(cause)...); len(out) >= 8 {
			break
		}
	}
	return out
}

// tooDeep says whether v is nested more than levels deep.
func tooDeep(v any, levels int) bool {
	if levels < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if tooDeep(e, levels-1) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if tooDeep(e, levels-1) {
				return true
			}
		}
	}
	return false
}

// clone copies a tree of maps and lists. Leaves that are neither are shared.
func clone(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = cloneValue(v)
	}
	return out
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return clone(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = cloneValue(e)
		}
		return out
	case []string:
		return append([]string(nil), v...)
	}
	return v
}
