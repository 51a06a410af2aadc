package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxBody is the largest body in bytes, maxDepth how deep it may nest.
const (
	maxBody  = 64 << 10
	maxDepth = 8
)

// readBody decodes the body of r, which must be one JSON object with the fields of
// the struct v points at, each at most once and under its exact name. It returns
// what the client sent.
func readBody(w http.ResponseWriter, r *http.Request, v any) ([]byte, error) {
	// Browsers send this type to another origin only after asking it, so a page of a
	// stranger cannot (CSRF).
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, set := params["charset"]
	if err != nil || kind != "application/json" || set && !strings.EqualFold(charset, "utf-8") {
		return nil, trouble(http.StatusUnsupportedMediaType, "content_type", "The body must be JSON.",
			"Send Content-Type: application/json.").with("Accept", "application/json")
	}
	if r.Header.Get("Content-Encoding") != "" {
		return nil, trouble(http.StatusUnsupportedMediaType, "content_encoding", "Encoded bodies are not read.",
			"Send the body as it is.").with("Accept-Encoding", "identity")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, trouble(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("The body is larger than %d bytes.", maxBody), "Send less.")
	case err != nil:
		return nil, notJSON("The body could not be read to its end.")
	}
	return body, parseBody(body, v)
}

// parseBody is readBody once the body is there. An empty one is an empty object.
func parseBody(body []byte, v any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	if !utf8.Valid(body) {
		return notJSON("The body is not UTF-8.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // whether it fits is a question for the field
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return notJSON("The body is not a JSON object.")
	}
	if err := strictObject(d, "", fieldsOf(v), 1); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return notJSON("Something follows the JSON object.")
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(body, v); errors.As(err, &wrong) {
		return wrongField(wrong.Field, "It is a "+wrong.Value+".", "Send a "+jsonType(wrong.Type)+".")
	} else if err != nil {
		return notJSON("The body is not valid JSON.")
	}
	return nil
}

func notJSON(detail string) *problem {
	return trouble(http.StatusBadRequest, "bad_json", detail, "Send one JSON object in UTF-8, as the OpenAPI description says.")
}

// strictObject reads an object after its brace and refuses what encoding/json lets
// pass: names twice or in other letters, names that nobody reads, null. known are
// the names there may be, nil for any.
func strictObject(d *json.Decoder, path string, known []string, depth int) error {
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return notJSON("The body is not valid JSON.")
		}
		field := strings.TrimPrefix(path+"."+name, ".")
		if seen[name] {
			return wrongField(shorten(field), "The field is there twice.", "Send it once.")
		}
		seen[name] = true
		if known != nil && !slices.Contains(known, name) {
			return trouble(http.StatusBadRequest, "unknown_field", "There is no such field.", "Leave it out; there are: "+strings.Join(known, ", ")+".").on(shorten(field))
		}
		if err := strictValue(d, field, depth); err != nil {
			return err
		}
	}
	return closing(d)
}

// strictValue reads a value.
func strictValue(d *json.Decoder, path string, depth int) error {
	t, err := d.Token()
	if err != nil {
		return notJSON("The body is not valid JSON.")
	}
	if depth >= maxDepth {
		return wrongField(shorten(path), fmt.Sprintf("It nests deeper than %d.", maxDepth), "Send something flatter.")
	}
	switch t {
	case nil:
		return wrongField(shorten(path), "It is null.", "Leave the field out instead.")
	case json.Delim('{'):
		return strictObject(d, path, nil, depth+1)
	case json.Delim('['):
		for d.More() {
			if err := strictValue(d, path, depth+1); err != nil {
				return err
			}
		}
		return closing(d)
	}
	return nil
}

// closing reads the brace or bracket at the end.
func closing(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return notJSON("The body is not valid JSON.")
	}
	return nil
}

// fieldsOf are the JSON names of the struct that v points at, in order.
func fieldsOf(v any) []string {
	out := []string{} // an object without fields takes none
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// jsonType names what a field of Go type t is in JSON.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Float64:
		return "number without a fraction"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return "string"
}
