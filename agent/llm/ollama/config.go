// Package ollama runs models behind any service that speaks the API of Ollama.
package ollama

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Config says where the service is and which model to run. Start from DefaultConfig.
type Config struct {
	// BaseURL is the service's address, http or https, such as
	// "http://127.0.0.1:11434". "/api/chat" is added to its path; a path that ends in
	// "/api" or "/api/chat" is taken as that. A query is kept.
	BaseURL string
	// APIKey is sent as "Authorization: Bearer …". Empty: no such header. It is in no
	// log and no error.
	APIKey string
	// Model is the model's name.
	Model string
	// Header goes with each request. The values are secrets.
	Header map[string]string

	// MaxTokens bounds the answers to requests that do not say; 0: the model's own
	// bound.
	MaxTokens int
	// Temperature is for requests that do not say; nil: the model's own.
	Temperature *float64
	// Think is whether models that can reason do: "on", "off", "low", "medium",
	// "high". Empty: the model's own.
	Think string
	// KeepAlive is how long the model stays in memory after a request; 0: the
	// service's own time, negative: for ever.
	KeepAlive time.Duration
	// Options are further options of the model, such as "num_ctx".
	Options map[string]any

	// EmbeddingModel is the model of Embed.
	EmbeddingModel string

	// Transport, when set, replaces the pool of connections.
	Transport http.RoundTripper
}

// DefaultConfig is a Config that lacks nothing but the model.
func DefaultConfig() Config {
	return Config{BaseURL: "http://127.0.0.1:11434"}
}

// reserved are the options that Config.Options may not set.
var reserved = []string{"temperature", "num_predict"}

// Validate reports everything that is wrong with c, each with the setting's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if _, err := c.address(); err != nil {
		errs = append(errs, err)
	}
	if c.Model == "" && c.EmbeddingModel == "" {
		bad("model: must be set, such as \"llama3.2\"")
	}
	if !visible(c.APIKey) {
		bad("api_key: holds white space, a line break or a character that no header can carry")
	}
	for name, value := range c.Header {
		if name == "" || !visible(name) || strings.ContainsAny(value, "\r\n\x00") {
			bad("header: %q or its value is none that a request can carry", name)
		}
	}
	if c.MaxTokens < 0 {
		bad("max_tokens: %d, must not be negative", c.MaxTokens)
	}
	if t := c.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		bad("temperature: %v, must be between 0 and 2", *t)
	}
	if !slices.Contains([]string{"", "on", "off", "low", "medium", "high"}, c.Think) {
		bad("think: %q, must be \"on\", \"off\", \"low\", \"medium\" or \"high\"", c.Think)
	}
	for _, name := range reserved {
		if _, there := c.Options[name]; there {
			bad("options: %s has a setting of its own", name)
		}
	}
	return errors.Join(errs...)
}

func visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// address is where "/api" of the service is.
func (c Config) address() (*url.URL, error) {
	u, err := url.Parse(c.BaseURL)
	switch {
	case c.BaseURL == "":
		return nil, errors.New("base_url: must be set, such as \"http://127.0.0.1:11434\"")
	case err != nil: // url's own error repeats the address, and a secret in it
		return nil, errors.New("base_url: is no address, must be such as \"http://127.0.0.1:11434\"")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("base_url: must begin with http:// or https:// and name a host")
	case u.User != nil:
		return nil, errors.New("base_url: must not hold a user or password; set api_key instead")
	}
	path := strings.TrimRight(u.Path, "/")
	path = strings.TrimSuffix(strings.TrimSuffix(path, "/chat"), "/api")
	u.Path, u.RawPath, u.Fragment = path+"/api", "", ""
	return u, nil
}
