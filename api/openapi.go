package api

import (
	_ "embed"
	"net/http"
)

// descriptionYAML is the OpenAPI description of everything in routes.
//
//go:embed openapi.yaml
var descriptionYAML []byte

// descriptionJSON is the same; the tests write it (go test ./api -run
// TestDescriptionsAgree -update).
//
//go:embed openapi.json
var descriptionJSON []byte

// document is a GET of a file.
func document(kind string, text []byte) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ client) error {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text) // the client left: nothing to do about it
		return nil
	}
}
